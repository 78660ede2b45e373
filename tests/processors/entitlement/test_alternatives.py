"""What pools are charged for tasks with several requests: the most of all while they wait, then what was taken."""

from events.columns import pack_ints, pack_longs
from events.records.parts import Alternative, AlternativeAmount, PlacementRules, TaskShape
from events.records.placement import TasksPlaced
from tests.helpers.machines import Run, columns
from tests.processors.entitlement.harness import World, cpu

SMALL = Alternative((AlternativeAmount("cpu", 1000), AlternativeAmount("gpu", 2000)))
LARGE = Alternative((AlternativeAmount("cpu", 4000),))
EITHER = TaskShape({"cpu": 1000, "gpu": 2000}, rules=PlacementRules(alternatives=(SMALL, LARGE)))


def place(world: World, alternative: int, *runs: Run) -> None:
    zeros = pack_ints([0] * len(runs))
    hosts = {"host_ids": ("h",), "host_session": pack_longs([1]), "host": zeros}
    took = pack_ints([alternative] * len(runs))
    world.peer("placement", TasksPlaced(**columns(runs), **hosts, alternative=took))


def held(world: World) -> tuple[int, int]:
    """CPU and GPU, in thousandths."""
    amounts = world.machine.usage["/p"].allocation
    return amounts[0], amounts[3]


def test_a_task_that_waits_holds_the_most_of_all_and_then_what_it_took() -> None:
    world = World({"cpu": 8000, "gpu": 4000})
    world.define("/p")
    (run, other) = world.submit("j", instances=2, shapes=(EITHER,))
    assert held(world) == (8000, 4000)
    place(world, 1, run)
    assert held(world) == (8000, 2000)
    place(world, 0, other)
    assert held(world) == (5000, 2000)
    world.end(run, other)
    assert held(world) == (0, 0)
    assert world.requeue(("j", 0, 2)) == [("j", 0, 2)]
    assert held(world) == (4000, 2000), "it may take any of them again"


def test_a_task_that_keeps_its_admission_keeps_what_it_took() -> None:
    world = World({"cpu": 8000, "gpu": 4000})
    world.define("/p")
    (run,) = world.submit("j", shapes=(EITHER,))
    place(world, 1, run)
    world.end(run, kept=1)
    assert held(world) == (4000, 0)


def test_a_gang_is_charged_for_what_it_took() -> None:
    world = World({"cpu": 8000, "gpu": 4000})
    world.define("/p")
    runs = world.submit("j", instances=2, gang_min=2, shapes=(EITHER,))
    place(world, 1, *runs)
    assert held(world) == (8000, 0)
    world.submit("k", need=cpu(1))
    assert held(world) == (8000, 0), "nothing is left for others"


def demand(world: World) -> tuple[int, int]:
    """CPU and GPU of what waits, in thousandths."""
    amounts = world.machine.usage["/p"].waiting
    return amounts[0], amounts[3]


def test_what_hosts_could_not_hold_counts_for_nothing() -> None:
    world = World({"cpu": 8000, "gpu": 1000})
    world.define("/p")
    (run,) = world.submit("j", shapes=(EITHER,))
    assert held(world) == (4000, 0), "two cards are more than the cell has"
    world.capacity({"cpu": 8000, "gpu": 2000})
    assert held(world) == (4000, 2000)
    place(world, 0, run)
    world.capacity({"cpu": 8000, "gpu": 1000})
    assert held(world) == (1000, 2000), "it has them, whatever hosts offer"
    world.end(run)
    assert world.requeue(("j", 0, 2)) == [("j", 0, 2)]
    assert held(world) == (4000, 0)


def test_all_members_of_a_gang_must_have_room_for_it_to_count() -> None:
    world = World({"cpu": 8000, "gpu": 3000})
    world.define("/p")
    world.submit("j", instances=2, gang_min=2, shapes=(EITHER,))
    assert held(world) == (8000, 0)


def test_who_could_be_held_by_no_request_waits_until_one_could() -> None:
    world = World({"cpu": 500, "gpu": 1000})
    world.define("/p")
    assert world.submit("j", instances=2, shapes=(EITHER,)) == []
    assert held(world) == (0, 0)
    world.capacity({"cpu": 4000, "gpu": 1000})
    assert held(world) == (4000, 0)
    assert demand(world) == (4000, 0)
