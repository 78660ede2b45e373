"""Tasks of several shapes in one job, and kinds of resources beside the four."""

from random import Random

from events.codes import Code
from events.columns import longs
from events.records.entitlement import EntitlementsSet, GangsHeld, PoolAnswered
from events.records.parts import ResourceKind, TaskShape
from events.records.pools import CellConfigured, PoolDefined
from tests.helpers.drawn import seeds
from tests.helpers.machines import mixed, of, one, ranges_of
from tests.processors.entitlement.harness import World, borrowed, told, waits

HEAD, WORKER = TaskShape({"cpu": 4}), TaskShape({"cpu": 1})
SEAT = ResourceKind("licence/maps", amount=3)


def world(**capacity: int) -> World:
    found = World(capacity or {"cpu": 6})
    found.define("/p")
    return found


def test_tasks_of_two_shapes_are_admitted_and_released_by_what_each_needs() -> None:
    cell = world(cpu=7)
    assert cell.submit("j", **mixed((1, HEAD), (4, WORKER))) == [("j", 0, 1), ("j", 1, 1), ("j", 2, 1), ("j", 3, 1)]
    assert cell.holds("/p") == 7
    assert cell.end(("j", 1, 1)) == [("j", 4, 1)]
    cell.end(("j", 0, 1))
    assert cell.holds("/p") == 3
    cell.over("j")
    assert cell.holds("/p") == 0
    assert not len(cell.machine.queues.shapes.table)


def test_a_shape_that_fits_no_host_of_the_cell_does_not_hold_up_the_others_of_its_job() -> None:
    cell = world()
    huge = TaskShape({"cpu": 100})
    assert cell.submit("j", **mixed((2, huge), (3, WORKER))) == [("j", 2, 1), ("j", 3, 1), ("j", 4, 1)]
    held = one(cell.said, GangsHeld)
    assert (held.code, ranges_of(held), held.asked) == (Code.NEVER_FITS, [("j", 0, 2, 1, 0)], {"cpu": 100})
    assert cell.end(("j", 3, 1)) == []
    assert cell.requeue(("j", 3, 2)) == [("j", 3, 2)]
    cell.capacity({"cpu": 300})
    assert cell.holds("/p") == 203


def test_a_shape_that_was_returned_waits_alone() -> None:
    cell = world(cpu=12)
    cell.submit("j", **mixed((2, HEAD), (4, WORKER)))
    cell.give_back("j", 0, 2, 1, Code.NEVER_FITS)
    assert cell.holds("/p") == 4
    cell.end(("j", 2, 1))
    assert cell.requeue(("j", 2, 2)) == [("j", 2, 2)], "the other shape is as before"
    cell.capacity({"cpu": 13})
    assert cell.holds("/p") == 12


def test_a_gang_of_two_shapes_is_admitted_whole_or_not_at_all() -> None:
    cell = world(cpu=6)
    gang = mixed((1, HEAD), (3, WORKER))
    assert cell.submit("j", gang_min=4, **gang) == []
    assert waits(cell.said) == [("j", Code.NEVER_FITS)]
    assert one(cell.said, GangsHeld).asked == {"cpu": 7}
    cell.capacity({"cpu": 7})
    assert cell.holds("/p") == 7
    cell.end(*(("j", instance, 1) for instance in range(4)))
    assert cell.holds("/p") == 0


def test_a_licence_of_the_cell_limits_admission_and_comes_back_at_the_end() -> None:
    cell = world(cpu=100)
    cell.configure(resources=(SEAT,))
    cell.capacity({"cpu": 100, SEAT.name: 3})
    need = {"cpu": 1, SEAT.name: 1}
    assert len(cell.submit("j", instances=5, need=need)) == 3
    assert waits(cell.said)[-1] == ("j", Code.LIMIT_REACHED)
    assert borrowed(cell.said) == [], "no licence is lent"
    assert len(cell.submit("k", instances=5)) == 5, "what needs none isn't behind it"
    assert borrowed(cell.said) == []
    assert cell.end(("j", 0, 1)) == [("j", 3, 1)]
    cell.configure(resources=(ResourceKind(SEAT.name, amount=9),))
    cell.capacity({"cpu": 100, SEAT.name: 9})
    assert cell.holds("/p") == 4 + 5 + 0


def test_two_kinds_of_gpu_are_shared_each_by_itself() -> None:
    cell = World({"cpu": 100})
    cell.configure(resources=(ResourceKind("gpu/a"), ResourceKind("gpu/b")))
    cell.capacity({"cpu": 100, "gpu/a": 2, "gpu/b": 4})
    cell.define("/p", limit={"gpu/b": 1})
    cell.define("/q", share={"gpu/a": 0})
    a, b = ({"cpu": 1, kind: 1} for kind in ("gpu/a", "gpu/b"))
    assert len(cell.submit("j", instances=3, need=b)) == 1
    assert len(cell.submit("k", pool="/q", instances=6, need=b)) == 3
    assert waits(cell.said) == [("j", Code.LIMIT_REACHED), ("k", Code.ENTITLEMENT_REACHED)]
    assert cell.submit("l", pool="/q", need=a) == [("l", 0, 1)], "a share of 0 is served after all others"


