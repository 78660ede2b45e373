"""Rows between the fold and the file: read when needed, changed in memory, written in one piece per batch."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from sqlite3 import Connection
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import astuple
from sqlalchemy import Table

from events.codes import LIVE_TASKS, TaskState
from projections.views import (
    access_rows,
    forecast_rows,
    ledger_rows,
    maintenance_rows,
    rows,
    run_rows,
    series_rows,
    sharing_rows,
    sla_rows,
    tables,
    update_rows,
)
from projections.views.blocks import Blocks
from projections.views.job_records import JobRecords
from projections.views.ledger_rows import WaitSums
from projections.views.usage_rows import UsageSums

R = TypeVar("R", bound=msgspec.Struct)

TASK_COLUMNS = ("state", "run", "host", "exit_code", "outcome", "failures", "standing", "since_s", "version",
                "update", "step", "due_s", "state_s", "ordered_s", "started_s", "ended_s", "why",
                "part_ms")  # fmt: skip
"""`exit_code`, `outcome` and `why` (a `RunCause`) are those of the last run that ended, 0 from the order of the next
one on; `why` is told as soon as a run is to stop. `standing` is
what entitlement says (`waiting.py`), `since_s` the second since when a task has its state or, while it waits, that.
`version` is that of the last run that was ordered, `update` the last update that took the task, `step` how far it is.
`due_s` is the second until which a task waits for its next run, 0: it doesn't wait for a time; `state_s` the
second since when it has its state. `ordered_s`, `started_s` and `ended_s` are when the last run that was ordered was
that, was available, and was over; 0: it wasn't yet. `part_ms` is the millisecond of the second
in which a run began to run, or to stop where it never ran.
"""
WAITING_TASKS = (TaskState.QUEUED, TaskState.ORDERED)
"""Those that wait for admission, a place, or their start."""
KEPT_MAX = 20_000
"""Rows of one table kept in memory between batches."""
KEYS_MAX = 512
"""Keys asked for in one statement."""


class Rows(Generic[R]):
    """The rows of one table by key; a key of several columns is a tuple. `fixed` columns change by `put` alone: a row
    from `change` is written without them and what indexes them.
    """

    def __init__(self, table: Table, row: type[R], fixed: Sequence[str] = ()) -> None:
        names = [field.name for field in msgspec.structs.fields(row)]
        self._keys = [column.name for column in table.primary_key]
        self._key: Callable[[R], Any] = attrgetter(*self._keys)
        self._row = row
        self._table = table.name
        columns = ", ".join(f'"{name}"' for name in names)
        quoted = ", ".join(f'"{key}"' for key in self._keys)
        marks = ", ".join("?" * len(names))
        self._select = f"SELECT {columns} FROM {table.name} WHERE ({quoted}) IN (VALUES "
        self._insert = f"INSERT OR REPLACE INTO {table.name} ({columns}) VALUES ({marks})"
        same = " AND ".join(f'"{key}" = ?' for key in self._keys)
        self._delete = f"DELETE FROM {table.name} WHERE {same}"
        moving = [name for name in names if name not in (*self._keys, *fixed)]
        settings = ", ".join(f'"{name}" = ?' for name in moving)
        self._update = f"UPDATE {table.name} SET {settings} WHERE {same}" if fixed else ""
        self._moved: Callable[[R], tuple[Any, ...]] = attrgetter(*moving, *self._keys)
        self._mark = f"({', '.join('?' * len(self._keys))})"
        self._rows: dict[Any, R | None] = {}
        self._changed: dict[Any, bool] = {}
        """Whether all columns are written, or those that aren't fixed."""
        self._gone: list[tuple[Any]] = []
        """First columns of keys whose rows in the file are removed by the next flush."""
        self.connection: Connection | None = None
        self.touched = False
        """Whether rows were read or changed since they were last written: most tables have none of that for long."""

    def load(self, keys: Iterable[Any]) -> None:
        """Reads rows that are not in memory, many at a time."""
        rows = self._rows
        missing = [key for key in dict.fromkeys(keys) if key not in rows]
        if missing and self._gone:
            self._remove_gone()
        self.touched = self.touched or bool(missing)
        for start in range(0, len(missing), KEYS_MAX):
            part = missing[start : start + KEYS_MAX]
            rows.update(dict.fromkeys(part))
            # Few texts, whatever the number of keys: the driver keeps the statements that it has prepared.
            part += part[-1:] * ((1 << (len(part) - 1).bit_length()) - len(part))
            values = part if len(self._keys) == 1 else [value for key in part for value in key]
            assert self.connection is not None
            text = f"{self._select}{', '.join([self._mark] * len(part))})"
            for values_read in self.connection.execute(text, values):
                row = self._row(*values_read)
                rows[self._key(row)] = row

    def get(self, key: Any) -> R | None:
        """The row, to look at."""
        if key not in self._rows:
            self.load((key,))
        return self._rows[key]

    def get_all(self, keys: Sequence[Any]) -> list[R | None]:
        """The rows, to look at; those that aren't in memory are read at once."""
        self.load(keys)
        return list(map(self._rows.__getitem__, keys))

    def change(self, key: Any) -> R | None:
        """The row, to change in place; None where there is none."""
        row = self._rows.get(key) or self.get(key)
        if row is not None and key not in self._changed:
            self._changed[key] = not self._update
            self.touched = True
        return row

    def put(self, row: R) -> R:
        """Sets a row and returns it."""
        key = self._key(row)
        self._rows[key] = row
        self._changed[key] = self.touched = True
        return row

    def remove(self, key: Any) -> None:
        """Removes a row, if it is there."""
        self._rows[key] = None
        self._changed[key] = self.touched = True

    def remove_all(self, first: Any, others: Iterable[Any]) -> None:
        """Removes the rows with a first column of their key and these second ones, and no others have it: without
        reading which of them are there.
        """
        rows = self._rows
        for other in others:
            rows.pop((first, other), None)
            self._changed.pop((first, other), None)
        self._gone.append((first,))
        self.touched = True

    def delete(self, condition: str, values: Sequence[tuple[Any, ...]]) -> int:
        """Removes all rows of which a condition holds, for each of the values; returns how many."""
        self.flush()
        assert self.connection is not None
        done = self.connection.executemany(f"DELETE FROM {self._table} WHERE {condition}", values).rowcount
        if done > 0:
            self._rows.clear()
        return max(0, done)

    def flush(self) -> None:
        """Writes what changed."""
        assert self.connection is not None
        if self._gone:
            self._remove_gone()
        if self._changed:
            deleted = [self._values(key) for key in self._changed if self._rows[key] is None]
            changes = [(row, all_) for key, all_ in self._changed.items() if (row := self._rows[key]) is not None]
            whole, moved = [row for row, all_ in changes if all_], [row for row, all_ in changes if not all_]
            if deleted:
                self.connection.executemany(self._delete, deleted)
            if whole:
                self.connection.executemany(self._insert, map(astuple, whole))
            if moved:
                self.connection.executemany(self._update, map(self._moved, moved))
            self._changed.clear()
        if len(self._rows) > KEPT_MAX:
            for key in list(self._rows)[: len(self._rows) - KEPT_MAX // 2]:
                del self._rows[key]
        self.touched = False

    def _remove_gone(self) -> None:
        assert self.connection is not None
        self.connection.executemany(f'DELETE FROM {self._table} WHERE "{self._keys[0]}" = ?', self._gone)
        self._gone.clear()

    def _values(self, key: Any) -> tuple[Any, ...]:
        return (key,) if len(self._keys) == 1 else tuple(key)


class Lines(Generic[R]):
    """Rows that are only added; the same row twice is one."""

    def __init__(self, table: Table, row: type[R]) -> None:
        names = [field.name for field in msgspec.structs.fields(row)]
        columns = ", ".join(f'"{name}"' for name in names)
        self._table = table.name
        self._insert = f"INSERT OR REPLACE INTO {table.name} ({columns}) VALUES ({', '.join('?' * len(names))})"
        self._new: list[tuple[Any, ...]] = []
        self.connection: Connection | None = None

    def add(self, *values: Any) -> None:
        """Adds a row, its values in the order of the columns."""
        self._new.append(values)

    def delete(self, condition: str, values: Sequence[tuple[Any, ...]]) -> int:
        """Removes all rows of which a condition holds, for each of the values; returns how many."""
        self.flush()
        assert self.connection is not None
        return max(0, self.connection.executemany(f"DELETE FROM {self._table} WHERE {condition}", values).rowcount)

    def __len__(self) -> int:
        return len(self._new)

    def flush(self) -> None:
        """Writes what was added."""
        assert self.connection is not None
        if self._new:
            self.connection.executemany(self._insert, self._new)
            self._new = []


Holder = Rows[Any] | Lines[Any] | Blocks | JobRecords | UsageSums | WaitSums
_HOLDERS = (Rows, Lines, Blocks, JobRecords, UsageSums, WaitSums)


class Cache:
    """All rows that the folds change, and the one transaction that they are written in."""

    def __init__(self) -> None:
        self.submissions = Rows(tables.submissions, rows.SubmissionRow)
        self.override_chunks = Rows(tables.override_chunks, rows.OverrideChunkRow)
        self.jobs = Rows(tables.jobs, rows.JobRow, rows.FIXED_OF_JOB)
        self.commands = Rows(tables.commands, update_rows.CommandRow)
        self.versions = Rows(tables.versions, update_rows.VersionRow)
        self.updates = Rows(tables.updates, update_rows.UpdateRow)
        self.update_steps = Lines(tables.update_steps, update_rows.UpdateStepRow)
        self.pools = Rows(tables.pools, rows.PoolRow)
        self.pool_facts = Rows(tables.pool_facts, rows.PoolFactRow)
        self.pool_use = Rows(tables.pool_use, rows.PoolUseRow)
        self.hosts = Rows(tables.hosts, rows.HostRow, ("place",))
        self.volumes = Rows(tables.volumes, rows.VolumeRow)
        self.host_names = Rows(tables.host_names, rows.HostNameRow)
        self.explanations = Rows(tables.explanations, rows.ExplanationRow)
        self.positions = Rows(tables.positions, rows.PositionRow)
        self.chains = Rows(tables.chains, rows.ChainRow)
        self.owners = Rows(tables.owners, rows.OwnerRow)
        self.meta = Rows(tables.meta, rows.MetaRow)
        self.waiting = Rows(tables.waiting, sharing_rows.WaitingRow)
        self.holds = Rows(tables.holds, sharing_rows.WaitReasonRow)
        self.orders = Rows(tables.orders, sharing_rows.OrderRow)
        self.victims = Lines(tables.victims, sharing_rows.VictimsRow)
        self.reservations = Rows(tables.reservations, sharing_rows.ReservationRow)
        self.turns = Rows(tables.turns, sharing_rows.TurnRow)
        self.credits = Rows(tables.credits, sharing_rows.CreditRow)
        self.history = JobRecords()
        self.answers = Lines(tables.answers, rows.AnswerRow)
        self.rounds = Lines(tables.rounds, rows.RoundRow)
        self.quarantine = Lines(tables.quarantine, rows.QuarantineRow)
        self.run_reports = Lines(tables.run_reports, run_rows.RunReportRow)
        self.run_needs = Rows(tables.run_needs, run_rows.RunNeedsRow)
        self.run_devices = Rows(tables.run_devices, run_rows.RunDevicesRow)
        self.stops = Rows(tables.stops, run_rows.StopRow)
        self.past_runs = Lines(tables.past_runs, run_rows.PastRunRow)
        self.series = Lines(tables.series, series_rows.SeriesRow)
        self.unread = Lines(tables.unread, series_rows.UnreadRow)
        self.tallies = Rows(tables.tallies, series_rows.TallyRow)
        self.marks = Rows(tables.marks, series_rows.MarkRow)
        self.pool_numbers = Rows(tables.pool_numbers, series_rows.PoolNumberRow)
        self.pool_tasks = Rows(tables.pool_tasks, series_rows.PoolTasksRow)
        self.host_stages = Rows(tables.host_stages, maintenance_rows.HostStageRow)
        self.host_commands = Rows(tables.host_commands, maintenance_rows.HostCommandRow)
        self.maintenances = Rows(tables.maintenances, maintenance_rows.MaintenanceRow)
        self.maintenance_hosts = Rows(tables.maintenance_hosts, maintenance_rows.MaintenanceHostRow)
        self.host_pool_moves = Rows(tables.host_pool_moves, rows.HostPoolMoveRow)
        self.host_pools = Rows(tables.host_pools, rows.HostPoolRow)
        self.maintenance_windows = Rows(tables.maintenance_windows, maintenance_rows.MaintenanceWindowRow)
        self.disruptions = Rows(tables.disruptions, maintenance_rows.DisruptionRow)
        self.deferrals = Rows(tables.deferrals, maintenance_rows.DeferralRow)
        self.slas = Rows(tables.slas, sla_rows.SlaRow)
        self.sla_groups = Rows(tables.sla_groups, sla_rows.SlaGroupRow)
        self.bindings = Rows(tables.bindings, access_rows.RoleBindingRow)
        self.access_tokens = Rows(tables.access_tokens, access_rows.AccessTokenRow)
        self.token_uses = Rows(tables.token_uses, access_rows.TokenUseRow)
        self.lockdowns = Rows(tables.lockdowns, access_rows.LockdownRow)
        self.invitations = Rows(tables.invitations, access_rows.InvitationRow)
        self.certificates = Rows(tables.certificates, access_rows.CertificateRow)
        self.host_removals = Rows(tables.host_removals, access_rows.HostRemovalRow)
        self.access_facts = Rows(tables.access_facts, access_rows.AccessFactRow)
        self.forecasts = Rows(tables.forecasts, forecast_rows.ForecastRow)
        self.forecast_scores = Rows(tables.forecast_scores, forecast_rows.ForecastScoreRow)
        self.week_owners = Lines(tables.week_owners, ledger_rows.WeekOwnerRow)
        self.waits = WaitSums()
        self.usage = UsageSums()
        self.tasks = Blocks(tables.task_blocks, TASK_COLUMNS, LIVE_TASKS, WAITING_TASKS)
        self.ports = Blocks(tables.port_blocks, ("port",))
        self._all: tuple[Holder, ...] = tuple(each for each in vars(self).values() if isinstance(each, _HOLDERS))
        self._rows = tuple(holder for holder in self._all if isinstance(holder, Rows))
        self._others = tuple(holder for holder in self._all if not isinstance(holder, Rows))

    def begin(self, connection: Connection) -> None:
        """Reads and writes through this connection from now on."""
        for holder in self._all:
            holder.connection = connection

    def flush(self) -> None:
        """Writes everything that changed; the caller commits."""
        for rows_of_table in self._rows:
            if rows_of_table.touched:
                rows_of_table.flush()
        for holder in self._others:
            holder.flush()
