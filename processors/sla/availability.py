"""The instances of jobs with an SLA: columns of what is wanted, available and asked for, and counts of each job.

No count is taken by looking at a job: whatever changes a row adds the difference. `recount` looks at all rows, for
tests.
"""

from dataclasses import dataclass
from enum import IntFlag
from typing import Any, NamedTuple

import numpy as np

from events.codes import RunCause
from events.columns import FEW, I32, I64, indexed, spread
from processors.sla.rows import JobRow
from processors.state.arena import REMOVED, Arena, Slots
from processors.state.table import Table

COLUMNS = (
    "available",
    "ripe_at",
    "ended",
    "asked",
    "asked_at",
    "why",
    "told",
    "unit",
    "allowed",
    "host",
    "flags",
)
"""`available` the run that is running, `ripe_at` the second at which it counts, 0 where it does or none is; `ended` the
highest run that is over; `asked` the run whose disruption waits for a verdict, `asked_at` the second since when one is
wanted, `why` its cause, `told` the code of the last verdict (1: the first of `VERDICT_CODES`), `unit` what leaves with
it, as DisruptionAsked has it, with numbers of sla's own for hosts; `allowed` the run whose disruption holds budget, and
`asked_at` since when where that counts for the hour; `host` where its run is. 0 where there is none.
"""
ASK = ("asked", "asked_at", "why", "told", "unit")
"""The columns of a disruption that is asked for."""
LOOKED_AT = ("available", "ended", "asked", "why", "unit", "allowed", "flags")
"""The columns that counts follow from."""


class Flag(IntFlag):
    """The marks of an instance."""

    UNWANTED = 1 << 0
    """It shall not run."""
    AWAY = 1 << 1
    """It is bound to a host that is emptied, and nobody expects it before it is ordered there again."""
    NOT_BEGUN = 1 << 2
    """It is of a batch job and wasn't available yet, or is over."""
    SURPLUS = 1 << 3
    """It is one more than wanted, while others are replaced."""
    LEFTOVER = 1 << 4
    """Its surplus was given up: it counts nowhere, and goes."""
    RIPE = 1 << 5
    """Its run has been available for as long as it must to count."""
    SILENT = 1 << 6
    """Its host isn't heard."""
    PATIENT = 1 << 7
    """Its disruption waits for a replacement that is up first."""
    AGED = 1 << 8
    """Its unit has waited for so long that it reserves what it needs."""
    HOURLY = 1 << 9
    """Its disruption counts for the hour."""


OUT = int(Flag.UNWANTED | Flag.AWAY | Flag.NOT_BEGUN)
"""Nobody misses it."""
GOES_ANYWAY = OUT | int(Flag.LEFTOVER)
"""That it goes costs nothing."""
SURPLUS, RIPE = int(Flag.SURPLUS), int(Flag.RIPE)
ORDINARY, _EXTRA, _COUNTS = OUT | SURPLUS, GOES_ANYWAY | SURPLUS, RIPE | int(Flag.SILENT)
_PREEMPT = int(RunCause.PREEMPT)


def is_healthy(available: Any, allowed: Any, flags: Any) -> Any:
    """Whether an instance is available, for long enough, on a host that is heard, and isn't about to go."""
    return (available > 0) & (allowed == 0) & (flags & _COUNTS == RIPE)


class Tally(NamedTuple):
    """The counts of one instance, or of each of some."""

    expected: Any
    missing: Any
    """Expected, and not healthy: not available for long enough, on a host that isn't heard, or allowed to go."""
    extra: Any
    """Healthy, and more than wanted."""
    holding: Any
    """Allowed to go, and not available again."""
    waiting: Any
    """Asked for, without a verdict that lets it go."""
    in_units: Any
    """The same of those that leave in a unit."""
    replaceable: Any
    """The same of those that a surplus instance could replace."""


def tally(available: Any, ended: Any, asks: Any, why: Any, unit: Any, allowed: Any, flags: Any) -> Tally:
    """The only place that says what counts as what: of numbers for one instance, of columns for many."""
    there = ended != REMOVED
    expected = there & (flags & ORDINARY == 0)
    healthy = is_healthy(available, allowed, flags)
    waits = asks > 0
    return Tally(
        expected=expected,
        missing=expected & (healthy ^ True),
        extra=there & healthy & (flags & _EXTRA == SURPLUS),
        holding=expected & (allowed > 0),
        waiting=waits,
        in_units=waits & (unit != 0),
        replaceable=waits & expected & (available > 0) & (why != _PREEMPT),
    )


def is_ready(available: Any, allowed: Any, flags: Any) -> Any:
    """Whether others miss an instance that goes: it is available, wanted or healthy surplus, and not about to go."""
    return (available > 0) & (allowed == 0) & (flags & GOES_ANYWAY == 0)


@dataclass(slots=True)
class Counts:
    """The counts of a job, each as `Tally` says."""

    expected: int = 0
    missing: int = 0
    extra: int = 0
    holding: int = 0
    waiting: int = 0
    in_units: int = 0
    replaceable: int = 0

    def add(self, tally: Tally, sign: int) -> None:
        """Adds what an instance counts, or takes it away."""
        self.expected += sign * tally.expected
        self.missing += sign * tally.missing
        self.extra += sign * tally.extra
        self.holding += sign * tally.holding
        self.waiting += sign * tally.waiting
        self.in_units += sign * tally.in_units
        self.replaceable += sign * tally.replaceable


