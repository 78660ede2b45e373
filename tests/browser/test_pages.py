"""Every page, on every cell: it is there, it fits, it breaks no rule, and what users name does nothing in it."""

import re

import pytest
from playwright.sync_api import Page, TimeoutError

from projections.ui.contents import PAGES
from tests.browser.browser import WIDE, Visitor, stands
from tests.browser.cells import Shown
from tests.helpers import ROOT

AXE = ROOT / ".npm" / "node_modules" / "axe-core" / "axe.min.js"
PATHS = [page.path for page in PAGES if not page.for_writing]
NARROW = {"width": 400, "height": 800}
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
FOCUSABLE = (
    "a[href]:not([tabindex='-1']), button:not([disabled]), "
    "input:not([disabled]):not([type=hidden]), select, textarea, summary, "
    "[tabindex='0']"
)


def has(cell: Shown, path: str) -> bool:
    """Whether a cell has something to show there."""
    return "{" not in cell.url(path)


def fits(page: Page) -> bool:
    """Whether nothing scrolls sideways but what may, once plots have taken their new width."""
    try:
        page.wait_for_function("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    except TimeoutError:
        return False
    return True


def blamed(page: Page) -> list[str]:
    """What axe finds that is serious or critical."""
    page.evaluate(AXE.read_text())  # by the debugger: a policy for scripts doesn't bind it
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_there_and_fits(regular: Visitor, cell: Shown, path: str) -> None:
    if not has(cell, path):
        pytest.skip("nothing of that kind is there")
    page, status = regular.turn_to(cell.url(path))
    assert status == 200, page.inner_text("main")
    assert page.locator("h1").count() == 1
    assert len(page.inner_text("main")) > 20
    stands(page)
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        assert fits(page), f"scrolls sideways at {size['width']}"
    assert page.evaluate("window.hostile") is None
    assert not UNSAFE.search(page.evaluate("document.body.innerText"))


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_for_everybody(regular: Visitor, real: Shown, path: str) -> None:
    page, _ = regular.turn_to(real.url(path))
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    stands(page)
    assert blamed(page) == []
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert blamed(page) == []


@pytest.mark.parametrize("path", PATHS)
def test_a_page_can_be_read_without_scripts(regular: Visitor, real: Shown, path: str) -> None:
    page, _ = regular.turn_to(real.url(path), java_script_enabled=False)
    assert page.locator("h1").count() == 1
    assert page.locator("nav a").count() > 5
    assert len(page.inner_text("main")) > 20


@pytest.mark.parametrize("path", PATHS)
def test_all_of_a_page_is_reached_by_keyboard(regular: Visitor, real: Shown, path: str) -> None:
    page, _ = regular.turn_to(real.url(path))
    count = page.evaluate(
        "selector => { window.places = new Map([...document.querySelectorAll(selector)]"
        ".filter(each => each.checkVisibility()).map((each, at) => [each, at])); return window.places.size }",
        FOCUSABLE,
    )
    reached, unseen = set(), set()
    for _ in range(2 * count):
        page.keyboard.press("Tab")
        place, seen, html = page.evaluate(
            "() => { const at = document.activeElement; const style = getComputedStyle(at);"
            "return [window.places.get(at) ?? null, style.outlineStyle !== 'none' || style.boxShadow !== 'none',"
            "at.outerHTML.slice(0, 120)] }"
        )
        if place is None:  # it came meanwhile: pages are live
            continue
        if place in reached:
            break
        reached.add(place)
        if not seen:
            unseen.add(html)
    missing = page.evaluate(
        "reached => [...window.places].filter(([each, at]) => each.isConnected && !reached.includes(at))"
        ".map(([each]) => each.outerHTML.slice(0, 120))",
        list(reached),
    )
    # of a group of radio buttons the browser reaches one, the others by arrows
    assert [html for html in missing if 'type="radio"' not in html] == []
    assert unseen == set()
