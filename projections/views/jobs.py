"""Folds the topic of jobs and what lifecycle decides of jobs into their rows."""

import numpy as np
from sqlalchemy import Connection

from events.codec import decode
from events.codes import Code
from events.id_digests import job_digest
from events.job_ends import is_over
from events.records.base import Event
from events.records.jobs import JobSubmitted, OverridesUploaded
from events.records.lifecycle import (
    CommandAnswered,
    HostReconciled,
    HostSuspected,
    InstancesChanged,
    InstancesWanted,
    JobAccepted,
    JobChanged,
    JobHeld,
    JobPriorityChanged,
    JobRejected,
    JobReopened,
    OverridesDropped,
)
from events.signatures import signer_of
from events.sla import has_sla
from events.topics import JOBS
from projections.views import job_history, override_chunks
from projections.views.answers import add_answer
from projections.views.cache import Cache
from projections.views.command_text import searched
from projections.views.job_states import REJECTED, SUBMITTED
from projections.views.ledger import Ledger
from projections.views.reasons import KINDS
from projections.views.record_context import Folds, RecordContext
from projections.views.rows import HostRow, JobRow, PoolUseRow, SubmissionRow, to_json
from projections.views.slas import SlaFold
from projections.views.state_times import StateTimes
from projections.views.task_series import TaskSeries
from projections.views.tasks import TaskFold
from projections.views.updates import Command, UpdateFold
from projections.views.waiting import Waiting


