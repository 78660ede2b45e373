"""The frame of every page: the menu, the moment, who is signed in."""

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request

from projections.access.limits import limits
from projections.access.sign_in import SignIn
from projections.api.problems import Problem
from projections.ui import rendering
from projections.ui.page_values import PageValues
from projections.ui.sessions import SIGN_IN, Session, Sessions

MENU = (
    ("Overview", "/", "o"),
    ("Jobs", "/jobs", "j"),
    ("Pools", "/pools", "p"),
    ("Hosts", "/hosts", "h"),
    ("Rounds", "/rounds", "r"),
    ("Log", "/log", "l"),
    ("Access", "/access", "a"),
    ("Operations", "/operations", "s"),
)
"""Name, path, and the key that leads there after g."""
IN_THE_PAST = "Off in the past. Go back to live to change anything."
READ_ONLY = "Off: this history can be looked at, and takes no commands."
OF_BROWSER = ("theme",)
"""Parts of a query that change nothing of what the server shows."""


class Frame:
    """The frame of the pages over some cells."""

    def __init__(self, cells: Iterable[int], sessions: Sessions | None, sign_in: SignIn | None = None) -> None:
        self._cells = sorted(cells)
        self._sessions = sessions
        self.by_issuer = sign_in
        self.read_only = sessions is None

    def shared(self, section: str, at: str, cell: str | None = None) -> PageValues:
        """The values that are the same for all readers: parts that are sent to all may show only these. `off`: why
        nothing can be changed, empty where it can.
        """
        off = READ_ONLY if self.read_only else IN_THE_PAST if at else ""
        return {
            "menu": MENU,
            "section": section,
            "off": off,
            "read_only": self.read_only,
            "cells": self._cells,
            "at": at,
            "cell": cell,
            "blame": rendering.blame_links(at, cell),
            "link": lambda path, **query: rendering.link(at, path, **{"cell": cell, **query}),
        }

    def of(self, request: Request, section: str = "") -> PageValues:
        """All of it. `watch`: what the stream calls this page, empty where it doesn't change; `here(at, …)`: this
        page at another moment, with other parts of its query.
        """
        at = request.query_params.get("at", "")
        theme = request.query_params.get("theme")
        path = quote(request.url.path.removeprefix("/ui"))
        pairs = [pair for pair in request.query_params.multi_items() if pair[0] not in OF_BROWSER]
        here = path + _query(pairs)

        def there(at: str = "", **other: Any) -> str:
            new = [*other.items(), *([("at", at)] if at else [])]
            return f"/ui{path}{_query([*(pair for pair in pairs if pair[0] not in ('at', *other)), *new])}"

        return self.shared(section, at, request.query_params.get("cell")) | {
            "session": self.session(request),
            "limited": limits() is not None,
            "sign_in": sign_in_first(here if request.method == "GET" else "/"),
            "watch": here if section and not at and not self.read_only and request.method == "GET" else "",
            "here": there,
            "theme": theme if theme in ("light", "dark") else "",
            "time": None,
        }

    def session(self, request: Request) -> Session | None:
        """The session of the reader who is signed in."""
        return self._sessions.of(request) if self._sessions else None

    def must_be_writable(self, request: Request) -> Sessions:
        """The sessions of pages that change something. Raises a problem where nothing can be changed."""
        if self._sessions is None:
            raise Problem(405, "READ_ONLY", READ_ONLY)
        if request.query_params.get("at"):
            raise Problem(409, "READ_ONLY", IN_THE_PAST)
        return self._sessions


def _query(pairs: Sequence[tuple[str, Any]]) -> str:
    return f"?{urlencode(pairs)}" if pairs else ""


def sign_in_first(path: str) -> str:
    """The address that leads to a page by way of the sign-in."""
    return f"/ui{SIGN_IN}?next={quote(f'/ui{path}', safe='')}"
