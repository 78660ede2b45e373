"""The machine says the same whether the engine decides or a look at all hosts: rules, fixed ports, gangs of shapes."""

import random
from typing import Any
from unittest.mock import patch

import pytest

from events.records.base import Event
from events.records.parts import Constraint, PlacementRules, SpreadTarget, TaskAffinity, TaskShape
from processors.placement import cluster_view, engine_view, neighbours
from processors.placement.engine.compiled import VECTORS, Kernels, use
from processors.placement.engine.engine import Engine
from tests.helpers.drawn import seeds
from tests.helpers.machines import mixed
from tests.processors.placement.harness import World, ended, places

HOSTS, FAR = 70, 1 << 30


@pytest.fixture(scope="module")
def compiled_kernels() -> Kernels:
    pytest.importorskip("numba")
    from processors.runtime import kernel_cache

    return kernel_cache.load()


def rules(draw: random.Random, label: str) -> PlacementRules | None:
    """Rules of a job, half of them about its own label."""
    if draw.random() < 0.2:
        return None
    own: dict[str, Any] = {}
    if draw.random() < 0.5:
        value = draw.choice((label, draw.choice("abc")))
        own["affinity"] = (TaskAffinity("app", value, draw.choice(("host", "rack")), draw.random() < 0.7),)
    if draw.random() < 0.3:
        own["host_limit"] = draw.randint(1, 3)
    if draw.random() < 0.4:
        own["spread_over"] = draw.choice(("rack", "rack", "host"))
        if draw.random() < 0.5:
            own["skew"] = draw.randint(1, 2)
        else:
            own |= {"targets": (SpreadTarget("r1", 50), SpreadTarget("r2", 0)), "hard": draw.random() < 0.5}
    if draw.random() < 0.2:
        own["within"] = "rack"
    return PlacementRules(exclusive=draw.random() < 0.1, **own)


def shape(draw: random.Random, rules_: PlacementRules | None) -> TaskShape:
    ports = draw.choice(((), (), (8080,), (0, 9090)))
    where = (Constraint("rack", draw.choice(("in", "not_in")), ("r1", "r2")),) if draw.random() < 0.3 else ()
    amounts = {"cpu": draw.randint(1, 4), "disk": draw.choice((0, 3_000_001))}
    return TaskShape(
        amounts, len(ports), where, draw.choice(("pack", "pack", "spread", "balanced", "load-aware")), ports, rules_
    )


def told(seed: int, engine_from: int) -> list[list[Event]]:
    """What the machine says of some jobs, some of which end."""
    draw, cell, said = random.Random(seed), World(), list[list[Event]]()
    with patch.object(engine_view, "ENGINE_FROM", engine_from), patch.object(engine_view, "VECTORS", None):
        for host in range(HOSTS):
            rack = {} if host % 9 == 0 else {"rack": f"r{host % 3}"}
            cell.host(f"h{host:02}", cpu=draw.randint(2, 9), attributes=rack, more={"disk": draw.randint(1, 9) << 20})
        runs: list[tuple[str, int, int]] = []
        for number in range(10):
            label, tasks = draw.choice("abc"), draw.randint(1, 12)
            rules_ = rules(draw, label)
            first = draw.randint(0, tasks - 1)
            parts = [(count, shape(draw, rules_)) for count in (first, tasks - first) if count]
            gang = draw.choice((0, tasks, tasks)) if tasks > 1 else 0
            more = {"labels": {"app": label}} if draw.random() < 0.8 else {}
            said.append(cell.run(f"j{number}", gang_min=gang, **mixed(*parts), **more))
            runs += places(said[-1])
            draw.shuffle(runs)
            if draw.random() < 0.3:
                said.append(cell.peer("lifecycle", ended(runs[:4])))
                del runs[:4]
    return said


@seeds(2_000, suite=6)
def test_it_says_the_same_with_numpy_in_the_loops(seed: int) -> None:
    assert told(seed, 0) == told(seed, FAR)


@seeds(2_000, suite=6)
def test_it_says_the_same_with_compiled_loops(seed: int, compiled_kernels: Kernels) -> None:
    expected = told(seed, FAR)
    try:
        use(compiled_kernels)
        assert told(seed, 0) == expected
    finally:
        use(VECTORS)


def test_the_engine_is_asked_for_rules_fixed_ports_and_gangs_of_several_shapes() -> None:
    """From 2,000 hosts on, by whoever has compiled loops."""
    asked = list[str]()
    place, place_ruled = Engine.place, Engine.place_ruled

    def noted(self: Engine, *args: Any) -> Any:
        asked.append("place")
        return place(self, *args)

    def noted_ruled(self: Engine, *args: Any) -> Any:
        asked.append("ruled")
        return place_ruled(self, *args)

    cell = World()
    for host in range(20):
        cell.host(f"h{host}", cpu=8, attributes={"rack": f"r{host % 2}"})
    plain, port = TaskShape({"cpu": 1}), TaskShape({"cpu": 2}, 1, (), "pack", (8080,))
    with (
        patch.object(engine_view, "ENGINE_FROM", 0),
        patch.object(engine_view, "VECTORS", None),
        patch.object(Engine, "place", noted),
        patch.object(Engine, "place_ruled", noted_ruled),
        patch.object(cluster_view, "places", None),
        patch.object(neighbours, "_by_a_look_at_all", None),
    ):
        cell.run("ports", 2, shapes=(port,))
        cell.run("gang", gang_min=4, **mixed((2, plain), (2, port)))
        assert {*asked} == {"place"}
        apart = PlacementRules(affinity=(TaskAffinity("app", "a", "rack", True),))
        cell.run("apart", 2, labels={"app": "a"}, shapes=(TaskShape({"cpu": 1}, rules=apart),))
        assert {*asked} == {"place", "ruled"}


def test_no_decision_waits_for_a_compiler(compiled_kernels: Kernels) -> None:
    """What is compiled before is all that is called: no function gets another signature."""

    def compiled() -> dict[str, list[Any]]:
        functions = vars(compiled_kernels.place)["py_func"].__globals__
        return {name: one.signatures for name, one in functions.items() if hasattr(one, "signatures")}

    before = compiled()
    assert all(before[name] for name in Kernels._fields)
    try:
        use(compiled_kernels)
        for seed in range(3):
            told(seed, 0)
    finally:
        use(VECTORS)
    assert compiled() == before
