"""The columns put every task where the slow twin puts it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.codes import Code
from events.columns import I64, pack_ints
from events.records.entitlement import GangsAdmitted
from events.records.lifecycle import JobAccepted
from events.records.parts import Constraint, TaskShape
from events.strategies import STRATEGIES
from processors.machine import Decided, PeerRound
from processors.placement import cluster_view, engine_view
from processors.placement.assignment import Assignment
from processors.placement.engine.compiled import VECTORS
from processors.placement.hosts import Hosts
from processors.placement.room.kept import KeptRoom, OwnRoom, rooms_of
from processors.state.budget import Budget
from tests.helpers.drawn import examples
from tests.helpers.machines import Run, ranges
from tests.processors.placement import twin
from tests.processors.placement.harness import World, amounts, places, whole

RACKS = st.sampled_from(["r1", "r2", "r3"])
ATTRIBUTES = st.dictionaries(st.sampled_from(["rack", "disk"]), RACKS, max_size=2)
CONSTRAINTS = st.lists(
    st.builds(
        Constraint,
        attribute=st.sampled_from(["rack", "disk"]),
        operator=st.sampled_from(["in", "not_in", "exists", "absent"]),
        values=st.lists(RACKS, max_size=2).map(tuple),
    ),
    max_size=2,
).map(tuple)
LOADS = st.sampled_from([None, 0, 3, 8, 16])
CLUSTERS = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 2), st.integers(1, 4), ATTRIBUTES, LOADS),
    min_size=1,
    max_size=6,
)
JOBS = st.lists(
    st.tuples(
        st.integers(1, 9),
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1)),
        st.sampled_from([0, 0, 1, 2]),
        st.booleans(),
        st.sampled_from([0, 0, 2, 3]),
        st.sampled_from(STRATEGIES[:4]),
        CONSTRAINTS,
    ),
    min_size=1,
    max_size=8,
)


WAYS = st.sampled_from([(0, 2000), (2, 2000), (16, 2000), (2, 0), (16, 0), (0, -1)])
"""What is few, and from how many hosts on the engine decides; -1: also many tasks at once, as where it is compiled."""


@contextmanager
def decided_by(few: int, engine_from: int) -> Iterator[None]:
    with (
        patch.object(cluster_view, "FEW", few),
        patch.object(engine_view, "ENGINE_FROM", engine_from),
        patch.object(engine_view, "VECTORS", VECTORS if engine_from >= 0 else None),
    ):
        yield


def ready(cluster: list[tuple[int, int, int, int, dict[str, str], int | None]]) -> tuple[World, list[twin.TwinHost]]:
    world, hosts = World(), []
    for number, (cpu, memory, gpu, ports, attributes, load) in enumerate(cluster):
        name = f"h{number}"
        last = 30_999 + ports
        world.host(name, cpu=cpu, memory=memory, gpu=gpu, port_first=31_000, port_last=last, attributes=attributes)
        ports_there = list(range(31_000, last + 1))
        hosts.append(
            twin.TwinHost(name, (cpu, memory, 10_000, gpu), ports_there, attributes, 8 if load is None else load)
        )
        if load is not None:
            world.load(name, cpu=load, memory=load // 2)
    return world, hosts


def admitted(world: World, specs: list[Any]) -> list[twin.TwinJob]:
    """Jobs as they are drawn; the machine has them admitted, and hasn't decided yet."""
    jobs = [
        twin.TwinJob(
            f"j{n}", tasks, (cpu, memory, 0, gpu), ports, claims, min(gang, tasks) if tasks > 1 else 0, strategy, rules
        )
        for n, (tasks, (cpu, memory, gpu), ports, claims, gang, strategy, rules) in enumerate(specs)
    ]
    for job in jobs:
        event = JobAccepted(
            job_id=job.name,
            jobs_offset=0,
            pool="/p",
            kind="batch",
            instances=job.tasks,
            shapes=(TaskShape(amounts(*job.need), job.ports, job.constraints, job.strategy),),
            gang_min=job.gang,
        )
        world.machine.apply(PeerRound("lifecycle", 1, world.now, (event,)))
    units = [(one, int(job.claims)) for job in jobs for one in whole(job.name, job.tasks, job.gang)]
    entitled = pack_ints([claims for _, claims in units])
    said = GangsAdmitted(**ranges([one for one, _ in units]), entitled=entitled)
    world.machine.apply(PeerRound("entitlement", 1, world.now, (said,)))
    return jobs


