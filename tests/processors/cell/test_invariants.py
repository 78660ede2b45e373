"""A machine that has miscounted stops at the record that shows it, instead of deciding by wrong numbers."""

import pytest

from events.codes import RunReport
from tests.processors.entitlement.harness import World as Entitlement
from tests.processors.lifecycle.harness import World as Lifecycle


def test_entitlement_stops_where_more_of_a_part_would_be_admitted_than_waits() -> None:
    world = Entitlement({"cpu": 4})
    world.define("/p")
    world.submit("j", pool="/p", instances=2)
    part = next(iter(world.machine.queues.jobs["j"].parts.values()))
    part.entitled -= 1  # a bug forgets one that is admitted
    with pytest.raises(AssertionError):
        world.place(("j", 0, 1))
        world.end(("j", 0, 1))
        world.end(("j", 1, 1))


def test_lifecycle_stops_where_a_state_would_have_fewer_tasks_than_none() -> None:
    world = Lifecycle()
    world.submit("j", pool="/p", instances=2)
    world.quiet()
    row = world.machine.jobs["j"]
    row.counts = [0] * len(row.counts)  # a bug forgets the tasks that wait
    with pytest.raises(AssertionError):
        world.place(("j", 0, 1))
        world.report(RunReport.STARTED, ("j", 0, 1))
