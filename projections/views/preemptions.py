"""Folds which runs leave for whom: orders with their victims and answers, what was asked and refused before them."""

import numpy as np

from events.records.entitlement import PreemptionsOrdered
from events.records.lifecycle import PreemptionAnswered
from projections.views.cache import Cache
from projections.views.job_history import concerns
from projections.views.pools import settings_in
from projections.views.record_context import Folds, RecordContext
from projections.views.rows import to_json
from projections.views.sharing_rows import OrderRow

JOBS_NAMED = 20
"""Jobs with victims that an order's row names."""


class PreemptionFold:
    """The fold of orders to preempt. Victims' rows go with their jobs, orders some time after they were given."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.folds: Folds = {PreemptionsOrdered: self._ordered, PreemptionAnswered: self._answered}

    def _answered(self, moment: RecordContext, event: PreemptionAnswered) -> None:
        row = self._cache.orders.change(event.number)
        if row is not None:
            row.answer, row.answered_ms = event.code, moment.now

    def _ordered(self, moment: RecordContext, event: PreemptionsOrdered) -> None:
        job, pool = event.job_array, event.from_pool_array
        columns = np.stack([event.instance_array, event.run_array, event.way_array, event.slice_array])
        by_job = np.bincount(job, minlength=len(event.job_ids)).tolist()
        by_pool = np.bincount(pool, minlength=len(event.from_pools)).tolist()
        settings = settings_in(self._cache)
        tasks_by_job = dict(zip(event.job_ids, by_job, strict=True))
        self._cache.orders.put(
            OrderRow(
                number=event.order,
                round=moment.round,
                at_ms=moment.now,
                hold_for_ms=settings.hold_for_ms,
                defer_for_ms=settings.defer_for_ms,
                code=event.code,
                for_pool=event.for_pool,
                for_job=event.for_job,
                for_first=event.for_first,
                for_count=event.for_count,
                for_run=event.for_run,
                victims=len(job),
                host_ids=to_json(event.host_ids),
                spared=to_json(event.spared),
                from_pools=to_json(dict(zip(event.from_pools, by_pool, strict=True))),
                from_jobs=to_json(dict(list(tasks_by_job.items())[:JOBS_NAMED])),
            )
        )
        self._cache.jobs.load(event.job_ids)
        for index, job_id in enumerate(event.job_ids):
            if not concerns(self._cache.jobs.get(job_id), moment):
                continue
            mine = np.flatnonzero(job == index)
            of = event.from_pools[pool[mine[0]]] if len(mine) else ""
            runs = np.ascontiguousarray(columns[:, mine]).astype("<i4").tobytes()
            self._cache.victims.add(job_id, event.order, of, len(mine), runs)
