"""What a processor counts of the decisions of lifecycle."""

from collections.abc import Sequence

from prometheus_client import REGISTRY

from events.codes import Overdue, RunReport
from events.columns import pack_ints
from events.records.base import Event
from events.records.lifecycle import HostSuspected, JobChanged, RunsOverdue, UpdateEnded
from processors.runtime import run_metrics
from tests.helpers.machines import columns
from tests.processors.lifecycle.harness import World

CELL = "of this test"


def counted(said: Sequence[Event]) -> dict[tuple[str, ...], float]:
    """What is counted more after these decisions, by metric and labels."""

    def now() -> dict[tuple[str, ...], float]:
        return {
            (sample.name.removeprefix("paceline_"), *list(sample.labels.values())[1:]): sample.value
            for metric in REGISTRY.collect()
            for sample in metric.samples
            if sample.labels.get("cell") == CELL and sample.name.endswith("_total")
        }

    before = now()
    for event in said:
        run_metrics.count(CELL, event)
    return {key: value - before.get(key, 0) for key, value in now().items() if value != before.get(key, 0)}


def test_ends_and_retries_are_counted_by_whose_failure_they_were() -> None:
    world = World()
    world.submit("a", instances=3, retries_max=1)
    world.place(*(("a", at, 1) for at in range(3)))
    said = world.report(RunReport.EXITED, ("a", 0, 1), ("a", 1, 1), exit_code=1)
    assert counted(said) == {("runs_ended_total", "FAILED", "NONE"): 2, ("retries_total", "TASK", "NONE"): 2}
    said = world.report(RunReport.VANISHED, ("a", 2, 1))
    assert counted(said) == {("runs_ended_total", "FAILED", "NONE"): 1, ("retries_total", "HOST", "NONE"): 1}
    world.later(600_000)
    world.place(*(("a", at, 2) for at in range(3)))
    said = world.report(RunReport.EXITED, *(("a", at, 2) for at in range(3)))
    assert counted(said) == {("runs_ended_total", "SUCCEEDED", "NONE"): 3, ("jobs_ended_total", "SUCCEEDED"): 1}


def test_a_stop_by_the_user_is_counted_with_its_cause_and_is_no_retry() -> None:
    world = World()
    world.submit("a")
    world.place(("a", 0, 1))
    said = world.stop("a") + world.report(RunReport.STOPPED, ("a", 0, 1))
    assert counted(said) == {("runs_ended_total", "STOPPED", "STOP"): 1, ("jobs_ended_total", "KILLED"): 1}


def test_deadlines_updates_and_suspicions_are_counted() -> None:
    runs = [("a", 0, 1), ("a", 1, 1), ("a", 2, 1)]
    overdue = RunsOverdue(**columns(runs), what=pack_ints([Overdue.STOP, Overdue.START, Overdue.STOP]))
    ended = UpdateEnded(job_id="a", number=1, state="FAILED", code="STALLED")
    suspected = HostSuspected(host_id="h", code="STOP_NOT_OBEYED", runs=1, jobs=1, within_ms=0)
    kept = JobChanged(job_id="a", state="KILLED", kept=True)
    assert counted([overdue, ended, suspected, kept]) == {
        ("runs_overdue_total", "STOP"): 2,
        ("runs_overdue_total", "START"): 1,
        ("updates_ended_total", "FAILED", "STALLED"): 1,
        ("hosts_suspected_total", "STOP_NOT_OBEYED"): 1,
    }
