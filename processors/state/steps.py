"""The steps of a decision, each at its place for a reason."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from events.records.base import Event
from processors.state.budget import Budget


@dataclass(slots=True)
class Pass:
    """One look of a machine at its state (decision 006): the steps read it, spend its budget and add to its events."""

    now: int
    """Logical milliseconds."""
    caught_up: bool
    """Whether all inputs are read: only then deadlines expire."""
    until_ms: int
    """Deadlines up to here expire: `now`, or 0 where inputs are unread."""
    budget: Budget
    out: list[Event] = field(default_factory=list)
    """The decisions of the steps before."""
    over: bool = False
    """Set by a step after which no other one looks before its decisions are applied."""


class Step(NamedTuple):
    """One kind of decision."""

    name: str
    decide: Callable[[Pass], Sequence[Event]]
    why_here: str
    """The reason why it comes after those before it."""
    ends: bool = False
    """Whether its decisions are applied before a later step looks."""


def decide_in_steps(steps: Sequence[Step], this: Pass) -> list[Event]:
    """The decisions of a pass."""
    for step in steps:
        if decisions := step.decide(this):
            this.out += decisions
            this.over |= step.ends
        if this.over:
            break
    return this.out
