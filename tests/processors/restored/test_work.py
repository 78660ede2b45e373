"""What a fact or an end costs follows what it changes, not what there is. Lines of Python, or values of columns, that
the work goes through are counted, not time.
"""

from collections.abc import Callable

import numpy as np
import pytest

from events.codes import Code
from events.ranks import Rank
from events.records.entitlement import PoolAnswered
from events.records.jobs import JobSubmitted
from events.records.lifecycle import JobAccepted
from events.records.parts import TaskShape
from events.records.placement import HostLost
from events.records.pools import PoolDefined
from events.resources import Amounts
from hostagent.gateway.desired_runs import DesiredRuns
from processors.entitlement.machine import Entitlement
from processors.entitlement.rows import root_row
from processors.entitlement.state import State
from processors.machine import Decided, Fact
from tests.helpers.counted import Counted, lines
from tests.helpers.machines import shaped
from tests.hostagent.cell import ordered
from tests.processors.entitlement.harness import World as Sharing
from tests.processors.entitlement.harness import admitted, cpu
from tests.processors.lifecycle.harness import World as Lifecycle
from tests.processors.sla.harness import World as Sla


def define_pools(count: int, cell: int) -> int:
    """Defines so many pools, then counts the work of one more; the shares over all pools are not in it."""
    machine = Entitlement()
    offset = 0

    def define(path: str) -> None:
        nonlocal offset
        defined = PoolDefined(path=path, command_id=path, reservation={"cpu": 1}, cell=cell)
        machine.apply(Fact("paceline.pools", offset, 1, defined, b""))
        [answered] = machine.decide(1, True, 10)
        assert isinstance(answered, PoolAnswered)
        assert answered.code == Code.DONE
        machine.apply(Decided(1, answered, 1, 0))
        offset += 1

    for number in range(count):
        define(f"/p{number}")
    return lines(lambda: define("/q"))


@pytest.mark.parametrize("cell", [0, 1])
def test_defining_a_pool_costs_the_same_among_ten_times_as_many(cell: int) -> None:
    assert define_pools(900, cell) < 1.5 * define_pools(90, cell) + 100


def crowd(pools: int, **defined: Amounts) -> Sharing:
    """So many pools, each with a job of single tasks of two cores that all wait for more; there are three cores for
    each.
    """
    world = Sharing()
    world.busy = True
    for number in range(pools):
        world.catch("paceline.pools", PoolDefined(path=f"/p{number}", command_id=f"c{number}", **defined))
        world.submit(f"j{number}", f"/p{number}", instances=9, need=cpu(2000))
    world.busy = False
    world.place(*admitted(world.capacity(cpu(3000 * pools))))
    world.later(2000, step=1000)
    world.busy = True
    return world


def asked(world: Sharing) -> int:
    """The work of the next decision and wakeup."""
    found = lines(lambda: (world.machine.decide(world.now, True, 1000), world.machine.next_wakeup()))
    assert world.machine.decide(world.now, True, 1000)
    return found


def lend_one(pools: int) -> int:
    """Ends what was lent to one pool, then counts the work of lending it again."""
    world = crowd(pools)
    world.machine.decide(world.now, True, 1000)
    lent = world.machine.queues.arena["rank"] == Rank.BORROWED
    slot = int(np.flatnonzero(lent)[0])
    job_id = world.machine.queues.at[int(world.machine.queues.arena["owner"][slot]) - 1]
    world.end((job_id, slot - world.machine.queues.jobs[job_id].base, 1))
    return asked(world)


def test_what_comes_free_is_lent_at_the_same_cost_among_four_times_as_many_pools() -> None:
    assert lend_one(80) < 1.5 * lend_one(20) + 100


def lend_behind(shapes: int) -> int:
    """Counts the work of lending singly to single tasks behind gangs of so many sizes, half of which might fit."""
    world = Sharing(cpu(2000))
    world.define("/b", reservation=cpu(1000))
    world.place(*world.submit("firm", "/b", need=cpu(1000), preemptible=False))
    world.define("/p", limit=cpu(100))
    world.busy = True
    for number in range(shapes):
        members = 201 + number if number % 2 else 1001 + number
        world.submit(f"gang{number}", "/p", instances=members, gang_min=members)
    world.submit("single", "/p", instances=101)
    return asked(world)


def test_lending_costs_what_there_are_shapes_not_more() -> None:
    assert lend_behind(160) < 4.5 * lend_behind(40) + 100


def look_under_limits(pools: int) -> int:
    """Counts the work of a wakeup while a limit holds up each of so many pools."""
    world = crowd(pools, limit=cpu(3000))
    world.machine.next_wakeup()
    return lines(world.machine.next_wakeup)


