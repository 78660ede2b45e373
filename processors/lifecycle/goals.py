"""The goals of users: instances that are to run or not, and jobs that are held."""

import numpy as np

from events.codes import ENDED_TASKS, TaskState
from events.columns import I64, distinct
from events.records.lifecycle import InstancesWanted, JobHeld
from processors.lifecycle.causes import Goal
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.lookups import among
from processors.lifecycle.stateful import Stateful
from processors.lifecycle.task_rules import Trait, noted
from processors.lifecycle.task_table import GANG_WAIT, Note, TaskEvent
from processors.lifecycle.tasks import Tasks
from processors.lifecycle.updates.updates import Updates


class Goals:
    """Applies what was decided of them."""

    def __init__(self, tasks: Tasks, jobs: Jobs, stateful: Stateful, updates: Updates) -> None:
        self._tasks = tasks
        self._jobs = jobs
        self._stateful = stateful
        self._updates = updates

    def wanted(self, event: InstancesWanted, now: int) -> None:
        """Instances shall run from now on, or shall not."""
        row, whole = self._jobs.table.change(event.job_id), not event.first
        instances = np.arange(row.instances) if whole else event.named_instances()
        slots = row.base + instances.astype(np.int64)
        slots = slots[self._tasks.arena["goal"][slots] != Goal.REMOVE]
        row.changed_by = self._tasks.input.cause
        if event.wanted:
            row.stopping = False
            self._start(event.job_id, slots)
        else:
            row.stopping |= whole
            noted_ = self._tasks.record_event(TaskEvent.STOP, slots)
            self._tasks.arena.set("goal", noted_, Goal.STOP)
        self._jobs.touch(event.job_id)
        self._updates.touch(event.job_id)  # what is stopped holds it up no longer

    def held(self, event: JobHeld, now: int) -> None:
        """A job is held, or released."""
        row = self._jobs.table.change(event.job_id)
        row.on_hold = event.held
        happening = TaskEvent.HOLD if event.held else TaskEvent.RELEASE
        slots, arena = np.arange(row.base, row.base + row.instances), self._tasks.arena
        gives_back = (arena["state"][slots] != TaskState.BACKOFF) | (arena["admitted"][slots] > 0)
        self._tasks.record_event(happening, slots[gives_back])
        self._jobs.gate_changed(event.job_id)
        self._updates.touch(event.job_id)  # it takes what is up again, or no longer

    def _start(self, job_id: str, slots: I64) -> None:
        """Starts stopped instances again, and those that have ended: a gang as one."""
        arena = self._tasks.arena
        self._tasks.record_event(TaskEvent.START, slots)
        state = arena["state"][slots]
        arena.set("goal", slots[state != TaskState.NONE], Goal.RUN)
        again = slots[noted(TaskEvent.START, Note.NEW, state)]
        gang = arena["traits"][again] & Trait.GANG != 0
        arena.put(again, run=arena["run"][again] + 1, failures=0, host_failures=0, causes=0, admitted=0)
        self._jobs.move(again[~gang], TaskState.BACKOFF)
        self._stateful.wait_their_turn(again)
        self._jobs.move(again[gang], GANG_WAIT)
        if gang.any():
            self._jobs.gangs.starts(job_id)
        row = self._jobs.table[job_id]
        if row.controller and row.base in again:
            self._jobs.table.change(job_id).controller_state = 0


def to_stop(jobs: Jobs, tasks: Tasks, job_id: str, instances: I64) -> I64:
    """The instances that a stop concerns: those that are to run and aren't over, of a gang all."""
    row, arena = jobs.table[job_id], tasks.arena
    slots = row.base + _with_gang(row.gang_min, instances)
    concerned = (arena["goal"][slots] == Goal.RUN) & ~among(arena["state"][slots], (TaskState.NONE, *ENDED_TASKS))
    concerned_instances: I64 = slots[concerned] - row.base
    return concerned_instances


def to_start(jobs: Jobs, tasks: Tasks, job_id: str, instances: I64, are_named: bool) -> I64:
    """The instances that a start concerns: those that were stopped, and those that have ended. Unless `are_named`,
    those that succeeded are left alone. A gang goes as one, unless it runs.
    """
    row, arena = jobs.table[job_id], tasks.arena
    slots = row.base + _with_gang(row.gang_min, instances)
    state, goal = arena["state"][slots], arena["goal"][slots]
    stopped = (goal == Goal.STOP) | among(state, (TaskState.FAILED, TaskState.KILLED))
    concerned = stopped | (are_named & (state == TaskState.SUCCEEDED))
    members = slots < row.base + row.gang_min
    over = among(state, ENDED_TASKS) | (goal == Goal.STOP)
    concerned[members] = over[members].all() and concerned[members].any()
    concerned &= (state != TaskState.NONE) & (goal != Goal.REMOVE)
    concerned_instances: I64 = slots[concerned] - row.base
    return concerned_instances


def _with_gang(members: int, instances: I64) -> I64:
    """These instances, and the whole gang if one of it is among them."""
    if not members or not (instances < members).any():
        return instances
    return distinct(np.concatenate([np.arange(members), instances]))
