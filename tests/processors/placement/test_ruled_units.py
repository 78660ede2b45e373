"""Gangs of two shapes with rules are placed if there is any way, as a plain look at all says; rules are of a shape."""

import random
from collections import Counter

from events.records.parts import Constraint, PlacementRules, TaskAffinity, TaskShape
from events.records.placement import TasksPlaced
from tests.helpers.drawn import seeds
from tests.helpers.machines import mixed, one
from tests.processors.placement.harness import World, hosts_of, places

OWN = {
    "host_limit": PlacementRules(host_limit=2),
    "within": PlacementRules(within="rack"),
    "apart": PlacementRules(affinity=(TaskAffinity("app", "a", "host", True),)),
    "beside": PlacementRules(affinity=(TaskAffinity("app", "a", "rack", False),)),
    "skew": PlacementRules(spread_over="rack", skew=1),
}


def may_go(rule: str, host: int, racks: list[int], able: set[int], chosen: list[int]) -> bool:
    """Whether the rule lets a task go to a host when others of its gang are on those chosen. `able`: the racks in which
    a host could hold such a task.
    """
    if rule in ("within", "beside"):
        return all(racks[other] == racks[host] for other in chosen)
    if rule == "skew":
        counts = Counter(racks[other] for other in chosen)
        return counts[racks[host]] + 1 - min(counts[rack] for rack in able) <= 1
    return chosen.count(host) < (2 if rule == "host_limit" else 1)


def fits(rule: str, cpus: list[int], racks: list[int], needs: list[int], chosen: list[int]) -> bool:
    if len(chosen) == len(needs):
        return True
    need = needs[len(chosen)]
    able = {rack for rack, cpu in zip(racks, cpus, strict=True) if cpu >= need}
    for host, cpu in enumerate(cpus):
        used = sum(one for one, there in zip(needs, chosen, strict=False) if there == host)
        fits_here = used + need <= cpu and may_go(rule, host, racks, able, chosen)
        if fits_here and fits(rule, cpus, racks, needs, [*chosen, host]):
            return True
    return False


@seeds(3_000, suite=150)
def test_it_is_placed_if_there_is_any_way(seed: int) -> None:
    draw = random.Random(seed)
    rule = draw.choice([*OWN])
    racks = [draw.randint(0, 1) for _ in range(4)]
    few, many = draw.randint(1, 2), draw.randint(1, 3)
    large, small = draw.sample(range(2, 6), 2) if rule != "skew" else (4, 3)
    needs = sorted([large] * few + [small] * many, reverse=True)
    cpus = [draw.randint(small, large + 6) for _ in racks]
    cell = World()
    for number, (rack, cpu) in enumerate(zip(racks, cpus, strict=True)):
        cell.host(f"h{number}", cpu=cpu, attributes={"rack": f"r{rack}"})
    parts = [(count, TaskShape({"cpu": need}, rules=OWN[rule])) for count, need in ((few, large), (many, small))]
    said = cell.run("gang", gang_min=few + many, labels={"app": "a"}, **mixed(*parts))
    assert len(places(said)) == (few + many if fits(rule, cpus, racks, needs, []) else 0)


def test_a_rule_of_one_shape_of_a_job_keeps_nobody_from_where_the_same_decision_puts_another() -> None:
    world = World()
    for at in ("0", "1"):
        world.host(f"h{at}", cpu=2000, attributes={"at": at})
    world.run("before", 2, shapes=(TaskShape({"cpu": 2000}),))
    apart = PlacementRules(affinity=(TaskAffinity("app", "b", "host", True),))
    first, second = (
        TaskShape({"cpu": 1000}, 0, (Constraint("at", "in", (at,)),), rules=rules)
        for at, rules in (("0", apart), ("1", None))
    )
    world.run("shuns", **mixed((1, first), (1, second)))
    world.run("shunned", shapes=(TaskShape({"cpu": 1000}),), labels={"app": "b"})
    said = one(world.end(("before", 0, 1), ("before", 1, 1)), TasksPlaced)
    assert hosts_of([said]) == {("shuns", 0, 1): "h0", ("shuns", 1, 1): "h1", ("shunned", 0, 1): "h1"}
