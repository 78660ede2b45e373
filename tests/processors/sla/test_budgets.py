"""One budget for all who disturb: percentages, time to be healthy, hosts, hours, groups, units and replacements."""

from typing import Any

import msgspec
import pytest

from events.codes import Code, Outcome, RunCause, TaskState
from events.columns import pack_ints
from events.records.hosts import HostBack, HostConnected, HostSilent
from events.records.lifecycle import JobPriorityChanged, JobSlaChanged, RunsEnded, SlaGroupSet
from events.records.parts import SlaPolicy, SlaWindow, ZoneOffsets
from events.records.sla import DisruptionAllowed, SurplusSet
from tests.helpers.machines import Run, columns, instances_changed, of, one, runs_of
from tests.processors.sla.harness import World

HOUR_MS = 3_600_000
BEFORE = SlaPolicy(replace="before")


def web(instances: int, max_unavailable: int | None = 1, job_id: str = "web", **fields: Any) -> World:
    """A cell with one service."""
    world = World()
    world.service(job_id, instances, max_unavailable, **fields)
    return world


def runs(job_id: str, *instances: int, run: int = 1) -> list[Run]:
    return [(job_id, instance, run) for instance in instances]


def codes(world: World) -> list[tuple[Code, int, int]]:
    """What was said to those that wait: code and numbers."""
    return [(Code(each.code), each.unavailable_array[0], each.max_unavailable_array[0]) for each in world.deferred]


@pytest.mark.parametrize(
    ("instances", "policy", "may"),
    [
        (10, SlaPolicy(max_unavailable_percent=25), 2),
        (3, SlaPolicy(max_unavailable_percent=25), 1),
        (3, SlaPolicy(max_unavailable_percent=0), 0),
        (10, SlaPolicy(min_available_percent=75), 2),
        (3, SlaPolicy(min_available_percent=90), 0),
        (5, SlaPolicy(min_available=3), 2),
        (5, SlaPolicy(min_available=7), 0),
        (10, SlaPolicy(max_unavailable_percent=50, min_available=9), 1),
        (4, SlaPolicy(min_healthy_ms=0), 4),
    ],
)
def test_percentages_and_what_must_stay_available(instances: int, policy: SlaPolicy, may: int) -> None:
    world = web(instances, None, sla=policy)
    assert world.ask(*runs("web", *range(instances))) == runs("web", *range(may))
    assert world.machine.unavailable("web") == may, "what an SLA without bounds lets go is counted too"
    if not may:
        assert codes(world) == [(Code.SLA_NEVER_ALLOWS, 0, 0)]


def test_of_two_drains_that_race_for_one_spare_the_older_goes() -> None:
    world = web(3)
    world.busy = True
    world.ask(*runs("web", 0), why=RunCause.UPDATE, ago_s=10)
    world.busy = False
    assert world.ask(*runs("web", 2), why=RunCause.DRAIN, ago_s=60) == runs("web", 2), "it was asked for first"
    world.restart()
    world.down(*runs("web", 2))
    assert world.up(*runs("web", 2, run=2)) == runs("web", 0)
    assert codes(world) == [(Code.SLA_BUDGET_SPENT, 1, 1)]


def test_a_run_counts_once_it_has_been_healthy_for_long_enough() -> None:
    world = web(2, sla=SlaPolicy(min_healthy_ms=30_000))
    assert world.ask(*runs("web", 0)) == [], "both have just started"
    world.later(30_000)
    assert world.may == runs("web", 0)
    assert world.ask(*runs("web", 1)) == []
    world.down(*runs("web", 0))
    assert world.up(*runs("web", 0, run=2)) == []
    world.restart()
    world.later(29_000)
    assert world.may == runs("web", 0)
    world.later(1_000)
    assert world.may == runs("web", 0, 1), "not before the replacement was healthy for 30 s"


