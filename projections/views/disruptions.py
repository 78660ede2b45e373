"""Folds what lifecycle asks of sla, and its verdicts: which runs are to go, and by which code they wait."""

import numpy as np
from sqlalchemy import Connection, select

from events.records.base import ItemsEvent
from events.records.lifecycle import DisruptionAsked, DisruptionWithdrawn, RunsEnded
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from projections.views import tables
from projections.views.cache import Cache
from projections.views.job_history import concerns
from projections.views.maintenance_rows import DeferralRow, DisruptionRow
from projections.views.record_context import Folds, RecordContext


class DisruptionFold:
    """The fold of asked disruptions. What is said of a job that is forgotten is left out."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._asked_jobs: set[str] = set()
        """Jobs of which runs may be asked for: of others the ends of runs are passed over."""
        self.folds: Folds = {
            DisruptionAsked: self._asked,
            DisruptionWithdrawn: self._withdrawn,
            DisruptionAllowed: self._allowed,
            DisruptionDeferred: self._deferred,
            RunsEnded: self._ended,
        }

    def restore(self, connection: Connection) -> None:
        """Finds again of which jobs runs are asked for."""
        columns = tables.disruptions.c
        self._asked_jobs = set(connection.execute(select(columns.job_id).distinct().where(columns.run > 0)).scalars())

    def _ended(self, moment: RecordContext, event: RunsEnded) -> None:
        """Runs that are over are asked for no more."""
        if self._asked_jobs and not self._asked_jobs.isdisjoint(event.job_ids):
            self._withdrawn(moment, event)

    def _rows(
        self, moment: RecordContext, event: ItemsEvent, create: bool = True
    ) -> list[tuple[int, DisruptionRow, int]]:
        """The place in the record, the row and the run of each item, of jobs that are there; `create`: of items without
        a row, too.
        """
        rows, ids = self._cache.disruptions, event.job_ids
        self._cache.jobs.load(ids)
        there = [concerns(self._cache.jobs.get(job_id), moment) for job_id in ids]
        columns = (column.tolist() for column in event.items())
        items = [(at, (ids[job], instance), run) for at, (job, instance, run) in enumerate(zip(*columns, strict=True))
                 if there[job]]  # fmt: skip
        rows.load(key for _, key, _ in items)
        if create:
            return [(at, rows.change(key) or rows.put(DisruptionRow(*key)), run) for at, key, run in items]
        return [(at, row, run) for at, key, run in items if (row := rows.change(key)) is not None]

    def _asked(self, moment: RecordContext, event: DisruptionAsked) -> None:
        round_s = moment.now // 1000
        self._asked_jobs.update(event.job_ids)
        since, why = event.since_array.tolist(), event.why_array.tolist()
        for at, row, run in self._rows(moment, event):
            row.run, row.since_s, row.why = run, since[at] if since else round_s, why[at] if why else 0

    def _withdrawn(self, moment: RecordContext, event: DisruptionWithdrawn | RunsEnded) -> None:
        for _, row, run in self._rows(moment, event, create=False):
            if row.run == run:
                row.run = 0

    def _allowed(self, moment: RecordContext, event: DisruptionAllowed) -> None:
        for _, row, run in self._rows(moment, event):
            row.judged_run, row.code, row.judged_ms = run, "", moment.now

    def _deferred(self, moment: RecordContext, event: DisruptionDeferred) -> None:
        for _, row, run in self._rows(moment, event):
            if (row.judged_run, row.code) != (run, event.code):
                row.judged_run, row.code, row.judged_ms = run, event.code, moment.now
        until = event.until_array if event.until else np.zeros(len(event.job_ids), np.int64)
        groups = event.groups or ("",) * len(event.job_ids)
        columns = (each.tolist() for each in (event.unavailable_array, event.max_unavailable_array, until))
        for job_id, group, unavailable, most, until_s in zip(event.job_ids, groups, *columns, strict=True):
            if concerns(self._cache.jobs.get(job_id), moment):
                numbers = (unavailable, most, group, until_s, moment.now)
                self._cache.deferrals.put(DeferralRow(job_id, event.code, *numbers))
