"""The step that decides about runs: those with something to decide, and those whose deadline has passed."""

from collections.abc import Sequence

import numpy as np

from events.codes import Code
from events.records.base import Event
from events.records.lifecycle import CommandAnswered
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.run_decisions import RunLookup, overdue, run_decisions
from processors.lifecycle.tasks import NO_SLOTS, Tasks
from processors.state.steps import Pass


class RunStep:
    """Looks at the columns of tasks, after the answers to commands."""

    def __init__(self, tasks: Tasks, jobs: Jobs, lookup: RunLookup) -> None:
        self._tasks = tasks
        self._jobs = jobs
        self._lookup = lookup

    def decide(self, this: Pass) -> Sequence[Event]:
        """At most so many runs as the budget has. Where commands were done, only about runs of other jobs, and nothing
        else is decided: whether a run that is over keeps its admission depends on a stop.
        """
        out: list[Event] = []
        budget, arena, slots = this.budget, self._tasks.arena, self._tasks.attention()
        due, late = self._tasks.due(this.now) if this.caught_up else (NO_SLOTS, NO_SLOTS)
        if len(late):
            late = late[~np.isin(late, slots)]  # what else is decided of a run in this round comes first
        commands = (each for each in this.out if isinstance(each, CommandAnswered) and each.code == Code.DONE)
        if job_ids := {each.job_id: None for each in commands}:
            slots, due, late = self._jobs.of_others(slots, job_ids), self._jobs.of_others(due, job_ids), NO_SLOTS
            this.over = True
        if len(due):
            slots = np.union1d(slots, due)
        if len(slots) and budget.left:
            out += run_decisions(arena, slots[: budget.left], due, self._lookup._replace(now=this.now))
            budget.spend(len(slots))
        if len(late) and budget.left:
            out.append(overdue(arena, late[: budget.left], self._lookup))
            budget.spend(len(late))
        return out
