"""A sign-in by an issuer, and to whom its token may be shown."""

import base64
import json
from typing import Any, NamedTuple
from urllib.parse import urlsplit

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class SignedIn(NamedTuple):
    """A sign-in by an issuer, as its client. `token`: an ID token; `refresh_token`: empty where it gave none."""

    issuer: str
    client_id: str
    token: str
    refresh_token: str

    @property
    def claims(self) -> dict[str, Any]:
        """The claims of the token, which the server verifies; empty where they can't be read."""
        text = self.token.split(".")[1] if self.token.count(".") == 2 else ""
        try:
            claims = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except ValueError:
            return {}
        return claims if isinstance(claims, dict) else {}

    @property
    def until_s(self) -> float:
        """The end of the token, in seconds since 1970."""
        end = self.claims.get("exp")
        return float(end) if isinstance(end, int | float) else 0.0


def may_be_shown_to(url: str) -> bool:
    """Whether nobody on the way to a server reads what is sent there."""
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in LOOPBACK
