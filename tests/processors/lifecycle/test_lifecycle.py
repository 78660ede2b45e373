"""Lifecycle in the words of its users."""

import pytest

from events.codes import Outcome, RunReport
from events.columns import ints, pack_ints, pack_longs
from events.device_columns import RunDevice, devices_of
from events.records.entitlement import PoolAnswered
from events.records.jobs import JobStopRequested
from events.records.lifecycle import (
    CommandAnswered,
    DisruptionWithdrawn,
    GangsQueued,
    HostReconciled,
    InstancesWanted,
    JobAccepted,
    JobChanged,
    JobRejected,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
)
from events.records.parts import Constraint, ResourceKind, Simulated
from events.records.placement import HostLost, TasksPlaced
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from events.records.sla import DisruptionAllowed
from tests.helpers.machines import columns, kinds, one, runs_of
from tests.processors.lifecycle.harness import World

STATEFUL = {"kind": "stateful", "on_silence": "stop_after", "stop_after_ms": 1000}
A0, A1 = ("a", 0, 1), ("a", 1, 1)


def queued(said: list) -> list[tuple[int, int, int, int, int]]:
    event = one(said, GangsQueued)
    return list(
        zip(*(ints(c).tolist() for c in (event.first, event.count, event.run, event.gang, event.admitted)), strict=True)
    )


def state_of(said: list) -> str:
    return one(said, JobChanged).state


def test_a_batch_job_lives_from_submission_to_success() -> None:
    world = World()
    said = world.submit("a", instances=2)
    assert one(said, JobAccepted).instances == 2
    assert queued(said) == [(0, 2, 1, 0, 0)]
    said = world.place(A0, A1)
    assert runs_of(one(said, RunsOrdered)) == [A0, A1]
    said = world.report(RunReport.STARTED, A0, A1)
    assert runs_of(one(said, RunsAvailable)) == [A0, A1]
    assert state_of(said) == "RUNNING"
    said = world.report(RunReport.EXITED, A0)
    assert ints(one(said, RunsEnded).outcome).tolist() == [Outcome.SUCCEEDED]
    assert state_of(world.report(RunReport.EXITED, A1)) == "SUCCEEDED"


def test_a_failed_task_runs_again_and_keeps_its_admission_until_its_retries_are_used() -> None:
    world = World()
    world.submit("a", retries_max=1)
    world.place(A0)
    said = world.report(RunReport.EXITED, A0, exit_code=3)
    ended = one(said, RunsEnded)
    assert (ints(ended.outcome)[0], ints(ended.exit_code)[0], ints(ended.kept)[0]) == (Outcome.FAILED, 3, 1)
    assert queued(said) == [(0, 1, 2, 0, 1)]
    world.place(("a", 0, 2))
    said = world.report(RunReport.EXITED, ("a", 0, 2), exit_code=3)
    assert ints(one(said, RunsEnded).kept).tolist() == [0]
    assert state_of(said) == "FAILED"


def test_reports_of_old_runs_and_repeats_are_void() -> None:
    world = World()
    world.submit("a", retries_max=1)
    world.place(A0)
    world.report(RunReport.EXITED, A0, exit_code=1)
    assert world.report(RunReport.EXITED, A0, exit_code=1) == []
    assert world.place(A0) == []
    assert world.report(RunReport.STARTED, ("nobody", 5, 1)) == []


@pytest.mark.parametrize("runs", [False, True], ids=["ordered", "running"])
def test_nothing_that_is_said_of_an_old_run_touches_the_one_that_lives(runs: bool) -> None:
    world, second = World(), ("a", 0, 2)
    world.submit("a", retries_max=1)
    world.place(A0)
    world.report(RunReport.EXITED, A0, exit_code=1)
    world.place(second)
    if runs:
        world.report(RunReport.STARTED, second)
    for state in RunReport:
        assert world.report(state, A0) == []
    assert [each.code for each in world.preempt(A0)] == ["VOID"]
    assert world.peer("sla", DisruptionAllowed(**columns([A0]))) == []
    if not runs:
        assert kinds(world.report(RunReport.STARTED, second)) == ["RunsAvailable", "JobChanged"]
    assert ints(one(world.report(RunReport.EXITED, second), RunsEnded).outcome).tolist() == [Outcome.SUCCEEDED]


