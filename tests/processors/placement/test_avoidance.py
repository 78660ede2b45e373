"""A suspected host takes no new tasks for a time, in the words of those who wait and of those who look after hosts."""

from events.codes import Code
from events.records.placement import GangsUnplaced, HostAnswered, HostAvoided, HostTrusted
from processors.placement.avoidance import AVOIDED_MS
from processors.placement.hosts import Phase
from tests.helpers.machines import of, one
from tests.processors.placement.harness import World, hosts_of


def cell(hosts: int = 3) -> World:
    world = World()
    for number in range(hosts):
        world.host(f"h{number}", cpu=2000)
    return world


def test_nothing_new_is_put_on_a_suspected_host_until_ten_minutes_have_passed() -> None:
    world = cell()
    avoided = one(world.suspect("h0"), HostAvoided)
    assert (avoided.host_id, avoided.code, avoided.until_ms) == ("h0", Code.FAILS_AT_ONCE, world.now + AVOIDED_MS)
    assert {*hosts_of(world.run("a", 4)).values()} == {"h1", "h2"}
    told = one(world.run("b", 1), GangsUnplaced)
    assert (told.code, told.hosts_by_reason) == (Code.HOSTS_SUSPECTED, {"suspected": 1, "cpu": 2})
    assert hosts_of(world.beats(AVOIDED_MS - 10_000)) == {}
    said = world.later(10_000)
    assert (one(said, HostTrusted).code, hosts_of(said)) == (Code.TIME_PASSED, {("b", 0, 1): "h0"})


def test_what_fails_on_a_host_and_makes_it_suspected_does_not_go_there_again() -> None:
    """Its next run waits in the same round."""
    world = cell()
    world.run("a", 6)
    world.busy = True
    world.end(("a", 0, 1), kept=1)
    world.requeue(("a", 0, 1, 2, 0))
    world.busy = False
    assert hosts_of(world.suspect("h0")) == {}


def test_what_runs_on_a_suspected_host_goes_on() -> None:
    world = cell()
    world.run("a", 6)
    assert [type(event) for event in world.suspect("h0")] == [HostAvoided]
    assert world.free("h0")[0] == 0


def test_an_operator_says_that_a_host_is_fine() -> None:
    world = cell()
    world.run("a", 4)
    world.suspect("h2")
    world.run("b", 1)
    said = world.clear("h2")
    trusted, answer = one(said, HostTrusted), one(said, HostAnswered)
    assert (trusted.code, answer.code, hosts_of(said)) == (Code.ASKED, Code.DONE, {("b", 0, 1): "h2"})
    assert trusted.cause.topic == "paceline.hosts"


def test_an_operator_hears_that_there_is_nothing_to_clear() -> None:
    world = cell()
    assert one(world.clear("h0"), HostAnswered).code == Code.NOT_AVOIDED
    assert one(world.clear("h9"), HostAnswered).code == Code.NOT_FOUND


def test_no_more_than_a_tenth_of_the_hosts_is_avoided_at_a_time() -> None:
    world = cell(30)
    said = world.suspect(*(f"h{number}" for number in range(5)))
    assert [event.host_id for event in of(said, HostAvoided)] == ["h0", "h1", "h2"]
    assert [(e.host_id, e.code, e.avoided, e.most) for e in of(said, HostTrusted)] == [
        ("h3", Code.TOO_MANY_SUSPECTED, 3, 3),
        ("h4", Code.TOO_MANY_SUSPECTED, 3, 3),
    ]
    world.clear("h0")
    assert one(world.suspect("h4"), HostAvoided).host_id == "h4"


def test_a_cell_of_two_hosts_avoids_none() -> None:
    world = cell(2)
    trusted = one(world.suspect("h0"), HostTrusted)
    assert (trusted.code, trusted.most) == (Code.TOO_MANY_SUSPECTED, 0)


def test_a_host_that_is_suspected_again_is_avoided_for_longer() -> None:
    world = cell()
    world.suspect("h0")
    world.beats(AVOIDED_MS // 2)
    assert one(world.suspect("h0"), HostAvoided).until_ms == world.now + AVOIDED_MS
    world.beats(AVOIDED_MS // 2)
    assert world.machine.hosts.phase[0] == Phase.SUSPECTED


def test_a_host_that_connects_anew_is_avoided_on_and_one_that_is_removed_begins_anew() -> None:
    world = cell()
    world.suspect("h0")
    world.host("h0", cpu=2000)
    assert world.machine.hosts.phase[0] == Phase.SUSPECTED
    world.silence("h0")
    world.confirm("h0")
    world.remove("h0")
    world.host("h0", cpu=2000)
    assert world.machine.hosts.phase[world.machine.hosts.table["h0"].number] == Phase.UP
    assert world.suspect("h9") == [], "it isn't there any more"
