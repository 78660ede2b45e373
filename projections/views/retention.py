"""Removes rows from the views, so that they grow with what a cell knows and not with its age.

A job goes with all its rows by the same fact as from the machines: JobsForgotten. What came of a newer submission of
its id stays. Rejected jobs, answers and rounds go `KEPT_MS` after they were written, by the time of their machine.
Each rule depends on the log alone and not on how topics interleave, so that a rebuild gives the same rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from sqlite3 import Connection as DriverConnection
from typing import Any

import numpy as np
from sqlalchemy import Connection

from events.codec import decode
from events.codes import ENDED_JOBS
from events.id_digests import job_digest, split
from events.records.jobs import JobSubmitted
from events.records.lifecycle import JobsForgotten
from events.resources import LONG_MAX
from events.topics import HOSTS, JOBS, POOLS, RANK, TASKS
from projections.views import override_chunks
from projections.views.cache import KEYS_MAX, Cache
from projections.views.job_records import JobEntry
from projections.views.job_states import REJECTED
from projections.views.jobs import row_of
from projections.views.other_histories import HOST, POOL
from projections.views.other_histories import KEPT_MS as OTHERS_KEPT_MS
from projections.views.record_context import RecordContext
from projections.views.rows import JobRow
from projections.views.tasks import RUNS_KEPT
from projections.views.unread import Unread
from projections.views.usage import RunUse

KEPT_MS = 7 * 24 * 3600 * 1000
SWEEP_ROUNDS = 16
"""Every so many rounds of a machine what is too old is looked for."""
SWEPT_MAX = 1000
"""Rejected jobs that leave at once."""
SWEEPERS = {"entitlement": POOL, "placement": HOST}
"""The machines whose time ends entries of the histories of pools and hosts."""
ANSWERED = {"lifecycle": JOBS.name, "entitlement": POOLS.name, "placement": HOSTS.name}

_OLDEST_ROUND = "SELECT number FROM rounds WHERE machine = ? AND now >= ? ORDER BY number LIMIT 1"
_OLDEST_ANSWER = "SELECT offset FROM answers WHERE topic = ? AND round >= ? ORDER BY offset LIMIT 1"
_OLD_REJECTED = f"SELECT job_id FROM jobs WHERE state = '{REJECTED}' AND ended_ms < ? ORDER BY ended_ms, job_id LIMIT ?"
_OLD_HISTORIES = (
    "SELECT DISTINCT job_id FROM history WHERE job_id >= '/' AND job_id < '0' AND job_id >= ? AND job_id < ?"
    " AND first_ms < ? LIMIT 1000"
)
_PAST_HOST = "SELECT host FROM past_runs WHERE job_id = ? AND instance = ? AND run = ?"

Report = tuple[str, int, int, str, int]
"""Job, instance and run that a report is of, the host that says so, and the position before which it stands."""


class JobRetention:
    """Removes the rows of jobs that are forgotten, and reports of runs that are kept no longer."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._unread = Unread(cache.unread, "lifecycle", TASKS.name)
        """The subjects of reports of hosts that lifecycle hasn't read yet: job, instance, run and host, and what the
        run used where it says so; of records about jobs the job alone.
        """
        self.removed = 0
        """Rows removed so far, to bound a transaction by."""

    def restore(self, connection: Connection) -> None:
        """Finds again what lifecycle hasn't read."""
        self._unread.restore(connection)

    def note_unread(self, offset: int, about: Sequence[tuple[Any, ...]]) -> None:
        """Notes a report of a host on jobs, and on runs, each with its use where it tells that. What the views keep of
        it stays if lifecycle knows the job and the run when it reads the report, and the run is on that host.
        """
        if about:
            self._unread.add(offset, *about)

    def flush(self) -> None:
        """Writes what isn't read yet."""
        self._unread.flush()

    def covered(self, position: int) -> list[RunUse]:
        """Lifecycle has read the reports before a position; what they say of the use of runs on their hosts."""
        subjects = [each for about in self._unread.read(position) for each in about]
        if not subjects:
            return []
        self._cache.jobs.load(each[0] for each in subjects)
        void, unknown, reports, uses = list[Report](), set(), [], []
        for job_id, instance, run, *more in subjects:
            job = self._cache.jobs.get(job_id)
            has_tasks = job is not None and job.base >= 0
            if not more:
                unknown |= set() if has_tasks else {job_id}
            elif job is None or not has_tasks or run < job.first_run or not 0 <= instance < job.instances:
                void.append((job_id, instance, run, more[0], position))
            else:
                reports.append((job.base + instance, (job_id, instance, run, more[0], position)))
                uses += [(len(reports) - 1, tuple(use)) for use in more[1:]]
        counts = self._said_by_their_hosts(reports)
        void += [report for (_, report), count in zip(reports, counts, strict=True) if not count]
        if void:
            of = "job_id = ? AND instance = ? AND run = ? AND host_id = ? AND offset < ?"
            self._delete(f"run_reports WHERE {of}", void)
        if unknown:
            self.removed += self._cache.history.keep(
                unknown, lambda _, entry: entry.topic != RANK[TASKS.name] or entry.offset >= position
            )
        return [(*reports[at][1][:3], use) for at, use in uses if counts[at]]

    def _said_by_their_hosts(self, reports: Sequence[tuple[int, Report]]) -> list[bool]:
        """Whether reports, each with the slot of its task, are of runs that are kept and by the hosts of these, as
        lifecycle holds it: nobody else can know.
        """
        if not reports:
            return []
        slots = np.array([slot for slot, _ in reports])
        places = self._cache.tasks.place(slots)  # first: it may move the columns
        present, host = (self._cache.tasks[name][places].tolist() for name in ("run", "host"))
        numbers = [
            number if run == newest else self._host_of_past(job_id, instance, run) if newest - RUNS_KEPT <= run else 0
            for (_, (job_id, instance, run, *_)), newest, number in zip(reports, present, host, strict=True)
        ]
        names = {row.number: row.host_id for row in self._cache.host_names.get_all(numbers) if row is not None}
        return [names.get(number) == report[3] for (_, report), number in zip(reports, numbers, strict=True)]

    def _host_of_past(self, job_id: str, instance: int, run: int) -> int:
        """The number of the host of a run that another one came after; 0: none is known."""
        self._cache.past_runs.flush()
        row = self._connection.execute(_PAST_HOST, (job_id, instance, run)).fetchone()
        return row[0] if row else 0

    def forgotten(self, event: JobsForgotten, covered: Mapping[str, int]) -> list[tuple[str, str]]:
        """Lifecycle keeps nothing of these jobs any more; `covered`: what it had read. Returns those that go, each with
        its pool.
        """
        digests = (*split(event.digests), *map(job_digest, event.job_ids))
        self._cache.jobs.flush()
        job_ids = [job_id for digest in digests for job_id in self._named(digest)]
        self._cache.jobs.load(job_ids)
        rows = [row for row in map(self._cache.jobs.get, job_ids) if row is not None and row.state in ENDED_JOBS]
        self._drop(rows, covered)
        return [(row.job_id, row.pool) for row in rows]

    def sweep(self, moment: RecordContext, covered: Mapping[str, int]) -> None:
        """After a round of a machine: what it wrote too long ago goes."""
        if moment.round % SWEEP_ROUNDS:
            return
        machine, limit = moment.machine, moment.now - KEPT_MS
        self._cache.rounds.flush()
        [(oldest,)] = self._connection.execute(_OLDEST_ROUND, (machine, limit))
        self._delete("rounds WHERE machine = ? AND number < ?", [(machine, oldest)])
        topic = ANSWERED.get(machine)
        if topic is not None:
            self._cache.answers.flush()
            first_row = self._connection.execute(_OLDEST_ANSWER, (topic, oldest)).fetchone()
            self._delete("answers WHERE topic = ? AND offset < ?", [(topic, first_row[0] if first_row else LONG_MAX)])
        if machine == "entitlement":
            self._cache.orders.flush()
            self._delete("victims WHERE number IN (SELECT number FROM orders WHERE at_ms < ?)", [(limit,)])
            self.removed += self._cache.orders.delete("at_ms < ?", [(limit,)])
        if machine == "placement":
            self._sweep_campaigns(moment.now - OTHERS_KEPT_MS)
        if prefix := SWEEPERS.get(machine):
            self._sweep_histories(prefix, moment.now - OTHERS_KEPT_MS)
        if machine == "lifecycle":
            self._cache.jobs.flush()
            old = [job_id for (job_id,) in self._connection.execute(_OLD_REJECTED, (limit, SWEPT_MAX))]
            rows = [row for row in map(self._cache.jobs.get, old) if row is not None]
            self._drop(rows, covered)

    def _sweep_campaigns(self, limit: int) -> None:
        """Drops campaigns that were over before."""
        old = "maintenance_id IN (SELECT maintenance_id FROM maintenances WHERE ended_ms > 0 AND ended_ms < ?)"
        self._cache.maintenances.flush()
        self.removed += self._cache.maintenance_hosts.delete(old, [(limit,)])
        self.removed += self._cache.maintenances.delete("ended_ms > 0 AND ended_ms < ?", [(limit,)])

    def _sweep_histories(self, prefix: str, limit: int) -> None:
        self._cache.history.flush()
        names = [name for (name,) in self._connection.execute(_OLD_HISTORIES, (prefix, prefix + "\x7f", limit))]
        if names:
            self.removed += self._cache.history.keep(names, lambda _, entry: entry.at_ms >= limit)

    @property
    def _connection(self) -> DriverConnection:
        connection = self._cache.jobs.connection
        assert connection is not None
        return connection

    def _named(self, digest: bytes) -> Sequence[str]:
        return [job_id for (job_id,) in self._connection.execute("SELECT job_id FROM jobs WHERE digest = ?", (digest,))]

    def _drop(self, rows: Sequence[JobRow], covered: Mapping[str, int]) -> None:
        if not rows:
            return
        cache, ids = self._cache, [row.job_id for row in rows]
        cache.flush()
        versions = "offset IN (SELECT offset FROM versions WHERE job_id = ?)"
        self.removed += cache.submissions.delete(versions, [(each,) for each in ids])
        for row in rows:
            cache.jobs.remove(row.job_id)
            cache.submissions.remove(row.offset)
        self.removed += 2 * len(rows)
        cache.flush()
        tasks = covered.get(TASKS.name, 0)
        self._drop_history(ids, covered.get(JOBS.name, 0), tasks)
        for table in (
            cache.past_runs,
            cache.stops,
            cache.run_devices,
            cache.run_needs,
            cache.victims,
            cache.update_steps,
            cache.versions,
            cache.updates,
            cache.usage,
            cache.waits,
            cache.disruptions,
            cache.deferrals,
        ):
            self.removed += table.delete("job_id = ?", [(each,) for each in ids])
        override_chunks.remove_unused(cache)
        self.removed += cache.reservations.delete("job_id = ?", [(each,) for each in ids])
        self._delete("run_reports WHERE job_id = ? AND offset < ?", [(each, tasks) for each in ids])
        for base, size in _stretches((row.base, row.slots) for row in rows):
            cache.tasks.clear(base, size)
        for base, size in _stretches((row.port_base, row.slots * row.ports) for row in rows):
            cache.ports.clear(base, size)
        for start in range(0, len(ids), KEYS_MAX):
            self._show_newer(ids, start)

    def _drop_history(self, ids: Sequence[str], jobs: int, tasks: int) -> None:
        """Drops histories, but for facts that lifecycle hadn't read, and submissions that are still there."""
        open_ = {offset for start in range(0, len(ids), KEYS_MAX) for offset, *_ in self._submissions(ids, start)}

        def newer(_: str, entry: JobEntry) -> bool:
            if entry.topic == RANK[JOBS.name]:
                return entry.offset >= jobs or entry.offset in open_
            return entry.topic == RANK[TASKS.name] and entry.offset >= tasks

        self.removed += self._cache.history.keep(ids, newer)

    def _submissions(self, ids: Sequence[str], start: int) -> list[tuple[int, int, bytes]]:
        """Where submissions of `KEYS_MAX` jobs stand, when they were made, and what they say, in order."""
        part = ids[start : start + KEYS_MAX]
        marks = ", ".join("?" * len(part))
        text = f"SELECT offset, at_ms, value FROM submissions WHERE job_id IN ({marks}) ORDER BY offset"
        return self._connection.execute(text, part).fetchall()

    def _show_newer(self, ids: Sequence[str], start: int) -> None:
        """Jobs that were submitted again meanwhile stand on the first of those submissions."""
        for offset, at_ms, value in self._submissions(ids, start):
            event = decode(value)
            assert isinstance(event, JobSubmitted)
            if self._cache.jobs.get(event.job_id) is None:
                self._cache.jobs.put(row_of(offset, offset, at_ms, event))

    def _delete(self, text: str, values: Sequence[tuple[object, ...]]) -> None:
        cache = self._cache
        for lines in (cache.run_reports, cache.victims):
            lines.flush()
        done = self._connection.executemany(f"DELETE FROM {text}", values)
        self.removed += max(0, done.rowcount)


def _stretches(parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches of slots as (first, size), neighbours as one; a job that was never accepted has none."""
    out: list[tuple[int, int]] = []
    for base, size in sorted((base, size) for base, size in parts if base >= 0 and size):
        if out and sum(out[-1]) == base:
            out[-1] = (out[-1][0], out[-1][1] + size)
        else:
            out.append((base, size))
    return out
