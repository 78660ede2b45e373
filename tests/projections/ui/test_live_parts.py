"""The live parts of every page, over a cell that has devices, pools of hosts, gangs and maintenance."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from urllib.parse import parse_qsl

import pytest

from events.log.port import Log
from projections.ui import app as pages
from projections.ui import time_bar
from projections.ui.app import Ui
from projections.ui.contents import PAGES
from projections.ui.scene import Page
from tests.helpers.cards_scenario import CARDS
from tests.helpers.play import play
from tests.projections.conftest import TOKEN
from tests.projections.ui.sites import Site, site

NAMED = {
    "job_id": ("gang", "share", "wide", "any", "site"),
    "instance": ("0",),
    "path:path": ("ml", "ml/train", "web"),
    "host_id": ("card-1", "card-2", "sum-1", "web-1"),
    "machine": ("placement", "entitlement", "lifecycle", "sla"),
    "number": ("1",),
    "subject:path": ("gang", "wide"),
    "maintenance_id": ("kernel",),
}
"""What stands in the paths of pages, by the name of that part."""
WATCHED = [page for page in (*PAGES, time_bar.PART) if not page.for_writing]


@lru_cache(1)
def rich_log() -> Log:
    """The log of that cell."""
    return play(CARDS).run.cell.log


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(rich_log(), tmp_path_factory.mktemp("rich")) as found:
        yield found


def addresses(page: Page) -> Iterator[str]:
    """The addresses of a page, of each of the things that it may be about."""
    names = re.findall(r"\{([\w:]+)\}", page.path)
    assert {*names} <= NAMED.keys(), f"the test names nothing for {page.path}"
    for values in product(*(NAMED[name] for name in names)):
        path = page.path
        for name, value in zip(names, values, strict=True):
            path = path.replace("{" + name + "}", value)
        yield path if page.path != "/find" else "/find?q=card"
    if page.path == "/hosts":
        yield from ("/hosts?by=zone", "/hosts?show=gpu&by=rack", "/hosts?q=card")


@pytest.mark.parametrize("page", WATCHED, ids=lambda page: page.path)
def test_the_live_parts_of_a_page_are_those_of_the_page(
    page: Page, shown: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages.time, "time", lambda: 1_700_010_000.0)
    context = shown.client.app.state.context
    ui = Ui({0: context}, TOKEN, shown.client.app.state.moments)
    for path in addresses(page):
        plain, _, query = path.partition("?")
        html = shown.page("/" if page is time_bar.PART else plain, **dict(parse_qsl(query)))
        others = [name for name, part in ui._load_of(path)() if part not in html]
        assert others == [], f"parts of {path} aren't the same"
