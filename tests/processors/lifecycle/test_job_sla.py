"""A service gets an SLA, another one, or none."""

from random import Random

import numpy as np

from events.codes import RunReport, TaskState
from events.columns import ints
from events.records.lifecycle import DisruptionAsked, JobSlaChanged, RunsStopping
from events.records.parts import Cause
from processors.lifecycle.causes import Goal
from processors.lifecycle.job_sla import sla_change
from processors.state.record_rows import SlaRow
from processors.state.seconds import milliseconds
from tests.helpers.drawn import seeds
from tests.helpers.machines import one, runs_of
from tests.processors.lifecycle.harness import World, allowed

BY = Cause(topic="paceline.jobs", offset=7)


def change(world: World, max_unavailable: int | None) -> JobSlaChanged | None:
    machine = world.machine
    return sla_change("a", machine.jobs["a"], machine.tasks, machine.hosts.named, 7, max_unavailable, None, BY)


def service(max_unavailable: int | None, instances: int = 3) -> World:
    world = World()
    world.submit("a", kind="stateless", instances=instances, max_unavailable=max_unavailable)
    runs = [("a", at, 1) for at in range(instances)]
    world.place(*runs)
    world.report(RunReport.STARTED, *runs[:2])
    return world


def test_the_same_sla_is_no_change() -> None:
    assert change(service(1), 1) is None
    assert change(service(None), None) is None


def test_who_had_an_sla_is_known_already() -> None:
    assert change(service(1), 2) == JobSlaChanged(job_id="a", max_unavailable=2, cause=BY)
    assert change(service(1), None) == JobSlaChanged(job_id="a", max_unavailable=None, cause=BY)


@seeds(10, 3)
def test_who_gets_an_sla_is_described_instance_by_instance(seed: int) -> None:
    draw, world = Random(seed), service(None, instances=30)
    arena, base = world.machine.tasks.arena, world.machine.jobs["a"].base
    states = [draw.choice([TaskState.NONE, TaskState.RUNNING, TaskState.RUNNING, TaskState.BACKOFF]) for _ in range(30)]
    goals = [draw.choice([Goal.RUN, Goal.RUN, Goal.STOP]) for _ in range(30)]
    runs = [draw.choice([1, 1, 1, 4]) for _ in range(30)]
    arena.put(np.arange(base, base + 30), state=np.array(states), goal=np.array(goals), run=np.array(runs))
    said = change(world, 1)
    assert said is not None
    columns = (ints(each).tolist() for each in (said.first, said.count, said.run, said.wanted))
    found = {
        at: (run, wanted)
        for first, count, run, wanted in zip(*columns, strict=True)
        for at in range(first, first + count)
    }
    expected = {
        at: (runs[at] if states[at] == TaskState.RUNNING else 0, int(goals[at] == Goal.RUN))
        for at in range(30)
        if states[at] != TaskState.NONE
    }
    assert (said.instances, found) == (30, expected)


def test_from_then_on_sla_is_asked_or_is_not() -> None:
    world = service(None)
    changed = change(world, 1)
    assert changed is not None
    world.decided(changed)
    assert runs_of(one(world.preempt(("a", 0, 1)), DisruptionAsked)) == [("a", 0, 1)]
    said = world.decided(JobSlaChanged(job_id="a", max_unavailable=None))
    assert runs_of(one(said, RunsStopping)) == [("a", 0, 1)], "nobody protects it any more"
    assert world.peer("sla", allowed(("a", 0, 1))) == []


def test_who_gets_an_sla_is_said_with_its_hosts_and_since_when_it_is_available() -> None:
    world = service(None)
    machine, sla = world.machine, SlaRow(min_healthy_ms=1)
    said = sla_change("a", machine.jobs["a"], machine.tasks, machine.hosts.named, 7, None, sla, BY)
    assert said is not None
    assert (said.kind, said.priority) == ("stateless", 7)
    ready = machine.tasks.arena["ready"][machine.jobs["a"].base : machine.jobs["a"].base + 2].tolist()
    since = np.repeat(said.since_array, said.count_array).tolist()
    assert since == [*(milliseconds(each) // 1000 for each in ready), 0]
    on = [said.host_ids[host] for host in np.repeat(said.host_array, said.count_array).tolist()]
    numbers = machine.tasks.arena["host"][machine.jobs["a"].base : machine.jobs["a"].base + 3].tolist()
    assert on == [machine.hosts.id_of(number) for number in numbers]
