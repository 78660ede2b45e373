"""Bearer tokens of an OIDC issuer: JWTs that one of its present keys has signed, for this cell.

Keys are kept as the issuer published them. They are fetched again in the background when they are `REFRESH_S` old, and
before they are used when they are `OLD_S` old: so long a key that the issuer has withdrawn may serve. While the issuer
is away the last keys go on serving, and no token waits for it. A token that names another key leads to a fetch at once,
the next such to one after a pause that doubles, so that nobody can have the issuer asked for each of their tokens.
"""

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from starlette.datastructures import Headers
from starlette.types import Scope

from events.actors import OIDC, SUBJECT_MAX
from events.bounds import TIME_MAX_MS
from events.unsafe_text import is_visible
from paceline.client.bearer import shown
from projections.access.authentication import refused
from projections.access.identity import Identity
from projections.access.issuer import Issuer
from projections.api.problems import Problem

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""The algorithms of signatures that are taken: those whose key the issuer alone has."""
TYPES = ("", "jwt", "at+jwt")
"""The types of tokens that are taken, of ID tokens and of access tokens (RFC 9068); some issuers name none."""
LOGOUT = "http://schemas.openid.net/event/backchannel-logout"
SKEW_S = 60
"""So far the clocks of issuer and server may differ."""
REFRESH_S, OLD_S = 300.0, 900.0
PAUSE_S, PAUSE_MAX_S = 2.0, 30.0
"""The pause after a fetch for an unknown key that didn't bring it, which doubles, and the longest."""
FETCH_S = 2.0
"""So long a fetch may take."""
DISCOVERY = "/.well-known/openid-configuration"
DOCUMENT_BYTES_MAX = 1 << 20

Fetch = Callable[[str], Awaitable[dict[str, Any]]]
"""Fetches a JSON document by its address. Raises `OSError`, `ValueError`."""


class Proven(NamedTuple):
    """A genuine token: who shows it, and all of its claims."""

    identity: Identity
    claims: dict[str, Any]


class IssuerAway(Exception):
    """The issuer can't be asked; the message says why."""