def test_what_is_not_healthy_yet_goes_while_nothing_beyond_the_budget_is_missing() -> None:
    world = web(3, sla=SlaPolicy(min_healthy_ms=30_000))
    world.later(30_000)
    world.down(*runs("web", 0))
    world.up(*runs("web", 0, run=2))
    assert world.ask(*runs("web", 0, run=2)) == runs("web", 0, run=2), "it is missing already"
    assert world.ask(*runs("web", 1)) == []
    world.down(*runs("web", 0, run=2), *runs("web", 1))
    world.up(*runs("web", 0, run=3))
    assert world.ask(*runs("web", 0, run=3)) == [], "two are missing, and one may be"


def test_instances_that_are_down_anyway_cost_nothing_and_go_at_once() -> None:
    world = web(3)
    world.down(*runs("web", 0, 1))
    assert world.ask(*runs("web", 0, 1, run=2), *runs("web", 2)) == runs("web", 0, 1, run=2)
    assert of(world.said, DisruptionAllowed)[-1].free_array.tolist() == [1, 1]
    assert codes(world) == [(Code.SLA_BUDGET_SPENT, 2, 1)]
    assert world.up(*runs("web", 0, run=3)) == [], "one of three is missing already"
    assert world.up(*runs("web", 1, run=3)) == runs("web", 2)


def test_a_host_that_fell_silent_before_its_runs_are_known_is_silent() -> None:
    world = World()
    world.take("paceline.hosts", HostSilent(host_id="h0", session=1))
    world.service("web", 3, 1, running=False)
    world.order(("web", 0, 1), host="h0")
    world.order(("web", 1, 1), ("web", 2, 1), host="h1")
    assert world.up(("web", 0, 1), ("web", 1, 1), ("web", 2, 1)) == []
    assert world.ask(("web", 1, 1)) == []
    assert world.take("paceline.hosts", HostBack(host_id="h0", session=1)) != []
    assert world.may == [("web", 1, 1)]


def test_an_instance_on_a_host_that_is_not_heard_is_missing_until_it_is_back() -> None:
    world = web(3)
    world.order(*runs("web", 0), host="h0")
    world.order(*runs("web", 1, 2), host="h1")
    world.take("paceline.hosts", HostSilent(host_id="h0", session=1))
    assert world.machine.unavailable("web") == 1
    world.restart()
    assert world.ask(*runs("web", 1)) == []
    world.take("paceline.hosts", HostSilent(host_id="h0", session=1), HostBack(host_id="h0", session=1))
    assert world.may == runs("web", 1)
    connected = HostConnected(host_id="h1", session=2, gateway="g")
    world.take("paceline.hosts", HostSilent(host_id="h1", session=1), connected)
    assert world.machine.unavailable("web") == 1, "the one that was let go"
    world.take("paceline.hosts", HostSilent(host_id="h1", session=1))
    assert world.machine.unavailable("web") == 1, "it is connected again since"