def test_a_stopped_job_ends_what_waits_at_once_and_stops_what_runs() -> None:
    world = World()
    world.submit("a", instances=2)
    world.place(A0)
    said = world.stop("a")
    assert one(said, CommandAnswered).code == "DONE"
    assert runs_of(one(said, RunsStopping)) == [A0]
    assert runs_of(one(said, RunsEnded)) == [A1]
    assert state_of(said) == "KILLING"
    assert one(world.stop("a"), CommandAnswered).code == "REPEATED"
    said = world.report(RunReport.STOPPED, A0, exit_code=143)
    assert ints(one(said, RunsEnded).outcome).tolist() == [Outcome.STOPPED]
    assert state_of(said) == "KILLED"
    assert one(world.stop("a"), CommandAnswered).code == "ALREADY_ENDED"
    assert one(world.stop("zzz"), CommandAnswered).code == "NOT_FOUND"


def test_a_run_that_exits_before_the_stop_reaches_it_has_its_own_outcome() -> None:
    world = World()
    world.submit("a")
    world.place(A0)
    world.stop("a")
    said = world.report(RunReport.EXITED, A0)
    assert ints(one(said, RunsEnded).outcome).tolist() == [Outcome.SUCCEEDED]
    assert state_of(said) == "SUCCEEDED"


def test_a_placement_that_comes_after_the_stop_is_void() -> None:
    world = World()
    world.submit("a")
    said = world.stop("a")
    assert kinds(said)[:3] == ["InstancesWanted", "CommandAnswered", "RunsEnded"]
    assert world.machine.state_of("a") == "KILLED"
    assert world.place(A0) == []


def test_the_same_id_again_is_a_repeat_and_with_other_content_it_is_taken() -> None:
    world = World()
    world.submit("a", instances=2)
    assert one(world.submit("a", instances=2), CommandAnswered).code == "REPEATED"
    taken = one(world.submit("a", instances=3), JobRejected)
    assert (taken.code, taken.message) == (
        "ID_TAKEN",
        "job a has another specification; `paceline job update FILE` changes it, or choose another id",
    )


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"instances": 0}, "INVALID_SPEC"),
        ({"instances": 100_001}, "INVALID_SPEC"),
        ({"kind": "cron"}, "INVALID_SPEC"),
        ({"volumes": ("data",)}, "INVALID_SPEC"),
        ({"volumes": ("..",), **STATEFUL}, "INVALID_SPEC"),
        ({"resources": {"cpu": -1}}, "INVALID_SPEC"),
        ({"gang_min": 2}, "INVALID_SPEC"),
        ({"priority": 1 << 31}, "INVALID_SPEC"),
        ({"controller": True, "kind": "stateless"}, "INVALID_SPEC"),
        ({"controller": True, "instances": 2, "gang_min": 2}, "INVALID_SPEC"),
        ({"on_preempt": "wait"}, "INVALID_SPEC"),
        ({"on_preempt": "fail", "kind": "stateless"}, "INVALID_SPEC"),
        ({"command": ()}, "INVALID_SPEC"),
        ({"strategy": "magic"}, "INVALID_SPEC"),
        ({"constraints": (Constraint("rack", "like", ("a",)),)}, "INVALID_SPEC"),
        ({"on_silence": "stop_after", "stop_after_ms": 60_000}, "INVALID_SPEC"),
        ({"max_unavailable": 2}, "INVALID_SPEC"),
        ({"ports": ("a", "a")}, "INVALID_SPEC"),
        ({"ports": ("a-b", "a_b")}, "INVALID_SPEC"),
        ({"env": {"A": "x" * 600_000}}, "TOO_LARGE"),
        ({"resources": {"cpu": 0}}, "INVALID_SPEC"),
        ({"resources": {"memory": 64}}, "INVALID_SPEC"),
        ({"resources": {"cpu": 1, "no name": 1}}, "INVALID_SPEC"),
        ({"stop_grace_ms": -5}, "INVALID_SPEC"),
        ({"stop_grace_ms": 1 << 62}, "INVALID_SPEC"),
        ({"stop_after_ms": 5}, "INVALID_SPEC"),
        ({"retries_max": 1_000_001}, "INVALID_SPEC"),
        ({"ports": ("",)}, "INVALID_SPEC"),
        ({"ports": ("p" * 257,)}, "INVALID_SPEC"),
        ({"instances": 10_000, "gang_min": 10_000, "ports": tuple(map(str, range(41)))}, "INVALID_SPEC"),
        ({"command": ("",)}, "INVALID_SPEC"),
        ({"command": ("true", "\0")}, "INVALID_SPEC"),
        ({"env": {"A=B": "x"}}, "INVALID_SPEC"),
        ({"env": {"A": "\0"}}, "INVALID_SPEC"),
        ({"simulated": Simulated(duration_ms=-1)}, "INVALID_SPEC"),
        ({"simulated": Simulated(durations_ms=(1, 1 << 62))}, "INVALID_SPEC"),
        ({"simulated": Simulated(ready_ms=-1)}, "INVALID_SPEC"),
        ({"simulated": Simulated(exit_code=256)}, "INVALID_SPEC"),
        ({"simulated": Simulated(fail_runs=-1)}, "INVALID_SPEC"),
        ({"simulated": Simulated(fail_run=-1)}, "INVALID_SPEC"),
        ({"instances": 1001}, "OPEN_TASKS_MAX"),
    ],
)
def test_what_makes_no_sense_is_rejected_with_a_code(spec: dict, code: str) -> None:
    world = World()
    rejected = one(world.submit("a", **spec), JobRejected)
    assert rejected.code == code
    assert rejected.message
    assert kinds(world.submit("a")) == ["JobAccepted", "GangsQueued"], "a rejected id may be used"


