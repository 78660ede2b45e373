"""Folds the SLAs of jobs, and the budgets that jobs share."""

from sqlalchemy import Connection, select

from events.instance_changes import instance_change
from events.records.lifecycle import InstancesChanged, JobAccepted, JobSlaChanged, RunsAvailable, SlaGroupSet
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
        self.folds: Folds = {
            JobSlaChanged: self._changed,
            RunsAvailable: self._available,
            SlaGroupSet: self._group,
        }

    def restore(self, connection: Connection) -> None:
        """Finds again which jobs have a row."""
        self.jobs = set(connection.scalars(select(tables.slas.c.job_id)))

    def put(self, moment: RecordContext, event: JobAccepted | JobSlaChanged) -> None:
        """A job has this SLA."""
        most, policy = event.max_unavailable, event.sla
        text, shared = (to_json(policy), policy.group) if policy is not None else ("", "")
        self.jobs.add(event.job_id)
        row = SlaRow(event.job_id, -1 if most is None else most, text, shared, started_s=moment.now // 1000)
        if (before := self._slas.get(event.job_id)) is not None:
            row.first_surplus, row.started_s = before.first_surplus, before.started_s
        self._slas.put(row)

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
            self.put(moment, event)
        else:
            self.remove(event.job_id)

    def _available(self, moment: RecordContext, event: RunsAvailable) -> None:
        for job_id in event.job_ids if self.jobs else ():
            if job_id in self.jobs and (row := self._slas.change(job_id)) is not None:
                row.started_s = moment.now // 1000

    def _group(self, moment: RecordContext, event: SlaGroupSet) -> None:
        if event.removed:
            self._groups.remove(event.group)
        else:
            bounds = Bounds.of(event.max_unavailable, event)
            self._groups.put(SlaGroupRow(event.group, to_json(bounds._asdict()), moment.now))
