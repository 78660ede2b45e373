"""The app under /ui: pages, the files they load, and what is signed in."""

import time
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from sqlalchemy.exc import OperationalError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from events.log.port import LogError
from projections.api.problems import Problem
from projections.ui import assets, rendering
from projections.ui.pages import jobs
from projections.ui.scene import Contexts, Page, opened
from projections.ui.sessions import Sessions
from projections.views.reader import ViewsAway

PAGES: tuple[Page, ...] = (*jobs.PAGES,)
MENU = (
    ("Overview", "/"),
    ("Jobs", "/jobs"),
    ("Pools", "/pools"),
    ("Hosts", "/hosts"),
    ("Rounds", "/rounds"),
    ("Log", "/log"),
    ("Operations", "/operations"),
)


def add_ui(app: FastAPI, contexts: Contexts, token: str) -> None:
    """Serves the pages under /ui/ of an app over those cells; / leads there. `token` signs in."""
    ui = Ui(contexts, token)
    app.router.routes[0:0] = [Mount("/ui", ui.app()), Route("/", _lead)]


async def _lead(_: Request) -> Response:
    return RedirectResponse("/ui/")


class Ui:
    """The pages over some cells."""

    def __init__(self, contexts: Contexts, token: str) -> None:
        self.contexts = contexts
        self.sessions = Sessions(token)

    def app(self) -> Starlette:
        """The app, to be mounted at /ui."""
        routes: list[BaseRoute] = [
            Route("/static/{digest}/{name:path}", assets.serve),
            *(Route(page.path, self._shows(page), methods=["GET"]) for page in PAGES),
        ]
        kinds: Sequence[type[Exception]] = (Problem, HTTPException, LogError, ViewsAway, OperationalError)
        return Starlette(routes=routes, exception_handlers=dict.fromkeys(kinds, self._problem))

    def _shows(self, page: Page) -> Any:
        async def show(request: Request) -> Response:
            return rendering.answer(request, await run_in_threadpool(self._html, request, page))

        return show

    def _html(self, request: Request, page: Page) -> str:
        with opened(self.contexts, request.path_params, request.query_params, int(time.time() * 1000)) as scene:
            return rendering.html(page.template, self.frame(request, page.section) | page.load(scene))

    def frame(self, request: Request, section: str = "") -> dict[str, Any]:
        """What every page shows around its own: the menu, the moment, who is signed in."""
        at = request.query_params.get("at", "")
        return {
            "menu": MENU,
            "section": section,
            "session": self.sessions.of(request),
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
