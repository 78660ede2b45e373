"""Worked cases of an earlier scheduler (tests/processors/cases/placement.json), as far as they speak of what we have.

Left out, for we have no such thing: groups of a round (`grouping`), patterns in the labels that are matched
(`label_pattern_match`), labels of hosts that are counted (`label_values`). Hosts with scarce kinds come last here,
whatever a setting says, and aren't closed.
"""

import json
from typing import Any

import pytest

from events.conditions import conditions_fault, meets
from events.records.parts import Constraint, PlacementRules, TaskAffinity, TaskShape
from events.records.placement import GangsUnplaced
from tests.helpers import WORKED
from tests.helpers.machines import of
from tests.processors.placement.harness import World, amounts, hosts_of

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


@pytest.mark.parametrize("name", ["and_match", "and_mismatch", "or_match"])
def test_constraints(name: str) -> None:
    case = CASES[name]
    attributes = {label: next(iter(counts)) for label, counts in case["host_label_counts"].items()}
    rules = []
    for one in case["constraint"]["constraints"]:
        ((attribute, value),) = one["label"].items()
        rules.append(Constraint(attribute, OPERATORS[one["condition"], one["requirement"]], (value,)))
    combined = {"AND": "all", "OR": "any"}[case["constraint"]["type"]]
    rules.insert(0, Constraint("", combined, (), parts=len(rules)))
    world = World()
    world.host("h", attributes=attributes)
    assert bool(hosts_of(world.run("j", constraints=tuple(rules)))) == (case["expected"] == "MATCH")


@pytest.mark.parametrize("constraint", [Constraint("", "any"), Constraint("rack", "unknown(-1)", ("r",))])
def test_what_has_no_parts_or_no_known_type_is_refused(constraint: Constraint) -> None:
    """`or_not_applicable` and `unknown_constraint_type`: neither applies there, and tells nobody."""
    assert conditions_fault([constraint])


COMPARED = {"greater_than_equal": ">=", "less_than_equal": "<=", "invalid": "~"}


@pytest.mark.parametrize("name", of_kind("comparison"))
def test_comparisons(name: str) -> None:
    case = CASES[name]
    one = Constraint("x", "version", (f"{COMPARED[case['operator']]}{case['right']}",))
    assert bool(conditions_fault([one])) == case.get("expected_error", False)
    assert meets(one, str(case["left"])) == case.get("expected", False)


@pytest.mark.parametrize("name", of_kind("mimir_requirement"))
def test_requirements(name: str) -> None:
    """No more than 0 hosts with a label, or tasks: an attribute that must be absent, or labels that are kept apart."""
    case = CASES[name]
    requirement, world = case["requirement"], World()
    key, _, value = requirement["pattern"].rpartition(".")
    for number, group in enumerate([case["group"], *case["scope_groups"]]):
        attributes = {"hostname": f"h{number}"} | dict(label.split(".", 1) for label in group["labels"])
        world.host(f"h{number}", attributes=attributes)
        for relation in group["relations"]:
            label, _, of_label = relation.rpartition(".")
            here = (Constraint("hostname", "in", (f"h{number}",)),)
            world.run(f"there{number}", constraints=here, labels={label: of_label})
    only = Constraint("hostname", "in", ("h0",))
    if requirement["kind"] == "label":
        said = world.run("j", constraints=(only, Constraint(key, "absent")))
    else:
        scope = requirement["scope"].rstrip(".*") if requirement["scope"] else "host"
        rules = PlacementRules(affinity=(TaskAffinity(key, value, scope, apart=True),))
        shape = TaskShape(amounts(cpu=1000), 0, (only,), rules=rules)
        said = world.run("j", shapes=(shape,))
    assert bool(hosts_of(said)) == case["expected"]
