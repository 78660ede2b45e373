"""The search of the field in the header: the page of the only hit, or a list."""

from urllib.parse import quote

from projections.queries.finding import Named, named
from projections.ui.page_values import PageValues
from projections.ui.scene import Elsewhere, Page, Scene

MOST = 20
"""The most hits of each kind in each cell."""


def load(scene: Scene) -> PageValues:
    """Jobs, pools and hosts whose name begins with `q`. Goes to the page of the only one, or of the only whole name;
    to all jobs where nothing is asked for.
    """
    text = scene.query.get("q", "").strip()[:300]
    if not text:
        raise Elsewhere("/jobs")
    hits = {each: _path(each) for cell in scene.cells.values() for each in named(cell.connection, text, MOST)}
    whole = [each for each in hits if each.name in (text, f"/{text}")]
    for only in (whole, list(hits)):
        if len(only) == 1:
            raise Elsewhere(hits[only[0]])
    return {"q": text, "found": hits, "most": MOST}


def _path(hit: Named) -> str:
    name = quote(hit.name.strip("/"), safe="/" if hit.kind == "pool" else "")
    return f"/{hit.kind}s/{name}" if name else f"/{hit.kind}s"


PAGES = (Page("/find", "find.html", load, ""),)
