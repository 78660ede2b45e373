"""Requests with `?at=`: answered by the same routes, over the views and the log of that moment."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from starlette.datastructures import MutableHeaders, QueryParams
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from events.log.port import LogError
from events.topics import BY_NAME
from projections.access.identity import present
from projections.api.context import READ_WAIT_S, Context, client_of
from projections.api.errors import log_problem
from projections.api.guards import AGENTS, READS
from projections.api.moments import DESCRIBED, Asker, Making, Moment, Moments, Ready
from projections.api.problems import Problem
from projections.asked_values import whole_number
from projections.queries.follow import START, write_cursor

EVENTS = "/v1/events"
NO_SUCH_MOMENT = "NO_SUCH_MOMENT"
AppOf = Callable[[Mapping[int, Context]], ASGIApp]


class AsOf:
    """Hands a request with `?at=` to an app over that moment, which `app_of` makes, and all others on."""

    def __init__(self, app: ASGIApp, moments: Moments, app_of: AppOf) -> None:
        self._app = app
        self._moments = moments
        self._app_of = app_of
        self._apps: WeakKeyDictionary[Ready, ASGIApp] = WeakKeyDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request, as ASGI has it."""
        at = _moment_of(scope)
        if at is None:
            await self._app(await self._from_since(scope), receive, send)
            return
        try:
            if scope["method"] not in READS:
                detail = "the past takes no commands; leave out the parameter at"
                raise Problem(405, "READ_ONLY", detail, headers={"Allow": ", ".join(sorted(READS))})
            request = Request(scope)
            if scope["path"] == EVENTS:
                moment = await self._moments.resolve(at, client_of(request))
                await self._app(_from(scope, moment, request), receive, _marked(moment, send))
                return
            ready = await self._wait_for(at, request)
        except (Problem, LogError) as error:
            problem = error if isinstance(error, Problem) else log_problem(error)
            await problem.response()(scope, receive, send)
            return
        app = self._apps.get(ready)
        if app is None:
            app = self._apps[ready] = self._app_of(ready.contexts)
        await app(_without_positions(scope), receive, _marked(ready.moment, send))

    async def _from_since(self, scope: Scope) -> Scope:
        """A request for the stream of events since a time, without a position, begins at that time; from the oldest
        event on where there is nothing that old. What is no time is refused where the parameter is read.
        """
        if scope["type"] != "http" or scope["path"] != EVENTS or b"since=" not in scope["query_string"]:
            return scope
        request = Request(scope)
        if request.query_params.get("from") or request.headers.get("last-event-id"):
            return scope
        try:
            since = datetime.fromisoformat(request.query_params.get("since", ""))
            before = since.replace(tzinfo=since.tzinfo or UTC) - timedelta(milliseconds=1)
            text = before.isoformat(timespec="milliseconds")
            return _from(scope, await self._moments.resolve(text, client_of(request)), request)
        except (ValueError, OverflowError):
            return scope
        except Problem as problem:
            return _begun_at(scope, START) if problem.code == NO_SUCH_MOMENT else scope

    async def _wait_for(self, at: str, request: Request) -> Ready:
        asker = Asker(client_of(request), not present().is_nobody)
        found = await self._moments.wait(at, asker, READ_WAIT_S)
        if isinstance(found, Making):
            raise in_the_making(found)
        return found


def in_the_making(making: Making) -> Problem:
    """That views are not made yet, and how far they are."""
    return Problem(
        503,
        "MOMENT_IN_THE_MAKING",
        f"the views of {making.moment.text} are being made: {making.done} of {making.of} records; ask again",
        headers={"Retry-After": "1"},
        progress=(making.done, making.of),
    )


def describe(paths: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds the parameter to the description of each path that takes it."""
    parameter = {
        "name": "at",
        "in": "query",
        "required": False,
        "schema": {"type": "string", "description": DESCRIBED, "title": "At"},
        "description": DESCRIBED,
    }
    for path, methods in paths.items():
        if path.startswith("/v1/") and "get" in methods:
            methods["get"].setdefault("parameters", []).append(parameter)


def _moment_of(scope: Scope) -> str | None:
    """The moment that a request names; None: it asks for the present."""
    path = scope.get("path", "")
    if scope["type"] != "http" or not path.startswith("/v1/") or path.startswith(AGENTS):
        return None
    query = scope.get("query_string", b"")
    return Request(scope).query_params.get("at") if b"at" in query or b"%" in query else None


def _without_positions(scope: Scope) -> Scope:
    """The request without At-Least-Position: what was written since isn't there yet."""
    headers = [pair for pair in scope["headers"] if pair[0] != b"at-least-position"]
    return {**_without_moment(scope), "headers": headers}


def _without_moment(scope: Scope) -> Scope:
    query = QueryParams(scope["query_string"])
    rest = [(name, value) for name, value in query.multi_items() if name != "at"]
    return {**scope, "query_string": urlencode(rest).encode()}


def _from(scope: Scope, moment: Moment, request: Request) -> Scope:
    """A request for the stream of events that begins at a moment, unless a reader comes back."""
    named = request.query_params.get("cell", "")
    cell = whole_number(named) if named else next(iter(moment.ends))
    rest = _without_moment(scope)
    if request.headers.get("last-event-id") or cell is None or cell not in moment.ends:
        return rest
    # events are facts and decisions: forecasts, which the views have too, are none
    cursor = write_cursor({topic: end for topic, end in moment.ends[cell].items() if topic in BY_NAME}, "", 0)
    return _begun_at(rest, cursor)


def _begun_at(scope: Scope, cursor: str) -> Scope:
    return {**scope, "headers": [*scope["headers"], (b"last-event-id", cursor.encode())]}


def _marked(moment: Moment, send: Send) -> Send:
    """Names the moment in an answer."""

    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["At"], headers["As-Of"] = moment.text, moment.time
            headers.setdefault("Log-Position", moment.positions)
        await send(message)

    return marked
