"""The rows of the ledger of waits (see `ledger.py`), and how they are written.

A sum is kept as two numbers that only ever have something added to them: `tasks`, how many more tasks are counted now
than before, and `ms`, which begins and ends with the times of these changes taken off or added. So `ms + tasks * T` is
the sum at a time T after all of them, whatever was folded first, and nobody writes while time passes (decision 124).
"""

from sqlite3 import Connection

import msgspec

WEEK_MS = 7 * 86_400_000
_MONDAY_MS = 4 * 86_400_000
"""The first Monday of 1970, UTC."""
STANDING = -1
"""In place of a week: the sum of all."""


def week_of(at_ms: int) -> int:
    """The number of the week of a time, from Monday to Sunday in UTC."""
    return (at_ms - _MONDAY_MS) // WEEK_MS


def begin_of(week: int) -> int:
    """When a week begins."""
    return _MONDAY_MS + week * WEEK_MS


class JobWaitsRow(msgspec.Struct):
    """Task-milliseconds of a job by code, until it is forgotten; times count from its submission."""

    job_id: str
    code: str
    tasks: int = 0
    ms: int = 0


class WeekWaitsRow(msgspec.Struct):
    """The same of all jobs of a pool that an owner has, by week, for ever (decision 125); `tasks` and `ms` are of the
    changes of that week alone, `ms` counts from its beginning. The row of `STANDING` has the sum of `tasks` over all.
    """

    week: int
    pool: str
    owner: str
    code: str
    tasks: int = 0
    ms: int = 0


class WeekOwnerRow(msgspec.Struct):
    """An owner of jobs that were accepted in the newest week, one of those that are counted by themselves."""

    week: int
    owner: str


def _addition(table: str, *keys: str) -> str:
    names = (*keys, "tasks", "ms")
    return (
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "
        f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET tasks = tasks + excluded.tasks, ms = ms + excluded.ms"
    )


class WaitSums:
    """Additions that aren't written yet. The fold reads nothing of what is written."""

    def __init__(self) -> None:
        self._add_to_job = _addition("job_waits", "job_id", "code")
        self._add_to_week = _addition("week_waits", "week", "pool", "owner", "code")
        self.jobs: dict[tuple[str, str], list[int]] = {}
        """Tasks and milliseconds by job and code."""
        self.weeks: dict[tuple[int, str, str, str], list[int]] = {}
        """The same by week, pool, owner and code."""
        self.connection: Connection | None = None

    def delete(self, condition: str, values: list[tuple[str, ...]]) -> int:
        """Removes rows of jobs of which a condition holds, for each of the values; returns how many."""
        self.flush()
        assert self.connection is not None
        return max(0, self.connection.executemany(f"DELETE FROM job_waits WHERE {condition}", values).rowcount)

    def flush(self) -> None:
        """Writes what was added."""
        if self.jobs:
            assert self.connection is not None
            self.connection.executemany(self._add_to_job, [(*key, *sums) for key, sums in self.jobs.items()])
            self.jobs = {}
        if self.weeks:
            assert self.connection is not None
            rows = [(*key, *sums) for key, sums in self.weeks.items()]
            rows += [(STANDING, *key[1:], sums[0], 0) for key, sums in self.weeks.items()]
            self.connection.executemany(self._add_to_week, rows)
            self.weeks = {}
