"""Why a task has no host, as `job explain` tells it: hosts are counted by reason, the nearest has numbers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from events.records.hosts import HostOffered
from events.records.parts import Constraint, PlacementRules, SpreadTarget, TaskAffinity
from events.records.pools import CellConfigured, PoolDefined
from hostagent.fleet import SimHost
from tests.paceline.plans.cells import PlannedCell

CAPACITY = {"cpu": 4_000, "memory": 8_192, "disk": 100_000, "gpu": 1_000}
RACK_R = (Constraint("rack", "in", ("r",)),)


class Case(NamedTuple):
    """Jobs that are there, the one that waits, what it is told, and the count of the two hosts by reason."""

    job: Mapping[str, Any]
    code: str
    message: str
    counts: Mapping[str, int]
    before: tuple[Mapping[str, Any], ...] = ()
    marks: Mapping[str, Any] = {}
    """Attributes and taints of the second host."""


def task(cpu: int = 500, **spec: Any) -> dict[str, Any]:
    """What a job asks for."""
    return {"resources": {"cpu": cpu}, **spec}


def each_host(**spec: Any) -> dict[str, Any]:
    """A job with a task on each host."""
    return {"instances": 2, "rules": PlacementRules(host_limit=1), **spec}


def alone(job: Mapping[str, Any], **resources: int) -> dict[str, Any]:
    return {**job, "resources": {"cpu": 100, **resources}}


NEAR = PlacementRules(affinity=(TaskAffinity("app", "db"),))
APART = PlacementRules(affinity=(TaskAffinity("app", "db", apart=True),))
CASES: Mapping[str, Case] = {
    "cpu": Case(task(1_000), "NO_HOST_FITS", "nearest h-1, short of 0.5 cpu", {"cpu": 2}, (each_host(**task(3_500)),)),
    "memory": Case(
        alone({}, memory=4_096), "NO_HOST_FITS", "short of 1GiB memory", {"memory": 2},
        (alone(each_host(), memory=5_120),),
    ),
    "disk": Case(
        alone({}, disk=60_000), "NO_HOST_FITS", "disk", {"disk": 2}, (alone(each_host(), disk=60_000),),
    ),
    "gpu": Case(
        alone({}, gpu=500), "NO_HOST_FITS", "nearest h-1, short of 0.1 gpu", {"gpu": 2}, (alone(each_host(), gpu=600),),
    ),
    "attribute": Case(
        task(2_000, constraints=RACK_R), "NO_HOST_FITS", "of 2 hosts", {"constraint:rack": 1, "cpu": 1},
        (each_host(**task(3_000)),), {"attributes": {"rack": "s"}},
    ),
    "taint": Case(
        task(2_000), "NO_HOST_FITS", "1 is tainted", {"cpu": 1, "tainted": 1},
        (task(3_000),), {"taints": {"dedicated": "ml"}},
    ),
    "exclusive": Case(
        task(2_000), "NO_HOST_FITS", "1 is exclusive", {"cpu": 1, "exclusive": 1},
        (task(3_000),), {"attributes": {"rack": "r", "exclusive": "ml"}},
    ),
    "port": Case(
        task(ports=("http",), port_numbers={"http": 31_500}), "NO_HOST_FITS", "2 have the port taken",
        {"port taken": 2}, (each_host(**task(ports=("http",), port_numbers={"http": 31_500})),),
    ),
    "host limit": Case(
        task(instances=3, rules=PlacementRules(host_limit=1)), "HOST_LIMIT_REACHED",
        "2 have as many tasks of the job as they may", {"host limit": 2},
    ),
    "affinity": Case(
        task(rules=NEAR), "AFFINITY_UNMET", "2 have no tasks beside them that are wanted", {"affinity": 2},
    ),
    "anti-affinity": Case(
        task(rules=APART), "KEPT_APART", "2 are beside tasks kept apart", {"anti-affinity": 2},
        (each_host(**task(labels={"app": "db"})),),
    ),
    "spread": Case(
        task(1_000, instances=6, rules=PlacementRules(spread_over="rack", skew=1)), "SPREAD_LIMIT",
        "1 has as much of the job as its spread allows", {"cpu": 1, "spread": 1},
        (task(3_500, constraints=(Constraint("rack", "in", ("s",)),)),), {"attributes": {"rack": "s"}},
    ),
    "target": Case(
        task(instances=4, rules=PlacementRules(spread_over="rack", targets=(SpreadTarget("r", 50),), hard=True)),
        "SPREAD_LIMIT",
        "raise the target of a value that has room, or leave out `hard`",
        {"spread target": 1, "cpu": 1}, (task(3_500, constraints=(Constraint("rack", "in", ("s",)),)),),
        {"attributes": {"rack": "s"}},
    ),
    "within": Case(
        task(2_000, instances=2, gang_min=2, rules=PlacementRules(within="rack")), "NO_GROUP_FITS",
        "no single rack holds all 2 tasks of the gang (of 2 hosts 2 are in a rack too small for the gang)",
        {"within:rack": 2}, (each_host(**task(1_000)),), {"attributes": {"rack": "s"}},
    ),
    "within, and what would help": Case(
        task(1_000, instances=4, gang_min=4, rules=PlacementRules(within="rack")), "NO_GROUP_FITS",
        "room by rack, in tasks: r 3, s 3; a gang of 3 fits now; `near: rack` instead of `within` lets it be in ",
        {"within:rack": 2}, (each_host(**task(1_000)),), {"attributes": {"rack": "s"}},
    ),
    "segments": Case(
        task(1_000, instances=6, gang_min=6, rules=PlacementRules(near="rack", segments=2)), "NO_GROUP_FITS",
        "4 of the 6 tasks of the gang find room in segments of 2, each in one rack; without a place: tasks 4-5 "
        "(of 2 hosts 2 are in a rack without room for a segment more); room by rack, in tasks: r 3, s 3; smaller",
        {"segments:rack": 2}, (each_host(**task(1_000)),), {"attributes": {"rack": "s"}},
    ),
    "segments that no empty rack holds": Case(
        task(1_000, instances=6, gang_min=6, rules=PlacementRules(within="rack", segments=6)), "NEVER_FITS",
        "room by rack, in tasks, if nothing ran: r 4, s 4", {"cpu": 2}, (), {"attributes": {"rack": "s"}},
    ),
    "other tasks": Case(
        task(rules=PlacementRules(exclusive=True)), "NO_EMPTY_HOST", "2 have tasks of other jobs (`exclusive`)",
        {"other tasks": 2},
        (each_host(**task()),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_job_that_waits_is_told_for_what(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    second = {"attributes": {"rack": "r"}, **case.marks}
    cell = PlannedCell(
        tmp_path,
        [SimHost(1, CAPACITY, {"rack": "r"}, "h-1"), SimHost(1, CAPACITY, pattern="h-2", **second)],
    )
    cell.append(PoolDefined(path="/p", command_id="p"))
    cell.run(1_000)
    for number, spec in enumerate(case.before):
        cell.submit(f"before-{number}", "/p", **spec)
        cell.run(1_000)
    cell.submit("waits", "/p", **case.job)
    cell.run(1_000)
    reason = next(each for each in cell.explained("waits") if each["code"] == case.code)
    cell.close()
    assert (reason["hosts_considered"], reason["hosts_by_reason"]) == (2, case.counts)
    assert case.message in reason["message"]


def test_room_on_a_reserved_host_is_counted_as_kept_for_others(tmp_path: Path) -> None:
    cell = PlannedCell(tmp_path, [SimHost(3, CAPACITY, pattern="h-#")])
    cell.append(
        CellConfigured(command_id="cell", reserve_after_ms=5_000, reserve_for_ms=600_000, lend_after_ms=0),
        PoolDefined(path="/p", command_id="p", preemption_delay_ms=-1),
    )
    cell.run(1_000)
    cell.submit("there", "/p", **{**each_host(**task(3_000)), "instances": 3})
    cell.run(1_000)
    cell.submit("wide", "/p", **task(1_100))
    cell.run(60_000)
    assert [each["code"] for each in cell.explained("wide")] == ["HOSTS_RESERVED"]
    cell.submit("small", "/p", **task(600, instances=3))
    cell.run(1_000)
    [reason] = cell.explained("small")
    cell.close()
    assert (reason["code"], reason["hosts_by_reason"]) == ("HELD_FOR_OTHERS", {"cpu": 2, "kept for others": 1})
    assert "1 is kept for others" in reason["message"]


def test_hosts_that_offer_less_than_runs_there_are_counted(tmp_path: Path) -> None:
    cell = PlannedCell(tmp_path, [SimHost(2, CAPACITY, pattern="h-#")])
    cell.append(PoolDefined(path="/p", command_id="p", reservation={"cpu": 2_000, "disk": 120_000}))
    cell.run(1_000)
    cell.submit("there", "/p", **alone(each_host(preemptible=False), cpu=1_000, disk=60_000))
    cell.run(1_000)
    cell.append(HostOffered(host_id="h-1", session=2, capacity={**CAPACITY, "disk": 50_000}, attributes={}))
    cell.run(1_000)
    cell.submit("waits", "/p", **task(1_000, instances=4))
    cell.run(1_000)
    reason = next(each for each in cell.explained("waits") if each["hosts_by_reason"])
    cell.close()
    assert reason["hosts_by_reason"] == {"cpu": 1, "offers less than runs there": 1}
    assert "1 offers less than runs there" in reason["message"]
