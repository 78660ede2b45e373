"""Plans of changes of pools: what the machines would do with a change, beside what they would do without it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from events.records.pools import CellConfigured, PoolDefined
from hostagent.fleet import SimHost
from tests.paceline.plans.cells import PlannedCell

CPU = {"cpu": 1000}


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[PlannedCell]:
    """Ten cores; /a runs on nine, five tasks of /b wait for the rest of their share."""
    cell = PlannedCell(tmp_path, [SimHost(1, {"cpu": 10_000, "memory": 10_000})])
    cell.append(CellConfigured(command_id="cell", preemption_delay_ms=10_000, lend_after_ms=0))
    cell.append(pool("/a", reservation={"cpu": 7000}), pool("/b"))
    cell.run(1000)
    for job_id, priority, instances in (("old", 0, 2), ("high", 9, 2), ("firm", 0, 2), ("young", 0, 3)):
        cell.submit(job_id, "/a", instances=instances, priority=priority, preemptible=job_id != "firm", resources=CPU)
        cell.run(1000)
    cell.submit("w", "/b", instances=5, resources=CPU)
    cell.run(60_000)
    yield cell
    cell.close()


def pool(path: str, **more: Any) -> PoolDefined:
    return PoolDefined(path=path, command_id=f"{path} {more}", **more)


def amounts(plan: Any) -> dict[str, tuple[Any, Any]]:
    """By pool its CPUs before and after."""
    return {
        each["path"]: tuple((each["entitlement"][when] or {}).get("cpu") for when in ("before", "after"))
        for each in plan["pools"]
    }


def jobs(work: Any) -> dict[str, int]:
    return {each["job_id"]: each["tasks"] for each in work}


def test_a_change_lets_in_and_preempts_what_the_cell_then_does(cell: PlannedCell) -> None:
    change = pool("/b", reservation={"cpu": 5000})
    plan = cell.plan_pools(pool("/a", reservation={"cpu": 4000}), change)
    assert [(each["path"], each["change"]) for each in plan["changes"]] == [("/a", "change"), ("/b", "change")]
    assert plan["changes"][1]["fields"] == {"reservation": {"before": {}, "after": {"cpu": 5}}}
    assert amounts(plan) == {"/a": (8.5, 5), "/b": (1.5, 5)}
    before = {job_id: cell.outcome(job_id)["placed"] for job_id in ("old", "high", "firm", "young", "w")}
    cell.append(pool("/a", reservation={"cpu": 4000}), change)
    cell.run(60_000)
    after = {job_id: cell.outcome(job_id)["placed"] for job_id in before}
    assert jobs(plan["lets_in"]) == {"w": 4}, "so many are admitted; those get hosts for which others leave"
    left = {job_id: before[job_id] - after[job_id] for job_id in before if before[job_id] > after[job_id]}
    assert jobs(plan["preempts"]) == left
    assert sum(left.values()) == after["w"] - before["w"] > 0


def test_what_comes_without_the_change_too_is_no_part_of_it(cell: PlannedCell) -> None:
    for same in (pool("/a", reservation={"cpu": 7000}), pool("/new")):
        plan = cell.plan_pools(same)
        assert (plan["pools"], plan["lets_in"], plan["preempts"]) == ([], [], [])
    assert cell.plan_pools(pool("/b"))["changes"][0]["change"] == "unchanged"


def test_a_closed_pool_is_let_nothing_in(cell: PlannedCell) -> None:
    plan = cell.plan_pools(pool("/a", reservation={"cpu": 4000}), pool("/b", reservation={"cpu": 5000}, closed=True))
    assert plan["lets_in"] == []


def test_what_entitlement_would_refuse_is_told_in_its_words(cell: PlannedCell) -> None:
    plan = cell.plan_pools(
        pool("/c", reservation={"cpu": 9000}),
        pool("/c/d", reservation={"cpu": 10_000}, limit={"cpu": 20_000}),
        pool("/x/y"),
    )
    told = {each["path"]: (each["change"], each["code"], each["message"]) for each in plan["changes"]}
    assert told["/c"][:2] == ("create", "DONE")
    assert "the pools at the first level reserve 16 cpu; the cell has 10 cpu." in told["/c"][2]
    assert told["/c/d"] == ("refuse", "INVALID_POOL", "cpu: the pools of /c would reserve 10, it has 9")
    assert told["/x/y"][:2] == ("refuse", "NO_SUCH_POOL")
