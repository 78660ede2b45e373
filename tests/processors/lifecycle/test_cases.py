"""Worked cases of an earlier scheduler (`tests/processors/cases`): what an update takes next, when it fails, when an
instance is done, and the state of a job.
"""

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from events.codes import Code, JobState, RunReport, TaskState
from events.columns import ints
from events.records.lifecycle import UpdateEnded, UpdateProgressed
from processors.lifecycle.causes import Goal
from processors.lifecycle.job_rules import job_state
from processors.lifecycle.rows import JobRow
from processors.lifecycle.task_table import STATES
from processors.lifecycle.updates.rows import PolicyRow, UpdateRow
from processors.lifecycle.updates.steps import Step
from processors.lifecycle.updates.window import next_instances, pending, room
from processors.state.causes import CauseRow
from tests.helpers import WORKED
from tests.helpers.machines import of, one
from tests.processors.lifecycle.test_updates import HEALTHY_MS, Cell, policy

CASES = json.loads((WORKED / "sla.json").read_text())
STATE_OF = {"KILLING": TaskState.STOPPING, "PENDING": TaskState.QUEUED}
"""States that have another name here."""


def cases(kind: str) -> list[Any]:
    """The cases of a kind, by their names."""
    return [pytest.param(case, id=case["case_id"]) for case in CASES if case["kind"] == kind]


@pytest.mark.parametrize("case", cases("update_batch_selection"))
def test_an_update_fills_its_batch_with_what_is_added_then_updated_then_removed(case: dict[str, Any]) -> None:
    """Instances that are removed have the highest numbers here, so those that are added stand before them."""
    wanted, gone = case["instances_to_add"], case["instances_to_remove"]
    number = dict(zip(wanted + gone, sorted(wanted + gone), strict=True))
    to_update = [*set(case["instances_to_update"]) - {*case["in_progress"], *case["done"], *case["failed"]}]
    instances = max(number[at] for at in wanted) + 1 if wanted else 10
    columns = {name: np.zeros(12, dtype=np.int32) for name in ("step", "goal", "state", "due")}
    columns["step"][to_update + [number[at] for at in gone]] = Step.PENDING
    columns["state"][:] = TaskState.RUNNING
    update = UpdateRow(
        number=1,
        kind="update",
        from_version=1,
        version=2,
        policy=PolicyRow(batch=case["batch_size"]),
        changed_by=CauseRow("paceline.jobs", 0),
        progressed_ms=0,
        pending=len(to_update) + len(wanted) + len(gone),
        flight=len(case["in_progress"]),
        done=len(case["done"]),
        bad=len(case["failed"]),
    )
    version = Cell().machine.updates.version("web")
    missing, free = np.array([number[at] for at in wanted], dtype=np.int64), room(update, version, 0, 0)
    found = next_instances(pending(columns.__getitem__, instances), columns["state"], missing, free)
    expected = case["expected_next"]
    assert found.updated.tolist() == expected["update"]
    assert found.added.tolist() == [number[at] for at in expected["add"]]
    assert found.removed.tolist() == [number[at] for at in expected["remove"]]


@pytest.mark.parametrize("case", cases("update_failure"))
def test_fewer_failed_instances_than_max_failures_let_the_update_succeed(case: dict[str, Any]) -> None:
    most = policy(max_failures=case["max_failure_instances"], batch=case["batch_size"], max_attempts=1)
    cell = Cell(instances=case["instances"], update=msgspec.structs.replace(most, healthy_ms=HEALTHY_MS))
    cell.update(command=("two",))
    failing = [cell.run_of(at) for at in case["failed_instances"]]
    cell.settle(cell.report(RunReport.EXITED, *failing, exit_code=1))
    assert cell.ends() == [], "it goes on"
    cell.wait(HEALTHY_MS)
    last = of(cell.said, UpdateProgressed)[-1]
    assert (last.bad, last.done) == (len(case["failed_instances"]), len(case["done_instances"]))
    assert one(cell.said, UpdateEnded).state == "SUCCEEDED"


