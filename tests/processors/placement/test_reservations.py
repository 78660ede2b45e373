"""A unit that is entitled and finds no place has hosts reserved for it: all that it needs, or none."""

from itertools import pairwise

import pytest

from events.cell_settings import DEFAULTS
from events.codes import Code
from events.columns import ints
from events.records.lifecycle import JobChanged
from events.records.parts import TaskShape
from events.records.placement import GangsUnplaced, HostsReserved, PreemptionAsked, TasksPlaced
from tests.helpers.machines import mixed, of, one
from tests.processors.placement.harness import hosts_of
from tests.processors.placement.sharing import Giver, Shared, Taker, asks, places, victims

AFTER_MS, FOR_MS = DEFAULTS.reserve_after_ms, DEFAULTS.reserve_for_ms


@pytest.fixture
def world() -> Shared:
    """Four hosts of 4 cores, each filled by 4 tasks: the first four on h1, and so on."""
    world = Shared()
    for host in ("h1", "h2", "h3", "h4"):
        world.host(host, cpu=4000)
    world.run("fill", 16)
    return world


def reserved(said: list[object]) -> HostsReserved:
    event = one(said, HostsReserved)  # type: ignore[arg-type]
    assert event.state == Code.RESERVED
    return event


def test_a_claim_without_place_has_a_host_drained_where_least_has_to_leave(world: Shared) -> None:
    world.end(("fill", 4, 1), ("fill", 5, 1))
    world.run("big", cpu=4000)
    assert not of(world.later(AFTER_MS - 1), HostsReserved)
    event = reserved(world.later(1001))
    assert (places(event), event.kept) == ({"h2": 1}, {"cpu": 2000})
    assert event.until_ms == world.now + FOR_MS
    assert one(world.run("small", 3), GangsUnplaced).code == Code.HELD_FOR_OTHERS
    said = world.end(("fill", 6, 1))
    assert not of(said, TasksPlaced)
    assert reserved(said).kept == {"cpu": 3000}, "what is kept changes and is said"
    said = world.end(("fill", 7, 1))
    assert hosts_of(said) == {("big", 0, 1): "h2"}
    assert one(said, HostsReserved).state == Code.PLACED
    assert not world.machine.sharing.room.table


def test_the_tasks_beside_one_for_which_hosts_are_drained_still_find_no_host(world: Shared) -> None:
    world.run("big", 3, cpu=4000)
    said = world.later(AFTER_MS + 1000)
    event = reserved(said)
    kept = event.count
    assert kept < 3, "one has a host reserved for it, the others wait as before"
    assert not of(said, GangsUnplaced), "their reason is what it was"
    assert [told.code for told in of(world.said, GangsUnplaced) if told.job_id == "big"] == [Code.NO_HOST_FITS]


def test_what_a_reservation_does_not_need_anybody_may_use(world: Shared) -> None:
    world.run("big", cpu=3000)
    world.later(AFTER_MS + 1000)
    world.run("small", 8)
    (host,) = places(of(world.said, HostsReserved)[0])
    first = 4 * (int(host[1:]) - 1)
    assert not hosts_of(world.end(("fill", first, 1), ("fill", first + 1, 1)))
    assert hosts_of(world.end(("fill", (first + 4) % 16, 1))) == {("small", 0, 1): f"h{(first // 4 + 1) % 4 + 1}"}
    said = hosts_of(world.end(("fill", first + 2, 1), ("fill", first + 3, 1)))
    assert said == {("big", 0, 1): host, ("small", 1, 1): host}


def test_two_gangs_never_hold_halves(world: Shared) -> None:
    for gang in ("one", "two"):
        world.run(gang, 3, cpu=4000, gang_min=3)
    event = reserved(world.later(AFTER_MS + 1000))
    assert (event.job_id, len(event.host_ids)) == ("one", 3)
    said = [world.end(("fill", each, 1)) for each in range(16)]
    placed = hosts_of([event for each in said for event in each])
    assert {job for job, _, _ in placed} == {"one"}
    world.end(*(("one", each, 1) for each in range(3)))
    assert {job for job, _, _ in hosts_of(world.said)} == {"fill", "one", "two"}


def test_a_tenth_of_the_hosts_may_be_reserved_for_several() -> None:
    world = Shared()
    for host in range(30):
        world.host(f"h{host}", cpu=2000)
    world.run("fill", 60)
    for job in range(6):
        world.run(f"j{job}", cpu=2000)
    events = of(world.later(AFTER_MS + 1000), HostsReserved)
    assert [event.job_id for event in events] == ["j0", "j1", "j2"]
    assert len({host for event in events for host in event.host_ids}) == 3


def test_services_stay_and_what_may_be_preempted_is_drained_first() -> None:
    world = Shared()
    world.host("h1", cpu=4000)
    world.run("web", 1, kind="stateless")
    world.run("soft", 3)
    world.host("h2", cpu=4000)
    world.run("firm", 4, preemptible=False)
    world.host("h3", cpu=4000)
    world.run("soft2", 4)
    world.run("big", cpu=4000)
    assert places(reserved(world.later(AFTER_MS + 1000))) == {"h3": 1}
    world.peer("lifecycle", JobChanged(job_id="big", state="KILLED"))
    world.run("gang", 3, cpu=4000, gang_min=3)
    assert not of(world.later(AFTER_MS + 1000), HostsReserved), "with the service there is no complete set"