def test_others_may_disturb_a_job_so_often_in_an_hour() -> None:
    world = web(5, 5, sla=SlaPolicy(per_hour=2))
    assert world.ask(*runs("web", 0), why=RunCause.DRAIN) == runs("web", 0)
    world.later(600_000)
    assert world.ask(*runs("web", 1), why=RunCause.PREEMPT) == runs("web", 1)
    assert world.ask(*runs("web", 2), why=RunCause.DRAIN) == []
    assert codes(world) == [(Code.SLA_RATE_REACHED, 2, 2)]
    assert world.deferred[-1].until_array.tolist() == [(world.now - 600_000 + HOUR_MS) // 1000]
    assert world.ask(*runs("web", 3), why=RunCause.UPDATE) == runs("web", 3), "updates don't count"
    world.restart()
    world.later(HOUR_MS - 601_000)
    assert runs("web", 2)[0] not in world.may
    world.later(1_000)
    assert runs("web", 2)[0] in world.may
    world.withdraw(*runs("web", 2))
    assert world.ask(*runs("web", 4), why=RunCause.DRAIN) == runs("web", 4), "what was withdrawn counts no more"


def test_jobs_of_a_group_share_a_budget_by_age_and_then_by_priority() -> None:
    world = World()
    world.hear(SlaGroupSet(group="db", max_unavailable=1))
    for number, priority in enumerate((5, 1, 3)):
        world.service(f"j{number}", 2, 2, sla=SlaPolicy(group="db"), priority=priority)
    world.busy = True
    for number in range(3):
        world.ask(*runs(f"j{number}", 0), ago_s=0)
    world.busy = False
    world.quiet()
    assert world.may == runs("j1", 0), "of one age the lower priority"
    assert codes(world) == [(Code.SLA_GROUP_SPENT, 1, 1)]
    assert world.deferred[0].groups == ("db", "db")
    assert world.up(*runs("j1", 0, run=2)) == runs("j2", 0), "another job of the group is looked at"
    assert world.hear(SlaGroupSet(group="db", max_unavailable=2)) == runs("j0", 0)
    world.ask(*runs("j0", 1))
    assert world.hear(SlaGroupSet(group="db", removed=True)) == runs("j0", 1), "the budgets of jobs are left"


def test_a_group_that_never_allows_anything_is_named_with_its_numbers() -> None:
    world = World()
    world.hear(SlaGroupSet(group="db", max_unavailable=0))
    world.service("grouped", 3, 2, sla=SlaPolicy(group="db"))
    world.service("alone", 3, 0)
    assert world.ask(*runs("grouped", 0)) == []
    assert (codes(world), world.deferred[-1].groups) == ([(Code.SLA_NEVER_ALLOWS, 0, 0)], ("db",))
    assert world.ask(*runs("alone", 0)) == []
    assert world.deferred[-1].groups == ()


def test_what_is_bound_to_a_host_leaves_together_or_not_at_all() -> None:
    world = web(4, kind="stateful")
    world.ask(*runs("web", 0, 1), unit=1, hosts=("h0",))
    assert world.may == []
    assert codes(world) == [(Code.SLA_NEVER_ALLOWS, 0, 1)]
    assert world.sla("web", 2) == runs("web", 0, 1)


def test_a_unit_across_jobs_waits_for_the_one_that_has_no_room() -> None:
    world = web(3, kind="stateful")
    world.service("log", 3, 1, kind="daemon")
    world.down(*runs("log", 2))
    world.ask(*runs("web", 0), *runs("log", 0), unit=1, hosts=("h0",))
    assert world.may == []
    assert {Code(each.code) for each in world.deferred} == {Code.SLA_BUDGET_SPENT}
    assert world.ask(*runs("web", 1)) == runs("web", 1), "who waits holds nothing"
    world.up(*runs("log", 2, run=2))
    assert world.may == runs("web", 1), "now the other job has none"
    assert world.up(*runs("web", 1, run=2)) == [*runs("web", 0), *runs("log", 0)]


def test_a_gang_goes_whole() -> None:
    world = web(3, 2, kind="batch", running=True)
    assert world.ask(*runs("web", 0, 1, 2), unit=-1) == []
    assert codes(world) == [(Code.SLA_NEVER_ALLOWS, 0, 2)]
    assert world.sla("web", 3) == runs("web", 0, 1, 2)


def test_the_oldest_unit_reserves_what_it_needs_after_an_hour() -> None:
    world = web(5, 2, kind="stateful")
    world.down(*runs("web", 4))
    world.ask(*runs("web", 0, 1), unit=1, hosts=("h0",))
    assert world.ask(*runs("web", 2), unit=1, hosts=("h1",)) == runs("web", 2), "a younger one that fits"
    world.up(*runs("web", 4, run=2))
    assert world.ask(*runs("web", 3), unit=1, hosts=("h2",)) == runs("web", 3)
    world.later(HOUR_MS)
    world.up(*runs("web", 2, run=2))
    assert world.ask(*runs("web", 4, run=2), unit=1, hosts=("h3",)) == [], "it keeps what it needs"
    assert world.up(*runs("web", 3, run=2)) == runs("web", 0, 1)


def test_the_oldest_unit_reserves_what_it_needs_of_a_group_after_an_hour() -> None:
    world = World()
    world.hear(SlaGroupSet(group="db", max_unavailable=2))
    world.service("st", 3, 3, kind="stateful", sla=SlaPolicy(group="db"))
    world.service("web", 4, 4, sla=SlaPolicy(group="db"))
    assert world.ask(*runs("web", 0)) == runs("web", 0)
    assert world.ask(*runs("st", 0, 1), unit=1, hosts=("h0",)) == []
    assert codes(world) == [(Code.SLA_GROUP_SPENT, 2, 2)]
    assert world.ask(*runs("web", 1)) == runs("web", 1), "it has waited for a moment"
    world.later(HOUR_MS)
    world.up(*runs("web", 0, run=2))
    assert world.ask(*runs("web", 2)) == []
    assert len(codes(world)) == 2, "the unit isn't told anew"
    world.restart()
    assert world.up(*runs("web", 1, run=2)) == runs("st", 0, 1)


def test_the_oldest_unit_reserves_what_it_needs_of_an_hour() -> None:
    world = web(6, 6, kind="stateful", sla=SlaPolicy(per_hour=2))
    assert world.ask(*runs("web", 2), why=RunCause.DRAIN) == runs("web", 2)
    assert world.ask(*runs("web", 0, 1), unit=1, hosts=("h0",), why=RunCause.DRAIN, ago_s=3_000) == []
    world.later(HOUR_MS // 2)
    assert world.ask(*runs("web", 3), why=RunCause.DRAIN) == [], "one more may go, and the unit needs two"
    assert world.ask(*runs("web", 4), why=RunCause.UPDATE) == runs("web", 4), "the hour doesn't count it"
    world.later(HOUR_MS // 2)
    assert world.may == [*runs("web", 2), *runs("web", 4), *runs("web", 0, 1)]


def test_younger_runs_that_go_alone_leave_a_unit_what_it_waits_for() -> None:
    world = web(4, 2)
    world.down(*runs("web", 3))
    world.ask(*runs("web", 0, 1), unit=1, hosts=("h0",), ago_s=60)
    assert world.ask(*runs("web", 2)) == []
    assert world.up(*runs("web", 3, run=2)) == runs("web", 0, 1)


def test_a_replacement_is_up_before_the_run_stops() -> None:
    world = web(3, 0, sla=BEFORE)
    world.ask(*runs("web", 1))
    assert world.may == []
    surplus = one(world.said, SurplusSet)
    assert (surplus.job_ids, surplus.surplus_array.tolist(), surplus.serial_array.tolist()) == (("web",), [1], [1])
    assert codes(world) == [(Code.WAITS_FOR_REPLACEMENT, 0, 0)]
    add(world, 3, serial=1)
    assert world.up(*runs("web", 3)) == runs("web", 1)
    world.down(*runs("web", 1))
    assert len(of(world.said, SurplusSet)) == 1, "it is needed until the next run is up"
    world.restart()
    world.up(*runs("web", 1, run=2))
    assert of(world.said, SurplusSet)[-1].surplus_array.tolist() == [0]
    assert world.ask(*runs("web", 3)) == runs("web", 3), "it is to go anyway"


def test_after_some_time_the_plain_budget_is_used() -> None:
    world = web(3, 1, sla=BEFORE)
    assert world.ask(*runs("web", 1), why=RunCause.DRAIN) == []
    assert world.deferred[-1].until_array.tolist() == [world.now // 1000 + 120]
    world.later(119_000)
    assert world.may == []
    world.restart()
    world.later(1_000)
    assert world.may == runs("web", 1)


def test_surplus_that_a_preemption_spends_is_not_given_up_with_it() -> None:
    world = web(3, 0, sla=BEFORE)
    world.ask(*runs("web", 1))
    add(world, 3, serial=1)
    world.busy = True
    world.ask(*runs("web", 0), why=RunCause.PREEMPT, ago_s=600)
    world.withdraw(*runs("web", 1))
    world.up(*runs("web", 3))
    world.busy = False
    said = world.quiet()
    assert [type(each).__name__ for each in said] == ["DisruptionAllowed"], "not given up as it is spent"
    world.down(*runs("web", 0))
    world.up(*runs("web", 0, run=2))
    assert of(world.said, SurplusSet)[-1].surplus_array.tolist() == [0]


def test_surplus_of_an_older_serial_counts_nowhere() -> None:
    world = web(3, 0, sla=BEFORE)
    world.ask(*runs("web", 1))
    world.withdraw(*runs("web", 1))
    add(world, 3, serial=1)
    world.up(*runs("web", 3))
    assert world.ask(*runs("web", 1)) == [], "that instance comes too late, and is to go"
    assert of(world.said, SurplusSet)[-1].serial_array.tolist() == [2]
    add(world, 4, serial=2)
    assert world.up(*runs("web", 4)) == runs("web", 1)


def test_an_instance_that_a_larger_job_takes_over_is_wanted() -> None:
    world = web(2, 0, sla=BEFORE)
    world.ask(*runs("web", 1))
    add(world, 2, serial=1)
    changed = instances_changed("web", range(3), [3])
    world.hear(msgspec.structs.replace(changed, adopted=1))
    counts = world.machine.available.counts["web"]
    assert (counts.expected, counts.missing, counts.extra) == (4, 2, 0)
    world.up(*runs("web", 2, 3))
    counts = world.machine.available.counts["web"]
    assert (counts.expected, counts.missing, counts.extra) == (4, 0, 0)
    assert world.may == [], "none of the four is more than wanted"


def test_what_a_work_limit_cut_comes_in_the_next_pass() -> None:
    world = World(budget=2)
    world.service("web", 9, max_unavailable=5)
    asked = runs("web", *range(9))
    assert world.ask(*asked) == asked[:5]
    assert sum(len(runs_of(each)) for each in world.deferred) == 4


def test_a_batch_task_counts_from_its_first_run_until_it_is_over() -> None:
    world = web(3, 1, kind="batch", running=False)
    assert world.machine.unavailable("web") == 0, "nobody misses what hasn't begun"
    world.up(*runs("web", 0, 1))
    assert world.ask(*runs("web", 0, 1)) == runs("web", 0)
    filler = {"outcome": pack_ints([Outcome.SUCCEEDED]), "exit_code": pack_ints([0]), "kept": pack_ints([0])}
    over = RunsEnded(**columns(runs("web", 0)), **filler, next=pack_ints([TaskState.SUCCEEDED]))
    assert world.hear(over) == runs("web", 1), "nobody misses what is over"


def test_a_daemon_whose_host_is_emptied_holds_nothing_up() -> None:
    world = web(3, 1, kind="daemon")
    assert world.ask(*runs("web", 0), unit=1, hosts=("h0",), why=RunCause.DRAIN) == runs("web", 0)
    assert world.ask(*runs("web", 1), why=RunCause.UPDATE) == []
    filler = {"outcome": pack_ints([0]), "exit_code": pack_ints([0]), "kept": pack_ints([0])}
    gone = RunsEnded(**columns(runs("web", 0)), **filler, why=pack_ints([RunCause.DRAIN]))
    assert world.hear(gone) == runs("web", 1), "nobody expects one on that host"
    world.order(*runs("web", 0, run=2), host="h0")
    assert world.machine.unavailable("web") == 2, "it is expected there again"


def test_others_disturb_a_job_only_within_its_windows() -> None:
    night = SlaWindow(schedule="0 2 * * *", duration_ms=HOUR_MS, zone=ZoneOffsets())
    world = web(3, 2, sla=SlaPolicy(windows=(night,)))
    assert world.ask(*runs("web", 0), why=RunCause.DRAIN) == []
    assert codes(world) == [(Code.OUTSIDE_WINDOW, 0, 2)]
    opens = 1_700_013_600  # two o'clock in the night after
    assert world.deferred[-1].until_array.tolist() == [opens]
    assert world.ask(*runs("web", 1), why=RunCause.UPDATE) == runs("web", 1), "updates have no windows"
    world.restart()
    world.later(opens * 1000 - world.now - 1000)
    assert runs("web", 0)[0] not in world.may
    world.later(1000)
    assert runs("web", 0)[0] in world.may
    world.up(*runs("web", 0, 1, run=2))
    world.later(HOUR_MS)
    assert world.ask(*runs("web", 2), why=RunCause.PREEMPT) == []
    assert world.deferred[-1].until_array.tolist() == [opens + 86_400]
    world.hear(JobSlaChanged(job_id="web", max_unavailable=2))
    assert runs("web", 2)[0] in world.may


def add(world: World, number: int, serial: int) -> None:
    """Lifecycle gives a job a surplus instance."""
    changed = instances_changed("web", range(number), [number])
    world.hear(msgspec.structs.replace(changed, surplus=serial))


THREE: dict[str, Any] = {"first": [0], "count": [3], "run": [1], "wanted": [1]}
"""Three instances that a job has as it gets its SLA."""


def test_a_job_that_gets_its_sla_later_counts_its_silent_hosts() -> None:
    world = web(3, None)
    each = {"first": [0, 1, 2], "count": [1] * 3, "run": [1] * 3, "wanted": [1] * 3}
    on = {"host_ids": ("h0", "h1"), "host_session": [1, 1], "host": [0, 1, -1]}
    world.take("paceline.hosts", HostSilent(host_id="h0", session=1))
    world.sla("web", 1, **each, **on)
    assert world.ask(*runs("web", 2)) == [], "one is missing already"
    world.restart()
    world.take("paceline.hosts", HostBack(host_id="h0", session=1))
    assert world.may == runs("web", 2)
    world.up(*runs("web", 2, run=2))
    world.take("paceline.hosts", HostSilent(host_id="h1", session=1))
    assert world.machine.unavailable("web") == 1


def test_an_sla_that_is_given_later_waits_for_its_time_to_be_healthy() -> None:
    world = web(3, None)
    now = world.now // 1000
    world.sla("web", 1, **THREE, since=[now - 20], sla=SlaPolicy(min_healthy_ms=30_000))
    assert world.ask(*runs("web", 0)) == [], "all have run for 20 s"
    world.restart()
    world.later(9_000)
    assert world.may == []
    world.later(1_000)
    assert world.may == runs("web", 0)


def test_a_daemon_that_gets_its_sla_later_leaves_hosts_as_any_does() -> None:
    world = web(3, None, kind="daemon")
    away = {"first": [0, 1], "count": [1, 2], "run": [0, 1], "wanted": [2, 1]}
    world.sla("web", 1, **away, kind="daemon")
    assert world.machine.unavailable("web") == 0, "the one whose host is drained isn't missed"
    assert world.ask(*runs("web", 1), why=RunCause.DRAIN) == runs("web", 1)
    filler = {"outcome": pack_ints([0]), "exit_code": pack_ints([0]), "kept": pack_ints([0])}
    world.hear(RunsEnded(**columns(runs("web", 1)), **filler, why=pack_ints([RunCause.DRAIN])))
    assert world.ask(*runs("web", 2), why=RunCause.DRAIN) == runs("web", 2)
    world.order(*runs("web", 0, run=2), host="h0")
    assert world.machine.unavailable("web") == 2, "it is back, and not up yet"


def test_what_was_allowed_holds_budget_though_the_sla_was_taken_off_meanwhile() -> None:
    world = web(3)
    assert world.ask(*runs("web", 0)) == runs("web", 0)
    world.sla("web", None)
    world.restart()
    world.sla("web", 1, **THREE)
    assert world.ask(*runs("web", 1)) == []
    assert world.withdraw(*runs("web", 0)) == runs("web", 1)
    world.sla("web", None)
    world.withdraw(*runs("web", 1))
    assert not world.machine.going
    world.sla("web", 1, **THREE)
    assert world.ask(*runs("web", 2)) == runs("web", 2), "one that was withdrawn holds none"
    world.sla("web", None)
    assert world.machine.going
    world.over("web")
    assert not world.machine.going


def test_the_priority_that_a_job_has_now_orders_its_group() -> None:
    world = World()
    world.hear(SlaGroupSet(group="db", max_unavailable=0))
    for number, priority in enumerate((5, 1)):
        world.service(f"j{number}", 2, 2, sla=SlaPolicy(group="db"), priority=priority)
    for number in range(2):
        world.ask(*runs(f"j{number}", 0), ago_s=0)
    world.hear(JobPriorityChanged(job_id="j0", priority=0))
    assert world.hear(SlaGroupSet(group="db", max_unavailable=1)) == runs("j0", 0)


def test_hosts_without_runs_are_forgotten() -> None:
    world = web(1)
    for run in range(2, 300):
        world.order(*runs("web", 0, run=run), host=f"h{run}")
        world.up(*runs("web", 0, run=run))
        world.down(*runs("web", 0, run=run))
    assert len(world.machine.hosts.table) < 64
    for each in range(200):
        world.take("paceline.hosts", HostSilent(host_id=f"s{each}", session=1))
    assert len(world.machine.hosts.table) >= 200, "what ran there may get an SLA"
    world.later(24 * HOUR_MS)
    for each in range(200, 260):
        world.take("paceline.hosts", HostSilent(host_id=f"s{each}", session=1))
    assert len(world.machine.hosts.table) < 128
    world.restart()


def test_silence_of_a_session_that_is_over_counts_for_nothing() -> None:
    world = web(1)
    world.order(*runs("web", 0), host="h0")
    connected = HostConnected(host_id="h0", session=2, gateway="g")
    world.take("paceline.hosts", connected, HostSilent(host_id="h0", session=1))
    assert world.machine.unavailable("web") == 0


def test_a_batch_task_that_runs_again_is_not_over_by_the_end_of_an_earlier_run() -> None:
    world = web(2, 1, kind="batch")
    world.down(*runs("web", 0, run=2))
    world.up(*runs("web", 0, run=3))
    filler = {"outcome": pack_ints([Outcome.SUCCEEDED]), "exit_code": pack_ints([0]), "kept": pack_ints([0])}
    world.hear(RunsEnded(**columns(runs("web", 0)), **filler, next=pack_ints([TaskState.SUCCEEDED])))
    assert world.ask(*runs("web", 0, run=3), *runs("web", 1)) == runs("web", 0, run=3), "each is one of two"


def two_units_that_wait(**first: Any) -> World:
    """One of each of two jobs, of which each has room for one of its two; that of the first is older."""
    world = World()
    world.service("first", 4, 2, kind="stateful", **first)
    world.service("second", 5, 2, kind="stateful")
    world.down(*runs("first", 3), *runs("second", 4))
    world.ask(*runs("first", 0, 1), unit=1, hosts=("h0",), why=RunCause.DRAIN, ago_s=1)
    world.ask(*runs("second", 0, 1), unit=1, hosts=("h1",), why=RunCause.DRAIN)
    world.later(HOUR_MS)
    return world


def test_only_the_oldest_unit_reserves_what_it_needs() -> None:
    world = two_units_that_wait()
    assert world.ask(*runs("second", 2), unit=1, hosts=("h2",)) == runs("second", 2)


def test_a_unit_that_waits_for_a_window_is_not_the_oldest() -> None:
    night = SlaWindow(schedule="0 2 * * *", duration_ms=HOUR_MS, zone=ZoneOffsets())
    world = two_units_that_wait(sla=SlaPolicy(windows=(night,)))
    assert world.ask(*runs("second", 2), unit=1, hosts=("h2",)) == [], "the other one is"