def state_of(row: dict[str, Any]) -> int:
    """A run with a check is RUNNING once it is healthy, and told to stop when it no longer is."""
    if row["state"] == "RUNNING":
        return {"UNHEALTHY": TaskState.STOPPING, "HEALTH_UNKNOWN": TaskState.ORDERED}.get(
            row["health"], TaskState.RUNNING
        )
    return STATE_OF.get(row["state"]) or TaskState[row["state"]]


@pytest.mark.parametrize(
    "row", next(case["rows"] for case in CASES if case["kind"] == "workflow_instance_complete"), ids=str
)
def test_an_instance_is_done_when_it_runs_the_new_version_or_is_stopped(row: dict[str, Any]) -> None:
    cell = Cell(instances=2)
    cell.update(command=("two",), update=policy(start_paused=True))
    taken = row["desired_config_version"] == 4
    cell.machine.tasks.arena.put(
        np.array([0]),
        state=state_of(row),
        goal=Goal.STOP if row["goal_state"] == "KILLED" else Goal.RUN,
        version=row["config_version"] - 2,
        target=row["desired_config_version"] - 2,
        step=Step.FLIGHT if taken else Step.PENDING,
        ready=1,
    )
    cell.machine.restored()
    found = of(cell.machine.decide(cell.now, True, 1000), UpdateProgressed)
    done = [Step.DONE in ints(each.step).tolist() for each in found]
    assert any(done) == row["expected"]


@pytest.mark.parametrize("case", cases("job_state"))
def test_the_state_of_a_job_follows_from_the_counts_of_its_tasks(case: dict[str, Any]) -> None:
    counts = [0] * STATES
    for name, count in case["task_state_counts"].items():
        counts[STATE_OF.get(name) or TaskState[name]] = count
    if sum(counts) > case["instance_count"]:
        refused = Cell(kind="batch", instances=sum(counts)).update(instances=case["instance_count"])
        assert refused.code == Code.NOT_UPDATABLE, "no batch job has fewer instances than before"
        return
    row = JobRow(
        number=1,
        base=0,
        pool="/p",
        kind={"SERVICE": "stateless", "BATCH": "batch"}[case["job_type"]],
        instances=case["instance_count"],
        ports=0,
        gang_min=0,
        retries_max=0,
        max_unavailable=None,
        spec_hash=b"",
        counts=counts,
        stopping=case["current_job_state"] == "KILLING",
    )
    assert job_state(row) == JobState[case["expected"]]


def ended(state: str) -> Cell:
    """A service whose update has come to a state."""
    rolls = state == "ROLLED_BACK"
    most = policy(healthy_ms=HEALTHY_MS, max_failures=1, max_attempts=1, roll_back=rolls, batch=1)
    cell = Cell(update=most)
    cell.fails = {2} if state in ("FAILED", "ROLLED_BACK") else set()
    cell.update(command=("two",))
    if state in ("ABORTED", "PAUSED"):
        cell.act({"ABORTED": "abort", "PAUSED": "pause"}[state])
    if state != "ROLLING_FORWARD":
        cell.wait(60_000)
    return cell


@pytest.mark.parametrize("case", cases("goal_state_table"))
def test_what_is_done_about_an_update_follows_from_its_state(case: dict[str, Any]) -> None:
    for state, action in case["table_state_to_action"].items():
        if action == "clear":
            cell = ended(state)
            assert cell.ends()[0][1] == state
            assert "web" not in cell.machine.updates.table
    paused = ended("PAUSED")
    assert case["table_state_to_action"]["PAUSED"] == "write_progress"
    assert (paused.taken(), of(paused.said, UpdateProgressed)[-1].done) == ([[0]], 1)
    runs = ended("ROLLING_FORWARD")
    runs.wait(60_000)
    assert (len(runs.taken()), runs.ends()) == (4, [(1, "SUCCEEDED", "")])
