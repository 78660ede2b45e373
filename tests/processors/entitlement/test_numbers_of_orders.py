"""Orders are judged by entitlements as they were last said."""

from events.codes import Way
from events.columns import longs, pack_ints
from events.records.entitlement import EntitlementsSet, PreemptionsOrdered, RightsSet
from events.records.placement import CapacityChanged, PreemptionAsked
from tests.helpers.machines import columns, of
from tests.processors.entitlement.harness import World, cpu

MINUTE = 60_000


def test_what_pools_may_use_is_said_before_an_order_where_it_has_just_changed() -> None:
    """Half of a cell is lost, and who asks doesn't know yet."""
    world = World(cpu(16))
    for pool in ("/a", "/b", "/c"):
        world.define(pool)
    world.place(*world.submit("old", "/a", 16))
    world.submit("other", "/c", 4)
    assert world.submit("new", "/b", 4)
    assert of(world.later(3 * MINUTE), RightsSet)
    fields = columns([("old", 0, 1)])
    fields["victim_run"] = fields.pop("run")
    unit = {"job_id": "new", "first": 0, "count": 1, "run": 1, "host_ids": ("h",), "tasks": pack_ints([1])}
    ask = PreemptionAsked(**unit, **fields, way=pack_ints([Way.GIVE]))
    said = world.peer("placement", CapacityChanged(capacity=cpu(6), hosts=1, version=9), ask)
    (order,) = of(said, PreemptionsOrdered)
    before = of(said[: said.index(order)], EntitlementsSet)[-1]
    assert (before.pools, before.partial) == (("/a", "/b"), True)
    width = len(before.resources)
    assert longs(before.entitlement).tolist()[::width] == [world.entitled(pool)[0] for pool in before.pools] == [2, 2]
    later = of([*said[said.index(order) :], *world.later(MINUTE)], EntitlementsSet)
    assert {"/", "/c"} <= {pool for event in later for pool in event.pools}, "of the others when it is due"
