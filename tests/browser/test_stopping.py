"""A job is stopped by somebody who looks at it in a browser."""

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
    page.get_by_text("1 of 1 done").wait_for()
    watching.locator("#live_head").get_by_text("Killed", exact=True).wait_for()
    assert "no longer needed" in watching.inner_text("#live_story")