def test_a_wakeup_costs_the_same_where_limits_hold_up_four_times_as_many_pools() -> None:
    assert look_under_limits(80) < 1.5 * look_under_limits(20) + 100


def test_a_long_queue_is_held_in_short_pieces_so_that_leaving_it_moves_few() -> None:
    state = State()
    state.pools.put("/p", root_row())
    queues = state.queues
    for number in range(5000):
        queues.add(JobAccepted(job_id=f"j{number}", jobs_offset=0, pool="/p", kind="batch", instances=1, **shaped({})))
    queues.update(np.arange(5000), queued=1)
    queues.update(np.array([2500]), queued=0)
    (waiting,) = state.order["/p"].waiting.values()
    assert len(waiting) == 4999
    assert max(map(len, waiting._lists)) <= 2000


def end_disruption(jobs: int) -> int:
    """Lets a disruption wait in each of so many jobs, then counts the work of an end in one of them."""
    world = Sla()
    for number in range(jobs):
        world.busy = True
        world.service(f"j{number}", 2, 0)
        world.ask((f"j{number}", 0, 1))
    world.busy = False
    world.quiet()
    world.busy = True

    def end() -> None:
        world.down((f"j{jobs // 2}", 0, 1))
        world.machine.decide(world.now, True, 1000)

    return lines(end)


def test_an_end_costs_the_same_where_ten_times_as_many_jobs_have_disruptions_that_wait() -> None:
    assert end_disruption(200) < 1.5 * end_disruption(20) + 100


def cell_of_hosts(hosts: int) -> Lifecycle:
    """Lifecycle with so many hosts of 10 runs each."""
    world = Lifecycle()
    world.submit("j", instances=10 * hosts)
    for number in range(hosts):
        world.busy = True
        world.place(*(("j", at, 1) for at in range(number, 10 * hosts, hosts)), host=f"h{number}")
    world.busy = False
    world.quiet()
    return world


def values(world: Lifecycle, work: Callable[[], object]) -> int:
    """How many values of the columns a piece of work goes through; the index of hosts has been looked at before."""
    world.busy = True
    world.machine.tasks.by_host.of(np.array([0]))
    world.restart_copies()
    arena = world.machine.tasks.arena
    arena._matrix = arena._matrix.view(Counted)
    Counted.seen = 0
    work()
    arena._matrix = np.asarray(arena._matrix)
    return Counted.seen


@pytest.mark.parametrize("what", ["lost", "inventory"])
def test_a_host_that_is_lost_or_lists_its_runs_costs_the_same_among_ten_times_as_many(what: str) -> None:
    def cost(hosts: int) -> int:
        world = cell_of_hosts(hosts)
        lost = HostLost(host_id="h3", session=1, code=Code.SILENT, silent_ms=1)
        some = [("j", 3 + hosts * at, 1) for at in range(5)]
        works: dict[str, Callable[[], object]] = {
            "lost": lambda: world.peer("placement", lost),
            "inventory": lambda: world.inventory(2, *some, host="h3"),
        }
        return values(world, works[what])

    assert 0 < cost(80) <= cost(8)


def test_the_end_of_an_order_costs_the_same_among_ten_times_as_many_tasks() -> None:
    def cost(hosts: int) -> int:
        world = cell_of_hosts(hosts)
        runs = [("j", 3 + hosts * at, 1) for at in range(5)]
        return values(world, lambda: (world.preempt(*runs), world.machine.decide(world.now, True, 1000)))

    assert 0 < cost(80) <= cost(8)


def test_what_a_gateway_says_to_a_host_that_connects_costs_the_same_among_ten_times_as_many() -> None:
    def cost(hosts: int) -> int:
        wanted = DesiredRuns()
        runs = [("j", at, 1) for at in range(10 * hosts)]
        wanted.asked(0, JobSubmitted(job_id="j", pool="/p", instances=len(runs)))
        shapes = (TaskShape({}),)
        wanted.take(JobAccepted(job_id="j", jobs_offset=0, pool="/p", kind="batch", instances=len(runs), shapes=shapes))
        wanted.take(ordered(runs, [f"h{at % hosts}" for at in range(len(runs))]))
        number = wanted.host("h3")
        assert wanted.runs(number) == 10
        columns = wanted._slots._columns
        columns.update({name: column.view(Counted) for name, column in columns.items()})
        Counted.seen = 0
        [piece] = wanted.all_orders([number])
        assert len(piece.instance) == wanted.runs(number) == 10
        return Counted.seen

    assert 0 < cost(200) <= cost(20)
