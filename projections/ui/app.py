"""The app under /ui: pages, the files they load, what their forms do, and who is signed in."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson
from fastapi import FastAPI
from sqlalchemy.exc import OperationalError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from events.log.port import LogError
from projections.api.as_of import in_the_making
from projections.api.context import client_of
from projections.api.moments import Asker, Making, Moments
from projections.api.problems import Problem
from projections.ui import assets, rendering
from projections.ui.pages import jobs
from projections.ui.scene import Action, Contexts, Data, Page, Sent, opened
from projections.ui.sessions import SIGN_IN, SIGN_OUT, Sessions, fields_of
from projections.views.reader import ViewsAway

PAGES: tuple[Page, ...] = (*jobs.PAGES,)
DATA: tuple[Data, ...] = ()
ACTIONS: tuple[Action, ...] = ()
MENU = (
    ("Overview", "/"),
    ("Jobs", "/jobs"),
    ("Pools", "/pools"),
    ("Hosts", "/hosts"),
    ("Rounds", "/rounds"),
    ("Log", "/log"),
    ("Operations", "/operations"),
)
IN_THE_PAST = "Off in the past. Go back to live to change anything."
MAKING_S = 0.5
"""So long a page waits for a moment before it shows how far its making is."""
READ_ONLY = "Off: this history can be looked at, and takes no commands."


def add_ui(app: FastAPI, contexts: Contexts, token: str | None) -> None:
    """Serves the pages under /ui/ of an app over those cells; / leads there. `token` signs in; None: nothing can be
    changed.
    """
    ui = Ui(contexts, token, app.state.moments)
    app.router.routes[0:0] = [Mount("/ui", ui.app()), Route("/", _lead)]


class Then(NamedTuple):
    """The cells that a page shows, and their time; `at`: the moment as it is written, empty in the present."""

    contexts: Contexts
    now_ms: int
    at: str = ""


async def _lead(_: Request) -> Response:
    return RedirectResponse("/ui/")


class Ui:
    """The pages over some cells."""

    def __init__(self, contexts: Contexts, token: str | None, moments: Moments) -> None:
        self.contexts = contexts
        self._moments = moments
        self.sessions = Sessions(token) if token else None

    def app(self) -> Starlette:
        """The app, to be mounted at /ui."""
        routes: list[BaseRoute] = [
            Route("/static/{digest}/{name:path}", assets.serve),
            Route(SIGN_IN, self._ask_token, methods=["GET"]),
            Route(SIGN_IN, self._sign_in, methods=["POST"]),
            Route(SIGN_OUT, self._sign_out, methods=["POST"]),
            *(Route(page.path, self._shows(page), methods=["GET"]) for page in PAGES),
            *(Route(data.path, self._gives(data), methods=["GET"]) for data in DATA),
            *(Route(action.path, self._does(action), methods=["POST"]) for action in ACTIONS),
        ]
        kinds: Sequence[type[Exception]] = (Problem, HTTPException, LogError, ViewsAway, OperationalError)
        return Starlette(routes=routes, exception_handlers=dict.fromkeys(kinds, self._problem))

    def _shows(self, page: Page) -> Any:
        async def show(request: Request) -> Response:
            if page.for_writing:
                off = self._why_off(request)
                if off:
                    raise Problem(409, "READ_ONLY", off)
                if self._session(request) is None:
                    return RedirectResponse(self._sign_in_first(request), 303)
            then = await self._then(request)
            if isinstance(then, Making):
                values = self.frame(request, page.section) | {
                    "done": then.done,
                    "of": then.of,
                    "as_of": then.moment.at_ms,
                }
                return rendering.answer(request, rendering.html("making.html", values), 202, Refresh="1")
            return rendering.answer(request, await run_in_threadpool(self._html, request, page, then))

        return show

    async def _then(self, request: Request) -> Then | Making:
        """What is looked at: the present, or the moment that `at` names, or how far its making is. Raises a problem."""
        at = request.query_params.get("at")
        if at is None:
            return Then(self.contexts, int(time.time() * 1000))
        asker = Asker(client_of(request), self._session(request) is not None)
        found = await self._moments.wait(at, asker, MAKING_S)
        if isinstance(found, Making):
            return found
        return Then(found.contexts, found.moment.at_ms, found.moment.text)

    def _html(self, request: Request, page: Page, then: Then) -> str:
        with opened(then.contexts, request.path_params, request.query_params, then.now_ms, then.at) as scene:
            return rendering.html(page.template, self.frame(request, page.section) | page.load(scene))

    def _gives(self, data: Data) -> Any:
        def load(request: Request, then: Then) -> bytes:
            with opened(then.contexts, request.path_params, request.query_params, then.now_ms, then.at) as scene:
                found = data.load(scene)
            return found if isinstance(found, bytes) else orjson.dumps(found)

        async def give(request: Request) -> Response:
            try:
                then = await self._then(request)
                if isinstance(then, Making):
                    return in_the_making(then).response()
                text = await run_in_threadpool(load, request, then)
            except Problem as problem:
                return problem.response()
            return rendering.answer(request, text, kind="application/json")

        return give

    def _does(self, action: Action) -> Any:
        async def act(request: Request) -> Response:
            if self.sessions is None:
                raise Problem(405, "READ_ONLY", READ_ONLY)
            form = await self.sessions.form(request)
            done = await action.carry_out(Sent(self.contexts, request.path_params, form))
            if isinstance(done, str):
                return RedirectResponse(done, 303)
            values = self.frame(request, action.section) | done.values
            return rendering.answer(request, rendering.html(done.template, values), done.status)

        return act

    async def _ask_token(self, request: Request) -> Response:
        if self.sessions is None:
            raise Problem(405, "READ_ONLY", READ_ONLY)
        values = {"next": _local(request.query_params.get("next", "")), "wrong": False}
        return rendering.answer(request, rendering.html("sign_in.html", self.frame(request) | values))

    async def _sign_in(self, request: Request) -> Response:
        if self.sessions is None:
            raise Problem(405, "READ_ONLY", READ_ONLY)
        fields = await fields_of(request)
        then = _local("".join(fields.get("next", ())))
        response = RedirectResponse(then, 303)
        if self.sessions.sign_in(response, "".join(fields.get("token", ()))):
            return response
        values = {"next": then, "wrong": True}
        return rendering.answer(request, rendering.html("sign_in.html", self.frame(request) | values), 403)

    async def _sign_out(self, request: Request) -> Response:
        response = RedirectResponse("/ui/", 303)
        if self.sessions is not None:
            await self.sessions.form(request)
            self.sessions.sign_out(response)
        return response

    def _session(self, request: Request) -> Any:
        return self.sessions.of(request) if self.sessions else None

    def _why_off(self, request: Request) -> str:
        """Why nothing can be changed here; empty where it can."""
        if self.sessions is None:
            return READ_ONLY
        return IN_THE_PAST if request.query_params.get("at") else ""

    def _sign_in_first(self, request: Request) -> str:
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return f"/ui{SIGN_IN}?next={quote(here, safe='')}"

    def frame(self, request: Request, section: str = "") -> dict[str, Any]:
        """What every page shows around its own: the menu, the moment, who is signed in; `off`: why nothing can be
        changed, empty where it can.
        """
        at = request.query_params.get("at", "")
        return {
            "menu": MENU,
            "section": section,
            "session": self._session(request),
            "off": self._why_off(request),
            "sign_in": self._sign_in_first(request) if self.sessions and request.method == "GET" else f"/ui{SIGN_IN}",
            "cells": sorted(self.contexts),
            "at": at,
            "url": request.url,
            "link": lambda path, **query: rendering.link(at, path, **query),
        }

    async def _problem(self, request: Request, error: Exception) -> Response:
        status, code, text = 503, "UNAVAILABLE", str(error)
        if isinstance(error, Problem):
            status, code, text = error.status, error.code, error.detail
        elif isinstance(error, HTTPException):
            status, code, text = error.status_code, "NO_SUCH_PAGE", f"{request.url.path}: {error.detail}"
        values = self.frame(request) | {"status": status, "code": code, "text": text}
        return rendering.answer(request, rendering.html("problem.html", values), status)


def _local(path: str) -> str:
    """A page of this app to go to; anything else is its first page."""
    return path if path.startswith("/ui/") and "\\" not in path else "/ui/"