def test_an_unknown_pool_is_believed_after_a_moment() -> None:
    world = World()
    assert world.submit("a", pool="/nowhere") == []
    assert kinds(world.submit("b")) == ["JobAccepted", "GangsQueued"], "others don't wait for it"
    assert one(world.later(500), JobRejected).code == "NO_SUCH_POOL"


def test_a_job_that_names_an_unknown_resource_is_rejected_with_the_names_there_are() -> None:
    world = World()
    assert world.submit("a", resources={"cpu": 1, "gpu/a100": 1000}) == []
    rejected = one(world.later(500), JobRejected)
    assert rejected.code == "UNKNOWN_RESOURCE"
    assert rejected.message == "unknown resource 'gpu/a100'; the cell has cpu, memory, disk, gpu"


def test_a_resource_that_is_defined_and_not_answered_yet_is_waited_for_however_long() -> None:
    world = World()
    kind = ResourceKind("gpu/a100", "milli")
    world.fact("paceline.pools", CellConfigured(command_id="c", resources=(kind,)))
    assert world.submit("a", resources={"cpu": 1, "gpu/a100": 1000, "memory": 0}) == []
    assert world.later(2000) == []
    said = world.peer("entitlement", PoolAnswered(path="/", pools_offset=1, command_id="c", code="DONE"))
    assert one(said, JobAccepted).shapes[0].resources == {"cpu": 1, "gpu/a100": 1000}


def test_a_pool_that_is_defined_and_not_answered_yet_is_waited_for_however_long() -> None:
    world = World()
    world.fact("paceline.pools", PoolDefined(path="/late", command_id="c", open_jobs_max=9, open_tasks_max=9))
    assert world.submit("a", pool="/late") == []
    assert world.machine.next_wakeup() is None, "nothing can be decided before the answer"
    assert world.later(10_000) == []
    at = world.offsets["paceline.pools"]
    said = world.peer("entitlement", PoolAnswered(path="/late", pools_offset=at, command_id="c", code="DONE"))
    assert kinds(said) == ["JobAccepted", "GangsQueued"]


def test_a_pool_takes_so_many_open_jobs() -> None:
    world = World()
    for job_id in "abc":
        world.submit(job_id)
    assert one(world.submit("d"), JobRejected).code == "OPEN_JOBS_MAX"
    world.stop("a")
    assert kinds(world.submit("d")) == ["JobAccepted", "GangsQueued"]


def test_jobs_of_a_pool_that_was_removed_count_when_it_is_defined_again() -> None:
    world = World()
    world.submit("a")

    def answered(event: PoolDefined | PoolRemoved) -> None:
        world.fact("paceline.pools", event)
        at = world.offsets["paceline.pools"]
        world.peer("entitlement", PoolAnswered(path="/p", pools_offset=at, command_id="c", code="DONE"))

    answered(PoolRemoved(path="/p", command_id="c"))  # entitlement hadn't read yet that the job was accepted
    answered(PoolDefined(path="/p", command_id="c", open_jobs_max=1, open_tasks_max=9))
    assert one(world.submit("b"), JobRejected).code == "OPEN_JOBS_MAX"
    world.stop("a")
    assert kinds(world.submit("c")) == ["JobAccepted", "GangsQueued"]
    assert one(world.submit("d"), JobRejected).code == "OPEN_JOBS_MAX"


