"""Jobs that grow and shrink while they run: what a removed instance held is free, and what is said of it later is void.

Each world follows restored copies, so what is tested holds for a process that takes over in between too.
"""

from typing import Any

import numpy as np
import pytest

from events.codes import Code, JobState, Outcome, RunReport, TaskState
from events.columns import pack_ints, pack_longs
from events.records.lifecycle import GangsQueued, JobChanged, RunsEnded, RunsOrdered
from events.records.parts import TaskShape
from events.records.placement import HostLost, TasksPlaced
from processors.state.arena import Arena
from tests.helpers.machines import columns, instances_changed, of, one, ranges, ranges_of, runs_of
from tests.processors.entitlement.harness import World as Entitlement
from tests.processors.entitlement.harness import admitted
from tests.processors.lifecycle.harness import World as Lifecycle
from tests.processors.placement.harness import World as Placement
from tests.processors.placement.harness import hosts_of
from tests.processors.sla.harness import World as Sla


def held(arena: Arena, slot: int) -> dict[str, int]:
    """What a slot has beside its owner."""
    found = {name: int(arena[name][slot]) for name in arena.table.columns}
    return {name: value for name, value in found.items() if value and name not in ("owner", "ended")}


def queue(job_id: str, added: list[int], run: int) -> GangsQueued:
    parts = ranges([(job_id, at, 1, run, 0) for at in added])
    return GangsQueued(**parts, admitted=pack_ints([0] * len(added)))


def end(job_id: str, instances: list[int], run: int = 1) -> RunsEnded:
    zeros, outcome = pack_ints([0] * len(instances)), pack_ints([Outcome.STOPPED] * len(instances))
    killed = pack_ints([TaskState.KILLED] * len(instances))
    named = columns([(job_id, at, run) for at in instances])
    return RunsEnded(**named, outcome=outcome, exit_code=zeros, kept=zeros, next=killed)


def crowd(world: Any, submit: Any) -> None:
    """Two jobs, the second in the way of the first."""
    submit("a", 3)
    submit("b", 2)


class TestLifecycle:
    @pytest.fixture
    def world(self) -> Lifecycle:
        world = Lifecycle()
        crowd(world, lambda job_id, instances: world.submit(job_id, instances=instances, kind="stateless"))
        world.place(("a", 0, 1), ("a", 1, 1), ("a", 2, 1))
        world.report(RunReport.STARTED, ("a", 0, 1), ("a", 1, 1), ("a", 2, 1))
        return world

    def slot(self, world: Lifecycle, job_id: str, instance: int) -> int:
        return world.machine.jobs[job_id].base + instance

    def test_a_removed_instance_holds_nothing_and_counts_nowhere(self, world: Lifecycle) -> None:
        world.decided(end("a", [1]), instances_changed("a", [0, 1, 2], removed=[1]))
        row = world.machine.jobs["a"]
        assert held(world.machine.tasks.arena, row.base + 1) == {}
        assert (row.tasks, row.instances, row.run_floor, world.machine.pools["/p"].open_tasks) == (2, 3, 1, 4)
        assert world.machine.open_tasks == 4
        lost = HostLost(host_id="h1", session=1, code=Code.SILENT, silent_ms=1)
        assert runs_of(one(world.peer("placement", lost), RunsEnded)) == [("a", 0, 1), ("a", 2, 1)]

    def test_the_last_instance_that_is_removed_takes_its_slot_along(self, world: Lifecycle) -> None:
        world.decided(end("a", [1, 2]), instances_changed("a", [0, 1, 2], removed=[1, 2]))
        assert world.machine.stretch("a") == (world.machine.jobs["a"].base, 1)
        assert world.machine.stretch("b") == (3, 2)

    def test_late_words_about_a_removed_instance_are_void_when_it_is_back(self, world: Lifecycle) -> None:
        floor = world.machine.jobs["a"].run_floor
        world.decided(end("a", [2]), instances_changed("a", [0, 1, 2], removed=[2]))
        assert world.machine.jobs["a"].run_floor == floor + 1
        world.decided(instances_changed("a", [0, 1], [2], first_run=2), queue("a", [2], 2))
        assert world.report(RunReport.EXITED, ("a", 2, 1)) == []
        assert world.machine.tasks.arena["state"][self.slot(world, "a", 2)] == TaskState.QUEUED
        said = world.place(("a", 2, 2))
        assert runs_of(one(said, RunsOrdered)) == [("a", 2, 2)]

    def test_a_job_that_moves_keeps_its_runs_its_host_and_its_waits(self, world: Lifecycle) -> None:
        world.report(RunReport.EXITED, ("a", 0, 1))
        wakeup = world.machine.next_wakeup()
        assert wakeup is not None, "it waits to run again"
        base = world.machine.jobs["a"].base
        world.decided(instances_changed("a", [0, 1, 2], [3, 4]), queue("a", [3, 4], 1))
        assert world.machine.jobs["a"].base != base
        assert world.machine.next_wakeup() == wakeup
        said = world.inventory(2, ("a", 1, 1))
        assert runs_of(one(said, RunsEnded)) == [("a", 2, 1)], "the host has lost one and kept the other"
        queued = [ranges_of(event) for event in of(world.later(wakeup - world.now), GangsQueued)]
        assert [("a", 0, 1, 2, 0)] in queued, "it runs again at its time"

    def test_a_job_without_instances_stays_until_it_is_stopped(self, world: Lifecycle) -> None:
        world.decided(end("a", [0, 1, 2]), instances_changed("a", [0, 1, 2], removed=[0, 1, 2]))
        assert world.machine.state_of("a") == JobState.PENDING
        assert one(world.stop("a"), JobChanged).state == JobState.KILLED

    def test_an_id_that_returns_starts_above_the_runs_of_removed_instances(self, world: Lifecycle) -> None:
        world.decided(end("a", [2]), instances_changed("a", [0, 1, 2], removed=[2]))
        world.decided(instances_changed("a", [0, 1], [2], first_run=9), queue("a", [2], 9))
        world.decided(end("a", [2], 9), instances_changed("a", [0, 1, 2], removed=[2]))
        world.stop("a")
        world.report(RunReport.STOPPED, ("a", 0, 1), ("a", 1, 1))
        world.act("a", "delete")
        assert world.machine.ended.first_run("a") == 10


