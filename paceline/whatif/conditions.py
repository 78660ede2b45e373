"""`--fail-if 'pool /maps mean_wait > +20%'`: what a check in review refuses."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from events.nearest import meant
from events.resources import Unit
from events.time_units import MS_OF_UNIT, span_s
from paceline.client.errors import InvalidValue
from paceline.whatif.branch import Change
from paceline.whatif.compare import Comparison, Effect
from paceline.whatif.figures import BY_RESOURCE, CELL, CPU, FIGURES, OF_TIMES, Group, groups_of
from paceline.whatif.settings import pools_of
from paceline.whatif.stretch import Stretch

_CONDITION = re.compile(
    r"\s*(?:(pool|owner)\s+(\S+)|(cell))\s+([a-z0-9_]+)(?::([a-z0-9._/-]+))?\s*"
    r"([<>])\s*([+-]?)(\d+(?:\.\d+)?)\s*(%|[A-Za-z]*)\s*",
    re.ASCII,
)
HOW = (
    "a condition is `pool PATH`, `owner NAME` or `cell`, a figure, such as mean_wait or use:gpu, < or >, and a bound: "
    "+20% or -30s is of the effect; 600s or 2h (no sign) of the value with the change"
)
MIB = {"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}
IN_TIME = (*OF_TIMES, "lost_work")
"""Figures whose bounds may have a unit of time."""


class Answer(IntEnum):
    """The answer to a condition; the number is the exit code of the command."""

    NO = 0
    """The whole interval is on the good side of the bound."""
    YES = 1
    """The whole interval is beyond it."""
    UNKNOWN = 3
    """The interval contains it, the branches give too little of what happened again, or it rests on guessed lengths."""


class Condition(NamedTuple):
    """A bound of a figure. `relative`: of the effect, else of the figure with the change; `percent` of the figure
    without it.
    """

    text: str
    group: Group
    figure: str
    above: bool
    bound: float
    relative: bool
    percent: bool
    resource: str = ""
    """That of a figure by resource."""
    unit: str = ""
    """As it was written."""

    def answer(self, effect: Effect) -> Answer:
        """Whether the bound is passed."""
        value, within = (effect.effect, effect.within) if self.relative else (effect.changed, effect.changed_within)
        bound = self.bound * abs(effect.again) / 100 if self.percent else self.bound
        if within is None:
            return Answer.UNKNOWN
        low, high = value - within, value + within
        if (low > bound) if self.above else (high < bound):
            return Answer.YES
        return Answer.NO if ((high <= bound) if self.above else (low >= bound)) else Answer.UNKNOWN


def read_condition(text: str) -> Condition:
    """Parses a condition. Raises `InvalidValue`."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise InvalidValue(f"{text!r} is no condition: {HOW}")
    kind, name, cell, figure, resource, sign, plus, number, unit = match.groups()
    if figure not in FIGURES:
        raise InvalidValue(
            f"{text!r}: there is no figure {figure}{meant(figure, FIGURES)}; there are {', '.join(FIGURES)}"
        )
    if resource and figure not in BY_RESOURCE:
        raise InvalidValue(f"{text!r}: {figure} isn't by resource; those are {', '.join(sorted(BY_RESOURCE))}")
    if figure in BY_RESOURCE:
        resource = resource or CPU
    bound = _bound(text, figure, number, unit) * (-1 if plus == "-" else 1)
    group, relative = (CELL, "") if cell else (kind, name), bool(plus) or unit == "%"
    return Condition(text.strip(), group, figure, sign == ">", bound, relative, unit == "%", resource or "", unit)


def _check_resource(condition: Condition, units: Mapping[str, Unit]) -> None:
    """Raises `InvalidValue` where the cell hasn't its resource, or that has another unit."""
    text, resource, unit = condition.text, condition.resource, condition.unit
    if resource not in units:
        raise InvalidValue(
            f"{text!r}: unknown resource {resource}; the cell has {', '.join(units)}{meant(resource, [*units])}"
        )
    is_size = units[resource] is Unit.MIB
    if unit in MIB and not is_size:
        raise InvalidValue(f"{text!r}: {resource} isn't a size: leave out {unit}")
    if is_size and condition.bound and not condition.percent and unit not in MIB:
        raise InvalidValue(f"{text!r}: {resource} is a size: write such as 4GiB")


def _bound(text: str, figure: str, number: str, unit: str) -> float:
    """The number of a bound: seconds of a time, MiB of a size. Raises `InvalidValue` where its unit doesn't fit."""
    if unit == "%" or (not unit and (figure not in OF_TIMES or float(number) == 0)):
        return float(number)
    if unit in MIB:
        if figure not in BY_RESOURCE:
            raise InvalidValue(f"{text!r}: {figure} isn't a size: leave out {unit}")
        return float(number) * MIB[unit]
    if figure not in IN_TIME:
        raise InvalidValue(f"{text!r}: {figure} isn't in seconds: leave out {unit}")
    seconds = span_s(number + unit)
    if seconds is None:
        *units, last = MS_OF_UNIT
        what = f"{unit} is no unit" if unit else f"{figure} is a time, and {number} has no unit"
        raise InvalidValue(f"{text!r}: {what}; there are {', '.join(units)} and {last}, as in 30m, and %")
    return seconds


def check(conditions: Iterable[Condition], stretch: Stretch, change: Change) -> None:
    """Raises `InvalidValue` where a condition is about a pool, an owner or a resource that no branch has."""
    parties = {(path, "") for path in pools_of(stretch, change)}
    parties |= {(job.pool, job.owner) for job in stretch.runs.jobs.values()}
    parties |= {(job.pool, job.owner) for job in change.jobs.values()}
    parties |= {(refused.pool, refused.owner) for refused in stretch.runs.refused}
    groups = {(CELL, ""), *(group for party in parties for group in groups_of(*party))}
    units = stretch.units(change.first)
    for condition in conditions:
        kind, name = condition.group
        if condition.group not in groups:
            names = sorted(name for of, name in groups if of == kind)
            raise InvalidValue(f"{condition.text!r}: there is no {kind} {name}{meant(name, names)}")
        if condition.resource:
            _check_resource(condition, units)


def answers(
    comparison: Comparison, conditions: Sequence[Condition], calibrated: bool
) -> list[tuple[Condition, Answer]]:
    """The answer to each condition. Raises `InvalidValue` where one is about what isn't in the stretch."""
    effects = {(effect.group, effect.figure, effect.resource): effect for effect in comparison.effects}
    groups = {effect.group for effect in comparison.effects}
    out = []
    for condition in conditions:
        figure, resource = condition.figure, condition.resource
        nothing = Effect(condition.group, figure, 0, 0, 0, 0, 0, 0, resource)  # no job of the group asks for it
        effect = effects.get((condition.group, figure, resource), nothing)
        if condition.group not in groups:
            names = sorted(name for kind, name in groups if kind == condition.group[0])
            raise InvalidValue(
                f"{condition.text!r}: no batch job of {' '.join(condition.group)} is in the stretch"
                f"{meant(condition.group[1], names)}"
            )
        is_told = calibrated and comparison.tells_of(figure)
        out.append((condition, condition.answer(effect) if is_told else Answer.UNKNOWN))
    return out


def worst(pairs: "list[tuple[Condition, Answer]]") -> Answer:
    """The answer to all conditions together: one that holds counts most, then one that can't be told."""
    values = {answer for _, answer in pairs}
    return next((answer for answer in (Answer.YES, Answer.UNKNOWN) if answer in values), Answer.NO)
