"""Conditions on the attributes of hosts: what each operator means, and how conditions are combined (decision 077).

Conditions stand in a list, parents before their parts: `any` and `all` have so many `parts` behind them, each with its
own. What is no part of another must be met; where it has a weight, it is a preference.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fnmatch import translate
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from events.bounds import CONSTRAINTS_MAX, VALUES_MAX, WORD_MAX

OPERATORS = ("in", "not_in", "exists", "absent", "greater", "less", "version", "glob")
COMBINED = ("any", "all")
WITHOUT_VALUES = ("exists", "absent")
WEIGHTS_MAX = 62
"""The weights of a job in sum: what it prefers stays before hosts with devices that it doesn't ask for."""
DEPTH_MAX = 8
MEETS = -1
EXCLUSIVE = "exclusive"
"""A host with this attribute takes only tasks that name its value, by `in`."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?")
_COMPARISON = re.compile(r"(>=|<=|>|<|!=|=)? *(v?[0-9].*)")
_VERSION = re.compile(r"v?([0-9]{1,18}(?:\.[0-9]{1,18}){0,7})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    ">=": lambda one, other: one >= other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    "<": lambda one, other: one < other,
    "!=": lambda one, other: one != other,
    "=": lambda one, other: one == other,
}

Version = tuple[tuple[int, ...], tuple[tuple[int, int, str], ...]]


class Condition(Protocol):
    """A condition, of a record or in a row."""

    @property
    def attribute(self) -> str:
        """Name of the attribute."""

    @property
    def operator(self) -> str:
        """One of `OPERATORS` or `COMBINED`."""

    @property
    def values(self) -> tuple[str, ...]:
        """The values that the operator compares with."""

    @property
    def parts(self) -> int:
        """The number of conditions behind it that are its parts."""

    @property
    def weight(self) -> int:
        """The weight of a preference; 0: it must be met."""


C = TypeVar("C", bound=Condition)
T = TypeVar("T")


def meets(condition: Condition, value: str | None) -> bool:
    """Whether a value of its attribute meets a condition by itself. None: the host hasn't the attribute, which meets
    `not_in` and `absent` alone. An unknown operator is never met.
    """
    operator, values = condition.operator, condition.values
    if value is None:
        return operator in ("not_in", "absent")
    match operator:
        case "in":
            return value in values
        case "not_in":
            return value not in values
        case "exists":
            return True
        case "greater" | "less":
            return _beyond(operator, value, values)
        case "version":
            return _versioned(value, values)
        case "glob":
            return any(_pattern(each).fullmatch(value) for each in values)
    return False


def evaluate(conditions: Sequence[C], at: int, leaf: Callable[[C], T]) -> tuple[T, int]:
    """The value of a condition with its parts, by `leaf` of each single one, which returns truth values or masks; and
    the index behind it.
    """
    node, behind = conditions[at], at + 1
    if node.operator not in COMBINED:
        return leaf(node), behind
    whole: Any = None
    for _ in range(node.parts):
        part, behind = evaluate(conditions, behind, leaf)
        whole = part if whole is None else whole | part if node.operator == "any" else whole & part
    return whole, behind


def first_unmet(conditions: Sequence[Condition], attributes: dict[str, str]) -> int:
    """Index of the first condition that must be met and isn't, or `MEETS`."""
    at = 0
    while at < len(conditions):
        met, behind = evaluate(conditions, at, lambda one: meets(one, attributes.get(one.attribute)))
        if not met and not conditions[at].weight:
            return at
        at = behind
    return MEETS


def exclusive_names(conditions: Sequence[Condition]) -> frozenset[str]:
    """The values of `EXCLUSIVE` that tasks with these conditions name."""
    naming = (one for one in conditions if one.attribute == EXCLUSIVE and one.operator == "in" and not one.weight)
    return frozenset(value for one in naming for value in one.values)


def tops(conditions: Sequence[Condition]) -> Iterator[int]:
    """The conditions that are no part of another, by index."""
    at = 0
    while at < len(conditions):
        yield at
        at = _behind(conditions, at)


def text_of(conditions: Sequence[Condition], at: int) -> str:
    """A condition in words, with its parts."""
    node = conditions[at]
    if node.operator not in COMBINED:
        return _said(node)
    parts, behind = [], at + 1
    for _ in range(node.parts):
        parts.append(text_of(conditions, behind))
        behind = _behind(conditions, behind)
    return "(" + (" or " if node.operator == "any" else " and ").join(parts) + ")"


