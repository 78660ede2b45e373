"""At the bounds of what may be asked for nothing overflows, and what is beyond them is refused with the number."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events import bounds
from events.codec import encode
from events.codes import Code, TaskState
from events.columns import pack_ints, pack_longs
from events.records.lifecycle import JobRejected
from events.records.parts import Constraint, Simulated
from events.records.placement import GangsUnplaced, TasksPlaced
from events.records.pools import CellConfigured, PoolDefined
from events.resources import STANDARD
from events.topics import ROUND_BYTES_MAX
from processors.state.seconds import milliseconds, seconds
from tests.helpers.drawn import seeds
from tests.helpers.machines import of, one
from tests.helpers.whole_cell import Cell
from tests.processors.entitlement.harness import World as Entitlement
from tests.processors.lifecycle.harness import World as Lifecycle
from tests.processors.placement.harness import World as Placement

MOST = dict.fromkeys(STANDARD, bounds.AMOUNT_MAX)
UNMET = tuple(Constraint(f"a{number}", "absent") for number in range(bounds.CONSTRAINTS_MAX - 1))


def test_what_a_cell_may_hold_together_stays_within_64_bits() -> None:
    assert bounds.TASKS_MAX * bounds.AMOUNT_MAX < 1 << 63
    assert bounds.POOLS_MAX * bounds.AMOUNT_MAX < 1 << 63
    assert bounds.SESSION_MAX < 1 << 63
    assert bounds.TASKS_MAX <= bounds.INT_MAX


@given(st.integers(-(1 << 42), 1 << 42))
def test_deadlines_fit_their_column_and_are_never_early(at_ms: int) -> None:
    at = int(seconds(np.array([at_ms]))[0])
    assert 0 < at <= bounds.INT_MAX
    assert milliseconds(at) >= at_ms or at == bounds.INT_MAX


def test_the_largest_gang_on_hosts_of_the_longest_ids_fits_a_round() -> None:
    size = bounds.GANG_MAX
    ones = pack_ints(range(size))
    placed = TasksPlaced(
        job_ids=("j" * 128,),
        job=ones,
        instance=ones,
        run=ones,
        host_ids=tuple(f"{number:0128}" for number in range(size)),
        host_session=pack_longs([bounds.SESSION_MAX] * size),
        host=ones,
        ports=pack_ints([bounds.PORT_MAX] * bounds.GANG_PORTS_MAX),
        port_count=pack_ints([bounds.GANG_PORTS_MAX // size] * size),
    )
    assert len(encode(placed)) < ROUND_BYTES_MAX * 7 // 8


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"resources": {"cpu": bounds.AMOUNT_MAX + 1}}, bounds.AMOUNT_MAX / 1000),
        ({"stop_grace_ms": bounds.MS_MAX + 1}, bounds.MS_MAX),
        ({"instances": bounds.INSTANCES_MAX + 1}, bounds.INSTANCES_MAX),
        ({"instances": 20_000, "gang_min": bounds.GANG_MAX + 1}, bounds.GANG_MAX),
        ({"constraints": (*UNMET, *UNMET)}, bounds.CONSTRAINTS_MAX),
        ({"constraints": (Constraint("a" * 257, "exists"),)}, bounds.WORD_MAX),
        ({"constraints": (Constraint("a", "in", ("b" * 257,)),)}, bounds.WORD_MAX),
        ({"constraints": (Constraint("a", "in", ("b",) * 1001),)}, bounds.VALUES_MAX),
        ({"env": {"A": "x" * bounds.STRING_BYTES_MAX}}, bounds.STRING_BYTES_MAX),
        ({"command": ("x",) * 4097}, bounds.STRINGS_MAX),
        ({"env": {f"A{number}": "" for number in range(4097)}}, bounds.STRINGS_MAX),
        ({"labels": {f"a{number}": "" for number in range(65)}}, bounds.LABELS_MAX),
        ({"labels": {"a": "b" * 257}}, bounds.WORD_MAX),
        ({"owner": "o" * 257}, bounds.WORD_MAX),
    ],
)
def test_a_job_beyond_the_bounds_is_refused_with_the_number(fields: dict[str, Any], number: float) -> None:
    said = one(Lifecycle().submit("a", **{"resources": {"cpu": 1}, **fields}), JobRejected)
    assert said.code == Code.INVALID_SPEC
    assert str(number) in said.message


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"path": "/" + "/".join(["a" * 60] * 5)}, bounds.WORD_MAX),
        (
            {
                "path": "/q",
                "reservation": MOST,
                "share": {"cpu": bounds.SHARE_MAX + 1, "memory": 1, "disk": 1, "gpu": 1},
            },
            bounds.SHARE_MAX,
        ),
        ({"path": "/q", "reservation": {"cpu": bounds.AMOUNT_MAX + 1}}, bounds.AMOUNT_MAX / 1000),
        ({"path": "/q", "open_jobs_max": -1}, bounds.INT_MAX),
        ({"path": "/q", "command_id": "c" * 257}, bounds.WORD_MAX),
    ],
)
def test_a_pool_beyond_the_bounds_is_refused_with_the_number(fields: dict[str, Any], number: float) -> None:
    said = Entitlement().define(**fields)
    assert said.code == Code.INVALID_POOL
    assert str(number) in said.message


def test_more_pools_or_tasks_than_a_cell_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("processors.entitlement.pools.POOLS_MAX", 2)
    world = Entitlement()
    assert [world.define(path).code for path in ("/a", "/b", "/c")] == [Code.DONE, Code.DONE, Code.INVALID_POOL]
    monkeypatch.setattr("processors.lifecycle.commands.TASKS_MAX", 10)
    jobs = Lifecycle()
    jobs.submit("a", instances=6, resources={"cpu": 1})
    assert one(jobs.submit("b", instances=5, resources={"cpu": 1}), JobRejected).code == Code.OPEN_TASKS_MAX
    assert not of(jobs.submit("c", instances=4, resources={"cpu": 1}), JobRejected)


def test_a_condition_that_is_not_met_is_named_behind_as_many_as_there_may_be() -> None:
    world = Placement()
    world.host("h1")
    said = world.run("a", constraints=(*UNMET, Constraint("gpu", "exists")))
    assert one(said, GangsUnplaced).hosts_by_reason == {"constraint:gpu": 1}


def test_a_task_at_its_last_run_is_not_run_again() -> None:
    world = Lifecycle()
    world.submit("a", instances=2, resources={"cpu": 1}, kind="stateless")
    world.machine.tasks.arena.set("run", np.array([0]), bounds.RUN_MAX)
    world.restart_copies()
    runs = [("a", 0, bounds.RUN_MAX), ("a", 1, 1)]
    world.place(*runs)
    world.report(1, *runs)
    world.report(2, *runs, exit_code=1)
    counts = world.machine.jobs["a"].counts
    assert (counts[TaskState.FAILED], counts[TaskState.BACKOFF]) == (1, 1)


@pytest.mark.filterwarnings("error")
@seeds(range(1, 8), 2)
def test_a_cell_at_its_bounds_goes_on_and_sums_rightly(seed: int) -> None:
    draw = Random(seed)

    def amount() -> int:
        return draw.choice([0, 1, 1000, bounds.AMOUNT_MAX - 1, bounds.AMOUNT_MAX])

    cell = Cell(hosts=3, capacity={"cpu": max(1, amount()), "memory": amount(), "disk": amount(), "gpu": amount()})
    times = {name: draw.choice([0, 1, bounds.MS_MAX]) for name in ("restart_backoff_ms", "restart_backoff_max_ms")}
    times |= {name: draw.choice([1000, bounds.MS_MAX]) for name in ("placement_patience_ms", "return_backoff_ms")}
    cell.append(CellConfigured(command_id="1", **times))
    for path in ("/a", "/b"):
        share = {name: draw.choice([0, 1, bounds.SHARE_MAX]) for name in STANDARD}
        reservation = {name: amount() for name in STANDARD}
        cell.append(PoolDefined(path=path, command_id=path, reservation=reservation, share=share))
    for number in range(8):
        cpu, memory, instances = max(1, amount()), amount(), draw.choice([1, 3, bounds.INSTANCES_MAX])
        cell.submit(
            f"j{number}",
            pool=draw.choice(["/a", "/b"]),
            kind=draw.choice(["batch", "stateless"]),
            instances=instances,
            resources={"cpu": cpu, "memory": memory},
            priority=draw.choice([-bounds.INT_MAX, 0, bounds.INT_MAX]),
            strategy=draw.choice(["pack", "spread"]),
            simulated=Simulated(duration_ms=draw.choice([300, bounds.MS_MAX]), fail_runs=draw.choice([0, 1])),
        )
        cell.run(300)
    cell.run(2000)
    entitlement: Any = cell.drivers["entitlement"].machine
    for pool in ("/a", "/b"):
        open_ = [row for row in entitlement.queues.jobs.values() if row.pool == pool]
        arena = entitlement.queues.arena["held"]
        assert entitlement.usage[pool].allocation[0] == sum(
            entitlement.queues.total_need(row, np.flatnonzero(arena[row.base : row.base + row.instances]) + row.base)[0]
            for row in open_
        )
    hosts: Any = cell.drivers["placement"].machine.hosts
    assert (hosts.used <= hosts.capacity).all()
    assert (hosts.used >= 0).all()
    cell.verify()
