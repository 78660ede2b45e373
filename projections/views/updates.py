"""Folds versions and updates of jobs: what lifecycle decides of them, and the commands that led to it.

A command is kept from its fact until it is answered and, where it begins an update, until that has started: the rows of
the version and the update then hold who asked for it and why. Of a job the newest `UPDATES_KEPT` updates are kept; of
versions lifecycle says which are.
"""

import numpy as np

from events.codec import decode
from events.codes import Code, UpdateState, UpdateStep
from events.columns import I64, pack_ints, spread
from events.job_versions import wanted_spec
from events.records.jobs import (
    JobActionRequested,
    JobReopenRequested,
    JobStopRequested,
    JobSubmitted,
    JobUpdateRequested,
)
from events.records.lifecycle import (
    CommandAnswered,
    ImagePrefetchOrdered,
    InstancesReturned,
    InstancesTaken,
    InstancesWanted,
    UpdateEnded,
    UpdateImagePulled,
    UpdatePaused,
    UpdateProgressed,
    UpdatePromoted,
    UpdateStarted,
)
from events.resources import of_slack
from events.topics import JOBS
from projections.views import override_chunks
from projections.views.cache import Cache
from projections.views.command_text import searched
from projections.views.ledger import Ledger, backoff_code
from projections.views.record_context import Folds, RecordContext
from projections.views.rows import JobRow, SubmissionRow, to_json
from projections.views.run_rows import StopRow
from projections.views.tasks import TaskFold
from projections.views.update_rows import CommandRow, UpdateRow, VersionRow

UPDATES_KEPT = STOPS_KEPT = 10
FAILED_INSTANCES = (Code.MAX_FAILURES, Code.STALLED)
"""The codes of updates that fail since instances do."""
Command = JobUpdateRequested | JobActionRequested | JobStopRequested | JobReopenRequested
Instances = InstancesTaken | InstancesReturned | UpdateProgressed
Turn = UpdateImagePulled | UpdatePaused | UpdatePromoted | UpdateEnded


