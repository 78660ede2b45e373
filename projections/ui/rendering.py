"""Templates, and the answers made of them."""

import gzip
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

from jinja2 import ChoiceLoader, DictLoader, Environment, PackageLoader, StrictUndefined, Template
from starlette.requests import Request
from starlette.responses import Response

from projections.ui import assets, colours, format
from projections.ui.format import plain

LIVE = "live_"
"""Blocks of a template that are sent again when they have changed; each is one element with that id."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": "Accept-Encoding",
}
SMALL = 1024
"""Answers of fewer bytes aren't compressed."""


@lru_cache(1)
def environment() -> Environment:
    """The templates with what all of them may use."""
    jinja = Environment(
        loader=PackageLoader("projections.ui"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=plain,
        auto_reload=False,
    )
    jinja.filters |= {
        "short": format.short,
        "grouped": format.grouped,
        "counted": format.counted,
        "lasts": format.lasts,
        "moment": format.moment,
        "iso": format.iso,
        "segment": lambda name: quote(name, safe=""),
    }
    jinja.globals |= {"asset": assets.href, "reason_colours": colours.REASONS}
    return jinja


def link(at: str, path: str, **query: Any) -> str:
    """An address of a page that stays in the moment `at`; a query of None is left out. Templates have it as
    `link(path, …)`. Names in a path are quoted with the filter `segment`.
    """
    pairs = {name: value for name, value in query.items() if value is not None} | ({"at": at} if at else {})
    return f"/ui{path}" + (f"?{urlencode(pairs, doseq=True)}" if pairs else "")


def blame_links(at: str, cell: str | None) -> Callable[[str], str]:
    """Return what makes an address of blame for a target, as `link` does; large tables have hundreds of them."""
    before = link("", "/blame", cell=cell, of="")
    after = f"&{urlencode({'at': at})}" if at else ""
    return lambda of: before + quote_plus(of) + after


@lru_cache(1)
def _frameless() -> Environment:
    """The same templates with nothing around what pages show."""
    jinja = environment()
    assert jinja.loader is not None
    return jinja.overlay(loader=ChoiceLoader([DictLoader({"base.html": ""}), jinja.loader]))


def parts(template: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The live blocks of a page: id and HTML of each."""
    compiled: Template = _frameless().get_template(template)
    context = compiled.new_context(dict(values))
    for _ in compiled.root_render_func(context):  # what the template imports and defines outside its blocks
        pass
    for name, block in compiled.blocks.items():
        if name.startswith(LIVE):
            yield name, "".join(block(context))


def html(template: str, values: Mapping[str, Any]) -> str:
    """A page in full."""
    return environment().get_template(template).render(values)


def answer(
    request: Request, text: str | bytes, status: int = 200, kind: str = "text/html; charset=utf-8", **more: str
) -> Response:
    """An answer, compressed where the browser takes that; `more` are headers."""
    content = text.encode() if isinstance(text, str) else text
    headers = HEADERS | {name.replace("_", "-"): value for name, value in more.items()}
    if len(content) > SMALL and "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["Content-Encoding"] = gzip.compress(content, 3, mtime=0), "gzip"
    return Response(content, status, headers, kind)
