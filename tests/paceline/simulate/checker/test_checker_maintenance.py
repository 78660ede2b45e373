"""Promises of maintenance, broken in rounds that nobody but this test has written."""

from typing import Any

import msgspec
import pytest

from events.codes import RunCause, Stage, Step
from events.columns import pack_ints, pack_longs
from events.records.base import Event
from events.records.hosts import HostConnected, HostSilent, MaintenanceWindowSet
from events.records.lifecycle import DisruptionAsked, JobSlaChanged, RunsAvailable, RunsOrdered
from events.records.parts import SlaPolicy, ZoneOffsets
from events.records.placement import HostMaintenanceChanged, MaintenanceWindowChanged
from events.records.sla import DisruptionAllowed
from events.schedules import next_opening
from events.time_zones import offsets_of
from paceline.simulate.checker.bound import Bound
from paceline.simulate.checker.budgets import ROUNDS, Budgets
from paceline.simulate.checker.history import Violation
from paceline.simulate.checker.openings import opening
from paceline.simulate.checker.stages import SOON_MS, Stages
from paceline.simulate.checker.windows import Window, Windows
from tests.paceline.simulate.checker.checked import START, World, columns, ended, job, placed

NIGHTLY: dict[str, Any] = {"schedule": "0 2 * * *", "duration_ms": 60_000, "zone": ZoneOffsets()}


def staged(stage: Stage, **how: Any) -> HostMaintenanceChanged:
    times = {"preempt_at": [0], "force_at": [0], "check_until": [0]}
    flags = {"cordon": [0], "batch": [0], "step": [Step.NONE]}
    fields = times | flags | {"code": "ASKED", "by": "operator"} | how
    return HostMaintenanceChanged.pack(host_ids=("h",), stage=[stage], **fields)


def stages(world: World) -> Stages:
    return Stages(world.hosts, Bound(world.hosts))


def test_nothing_is_put_on_a_host_that_drains_and_none_is_drained_with_runs() -> None:
    world = World()
    fold = stages(world)
    world.runs(job("web", "/a", kind="stateless"), 1)
    drained = world.round([], [staged(Stage.DRAINED)])
    world.hosts.round(drained)
    with pytest.raises(Violation, match="are there"):
        fold.round(drained)
    with pytest.raises(Violation, match="which is DRAINING"):
        fold.round(world.round([], [staged(Stage.DRAINING), placed("web", 1)]))


def test_a_host_that_was_empty_when_it_was_drained_may_take_tasks_in_the_same_round() -> None:
    world = World()
    fold = stages(world)
    world.waits(job("web", "/a", kind="stateless"))
    fold.round(world.round([], [staged(Stage.DRAINING, by="host-pool")]))
    moved = world.round([], [staged(Stage.DRAINED, by="host-pool"), staged(Stage.UP, by=""), placed("web", 0)])
    world.hosts.round(moved)
    fold.round(moved)
    assert world.hosts.on("h") == [("web", 0)]


def test_nobody_is_forced_before_the_time_that_was_set() -> None:
    world = World()
    with pytest.raises(Violation, match="the cell doesn't permit that"):
        stages(world).round(world.round([], [staged(Stage.FORCING)]))
    world.hosts.forces_ms = START
    with pytest.raises(Violation, match="it may from"):
        stages(world).round(world.round([], [staged(Stage.FORCING)]))
    with pytest.raises(Violation, match="by health"):
        stages(world).round(world.round([], [staged(Stage.FORCING, by="health")]))


def test_a_window_ends() -> None:
    world = World()
    of_hosts = stages(world)
    fold = Windows(world.hosts, of_hosts)
    fact = MaintenanceWindowSet(window_id="night", command_id="c", host_ids=("h",), **NIGHTLY)
    fold.windows["night"] = Window(fact, "SET", START, START + 60_000)
    world.runs(job("web", "/a", kind="stateless"), 1)
    opens = MaintenanceWindowChanged(window_id="night", state="OPEN", opens_ms=START, closes_ms=START + 60_000)
    drains = staged(Stage.DRAINING, by="window", source="night")
    round_ = world.round([], [drains, opens])._replace(now_ms=START)
    of_hosts.round(round_)
    fold.round(round_)
    fold.at_rest(START + 60_000)
    with pytest.raises(Violation, match="night is OPEN, it closes at"):
        fold.at_rest(START + 61_000 + SOON_MS)
    closes = {"opens_ms": opening(fact, START + 60_000), "state": "CLOSED"}
    closes["closes_ms"] = closes["opens_ms"] + 60_000
    closed = MaintenanceWindowChanged(window_id="night", **closes)
    with pytest.raises(Violation, match="leaves h DRAINING for night, which is SET"):
        fold.round(world.round([], [closed])._replace(now_ms=START + 60_000))


