"""Worked cases of an earlier scheduler (tests/processors/cases/placement.json), as far as they speak of what we have.

Left out, for we have no such thing: groups of a round (`grouping`), task labels and counts in constraints
(`mimir_requirement`, `label_pattern_match`, `comparison`, or-constraints), scarce kinds as a rule of their own (ours
keeps GPUs free by packing), slack.
"""

import json
from typing import Any

import pytest

from events.records.parts import Constraint
from events.records.placement import GangsUnplaced
from tests.helpers import WORKED
from tests.helpers.machines import of
from tests.processors.placement.harness import World, hosts_of

CASES = {case["case_id"]: case for case in json.loads((WORKED / "placement.json").read_text())}


def of_kind(*kinds: str) -> list[str]:
    return [name for name, case in CASES.items() if case["kind"] in kinds]


def host(world: World, name: str, resources: dict[str, Any], ports: int, **offer: Any) -> None:
    cpu, gpu = int(resources["cpu"] * 1000), int(resources["gpu"] * 1000)
    memory = int(resources.get("memory_mb", resources.get("memory", 0)))
    first, last = 31_000, 31_000 + max(ports, 1) - 1
    world.host(name, cpu=cpu, memory=memory, gpu=gpu, port_first=first, port_last=last, **offer)


def need(task: dict[str, Any], ports: int) -> dict[str, int]:
    memory = int(task.get("memory_mb", task.get("memory", 0)))
    return {"cpu": int(task["cpu"] * 1000), "memory": memory, "gpu": int(task["gpu"] * 1000), "ports": ports}


@pytest.mark.parametrize("name", of_kind("strategy_batch", "strategy_mimir"))
def test_strategies(name: str) -> None:
    case = CASES[name]
    world = World()
    for one in case["hosts"]:
        host(world, one["host"], one, one["ports_free"])
    task = case["tasks"][0]
    strategy = "pack" if case["kind"] == "strategy_batch" else "spread"
    said = world.run("j", len(case["tasks"]), strategy=strategy, **need(task["resources"], task["ports"]))
    expected = {int(at): where for at, where in case["expected_assignment"].items() if where}
    assert {instance: where for (_, instance, _), where in hosts_of(said).items()} == expected


@pytest.mark.parametrize("name", [name for name in of_kind("host_filter") if not CASES[name]["scarce_resource_types"]])
def test_host_filter(name: str) -> None:
    case = CASES[name]
    world = World()
    host(world, "h", case["offered"], case["offered_ports"])
    said = world.run("j", **need(case["required"], case["required_ports"]))
    assert bool(hosts_of(said)) == (case["expected"] == "MATCH")
    assert bool(of(said, GangsUnplaced)) != bool(hosts_of(said))


@pytest.mark.parametrize("name", ["host_match_not_enough_memory", "host_match_unknown_scarce_type_ignored"])
def test_host_filter_with_scarce_kinds(name: str) -> None:
    """A scarce kind decides in neither: memory lacks, or the kind is unknown."""
    case = CASES[name]
    world = World()
    host(world, "h", case["offered"], case["offered_ports"])
    assert bool(hosts_of(world.run("j", **need(case["required"], 0)))) == (case["expected"] == "MATCH")


OPERATORS = {("EQUAL", 1): "in", ("GREATER_THAN", 0): "in", ("LESS_THAN", 1): "not_in"}
"""How often a host may have a label, in our words."""


@pytest.mark.parametrize("name", ["and_match", "and_mismatch"])
def test_constraints(name: str) -> None:
    case = CASES[name]
    attributes = {label: next(iter(counts)) for label, counts in case["host_label_counts"].items()}
    rules = []
    for one in case["constraint"]["constraints"]:
        ((attribute, value),) = one["label"].items()
        rules.append(Constraint(attribute, OPERATORS[one["condition"], one["requirement"]], (value,)))
    world = World()
    world.host("h", attributes=attributes)
    assert bool(hosts_of(world.run("j", constraints=tuple(rules)))) == (case["expected"] == "MATCH")