def test_a_job_that_asks_for_licences_alone_is_rejected_since_any_number_would_fit_on_a_host() -> None:
    world = World()
    world.fact("paceline.pools", CellConfigured(command_id="c", resources=(ResourceKind("seat", "milli", 1000),)))
    world.peer("entitlement", PoolAnswered(path="/", pools_offset=1, command_id="c", code="DONE"))
    assert "needs some cpu" in one(world.submit("a", resources={"seat": 1, "memory": 5}), JobRejected).message


def test_a_gang_fails_as_one_and_is_queued_again_as_one() -> None:
    world = World()
    said = world.submit("a", instances=4, gang_min=3, retries_max=1)
    assert queued(said) == [(0, 3, 1, 1, 0), (3, 1, 1, 0, 0)]
    members = [("a", n, 1) for n in range(3)]
    world.place(*members)
    world.report(RunReport.STARTED, *members)
    world.report(RunReport.EXITED, members[0])
    said = world.report(RunReport.EXITED, members[1], exit_code=1)
    assert runs_of(one(said, RunsEnded)) == [members[1]]
    assert runs_of(one(said, RunsStopping)) == [members[2]]
    said = world.report(RunReport.STOPPED, members[2])
    assert ints(one(said, RunsEnded).outcome).tolist() == [Outcome.WITH_GANG]
    assert queued(said) == [(0, 3, 2, 1, 0)]
    second = [("a", n, 2) for n in range(3)]
    world.place(*second)
    said = world.report(RunReport.EXITED, second[0], exit_code=1)
    assert runs_of(one(said, RunsStopping)) == second[1:]
    said = world.report(RunReport.STOPPED, *second[1:])
    assert "GangsQueued" not in kinds(said), "its one retry is used"
    world.place(("a", 3, 1))
    assert state_of(world.report(RunReport.EXITED, ("a", 3, 1))) == "FAILED"


def test_a_gang_that_is_stopped_while_it_waits_for_its_last_member_ends_each_run_once() -> None:
    world = World()
    world.submit("a", instances=2, gang_min=2, retries_max=3)
    members = [("a", n, 1) for n in range(2)]
    world.place(*members)
    world.report(RunReport.STARTED, *members)
    said = world.report(RunReport.EXITED, members[0], exit_code=1)
    assert runs_of(one(said, RunsEnded)) == [members[0]]
    said = world.stop("a")
    assert runs_of(one(said, RunsEnded)) == [("a", 0, 2)], "the run that it waited for"
    said = world.report(RunReport.STOPPED, members[1])
    assert runs_of(one(said, RunsEnded)) == [members[1]]
    assert state_of(said) == "KILLED"


def test_a_service_runs_again_after_a_growing_wait() -> None:
    world = World()
    world.submit("a", kind="stateless")
    waits = []
    for run in (1, 2, 3):
        world.place(("a", 0, run))
        assert "GangsQueued" not in kinds(world.report(RunReport.EXITED, ("a", 0, run)))
        waited = 0
        while not (said := world.later(250)):
            waited += 250
            assert waited < 60_000
        assert queued(said) == [(0, 1, run + 1, 0, 1)]
        waits.append(waited)
    assert waits == sorted(waits)
    assert waits[2] > 2 * waits[0]


def test_the_wait_of_a_service_begins_anew_when_it_was_available_as_long_as_the_longest() -> None:
    world = World()
    world.submit("a", kind="stateless")
    waits = []
    for run, available_ms in enumerate((0, 0, 299_000, 301_000, 0), start=1):
        world.place(("a", 0, run))
        world.report(RunReport.STARTED, ("a", 0, run))
        world.later(available_ms)
        waits += ints(one(world.report(RunReport.EXITED, ("a", 0, run)), RunsEnded).wait_ms).tolist()
        world.later(10_000)
    assert waits == [1000, 2000, 4000, 1000, 2000]