def test_kinds_may_be_added_while_jobs_run_and_wait() -> None:
    cell = World({"cpu": 4})
    cell.define("/p", reservation={"cpu": 2}, limit={"cpu": 8}, share_default=3)
    cell.submit("j", instances=6)
    before = cell.machine.reports.row("/p").allocation
    cell.configure(resources=(ResourceKind("fpga"), ResourceKind("gpu/a")))
    row = cell.machine.pools["/p"]
    assert (row.reservation, row.limit, row.share) == ((2, 0, 0, 0, 0, 0), (8, -1, -1, -1, -1, -1), (3,) * 6)
    assert cell.machine.reports.row("/p").allocation == (*before, 0, 0)
    cell.capacity({"cpu": 9, "fpga": 2})
    assert cell.holds("/p") == 6
    assert cell.submit("k", instances=3, need={"fpga": 1}) == [("k", 0, 1), ("k", 1, 1)]
    said = of(cell.later(2000), EntitlementsSet)[-1]
    assert said.resources == ("cpu", "memory", "disk", "gpu", "fpga", "gpu/a")
    assert longs(said.allocation).reshape(-1, 6)[:, 4].tolist() == [2] * len(said.pools)


def test_a_pool_may_name_a_kind_that_was_added_just_before_it() -> None:
    cell = World({"cpu": 4})
    cell.catch("paceline.pools", CellConfigured(command_id="a", resources=(ResourceKind("fpga"),)))
    cell.catch("paceline.pools", PoolDefined(path="/p", command_id="b", limit={"fpga": 2}))
    cell.catch("paceline.pools", PoolDefined(path="/q", command_id="c", limit={"seat": 2}))
    answers = of(cell.quiet(), PoolAnswered)
    assert [event.code for event in answers] == [Code.DONE, Code.DONE, Code.UNKNOWN_RESOURCE]
    assert cell.machine.pools["/p"].limit == (-1, -1, -1, -1, 2)


def test_the_state_hash_of_a_history_stays_as_it_was() -> None:
    """Of entitlement; where rows are to change, `state` is raised and this hash is another."""
    cell = world(cpu=9)
    cell.configure(resources=(SEAT, ResourceKind("fpga")))
    cell.capacity({"cpu": 9, SEAT.name: 3, "fpga": 1})
    cell.submit("j", gang_min=2, **mixed((1, HEAD), (2, WORKER), (2, TaskShape({SEAT.name: 2}))))
    cell.end(("j", 2, 1))
    cell.requeue(("j", 2, 2))
    assert cell.state.hash.hex()[:16] == "ef34155d6a1267b9"


def test_a_task_that_is_queued_with_another_shape_asks_and_holds_that_from_then_on() -> None:
    cell = world(cpu=8)
    cell.submit("j", instances=4, need={"cpu": 2})
    cell.end(("j", 0, 1))
    assert cell.requeue(("j", 0, 2), shape=TaskShape({"cpu": 3})) == []
    assert told(cell.said, "j").asked == {"cpu": 3}
    cell.end(("j", 1, 1))
    assert cell.holds("/p") == 7, "3 of it for the new shape"
    assert cell.requeue(("j", 1, 2), shape=TaskShape({"cpu": 1})) == [("j", 1, 2)]
    cell.over("j")
    assert cell.holds("/p") == 0
    assert not len(cell.machine.queues.shapes.table)


def test_an_admission_that_is_kept_holds_what_the_new_shape_asks() -> None:
    cell = world(cpu=8)
    cell.submit("j", instances=4, need={"cpu": 2})
    cell.place(("j", 0, 1))
    cell.end(("j", 0, 1), kept=1)
    assert cell.requeue(("j", 0, 2), shape=TaskShape({"cpu": 1}), kept=1) == []
    assert cell.holds("/p") == 7
    assert cell.submit("k") == [("k", 0, 1)]


def test_a_gang_may_be_queued_again_with_another_shape() -> None:
    cell = world(cpu=6)
    cell.submit("j", instances=4, gang_min=3, need={"cpu": 1})
    cell.end(*(("j", at, 1) for at in range(3)))
    assert cell.requeue_gang("j", 3, 2, TaskShape({"cpu": 2})) == []
    assert told(cell.said, "j").asked == {"cpu": 6}
    cell.end(("j", 3, 1))
    assert cell.holds("/p") == 6


NEEDS = [{"cpu": 0}, {"cpu": 1}, {"cpu": 3, "memory": 2}, {"memory": 5}]


@seeds(10, 3)
def test_whatever_shapes_tasks_get_a_pool_holds_the_sum_of_what_they_ask(seed: int) -> None:
    draw = Random(seed)
    cell = world(cpu=1000, memory=1000)
    asks = {("j", at): NEEDS[at > 3] for at in range(6)} | {("k", at): NEEDS[2] for at in range(4)}
    run = dict.fromkeys(asks, 1)
    cell.submit("j", **mixed((4, TaskShape(NEEDS[0])), (2, TaskShape(NEEDS[1]))))
    cell.submit("k", instances=4, need=NEEDS[2], preemptible=False, controller=True)
    cell.define("/p", reservation={"cpu": 100, "memory": 100})
    held = set(asks)
    for _ in range(60):
        kept = draw.randint(0, 1)
        tasks = [task for task in asks if draw.random() < 0.3 and (task in held or not kept)]
        cell.end(*((*task, run[task]) for task in tasks), kept=kept)
        held = held if kept else held - {*tasks}
        run |= {task: run[task] + 1 for task in tasks}
        need = draw.choice([None, *NEEDS])
        asks |= dict.fromkeys(tasks, need) if need is not None else {}
        if tasks and (kept or need is not None or draw.random() < 0.5):
            cell.requeue(*((*task, run[task]) for task in tasks), shape=TaskShape(need) if need else None, kept=kept)
            held |= {*tasks}
        cpu, memory, *_ = cell.machine.usage["/p"].allocation
        assert cpu == sum(asks[task].get("cpu", 0) for task in held)
        assert memory == sum(asks[task].get("memory", 0) for task in held)
