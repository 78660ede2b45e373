"""Jobs in a browser: one is stopped by who looks at it, tasks are walked through by keyboard, output is live."""

from playwright.sync_api import expect

from paceline.client import cell_file
from tests.browser.browser import Visitor
from tests.browser.cells import Shown


def test_a_job_is_stopped_from_its_page_and_seen_stopping(visitor: Visitor, real: Shown) -> None:
    with real.client() as client:
        job = {"job_id": "by-hand", "pool": "/search", "command": ["sleep", "600"], "resources": {"cpu": "10m"}}
        client.submit_job(job, wait=30.0)
    somebody = visitor.somebody()
    page = somebody.new_page()
    page.goto(real.url("/jobs/by-hand"))
    page.get_by_text("Running", exact=True).first.wait_for()
    page.get_by_role("link", name="Stop…").click()
    page.get_by_label("Token").fill(cell_file.token(real.data) or "")
    page.keyboard.press("Enter")
    watching = somebody.new_page()
    watching.goto(real.url("/jobs/by-hand"))
    page.get_by_label("Reason").fill("no longer needed")
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stop: done").wait_for()
    watching.locator("#live_head").get_by_text("Killed", exact=True).wait_for()
    expect(watching.locator("#live_story")).to_contain_text("no longer needed")


def test_tasks_are_walked_through_by_arrows_and_opened_by_enter(visitor: Visitor, real: Shown) -> None:
    page = visitor.open(real.url("/jobs/web"))
    tip = page.locator("[data-tip]")
    expect(tip).to_contain_text("task 0")
    page.locator("#grid canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")  # the last one has no neighbour
    expect(tip).to_contain_text("task 2")
    expect(tip).to_contain_text("Running")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/web/tasks/2")
    expect(page.locator("h1")).to_contain_text("Task 2")


def test_the_output_of_a_run_grows_while_it_is_looked_at(visitor: Visitor, real: Shown) -> None:
    page = visitor.open(real.url("/jobs/web/tasks/1"))
    for stream, line in (("stdout", "a line"), ("stderr", "an error")):
        output = page.get_by_label(f"{stream} of task 1")
        expect(output).to_contain_text(line)
        lines = output.inner_text().count("\n")
        with page.expect_request(lambda request: "wait=20s" in request.url):  # it doesn't ask again and again
            page.wait_for_function(
                "([box, least]) => box.innerText.split('\\n').length > least", arg=[output.element_handle(), lines + 3]
            )


def test_a_stream_to_which_nothing_was_written_takes_no_room(visitor: Visitor, real: Shown) -> None:
    page = visitor.open(real.url("/jobs/failed"))
    expect(page.get_by_label("stderr of task 0")).to_have_text("oh\n")
    expect(page.get_by_label("stdout of task 0")).to_be_hidden()


def test_chosen_jobs_are_counted_and_changed_together(visitor: Visitor, real: Shown) -> None:
    page = visitor.open(real.url("/jobs") + "?pool=/maps")
    bar = page.locator("#bulk")
    expect(bar).to_be_hidden()
    page.get_by_label("Choose done").check()
    page.get_by_label("Choose failed").check()
    expect(bar).to_contain_text("2 jobs, 5 tasks chosen")
    page.get_by_role("button", name="Clear").click()
    expect(bar).to_be_hidden()


def test_a_narrow_list_is_short(visitor: Visitor, real: Shown) -> None:
    narrow = {"width": 400, "height": 800}
    page = visitor.open(real.url("/jobs?text=d"), viewport=narrow)  # done, failed, stopped and others
    heights = page.eval_on_selector_all("#live_jobs tbody tr", "rows => rows.map((row) => row.offsetHeight)")
    assert min(heights) < 70, "two lines"
    assert max(heights) < 200