@pytest.mark.parametrize("schedule", ["0 2 * * *", "30 2 * * *", "*/7 1-3 * * 0,7", "15 3 31 * *", "0 0 1-15 * 5"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"])
def test_openings_that_are_found_minute_by_minute_are_those_of_the_schedule(schedule: str, zone: str) -> None:
    offsets = offsets_of(zone, 1_790_000_000)
    fact = MaintenanceWindowSet(
        window_id="w", command_id="c", host_ids=(), schedule=schedule, duration_ms=60_000, zone=offsets
    )
    for month in range(7):  # over the change of clocks in spring and in autumn
        after_s = 1_790_000_000 + month * 30 * 86_400
        found, due = opening(fact, after_s * 1000), next_opening(schedule, offsets, after_s)
        assert found in (None, None if due is None else due * 1000)
        assert found is not None or due is None or due > after_s + 8 * 86_400


def ask(*instances: int, why: int = RunCause.DRAIN) -> DisruptionAsked:
    return DisruptionAsked(**columns("web", *instances), why=pack_ints([why] * len(instances)))


def budgets(world: World, *inputs: Event, decisions: tuple[Event, ...] = ()) -> None:
    service = job("web", "/a", kind="stateless", instances=3, max_unavailable=1)
    up = RunsAvailable(**columns("web", 0, 1, 2))
    Budgets().round(world.round([service, up, *inputs], decisions))


def test_no_more_goes_than_a_budget_lets_and_only_what_is_asked_for() -> None:
    world = World()
    budgets(world, ask(0, 1), decisions=(DisruptionAllowed(**columns("web", 0)),))
    with pytest.raises(Violation, match="of 1 that may be missing, 0 are"):
        budgets(world, ask(0, 1), decisions=(DisruptionAllowed(**columns("web", 0, 1)),))
    with pytest.raises(Violation, match="which nobody asks for"):
        budgets(world, ask(0), decisions=(DisruptionAllowed(**columns("web", 1)),))
    with pytest.raises(Violation, match="for nothing, which is available"):
        budgets(world, ask(0), decisions=(DisruptionAllowed(**columns("web", 0), free=pack_ints([1])),))


def waits(world: World, *inputs: Event, kind: str = "stateless", most: int = 1) -> None:
    """A disruption of the second instance waits for longer than sla may take."""
    fold = Budgets()
    service = job("web", "/a", kind=kind, instances=3, max_unavailable=most)
    fold.round(world.round([service, ordered_on("h", 0, 1, 2), RunsAvailable(**columns("web", 0, 1, 2)), *inputs], []))
    for number in range(2, 3 + ROUNDS):
        fold.round(world.round([], [])._replace(number=number))


def ordered_on(host: str, *instances: int, run: int = 1) -> RunsOrdered:
    return RunsOrdered.pack(
        job_ids=("web",),
        job=[0] * len(instances),
        instance=instances,
        run=[run] * len(instances),
        host_ids=(host,),
        host_session=[1],
        host=[0] * len(instances),
    )


def test_nothing_waits_for_long_that_may_go() -> None:
    with pytest.raises(Violation, match="wait, which may go since"):
        waits(World(), ask(1))
    silent = HostConnected(host_id="h", session=1, gateway="g"), HostSilent(host_id="h", session=1)
    waits(World(), *silent, ask(1), most=2)  # all three are missing


def test_what_is_younger_than_a_unit_leaves_slack_to_it() -> None:
    unit = DisruptionAsked(**columns("web", 0, 2), unit=pack_ints([1, 1]), host_ids=("h",))
    waits(World(), unit, ask(1))
    older = DisruptionAsked(**columns("web", 1), since=pack_longs([START // 1000 - 1]))
    with pytest.raises(Violation, match="wait, which may go since"):
        waits(World(), unit, older)


def test_a_daemon_that_left_with_its_host_is_missed_from_its_next_order_on() -> None:
    left = msgspec.structs.replace(ended("web", 0), why=pack_ints([RunCause.DRAIN]))
    with pytest.raises(Violation, match="wait, which may go since"):
        waits(World(), left, ask(1), kind="daemon")
    waits(World(), left, ordered_on("h", 0, run=2), ask(1), kind="daemon")


def test_what_counted_counts_when_a_job_must_be_healthy_for_longer() -> None:
    world, fold = World(), Budgets()
    up, longer = RunsAvailable(**columns("web", 0, 1, 2)), SlaPolicy(min_healthy_ms=60_000)
    service = job("web", "/a", kind="stateless", instances=3, max_unavailable=1)
    changed = JobSlaChanged(job_id="web", instances=3, max_unavailable=1, sla=longer)
    one = (DisruptionAllowed(**columns("web", 1)),)
    fold.round(world.round([service, up, changed, ask(1)], one))
    plain, fold = job("web", "/a", kind="stateless", instances=3), Budgets()
    named = {"first": pack_ints([0]), "count": pack_ints([3]), "run": pack_ints([1]), "wanted": pack_ints([1])}
    changed = msgspec.structs.replace(changed, **named, since=pack_longs([START // 1000 - 60]))
    fold.round(world.round([plain, up, changed, ask(1)], one))
    early, fold = msgspec.structs.replace(changed, since=pack_longs([START // 1000 - 59])), Budgets()
    with pytest.raises(Violation, match="of 1 that may be missing, 3 are"):
        fold.round(world.round([plain, up, early, ask(1)], one))
