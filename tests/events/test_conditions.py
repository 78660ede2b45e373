"""Conditions on attributes: a table of what each operator says of each value, and what can't be asked."""

import pytest

from events.conditions import (
    MEETS,
    OPERATORS,
    condition_fault,
    conditions_fault,
    exclusive_names,
    first_unmet,
    meets,
    text_of,
    version_of,
)
from events.records.parts import Constraint
from paceline.simulate.checker.asked import _holds

TABLE = {
    ("in", ("a", "b")): {"a": True, "c": False, "": False, None: False},
    ("not_in", ("a", "b")): {"a": False, "c": True, "": True, None: True},
    ("exists", ()): {"a": True, "": True, None: False},
    ("absent", ()): {"a": False, "": False, None: True},
    ("greater", ("16",)): {"17": True, "16": False, "16.5": True, "-20": False, "x": False, "1e9": False, None: False},
    ("less", ("-1.5",)): {"-2": True, "-1.5": False, "0": False, "+1": False, "": False, None: False},
    ("greater", ("9007199254740993",)): {
        "9007199254740994": True,
        "9007199254740993": False,
        "9007199254740992": False,
    },
    ("version", (">=1.20", "<2")): {
        "1.20": True,
        "1.9": False,
        "v1.20.3": True,
        "2": False,
        "2.0-rc.1": True,
        "x": False,
    },
    ("version", ("1.2",)): {"1.2.0": True, "1.2+b7": True, "1.2.0.1": False, "1.2-rc": False, None: False},
    ("version", (">1.0-rc.2",)): {"1.0-rc.10": True, "1.0-rc.2": False, "1.0-beta": False, "1.0": True},
    ("version", ("!=3",)): {"3.0": False, "3.1": True, "three": False, None: False},
    ("glob", ("nvme-*", "ss?")): {"nvme-1": True, "nvme": False, "ssd": True, "SSD": False, "ssdx": False, None: False},
    ("glob", ("[ab]*",)): {"a1": True, "c1": False, "": False},
    ("later", ("a",)): {"a": False, None: False},
}


@pytest.mark.parametrize(
    ("operator", "values", "value", "expected"),
    [(*asked, value, answer) for asked, row in TABLE.items() for value, answer in row.items()],
)
def test_the_table_of_operators(operator: str, values: tuple[str, ...], value: str | None, expected: bool) -> None:
    assert meets(Constraint("x", operator, values), value) is expected


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_host_without_the_attribute_meets_two_operators_alone(operator: str) -> None:
    values = {"exists": (), "absent": (), "version": (">=1",)}.get(operator, ("1",))
    one = Constraint("x", operator, values)
    expected = operator in ("not_in", "absent")
    assert meets(one, None) is expected
    assert (first_unmet([one], {"other": "1"}) == MEETS) is expected
    assert first_unmet([Constraint("x", operator, values, weight=1)], {}) == MEETS


@pytest.mark.parametrize("asked", TABLE)
def test_the_checker_says_the_same_by_its_own_code(asked: tuple[str, tuple[str, ...]]) -> None:
    for value, expected in TABLE[asked].items():
        attributes = {} if value is None else {"x": value}
        assert _holds([Constraint("x", *asked)], attributes) is expected, value


ANY_OF_TWO = (
    Constraint("", "any", (), parts=2),
    Constraint("rack", "in", ("r1",)),
    Constraint("", "all", (), parts=2),
    Constraint("disk", "in", ("ssd",)),
    Constraint("zone", "absent"),
)


@pytest.mark.parametrize(
    ("attributes", "met"),
    [
        ({"rack": "r1"}, True),
        ({"rack": "r2", "disk": "ssd"}, True),
        ({"disk": "ssd", "zone": "z"}, False),
        ({"disk": "hdd"}, False),
        ({}, False),
    ],
)
def test_any_and_all_combine(attributes: dict[str, str], met: bool) -> None:
    assert (first_unmet((*ANY_OF_TWO, Constraint("x", "absent")), attributes) == MEETS) is met
    assert text_of(ANY_OF_TWO, 0) == "(rack r1 or (disk ssd and no zone))"


def test_a_preference_need_not_be_met_and_the_next_condition_is_looked_at() -> None:
    wished = Constraint("rack", "in", ("r1",), weight=5)
    assert first_unmet((wished, Constraint("disk", "exists")), {"disk": "ssd"}) == MEETS
    assert first_unmet((wished, Constraint("disk", "exists")), {}) == 1


@pytest.mark.parametrize(
    ("conditions", "fault"),
    [
        ((Constraint("", "in", ("a",)),), "characters"),
        ((Constraint("x", "in"),), "needs values"),
        ((Constraint("x", "greater", ("a",)),), "needs one number"),
        ((Constraint("x", "less", ("1", "2")),), "needs one number"),
        ((Constraint("x", "version", ("~>1",)),), "must be a comparison"),
        ((Constraint("x", "near", ("a",)),), "must be one of"),
        ((Constraint("", "any", (), parts=0),), "takes parts alone"),
        ((Constraint("", "any", (), parts=2), Constraint("x", "exists")), "more parts than there are"),
        ((Constraint("x", "exists", parts=1), Constraint("y", "exists")), "for any and all"),
        ((Constraint("x", "exists", weight=40), Constraint("y", "exists", weight=40)), "80 in sum"),
        ((Constraint("", "all", (), parts=1), Constraint("x", "exists", weight=1)), "no weight of its own"),
        ((Constraint("x", "exists"),) * 65, "at most 64"),
    ],
)
def test_what_cannot_be_asked_is_named(conditions: tuple[Constraint, ...], fault: str) -> None:
    assert fault in conditions_fault(conditions)


def test_what_can_be_asked_has_no_fault() -> None:
    assert conditions_fault(ANY_OF_TWO) == ""
    assert condition_fault(Constraint("x", "version", (">= 1.2-rc.1",))) == ""
    assert version_of("not one") is None


def test_a_host_is_named_by_in_alone() -> None:
    named = Constraint("exclusive", "in", ("ml", "bio"))
    other = Constraint("exclusive", "glob", ("*",)), Constraint("exclusive", "in", ("x",), weight=1)
    assert exclusive_names((named, *other)) == {"ml", "bio"}
