"""The columns put every task where the slow twin puts it."""

from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from events.records.entitlement import GangsAdmitted
from events.records.lifecycle import JobAccepted
from events.records.parts import Constraint, TaskShape
from processors.machine import Decided, PeerRound
from processors.placement import cluster_view
from tests.machines import Run, ranges
from tests.placement import twin
from tests.placement.harness import World, amounts, places, whole

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
CLUSTERS = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 2), st.integers(1, 4), ATTRIBUTES),
    min_size=1,
    max_size=6,
)
JOBS = st.lists(
    st.tuples(
        st.integers(1, 9),
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1)),
        st.sampled_from([0, 0, 1, 2]),
        st.integers(0, 1),
        st.sampled_from([0, 0, 2, 3]),
        st.booleans(),
        CONSTRAINTS,
    ),
    min_size=1,
    max_size=8,
)


def ready(cluster: list[tuple[int, int, int, int, dict[str, str]]]) -> tuple[World, list[twin.TwinHost]]:
    world, hosts = World(), []
    for number, (cpu, memory, gpu, ports, attributes) in enumerate(cluster):
        name = f"h{number}"
        last = 30_999 + ports
        world.host(name, cpu=cpu, memory=memory, gpu=gpu, port_first=31_000, port_last=last, attributes=attributes)
        hosts.append(twin.TwinHost(name, (cpu, memory, 10_000, gpu), list(range(31_000, last + 1)), attributes))
    return world, hosts


@settings(max_examples=200)
@given(CLUSTERS, JOBS, st.sampled_from([0, 2, 16]), st.integers(1, 40))
def test_every_task_goes_where_the_slow_twin_puts_it_whatever_the_budget(cluster, specs, few, budget) -> None:  # type: ignore[no-untyped-def]
    world, hosts = ready(cluster)
    jobs = [
        twin.TwinJob(
            f"j{n}", tasks, (cpu, memory, 0, gpu), ports, priority, min(gang, tasks) if tasks > 1 else 0, spread, rules
        )
        for n, (tasks, (cpu, memory, gpu), ports, priority, gang, spread, rules) in enumerate(specs)
    ]
    machine = world.machine
    for job in jobs:
        event = JobAccepted(
            job_id=job.name,
            jobs_offset=0,
            pool="/p",
            kind="batch",
            instances=job.tasks,
            shapes=(TaskShape(amounts(*job.need), job.ports, job.constraints, "spread" if job.spread else "pack"),),
            priority=job.priority,
            gang_min=job.gang,
        )
        machine.apply(PeerRound("lifecycle", 1, world.now, (event,)))
    admitted = [one for job in jobs for one in whole(job.name, job.tasks, job.gang)]
    machine.apply(PeerRound("entitlement", 1, world.now, (GangsAdmitted(**ranges(admitted)),)))
    mine: dict[Run, tuple[str, tuple[int, ...]]] = {}
    with patch.object(cluster_view, "FEW", few):
        while said := machine.decide(world.now, True, budget):
            mine |= places(said, {job.name: job.ports for job in jobs})
            for index, decision in enumerate(said):
                machine.apply(Decided(world.now, decision, 1, index))
    expected = twin.place(hosts, jobs)
    assert {(job, instance): place for (job, instance, _), place in mine.items()} == expected
    for host in hosts:
        assert world.free(host.name) == [*host.free, len(host.ports)]
