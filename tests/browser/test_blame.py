"""What somebody who wonders about a number does in the pages: follows it to who moved it last, and asks for another."""

from playwright.sync_api import expect

from tests.browser.browser import TIMEOUT_MS, Visitor
from tests.browser.cells import Shown
from tests.browser.test_pages import NARROW, blamed, fits

expect.set_options(timeout=TIMEOUT_MS)


def test_a_figure_leads_to_who_moved_it(visitor: Visitor, real: Shown) -> None:
    page = visitor.open(real.url("/pools/maps/tiles"))
    page.get_by_role("row", name="cpu").get_by_title("Who moved it last?").first.click()
    expect(page.locator("h1")).to_have_text("Who moved /maps/tiles:reservation:cpu")
    expect(page.locator("#blame")).to_contain_text("/maps/tiles defined: reservation 1 cpu")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert blamed(page) == []
    page.set_viewport_size(NARROW)
    assert fits(page)
    page.get_by_label("Value").fill("stopped:state")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("h1")).to_have_text("Who moved stopped:state")
    expect(page.locator("#blame")).to_contain_text("KILLED")
    page.get_by_role("link", name="All that led to it").click()
    expect(page.locator("h1")).to_contain_text("Why ")