class UpdateFold:
    """The fold of versions and updates."""

    def __init__(self, cache: Cache, tasks: TaskFold, ledger: Ledger) -> None:
        self._cache = cache
        self._ledger = ledger
        self._tasks = tasks
        self.folds: Folds = {
            UpdateStarted: self._started,
            InstancesTaken: self._taken,
            InstancesReturned: self._returned,
            UpdateProgressed: self._progressed,
            ImagePrefetchOrdered: self._image_ordered,
            UpdateImagePulled: self._turned,
            UpdatePaused: self._turned,
            UpdatePromoted: self._turned,
            UpdateEnded: self._turned,
        }

    def command(self, moment: RecordContext, event: Command, value: bytes) -> None:
        """Keeps a command until it is answered."""
        self._cache.commands.put(CommandRow(moment.offset, event.job_id, moment.at_ms, value))

    def answered(self, event: CommandAnswered) -> Command | None:
        """The command that is answered, where this build reads it; it goes unless its update is still to start."""
        row = self._cache.commands.get(event.jobs_offset)
        if row is None:
            return None
        if not event.update or self._cache.updates.get((event.job_id, event.update)) is not None:
            self._cache.commands.remove(event.jobs_offset)
        command = decode(row.value)
        assert isinstance(command, Command)
        return command

    def forget(self, row: JobRow) -> None:
        """A job is as it was submitted, whatever versions and updates it had."""
        if row.update:
            row.update = 0
            for table in (self._cache.versions, self._cache.updates, self._cache.update_steps):
                table.delete("job_id = ?", [(row.job_id,)])

    def stopped(self, moment: RecordContext, row: JobRow, event: InstancesWanted) -> None:
        """A user stopped a job, or instances of it; what an earlier stop stopped remains with that."""
        command = (
            self._cache.commands.get(event.cause.offset) if event.cause and event.cause.topic == JOBS.name else None
        )
        request = decode(command.value) if command is not None else None
        reason = request.reason if isinstance(request, Command) else ""
        row.stops += 1
        place = row.stops % STOPS_KEPT
        again = row.stops > 1 and not event.first
        first, count = self._tasks.unstopped(row) if again else (event.first, event.count)
        self._cache.stops.put(StopRow(row.job_id, place, moment.now, reason, first, count))

    def _taken(self, moment: RecordContext, event: InstancesTaken) -> None:
        self._step(moment, event, np.full(len(event.first_array), UpdateStep.IN_FLIGHT))

    def _returned(self, moment: RecordContext, event: InstancesReturned) -> None:
        self._step(moment, event, np.full(len(event.first_array), UpdateStep.PENDING))

    def _started(self, moment: RecordContext, event: UpdateStarted) -> None:
        row = self._cache.jobs.change(event.job_id)
        if row is None or row.base < 0:
            return
        if not row.update and event.from_version:
            self._cache.versions.put(first_version(row))
        offset, at, reason, data = self._command(moment, event)
        self._cache.versions.put(
            VersionRow(
                event.job_id, event.version, offset, at, moment.now, event.kind, event.like, event.number, reason, data
            )
        )
        self._cache.updates.put(
            UpdateRow(
                event.job_id,
                event.number,
                event.kind,
                event.from_version,
                event.version,
                to_json(event.policy),
                UpdateState.ROLLING,
                moment.now if event.paused else 0,
                event.added,
                event.updated,
                event.removed,
                event.unchanged,
                event.added + event.updated + event.removed,
                moment.now,
                moved_ms=moment.now,
                reason=reason,
                data=data,
            )
        )
        self._forget_old(event)
        row.update, row.position = event.number, moment.offset + 1
        submission = self._cache.submissions.get(offset)
        if submission is not None:
            spec = decode(submission.value)
            assert isinstance(spec, JobSubmitted)
            row.offset = offset
            row.owner, row.labels, row.overridden = (
                spec.owner,
                to_json(spec.labels),
                int(bool(spec.overrides or spec.chunks)),
            )
            row.retries_max, row.on_preempt = spec.retries_max, spec.on_preempt
            waits_for = backoff_code(row)
            row.max_running, row.max_runtime_ms, row.command = spec.max_running, spec.max_runtime_ms, searched(spec)
            self._ledger.renamed(row, waits_for, moment.now)
            self._cache.jobs.put(row)
            need = of_slack(spec.resources) if spec.revocable else spec.resources
            self._tasks.change_need(row, event.version, need, len(spec.ports), event.forgotten_array.tolist())

    def _command(self, moment: RecordContext, event: UpdateStarted) -> tuple[int, int, str, str]:
        """Where the specification of an update stands, where its command stands, and the reason and data of that."""
        like = self._cache.versions.get((event.job_id, event.like)) if event.like else None
        cause = event.cause
        at = event.jobs_offset if event.jobs_offset >= 0 else -1
        if at < 0 and cause is not None and cause.topic == JOBS.name:
            at = cause.offset
        row = self._cache.commands.get(at)
        command = decode(row.value) if row is not None else None
        self._cache.commands.remove(at)
        offset = like.offset if like is not None else at
        if row is not None and isinstance(command, JobUpdateRequested):
            spec = wanted_spec(command)
            names = override_chunks.names(spec) if spec is not None else ""
            self._cache.submissions.put(SubmissionRow(at, event.job_id, row.at_ms, command.spec, names))
        if isinstance(command, Command):
            return offset, at, command.reason, command.data
        return offset, at, "", ""

    def _forget_old(self, event: UpdateStarted) -> None:
        """The update before the newest goes, and versions that nobody can go back to."""
        last = event.number - UPDATES_KEPT
        self._cache.updates.remove((event.job_id, last))
        if last > 0:
            self._cache.update_steps.delete("job_id = ? AND number = ?", [(event.job_id, last)])
        versions = self._cache.versions
        for version in event.forgotten_array.tolist():
            row = versions.get((event.job_id, version))
            if row is None:
                continue
            versions.remove((event.job_id, version))
            versions.flush()
            unused = "offset = ? AND offset NOT IN (SELECT offset FROM versions WHERE job_id = ?)"
            self._cache.submissions.delete(unused, [(row.offset, event.job_id)])

    def _step(self, moment: RecordContext, event: Instances, steps: I64) -> None:
        job = self._cache.jobs.change(event.job_id)
        update = self._cache.updates.change((event.job_id, event.number))
        if job is None or update is None:
            return
        job.position = moment.offset + 1
        update.moved_ms = moment.now
        own = steps > 0  # that an instance is up again which an earlier update brought down is no step of this one
        first, count, steps = (
            column[own] for column in (event.first_array.astype(np.int64), event.count_array.astype(np.int64), steps)
        )
        self._tasks.set_steps(job, event.number, spread(first, count), np.repeat(steps, count))
        if len(steps):
            ranges = pack_ints(np.concatenate([first, count, steps]))
            self._cache.update_steps.add(event.job_id, event.number, moment.offset, moment.place, moment.now, ranges)
        if not isinstance(event, UpdateProgressed):
            moved = int(count.sum()) * (1 if isinstance(event, InstancesTaken) else -1)
            update.pending -= moved
            update.flight += moved

    def _progressed(self, moment: RecordContext, event: UpdateProgressed) -> None:
        self._step(moment, event, event.step_array.astype(np.int64))
        row = self._cache.updates.change((event.job_id, event.number))
        if row is not None:
            row.pending, row.flight, row.done, row.bad = event.pending, event.flight, event.done, event.bad
            row.waits_ms = (row.waits_ms or moment.now) if event.waits else 0
            if not row.ended_ms:
                row.state = UpdateState.CANARY if event.waits else UpdateState.ROLLING

    def _image_ordered(self, moment: RecordContext, event: ImagePrefetchOrdered) -> None:
        """Hosts that are named are told for the update that has just started."""
        job = self._cache.jobs.get(event.job_id)
        if event.host_ids and job is not None:
            row = self._cache.updates.change((event.job_id, job.update))
            if row is not None:
                row.image_ms, row.image_hosts = moment.now, len(event.host_ids)

    def _turned(self, moment: RecordContext, event: Turn) -> None:
        job, row = (
            self._cache.jobs.change(event.job_id),
            self._cache.updates.change((event.job_id, event.number)),
        )
        if job is None or row is None:
            return
        job.position = moment.offset + 1
        match event:
            case UpdateImagePulled():
                row.image_hosts, row.image_have = event.hosts, event.have
                row.image_faults, row.image_fault = event.faults, event.fault
                row.image_ms = row.image_ms if event.waits else 0
            case UpdatePaused():
                row.paused_ms = moment.now if event.paused else 0
            case UpdatePromoted():
                row.state, row.waits_ms = UpdateState.ROLLING, 0
            case UpdateEnded():
                row.state, row.code, row.message, row.ended_ms = event.state, event.code, event.message, moment.now
                row.paused_ms = row.waits_ms = row.image_ms = 0
                if event.state == UpdateState.FAILED and event.code in FAILED_INSTANCES:
                    failed, stuck = (
                        self._tasks.count_steps(job, event.number, step)
                        for step in (UpdateStep.FAILED, UpdateStep.NO_PROGRESS)
                    )
                    row.lacks_places = int(stuck > 0 and not failed)


def first_version(job: JobRow) -> VersionRow:
    """The version that a job was submitted with; its row is made with the first update."""
    return VersionRow(job.job_id, 1, job.offset, job.offset, job.submitted_ms, "submit", 0, 0, "", "")