@examples(200)
@given(CLUSTERS, JOBS, WAYS, st.integers(1, 40))
def test_every_task_goes_where_the_slow_twin_puts_it_whatever_the_budget(cluster, specs, way, budget) -> None:  # type: ignore[no-untyped-def]
    world, hosts = ready(cluster)
    jobs = admitted(world, specs)
    machine = world.machine
    mine: dict[Run, tuple[str, tuple[int, ...]]] = {}
    with decided_by(*way):
        while said := machine.decide(world.now, True, budget):
            mine |= places(said, {job.name: job.ports for job in jobs})
            for index, decision in enumerate(said):
                machine.apply(Decided(world.now, decision, 1, index))
    expected = twin.place(hosts, jobs)
    assert {(job, instance): place for (job, instance, _), place in mine.items()} == expected
    for host in hosts:
        assert world.free(host.name) == [*host.free, len(host.ports)]


@examples(200)
@given(CLUSTERS, JOBS, WAYS, st.data())
def test_what_is_kept_for_a_unit_is_free_for_it_alone(cluster, specs, way, data) -> None:  # type: ignore[no-untyped-def]
    world, hosts = ready(cluster)
    jobs = admitted(world, specs)
    runs, columns = world.machine.runs, world.machine.hosts
    kept, own_rooms = np.zeros_like(columns.used), dict[int, OwnRoom]()
    for job in jobs:
        for first in data.draw(st.sets(st.sampled_from([0, *range(job.gang, job.tasks)]), max_size=2)):
            rooms = [tuple(data.draw(st.integers(0, have)) for have in left) for left in left_of(columns, kept)]
            job.kept[first] = {host.name: (*room[:2], 0, room[3]) for host, room in zip(hosts, rooms, strict=True)}
            amounts_ = np.array([(*room[:2], 0, room[3], 0) for room in rooms], dtype=np.int64).T
            kept += amounts_
            slot = runs.jobs[job.name].base + first
            everywhere = np.arange(len(hosts))
            own_rooms[slot] = OwnRoom(everywhere, amounts_, True, amounts_, Code.WAITING_FOR_PREEMPTION, slot)
    room = KeptRoom(kept, rooms_of(own_rooms, len(kept)), {})
    with decided_by(*way):
        assignment = Assignment(runs, columns, room, Budget(1000), lambda slot: True)
        said = assignment.place()
    mine = places([said], {job.name: job.ports for job in jobs}) if said else {}
    expected = twin.place(hosts, jobs)
    assert {(job, instance): place for (job, instance, _), place in mine.items()} == expected
    for host in hosts:
        assert assignment.view.free[:, columns.table[host.name].number].tolist() == [*host.free, len(host.ports)]


@pytest.mark.parametrize("engine_from", [2000, 0])
def test_who_takes_more_than_is_kept_for_it_leaves_less_to_others(engine_from: int) -> None:
    world, _ = ready([(4, 8, 0, 1, {}, None)])
    nothing: tuple[object, ...] = (False, 0, False, ())
    admitted(world, [(1, (3, 1, 0), 0, *nothing), (3, (1, 1, 0), 0, *nothing)])
    runs, columns = world.machine.runs, world.machine.hosts
    kept = np.zeros_like(columns.used)
    kept[0] = 2
    own = {runs.jobs["j0"].base: OwnRoom(np.arange(1), kept, True, kept, Code.WAITING_FOR_PREEMPTION, 0)}
    with decided_by(16, engine_from):
        assignment = Assignment(
            runs, columns, KeptRoom(kept, rooms_of(own, len(kept)), {}), Budget(1000), lambda slot: True
        )
        assignment.place()
    assert assignment.view.free[:, 0].tolist() == [0, 6, 10_000, 0, 1]


def left_of(hosts: Hosts, kept: I64) -> list[list[int]]:
    """What isn't kept yet, per host."""
    left: list[list[int]] = (hosts.capacity - hosts.used - kept)[:4].T.tolist()
    return left