def test_a_gang_of_several_shapes_has_hosts_for_each(world: Shared) -> None:
    world.host("g", cpu=4000, gpu=1000)
    world.run("more", 4)
    world.run("gang", **mixed((1, TaskShape({"cpu": 1000, "gpu": 1000})), (2, TaskShape({"cpu": 3000}))), gang_min=3)
    event = reserved(world.later(AFTER_MS + 1000))
    where = [*zip(event.host_ids, ints(event.tasks).tolist(), ints(event.shape).tolist(), strict=True)]
    assert ("g", 1, 0) in where
    assert sum(tasks for _, tasks, _ in where) == 3


def test_in_vain_unit_and_hosts_pause_each_time_twice_as_long(world: Shared) -> None:
    world.run("big", cpu=4000)
    began: list[int] = []
    hosts: list[str] = []
    for _ in range(900):
        for event in of(world.later(60_000), HostsReserved):
            if event.state == Code.RESERVED:
                began.append(world.now)
                hosts += event.host_ids
    waits = [(later - earlier) // FOR_MS - 1 for earlier, later in pairwise(began)]
    assert waits[:5] == [1, 2, 4, 8, 8]
    assert len({*hosts[:4]}) > 1, "others are drained the next time"


def test_placed_elsewhere_only_the_hosts_pause(world: Shared) -> None:
    world.run("big", cpu=4000)
    (host,) = places(reserved(world.later(AFTER_MS + 1000)))
    assert host == "h1"
    said = world.end(*(("fill", each, 1) for each in range(4, 8)))
    assert hosts_of(said) == {("big", 0, 1): "h2"}
    assert one(said, HostsReserved).state == Code.PLACED
    world.run("big2", cpu=4000)
    assert places(reserved(world.later(AFTER_MS + 1000))) != {"h1": 1}


def test_who_waits_no_more_or_is_borrowed_has_nothing_reserved(world: Shared) -> None:
    world.run("big", cpu=4000)
    world.later(AFTER_MS + 1000)
    assert one(world.rank(("big", 0, 1, 1, 0), entitled=0), HostsReserved).state == Code.WITHDRAWN
    world.rank(("big", 0, 1, 1, 0), entitled=1)
    assert one(world.later(AFTER_MS + 1000), HostsReserved).state == Code.RESERVED
    said = world.peer("lifecycle", JobChanged(job_id="big", state="KILLED"))
    assert one(said, HostsReserved).state == Code.WITHDRAWN


def test_a_plan_replaces_a_reservation_and_uses_what_was_drained(world: Shared) -> None:
    world.run("big", cpu=4000, pool="/a")
    world.later(AFTER_MS + 1000)
    world.end(("fill", 0, 1), ("fill", 1, 1))
    said = world.right(Taker("big", pool="/a"), Giver("/p"))
    (ask,) = asks(said)
    assert places(ask) == {"h1": 1}
    assert victims(ask) == [("fill", 2, 1), ("fill", 3, 1)]
    assert one(said, HostsReserved).state == Code.WITHDRAWN


def test_what_others_leave_for_a_unit_is_reserved_for_no_older_one() -> None:
    world = Shared()
    world.host("h", cpu=4000)
    world.run("fill", 4)
    world.run("older", cpu=2000)
    world.run("younger", cpu=2000, pool="/a")
    ask = one(world.right(Taker("younger", pool="/a"), Giver("/p")), PreemptionAsked)
    assert not of(world.later(AFTER_MS + 1000), HostsReserved)
    said = world.end(*victims(ask))
    assert hosts_of(said) == {("younger", 0, 1): "h"}
    assert reserved(said).job_id == "older"


def test_a_host_that_is_lost_or_removed_is_reserved_no_more(world: Shared) -> None:
    world.run("big", cpu=4000)
    world.later(AFTER_MS + 1000)
    world.silence("h1")
    states = [(event.state, event.host_ids) for event in of(world.confirm("h1"), HostsReserved)]
    assert states == [(Code.WITHDRAWN, ("h1",)), (Code.RESERVED, ("h2",))], "others are drained at once"


def test_the_number_of_a_removed_host_is_another_hosts_and_nothing_is_reserved_there() -> None:
    world = Shared()
    world.host("h1", cpu=4000)
    world.run("web", 4, kind="stateless")
    world.host("h2", cpu=4000)
    world.run("fill", 4)
    world.run("big", cpu=4000)
    assert places(reserved(world.later(AFTER_MS + 1000))) == {"h2": 1}
    world.silence("h2")
    world.confirm("h2")
    world.end(*(("fill", each, 1) for each in range(4)))
    world.busy = True
    world.remove("h2")
    world.busy = False
    world.host("h9", cpu=4000)
    assert "h2" not in world.machine.hosts.table
    assert not world.machine.sharing.room.table
    assert hosts_of(world.said)["big", 0, 1] == "h9"


def test_a_reservation_that_ends_at_once_is_not_made_again_at_once(world: Shared) -> None:
    world.configure(reserve_for_ms=0)
    world.run("big", cpu=4000)
    states = [event.state for event in of(world.later(AFTER_MS + 1000), HostsReserved)]
    assert states == [Code.RESERVED, Code.IN_VAIN]
