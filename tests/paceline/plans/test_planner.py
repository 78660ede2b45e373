"""The process that plans, as the server of a cell has it: one plan at a time, bounded in time and number."""

import sys
import threading
import time
from pathlib import Path

import pytest

from events.records.jobs import JobSubmitted
from paceline.moments import planner
from paceline.moments.order import LogAddress, PlanStart
from paceline.moments.planner import CellPlans
from projections.api.problems import Problem

START = PlanStart(LogAddress("nowhere", 0), "views.sqlite", [])
JOB = JobSubmitted(job_id="a", pool="/p")
ANSWERS = """
import sys, time
sys.stdin.readline()
for line in sys.stdin:
    time.sleep({pause})
    print('{{"plan": {{"job_id": "a"}}, "code": "{code}", "error": "{error}"}}', flush=True)
    {after}
"""


def answering(pause: float = 0, code: str = "", error: str = "", after: str = "pass") -> CellPlans:
    text = ANSWERS.format(pause=pause, code=code, error=error, after=after)
    return CellPlans(START, 0.5, [sys.executable, "-c", text])


def refused(plans: CellPlans) -> Problem:
    with pytest.raises(Problem) as caught:
        plans.plan({"a": [JOB]})
    return caught.value


def test_one_process_answers_question_after_question() -> None:
    plans = answering()
    assert plans.plan({"a": [JOB]}) == plans.plan({"a": [JOB]}) == {"job_id": "a"}
    plans.close()


def test_a_process_that_has_ended_is_started_again() -> None:
    plans = answering(after="break")
    assert plans.plan({"a": [JOB]}) == {"job_id": "a"}
    time.sleep(0.2)
    assert plans.plan({"a": [JOB]}) == {"job_id": "a"}
    plans.close()


def test_the_process_ends_by_itself_when_nobody_asks_any_more(tmp_path: Path) -> None:
    text = ANSWERS.format(pause=0, code="", error="", after="pass") + f"open({str(tmp_path / 'ended')!r}, 'w')"
    plans = CellPlans(START, 0.5, [sys.executable, "-c", text])
    plans.plan({"a": [JOB]})
    plans.close()
    assert (tmp_path / "ended").exists()


def test_a_plan_that_fails_says_why() -> None:
    plans = answering(code="VIEWS_BEHIND", error="the views are being made")
    problem = refused(plans)
    assert (problem.status, problem.code, problem.detail) == (503, "VIEWS_BEHIND", "the views are being made")
    plans.close()


def test_a_process_that_breaks_is_told_of_by_its_last_words() -> None:
    plans = CellPlans(START, 5, [sys.executable, "-c", "raise SystemExit('the log lacks records')"])
    problem = refused(plans)
    assert (problem.status, problem.code) == (503, "PLAN_FAILED")
    assert "the log lacks records" in problem.detail
    plans.close()


def test_a_plan_that_is_late_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "LIMIT_S", 0.2)
    plans = answering(pause=30)
    assert "took longer" in refused(plans).detail
    plans.close()


def test_so_many_are_made_at_once_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "WAITING_MAX", 2)
    plans = answering(pause=0.3)
    threads = [threading.Thread(target=plans.plan, args=({"a": [JOB]},)) for _ in range(2)]
    for thread in threads:
        thread.start()
    while plans.asked < 2:
        time.sleep(0.01)
    assert refused(plans).code == "TOO_MANY_PLANS"
    for thread in threads:
        thread.join()
    plans.close()


def test_a_process_that_was_prepared_is_there_when_it_is_asked() -> None:
    plans = answering()
    plans.prepare()
    process = plans._process
    assert process is not None
    plans.prepare()
    assert plans.plan({"a": [JOB]}) == {"job_id": "a"}
    assert plans._process is process
    plans.close()
