"""What somebody does in the pages: signs in, stops a job and sees it stopping. In the past nothing can be done."""

import re
from itertools import count

import pytest
from playwright.sync_api import Page, expect

from paceline.client import cell_file
from tests.browser.browser import TIMEOUT_MS, Visitor
from tests.browser.cells import TASK, Shown, until

NUMBERS = count()
SLOW_TO_STOP = ["sh", "-c", "trap 'sleep 1; exit' TERM; while :; do sleep 0.1; done"]

expect.set_options(timeout=TIMEOUT_MS)


def running(cell: Shown) -> str:
    """A job that runs; its name."""
    name = f"doing-{next(NUMBERS)}"
    with cell.client() as client:
        client.submit_job({"job_id": name, "pool": "/maps/tiles", "command": SLOW_TO_STOP, **TASK}, wait=20)
        until(lambda: client.job(name)["tasks"]["running"], "the job to run")
    return name


def tab_to(page: Page, name: str) -> None:
    """Goes on by the Tab key until something of that name has the focus."""
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.labels?.[0]?.innerText ?? document.activeElement.innerText") == name:
            return
    raise AssertionError(f"{name} isn't reached")


def test_a_job_is_stopped_by_keyboard_and_seen_stopping(visitor: Visitor, real: Shown) -> None:
    name = running(real)
    page = visitor.open(f"http://{real.address}/ui/jobs/{name}")
    tab_to(page, "Stop…")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Sign in")
    page.keyboard.type(cell_file.token(real.data) or "")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(f"Stop {name}")
    expect(page.locator("main")).to_contain_text("1 job with 1 task")
    tab_to(page, "Reason, recorded in the log")
    page.keyboard.type("a <b>test</b>")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("Stop: done")
    tab_to(page, name)
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text(re.compile("Killing|Killed"))
    expect(page.locator("h1")).to_contain_text("Killed")
    with real.client() as client:
        assert client.job(name)["state"] == "KILLED"


def test_many_jobs_are_stopped_with_one_reason(visitor: Visitor, real: Shown) -> None:
    names = [running(real), running(real)]
    page = visitor.open(real.url("/sign-in"))
    page.get_by_label("Token").fill(cell_file.token(real.data) or "")
    page.get_by_role("button", name="Sign in").click()
    page.goto(real.url("/jobs"))
    for name in names:
        page.locator("tbody tr").filter(has_text=name).get_by_role("checkbox").check()
    page.get_by_role("button", name=re.compile("^Stop")).click()
    expect(page.locator("h1")).to_have_text("Stop 2 jobs")
    page.get_by_label("Reason").fill("both")
    page.get_by_role("button", name="Stop 2 jobs").click()
    expect(page.locator("h1")).to_contain_text("2 of 2 done")
    with real.client() as client:
        for name in names:
            until(lambda name=name: client.job(name)["state"] == "KILLED", "the job to end")


@pytest.mark.parametrize("when", ["past", "history"])
def test_nothing_can_be_done_in_the_past(visitor: Visitor, when: str, request: pytest.FixtureRequest) -> None:
    cell: Shown = request.getfixturevalue(when)
    page = visitor.open(cell.url("/jobs/web"))
    page.locator("[data-write]").first.wait_for()
    assert page.locator("[data-write]:not([disabled])").count() == 0


def test_a_job_is_planned_on_the_page_where_it_is_submitted(visitor: Visitor, real: Shown) -> None:
    page = visitor.open(real.url("/sign-in"))
    page.get_by_label("Token").fill(cell_file.token(real.data) or "")
    page.get_by_role("button", name="Sign in").click()
    page.goto(real.url("/submit"))
    job = "job_id: planned\npool: /maps/tiles\ncommand: [sleep, '60']\nresources: {cpu: 10m, memory: 8MiB}\n"
    page.get_by_label("The job, in YAML or JSON").fill(job)
    page.get_by_role("button", name="Plan").click()
    expect(page.locator("#plan")).to_contain_text("PLACED Job planned: 1 of 1 task would get a host at once")
    expect(page.locator("#plan tbody tr")).to_have_count(1)
    expect(page.get_by_label("The job, in YAML or JSON")).to_have_value(job)
    with real.client() as client:
        assert "planned" not in {job["job_id"] for job in client.jobs()}
