"""Tells answers of a cell from those of somebody else who listens at an address."""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from paceline.client.errors import Unreachable
from paceline.client.proof import SPEAKS_TLS

if TYPE_CHECKING:
    import httpx2

    from paceline.client.plain_http import PlainResponse

SERVER = "paceline"
"""The header Server of each answer of a cell; something between may replace it, but not the others."""
_OF_CELL = ("Log-Position", "Log-Cell", "Log-Next-Offset")
_SHOWN_BYTES = 60


def is_of_cell(answer: "PlainResponse | httpx2.Response") -> bool:
    """Whether an answer says that it is of a cell. One of 0.3 doesn't always."""
    return answer.headers.get("Server", "") == SERVER or any(name in answer.headers for name in _OF_CELL)


def may_be_cut(answer: "PlainResponse | httpx2.Response") -> bool:
    """Whether a body that is no JSON may be the beginning of some."""
    plain = (
        answer.status_code != 204 and not 300 <= answer.status_code < 400 and "Content-Encoding" not in answer.headers
    )
    return plain and (is_of_cell(answer) or "json" in answer.headers.get("Content-Type", ""))


def no_cell(answer: "PlainResponse | httpx2.Response", content: bytes = b"") -> Unreachable:
    """Says that who answered is no cell, and what the answer was."""
    words = f"{answer.status_code} {answer.reason_phrase}".strip()
    excerpt = content[:_SHOWN_BYTES].decode(errors="replace") + ("..." if len(content) > _SHOWN_BYTES else "")
    if SPEAKS_TLS.encode() in content:
        return Unreachable(f"The server at {urlsplit(str(answer.url)).netloc} says: {SPEAKS_TLS}.")
    words += f" and {excerpt!a}" if excerpt else ""
    return Unreachable(
        f"Who listens at {urlsplit(str(answer.url)).netloc} is no cell of Paceline (it answered {words}). "
        "Name a cell with --server."
    )


def leads_on(body: Mapping[str, object], token_before: object) -> bool:
    """Whether the token of the next page, if there is one, leads on from that which was asked for."""
    token = body.get("next_page_token") or ""
    return isinstance(token, str) and (not token or token != token_before)
