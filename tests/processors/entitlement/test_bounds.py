"""A bound that is only a class and its place in `BOUNDS` is obeyed by whoever admits, lends or plans."""

import pytest

from events.codes import Code
from events.resources import Vector
from events.work_classes import CONTROLLERS, DAEMONS, FIRM, POOLED, SERVICES
from processors.entitlement.bounds import (
    BOUNDLESS,
    BOUNDS,
    CLOSED,
    CONTROLLERS_SHARE,
    ENTITLEMENT,
    HOST_POOLS,
    HOSTS,
    KINDS_REACH,
    LIMIT,
    LIMIT_ABOVE,
    LIMITS,
    OWN,
    RESERVATION,
    Ask,
    Bound,
    Bounds,
    Usage,
)
from tests.processors.entitlement.harness import World, borrowed, cpu, ranked, waits


class TwoCores(Bound):
    """A pool `/p` holds at most 2 cores, whatever it may use else."""

    code = Code.CONTROLLER_LIMIT_REACHED
    levels = OWN

    def allows(self, usage: Usage, level: str) -> Vector:
        rest = len(usage.allocation(level)) - 1
        return (2 if level == "/p" else BOUNDLESS, *[BOUNDLESS] * rest)

    def held(self, usage: Usage, level: str, ask: Ask) -> Vector:
        return usage.allocation(level)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    every = (CLOSED, HOSTS, RESERVATION, TwoCores(), LIMIT, CONTROLLERS_SHARE, ENTITLEMENT, LIMIT_ABOVE)
    for name, value in vars(Bounds(every)).items():
        monkeypatch.setattr(BOUNDS, name, value)


@pytest.mark.usefixtures("planted")
def test_a_new_bound_is_obeyed_by_admission() -> None:
    world = World(cpu(40))
    world.define("/p")
    world.define("/q")
    assert world.submit("one", instances=10) == [("one", 0, 1), ("one", 1, 1)]
    assert waits(world.said) == [("one", Code.CONTROLLER_LIMIT_REACHED)]
    assert world.submit("elsewhere", "/q", instances=10) != []
    assert world.end(("one", 0, 1)) == [("one", 2, 1)], "what it leaves is admitted"


@pytest.mark.usefixtures("planted")
def test_a_new_bound_holds_for_work_that_is_not_preemptible_and_for_daemons() -> None:
    world = World(cpu(40))
    world.define("/p", reservation=cpu(20))
    assert len(world.submit("firm", instances=10, preemptible=False)) == 2
    assert world.submit("daemon", kind="daemon", instances=1) == []


@pytest.mark.usefixtures("planted")
def test_a_new_bound_is_obeyed_by_lending_and_once_borrowed_work_has_its_turn() -> None:
    world = World(cpu(10))
    world.define("/p", share=cpu(1))
    world.define("/q", share=cpu(1000))
    world.submit("filler", "/q", need=cpu(6))
    world.submit("big", "/q", need=cpu(5))
    world.submit("lent", instances=10)
    assert borrowed(world.said) == [("lent", 0, 1), ("lent", 1, 1)], "four cores stand idle"
    world.end(("filler", 0, 1))
    assert ranked(world.said, 1) == [("lent", 0, 1), ("lent", 1, 1)], "what it holds counts once"
    assert world.holds("/p") == 2


def test_each_bound_says_for_whom_it_holds() -> None:
    assert BOUNDS.rights[0] == (ENTITLEMENT,)
    assert BOUNDS.beside_limits[0] == (ENTITLEMENT,)
    assert BOUNDS.rights[FIRM | CONTROLLERS] == (RESERVATION, CONTROLLERS_SHARE, ENTITLEMENT)
    assert BOUNDS.rights[DAEMONS] == BOUNDS.loans[DAEMONS] == BOUNDS.loans[FIRM] == ()
    assert BOUNDS.limits == ((LIMITS,),) * len(BOUNDS.limits)
    assert BOUNDS.loans[0] == (LIMITS,)
    assert set(BOUNDS.loans[CONTROLLERS]) == {LIMITS, CONTROLLERS_SHARE}
    assert BOUNDS.rights[POOLED] == (ENTITLEMENT, KINDS_REACH), "only where there are host pools"
    assert BOUNDS.loans[POOLED | SERVICES] == (LIMITS, HOST_POOLS)
    assert BOUNDS.fixed[FIRM] == (LIMITS, RESERVATION), "of two that refuse the limit is told"