class IssuerKeys:
    """The keys of an issuer. For one event loop. `monotonic`: seconds."""

    def __init__(self, issuer: str, fetch: Fetch, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._issuer = issuer.rstrip("/")
        self._fetch = fetch
        self._monotonic = monotonic
        self._keys: dict[str, Any] = {}
        self._address = ""
        """Where the keys are published; empty: not known yet."""
        self._fetched_s = float("-inf")
        self._tried_s = self._failed_s = float("-inf")
        self._pause_s = PAUSE_S
        self._unknown_s = float("-inf")
        """When an unknown key was last fetched for."""
        self._fetching: asyncio.Task[None] | None = None

    async def with_key(self, name: str) -> "KeySet":
        """The keys, with the one of this name if the issuer has it. Raises `IssuerAway` where none are known."""
        from joserfc.jwk import KeySet

        now = self._monotonic()
        age = now - self._fetched_s
        may_ask = now - self._tried_s >= PAUSE_S or self._fetching is not None
        is_away = bool(self._keys) and now - self._failed_s < REFRESH_S
        if age >= OLD_S and may_ask and not is_away:
            await self._refresh()
        elif age >= REFRESH_S and may_ask:
            self._begin()
        if name not in self._keys and self._keys:
            await self._look_for(name)
        if not self._keys:
            raise IssuerAway(f"the keys of the issuer {self._issuer} can't be fetched")
        return KeySet(list(self._keys.values()))

    async def _look_for(self, name: str) -> None:
        """Asks the issuer for an unknown key, if that may be done now; others meanwhile wait for the same answer."""
        now = self._monotonic()
        if self._fetching is not None:
            await self._refresh()
            return
        if now - self._unknown_s >= 2 * PAUSE_MAX_S:
            self._pause_s = PAUSE_S
        if now - self._unknown_s < self._pause_s or now <= self._fetched_s:
            return
        self._unknown_s = now
        await self._refresh()
        self._unknown_s = self._monotonic()
        self._pause_s = PAUSE_S if name in self._keys else min(PAUSE_MAX_S, 2 * self._pause_s)

    async def _refresh(self) -> None:
        """Returns once a fetch has ended, whatever came of it."""
        with suppress(OSError, ValueError, TimeoutError):
            await asyncio.shield(self._begin())

    def _begin(self) -> "asyncio.Task[None]":
        """The fetch that goes on, or a new one."""
        if self._fetching is None:
            self._tried_s = self._monotonic()
            self._fetching = asyncio.create_task(self._load())
            self._fetching.add_done_callback(self._ended)
        return self._fetching

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._fetching = None
        if task.cancelled() or task.exception() is not None:  # the keys stay as they were
            self._failed_s = self._monotonic()

    async def _load(self) -> None:
        from joserfc.errors import JoseError
        from joserfc.jwk import import_key

        async with asyncio.timeout(FETCH_S):
            if not self._address:
                self._address = str((await discovered(self._issuer, self._fetch))["jwks_uri"])
            document = await self._fetch(self._address)
        keys = {}
        for each in document.get("keys", ()):
            with suppress(JoseError, ValueError, TypeError):  # a kind of key that this build doesn't know
                if each.get("use", "sig") == "sig" and each.get("kty") != "oct":
                    keys[str(each.get("kid", ""))] = import_key(each)
        self._keys, self._fetched_s = keys, self._monotonic()


class OidcProver:
    """Proves who shows a token of the issuer. Implements `Prover`. `now`: seconds since 1970."""

    def __init__(self, issuer: Issuer, keys: IssuerKeys, now: Callable[[], float] = time.time) -> None:
        self._issuer = issuer
        self._keys = keys
        self._now = now

    async def prove(self, scope: Scope, headers: Headers) -> Identity | None:
        """Implements `Prover`."""
        token = shown(headers.get("authorization"))
        if not token.startswith("ey") or token.count(".") != 2:
            return None
        return (await self.proven(token)).identity

    async def proven(self, token: str) -> Proven:
        """The identity and the claims of a token. Raises a problem where it is not genuine, or not for now and here."""
        header, claims = (part(token, at) for at in (0, 1))
        if str(claims.get("iss", "")).rstrip("/") != self._issuer.url.rstrip("/"):
            raise refused("TOKEN_ISSUER_WRONG", "the token is of another issuer than that of this cell")
        if header.get("alg") not in ALGORITHMS:
            raise refused("TOKEN_ALGORITHM_WRONG", f"the token must be signed by one of {', '.join(ALGORITHMS)}")
        kind = str(header.get("typ") or "").lower().removeprefix("application/")
        if kind not in TYPES or _is_logout(claims):
            raise refused("TOKEN_TYPE_WRONG", "the token is of another type: use an ID token or an access token")
        try:
            keys = await self._keys.with_key(str(header.get("kid", "")))
        except IssuerAway as away:
            raise Problem(503, "ISSUER_AWAY", str(away), headers={"Retry-After": "2"}) from away
        claims = self._checked(token, keys)
        return Proven(self._identity(claims), claims)

    def _checked(self, token: str, keys: "KeySet") -> dict[str, Any]:
        """The claims of a token. Raises a problem where it isn't genuine, or not for now and here."""
        from joserfc import errors, jwt

        try:
            claims = jwt.decode(token, keys, algorithms=list(ALGORITHMS)).claims
        except errors.InvalidKeyIdError as error:
            raise refused("TOKEN_KEY_UNKNOWN", "the issuer has no such key") from error
        except (errors.JoseError, ValueError, TypeError) as error:
            raise refused("TOKEN_NOT_GENUINE", "the token was not signed by the issuer") from error
        self._must_hold_now(claims)
        self._must_be_for_this_cell(claims)
        return claims

    def _must_hold_now(self, claims: Mapping[str, Any]) -> None:
        now, ends = self._now(), claims.get("exp")
        if not _is_time(ends) or ends != int(ends):
            raise refused("TOKEN_EXPIRED", "the token doesn't say in whole seconds when it expires (claim exp)")
        if now >= ends + SKEW_S:
            raise refused("TOKEN_EXPIRED", "the token has expired: sign in again")
        for name in ("nbf", "iat"):
            begins = claims.get(name, 0)
            if not _is_time(begins) or now < begins - SKEW_S:
                raise refused(
                    "TOKEN_NOT_YET_VALID", f"the token is not valid yet (claim {name}): do the clocks differ?"
                )

    def _must_be_for_this_cell(self, claims: Mapping[str, Any]) -> None:
        audience, own = claims.get("aud"), self._issuer
        audiences = audience if isinstance(audience, list) else [audience]
        if own.audience and own.audience in audiences:
            return
        if not own.client_id or own.client_id not in audiences:
            names = " or ".join(each for each in (own.audience, own.client_id) if each)
            raise refused("TOKEN_AUDIENCE_WRONG", f"the token is not for {names}")
        if claims.get("azp", own.client_id if len(audiences) == 1 else None) != own.client_id:
            why = (
                f"the token is for {own.client_id}, and was not issued to it (claim azp); a cell takes tokens of other"
            )
            raise refused("TOKEN_AUDIENCE_WRONG", f"{why} clients for the audience that --oidc-audience names")

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        subject, groups = claims.get(self._issuer.subject_claim), claims.get(self._issuer.groups_claim)
        if self._issuer.subject_claim == "email" and claims.get("email_verified") is not True:
            raise refused("TOKEN_SUBJECT_MISSING", "the issuer has not verified the claim email of the token")
        if not isinstance(subject, str) or not is_visible(subject, SUBJECT_MAX):
            raise refused("TOKEN_SUBJECT_MISSING", f"the claim {self._issuer.subject_claim} of the token names nobody")
        names = frozenset(each for each in groups if isinstance(each, str)) if isinstance(groups, list) else frozenset()
        return Identity(subject, names, OIDC, self._issuer.url)


async def discovered(issuer: str, fetch: Fetch) -> dict[str, Any]:
    """The description that an issuer gives of itself. Raises `OSError`, `ValueError`."""
    description = await fetch(f"{issuer.rstrip('/')}{DISCOVERY}")
    name = str(description.get("issuer", ""))
    if name.rstrip("/") != issuer.rstrip("/"):
        raise ValueError(f"the issuer at {issuer} names itself {name[:200]!r}")
    return description


async def fetch_json(address: str) -> dict[str, Any]:
    """A JSON document by its address. Implements `Fetch`."""
    import httpx2

    try:
        async with httpx2.AsyncClient(timeout=FETCH_S) as client:
            response = await client.get(address)
    except httpx2.HTTPError as error:
        raise ConnectionError(str(error)) from error
    if response.status_code != httpx2.codes.OK or len(response.content) > DOCUMENT_BYTES_MAX:
        raise ConnectionError(f"{address} answers {response.status_code}")
    document = json.loads(response.content)
    if not isinstance(document, dict):
        raise ValueError(f"{address} is no JSON object")
    return document


def part(token: str, at: int) -> dict[str, Any]:
    """A part of a token, before it is known to be genuine; empty where it can't be read."""
    text = token.split(".")[at]
    try:
        part = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError):
        return {}
    return part if isinstance(part, dict) else {}


def _is_time(value: object) -> TypeGuard[float]:
    """Whether a claim is a time, in seconds since 1970: a number that is neither infinite nor none at all (NaN)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= TIME_MAX_MS


def _is_logout(claims: Mapping[str, Any]) -> bool:
    """Whether a token tells of the end of a session (OpenID Connect Back-Channel Logout), whatever type it names."""
    events = claims.get("events")
    return isinstance(events, dict) and LOGOUT in events
