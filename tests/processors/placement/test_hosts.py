"""Hosts come, fall silent, return and are given up: in operators' words."""

import pytest

from events.codes import Code, Hearing
from events.columns import ints, longs
from events.records.hosts import GatewayBeat, HostConnected, HostImages, HostSilent
from events.records.lifecycle import HostReconciled
from events.records.parts import Cause
from events.records.placement import (
    CapacityChanged,
    GangsUnplaced,
    HostAnswered,
    HostHearingChanged,
    HostLost,
    TasksPlaced,
)
from events.records.rounds import TimerPassed
from tests.helpers.machines import START_MS, of, one
from tests.processors.placement.harness import World, amounts, hosts_of, offered


@pytest.fixture
def world() -> World:
    return World()


def lost(said: object) -> list[tuple[str, str]]:
    return [(event.host_id, event.code) for event in of(said, HostLost)]  # type: ignore[arg-type]


def silent_cell(hosts: int) -> World:
    """A cell whose gateway beats and whose hosts all fall silent, h0 first."""
    world = World()
    world.fact(GatewayBeat(gateway="g"), *(e for n in range(hosts) for e in world.connecting(f"h{n}")))
    for number in range(hosts):
        world.later(1)
        world.silence(f"h{number}")
    return world


def test_a_host_that_connects_adds_its_capacity(world: World) -> None:
    event = one(world.connect("h1", cpu=4000, memory=8000), CapacityChanged)
    offered = Cause(topic="paceline.hosts", offset=1)
    has = amounts(4000, 8000, 10_000)
    assert event == CapacityChanged(capacity=has, hosts=1, version=1, largest=has, causes=(offered,))


def test_a_thousand_hosts_that_connect_change_the_capacity_once(world: World) -> None:
    said = world.fact(*(event for n in range(1000) for event in world.connecting(f"h{n}")))
    assert one(said, CapacityChanged).hosts == 1000


def test_a_host_gets_no_task_before_its_runs_are_settled(world: World) -> None:
    world.connect("h1")
    assert not of(world.run("a"), TasksPlaced)
    placed = one(world.reconcile("h1"), TasksPlaced)
    assert placed.host_ids == ("h1",)
    assert longs(placed.host_session).tolist() == [1]


def test_settled_may_be_heard_before_the_session_it_is_about(world: World) -> None:
    world.peer("lifecycle", HostReconciled(host_id="h1", session=1, kept=0, ended=0, stopped=0))
    world.connect("h1")
    assert hosts_of(world.run("a")) == {("a", 0, 1): "h1"}


def test_a_host_that_connects_again_is_settled_again_and_its_runs_go_on_holding_their_places(
    world: World,
) -> None:
    world.host("h1", cpu=2000)
    world.run("a")
    assert not of(world.connect("h1", cpu=2000), CapacityChanged), "nothing changed for the cell"
    assert not of(world.run("b", 2), TasksPlaced)
    assert len(hosts_of(world.reconcile("h1"))) == 1, "one place of two is still held"


def test_a_host_that_connects_again_gets_no_task_before_it_says_what_it_has(world: World) -> None:
    world.host("h1")
    world.sessions["h1"] = 2
    world.fact(HostConnected(host_id="h1", session=2, gateway="g"))
    assert not of(world.reconcile("h1"), TasksPlaced)
    assert one(world.run("a"), GangsUnplaced).hosts_by_reason == {"returning": 1}
    assert hosts_of(world.fact(offered("h1", 2))) == {("a", 0, 1): "h1"}


def test_an_old_session_is_not_heard(world: World) -> None:
    world.connect("h1")
    world.host("h1")
    assert not world.fact(HostSilent(host_id="h1", session=1), offered("h1", 1, cpu=9))
    assert not world.fact(HostConnected(host_id="h1", session=1, gateway="g"))
    assert hosts_of(world.run("a")) == {("a", 0, 1): "h1"}