class Availability:
    """The columns of all jobs with an SLA, and the counts of each."""

    def __init__(self, jobs: Table[str, JobRow]) -> None:
        self.arena = Arena("tasks", COLUMNS)
        self.counts: dict[str, Counts] = {}
        self._jobs = jobs
        self._job_at: dict[int, str] = {}
        """The job at a base."""

    def restored(self) -> None:
        """Rebuilds what follows from the rows."""
        self.arena.restored()
        self._job_at = {row.base: job_id for job_id, row in self._jobs.items()}
        self.counts = {job_id: Counts() for job_id in self._jobs}
        if self._jobs:
            bases, sizes = np.array([(row.base, row.instances) for row in self._jobs.values()]).T
            self._add(spread(bases, sizes), 1)

    def recount(self, job_id: str) -> Counts:
        """The counts of a job, instance by instance."""
        row, counts = self._jobs[job_id], Counts()
        for each in self.arena.rows(np.arange(row.base, row.base + row.instances), *LOOKED_AT):
            counts.add(tally(*each), 1)
        return counts

    def add_job(self, job_id: str, row: JobRow, **columns: int) -> None:
        """A job has an SLA from now on; `columns` of all its instances."""
        row.base = self.arena.take(max(1, row.instances))  # all of them may have been removed
        self._jobs.put(job_id, row)
        self._job_at[row.base], self.counts[job_id] = job_id, Counts()
        slots = np.arange(row.base, row.base + row.instances)
        self.arena.put(slots, **columns)
        self._add(slots, 1)

    def drop_job(self, job_id: str) -> None:
        """A job has none any more."""
        row = self._jobs[job_id]
        self.arena.give_back(row.base, row.instances)
        self._jobs.remove(job_id)
        del self._job_at[row.base], self.counts[job_id]

    def resize(self, job_id: str, base: int, instances: int) -> None:
        """The stretch of a job was moved or has another size."""
        row = self._jobs.change(job_id)
        del self._job_at[row.base]
        row.base, row.instances = base, instances
        self._job_at[base], self.counts[job_id] = job_id, Counts()
        self._add(np.arange(base, base + instances), 1)

    def slots_of(self, job_id: str) -> I64:
        """The slots of a job."""
        row = self._jobs[job_id]
        return np.arange(row.base, row.base + row.instances)

    def stretch(self, job_id: str, column: str) -> I32:
        """A column of one job."""
        row = self._jobs[job_id]
        return self.arena[column][row.base : row.base + row.instances]

    def waiting(self, job_id: str) -> I64:
        """The slots of a job whose disruption waits for a verdict."""
        return np.flatnonzero(self.stretch(job_id, "asked")) + self._jobs[job_id].base

    def job_of(self, slot: int) -> str:
        """The job that a slot belongs to."""
        return self._job_at[int(self.arena["owner"][slot]) - 1]

    def jobs_of(self, slots: I64) -> list[str]:
        """The jobs that slots belong to, each once, by where they stand."""
        return self.named(slots)[0]

    def named(self, slots: I64) -> tuple[list[str], I64, I64]:
        """The jobs that slots belong to, for each slot the index of its job, and its instance."""
        bases, index = indexed(self.arena["owner"][slots] - 1)
        return [self._job_at[base] for base in bases.tolist()], index, slots - bases[index]

    def change(self, slots: I64, **columns: Slots | int) -> None:
        """Sets columns at slots, each once, and keeps the counts."""
        if len(slots) <= FEW:
            self._add(slots, -1)
            self.arena.put(slots, **columns)
            self._add(slots, 1)
            return
        before = self._tallies(slots)
        self.arena.put(slots, **columns)
        self._add_difference(slots, before, self._tallies(slots))

    def flag(self, slots: I64, on: int = 0, off: int = 0) -> None:
        """Sets and clears flags."""
        if len(slots):
            self.change(slots, flags=self.arena["flags"][slots] & ~off | on)

    def _add(self, slots: I64, sign: int) -> None:
        arena = self.arena
        if len(slots) <= FEW:
            for base, *row in arena.rows(slots, "owner", *LOOKED_AT):
                self.counts[self._job_at[base - 1]].add(tally(*row), sign)
            return
        nothing = np.zeros(len(slots), dtype=np.bool_)
        self._add_difference(slots, Tally(*[nothing] * len(Tally._fields)), self._tallies(slots))

    def _tallies(self, slots: I64) -> Tally:
        return tally(*(self.arena[column][slots] for column in LOOKED_AT))

    def _add_difference(self, slots: I64, before: Tally, after: Tally) -> None:
        bases, index = indexed(self.arena["owner"][slots] - 1)
        counts = [self.counts[self._job_at[base]] for base in bases.tolist()]
        for name, was, now in zip(Tally._fields, before, after, strict=True):
            for which, sign in ((now & ~was, 1), (was & ~now, -1)):
                if which.any():
                    sums = np.bincount(index[which], minlength=len(bases))
                    for at in np.flatnonzero(sums).tolist():
                        setattr(counts[at], name, getattr(counts[at], name) + sign * int(sums[at]))