class JobFold:
    """The fold of jobs. A second submission of an id changes the row only when lifecycle has answered it."""

    def __init__(self, cache: Cache, times: StateTimes, series: TaskSeries, ledger: Ledger) -> None:
        self._cache = cache
        self._series = series
        self._ledger = ledger
        self._tasks = TaskFold(cache, times, series, ledger)
        self._updates = UpdateFold(cache, self._tasks, ledger)
        self.slas = SlaFold(cache)
        self._waiting = Waiting(cache)
        self.folds: Folds = {
            JobAccepted: self._accepted,
            JobRejected: self._rejected,
            CommandAnswered: self._answered,
            JobChanged: self._changed,
            InstancesChanged: self._instances_changed,
            InstancesWanted: self._wanted,
            JobHeld: self._held,
            JobReopened: self._reopened,
            JobPriorityChanged: self._priority_changed,
            OverridesDropped: self._dropped,
            HostReconciled: self._reconciled,
            HostSuspected: self._suspected,
            **self._tasks.folds,
            **self._updates.folds,
        }

    def restore(self, connection: Connection) -> None:
        """Finds again what is derived from rows."""
        self._tasks.restore(connection)
        self.slas.restore(connection)

    def fact(self, moment: RecordContext, event: Event, value: bytes) -> None:
        """Folds a fact of the topic of jobs."""
        if isinstance(event, OverridesUploaded):
            override_chunks.uploaded(self._cache, event)
        elif isinstance(event, Command):
            self._updates.command(moment, event, value)
        elif isinstance(event, JobSubmitted):
            names = override_chunks.names(event)
            self._cache.submissions.put(SubmissionRow(moment.offset, event.job_id, moment.at_ms, value, names))
            if self._cache.jobs.get(event.job_id) is None:
                self._cache.jobs.put(row_of(moment.offset, moment.offset, moment.at_ms, event))

    def _dropped(self, moment: RecordContext, event: OverridesDropped) -> None:
        override_chunks.dropped(self._cache, event)

    def _reconciled(self, moment: RecordContext, event: HostReconciled) -> None:
        row = self._cache.hosts.change(event.host_id) or self._cache.hosts.put(HostRow(event.host_id))
        row.reconciled_session = max(row.reconciled_session, event.session)

    def _suspected(self, moment: RecordContext, event: HostSuspected) -> None:
        row = self._cache.hosts.change(event.host_id)
        if row is not None:
            row.suspect_job, row.suspect_instance, row.suspect_run = event.job_id, event.instance, event.run

    def _answer(
        self, moment: RecordContext, event: JobAccepted | JobRejected | CommandAnswered, code: str, message: str = ""
    ) -> None:
        more = (event.command_id, event.version, event.update) if isinstance(event, CommandAnswered) else ()
        add_answer(self._cache, moment, JOBS.name, event.jobs_offset, event.job_id, code, message, *more)

    def _show(self, moment: RecordContext, job_id: str, offset: int) -> JobRow | None:
        """The row of a job, showing the submission at an offset from now on."""
        row = self._cache.jobs.change(job_id)
        submission = self._cache.submissions.get(offset)
        if row is None or submission is None:
            return None
        if row.offset != offset:
            self._cache.submissions.remove(row.offset)
            event = decode(submission.value)
            assert isinstance(event, JobSubmitted)
            row = self._cache.jobs.put(row_of(row.number, offset, submission.at_ms, event))
        row.position = moment.offset + 1
        return row

    def _accepted(self, moment: RecordContext, event: JobAccepted) -> None:
        self._answer(moment, event, Code.DONE)
        if has_sla(event.max_unavailable, event.sla):
            self.slas.put(moment, event)
        job = self._cache.jobs.get(event.job_id)
        if job is not None and job.ended_ms and job.base >= 0:
            self._there_again(moment, event)
            return
        row = self._show(moment, event.job_id, event.jobs_offset)
        if row is None:
            return
        row.state, row.code, row.message = "PENDING", "", ""
        row.accepted, row.first_run, row.version = moment.offset, event.first_run, 1
        ports = max(shape.ports for shape in event.shapes)
        row.base, row.port_base = self._tasks.take_slots(event.instances, event.instances * ports)
        row.instances = row.slots = event.instances
        row.ports, row.gang_min = ports, event.gang_min
        row.need = to_json(event.shapes[0].resources)
        self._ledger.accepted(row, moment.now)
        self._cache.jobs.put(row)
        if event.max_running:
            self._tasks.wait_at_gate(moment, row, np.arange(row.gang_min, row.instances), row.first_run)
        elif event.kind == "stateful":
            self._tasks.wait_at_gate(moment, row, np.arange(1, row.instances), row.first_run)
        self._use(row.pool, 1, event.instances)

    def _there_again(self, moment: RecordContext, event: JobAccepted) -> None:
        """A job that had ended is open again, with the runs that it had; its version is the first of what it is now."""
        row = self._cache.jobs.change(event.job_id)
        assert row is not None
        row.state, row.code, row.message, row.ended_ms, row.stopping, row.held_ms = "PENDING", "", "", 0, 0, 0
        row.accepted, row.position = moment.offset, moment.offset + 1
        row.instances, row.priority = event.instances, event.priority
        row.version, row.needs = 1, "{}"
        self._updates.forget(row)
        self._ledger.over(row, moment.now, again=1)
        self._use(row.pool, 1, row.tasks)

    def _reopened(self, moment: RecordContext, event: JobReopened) -> None:
        row = self._cache.jobs.change(event.job_id)
        if row is not None and row.base >= 0:
            over = event.named_instances()
            self._tasks.run_again(moment, row, np.setdiff1d(np.arange(row.instances), over))

    def _instances_changed(self, moment: RecordContext, event: InstancesChanged) -> None:
        row = self._cache.jobs.change(event.job_id)
        if row is None or row.base < 0:
            return
        if event.job_id in self.slas.jobs:
            self.slas.instances_changed(event)
        before, row.position = row.tasks, moment.offset + 1
        self._tasks.change_instances(moment, row, event)
        self._ledger.resized(row, row.tasks - before, moment.now)
        self._use(row.pool, 0, row.tasks - before)

    def _held(self, moment: RecordContext, event: JobHeld) -> None:
        row = self._cache.jobs.change(event.job_id)
        if row is None:
            return
        row.position = moment.offset + 1
        if event.held != bool(row.held_ms):
            self._ledger.held(row, event.held, moment.now)
            self._series.job_held(row)

    def _priority_changed(self, moment: RecordContext, event: JobPriorityChanged) -> None:
        row = self._cache.jobs.change(event.job_id)
        if row is not None:
            row.priority, row.position = event.priority, moment.offset + 1

    def _wanted(self, moment: RecordContext, event: InstancesWanted) -> None:
        row = self._cache.jobs.change(event.job_id)
        if row is None or row.base < 0:
            return
        row.position = moment.offset + 1
        if event.wanted:
            row.stopping = 0
            self._tasks.start(moment, row, event)
        else:
            row.stopping = row.stopping if event.first else 1
            self._updates.stopped(moment, row, event)

    def _rejected(self, moment: RecordContext, event: JobRejected) -> None:
        self._answer(moment, event, event.code, event.message)
        row = self._cache.jobs.get(event.job_id)
        if row is not None and row.base >= 0:
            # Another job holds the id; this submission leaves no trace but its answer and its history.
            self._cache.submissions.remove(event.jobs_offset)
            return
        row = self._show(moment, event.job_id, event.jobs_offset)
        if row is not None:
            row.state, row.code, row.message = REJECTED, event.code, event.message
            row.ended_ms = moment.now

    def _answered(self, moment: RecordContext, event: CommandAnswered) -> None:
        self._answer(moment, event, event.code, event.message)
        self._updates.answered(event)
        row = self._cache.jobs.get(event.job_id)
        if row is not None and row.offset != event.jobs_offset:
            self._cache.submissions.remove(event.jobs_offset)
        if row is None or row.base < 0:
            job_history.strike(self._cache, event.job_id, event.jobs_offset)
        if event.code == Code.DONE and row is not None:
            row = self._cache.jobs.change(event.job_id)
            assert row is not None
            row.position = moment.offset + 1

    def _changed(self, moment: RecordContext, event: JobChanged) -> None:
        row = self._cache.jobs.change(event.job_id)
        if row is None:
            return
        row.state, row.position = event.state, moment.offset + 1
        if is_over(event) and not row.ended_ms:
            self._series.job_over(moment, row, self._cache.tasks)
            self._waiting.leave(row)
            self._ledger.over(row, moment.now)
            row.ended_ms, row.waits_ms = moment.now, 0
            self._use(row.pool, -1, -row.tasks)
            self._cache.explanations.remove_all(event.job_id, KINDS)
            if event.job_id in self.slas.jobs:
                self.slas.remove(event.job_id)

    def _use(self, path: str, jobs: int, tasks: int) -> None:
        row = self._cache.pool_use.change(path) or self._cache.pool_use.put(PoolUseRow(path))
        row.open_jobs += jobs
        row.open_tasks += tasks


def row_of(number: int, offset: int, at_ms: int, event: JobSubmitted) -> JobRow:
    """A job as it stands on a submission that isn't answered yet."""
    return JobRow(
        job_id=event.job_id,
        number=number,
        offset=offset,
        submitted_ms=at_ms,
        pool=event.pool,
        kind=event.kind,
        instances=event.instances,
        priority=event.priority,
        controller=int(event.controller),
        on_preempt=event.on_preempt,
        health=int(event.health is not None),
        owner=event.owner,
        labels=to_json(event.labels),
        command=searched(event),
        state=SUBMITTED,
        overridden=int(bool(event.overrides or event.chunks)),
        retries_max=event.retries_max,
        max_running=event.max_running,
        max_runtime_ms=event.max_runtime_ms,
        digest=job_digest(event.job_id),
        submitter=event.actor.subject if event.actor is not None else "",
        submitter_key=signer_of(event.actor),
    )
