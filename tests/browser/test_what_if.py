"""What somebody who wonders does in the pages: chooses a stretch, changes a number, and sees both lines."""

from playwright.sync_api import expect

from paceline.client import cell_file
from tests.browser.browser import TIMEOUT_MS, Visitor, stands
from tests.browser.cells import START_S, Shown
from tests.browser.test_pages import NARROW, blamed, fits

expect.set_options(timeout=TIMEOUT_MS)


def test_a_question_is_asked_and_its_lines_are_seen(visitor: Visitor, real: Shown) -> None:
    page = visitor.open(real.url("/pools/search"))
    page.get_by_role("link", name="What if /search had had another number in this time?").click()
    expect(page.locator("h1")).to_have_text("Sign in")
    page.get_by_label("Token").fill(cell_file.token(real.data) or "")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("What if")
    assert page.get_by_label("What is otherwise").input_value() == "/search"
    assert blamed(page) == []
    page.get_by_text("More changes, conditions, pairs of runs").click()
    page.get_by_label("Conditions under which a check fails").fill("cell preempted < 1000\ncell preempted > 1000")
    page.get_by_label("Pairs of runs").fill("2")
    with real.client() as client:  # the pools are there by then
        page.get_by_label("From, in UTC").fill(client.job("waits")["submitted_at"] or "")
    page.get_by_label("To", exact=True).fill(page.evaluate("new Date().toISOString()"))
    page.get_by_label("Its value then").fill("3")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("h1")).to_contain_text("What if: /search")
    expect(page.get_by_role("heading", name="Effects")).to_be_visible(timeout=START_S * 1000)
    expect(page.locator("h1")).to_have_text("What if: /search share: 1 -> 3")
    stands(page)
    plot = page.locator(".plot").first
    assert plot.get_by_role("row").get_by_role("rowheader").all_inner_texts() == ["recorded", "again", "changed"]
    conditions = page.get_by_role("group", name="Conditions").get_by_role("row")
    expect(conditions).to_have_count(3)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert blamed(page) == []
    page.set_viewport_size(NARROW)
    assert fits(page)
    page.get_by_role("link", name="Ask otherwise").click()
    assert page.get_by_label("More changes").input_value() == "/search:share=3"
    assert page.get_by_label("Conditions under which").input_value() == "cell preempted < 1000\ncell preempted > 1000"


def test_the_time_bar_leads_to_the_hour_before_the_moment_that_is_shown(visitor: Visitor, real: Shown) -> None:
    page = visitor.open(real.url("/sign-in"))
    page.get_by_label("Token").fill(cell_file.token(real.data) or "")
    page.get_by_role("button", name="Sign in").click()
    page.goto(f"http://{real.address}/ui/pools?at=0/lifecycle/round/3")
    expect(page.locator("h1")).to_have_text("Pools")
    at_ms = int(page.locator("section.time").get_attribute("data-at-ms") or 0)
    page.get_by_role("link", name="What if", exact=True).click()
    begins, ends = (page.get_by_label(label, exact=True).input_value() for label in ("From, in UTC", "To"))
    times = page.evaluate("texts => texts.map(Date.parse)", [begins, ends])
    assert times == [at_ms - 3_600_000, at_ms]
