"""Pages show what becomes of a cell without being loaded again, in all tabs, and come back when the way was cut."""

from itertools import count

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.browser import TIMEOUT_MS, Visitor
from tests.browser.cells import TASK, Shown
from tests.browser.proxy import proxy

TABS = 10
NUMBERS = count()

expect.set_options(timeout=TIMEOUT_MS)


def submit(cell: Shown) -> str:
    """A job that has ended soon; its name."""
    name = f"fresh-{next(NUMBERS)}"
    with cell.client() as client:
        client.submit_job({"job_id": name, "pool": "/maps/tiles", "command": ["true"], **TASK}, wait=20)
    return name


def opened(page: Page, url: str) -> Page:
    """A page that is live, marked so that loading it again would show."""
    page.goto(url)
    expect(page.locator("#fresh")).to_contain_text("live,")
    page.evaluate("window.mark = 'not loaded again'")
    return page


def row(page: Page, name: str) -> Locator:
    """The row of a job."""
    return page.locator("tbody tr").filter(has_text=name)


def same(page: Page) -> bool:
    """Whether it was never loaded again."""
    return bool(page.evaluate("window.mark === 'not loaded again'"))


def test_a_change_is_seen_without_loading(visitor: Visitor, real: Shown) -> None:
    page = opened(visitor.somebody().new_page(), real.url("/jobs"))
    name = submit(real)
    expect(row(page, name)).to_contain_text("Succeeded")
    assert same(page)


def test_ten_tabs_are_all_live(visitor: Visitor, real: Shown) -> None:
    somebody = visitor.somebody()
    tabs = [opened(somebody.new_page(), real.url("/jobs")) for _ in range(TABS)]
    name = submit(real)
    for tab in tabs:
        expect(row(tab, name)).to_contain_text("Succeeded")
        assert same(tab)


@pytest.fixture
def cut_visitor(browser) -> Visitor:
    """Whose browser says in the console that it can't reach the server."""
    visits = Visitor(browser)
    yield visits
    visits.close()
    assert [each for each in visits.faults if "ERR_" not in each] == []


def test_a_stream_that_was_cut_goes_on(cut_visitor: Visitor, real: Shown) -> None:
    with proxy(real.address) as way:
        page = opened(cut_visitor.somebody().new_page(), real.url("/jobs").replace(real.address, way.address))
        way.cut()
        expect(page.locator("#fresh")).to_contain_text("reconnecting")
        name = submit(real)
        way.mend()
        expect(page.locator("#fresh")).to_contain_text("live,")
        expect(row(page, name)).to_contain_text("Succeeded")
        assert same(page)
