"""`--fail-if 'pool /maps mean_wait > +20%'`: what a check in review refuses."""

import re
from enum import IntEnum
from typing import NamedTuple

from events.nearest import meant
from paceline.client.errors import InvalidValue
from paceline.whatif.compare import Comparison, Effect
from paceline.whatif.figures import CELL, COUNTS, FIGURES, Group

_CONDITION = re.compile(
    r"\s*(?:(pool|owner)\s+(\S+)|(cell))\s+([a-z0-9_]+)\s*([<>])\s*([+-]?)(\d+(?:\.\d+)?)\s*(%|s)?\s*", re.ASCII
)
HOW = (
    "a condition is `pool PATH`, `owner NAME` or `cell`, a figure, < or >, and a bound: +20% or -30s of what the "
    "change does, 600s of what it is with the change"
)


class Answer(IntEnum):
    """The answer to a condition; the number is the exit code of the command."""

    NO = 0
    """The whole interval is on the good side of the bound."""
    YES = 1
    """The whole interval is beyond it."""
    UNKNOWN = 3
    """The interval contains it, or the branches give too little of what happened again."""


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
    kind, name, cell, figure, sign, plus, number, unit = match.groups()
    if figure not in FIGURES:
        raise InvalidValue(
            f"{text!r}: there is no figure {figure}{meant(figure, FIGURES)}; there are {', '.join(FIGURES)}"
        )
    if unit == "s" and (figure in COUNTS or figure == "use"):
        raise InvalidValue(f"{text!r}: {figure} isn't in seconds")
    bound = float(number) * (-1 if plus == "-" else 1)
    relative = bool(plus) or unit == "%"
    return Condition(
        text.strip(), (CELL, "") if cell else (kind, name), figure, sign == ">", bound, relative, unit == "%"
    )


def answers(comparison: Comparison, conditions: "list[Condition]", calibrated: bool) -> list[tuple[Condition, Answer]]:
    """The answer to each condition. Raises `InvalidValue` where one is about what isn't in the stretch."""
    effects = {(effect.group, effect.figure): effect for effect in comparison.effects}
    out = []
    for condition in conditions:
        effect = effects.get((condition.group, condition.figure))
        if effect is None:
            names = sorted(name for kind, name in {group for group, _ in effects} if kind == condition.group[0])
            raise InvalidValue(
                f"{condition.text!r}: no batch job of {' '.join(condition.group)} is in the stretch"
                f"{meant(condition.group[1], names)}"
            )
        out.append((condition, condition.answer(effect) if calibrated else Answer.UNKNOWN))
    return out


def worst(pairs: "list[tuple[Condition, Answer]]") -> Answer:
    """The answer to all conditions together: one that holds counts most, then one that can't be told."""
    values = {answer for _, answer in pairs}
    return next((answer for answer in (Answer.YES, Answer.UNKNOWN) if answer in values), Answer.NO)
