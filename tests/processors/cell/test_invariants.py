"""A machine that has miscounted stops at the record that shows it, instead of deciding by wrong numbers."""

import pytest

from tests.processors.entitlement.harness import World as Entitlement
from tests.processors.lifecycle.harness import World as Lifecycle


def test_entitlement_stops_where_a_part_would_have_fewer_claims_than_none() -> None:
    world = Entitlement({"cpu": 4})
    world.define("/p")
    world.submit("j", pool="/p", instances=2)
    part = next(iter(world.machine.queues.jobs["j"].parts.values()))
    part.claims = 0  # a bug forgets the claims
    with pytest.raises(AssertionError, match="PartKey"):
        world.place(("j", 0, 1))


def test_lifecycle_stops_where_a_state_would_have_fewer_tasks_than_none() -> None:
    world = Lifecycle()
    world.submit("j", pool="/p", instances=2)
    world.quiet()
    row = world.machine.jobs["j"]
    row.counts = [0] * len(row.counts)  # a bug forgets the tasks that wait
    with pytest.raises(AssertionError, match="j"):
        world.place(("j", 0, 1))
