"""The common part of all machines: records go to their handlers, and a machine rests while nothing is to be decided.

A machine is its rows, its table of handlers and what it decides. `apply` looks up the kind of each record and calls
its handlers in the order of the table. A `decide` that found nothing to do isn't run before a record was handled or a
deadline has come.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from events.records.base import Event
from events.records.rounds import TimerPassed
from processors.machine import Decided, Fact, Input, Machine, PeerRound
from processors.state.budget import Budget
from processors.state.causes import FACT, CurrentInput
from processors.state.deadlines import Deadline
from processors.state.handlers import Handlers, Row, handler_table
from processors.state.steps import Pass
from processors.state.table import Table


class MachineBase(Machine, ABC):
    """Most of a machine, whose numbers and names are those of the contract. A machine calls `_set_handlers` once, when
    all its parts are there.
    """

    def __init__(self, current: CurrentInput) -> None:
        self._input = current
        self._rests = False
        """Whether nothing is decided before a record is handled or a deadline comes. Only saves work."""
        self._next: tuple[int | None] | None = None
        """The next deadline, where it was looked for since the state last changed."""
        self._own: dict[type[Event], Handlers] = {}
        self._others: dict[type[Event], Handlers] = {}
        self._deadlines: tuple[Deadline, ...] = ()
        """All that makes the machine decide though it handles no record."""

    def _set_handlers(self, *rows: Row) -> None:
        """Sets the table. `TimerPassed` of other machines is left out: it is about their deadlines."""
        self._own = handler_table(*rows)
        self._others = {kind: each for kind, each in self._own.items() if kind is not TimerPassed}

    @property
    @abstractmethod
    def tables(self) -> Sequence[Table[Any, Any]]:
        """Implements `Machine.tables`."""

    def restored(self) -> None:
        """Implements `Machine.restored`."""
        self.disturb()
        self._restored()

    @abstractmethod
    def _restored(self) -> None:
        """Rebuilds what is derived."""

    def disturb(self) -> None:
        """Ends the rest: the state is another one."""
        self._rests, self._next = False, None

    def apply(self, record: Input) -> None:
        """Implements `Machine.apply`."""
        current = self._input
        match record:
            case Fact(topic, offset, at_ms, event, value):
                if handlers := self._others.get(type(event)):
                    current.at, current.value = (topic, offset, FACT), value
                    self._handle(event, at_ms, handlers)
            case PeerRound(machine, number, now, decisions):
                for index, decision in enumerate(decisions):
                    if handlers := self._others.get(type(decision)):
                        current.at = (machine, number, index)
                        self._handle(decision, now, handlers)
            case Decided(now, decision, number, index):
                if handlers := self._own.get(type(decision)):
                    current.at = (self.name, number, index)
                    self._handle_own(decision, now, handlers)

    def _handle(self, event: Event, now: int, handlers: Handlers) -> None:
        """Calls the handlers of a record."""
        self._rests, self._next = False, None
        self._input.now = now
        for handler in handlers:
            handler(event, now)

    def _handle_own(self, event: Event, now: int, handlers: Handlers) -> None:
        """The same for a decision of one's own."""
        self._handle(event, now, handlers)

    def decide(self, now: int, caught_up: bool, budget: int) -> list[Event]:
        """Implements `Machine.decide`."""
        if self._rests and ((at := self.next_wakeup()) is None or at > now):
            return []
        this = Pass(now, caught_up, now if caught_up else 0, Budget(budget))
        out = self._decide(this)
        self._rests, self._next = caught_up and not out and not this.budget.cut, None
        return out

    @abstractmethod
    def _decide(self, this: Pass) -> list[Event]:
        """Decides. No decision, and the budget not cut, means: none before a record is handled or a deadline comes."""

    def next_wakeup(self) -> int | None:
        """Implements `Machine.next_wakeup`."""
        if self._next is None:
            self._next = (self._next_wakeup(),)
        return self._next[0]

    def _next_wakeup(self) -> int | None:
        """The time of the next deadline as the state is."""
        first = None
        for deadline in self._deadlines:
            at = deadline.next_ms()
            if at is not None and (first is None or at < first):
                first = at
        return first
