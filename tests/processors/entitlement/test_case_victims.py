"""The worked cases of preemption, in whole cells: who leaves when a pool takes its reservation back."""

import json
from typing import Any

import pytest

from events.records.entitlement import PreemptionsOrdered
from paceline.simulate.checker.history import History
from tests.helpers.machines import runs_of
from tests.helpers.play import play
from tests.processors.entitlement.test_cases import FOLDER

CASES: dict[str, Any] = {case["case_id"]: case for case in json.loads((FOLDER / "preemption.json").read_text())}
RUNNING = [task for task in CASES["stop_when_enough"]["tasks"] if task["state"] == "RUNNING"]


def victims(reservation: int, cores: int) -> list[str]:
    """Jobs that are preempted in pool /a, whose tasks run on one host, when /b wants some of its reservation there."""
    jobs = "".join(
        f"  - {{job_id: {task['task']}, pool: /a, at: {task['start_order'] * 10}s, priority: {task['priority']}, "
        "resources: {cpu: 1}, sim: {duration: 10h}}\n"
        for task in RUNNING
    )
    session = play(
        f"end: 30m\nhosts: [{{name: h, count: 1, resources: {{cpu: {len(RUNNING)}}}}}]\n"
        f"pools: [{{path: /a}}, {{path: /b, reservation: {{cpu: {reservation}}}}}]\njobs:\n{jobs}"
        f"  - {{job_id: owner, pool: /b, at: 10m, resources: {{cpu: {cores}}}, sim: {{duration: 10h}}}}\n"
    )
    orders = [
        event
        for round_ in History(session.run.cell.log).read()
        for event in round_.decisions
        if isinstance(event, PreemptionsOrdered)
    ]
    session.run.cell.close()
    return sorted(job_id for order in orders for job_id, _, _ in runs_of(order))


@pytest.mark.parametrize("cores", [2, 4])
def test_victims_by_priority_then_newest_until_the_task_fits(cores: int) -> None:
    """Theirs begins with tasks that have no host yet. Here nobody has to be preempted who holds none."""
    ranked = sorted(RUNNING, key=lambda task: (task["priority"], -task["start_order"]))
    assert victims(cores, cores) == sorted(task["task"] for task in ranked[:cores])


def test_a_pool_at_its_entitlement_gives_nothing() -> None:
    """It has reserved the whole cell, and holds it; whoever else waits, waits."""
    assert CASES["exactly_at_entitlement_6_cycles"]["expected_pool_eligible_for_preemption"] is False
    assert CASES["derived_nothing_to_free"]["expected_eviction_order"] == []
    jobs = "".join(
        f"  - {{job_id: {pool[1:]}, pool: {pool}, at: {at}, instances: {instances}, resources: {{cpu: 1}}, "
        "sim: {duration: 10h}}\n"
        for pool, at, instances in (("/a", "1s", 20), ("/b", "1m", 20))
    )
    session = play(
        "end: 30m\nhosts: [{name: h, count: 1, resources: {cpu: 20}}]\n"
        f"pools: [{{path: /a, reservation: {{cpu: 20}}}}, {{path: /b}}]\njobs:\n{jobs}"
        "expect:\n  - {never: cell preempted > 0}\n  - {at: 30m, that: job a tasks RUNNING == 20}\n"
    )
    assert not session.failed()
    session.run.cell.close()
