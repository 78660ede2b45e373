"""The inline parts of a report's page: styles and modules of the web UI, so that it needs no server."""

import re
from importlib.resources import files

from markupsafe import Markup

STATIC = files("projections.ui") / "static"
OWN = """
main { max-width: 1120px; }
.figures { grid-template-columns: repeat(auto-fit, minmax(110px, 1fr)); margin: 0; } .figures dd { margin: 0; }
.pair { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(380px, 100%), 1fr)); gap: var(--pad); }
.foot code { overflow-wrap: anywhere; } figure { margin: 0; min-width: 0; } figcaption { font-weight: 600; }
.chart { width: 100%; min-width: 640px; max-width: 900px; height: auto; display: block; }
.chart text { font-size: 12px; fill: var(--soft); }
.grid { stroke: var(--line); } .base { stroke: var(--edge); }
.range { stroke: var(--s1); stroke-width: 5; stroke-linecap: round; opacity: 0.45; }
.dot { fill: var(--s1); stroke: var(--card); stroke-width: 2; }
"""
_IMPORT = re.compile(r"^import .*;$", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def style() -> Markup:
    """All rules."""
    return Markup("\n".join([_text("vendor/uplot/uPlot.min.css"), _text("paceline.css"), OWN]))


def library() -> Markup:
    """uPlot, with its notice."""
    return Markup(_text("vendor/uplot/uPlot.iife.min.js"))


def modules() -> Markup:
    """The modules that draw, one after the other in one scope: a file has no others to import from."""
    text = "\n".join(map(_text, ("colours.js", "plots.js")))
    return Markup(_EXPORT.sub("", _IMPORT.sub("", text)))


def _text(name: str) -> str:
    return STATIC.joinpath(name).read_text(encoding="utf-8")
