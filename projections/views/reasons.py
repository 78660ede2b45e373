"""Folds why tasks wait: one row per job and kind, each kind said by one machine alone.

`held` and `preempted` are entitlement's, `unplaced` placement's, `deferred` lifecycle's, `disruption` sla's. A row goes
when its machine says that what it was about has come to pass for all its tasks; one of `deferred` says which round's
preemption was given up, so that `preempted` and `disruption` hold no longer. Rows of WAITS stay then, with 0 tasks:
a machine says a reason anew only when the code changes, so tasks that came later may still wait for it. All rows of
a job go with its end.
"""

from typing import Any

import msgspec
import numpy as np

from events.columns import ints
from events.records.base import Event
from events.records.entitlement import GangsAdmitted, GangsHeld, PreemptionsOrdered
from events.records.lifecycle import PreemptionAnswered
from events.records.placement import GangsReturned, GangsUnplaced, TasksPlaced
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from projections.views.cache import Cache
from projections.views.job_history import concerns
from projections.views.record_context import RecordContext
from projections.views.rows import ExplanationRow, to_json

WAITS = ("held", "unplaced")
_LEFT_OUT = ("job_id", "job_ids", "code", "tasks", "cause")
KINDS = ("held", "preempted", "unplaced", "deferred", "disruption")


class ReasonFold:
    """See above."""

    def __init__(self, cache: Cache) -> None:
        self._rows = cache.explanations
        self._jobs = cache.jobs

    def decision(self, moment: RecordContext, event: Event) -> None:
        """Folds a decision of any machine."""
        match event:
            case GangsHeld():
                for job_id, tasks in _per_job(event, ints(event.count)):
                    self._say(moment, job_id, "held", event.code, tasks, _numbers(event))
            case GangsAdmitted():
                self._settle("held", event, ints(event.count))
                self._settle("preempted", event, ints(event.count))
            case PreemptionsOrdered():
                numbers = {"for_pool": event.for_pool, "for_job": event.for_job}
                for job_id, tasks in _per_job(event):
                    self._say(moment, job_id, "preempted", event.code, tasks, numbers)
            case GangsUnplaced():
                self._say(moment, event.job_id, "unplaced", event.code, event.tasks, _numbers(event))
            case GangsReturned():
                self._returned(moment, event)
            case TasksPlaced():
                self._settle("unplaced", event)
            case PreemptionAnswered():
                for job_id, tasks in _per_job(event):
                    self._say(moment, job_id, "deferred", event.code, tasks, {"order": event.order.round})
            case DisruptionDeferred():
                self._say(moment, event.job_id, "disruption", event.code, 1, _numbers(event))
            case DisruptionAllowed():
                self._settle("disruption", event)

    def _say(
        self, moment: RecordContext, job_id: str, kind: str, code: str, tasks: int, numbers: dict[str, Any] | None
    ) -> None:
        """Sets a reason; `since` stays while the code does, and so do the numbers where there are no new ones.

        A machine that hasn't heard yet that a job is over may still explain it: then there is nothing to explain.
        """
        job = self._jobs.get(job_id)
        if job is None or job.ended_ms or not concerns(job, moment):
            return
        before = self._rows.get((job_id, kind))
        same = before is not None and before.code == code and before.tasks > 0
        text = to_json(numbers) if numbers is not None else (before.numbers if before else "{}")
        since = before.since_ms if before is not None and same else moment.now
        self._rows.put(ExplanationRow(job_id, kind, moment.machine, code, tasks, since, moment.round, text))

    def _returned(self, moment: RecordContext, event: GangsReturned) -> None:
        for job_id, tasks in _per_job(event, ints(event.count)):
            before = self._rows.get((job_id, "unplaced"))
            self._say(moment, job_id, "unplaced", event.code, tasks, None if before else {})

    def _settle(self, kind: str, event: Any, count: Any = None) -> None:
        """So many tasks have what they waited for."""
        self._rows.load((job_id, kind) for job_id in event.job_ids)
        if all(self._rows.get((job_id, kind)) is None for job_id in event.job_ids):
            return
        for job_id, tasks in _per_job(event, count):
            row = self._rows.get((job_id, kind))
            if row is None:
                continue
            if row.tasks <= tasks and kind not in WAITS:
                self._rows.remove((job_id, kind))
            else:
                self._rows.put(msgspec.structs.replace(row, tasks=max(0, row.tasks - tasks)))


def _numbers(event: Event) -> dict[str, Any]:
    """What a reason says beside whom it is about."""
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in _LEFT_OUT}
    return {name: value for name, value in fields.items() if not isinstance(value, bytes)}


def _per_job(event: Any, count: Any = None) -> list[tuple[str, int]]:
    """The jobs that a record names, with how many of their tasks."""
    sums = np.zeros(len(event.job_ids), dtype=np.int64)
    np.add.at(sums, ints(event.job), 1 if count is None else count)
    return list(zip(event.job_ids, sums.tolist(), strict=True))
