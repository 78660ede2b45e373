"""Guards of requests: the token for writes, names of the host and origins against other people's web pages, JSON only.

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
from paceline.client.bearer import SCHEME, shown, shows, unfit
from projections.api import acting
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
PLANS = "/v1/pool-plans"
"""Asked for by POST, and writes nothing."""
READS = frozenset(("GET", "HEAD", "OPTIONS"))
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


class Guards:
    """Guards an app that listens on `listen`, host:port; on all addresses (0.0.0.0, ::) any of them may be named."""

    def __init__(self, app: ASGIApp, token: str, listen: str) -> None:
        self._app = app
        self._token = token
        self._host = _name(listen)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request, as ASGI has it."""
        if scope["type"] != "http" or scope["path"].startswith(AGENTS):
            await self._app(scope, receive, send)
            return
        try:
            headers = Headers(scope=scope)
            self._check(scope["method"], scope["path"], headers)
            if scope["method"] == "HEAD" and scope["path"] not in FOLLOWED and not STREAMED.fullmatch(scope["path"]):
                scope = {**scope, "method": "GET"}  # the server leaves the body out
            if scope["method"] not in READS:
                acting.begin(scope, headers, in_session=scope["path"].startswith(PAGES))
            await self._app(scope, _bounded(receive, _bytes_max(scope["path"])), send)
        except Problem as problem:
            await problem.response()(scope, receive, send)

    def _check(self, method: str, path: str, headers: Headers) -> None:
        host = headers.get("host", "")
        given = headers.get("authorization")
        knows_token = shows(given, self._token)
        if not knows_token and not self._may_be_named(_name(host)):
            raise Problem(
                421, "HOST_NOT_ALLOWED", f"this cell is not known as {host[:100]!r}; ask for it by its address"
            )
        origin = headers.get("origin")
        if origin is not None and _netloc(origin) != host:
            raise Problem(403, "ORIGIN_NOT_ALLOWED", f"pages of {origin[:100]!r} may not use this cell")
        enters_a_run = STREAMED.fullmatch(path) is not None
        if (method in READS and not enters_a_run) or path.startswith(PAGES):
            return
        if not knows_token and path != PLANS:
            raise Problem(
                401,
                "TOKEN_NEEDED",
                f"{_fault(given)}: the token of a cell is in the file token of its data folder; commands without "
                "--server find it there (--data FOLDER), with --server they need --token TOKEN; HTTP takes the header "
                "Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )
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


def _fault(header: str | None) -> str:
    """The fault of the header Authorization of who doesn't know the token."""
    if not header or header.lower().strip() == SCHEME:
        return "writes need a token, none was given"
    token = shown(header).encode("latin-1").decode("utf-8", "replace")  # as who typed it sees it
    why = unfit(token) if token else "the word Bearer must stand before it"
    return f"the token is wrong ({why})" if why else "the token is wrong"


def _bytes_max(path: str) -> int:
    """The most bytes that the body of a request may have."""
    if STREAMED.fullmatch(path):
        return sys.maxsize
    takes_spec = path in SPECS or (path.startswith("/v1/jobs/") and path.endswith("/updates"))
    return SPEC_BYTES_MAX if takes_spec else BODY_BYTES_MAX


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
