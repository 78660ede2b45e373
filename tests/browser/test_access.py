"""The page of access in a browser: full and empty, narrow, light and dark; lockdowns come and go on open pages."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import expect

from events.records.entitlement import PoolAnswered
from events.records.parts import Actor
from events.records.pools import LockdownSet, PoolDefined, RoleBound, RoleUnbound, TokenIssued, TokenRevoked
from tests.browser.browser import TIMEOUT_MS, WIDE, Visitor
from tests.browser.cells import HOSTILE, until
from tests.browser.test_pages import NARROW, blamed, fits
from tests.projections.ui.views import Pages

expect.set_options(timeout=TIMEOUT_MS)
SOMEBODY = Actor(HOSTILE[:100], "environment", "::1")


class Served:
    """A cell that is written by hand, and its pages for a browser."""

    def __init__(self, pages: Pages, address: str) -> None:
        self.pages = pages
        self.address = address

    def done(self, *facts: Any) -> None:
        """Writes facts that entitlement carries out."""
        cell = self.pages.cell
        for fact in facts:
            at = cell.fact(fact)
            path = getattr(fact, "path", "/")
            cell.decide("entitlement", PoolAnswered(path=path, pools_offset=at, command_id="c", code="DONE"))
            cell.ms += 1000
        self.pages.fold()


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """Serves pages until the block ends."""
    pages = Pages(folder)
    server = uvicorn.Server(uvicorn.Config(pages.app, host="127.0.0.1", port=0, log_level="error"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started, "the pages")
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Served(pages, f"http://127.0.0.1:{port}/ui")
    finally:
        server.force_exit = server.should_exit = True
        thread.join()
        pages.close()


@pytest.fixture
def given(tmp_path: Path) -> Iterator[Served]:
    """Roles and tokens that hold and that ended, with names and reasons that mean harm."""
    with served(tmp_path) as cell:
        said: Any = {"reason": HOSTILE, "actor": SOMEBODY}
        cell.done(
            PoolDefined(path="/maps", command_id="1"),
            RoleBound(command_id="2", binding_id="ci", subject="ci-maps", role="submitter", pool="/maps", **said),
            RoleBound(command_id="3", binding_id="crew", group=HOSTILE, role="operator", until_ms=4_000_000_000_000),
            RoleBound(command_id="4", binding_id="old", subject=HOSTILE, role="admin", **said),
            RoleUnbound(command_id="5", binding_id="old"),
            TokenIssued(command_id="6", token_id="t-ci", subject=HOSTILE, token_hash=bytes(32), **said),
            TokenIssued(command_id="7", token_id="t-old", subject="bob", token_hash=b"1" * 32),
            TokenRevoked(command_id="8", token_id="t-old"),
            LockdownSet(command_id="9", pool="/maps", locked=True, **said),
        )
        yield cell


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_page_of_access_fits_and_is_for_everybody(visitor: Visitor, given: Served, colours: str) -> None:
    page = visitor.open(f"{given.address}/access", color_scheme=colours, reduced_motion="reduce")
    expect(page.locator("h1")).to_have_text("Access")
    expect(page.locator("#live_bindings tbody tr")).to_have_count(2)
    expect(page.locator("#live_ended tbody tr")).to_have_count(2)
    assert page.locator("#live_lockdown .lockdown").count() == 1
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        assert fits(page), f"scrolls sideways at {size['width']}"
        assert blamed(page) == []
    assert page.evaluate("window.hostile") is None


def test_from_the_menu_to_a_role_and_to_the_fact_that_bound_it(visitor: Visitor, given: Served) -> None:
    page = visitor.open(f"{given.address}/")
    page.get_by_role("link", name="Access", exact=True).click()
    row = page.locator("#live_bindings tbody tr").filter(has_text="ci-maps")
    expect(row).to_contain_text("submitter")
    row.locator("a[title^='paceline.pools:']").click()
    expect(page.locator("tr.here")).to_contain_text("ci-maps")


def test_a_cell_where_nothing_was_given_says_so(visitor: Visitor, tmp_path: Path) -> None:
    with served(tmp_path) as cell:
        cell.done()
        page = visitor.open(f"{cell.address}/access")
        for part, text in (("bindings", "No role is bound"), ("tokens", "No token was made"), ("ended", "Nothing")):
            expect(page.locator(f"#live_{part} .empty")).to_contain_text(text)
        expect(page.locator("#live_lockdown .lockdown")).to_have_count(0)


def test_an_open_page_shows_a_lockdown_and_its_end_without_being_loaded_again(visitor: Visitor, given: Served) -> None:
    page = visitor.open(f"{given.address}/jobs")
    expect(page.locator("#fresh")).to_contain_text("live,")
    page.evaluate("window.mark = 'not loaded again'")
    banner = page.locator("#live_lockdown")
    given.done(LockdownSet(command_id="l", pool="/", locked=True, reason="racks move"))
    expect(banner).to_contain_text("The cell is locked down")
    expect(banner).to_contain_text("racks move. Only operators may change anything.")
    given.done(*(LockdownSet(command_id=pool, pool=pool, locked=False) for pool in ("/", "/maps")))
    expect(banner.locator(".lockdown")).to_have_count(0)
    assert page.evaluate("window.mark") == "not loaded again"
