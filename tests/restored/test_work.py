"""What a fact or an end costs follows what it changes, not what there is. Lines of Python run are counted, not time."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from events.codes import Code
from events.records.entitlement import PoolAnswered
from events.records.lifecycle import JobAccepted
from events.records.parts import Amounts
from events.records.pools import PoolDefined
from processors.entitlement.machine import Entitlement
from processors.entitlement.queues import Queues
from processors.machine import Decided, Fact
from tests.sla.harness import World as Sla


def lines(work: Callable[[], object]) -> int:
    """How many lines of Python a piece of work runs."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def define_pools(count: int, cell: int) -> int:
    """Defines so many pools, then counts the work of one more; the shares over all pools are not in it."""
    machine = Entitlement()
    offset = 0

    def define(path: str) -> None:
        nonlocal offset
        defined = PoolDefined(path=path, command_id=path, reservation=Amounts(1, 0, 0, 0), cell=cell)
        machine.apply(Fact("paceline.pools", offset, 1, defined, b""))
        [answered] = machine.decide(1, True, 10)
        assert isinstance(answered, PoolAnswered)
        assert answered.code == Code.DONE
        machine.apply(Decided(1, answered))
        offset += 1

    for number in range(count):
        define(f"/p{number}")
    return lines(lambda: define("/q"))


@pytest.mark.parametrize("cell", [0, 1])
def test_defining_a_pool_costs_the_same_among_ten_times_as_many(cell: int) -> None:
    assert define_pools(900, cell) < 1.5 * define_pools(90, cell) + 100


def test_a_long_queue_is_held_in_short_pieces_so_that_leaving_it_moves_few() -> None:
    queues = Queues()
    for number in range(5000):
        accepted = JobAccepted(
            job_id=f"j{number}", jobs_offset=0, pool="/p", kind="batch", instances=1, need=Amounts(1, 0, 0, 0)
        )
        queues.add(accepted)
        queues.count(accepted.job_id, 1, 0)
    queues.count("j2500", -1, 0)
    assert len(queues.order["/p"]) == 4999
    assert max(map(len, queues.order["/p"]._lists)) <= 2000


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
