"""Daemons stand beside the shares of pools: they count against limits alone, and nobody's reservation pays for them."""

from events.codes import Code
from tests.helpers.machines import Run
from tests.processors.entitlement.harness import World, cpu, told


def cell(**system: object) -> World:
    """Ten cores, a pool for daemons and one with work."""
    world = World(cpu(10))
    world.define("/system", **system)
    world.define("/work")
    return world


def daemon(world: World, instances: int) -> list[Run]:
    return world.submit("logs", "/system", instances, kind="daemon", preemptible=False)


def test_daemons_need_no_reservation_and_take_none() -> None:
    world = cell(reservation=cpu(2))
    assert len(daemon(world, 3)) == 3
    firm = world.submit("firm", "/system", 3, preemptible=False)
    assert len(firm) == 2, "the whole reservation is there for those that are held within it"


def test_what_daemons_hold_is_not_shared() -> None:
    world = cell(reservation=cpu(2))
    daemon(world, 3)
    world.submit("much", "/work", 20)
    world.later(2_000)
    assert (world.holds("/system"), world.holds("/work")) == (3, 7)
    assert world.entitled("/work")[0] == 7


def test_daemons_go_on_ahead_of_work_that_holds_the_whole_cell() -> None:
    world = cell()
    world.submit("much", "/work", 20)
    assert world.holds("/work") == 10
    assert len(daemon(world, 3)) == 3


def test_the_limit_of_their_pool_bounds_daemons_and_its_number_is_told() -> None:
    world = cell(limit=cpu(2))
    assert len(daemon(world, 3)) == 2
    held = told(world.said, "logs")
    assert (held.code, held.at, held.asked, held.limit) == (Code.LIMIT_REACHED, "/system", cpu(1), cpu(2))
    world.end(("logs", 0, 1))
    assert world.holds("/system") == 2, "the third takes the room"


def test_a_limit_further_up_bounds_daemons_too() -> None:
    world = World(cpu(10))
    world.define("/all", limit=cpu(4))
    world.define("/all/system")
    world.define("/all/work")
    world.submit("firm", "/all/work", 3)
    assert len(world.submit("logs", "/all/system", 3, kind="daemon", preemptible=False)) == 1
    held = told(world.said, "logs")
    assert (held.code, held.at, held.limit) == (Code.LIMIT_REACHED, "/all", cpu(4))
