"""The rows of what jobs asked for and used (see `usage.py`), and how they are written."""

from collections.abc import Sequence
from sqlite3 import Connection

import msgspec

MOST = 2**63 - 1
"""The largest number of the file: a sum stays there, whatever hosts have said."""


class Amounts(msgspec.Struct, kw_only=True):
    """Sums over runs.

    `measured`: of so many of the `runs` hosts said what they used. `seconds`: for which they held their hosts. Amounts
    asked for and used are CPU time in ms, and memory, in MiB, times seconds, where what a run used is the most that it
    had at a time; `peak_kib` is the largest of these.
    """

    runs: int = 0
    measured: int = 0
    seconds: int = 0
    asked_cpu_ms: int = 0
    asked_mib_s: int = 0
    used_cpu_ms: int = 0
    peak_mib_s: int = 0
    peak_kib: int = 0
    throttled_ms: int = 0
    read_kib: int = 0
    written_kib: int = 0


class JobUsageRow(Amounts):
    """The runs of a job that ended in a month (202611: November 2026), until the job is forgotten."""

    job_id: str
    month: int


class MonthUsageRow(Amounts):
    """The same of all jobs of a pool that an owner has, for ever."""

    month: int
    pool: str
    owner: str


Addition = tuple[str | int, ...]
"""Amounts to add to the rows of a job and of its pool and owner: job, month, pool, owner, then `Amounts` in order."""
_COLUMNS = ("job_id", "month", "pool", "owner", *Amounts.__struct_fields__)


def _addition(table: str, row: type[Amounts]) -> str:
    """The statement that makes an `Addition` to its row of a table, without reading that."""
    sums, names = Amounts.__struct_fields__, row.__struct_fields__
    keys = [name for name in names if name not in sums]
    added = [f"{name} = min({name} + excluded.{name}, {MOST})" for name in sums if name != "peak_kib"]
    added.append("peak_kib = max(peak_kib, excluded.peak_kib)")
    marks = ", ".join(f"?{_COLUMNS.index(name) + 1}" for name in names)
    return (
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks}) "
        f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {', '.join(added)}"
    )


class UsageSums:
    """Additions that aren't written yet. The fold reads nothing of what is written."""

    def __init__(self) -> None:
        self._statements = _addition("job_usage", JobUsageRow), _addition("month_usage", MonthUsageRow)
        self.new: list[Addition] = []
        """No amount of them is above `MOST`."""
        self.connection: Connection | None = None

    def delete(self, condition: str, values: Sequence[tuple[str, ...]]) -> int:
        """Removes rows of jobs of which a condition holds, for each of the values; returns how many."""
        self.flush()
        assert self.connection is not None
        return max(0, self.connection.executemany(f"DELETE FROM job_usage WHERE {condition}", values).rowcount)

    def flush(self) -> None:
        """Writes what was added."""
        if self.new:
            assert self.connection is not None
            for statement in self._statements:
                self.connection.executemany(statement, self.new)
            self.new.clear()
