"""What somebody who wonders about a number does in the pages: follows it to who moved it last, and asks for another."""

from playwright.sync_api import expect

from tests.browser.browser import TIMEOUT_MS, Visitor
from tests.browser.cells import Shown
from tests.browser.test_pages import NARROW, blamed, fits

expect.set_options(timeout=TIMEOUT_MS)


def test_a_figure_leads_to_who_moved_it(visitor: Visitor, real: Shown) -> None:
    page = visitor.open(real.url("/pools/maps/tiles"))
    page.get_by_role("row", name="cpu").get_by_title("Who moved /maps/tiles:reservation:cpu last?").first.click()
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


def test_the_figures_of_a_row_are_walked_through_by_a_key(visitor: Visitor, real: Shown) -> None:
    page = visitor.open(real.url("/jobs"))
    row = page.locator("#job-0-stopped")
    page.keyboard.press("w")  # no row is chosen yet: the first figure of the page
    expect(page.locator("a.moved:focus")).to_have_count(1)
    for _ in range(page.locator("main tbody tr").count()):
        page.keyboard.press("j")
        if row.locator("a:focus").count():
            break
    expect(row.get_by_role("link", name="stopped", exact=True).and_(page.locator(":focus"))).to_be_visible()
    page.keyboard.press("w")
    expect(row.get_by_role("link", name="Killed")).to_be_focused()
    expect(row.get_by_role("link", name="Killed")).to_have_accessible_description("Who moved stopped:state last?")
    page.keyboard.press("w")
    expect(row.get_by_title("Who moved stopped:tasks:succeeded last?")).to_be_focused()
    for _ in range(row.locator("a.moved:visible").count() - 1):
        page.keyboard.press("w")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Who moved stopped:state")
    expect(page.locator("#blame")).to_contain_text("KILLED")


def test_rows_are_opened_by_their_names_whatever_stands_before_them(visitor: Visitor, real: Shown) -> None:
    page = visitor.open(real.url("/"))
    page.keyboard.press("j")
    expect(page.locator("#live_oldest .lead a:focus")).to_have_text("waits")
    page.keyboard.press("w")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Who moved waits:waiting_since")


def test_a_figure_of_the_overview_leads_to_its_page_and_its_value_to_who_moved_it(
    visitor: Visitor, real: Shown
) -> None:
    page = visitor.open(real.url("/"))
    figure = page.locator(".figures > div", has_text="Hosts up")
    figure.get_by_title("Who moved cell:hosts last?").click()
    expect(page.locator("h1")).to_have_text("Who moved cell:hosts")
    page.go_back()
    figure.click(position={"x": 10, "y": 80})  # the rest of the card is one link
    page.wait_for_url("**/ui/hosts")