def test_a_preempted_task_waits_for_admission_again() -> None:
    world = World()
    world.submit("a", instances=3)
    world.place(A0)
    said = world.preempt(A0, A1, ("a", 2, 9))
    assert runs_of(one(said, RunsStopping)) == [A0]
    assert runs_of(one(said, RunsEnded)) == [A1], "admitted, not placed"
    assert queued(said) == [(1, 1, 2, 0, 0)]
    said = world.report(RunReport.STOPPED, A0)
    assert ints(one(said, RunsEnded).outcome).tolist() == [Outcome.PREEMPTED]
    assert queued(said) == [(0, 1, 2, 0, 0)]


def test_a_service_with_an_sla_is_only_disturbed_when_sla_allows() -> None:
    world = World()
    world.submit("a", kind="stateless", instances=2, max_unavailable=1)
    world.place(A0, A1)
    world.report(RunReport.STARTED, A0, A1)
    assert kinds(world.preempt(A0)) == ["DisruptionAsked"]
    said = world.peer("sla", DisruptionAllowed(**columns([A0])))
    assert runs_of(one(said, RunsStopping)) == [A0]
    assert "DisruptionAsked" in kinds(world.preempt(A1))
    said = world.report(RunReport.EXITED, A1, exit_code=1)
    assert runs_of(one(said, DisruptionWithdrawn)) == [A1]


def test_a_lost_host_ends_its_runs_without_counting_a_retry_and_they_keep_their_admission() -> None:
    world = World()
    world.submit("a")
    world.place(A0)
    world.report(RunReport.STARTED, A0)
    said = world.peer("placement", HostLost(host_id="h1", session=1, code="SILENT", silent_ms=60_000))
    assert ints(one(said, RunsEnded).outcome).tolist() == [Outcome.LOST]
    assert queued(said) == [(0, 1, 2, 0, 1)]


def test_an_inventory_settles_what_runs_on_a_host() -> None:
    world = World()
    world.submit("a", instances=4)
    runs = [("a", n, 1) for n in range(4)]
    world.place(*runs)
    world.report(RunReport.STARTED, *runs[:2])
    said = world.inventory(2, runs[0], ("ghost", 0, 1))
    reconciled = one(said, HostReconciled)
    assert (reconciled.session, reconciled.kept, reconciled.ended, reconciled.stopped) == (2, 1, 1, 1)
    assert runs_of(one(said, RunsStopping)) == [("ghost", 0, 1)]
    assert runs_of(one(said, RunsEnded)) == [runs[1]], "runs 2 and 3 may still be on their way"


def test_an_inventory_that_is_in_the_log_again_ends_nothing() -> None:
    world = World()
    world.submit("a")
    world.place(A0)
    world.inventory(2)
    world.report(RunReport.STARTED, A0)
    assert world.inventory(2) == [], "its gateway didn't know whether it was written: the run started after it"
    assert runs_of(one(world.inventory(3), RunsEnded)) == [A0]


def test_a_stop_that_has_not_reached_its_host_is_answered_by_the_host() -> None:
    world = World()
    world.submit("a")
    world.place(A0)
    world.preempt(A0)
    said = world.inventory(2)
    assert RunsEnded not in map(type, said), "its order may still come, and with it the stop: it ends when that is said"
    assert runs_of(one(world.report(RunReport.STOPPED, A0), RunsEnded)) == [A0]


def test_a_process_that_takes_over_goes_on_alike() -> None:
    world, other = World(), World()
    for each in (world, other):
        each.submit("a", instances=600, retries_max=2, simulated=Simulated())
        each.place(*[("a", n, 1) for n in range(600)])
        if each is other:
            each.restart()
        each.report(RunReport.STARTED, *[("a", n, 1) for n in range(600)])
        each.report(RunReport.EXITED, *[("a", n, 1) for n in range(0, 600, 2)], exit_code=1)
        if each is other:
            each.restart()
        each.stop("a")
    assert world.said[-1] == other.said[-1]
    world.state.take_changes()
    assert world.state.hash == other.state.rehash()


@pytest.mark.parametrize("host", ["h2", "unknown"])
@pytest.mark.parametrize("state", [RunReport.EXITED, RunReport.STARTED, RunReport.CANNOT_START])
def test_no_host_ends_or_starts_a_run_of_another(host: str, state: RunReport) -> None:
    world = World()
    world.submit("a", instances=2)
    world.place(A0)
    world.place(A1, host="h2")
    assert world.report(state, A0, host=host, session=9) == []
    assert runs_of(one(world.report(RunReport.STARTED, A0), RunsAvailable)) == [A0]
    assert world.report(state, A0, host=host, session=9) == []
    assert ints(one(world.report(RunReport.EXITED, A0, exit_code=3), RunsEnded).exit_code).tolist() == [3]


