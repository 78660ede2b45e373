"""Building blocks of assertions: the lines of `expectations.py`, and of `job_assertions.py`."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from events.codes import TaskState
from events.nearest import meant
from events.quantities import Mebibytes, Milli, OtherAmount
from events.records.lifecycle import JobChanged
from events.resources import STANDARD, Unit
from paceline.simulate.world.log_summary import ObservedEvents
from processors.entitlement.machine import Entitlement
from processors.lifecycle.machine import Lifecycle
from processors.machine import Machine
from processors.placement.machine import Placement

OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
TASK_STATES = tuple(state.name for state in TaskState if state is not TaskState.NONE)


class Malformed(ValueError):
    """A line that is no expectation; the message says why."""


class CellState(NamedTuple):
    """The state of a cell for expectations."""

    machines: Mapping[str, Machine]
    observed: ObservedEvents

    @property
    def lifecycle(self) -> Lifecycle:
        """The state of jobs and tasks."""
        machine = self.machines["lifecycle"]
        assert isinstance(machine, Lifecycle)
        return machine

    @property
    def placement(self) -> Placement:
        """The state of hosts."""
        machine = self.machines["placement"]
        assert isinstance(machine, Placement)
        return machine

    @property
    def entitlement(self) -> Entitlement:
        """The state of pools."""
        machine = self.machines["entitlement"]
        assert isinstance(machine, Entitlement)
        return machine


class Observation(NamedTuple):
    """Whether an assertion holds, and what was seen."""

    holds: bool
    what: str


@dataclass(frozen=True)
class Assertion:
    """One parsed line. `names`: what it names by `job`, `host`, `host with` (an attribute and its value) and `pool`,
    for whoever checks that there is such a thing.
    """

    text: str
    evaluate: Callable[[CellState], Observation]
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def count_of(words: list[str], get: Callable[[CellState], int], what: str) -> Callable[[CellState], Observation]:
    """`OP N` at the end of a line."""
    test, number = compared(words)
    if not number.isdecimal():
        raise Malformed(f"{number} is no whole number")
    expected = int(number)

    def evaluate(cell_state: CellState) -> Observation:
        have = get(cell_state)
        return Observation(test(have, expected), f"{what} {have}")

    return evaluate


def compared(words: list[str]) -> tuple[Callable[[int, int], bool], str]:
    """The comparison and the number at the end of a line."""
    if len(words) != 2 or words[0] not in OPERATORS:
        raise Malformed(f"must end with one of {' '.join(OPERATORS)} and a number")
    return OPERATORS[words[0]], words[1]


def one_of(word: str, allowed: tuple[str, ...]) -> str:
    """The word, if it is allowed."""
    if word not in allowed:
        names = ", ".join(allowed)
        raise Malformed(f"{word} is none of {names}{meant(word, allowed)}" if word else f"must name one of {names}")
    return word


def other_word(begin: str, word: str, allowed: Sequence[str]) -> Malformed:
    """The error where a line doesn't begin or go on with one of some words, but with another or with none."""
    sentence = f"must {begin} with {' or '.join(allowed) if len(allowed) == 2 else ', '.join(allowed)}"
    return Malformed(sentence if not word or word in allowed else f"{sentence}, not with {word}{meant(word, allowed)}")


def tasks_in(cell_state: CellState, job_id: str, state: TaskState) -> int:
    """Counts the tasks of a job in a state."""
    row, ended = cell_state.lifecycle.jobs.get(job_id), cell_state.observed.ended.get(job_id)
    if row is not None:
        return row.counts[state]
    return _outcomes(ended, state) if ended is not None and cell_state.lifecycle.state_of(job_id) else 0


def _outcomes(ended: JobChanged, state: TaskState) -> int:
    """Counts the tasks of an ended job in a state."""
    return {TaskState.SUCCEEDED: ended.succeeded, TaskState.FAILED: ended.failed, TaskState.KILLED: ended.killed}.get(
        state, 0
    )


def amount_of(resource: str, words: list[str]) -> tuple[Callable[[int, int], bool], int]:
    """`OP AMOUNT` of a resource at the end of a line."""
    test, amount = compared(words)
    number = re.fullmatch(r"\d+(\.\d+)?", amount)
    try:
        value = float(amount) if number and STANDARD.get(resource) is not Unit.MIB else amount
        return test, _AMOUNTS[STANDARD.get(resource)].validate_python(value)
    except ValidationError as error:
        raise Malformed(f"{amount} {error.errors()[0]['msg']}") from error


def unit_of(cell_state: CellState, resource: str) -> Unit:
    """In which unit a resource is counted."""
    return cell_state.lifecycle.kinds.units.get(resource, Unit.MILLI)


_AMOUNTS: dict[Unit | None, TypeAdapter[int]] = {
    Unit.MILLI: TypeAdapter(Milli),
    Unit.MIB: TypeAdapter(Mebibytes),
    None: TypeAdapter(OtherAmount),
}
"""Read amounts of the four by their units, and of any other resource as it is written."""
