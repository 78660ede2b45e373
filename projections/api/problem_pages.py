"""The page of each problem, which its `type` names: what it means, who can act and what helps, as docs/reasons.md and
docs/problems.md have it. Installed, these pages lie beside this module.
"""

import re
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from paceline.client.cell_models import ProblemKind
from projections.api.problems import not_found, type_of

FILES = ("reasons.md", "problems.md")
_ROW = re.compile(r"^\| `([A-Z_]+)` \| (.*?) \| ?(.*?) ?\| ?(.*?) ?\|$", re.M)
_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
_HTML = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{code}</title>
<h1><code>{code}</code></h1><p>{means}</p>{rest}</html>
"""


@cache
def problem_kinds() -> Mapping[str, ProblemKind]:
    """All kinds of problems, by code."""
    kinds: dict[str, ProblemKind] = {}
    for name in FILES:
        here = Path(__file__).with_name(name)
        file = here if here.exists() else Path(__file__).parents[2] / "docs" / name
        text = _LINK.sub(r"\1", file.read_text(encoding="utf-8"))
        for code, means, who, helps in _ROW.findall(text):
            kinds[code] = {"type": type_of(code), "code": code, "means": means, "who": who, "helps": helps}
    return kinds


def routes() -> APIRouter:
    """The route of problems."""
    router = APIRouter(prefix="/problems", tags=["problems"])

    @router.get("/{code}")
    def problem(code: str, request: Request) -> Response:
        """Says what a problem means and what helps: as a page to who accepts HTML, else as JSON."""
        kind = problem_kinds().get(code.upper().replace("-", "_"))
        if kind is None:
            raise not_found("problem", code)
        return HTMLResponse(_page(kind)) if "text/html" in request.headers.get("accept", "") else JSONResponse(kind)

    return router


def _page(kind: ProblemKind) -> str:
    rest = [f"<p>Who can act: {_marked(kind['who'])}.</p>"] if kind["who"] else []
    rest += [f"<p>What helps: {_marked(kind['helps'])}</p>"] if kind["helps"] else []
    return _HTML.format(code=escape(kind["code"]), means=_marked(kind["means"]), rest="".join(rest))


def _marked(text: str) -> str:
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))
