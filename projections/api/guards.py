"""Guards of requests: who makes them, names of the host and origins against other people's web pages, JSON only.

The routes of agents under /v1/agents check their token themselves, the pages under /ui/ their session.
"""

import ipaddress
import re
import sys
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from events.bounds import SPEC_BYTES_MAX
from events.codes import Code
from events.pool_paths import ROOT
from events.roles import Verb
from projections.access import identity
from projections.access.authentication import Authentication, needed
from projections.access.identity import Identity
from projections.access.limits import LIMITED, limits
from projections.actor_names import vouched_by
from projections.api import acting
from projections.api.permits import not_allowed
from projections.api.problems import Problem

AGENTS = "/v1/agents/"
BODY_BYTES_MAX = 2 * 1024 * 1024
SPECS = frozenset(("/v1/jobs", "/v1/job-batches", "/v1/job-plans"))
"""Paths that take jobs, beside those of updates."""
PAGES = "/ui/"
STREAMED = re.compile(r"/v1/jobs/[^/]+/tasks/\d+/execs/[^/]+/(in|out)")
"""Paths of what a user types into a command inside a run, and of what it writes."""
FOLLOWED = frozenset(("/v1/events", "/ui/stream"))
"""Paths whose answers have no end."""
METRICS = "/metrics"
SIGN_IN = "/v1/sign-in"
"""Says how to sign in."""
PLANS = "/v1/pool-plans"
"""Asked for by POST, and writes nothing."""
READS = frozenset(("GET", "HEAD", "OPTIONS"))
LIMITED_HEADER = "Paceline-Limited"
"""Stands in every answer to a limited reader, whether there is more or not."""
IDENTITY = "paceline.identity"
"""The key of an ASGI scope under which the identity of a request stands, once it is known."""
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


class Guards:
    """Guards an app that listens on `listen`, host:port; on all addresses (0.0.0.0, ::) any of them may be named."""

    def __init__(self, app: ASGIApp, authentication: Authentication, listen: str) -> None:
        self._app = app
        self._authentication = authentication
        self._host = _name(listen)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request, as ASGI has it."""
        if scope["type"] != "http" or scope["path"].startswith(AGENTS):
            await self._app(scope, receive, send)
            return
        answer = send
        try:
            headers = Headers(scope=scope)
            who = await self._identified(scope, headers)
            identity.begin(who)
            if limits() is not None and IDENTITY not in scope:
                answer = _limited(send)
            self._check(scope["method"], scope["path"], headers, who)
            scope = {**scope, IDENTITY: who}
            if scope["method"] == "HEAD" and scope["path"] not in FOLLOWED and not STREAMED.fullmatch(scope["path"]):
                scope["method"] = "GET"  # the server leaves the body out
            vouched_by(self._authentication.keys)
            if scope["method"] not in READS:
                in_session = scope["path"].startswith(PAGES)
                acting.begin(scope, headers, who, in_session, self._authentication.hashes_in_facts)
            await self._app(scope, _bounded(receive, _bytes_max(scope["path"])), answer)
        except Problem as problem:
            await problem.response()(scope, receive, answer)

    async def _identified(self, scope: Scope, headers: Headers) -> Identity:
        """The identity of a request to a name of this cell; by another name only with a proof. Raises a problem."""
        host = headers.get("host", "")
        may_be_named = scope.get("scheme") == "https" or self._may_be_named(_name(host))  # TLS has verified the name
        who: Identity | None = scope.get(IDENTITY)  # of the server of several cells that hands on the request
        try:
            who = who or await self._authentication.identify(scope, headers)
        except Problem:
            if may_be_named:
                raise
        if who is None or (who.is_nobody and not may_be_named):
            raise Problem(
                421, "HOST_NOT_ALLOWED", f"this cell is not known as {host[:100]!r}; ask for it by its address"
            )
        return who

    def _check(self, method: str, path: str, headers: Headers, who: Identity) -> None:
        if who.is_nobody and who.reads == () and _asks_for_a_name(path):
            raise needed(headers.get("authorization"))
        if who.is_limited and path == METRICS:
            raise not_allowed(who, Verb.READ, ROOT)
        origin = headers.get("origin")
        if origin is not None and _netloc(origin) != headers.get("host", ""):
            raise Problem(403, "ORIGIN_NOT_ALLOWED", f"pages of {origin[:100]!r} may not use this cell")
        enters_a_run = STREAMED.fullmatch(path) is not None
        if (method in READS and not enters_a_run) or path.startswith(PAGES):
            return
        if who.is_nobody and path != PLANS and not self._authentication.lets_in_anybody:
            raise needed(headers.get("authorization"))
        if enters_a_run:
            return
        length = headers.get("content-length", "0" if "transfer-encoding" not in headers else "1")
        if length != "0" or method != "DELETE":
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise Problem(415, "JSON_ONLY", "writes need the header Content-Type: application/json")
        most = _bytes_max(path)
        if length.isdigit() and int(length) > most:
            raise Problem(413, Code.TOO_LARGE, f"the body is over {most} bytes")

    def _may_be_named(self, name: str) -> bool:
        if name in LOOPBACK or name == self._host:
            return True
        return self._host in ("0.0.0.0", "::") and _is_address(name)


def _asks_for_a_name(path: str) -> bool:
    """Whether a path shows something of the cell, which nobody reads without a name where reading needs a role."""
    return (path.startswith("/v1/") and path != SIGN_IN) or path == METRICS


def _bytes_max(path: str) -> int:
    """The most bytes that the body of a request may have."""
    if STREAMED.fullmatch(path):
        return sys.maxsize
    takes_spec = path in SPECS or (path.startswith("/v1/jobs/") and path.endswith("/updates"))
    return SPEC_BYTES_MAX if takes_spec else BODY_BYTES_MAX


def _limited(send: Send) -> Send:
    async def limited(message: Message) -> None:
        if message["type"] == "http.response.start":
            line = (LIMITED_HEADER.lower().encode(), LIMITED.encode())
            message = {**message, "headers": [*message.get("headers", ()), line]}
        await send(message)

    return limited


def _bounded(receive: Receive, most: int) -> Receive:
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            # The framework hands on this kind alone from where it reads the body.
            raise HTTPException(413, f"the body is over {most} bytes")
        return message

    return bounded


def _netloc(origin: str) -> str | None:
    """The host:port of an origin; None where it is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


@lru_cache(1000)
def _name(host: str) -> str:
    """The name in host:port, without the brackets of IPv6."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
