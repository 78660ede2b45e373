"""Plans of several jobs: each is submitted after those before it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from events.records.parts import PlacementRules, TaskAffinity
from events.records.pools import CellConfigured, PoolDefined
from hostagent.fleet import SimHost
from tests.paceline.plans.cells import PlannedCell, job

WHOLE: dict[str, Any] = {"resources": {"cpu": 4_000}}
LABELS = ("a", "b")


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[PlannedCell]:
    """Three hosts of four cores."""
    cell = PlannedCell(tmp_path, [SimHost(3, {"cpu": 4_000, "memory": 65_536})])
    cell.append(CellConfigured(command_id="cell", preemption_delay_ms=10_000))
    cell.append(PoolDefined(path="/p", command_id="p"))
    cell.run(1000)
    yield cell
    cell.close()


def hosts(plan: Any) -> list[str]:
    return [each["host_id"] for each in plan["hosts"]]


def test_the_first_takes_the_room_of_the_next(cell: PlannedCell) -> None:
    jobs = {job_id: [job(job_id, "/p", instances=2, **WHOLE)] for job_id in ("one", "two")}
    assert [cell.plan(*facts, job_id=job_id)["outcome"] for job_id, facts in jobs.items()] == ["PLACED", "PLACED"]
    one, two = cell.plan_jobs(jobs)
    assert [(each["job_id"], each["outcome"], each["placed"]) for each in (one, two)] == [
        ("one", "PLACED", 2),
        ("two", "PARTLY_PLACED", 1),
    ]
    assert not {*hosts(one)} & {*hosts(two)}
    assert [each["code"] for each in two["reasons"]] == ["ENTITLEMENT_REACHED"]
    for facts in jobs.values():
        cell.append(*facts)
    cell.run(round(two["looked_ahead_s"] * 1000))
    assert [cell.outcome(job_id)["placed"] for job_id in jobs] == [2, 1]


def test_the_order_given_is_that_of_the_submissions(cell: PlannedCell) -> None:
    jobs = {job_id: [job(job_id, "/p", instances=2, **WHOLE)] for job_id in ("two", "one")}
    assert [(each["job_id"], each["placed"]) for each in cell.plan_jobs(jobs)] == [("two", 2), ("one", 1)]


def test_jobs_that_want_each_other_are_placed_together(cell: PlannedCell) -> None:
    def wanting(job_id: str, other: str) -> Any:
        rules = PlacementRules(affinity=(TaskAffinity(label="app", value=other),))
        return job(job_id, "/p", resources={"cpu": 1_000}, labels={"app": job_id}, rules=rules)

    jobs = {job_id: [wanting(job_id, other)] for job_id, other in (LABELS, LABELS[::-1])}
    alone = cell.plan(*jobs["a"], job_id="a")
    assert (alone["outcome"], alone["waiting"]) == ("WAITS", 1)
    plans = cell.plan_jobs(jobs)
    for facts in jobs.values():
        cell.append(*facts)
    cell.run(round(plans[0]["looked_ahead_s"] * 1000))
    assert [each["placed"] for each in plans] == [cell.outcome(job_id)["placed"] for job_id in jobs]
