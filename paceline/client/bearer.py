"""The token of a cell as HTTP carries it: `Authorization: Bearer TOKEN` (RFC 6750); the scheme in any case."""

import hmac
import re

SCHEME = "bearer"
_UNFIT = re.compile("[^ -~]")


def shown(header: str | None) -> str:
    """The token in the header Authorization; empty where it has none, or one for another scheme."""
    scheme, _, token = (header or "").partition(" ")
    return token.strip() if scheme.lower() == SCHEME else ""


def shows(header: str | None, token: str) -> bool:
    """Whether the header Authorization has this token. Takes as long for each wrong one."""
    in_header = shown(header)
    return bool(in_header) and hmac.compare_digest(in_header.encode("utf-8", "replace"), token.encode())


def unfit(token: str) -> str:
    """Why a text can't be the token of a cell, without quoting it; empty: it may be one."""
    if not token:
        return "it is empty"
    match = _UNFIT.search(token)
    if match is None:
        return ""
    where = f"character {match.start() + 1} of {len(token)}"
    return f"a token has printable ASCII characters alone, and {where} is U+{ord(match[0]):04X}"
