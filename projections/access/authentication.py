"""Who makes a request: the token of the cell, tokens that were made for somebody, and what else proves a name."""

import hmac
from dataclasses import replace
from hashlib import sha256
from typing import Protocol

from starlette.datastructures import Headers
from starlette.types import Scope

from events.actors import TOKEN
from paceline.client.bearer import SCHEME, shown, unfit
from projections.access.grants import Granted, Grants, IssuedToken, now_ms
from projections.access.identity import EVERYTHING, Identity
from projections.access.wrong_tokens import WrongTokens
from projections.api.problems import Problem

PREFIX = "pct_"
"""How issued tokens begin: `pct_<token id>_<43 random characters>`."""
HINT = (
    "the token of a cell is in the file token of its data folder; commands without --server find it there (--data "
    "FOLDER), with --server they need --token TOKEN; HTTP takes the header Authorization: Bearer TOKEN"
)


class Prover(Protocol):
    """Knows one kind of proof of who makes a request."""

    async def prove(self, scope: Scope, headers: Headers) -> Identity | None:
        """Who makes a request, without what they may read; None: there is no proof of its kind. Raises a problem for a
        wrong one. It is asked with each request without the token of the cell: one without its kind must cost nothing.
        """
        ...


class Authentication:
    """Finds out who makes a request: by the token of the cell, by an issued one, then by the provers that processes
    add, in their order.
    """

    def __init__(self, token: str, grants: Grants) -> None:
        self._token = token.encode()
        self.grants = grants
        self.provers: list[Prover] = []
        self._wrong = WrongTokens()

    @property
    def lets_in_anybody(self) -> bool:
        """Whether a role is bound to everybody: then who shows nothing may write here and there."""
        return bool(self.grants.now().bindings_of("", frozenset()))

    async def identify(self, scope: Scope, headers: Headers) -> Identity:
        """Who makes a request, and what they may read. Raises a problem for a wrong proof."""
        header = headers.get("authorization")
        token = shown(header) if header else ""
        if token and self._token and hmac.compare_digest(token.encode("utf-8", "replace"), self._token):
            return EVERYTHING
        granted = await self.grants.fresh()
        found = self._issued(token, granted) if token.startswith(PREFIX) else None
        for prover in self.provers if found is None else ():
            found = await prover.prove(scope, headers)
            if found is not None:
                break
        if found is None and token:
            await self._wrong.delay(scope)
            raise needed(header)
        who = found or Identity()
        if who.is_cell or who.run is not None:
            return who
        return replace(who, reads=granted.reads_of(who.subject, who.groups))

    def _issued(self, token: str, granted: Granted) -> Identity | None:
        """Who shows an issued token. Raises a problem where it proves nothing any more."""
        held = granted.tokens.get(sha256(token.encode("utf-8", "replace")).digest())
        if held is None:
            return None
        if held.is_revoked:
            raise _ended("TOKEN_REVOKED", f"token {held.token_id} was revoked", held)
        if held.until_ms and now_ms() >= held.until_ms:
            raise _ended("TOKEN_EXPIRED", f"token {held.token_id} has expired", held)
        return Identity(held.subject, held.groups, TOKEN, held.token_id)


def needed(header: str | None) -> Problem:
    """The problem of who shows no token, or a wrong one."""
    return Problem(401, "TOKEN_NEEDED", f"{_fault(header)}: {HINT}", headers={"WWW-Authenticate": "Bearer"})


def _ended(code: str, what: str, token: IssuedToken) -> Problem:
    ask = f"ask an admin of the cell for another one (`paceline token create --subject {token.subject}`)"
    return Problem(401, code, f"{what}: {ask}", headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})


def _fault(header: str | None) -> str:
    """The fault of the header Authorization of who is not known."""
    if not header or header.lower().strip() == SCHEME:
        return "a token is needed, and none was given"
    token = shown(header).encode("latin-1").decode("utf-8", "replace")  # as who typed it sees it
    why = unfit(token) if token else "the word Bearer must stand before it"
    return f"the token is wrong ({why})" if why else "the token is wrong"