class TestEntitlement:
    def test_what_a_removed_instance_held_or_asked_for_goes_to_others(self) -> None:
        world = Entitlement({"cpu": 4})
        world.define("/p")
        crowd(world, lambda job_id, instances: world.submit(job_id, instances=instances))
        assert world.holds("/p") == 4
        said = world.peer("lifecycle", instances_changed("a", [0, 1, 2], removed=[1]))
        assert admitted(said) == [("b", 1, 1)]
        queues = world.machine.queues
        assert held(queues.arena, queues.jobs["a"].base + 1) == {}
        said = world.peer("lifecycle", instances_changed("a", [0, 2], [1, 3, 4], first_run=2), queue("a", [1, 3, 4], 2))
        assert [int(np.count_nonzero(queues.arena[name])) for name in ("queued", "held")] == [3, 4]
        world.peer("lifecycle", instances_changed("a", [0, 1, 2, 3, 4], removed=[3, 4]))
        assert [int(np.count_nonzero(queues.arena[name])) for name in ("queued", "held")] == [1, 4]
        assert world.end(("a", 1, 1)) == [], "the run of before is over for good"


class TestPlacement:
    def test_the_host_of_a_removed_instance_is_free_and_its_waits_are_over(self) -> None:
        world = Placement()
        world.host("h1", cpu=4000)
        crowd(world, world.run)
        assert world.free("h1")[0] == 0
        said = world.peer("lifecycle", instances_changed("a", [0, 1, 2], removed=[1]))
        assert hosts_of(said) == {("b", 1, 1): "h1"}
        runs = world.machine.runs
        assert held(runs.arena, runs.jobs["a"].base + 1) == {}
        world.peer("lifecycle", instances_changed("a", [0, 2], [1, 3], first_run=2))
        assert of(world.admit(("a", 1, 1, 1, 0)), TasksPlaced) == [], "a late admission of the run of before"
        world.admit(("a", 1, 1, 2, 0), ("a", 3, 1, 2, 0))
        assert runs.waits.tasks == {"a": 2}
        world.peer("lifecycle", instances_changed("a", [0, 1, 2, 3], removed=[1, 3]))
        assert runs.waits.tasks == {}
        assert world.machine.next_wakeup() is None


class TestSla:
    def test_a_removed_instance_is_not_unavailable_and_asks_for_nothing(self) -> None:
        world = Sla()
        crowd(world, lambda job_id, instances: world.service(job_id, instances, 1))
        world.down(("a", 0, 1))
        world.ask(("a", 1, 1))
        assert len(world.deferred) == 1
        assert world.hear(instances_changed("a", [0, 1, 2], removed=[0])) == [("a", 1, 1)], "there is budget again"
        world.ask(("a", 2, 1))
        world.hear(instances_changed("a", [1, 2], [5], removed=[2]))
        row = world.machine.jobs["a"]
        assert world.machine.unavailable("a") == 2
        assert [held(world.machine.arena, row.base + at) for at in (0, 2, 3, 4, 5)] == [{}] * 5
        assert world.up(("a", 1, 2), ("a", 5, 1)) == []
        assert world.machine.unavailable("a") == 0
        assert np.count_nonzero(world.machine.arena["asked"]) == 0


def test_added_instances_get_the_ports_of_their_shape() -> None:
    world = Lifecycle()
    world.submit("job")
    world.decided(instances_changed("job", [0], added=[1], shapes=(TaskShape({"cpu": 1}, 2),)))
    world.decided(queue("job", [1], 1))
    placed = TasksPlaced(
        **columns([("job", 1, 1)]),
        host_ids=("h1",),
        host_session=pack_longs([1]),
        host=pack_ints([0]),
        ports=pack_ints([31000, 31001]),
        port_count=pack_ints([2]),
    )
    assert one(world.peer("placement", placed), RunsOrdered).ports == placed.ports


def test_instances_added_to_a_job_that_is_stopping_end_with_it() -> None:
    world = Lifecycle()
    world.submit("job")
    world.place(("job", 0, 1))
    world.report(RunReport.STARTED, ("job", 0, 1))
    world.stop("job")
    world.decided(instances_changed("job", [0], added=[1]))
    world.decided(queue("job", [1], 1))
    world.report(RunReport.EXITED, ("job", 0, 1))
    assert world.machine.state_of("job") == JobState.KILLED