def test_ports_reach_the_order() -> None:
    world = World()
    world.submit("a", ports=("http", "admin"), instances=2)
    said = world.peer(
        "placement",
        TasksPlaced(
            **columns([A0, A1]),
            host_ids=("h1", "h2"),
            host_session=pack_longs([1, 1]),
            host=pack_ints([0, 1]),
            ports=pack_ints([31000, 31001, 31005, 31006]),
            port_count=pack_ints([2, 2]),
        ),
    )
    assert ints(one(said, RunsOrdered).ports).tolist() == [31000, 31001, 31005, 31006]


def test_ports_of_a_job_that_is_forgotten_by_now_are_nobody_elses() -> None:
    world = World()
    world.submit("a", ports=("http",), instances=2)
    said = world.peer(
        "placement",
        TasksPlaced(
            **columns([("gone", 0, 1), A0, A1]),
            host_ids=("h1",),
            host_session=pack_longs([1]),
            host=pack_ints([0, 0, 0]),
            ports=pack_ints([31000, 31001, 31002]),
            port_count=pack_ints([1, 1, 1]),
        ),
    )
    assert ints(one(said, RunsOrdered).ports).tolist() == [31001, 31002]


def placed_on_devices(*tasks: tuple[str, int, int], device: list[int], count: list[int]) -> TasksPlaced:
    """Tasks of host h1 with devices 0 and 1 and a whole core."""
    return TasksPlaced(
        **columns(list(tasks)),
        host_ids=("h1",),
        host_session=pack_longs([1]),
        host=pack_ints([0] * len(tasks)),
        device_ids=("0", "1", "core/5"),
        device=pack_ints(device),
        device_share=pack_ints([1000 - at for at in range(len(device))]),
        device_mib=pack_ints(range(len(device))),
        device_count=pack_ints(count),
    )


def test_devices_and_cores_reach_the_order_and_are_given_back_at_the_end_of_the_run() -> None:
    world = World()
    world.submit("a", instances=3)
    gone = ("gone", 0, 1)
    said = world.peer("placement", placed_on_devices(A0, gone, A1, device=[2, 0, 1, 1], count=[2, 1, 1]))
    order = one(said, RunsOrdered)
    assert [(at, [*devices]) for at, devices in devices_of(order)] == [
        (0, [RunDevice("core/5", 1000, 0), RunDevice("0", 999, 1)]),
        (1, [RunDevice("1", 997, 3)]),
    ]
    world.report(RunReport.STARTED, A0)
    world.report(RunReport.EXITED, A0)
    assert list(world.machine.ports.devices) == [("a", 1)]


def test_a_run_without_devices_is_ordered_without_columns_for_them() -> None:
    world = World()
    world.submit("a")
    order = one(world.place(A0), RunsOrdered)
    assert (order.device_ids, order.device, order.device_count) == ((), b"", b"")


def test_a_run_that_ends_as_its_job_is_stopped_keeps_no_admission() -> None:
    world = World()
    world.submit("a", kind="stateless")
    world.place(A0)
    world.report(RunReport.STARTED, A0)
    world.catch("paceline.jobs", JobStopRequested(job_id="a", command_id="stop"))
    said = world.report(RunReport.EXITED, A0)
    ended = one(said, RunsEnded)
    assert ints(ended.kept).tolist() == [0]


def test_who_stops_a_service_with_an_sla_says_that_its_instances_are_missed_by_nobody() -> None:
    world = World()
    world.submit("a", kind="stateless", max_unavailable=1)
    wanted = one(world.stop("a"), InstancesWanted)
    assert (wanted.job_id, wanted.wanted, wanted.first) == ("a", False, b"")
    assert "InstancesWanted" not in kinds(world.stop("a")), "it is being stopped already"


def test_a_service_that_is_stopped_at_once_says_so_too() -> None:
    world = World()
    world.busy = True
    world.submit("a", kind="stateless", max_unavailable=1)
    world.busy = False
    assert not one(world.stop("a"), InstancesWanted).wanted
