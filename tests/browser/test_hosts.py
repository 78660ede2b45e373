"""The map of hosts in a browser: walked through by keyboard, made larger, and filtered."""

from playwright.sync_api import expect

from tests.browser.browser import Visitor
from tests.browser.cells import Shown

LABEL = "2000 hosts by cpu, grouped by rack. Arrow keys move, Enter opens the host."


def test_hosts_are_walked_through_by_arrows_and_opened_by_enter(visitor: Visitor, many: Shown) -> None:
    page = visitor.open(many.url("/hosts"))
    canvas, tip = page.locator("#hostmap canvas"), page.locator("#hostmap .tip")
    expect(canvas).to_have_attribute("aria-label", LABEL)
    canvas.focus()
    expect(tip).to_contain_text("host-00000")
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("host-00100")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_url("**/hosts/host-00000")
    expect(page.locator("h1")).to_contain_text("host-00000")


def test_marks_grow_and_a_step_of_the_histogram_filters(visitor: Visitor, many: Shown) -> None:
    page = visitor.open(many.url("/hosts"))
    canvas = page.locator("#hostmap canvas")
    expect(canvas).to_have_attribute("aria-label", LABEL)
    page.get_by_role("button", name="Smaller marks").click()
    small = canvas.evaluate("canvas => canvas.height")
    page.get_by_role("button", name="Larger marks").click()
    assert canvas.evaluate("canvas => canvas.height") > small
    page.locator(".histo a").first.click()
    expect(page.locator(".filters")).to_contain_text("of 2,000 hosts")