def condition_fault(condition: Condition) -> str:
    """The fault of a condition by itself; empty: there is none."""
    attribute, operator, values = condition.attribute, condition.operator, condition.values
    if operator in COMBINED:
        return "" if condition.parts > 0 and not attribute and not values else f"{operator} takes parts alone"
    what = f"constraint on {attribute[:80]!r}"
    if not 1 <= len(attribute) <= WORD_MAX or any(len(value) > WORD_MAX for value in values):
        return f"{what}: attribute and values have at most {WORD_MAX} characters"
    if len(values) > VALUES_MAX:
        return f"{what} has {len(values)} values, at most {VALUES_MAX} are allowed"
    if operator not in OPERATORS:
        return f"constraint operator {operator[:40]!r} must be one of {', '.join(OPERATORS)}"
    if condition.parts:
        return f"{what} has parts, which are for any and all"
    fault = values_fault(operator, values)
    return f"{what} {fault}" if fault else ""


def values_fault(operator: str, values: Sequence[str]) -> str:
    """The fault of the values of an operator; empty: there is none."""
    if operator in WITHOUT_VALUES:
        return ""
    if not values:
        return "needs values"
    if operator in ("greater", "less") and (len(values) > 1 or number_of(values[0]) is None):
        return f"needs one number for {operator}, such as 16 or 2.5"
    if operator == "version":
        wrong = next((each for each in values if _comparison(each) is None), None)
        return "" if wrong is None else f"has {wrong[:80]!r}, it must be a comparison such as >=1.20 or <2"
    return ""


def conditions_fault(conditions: Sequence[Condition]) -> str:
    """The first fault of the conditions of a job; empty: there is none."""
    if len(conditions) > CONSTRAINTS_MAX:
        return f"the job has {len(conditions)} constraints, at most {CONSTRAINTS_MAX} are allowed"
    for condition in conditions:
        if fault := condition_fault(condition):
            return fault
    try:
        outer = [*tops(conditions)]
    except IndexError:
        return "constraints: any or all names more parts than there are"
    weights = [condition.weight for condition in conditions]
    if min(weights, default=0) < 0 or sum(weights) > WEIGHTS_MAX:
        return f"the weights of constraints are {sum(weights)} in sum, 0 to {WEIGHTS_MAX} are allowed"
    if sum(weights) != sum(weights[at] for at in outer):
        return "a part of any or all has no weight of its own"
    return ""


def number_of(text: str) -> Decimal | None:
    """The number that a text says, exactly; None: it says none."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def version_of(text: str) -> Version | None:
    """A version to compare by: its numbers without trailing zeros, then what comes before the release (1.2-rc.1 is
    before 1.2), by the rules of semver; None: it is none.
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    numbers = [int(each) for each in match[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    if match[2] is None:
        return tuple(numbers), ((2, 0, ""),)
    before = (
        (0, int(each), "") if each.isascii() and each.isdigit() and len(each) < 19 else (1, 0, each)
        for each in match[2].split(".")
    )
    return tuple(numbers), tuple(before)


def _behind(conditions: Sequence[Condition], at: int) -> int:
    """The index behind a condition and its parts. Raises `IndexError` where some are missing."""
    behind, open_parts = at, 1
    while open_parts:
        node = conditions[behind]
        open_parts += (node.parts if node.operator in COMBINED else 0) - 1
        behind += 1
    return behind


def _beyond(operator: str, value: str, values: Sequence[str]) -> bool:
    has, bound = number_of(value), number_of(values[0]) if values else None
    if has is None or bound is None:
        return False
    return has > bound if operator == "greater" else has < bound


def _versioned(value: str, values: Sequence[str]) -> bool:
    """Whether a version meets all comparisons."""
    has = version_of(value)
    comparisons = [_comparison(each) for each in values]
    return has is not None and all(each is not None and _COMPARED[each[0]](has, each[1]) for each in comparisons)


@lru_cache(4096)
def _comparison(text: str) -> tuple[str, Version] | None:
    match = _COMPARISON.fullmatch(text)
    version = version_of(match[2]) if match else None
    return None if match is None or version is None else (match[1] or "=", version)


@lru_cache(4096)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(translate(text))


def _said(condition: Condition) -> str:
    name, values = condition.attribute, ", ".join(condition.values)
    match condition.operator:
        case "in":
            return f"{name} {values}"
        case "not_in":
            return f"{name} other than {values}"
        case "exists":
            return f"any {name}"
        case "greater" | "less":
            return f"{name} {condition.operator} than {values}"
        case "version":
            return f"{name} of a version {values}"
        case "glob":
            return f"{name} like {values}"
    return f"no {name}"
