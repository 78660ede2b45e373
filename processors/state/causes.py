"""Causes of decisions, as machines remember them: the position of a fact or of a decision.

A decision that names the run it is about is tied to its cause by (job, instance, run). Any other carries the position
of what led to it (decision 031). Where that came in an earlier round, it stands in a row, so that a machine that
was restored says the same as one that has run on.
"""

from collections.abc import Iterable

import msgspec

from events.causes import NOTHING
from events.records.parts import Cause
from events.topics import HOSTS, JOBS

CAUSES_MAX = 8
"""So many causes of one decision are kept, the newest."""
FACT = -1


class CauseRow(msgspec.Struct, frozen=True, array_like=True):
    """The position of a fact, as topic and offset, or of a decision, as machine, round and index in the round."""

    source: str
    at: int
    index: int = FACT

    @property
    def record(self) -> Cause:
        """The same as decisions carry it."""
        if self.index == FACT:
            return Cause(topic=self.source, offset=self.at)
        return Cause(machine=self.source, round=self.at, index=self.index)


def recorded(row: CauseRow | None) -> Cause | None:
    """A cause that may be missing, as decisions carry it."""
    return None if row is None else row.record


def all_recorded(rows: Iterable[CauseRow | None]) -> tuple[Cause, ...]:
    """The same of a list; an empty one where a cause is missing."""
    return tuple(NOTHING if row is None else row.record for row in rows)


def job_fact(offset: int) -> Cause:
    """The position of a fact in the topic of jobs."""
    return Cause(topic=JOBS.name, offset=offset)


def host_fact(offset: int) -> Cause:
    """The position of a fact in the topic of hosts."""
    return Cause(topic=HOSTS.name, offset=offset)


def newest(causes: list[CauseRow], cause: CauseRow) -> list[CauseRow]:
    """The causes with one more; the oldest leave."""
    return [*causes, cause][-CAUSES_MAX:]


class CurrentInput:
    """The position of what a machine is applying now. Its parts share it; it means something only while they apply."""

    def __init__(self) -> None:
        self.at: tuple[str, int, int] = ("", 0, FACT)
        """Topic, offset and `FACT` where it is a fact; machine, round and index where it is a decision."""
        self.now = 0
        """The time at which it is applied, in milliseconds."""
        self.value = b""
        """The last fact as it stands in the log."""
        self._known: tuple[tuple[str, int, int], CauseRow] | None = None

    @property
    def cause(self) -> CauseRow:
        """Its position as rows have it; most inputs are applied without being asked for it."""
        if self._known is None or self._known[0] is not self.at:
            self._known = self.at, CauseRow(*self.at)
        return self._known[1]

    @property
    def offset(self) -> int:
        """Where a fact stands in its topic."""
        return self.at[1]
