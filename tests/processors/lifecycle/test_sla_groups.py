"""Budgets that jobs share are set, changed and removed."""

from typing import Any

import pytest

from events.codes import Code
from events.records.jobs import SlaGroupDefined
from events.records.lifecycle import CommandAnswered, SlaGroupSet
from tests.helpers.machines import of, one
from tests.processors.lifecycle.harness import World


def define(world: World, group: str = "shop", **fields: Any) -> tuple[CommandAnswered, list[SlaGroupSet]]:
    said = world.fact("paceline.jobs", SlaGroupDefined(group=group, command_id=world.command_id(), **fields))
    answer = one(said, CommandAnswered)
    assert answer.job_id == f"sla-group:{group}"
    return answer, of(said, SlaGroupSet)


def test_a_group_is_set_changed_and_removed() -> None:
    world = World()
    answer, said = define(world, max_unavailable=2)
    assert (answer.code, answer.message) == (Code.DONE, "SLA group shop: max_unavailable 2")
    assert [(each.group, each.max_unavailable, each.removed) for each in said] == [("shop", 2, False)]
    answer, said = define(world, min_available_percent=90)
    assert (answer.code, answer.message) == (Code.DONE, "SLA group shop: min_available 90%")
    assert [(each.max_unavailable, each.min_available_percent) for each in said] == [(None, 90)]
    answer, said = define(world, min_available_percent=90)
    assert (answer.code, said) == (Code.REPEATED, [])
    answer, said = define(world, remove=True)
    assert (answer.code, said[0].removed) == (Code.DONE, True)
    assert len(world.machine.sla_groups.table) == 0
    answer, said = define(world, remove=True)
    assert (answer.code, answer.message, said) == (Code.NOT_FOUND, "there is no SLA group shop", [])


def test_a_group_and_a_job_of_one_name_have_nothing_in_common() -> None:
    world = World()
    world.submit("shop")
    answer, _ = define(world, max_unavailable=0)
    assert answer.code == Code.DONE
    assert world.machine.jobs["shop"].commands == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "a group has max_unavailable or min_available, or both"),
        ({"max_unavailable": -1}, "max_unavailable is -1"),
        ({"max_unavailable_percent": 101}, "max_unavailable_percent is 101, it must be 0 to 100"),
        ({"min_available": 1, "min_available_percent": 1}, "a bound is a number or a percentage, not both"),
        ({"max_unavailable": 1, "group": "A b"}, "the name 'A b' must be 1 to 128"),
    ],
)
def test_a_group_that_makes_no_sense_is_refused(fields: dict[str, Any], why: str) -> None:
    answer, said = define(World(), **fields)
    assert (answer.code, said) == (Code.INVALID_SPEC, [])
    assert answer.message.startswith(why)
