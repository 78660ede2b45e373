"""Authentication of requests: by the token of the cell, by tokens made for somebody, by what else proves a name."""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Protocol

from starlette.datastructures import Headers
from starlette.types import Scope

from events.actors import TOKEN
from events.hashed_names import NameHashes
from events.signatures import PublicKey
from events.wrong_tokens import LONGEST_S, TOO_MANY, WrongTokens
from paceline.client.bearer import SCHEME, shown, unfit
from paceline.client.proof import ISSUED
from projections.access.grants import Granted, Grants, IssuedToken, now_ms
from projections.access.identity import EVERYTHING, NOBODY, Identity
from projections.access.issuer import Issuer
from projections.access.quotas import CallQuota, actor_key
from projections.api.problems import Problem

PROBES = ("/livez", "/readyz")
HINT = (
    "the token of a cell is in the file token of its data folder; commands without --server find it there (--data "
    "FOLDER), with --server they need --token TOKEN; HTTP takes the header Authorization: Bearer TOKEN"
)


class Prover(Protocol):
    """Knows one kind of proof of who makes a request."""

    async def prove(self, scope: Scope, headers: Headers) -> Identity | None:
        """The identity of a request, without the pools that it may read; None: there is no proof of its kind. Raises a
        problem for a wrong one. It is asked with each request without the token of the cell: one without its kind must
        cost nothing.
        """
        ...


class Authentication:
    """Finds out who makes a request: by the token of the cell, by an issued one, then by the provers that processes
    add, in their order.
    """

    def __init__(self, token: str, grants: Grants, names: NameHashes | None = None) -> None:
        self._token = token.encode()
        self.grants = grants
        self.names = names or NameHashes()
        self.provers: list[Prover] = []
        self.issuer: Issuer | None = None
        """The issuer at which users sign in."""
        self.on_use: Callable[[str], None] = lambda token_id: None
        """Is told of each use of an issued token."""
        self.wrong = WrongTokens()
        self._calls = CallQuota()

    @property
    def lets_in_anybody(self) -> bool:
        """Whether a role is bound to everybody: then who shows nothing may write here and there."""
        return bool(self.grants.now().bindings_of("", frozenset()))

    def keys(self) -> Mapping[bytes, PublicKey]:
        """The keys that vouch for names in facts. May ask the views."""
        return self.grants.now().keys

    def hashes_in_facts(self) -> NameHashes | None:
        """The hashes by which facts name actors; None: they name them as they are. May ask the views."""
        return self.names if self.grants.now().hashes_names else None

    async def identify(self, scope: Scope, headers: Headers) -> Identity:
        """The identity of a request, with the pools that it may read. Raises a problem for a wrong proof, and where its
        actor has asked too often.
        """
        who = await self.known(scope, headers)
        most = 0 if who.is_cell else self.grants.now().calls_per_s
        if most and scope["path"] not in PROBES:
            self._calls.take(actor_key(who, scope), most)
        return who

    async def still_is(self, who: Identity, scope: Scope) -> bool:
        """Whether a request that goes on for long would still be of this identity, with the same rights to read."""
        try:
            return await self.known(scope, Headers(scope=scope)) == who
        except Problem:
            return False

    async def known(self, scope: Scope, headers: Headers) -> Identity:
        """The same, uncounted."""
        header = headers.get("authorization")
        token = shown(header) if header else ""
        if token and self._token and hmac.compare_digest(token.encode("utf-8", "replace"), self._token):
            return EVERYTHING
        granted = await self.grants.fresh()
        identity = self._issued(token, granted) if token.startswith(ISSUED) else None
        for prover in self.provers if identity is None else ():
            identity = await prover.prove(scope, headers)
            if identity is not None:
                break
        if identity is None and token:
            await self.slow_down(scope)
            raise needed(header)
        who = identity or NOBODY
        if who.is_cell or who.run is not None:
            return who
        reads = granted.reads_of(who.subject, who.groups)
        return who if reads is None else replace(who, reads=reads)

    async def slow_down(self, scope: Scope) -> None:
        """Waits before a wrong token is answered. Raises a problem where too many such answers wait."""
        client = scope.get("client")
        if not await self.wrong.delay(str(client[0]) if client else ""):
            raise Problem(429, "TOO_MANY_WRONG_TOKENS", TOO_MANY, headers={"Retry-After": str(round(LONGEST_S))})

    def _issued(self, token: str, granted: Granted) -> Identity | None:
        """The identity that an issued token proves; None: there is no such token. Raises a problem for an ended one."""
        issued = granted.tokens.get(sha256(token.encode("utf-8", "replace")).digest())
        if issued is None:
            return None
        if issued.is_revoked:
            raise _ended("TOKEN_REVOKED", f"token {issued.token_id} was revoked", issued)
        if issued.until_ms and now_ms() >= issued.until_ms:
            raise _ended("TOKEN_EXPIRED", f"token {issued.token_id} has expired", issued)
        self.on_use(issued.token_id)
        return Identity(issued.subject, issued.groups, TOKEN, issued.token_id)


def needed(header: str | None) -> Problem:
    """The problem of who shows no token, or a wrong one."""
    return Problem(401, "TOKEN_NEEDED", f"{_fault(header)}: {HINT}", headers={"WWW-Authenticate": "Bearer"})


def refused(code: str, why: str) -> Problem:
    """The problem of who shows a token that proves nothing here and now."""
    return Problem(401, code, why, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})


def _ended(code: str, what: str, token: IssuedToken) -> Problem:
    return refused(code, f"{what}: ask an admin of the cell for another one for {token.subject}")


def _fault(header: str | None) -> str:
    """The fault of the header Authorization of who is not known."""
    if not header or header.lower().strip() == SCHEME:
        return "a token is needed, and none was given"
    token = shown(header).encode("latin-1").decode("utf-8", "replace")  # as who typed it sees it
    why = unfit(token) if token else "the word Bearer must stand before it"
    return f"the token is wrong ({why})" if why else "the token is wrong"
