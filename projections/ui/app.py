"""The app under /ui: pages, the files they load, what their forms do, and the stream that keeps them fresh."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import orjson
from fastapi import FastAPI
from sqlalchemy.exc import OperationalError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from events.codes import Code
from events.log.port import LogError
from projections.access.identity import as_asked, present
from projections.access.sign_in import SignIn
from projections.api.as_of import in_the_making
from projections.api.context import Context, client_of
from projections.api.moments import Asker, Making, Moments
from projections.api.problems import Problem
from projections.api.request_limits import ConcurrencyLimit
from projections.api.standing import standing
from projections.api.stream import EventResponse
from projections.queries.log_time import newest_ms
from projections.ui import assets, rendering, signing, time_bar
from projections.ui.contents import ACTIONS, DATA, PAGES
from projections.ui.frame import Frame, sign_in_first
from projections.ui.live import Hub, Load
from projections.ui.lockdowns import lockdowns_of
from projections.ui.page_values import PageValues
from projections.ui.scene import Action, Contexts, Data, Elsewhere, Page, Scene, Sent, opened
from projections.ui.sessions import BY_ISSUER, FROM_ISSUER, SIGN_IN, SIGN_OUT, Sessions
from projections.views.reader import ViewsAway, folded

MAKING_S = 0.5
"""So long a page waits for a moment before it shows how far its making is."""
STREAMS_MAX = 1000
STREAMS_OF_CLIENT_MAX = 100
"""Browsers of one address: one may stand for many people."""
QUERY_MAX = 16 * 1024
"""Bytes of the query of a page, which it says again in its links: a selection of jobs fits."""


def add_ui(app: FastAPI, contexts: Contexts, token: str | None, sign_in: SignIn | None = None) -> None:
    """Serves the pages under /ui/ of an app over those cells; / leads there. `token` signs in; None: nothing can be
    changed. `sign_in`: that of an issuer.
    """
    sessions = Sessions(token) if token else None
    ui = Ui(contexts, sessions, app.state.moments, sign_in)
    if sign_in is not None:
        sign_in.serve(app.state.guards.authentication)
    if sessions is not None:
        app.state.guards.authentication.provers.append(sessions)
    pages = ui.app()
    pages.state.guards = app.state.guards
    app.router.routes[0:0] = [Mount("/ui", ui.bounded(pages)), Route("/", _lead)]


class Then(NamedTuple):
    """The cells that a page shows, and their time; `at`: the moment as it is written, empty in the present."""

    contexts: Contexts
    now_ms: int
    at: str = ""


async def _lead(_: Request) -> Response:
    return RedirectResponse("/ui/")


class Ui:
    """The pages over some cells."""

    def __init__(
        self, contexts: Contexts, sessions: Sessions | None, moments: Moments, sign_in: SignIn | None = None
    ) -> None:
        self.contexts = contexts
        self._moments = moments
        self.frame = Frame(contexts, sessions, sign_in)
        self._hub = Hub(self._standing)
        self._streams = ConcurrencyLimit(STREAMS_MAX, "streams", "are open", STREAMS_OF_CLIENT_MAX)
        self._pages = [(page, Route(page.path, self._shows(page), methods=["GET"])) for page in PAGES]
        self._watched = [*self._pages, (time_bar.PART, Route(time_bar.PART.path, self._shows(time_bar.PART)))]

    def bounded(self, app: ASGIApp) -> ASGIApp:
        """The app, to be mounted at /ui: it refuses queries that are too long."""

        async def bounded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or len(scope["query_string"]) <= QUERY_MAX or scope["path"] == "/ui/stream":
                await app(scope, receive, send)
                return
            problem = Problem(414, Code.TOO_LARGE, f"the query of a page has {QUERY_MAX} bytes at most")
            answer = await self._problem(Request({**scope, "query_string": b""}), problem)
            await answer(scope, receive, send)

        return bounded

    def app(self) -> Starlette:
        """The pages and their files."""
        routes: list[BaseRoute] = [
            Route("/static/{digest}/{name:path}", assets.serve),
            Route("/stream", self._stream),
            Route(SIGN_IN, signing.asks(self.frame), methods=["GET"]),
            Route(SIGN_IN, signing.signs_in(self.frame), methods=["POST"]),
            Route(BY_ISSUER, signing.leads_to_issuer(self.frame), methods=["GET"]),
            Route(FROM_ISSUER, signing.comes_from_issuer(self.frame), methods=["GET"]),
            Route(SIGN_OUT, signing.signs_out(self.frame), methods=["POST"]),
            *(route for _, route in self._pages),
            *(Route(data.path, self._gives(data), methods=["GET"]) for data in DATA),
            *(Route(action.path, self._does(action), methods=["POST"]) for action in ACTIONS),
        ]
        kinds: Sequence[type[Exception]] = (Problem, HTTPException, LogError, ViewsAway, OperationalError)
        return Starlette(routes=routes, exception_handlers=dict.fromkeys((*kinds, Exception), self._problem))

    def _shows(self, page: Page) -> Any:
        async def show(request: Request) -> Response:
            if page.for_writing:
                self.frame.must_be_writable(request)
            must_be_known = page.for_writing or present().reads == ()
            if must_be_known and self.frame.session(request) is None:
                return RedirectResponse(sign_in_first(request.url.path.removeprefix("/ui") + _asked(request)), 303)
            then = await self._then(request)
            if isinstance(then, Making):
                making: PageValues = {"done": then.done, "of": then.of, "as_of": then.moment.at_ms}
                making["time"] = await run_in_threadpool(self._bar_beside, request, then.moment.at_ms)
                text = rendering.html("making.html", self.frame.of(request, page.section) | making)
                return rendering.answer(request, text, 202, Refresh="1")
            try:
                text, status, headers = await run_in_threadpool(self._html, request, page, then)
                return rendering.answer(request, text, status, **headers)
            except Elsewhere as other:
                return RedirectResponse(rendering.link(request.query_params.get("at", ""), str(other)), 303)

        return show

    async def _then(self, request: Request) -> Then | Making:
        """The data that a request looks at: the present, or the moment that `at` names, or how far its making is; forms
        leave it empty. Raises a problem.
        """
        at = request.query_params.get("at")
        if not at:
            return self._now()
        asker = Asker(client_of(request), self.frame.session(request) is not None)
        answer = await self._moments.wait(at, asker, MAKING_S)
        if isinstance(answer, Making):
            return answer
        return Then(answer.contexts, answer.moment.at_ms, answer.moment.text)

    def _now(self) -> Then:
        """The present; of history it is its end."""
        now_ms = int(time.time() * 1000)
        if self.frame.read_only:
            now_ms = max(map(_newest_ms, self.contexts.values())) or now_ms
        return Then(self.contexts, now_ms)

    def _html(self, request: Request, page: Page, then: Then) -> tuple[str, int, dict[str, str]]:
        """A page, its status and its headers; what it can't show it says beside the time bar, which leads to where it
        can. One that shows `again_s` is loaded again after so many seconds.
        """
        values = self.frame.of(request, page.section)
        with opened(then.contexts, request.path_params, request.query_params, then.now_ms, then.at) as scene:
            values["time"] = self._time_bar(scene)
            values["watch"] = "" if page.for_writing else values["watch"]
            try:
                values |= page.load(scene)
                headers = {"Refresh": str(values["again_s"])} if values.get("again_s") else {}
                return rendering.html(page.template, values), 200, headers
            except Problem as problem:
                fault = {"status": problem.status, "code": problem.code, "text": problem.detail, "watch": ""}
                return rendering.html("problem.html", values | fault), problem.status, {}

    def _time_bar(self, scene: Scene) -> PageValues:
        context, connection = scene.first()
        place = time_bar.now(connection, scene.now_ms)._replace(past=bool(scene.at))
        with self.contexts[context.cell].views.read() as present:
            bar = time_bar.bar(context.cell, present, self._now().now_ms if scene.at else scene.now_ms, place)
        return bar | {"lockdowns": lockdowns_of(scene)}

    def _bar_beside(self, request: Request, at_ms: int | None) -> PageValues:
        """The bar on a page that shows nothing of a cell: at a time whose views aren't there yet; at the present."""
        now = self._now()
        with opened(now.contexts, {}, request.query_params, now.now_ms) as scene:
            context, present = scene.first()
            place = time_bar.now(present, now.now_ms)
            if at_ms is not None:
                place = time_bar.Shown(at_ms, None, past=True)
            return time_bar.bar(context.cell, present, now.now_ms, place) | {"lockdowns": lockdowns_of(scene)}

    def _gives(self, data: Data) -> Any:
        def load(request: Request, then: Then) -> bytes:
            with opened(then.contexts, request.path_params, request.query_params, then.now_ms, then.at) as scene:
                result = data.load(scene)
            return result if isinstance(result, bytes) else orjson.dumps(result)

        async def give(request: Request) -> Response:
            _must_be_known()
            try:
                then = await self._then(request)
                if isinstance(then, Making):
                    return in_the_making(then).response()
                text = await run_in_threadpool(load, request, then)
            except Problem as problem:
                return problem.response()
            return rendering.answer(request, text, kind=data.kind)

        return give

    def _does(self, action: Action) -> Any:
        async def act(request: Request) -> Response:
            form = await self.frame.must_be_writable(request).form(request)
            done = await action.carry_out(Sent(self.contexts, request.path_params, form))
            if isinstance(done, str):
                return RedirectResponse(done, 303)
            values = self.frame.of(request, action.section) | done.values
            return rendering.answer(request, rendering.html(done.template, values), done.status)

        return act

    async def _stream(self, request: Request) -> Response:
        _must_be_known()
        loads = {text: self._load_of(text) for text in request.query_params.getlist("watch")}
        packed = "gzip" in request.headers.get("accept-encoding", "")
        with ExitStack() as stack:
            client = client_of(request)
            stack.enter_context(self._streams.one(client))
            reader = stack.enter_context(self._hub.reader(loads, packed, client))
            more = {"Content-Encoding": "gzip"} if packed else {}
            return EventResponse(reader.follow(standing(request)), stack.pop_all().close, **more)

    def _load_of(self, text: str) -> Load:
        """The function that renders the parts of a page for a stream. Raises a problem where there is no such page."""
        url = urlsplit(text if text.startswith("/") and not text.startswith("//") else "")
        scope = {"type": "http", "method": "GET", "path": unquote(url.path)}
        query = QueryParams(url.query)
        for page, route in self._watched:
            match, params = route.matches(scope)
            if match == Match.FULL and not page.for_writing and not query.get("at"):
                return as_asked(partial(self._parts, page, params["path_params"], query))
        raise Problem(404, "NO_SUCH_PAGE", f"{text[:200]!r} is no page that changes")

    def _parts(self, page: Page, path: Mapping[str, str], query: QueryParams) -> list[tuple[str, str]]:
        then = self._now()
        with opened(then.contexts, path, query, then.now_ms) as scene:
            shared = self.frame.shared(page.section, "", query.get("cell"))
            return list(rendering.parts(page.template, shared | {"here": lambda *_, **__: ""} | page.load(scene)))

    def _standing(self) -> list[dict[str, int]]:
        def of(context: Any) -> dict[str, int]:
            with context.views.read_all() as connection:
                return folded(connection)

        return [of(context) for context in self.contexts.values()]

    async def _problem(self, request: Request, error: Exception) -> Response:
        status, code, text = 500, "INTERNAL", "this is a fault of the server: its log says more"
        if isinstance(error, (LogError, ViewsAway, OperationalError)):
            status, code, text = 503, "UNAVAILABLE", str(error)
        elif isinstance(error, Problem):
            status, code, text = error.status, error.code, error.detail
        elif isinstance(error, HTTPException):
            status, code, text = error.status_code, "NO_SUCH_PAGE", f"{request.url.path}: {error.detail}"
            if status == 404:
                text = f"There is no page {request.url.path}. Find, above, looks for jobs, pools and hosts."
        values = self.frame.of(request) | {"status": status, "code": code, "text": text}
        if status < 500 and values["at"]:
            values["time"] = await run_in_threadpool(self._bar_beside, request, None)
        again = error.headers.get("Retry-After") if isinstance(error, Problem) and error.headers else None
        headers = {"Refresh": again} if again and request.method == "GET" else {}
        return rendering.answer(request, rendering.html("problem.html", values), status, **headers)


def _newest_ms(context: Context) -> int:
    with context.views.read() as connection:
        return newest_ms(connection)


def _asked(request: Request) -> str:
    return f"?{request.url.query}" if request.url.query else ""


def _must_be_known() -> None:
    """Raises a problem where reading needs a role and who asks shows nothing."""
    if present().reads == () and present().is_nobody:
        raise Problem(401, "SIGN_IN_NEEDED", "reading needs a sign-in")
