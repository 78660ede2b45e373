"""What a plan says is what the cell then does: hosts, victims, or codes with their numbers."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from events.records.entitlement import PreemptionsOrdered
from events.records.hosts import HostOffered, HostTaintRequested
from events.records.jobs import JobStopRequested
from events.records.parts import Constraint, PlacementRules, Simulated, SpreadTarget
from events.records.placement import TasksPlaced
from events.records.pools import CellConfigured, PoolDefined
from hostagent.fleet import SimHost
from tests.helpers.drawn import seeds
from tests.paceline.plans.cells import PlannedCell, job, timeless

HOSTS, RACKS, CPU = 200, 10, 8_000
SETTLED_MS = 30_000
KINDS: tuple[dict[str, Any], ...] = (
    {"max_running": 7, "kind": "batch"},
    {"kind": "stateless", "max_unavailable": 1},
    {"kind": "stateful", "on_silence": "stop_after", "stop_after_ms": 20_000},
    {"kind": "daemon", "instances": 0, "resources": {"cpu": 700}, "preemptible": False, "strategy": "pack"},
    {"kind": "daemon"},
)
"""Jobs of other kinds; the last is refused."""
RULES = (
    PlacementRules(spread_over="rack", skew=1),
    PlacementRules(spread_over="rack", targets=(SpreadTarget("r4", 40),), hard=True),
    PlacementRules(host_limit=1),
    PlacementRules(tolerations=("closed",)),
)
PLANS = 10
"""Of each seed."""


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlannedCell]:
    cell = crowded(tmp_path_factory.mktemp("crowded"))
    yield cell
    cell.close()


def crowded(folder: Path) -> PlannedCell:
    """200 hosts, 95 % full: one is SUSPECTED, one reserved, one keeps room, one offers less than runs there, and one an
    operator has closed to new tasks.
    """
    hosts = [
        SimHost(HOSTS // RACKS, {"cpu": CPU, "memory": 65_536, "disk": 100_000}, {"rack": f"r{rack}"}, f"r{rack}-##")
        for rack in range(RACKS)
    ]
    cell = PlannedCell(folder, hosts)
    cell.append(
        CellConfigured(
            command_id="cell",
            preemption_delay_ms=10_000,
            reserve_after_ms=60_000,
            reserve_for_ms=86_400_000,
            restart_backoff_ms=86_400_000,
            restart_backoff_max_ms=86_400_000,
        )
    )
    whole = {"cpu": HOSTS * CPU}
    cell.append(
        PoolDefined(path="/prod", command_id="prod", reservation={"cpu": whole["cpu"] // 2}),
        PoolDefined(path="/batch", command_id="batch"),
        PoolDefined(path="/never", command_id="never", preemption_delay_ms=-1, reservation={"cpu": whole["cpu"] // 10}),
    )
    cell.run(1000)
    there = (Constraint("rack", "in", ("r0",)),)
    fails = {"instances": 2, "resources": {"cpu": 500}, "constraints": there, "simulated": Simulated(1000, 1)}
    cell.append(
        *(job(f"bad-{number}", ("/prod", "/batch")[number % 2], **fails) for number in range(3))
    )  # at once on one host
    cell.run(10_000)
    base = {"instances": HOSTS * CPU // 1000 * 95 // 100, "resources": {"cpu": 1000}, "strategy": "spread"}
    cell.submit("base", "/batch", **base)
    cell.run(30_000)
    cell.submit("wide", "/never", instances=2, gang_min=2, preemptible=False, resources={"cpu": 7_500})
    home = {"kind": "stateful", "on_silence": "stop_after", "stop_after_ms": 20_000, "resources": {"cpu": 500}}
    cell.submit("home", "/prod", **home, simulated=Simulated(80_000, 1))  # its room is kept while it waits
    cell.append(
        HostOffered(host_id="r3-05", session=2, capacity={"cpu": 4_000, "memory": 65_536, "disk": 100_000},
                    attributes={"rack": "r3"}),
        HostTaintRequested(host_id="r4-03", command_id="taint", key="closed", reason="new disks"),
    )  # fmt: skip
    cell.run(90_000)
    return cell


def drawn(number: int, draw: random.Random) -> dict[str, Any]:
    """A job: with conditions, gangs, ports, of each pool, some larger than what is free."""
    spec: dict[str, Any] = {"pool": draw.choice(("/prod", "/prod", "/prod", "/batch", "/never"))}
    spec["instances"] = draw.choice((1, 2, 5, 20, 60, 150, 250))
    spec["resources"] = {"cpu": draw.choice((500, 1000, 2500, 8_000, 9_000)), "memory": draw.choice((64, 4_096))}
    if draw.random() < 0.3:
        spec["gang_min"] = spec["instances"]
    if draw.random() < 0.4:
        racks = tuple(f"r{draw.randrange(RACKS + 1)}" for _ in range(draw.randint(1, 3)))
        spec["constraints"] = (Constraint("rack", draw.choice(("in", "not_in")), racks),)
    if draw.random() < 0.2:
        spec["ports"] = ("http", "admin")[: draw.randint(1, 2)]
    if draw.random() < 0.3:
        spec["preemptible"] = False
    if draw.random() < 0.5:
        spec["strategy"] = "spread"
    if draw.random() < 0.3:
        spec["rules"] = draw.choice(RULES)
    spec["priority"] = draw.choice((0, 0, 5))
    spec |= draw.choice(({}, {}, {}, *KINDS))
    if "kind" in spec:
        spec["gang_min"] = 0
    return spec


@seeds(20, suite=2)
def test_the_cell_does_what_the_plan_has_said(cell: PlannedCell, seed: int) -> None:
    draw = random.Random(seed)
    for number in range(PLANS):
        job_id = f"drawn-{seed}-{number}"
        fact = job(job_id, **drawn(number, draw))
        plan = cell.plan(fact, job_id=job_id)
        starts = {topic: cell.log.bounds(topic)[1] for topic in ("paceline.placement", "paceline.entitlement")}
        cell.append(fact)
        cell.run(0)
        first = cell.outcome(job_id)
        cell.run(round(plan["looked_ahead_s"] * 1000))
        said, done = told(plan), {**cell.outcome(job_id), **decided(cell, starts, job_id)}
        done |= {"at_once": first["placed"], "reasons": first["reasons"], "later_reasons": done["reasons"]}
        assert said == {name: done[name] for name in said}, fact
        cell.append(JobStopRequested(job_id=job_id, command_id=job_id))
        cell.run(SETTLED_MS)


@seeds(10, suite=1)
def test_the_cell_does_what_the_plan_of_several_jobs_has_said(cell: PlannedCell, seed: int) -> None:
    draw = random.Random(f"together {seed}")
    facts = {f"part-{seed}-{number}": [job(f"part-{seed}-{number}", **drawn(number, draw))] for number in range(4)}
    plans = cell.plan_jobs(facts)
    starts = {topic: cell.log.bounds(topic)[1] for topic in ("paceline.placement", "paceline.entitlement")}
    for each in facts.values():
        cell.append(*each)
        cell.run(0)
    first = {job_id: cell.outcome(job_id) for job_id in facts}
    cell.run(round(plans[0]["looked_ahead_s"] * 1000))
    for plan in plans:
        job_id = plan["job_id"]
        done = {**cell.outcome(job_id), **decided(cell, starts, job_id)}
        done |= {
            "at_once": first[job_id]["placed"],
            "reasons": first[job_id]["reasons"],
            "later_reasons": done["reasons"],
        }
        said = told(plan)
        assert said == {name: done[name] for name in said}, facts[job_id]
    cell.append(*(JobStopRequested(job_id=job_id, command_id=job_id) for job_id in facts))
    cell.run(SETTLED_MS)


def told(plan: Any) -> dict[str, Any]:
    """A plan, in the words of `done`."""
    return {
        "placed": plan["placed"],
        "waiting": plan["waiting"],
        "at_once": plan["placed_at_once"],
        "reasons": [timeless(each) for each in plan["reasons"]],
        "later_reasons": [timeless(each) for each in plan["later_reasons"]],
        "hosts": sorted((each["host_id"], each["tasks"]) for each in plan["hosts"]),
        "victims": [(each["job_id"], each["instance"], each["run"]) for each in plan["preempts"]],
    }


def decided(cell: PlannedCell, starts: dict[str, int], job_id: str) -> dict[str, Any]:
    """The hosts and the victims of a job, from the rounds since."""
    hosts: dict[int, str] = {}
    victims: dict[tuple[str, int, int], None] = {}
    for event in cell.decisions(starts):
        if isinstance(event, TasksPlaced) and job_id in event.job_ids:
            mine = event.job_array == event.job_ids.index(job_id)
            for instance, host in zip(
                event.instance_array[mine].tolist(), event.host_array[mine].tolist(), strict=True
            ):
                hosts[instance] = event.host_ids[host]
        elif isinstance(event, PreemptionsOrdered) and event.for_job == job_id:
            rows = zip(*(column.tolist() for column in event.items()), strict=True)
            victims |= {(event.job_ids[job], instance, run): None for job, instance, run in rows}
    counts = {host: list(hosts.values()).count(host) for host in hosts.values()}
    return {"hosts": sorted(counts.items()), "victims": list(victims)}


def test_a_plan_of_what_was_submitted_before_says_so(cell: PlannedCell) -> None:
    fact = job("again", "/batch", resources={"cpu": 100})
    cell.append(fact)
    cell.run(1000)
    plan = cell.plan(fact, job_id="again")
    assert (plan["outcome"], plan["code"], plan["placed"], plan["hosts"]) == ("REPEATED", "REPEATED", 1, [])
    cell.append(JobStopRequested(job_id="again", command_id="again"))
    cell.run(SETTLED_MS)
