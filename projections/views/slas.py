"""Folds the SLAs of jobs, and the budgets that jobs share."""

from sqlalchemy import Connection, select

from events.instance_changes import instance_change
from events.records.lifecycle import InstancesChanged, JobAccepted, JobSlaChanged, SlaGroupSet
from events.sla import Bounds, has_sla
from projections.views import tables
from projections.views.cache import Cache
from projections.views.record_context import Folds, RecordContext
from projections.views.rows import to_json
from projections.views.sla_rows import SlaGroupRow, SlaRow


class SlaFold:
    """The fold of SLAs, and of what `JobFold` folds of jobs that have one. A job without one, or that is over, has no
    row.
    """

    def __init__(self, cache: Cache) -> None:
        self._slas = cache.slas
        self._groups = cache.sla_groups
        self.jobs: set[str] = set()
        """The jobs that have a row: most have none, and aren't looked for."""
        self.folds: Folds = {JobSlaChanged: self._changed, SlaGroupSet: self._group}

    def restore(self, connection: Connection) -> None:
        """Finds again which jobs have a row."""
        self.jobs = set(connection.scalars(select(tables.slas.c.job_id)))

    def put(self, event: JobAccepted | JobSlaChanged) -> None:
        """A job has this SLA."""
        most, policy = event.max_unavailable, event.sla
        text, shared = (to_json(policy), policy.group) if policy is not None else ("", "")
        self.jobs.add(event.job_id)
        before = self._slas.get(event.job_id)
        first = before.first_surplus if before is not None else -1
        self._slas.put(SlaRow(event.job_id, -1 if most is None else most, text, shared, first))

    def remove(self, job_id: str) -> None:
        """A job has no SLA, or is over."""
        self.jobs.discard(job_id)
        self._slas.remove(job_id)

    def instances_changed(self, event: InstancesChanged) -> None:
        """Instances of a job with an SLA were added or removed."""
        row = self._slas.change(event.job_id)
        assert row is not None
        if event.surplus and len(added := instance_change(event).added):
            row.first_surplus = min(int(added.min()), event.instances if row.first_surplus < 0 else row.first_surplus)
        if row.first_surplus >= 0:
            row.first_surplus += event.adopted
            row.first_surplus = -1 if event.instances <= row.first_surplus else row.first_surplus

    def _changed(self, moment: RecordContext, event: JobSlaChanged) -> None:
        if has_sla(event.max_unavailable, event.sla):
            self.put(event)
        else:
            self.remove(event.job_id)

    def _group(self, moment: RecordContext, event: SlaGroupSet) -> None:
        if event.removed:
            self._groups.remove(event.group)
        else:
            bounds = Bounds.of(event.max_unavailable, event)
            self._groups.put(SlaGroupRow(event.group, to_json(bounds._asdict()), moment.now))
