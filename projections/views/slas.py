"""Folds the SLAs of jobs, and the budgets that jobs share."""

from sqlalchemy import Connection, select

from events.instance_changes import instance_change
from events.job_ends import is_over
from events.records.lifecycle import InstancesChanged, JobAccepted, JobChanged, JobSlaChanged, SlaGroupSet
from events.sla import Bounds, has_sla
from projections.views import tables
from projections.views.cache import Cache
from projections.views.record_context import Folds, RecordContext
from projections.views.rows import to_json
from projections.views.sla_rows import SlaGroupRow, SlaRow


class SlaFold:
    """The fold of SLAs. A job without one, or that is over, has no row."""

    def __init__(self, cache: Cache) -> None:
        self._slas = cache.slas
        self._groups = cache.sla_groups
        self._jobs: set[str] = set()
        """The jobs that have a row: most that end have none, and aren't looked for."""
        self.folds: Folds = {
            JobAccepted: self._accepted,
            JobSlaChanged: self._changed,
            InstancesChanged: self._instances,
            JobChanged: self._over,
            SlaGroupSet: self._group,
        }

    def restore(self, connection: Connection) -> None:
        """Finds again which jobs have a row."""
        self._jobs = set(connection.scalars(select(tables.slas.c.job_id)))

    def _accepted(self, moment: RecordContext, event: JobAccepted) -> None:
        if has_sla(event.max_unavailable, event.sla):
            self._put(event)

    def _changed(self, moment: RecordContext, event: JobSlaChanged) -> None:
        if has_sla(event.max_unavailable, event.sla):
            self._put(event)
        else:
            self._remove(event.job_id)

    def _put(self, event: JobAccepted | JobSlaChanged) -> None:
        most, policy = event.max_unavailable, event.sla
        text, shared = (to_json(policy), policy.group) if policy is not None else ("", "")
        self._jobs.add(event.job_id)
        before = self._slas.get(event.job_id)
        first = before.first_surplus if before is not None else -1
        self._slas.put(SlaRow(event.job_id, -1 if most is None else most, text, shared, first))

    def _instances(self, moment: RecordContext, event: InstancesChanged) -> None:
        row = self._slas.change(event.job_id) if event.job_id in self._jobs else None
        if row is None:
            return
        if event.surplus and len(added := instance_change(event).added):
            row.first_surplus = min(int(added.min()), event.instances if row.first_surplus < 0 else row.first_surplus)
        if row.first_surplus >= 0:
            row.first_surplus += event.adopted
            row.first_surplus = -1 if event.instances <= row.first_surplus else row.first_surplus

    def _over(self, moment: RecordContext, event: JobChanged) -> None:
        if event.job_id in self._jobs and is_over(event):
            self._remove(event.job_id)

    def _remove(self, job_id: str) -> None:
        self._jobs.discard(job_id)
        self._slas.remove(job_id)

    def _group(self, moment: RecordContext, event: SlaGroupSet) -> None:
        if event.removed:
            self._groups.remove(event.group)
        else:
            bounds = Bounds.of(event.max_unavailable, event)
            self._groups.put(SlaGroupRow(event.group, to_json(bounds._asdict()), moment.now))
