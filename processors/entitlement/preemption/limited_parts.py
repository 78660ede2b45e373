"""The parts that limits hold up: by the level that is full, and by when others are to leave for them.

It is derived, from what parts were told and since when; what is told no more is found out when it is looked at.
"""

from collections.abc import Callable, Iterator

from events.codes import Code
from processors.entitlement.queues.parts import PartKey
from processors.entitlement.queues.queues import Queues
from processors.entitlement.rows import JobRow, RefusalRow
from processors.state.deadlines import Deadlines


class LimitedParts:
    """Parts with `PartRow.limited_ms`. `delay_ms`: how long a pool waits until others leave; below 0: for ever."""

    def __init__(self, queues: Queues, delay_ms: Callable[[str], int]) -> None:
        self._queues = queues
        self._delay_ms = delay_ms
        self._jobs: dict[str, dict[int, str]] = {}
        """By job and key of the part the level that is full, or none."""
        self._starts: Deadlines[PartKey] = Deadlines()
        self._levels: dict[str, dict[PartKey, None]] = {}

    def restored(self) -> None:
        """The tables were loaded."""
        self._jobs.clear()
        self._starts.restore(())
        self._levels.clear()
        for job_id, row in self._queues.jobs.items():
            for key in row.parts:
                self.changed(PartKey(job_id, key), row)

    def pools_changed(self) -> None:
        """Pools may wait longer or less long until others leave."""
        for job_id, mine in list(self._jobs.items()):
            for key in list(mine):
                self.changed(PartKey(job_id, key), self._queues.jobs[job_id])

    def __len__(self) -> int:
        """How many jobs have any."""
        return len(self._jobs)

    def changed(self, part: PartKey, row: JobRow) -> None:
        """A part was told that a limit holds it up, or another reason, or waits since another time."""
        self._leave(part)
        what, level = row.parts.get(part.key), ""
        if what is None or not what.limited_ms:
            return
        if what.refusal is not None and is_limited(what.refusal):
            level, delay = what.refusal.at, self._delay_ms(row.pool)
            self._levels.setdefault(level, {})[part] = None
            if delay >= 0:
                self._starts.set(part, what.limited_ms + delay)
        self._jobs.setdefault(part.job_id, {})[part.key] = level

    def dropped(self, job_id: str) -> None:
        """A job has ended."""
        for key in list(self._jobs.get(job_id, ())):
            self._leave(PartKey(job_id, key))

    def starts(self, after: int, until: int) -> Iterator[PartKey]:
        """The parts for which others are to leave from a time after one until another on, in this order."""
        return filter(self._level, self._starts.due(until, after))

    def next_ms(self, after: int) -> int | None:
        """From when on others are to leave for a part next, after a time."""
        return next((at for at, part in self._starts.upcoming(after) if self._level(part)), None)

    def full_levels(self) -> list[str]:
        """The pools whose limits hold somebody up."""
        return sorted(
            level for level, parts in self._levels.items() if any(self._level(part) == level for part in parts)
        )

    def _level(self, part: PartKey) -> str:
        """The pool whose limit holds a part up, as it was told last; empty: none does."""
        row = self._queues.jobs.get(part.job_id)
        what = row.parts.get(part.key) if row is not None else None
        refusal = what.refusal if what is not None else None
        return refusal.at if refusal is not None and is_limited(refusal) else ""

    def _leave(self, part: PartKey) -> None:
        mine = self._jobs.get(part.job_id, {})
        level = mine.pop(part.key, "")
        if not mine:
            self._jobs.pop(part.job_id, None)
        if level:
            del self._levels[level][part]
            if not self._levels[level]:
                del self._levels[level]
        self._starts.clear(part)


def is_limited(refusal: RefusalRow | None) -> bool:
    """Whether a part was told that a limit holds it up."""
    return refusal is not None and refusal.code == Code.LIMIT_REACHED