@pytest.mark.parametrize(
    "offer",
    [
        {"cpu": -1},
        {"memory": -(1 << 62)},
        {"cpu": 1 << 62},
        {"port_first": 32000, "port_last": 31000},
        {"port_first": 0},
        {"port_last": 1 << 30},
    ],
)
def test_a_senseless_offer_counts_as_nothing_offered(world: World, offer: dict[str, int]) -> None:
    assert not of(world.host("h1", **offer), CapacityChanged)
    assert one(world.run("a"), GangsUnplaced).code == Code.NO_HOSTS
    world.host("h2")
    assert one(world.fact(offered("h2", 1, **offer)), CapacityChanged).hosts == 0  # type: ignore[arg-type]


def test_facts_about_an_unknown_host_change_nothing(world: World) -> None:
    world.sessions["h9"] = 1
    assert not world.silence("h9")
    assert not world.hear("h9")
    assert not world.fact(offered("h9", 1))
    assert not world.fact(HostConnected(host_id="h9", session=-5, gateway="g"))


def test_what_images_a_host_has_is_noted_once_and_nothing_that_waits_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.host("h1", cpu=1000)
    world.run("a", 2)
    tried: list[int] = []
    serve, described = world.machine._serve, world.machine.hosts.constraints.changed
    monkeypatch.setattr(world.machine, "_serve", lambda *args: (tried.append(1), serve(*args))[1])
    noted: list[int] = []
    monkeypatch.setattr(world.machine.hosts.constraints, "changed", lambda *args: (noted.append(1), described(*args)))
    for _ in range(2):
        world.fact(HostImages(host_id="h1", session=1, images=("b", "a")))
    assert (tried, noted) == ([], [1])
    world.fact(HostImages(host_id="h1", session=1, images=()))
    assert (tried, noted) == ([], [1, 1])


def test_less_capacity_than_runs_hold_is_no_capacity_for_others(world: World) -> None:
    world.host("h1", cpu=4000)
    world.run("a", 3)
    assert one(world.fact(offered("h1", 1, cpu=2000)), CapacityChanged).capacity.get("cpu", 0) == 2000
    assert world.free("h1")[0] == -1000
    assert not of(world.run("b"), TasksPlaced)
    assert not of(world.end(("a", 0, 1)), TasksPlaced)
    assert hosts_of(world.end(("a", 1, 1))) == {("b", 0, 1): "h1"}
    assert world.free("h1")[0] == 0


def test_a_silent_host_gets_no_task_until_it_is_heard_and_counts_all_the_while(world: World) -> None:
    world.host("h1")
    assert ints(one(world.silence("h1"), HostHearingChanged).hearing).tolist() == [Hearing.SILENT]
    said = world.run("a")
    assert one(said, GangsUnplaced).hosts_by_reason == {"silent": 1}
    heard = world.hear("h1")
    assert hosts_of(heard) == {("a", 0, 1): "h1"}
    assert ints(one(heard, HostHearingChanged).hearing).tolist() == [Hearing.HEARD]


def test_a_silent_host_is_lost_after_a_minute_of_beats() -> None:
    world = silent_cell(1)
    assert not lost(world.beats(50_000))
    said = world.beats(10_000)
    assert lost(said) == [("h0", Code.SILENT)]
    changed = one(said, CapacityChanged)
    assert (changed.capacity, changed.hosts, changed.version) == (amounts(), 0, 2)
    assert [cause.machine for cause in changed.causes] == ["placement"], "it follows from the loss"


def test_silence_does_not_count_while_no_beats_arrive() -> None:
    world = silent_cell(1)
    world.beats(50_000)
    said = [*world.later(60_000), *world.later(3_600_000)]
    assert len(of(said, TimerPassed)) == 1
    assert not lost(said)
    assert world.machine.next_wakeup() is None, "without a beat nothing can come due"
    world.fact(GatewayBeat(gateway="g"))
    assert not lost(world.beats(50_000))
    assert lost(world.beats(10_000)) == [("h0", Code.SILENT)]


