"""Promises about runs on hosts that offer less than these hold, broken in rounds that nobody but this test wrote."""

import pytest
from msgspec.structs import replace

from events.codes import Way
from events.records.entitlement import PreemptionRefused
from events.records.hosts import HostOffered
from events.records.placement import PreemptionAsked
from paceline.simulate.checker.devices import Devices
from paceline.simulate.checker.history import Violation
from paceline.simulate.checker.shrunk import Shrunk
from tests.paceline.simulate.checker.checked import A, World, asked, job

GONE = PreemptionRefused(
    job_id="", first=0, count=0, run=0, code="VICTIM_GONE", victim_job_id="victim", victim_instance=3, victim_run=1
)


def to_leave(*victims: int) -> PreemptionAsked:
    return replace(asked(*victims, way=Way.SHRUNK), job_id="", count=0, run=0)


def shrunken() -> tuple[World, Shrunk]:
    """A host whose four tasks of a core each are two more than it offers now, and two of them are asked to leave."""
    world = World(A)
    world.entitled(a=4000)
    world.runs(job("victim", "/a"), 4)
    world.placement([HostOffered(host_id="h", session=1, capacity={"cpu": 2000})])
    fold = Shrunk(world.hosts, world.pools.units, Devices())
    fold.round(world.round([], [to_leave(2, 3)]))
    return world, fold


def test_nobody_is_asked_again_before_there_is_an_answer() -> None:
    world, fold = shrunken()
    with pytest.raises(Violation, match="which holds the rest of its runs"):
        fold.round(world.round([], [to_leave(2, 1)]))


def test_where_one_victim_is_refused_the_others_are_asked_again() -> None:
    world, fold = shrunken()
    fold.round(world.round([GONE], [to_leave(2, 1)]))
    with pytest.raises(Violation, match="which holds the rest of its runs"):
        fold.round(world.round([], [to_leave(2, 0)]))
