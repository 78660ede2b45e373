"""The records of `schemas/rounds`. Written by `python -m tools.records`; do not edit."""

from events.records.base import Event
from events.records.parts import Seen, Segment, Skipped


class EpochStarted(Event, frozen=True, kw_only=True):
    """A process takes a machine of a cell."""

    cell: int
    """The cell."""

    machine: str
    """The machine."""

    epoch: int
    """The current epoch plus one; the first such claim in the log wins."""

    claimant: str
    """Who claims."""

    logic: int
    """Number of what decide does."""

    state: int
    """Number of the format of rows."""

    round: int
    """The last round folded by the claimant."""

    start_hash: bytes
    """State hash after that round, in the format of state."""


class RoundCommitted(Event, frozen=True, kw_only=True):
    """One atomic step of one machine."""

    cell: int
    """The cell."""

    machine: str
    """The machine."""

    epoch: int
    """The ownership under which it was decided."""

    round: int
    """Number of the round, from 1, without holes."""

    now: int
    """Logical time in milliseconds."""

    caught_up: bool
    """Whether the inputs were read to their ends."""

    budget: int
    """Bound on the work of the round, in units."""

    inputs: tuple[Segment, ...]
    """What was applied since the last round, in that order."""

    skipped: tuple[Skipped, ...]
    """Inputs that could not be decoded."""

    inputs_hash: bytes
    """BLAKE2b-256 over topic, offset, time, key and value of all inputs."""

    start_hash: bytes
    """State hash after the last round."""

    seen: tuple[Seen, ...]
    """Per topic the position that the writer knew, by reading or through rounds it read."""

    decisions: tuple[bytes, ...]
    """The decisions, each in single-object encoding of its own record."""

    prev_hash: bytes
    """BLAKE2b-256 of the record of the last accepted round; zeros for the first."""

    logic: int
    """Number of what decide does."""

    state: int
    """Number of the format of rows."""


class TimerPassed(Event, frozen=True, kw_only=True):
    """A deadline of a machine passed without another decision."""

    machine: str
    """The machine."""

    due_ms: int
    """The deadline in logical time."""


ALL: tuple[type[Event], ...] = (
    EpochStarted,
    RoundCommitted,
    TimerPassed,
)