def test_beats_that_pause_between_two_deadlines_count_anew() -> None:
    world = silent_cell(1)
    world.beats(20_000)
    world.now += 35_000
    world.fact(GatewayBeat(gateway="g"))
    assert not lost(world.later(10_000))


def test_of_twenty_silent_hosts_a_tenth_is_lost_a_minute_the_longest_silent_first() -> None:
    world = silent_cell(20)
    assert lost(world.beats(60_000)) == [("h0", Code.SILENT), ("h1", Code.SILENT)]
    assert not lost(world.beats(50_000))
    assert lost(world.beats(10_000)) == [("h2", Code.SILENT)], "eighteen are left, a tenth of them is one"


def test_silent_for_ten_minutes_is_lost_whatever_the_bound_says() -> None:
    world = silent_cell(12)
    said = lost(world.beats(590_000))
    assert said == [(f"h{n}", Code.SILENT) for n in range(9)], "one a minute"
    assert lost(world.beats(10_000)) == [(f"h{n}", Code.GRACE_PASSED) for n in (9, 10, 11)]


def test_no_host_is_lost_while_facts_are_still_to_be_read() -> None:
    world = silent_cell(1)
    world.caught_up = False
    assert not lost(world.beats(90_000))
    world.caught_up = True
    assert world.machine.next_wakeup() <= world.now  # type: ignore[operator]
    assert lost(world.quiet()) == [("h0", Code.SILENT)]


def test_an_operator_confirms_a_loss_at_once() -> None:
    world = silent_cell(3)
    world.later(500)
    said = world.confirm("h1")
    event = one(said, HostLost)
    assert (event.host_id, event.session, event.code, event.silent_ms) == ("h1", 1, Code.CONFIRMED, 501)
    answer = one(said, HostAnswered)
    assert (answer.command_id, answer.code, answer.hosts_offset) == ("c", Code.DONE, world.offsets["paceline.hosts"])
    assert one(world.confirm("h1"), HostAnswered).code == Code.REPEATED
    assert lost(world.beats(60_000)) == [("h0", Code.SILENT)], "a confirmed loss isn't one of those by silence"


def test_two_operators_confirm_one_loss() -> None:
    world = silent_cell(1)
    world.caught_up = False
    world.confirm("h0", "first")
    world.confirm("h0", "second")
    world.caught_up = True
    said = world.quiet()
    assert lost(said) == [("h0", Code.CONFIRMED)]
    assert [(a.command_id, a.code) for a in of(said, HostAnswered)] == [("first", "DONE"), ("second", "REPEATED")]


def test_a_host_that_is_heard_cannot_be_given_up(world: World) -> None:
    world.host("h1")
    assert one(world.confirm("h1"), HostAnswered).code == Code.NOT_SILENT
    assert one(world.confirm("h9"), HostAnswered).code == Code.NOT_FOUND


def test_a_lost_host_stays_lost_until_it_connects_anew_and_is_settled() -> None:
    world = silent_cell(1)
    world.confirm("h0")
    assert not world.hear("h0")
    said = world.run("a")
    assert one(said, GangsUnplaced).hosts_by_reason == {"lost": 1}
    assert one(world.connect("h0"), CapacityChanged).hosts == 1
    assert not of(world.run("b"), TasksPlaced)
    assert hosts_of(world.reconcile("h0")) == {("b", 0, 1): "h0"}


def test_runs_on_a_lost_host_hold_their_places_until_lifecycle_ends_them(world: World) -> None:
    world.host("h1", cpu=1000)
    world.run("a")
    world.silence("h1")
    world.confirm("h1")
    world.host("h1", cpu=1000)
    assert not of(world.run("b"), TasksPlaced)
    assert hosts_of(world.end(("a", 0, 1))) == {("b", 0, 1): "h1"}


def test_time_before_the_first_fact_is_no_deadline(world: World) -> None:
    assert world.machine.next_wakeup() is None
    assert world.now == START_MS
    assert not world.later(10_000_000)
