"""Tokens by which a host joins a cell once: `HOST~SECRET`. The log has a hash of each alone."""

import hashlib
import secrets

from events.bounds import NAME

SEPARATOR = "~"
INVITE_CHARS = 32


def new_token(host_id: str) -> str:
    """A token for a host."""
    return f"{host_id}{SEPARATOR}{secrets.token_urlsafe(32)}"


def host_of(token: str) -> str:
    """The host that a token is for; empty: it is no such token."""
    host_id, separator, secret = token.partition(SEPARATOR)
    return host_id if separator and secret and NAME.fullmatch(host_id) else ""


def invite_id(token: str) -> str:
    """The name of the invitation of a token, by which nobody finds the token."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()[:INVITE_CHARS]
