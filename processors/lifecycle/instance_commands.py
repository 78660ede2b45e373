"""Answers to those who stop, start, hold, release or delete a job, or some of its instances."""

import numpy as np

from events.bounds import RUN_MAX
from events.codes import ENDED_TASKS, LIVE_TASKS, Code, TaskState
from events.id_digests import job_digest
from events.records.lifecycle import InstancesWanted, JobHeld, JobsForgotten
from events.words import plural
from processors.lifecycle.goals import to_start, to_stop
from processors.lifecycle.instance_ranges import ranges
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.lookups import among
from processors.lifecycle.rows import ActionRow, JobRow, StopRow
from processors.lifecycle.tasks import Tasks
from processors.lifecycle.updates.commands import CONTROLLER_OVER, Answer, instances_of, outside
from processors.state.causes import job_fact


class InstanceCommands:
    """The commands of one `decide`; each is about a job that is there."""

    def __init__(self, jobs: Jobs, tasks: Tasks) -> None:
        self._jobs = jobs
        self._tasks = tasks
        self._actions = {"start": self._start, "hold": self._hold, "release": self._hold, "delete": self._delete}

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions that are answered here."""
        return tuple(self._actions)

    def act(self, offset: int, ask: ActionRow, row: JobRow) -> Answer:
        """A job is to do something."""
        return self._actions[ask.action](offset, ask, row)

    def stop(self, offset: int, ask: StopRow, row: JobRow) -> Answer:
        """A job, or some of its instances, are to end."""
        if (instances := instances_of(ask, row)) is None:
            return outside(row)
        concerned = to_stop(self._jobs, self._tasks, ask.job_id, instances)
        if (row.stopping and not ask.first) or (ask.first and not len(concerned)):
            what = "they are stopped, or have ended, already" if ask.first else "the job is being stopped already"
            return Answer(Code.REPEATED, what)
        named_ = ranges(concerned) if ask.first else {}
        event = InstancesWanted.pack(job_id=ask.job_id, wanted=False, **named_, cause=job_fact(offset))
        live = int(np.count_nonzero(among(self._tasks.arena["state"][row.base + concerned], LIVE_TASKS)))
        return Answer(Code.DONE, f"stopping {plural(len(concerned), 'instance')}, {live} of them running", (event,))

    def forget(self, offset: int, ask: ActionRow) -> Answer:
        """A job that is over is to be deleted."""
        return Answer(Code.DONE, "the job is forgotten", (_forgotten(ask.job_id, offset),))

    def _start(self, offset: int, ask: ActionRow, row: JobRow) -> Answer:
        if (instances := instances_of(ask, row)) is None:
            return outside(row)
        if row.controller_over:
            return CONTROLLER_OVER
        concerned = to_start(self._jobs, self._tasks, ask.job_id, instances, bool(ask.first))
        concerned = concerned[self._tasks.arena["run"][row.base + concerned] < RUN_MAX]
        if not len(concerned) and not (row.stopping and not ask.first):
            return Answer(Code.REPEATED, "there is nothing to start: no instance of these is stopped or has failed")
        event = InstancesWanted.pack(job_id=ask.job_id, wanted=True, **ranges(concerned), cause=job_fact(offset))
        later = len(concerned) - int(
            np.count_nonzero(among(self._tasks.arena["state"][row.base + concerned], ENDED_TASKS))
        )
        after = f", {later} of them when their last run is over" if later else ""
        until_release = "; they wait until the job is released" if row.on_hold else ""
        message = f"starting {plural(len(concerned), 'instance')}{after}{until_release}"
        return Answer(Code.DONE, message, (event,))

    def _hold(self, offset: int, ask: ActionRow, row: JobRow) -> Answer:
        hold = ask.action == "hold"
        if row.on_hold == hold:
            return Answer(Code.REPEATED, f"the job is {'held already' if hold else 'not held'}")
        waiting = row.counts[TaskState.QUEUED] + row.counts[TaskState.BACKOFF]
        tasks = plural(waiting, "waiting task")
        message = f"holding {tasks} until the job is released" if hold else f"queueing {tasks}"
        return Answer(Code.DONE, message, (JobHeld(job_id=ask.job_id, held=hold, cause=job_fact(offset)),))

    def _delete(self, offset: int, ask: ActionRow, row: JobRow) -> Answer:
        over = row.tasks - sum(row.counts[state] for state in ENDED_TASKS)
        if over and not ask.force:
            return Answer(
                Code.NEEDS_FORCE,
                f"job {ask.job_id} is {row.state}, {over} of its tasks haven't ended; "
                f"`paceline job delete {ask.job_id} --force` stops it first",
            )
        event = InstancesWanted.pack(job_id=ask.job_id, wanted=False, cause=job_fact(offset))
        message = f"stopping {plural(over, 'task')}, then the job is forgotten" if over else "the job is forgotten"
        return Answer(Code.DONE, message, (event,))


def _forgotten(job_id: str, offset: int) -> JobsForgotten:
    return JobsForgotten(digests=job_digest(job_id), cause=job_fact(offset))
