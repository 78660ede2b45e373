"""The machine contract: the pure part of a processor (decision 006).

A machine sees facts, other machines' rounds and logical time, and nothing else: no clock, random number, environment,
set order, float or `hash()` decides anything. `apply` takes every record ever written and never raises; `decide` looks
and never changes state, so that it may be asked twice.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from events.records.base import Event
from processors.state.conversion import Conversions
from processors.state.table import Table


class Fact(NamedTuple):
    """A record written by a user, an operator or a host."""

    topic: str
    offset: int
    at_ms: int
    event: Event
    value: bytes
    """The record as it stands in the log."""


class PeerRound(NamedTuple):
    """An accepted round of another machine; the index of a decision is its place in `decisions`."""

    machine: str
    round: int
    now: int
    decisions: tuple[Event, ...]


class Decided(NamedTuple):
    """A decision of this machine's own, of the round at logical time `now`: which one, and its index in it."""

    now: int
    event: Event
    round: int
    index_in_round: int


Input = Fact | PeerRound | Decided


class Machine(Protocol):
    """Pure, synchronous, single-threaded."""

    name: ClassVar[str]
    facts: ClassVar[tuple[str, ...]]
    """The topics of facts that it reads."""
    peers: ClassVar[tuple[str, ...]]
    """The machines whose rounds it reads."""
    logic: ClassVar[int]
    """Number of what `decide` does; raised when its behaviour changes."""
    state: ClassVar[int]
    """Number of the format of rows."""
    conversions: ClassVar[Conversions]
    """Functions that make rows of this format from those of older ones, where that can be done."""

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        """All its state; everything else is derived and rebuilt by `restored`."""
        ...

    def restored(self) -> None:
        """Rebuilds what is derived, after the tables were loaded from a store."""
        ...

    def apply(self, record: Input) -> None:
        """Folds one fact, one round of another machine, or one decision of its own. Total: never raises."""
        ...

    def decide(self, now: int, caught_up: bool, budget: int) -> list[Event]:
        """The decisions now, at most `budget` units of work. Changes nothing; deadlines expire only when caught up."""
        ...

    def next_wakeup(self) -> int | None:
        """Logical milliseconds of the next deadline; not after now where `decide` was stopped by its budget."""
        ...
