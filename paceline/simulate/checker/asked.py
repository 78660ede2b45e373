"""Checks what tasks ask of hosts by conditions and taints, a host at a time; shares no code with placement."""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Protocol

from events.records.hosts import HostOffered
from events.records.parts import Constraint, PlacementRules, TaskShape
from events.resources import is_gpu


class Offering(Protocol):
    """A host, as far as it is asked for."""

    offer: HostOffered | None
    tainted: Mapping[str, str]
    """Taints by operators."""


def unmet(shape: TaskShape, host: Offering, bound: bool = False) -> str:
    """The first thing that a host lacks for tasks of a shape, in words; empty: nothing. `bound`: they belong to it."""
    if host.offer is None:
        return "an offer"
    attributes = host.offer.attributes
    rest = list(shape.constraints)
    while rest:
        first = rest[0]
        if not _holds(rest, attributes) and not first.weight:
            return f"{first}"
    if bound:
        return ""
    tolerations = shape.rules.tolerations if shape.rules else ()
    for key, value in {**host.offer.taints, **host.tainted}.items():
        if key not in tolerations and f"{key}={value}" not in tolerations:
            return f"a toleration of {key}={value}"
    mark = attributes.get("exclusive")
    return "" if mark is None or _names(shape.constraints, mark) else f"a name for {mark}"


def allows(shape: TaskShape, host: Offering) -> bool:
    """Whether a host has what tasks of a shape ask of its attributes and taints."""
    return not unmet(shape, host)


def is_ruled(shape: TaskShape) -> bool:
    """Whether more than amounts decides where tasks fit: those beside them, or single devices."""
    if any(is_gpu(name) for name in shape.resources):
        return True
    return shape.rules is not None and shape.rules != PlacementRules(shape.rules.tolerations, stays=shape.rules.stays)


def _names(constraints: Sequence[Constraint], mark: str) -> bool:
    naming = [one for one in constraints if one.attribute == "exclusive" and one.operator == "in" and not one.weight]
    return any(mark in one.values for one in naming)


def _holds(rest: list[Constraint], attributes: Mapping[str, str]) -> bool:
    """Whether the first of the conditions holds; takes it and its parts off."""
    one = rest.pop(0)
    if one.operator in ("any", "all"):
        answers = [_holds(rest, attributes) for _ in range(one.parts)]
        return any(answers) if one.operator == "any" else all(answers)
    has = attributes.get(one.attribute)
    if one.operator in ("not_in", "absent"):
        return has is None if one.operator == "absent" else has not in one.values
    if has is None:
        return False
    return one.operator == "exists" or _compares(one.operator, has, one.values)


def _compares(operator: str, has: str, values: Sequence[str]) -> bool:
    if operator == "in":
        return has in values
    if operator == "glob":
        return any(_like(has, pattern) for pattern in values)
    if operator == "version":
        return all(_version_is(has, each) for each in values)
    if not all(re.fullmatch(r"[+-]?\d{1,40}(\.\d{1,40})?", each, re.ASCII) for each in (has, values[0])):
        return False
    return Fraction(has) > Fraction(values[0]) if operator == "greater" else Fraction(has) < Fraction(values[0])


def _like(text: str, pattern: str) -> bool:
    """Whether a text is like a pattern, whose classes are left to a regular expression."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(_like(text[at:], pattern[1:]) for at in range(len(text) + 1))
    if pattern[0] == "[" and (end := pattern.find("]", 2)) > 0:
        inside = "^" + pattern[2:end] if pattern[1] == "!" else pattern[1:end]
        return bool(text) and re.match(f"[{inside}]", text[0]) is not None and _like(text[1:], pattern[end + 1 :])
    return bool(text) and pattern[0] in ("?", text[0]) and _like(text[1:], pattern[1:])


def _version_is(has: str, comparison: str) -> bool:
    match = re.fullmatch(r"(>=|<=|>|<|!=|=|) *(v?\d.*)", comparison, re.ASCII)
    mine, other = _version(has), _version(match[2]) if match else None
    if match is None or mine is None or other is None:
        return False
    sign = (mine > other) - (mine < other)
    return sign in {">=": (0, 1), "<=": (-1, 0), ">": (1,), "<": (-1,), "!=": (-1, 1)}.get(match[1], (0,))


def _version(text: str) -> tuple[object, ...] | None:
    match = re.fullmatch(r"v?(\d+(?:\.\d+)*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?", text, re.ASCII)
    if match is None:
        return None
    numbers = [int(each) for each in match[1].split(".")]
    padded = tuple(numbers + [0] * (16 - len(numbers)))
    before = match[2][1:].split(".") if match[2] else []
    words = tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in before)
    return (*padded, not before, words)
