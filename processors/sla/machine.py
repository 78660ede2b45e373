"""Sla: tracks which instances of a job are available, and decides which may be disrupted now.

An instance that is wanted is unavailable while no run of it is known to be running, from the moment one is told to
stop, and from the moment its disruption is allowed: the budget is held until a later run of it is available, the job is
over, or lifecycle withdraws. A disruption that must wait is kept here and allowed as soon as budget is free, so it is
asked for once.
"""

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from events.codes import Code
from events.columns import I64, Names, distinct, indexed
from events.instance_changes import instance_change
from events.job_ends import is_over
from events.records.base import Event
from events.records.lifecycle import (
    DisruptionAsked,
    DisruptionWithdrawn,
    InstancesChanged,
    InstancesWanted,
    JobAccepted,
    JobChanged,
    JobSlaChanged,
    RunsAvailable,
    RunsEnded,
    RunsStopping,
)
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from processors.base import MachineBase
from processors.sla.rows import JobRow
from processors.state.arena import REMOVED, Arena, change_instances, locate
from processors.state.causes import CurrentInput, all_recorded
from processors.state.conversion import Conversions
from processors.state.steps import Pass
from processors.state.table import Table, struct_table

NO_SLOTS = np.zeros(0, dtype=np.int64)


class Sla(MachineBase):
    """Implements `processors.machine.Machine`.

    Columns: `available` the run that is running, `ended` the highest run that is over, `asked` the run whose disruption
    waits for a verdict, `deferred` 1 where sla has deferred it, `allowed` the run whose disruption holds budget,
    `unwanted` 1 where the instance shall not run; 0 where there is none.
    """

    name: ClassVar[str] = "sla"
    facts: ClassVar[tuple[str, ...]] = ("paceline.pools", "paceline.hosts")
    peers: ClassVar[tuple[str, ...]] = ("lifecycle", "entitlement")
    logic: ClassVar[int] = 5
    state: ClassVar[int] = 4
    conversions: ClassVar[Conversions] = {}

    def __init__(self) -> None:
        self.jobs: Table[str, JobRow] = struct_table("jobs", JobRow)
        self.unguarded: Table[tuple[str, int], int] = struct_table("unguarded", int, tuple[str, int])
        """Disruptions asked of instances that no SLA protects, and the run that each is about."""
        self.arena = Arena("tasks", ("available", "ended", "asked", "deferred", "allowed", "unwanted"))
        self._waiting: dict[str, None] = {}
        """The jobs with disruptions that wait for a verdict."""
        self._changed_jobs: dict[str, None] = {}
        """The waiting jobs that have changed since they last had no verdict; the others aren't looked at."""
        self._job_at: dict[int, str] = {}
        """The job at a base."""
        super().__init__(CurrentInput())
        self._set_handlers(
            (JobAccepted, self._accepted),
            (JobChanged, self._changed),
            (JobSlaChanged, self._sla_changed),
            (InstancesChanged, self._instances_changed),
            (InstancesWanted, self._wanted),
            (RunsAvailable, self._available),
            (RunsStopping, self._stopping),
            (RunsEnded, self._ended),
            (DisruptionAsked, self._asked),
            (DisruptionWithdrawn, self._withdrawn),
            (DisruptionAllowed, self._allowed),
            (DisruptionDeferred, self._deferred),
        )

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        """Implements `Machine.tables`."""
        return (self.jobs, self.unguarded, self.arena.table)

    def _restored(self) -> None:
        self.arena.restored()
        self._waiting = {job_id: None for job_id, row in self.jobs.items() if self._stretch_of(row, "asked").any()}
        self._changed_jobs = dict(self._waiting)
        self._job_at = {row.base: job_id for job_id, row in self.jobs.items()}

    def _decide(self, this: Pass) -> list[Event]:
        """A unit of work is a verdict."""
        budget = this.budget
        unguarded = nsmallest(budget.left, self.unguarded.items())
        budget.spend(len(unguarded))
        allowed, deferred = [NO_SLOTS], [NO_SLOTS]
        for job_id in sorted(self._changed_jobs):
            if not budget:
                break
            allowed_now, deferred_now = self._verdicts(self.jobs[job_id], budget.left)
            if not len(allowed_now) and not len(deferred_now):
                del self._changed_jobs[job_id]
            budget.spend(len(allowed_now) + len(deferred_now))
            allowed.append(allowed_now)
            deferred.append(deferred_now)
        may, wait = np.concatenate(allowed), np.concatenate(deferred)
        return [
            *([_allow_unguarded(unguarded)] if unguarded else []),
            *([self._allow(may)] if len(may) else []),
            *([self._defer(wait)] if len(wait) else []),
        ]

    def unavailable(self, job_id: str) -> int:
        """Counts the instances of a job with an SLA that are unavailable, or about to be."""
        row = self.jobs[job_id]
        return int(np.count_nonzero(self._missing(row)))

    # What follows from the state.

    def _stretch_of(self, row: JobRow, column: str) -> NDArray[np.int32]:
        return self.arena[column][row.base : row.base + row.instances]

    def _missing(self, row: JobRow) -> NDArray[np.bool_]:
        missing: NDArray[np.bool_] = (self._stretch_of(row, "available") == 0) | (self._stretch_of(row, "allowed") > 0)
        missing &= (self._stretch_of(row, "unwanted") == 0) & (self._stretch_of(row, "ended") != REMOVED)
        return missing

    def _verdicts(self, row: JobRow, budget: int) -> tuple[I64, I64]:
        """The tasks of a job whose disruption may go on, ascending, and those that are told now that they must wait.
        What is unavailable or unwanted costs nothing.
        """
        missing = self._missing(row)
        instances = np.flatnonzero(self._stretch_of(row, "asked"))
        costs = (~missing & (self._stretch_of(row, "unwanted") == 0))[instances]
        room = max(0, row.max_unavailable - int(np.count_nonzero(missing)))
        costly = instances[costs]
        allowed = np.sort(np.concatenate((instances[~costs], costly[:room])))[:budget]
        deferred = costly[room:]
        deferred = deferred[self._stretch_of(row, "deferred")[deferred] == 0][: budget - len(allowed)]
        return row.base + allowed, row.base + deferred

    def _allow(self, slots: I64) -> DisruptionAllowed:
        columns, rows = self._named(slots)
        return DisruptionAllowed.pack(
            **columns, deferred=self.arena["deferred"][slots], causes=all_recorded(row.changed_by for row in rows)
        )

    def _defer(self, slots: I64) -> DisruptionDeferred:
        columns, rows = self._named(slots)
        missing = [int(np.count_nonzero(self._missing(row))) for row in rows]
        most = [row.max_unavailable for row in rows]
        return DisruptionDeferred.pack(
            **columns,
            code=Code.SLA_BUDGET_SPENT,
            unavailable=(max(each) for each in zip(missing, most, strict=True)),
            max_unavailable=most,
            causes=all_recorded(row.changed_by for row in rows),
        )

    def _named(self, slots: I64) -> tuple[dict[str, Any], list[JobRow]]:
        """The fields that name the runs that are asked for, and the rows of their jobs."""
        bases, job = indexed(self.arena["owner"][slots] - 1)
        job_ids = tuple(self._job_at[base] for base in bases.tolist())
        columns = {
            "job_ids": job_ids,
            "job": job,
            "instance": slots - bases[job],
            "run": self.arena["asked"][slots],
        }
        return columns, [self.jobs[job_id] for job_id in job_ids]

    # What inputs and decisions do.

    def _locate(self, event: Any) -> tuple[I64, I64]:
        """The slots that a record names among jobs with an SLA that is in force, and their runs."""
        slots, exists = locate(event, self.jobs)
        return slots[exists], event.run_array[exists].astype(np.int64)

    def _accepted(self, event: JobAccepted, now: int) -> None:
        if event.max_unavailable is not None:
            base = self._add(event.job_id, event.instances, event.max_unavailable)
            self.arena.fill("ended", base, event.instances, event.first_run - 1)

    def _changed(self, event: JobChanged, now: int) -> None:
        if event.job_id in self.jobs and is_over(event):
            self._drop(event.job_id)

    def _sla_changed(self, event: JobSlaChanged, now: int) -> None:
        row, most = self.jobs.get(event.job_id), event.max_unavailable
        if row is None and most is not None:
            base = self._add(event.job_id, event.instances, most)
            count = event.count_array
            self.arena.fill("ended", base, event.instances, REMOVED)
            available, unwanted = np.repeat(event.run_array, count), 1 - np.repeat(event.wanted_array, count)
            self.arena.put(base + event.named_instances(), ended=0, available=available, unwanted=unwanted)
            self._guard(event.job_id, base)
        elif row is not None and most is None:
            asked_runs = self._stretch_of(row, "asked")
            for instance in np.flatnonzero(asked_runs).tolist():
                self.unguarded.put((event.job_id, instance), int(asked_runs[instance]))
            self._drop(event.job_id)
        elif row is not None and most is not None:
            self.jobs.change(event.job_id).max_unavailable = most
            if event.job_id in self._waiting:
                self._mark_changed(event.job_id)

    def _guard(self, job_id: str, base: int) -> None:
        """Disruptions of a job that no SLA protected, and that have no verdict yet, wait for one by its new SLA."""
        for key, run in [(key, run) for key, run in self.unguarded.items() if key[0] == job_id]:
            self.unguarded.remove(key)
            slots = np.array([base + key[1]]) if 0 <= key[1] < self.jobs[job_id].instances else NO_SLOTS
            slots = slots[(self.arena["ended"][slots] < run) & (self.arena["available"][slots] <= run)]
            self.arena.set("asked", slots, run)
            self._update_waiting(slots)

    def _add(self, job_id: str, instances: int, max_unavailable: int) -> int:
        base = self.arena.take(max(1, instances))  # all of them may have been removed
        self._job_at[base] = job_id
        self.jobs.put(job_id, JobRow(base, instances, max_unavailable))
        return base

    def _drop(self, job_id: str) -> None:
        row = self.jobs[job_id]
        self.arena.give_back(row.base, row.instances)
        self.jobs.remove(job_id)
        del self._job_at[row.base]
        self._changed_jobs.pop(job_id, None)
        self._waiting.pop(job_id, None)

    def _instances_changed(self, event: InstancesChanged, now: int) -> None:
        row = self.jobs.get(event.job_id)
        if row is None:
            return
        slots = row.base + instance_change(event).removed
        self.arena.put(slots, available=0, allowed=0, unwanted=0)
        self._clear_asked(slots)
        row = self.jobs.change(event.job_id)
        del self._job_at[row.base]
        row.base = change_instances(self.arena, row.base, row.instances, event)
        row.instances = event.instances
        self._job_at[row.base] = event.job_id

    def _wanted(self, event: InstancesWanted, now: int) -> None:
        row = self.jobs.get(event.job_id)
        if row is None:
            return
        instances = event.named_instances() if event.first else np.arange(row.instances)
        slots = row.base + instances[(instances >= 0) & (instances < row.instances)]
        slots = slots[self.arena["ended"][slots] != REMOVED]
        self.arena.set("unwanted", slots, int(not event.wanted))
        self._recheck(slots)

    def _available(self, event: RunsAvailable, now: int) -> None:
        slots, run = self._locate(event)
        arena = self.arena
        newer = (arena["ended"][slots] < run) & (arena["available"][slots] < run)
        slots, run = slots[newer], run[newer]
        arena.set("available", slots, run)
        allowed_runs = arena["allowed"][slots]
        arena.set("allowed", slots[(allowed_runs > 0) & (allowed_runs < run)], 0)
        self._recheck(slots)

    def _stopping(self, event: RunsStopping, now: int) -> None:
        slots, run = self._locate(event)
        slots = slots[self.arena["available"][slots] == run]
        self.arena.set("available", slots, 0)
        self._recheck(slots)

    def _ended(self, event: RunsEnded, now: int) -> None:
        slots, run = self._locate(event)
        arena = self.arena
        arena.set("ended", slots, np.maximum(arena["ended"][slots], run))
        arena.set("available", slots[arena["available"][slots] == run], 0)
        self._clear_asked(slots[arena["asked"][slots] == run])
        self._recheck(slots)

    def _asked(self, event: DisruptionAsked, now: int) -> None:
        if any(job_id not in self.jobs for job_id in event.job_ids):
            for job_id, instance, run in _runs(event):
                if job_id not in self.jobs:
                    self.unguarded.put((job_id, instance), run)
        slots, runs = self._locate(event)
        new = self.arena["ended"][slots] < runs
        self.arena.set("asked", slots[new], runs[new])
        self.arena.set("deferred", slots[new], 0)
        self._update_waiting(slots)

    def _withdrawn(self, event: DisruptionWithdrawn, now: int) -> None:
        self._clear_unguarded(event)
        slots, run = self._locate(event)
        self.arena.set("allowed", slots[self.arena["allowed"][slots] == run], 0)
        self._clear_asked(slots[self.arena["asked"][slots] == run])
        self._recheck(slots)

    def _allowed(self, event: DisruptionAllowed, now: int) -> None:
        self._clear_unguarded(event)
        slots, run = self._locate(event)
        before = [(job_id, self.unavailable(job_id)) for job_id in self._jobs_at(slots)]
        self.arena.set("allowed", slots, run)
        for job_id, missing in before:
            assert self.unavailable(job_id) <= max(missing, self.jobs[job_id].max_unavailable), job_id
        self._clear_asked(slots)

    def _deferred(self, event: DisruptionDeferred, now: int) -> None:
        slots, _ = self._locate(event)
        self.arena.set("deferred", slots, 1)

    def _clear_unguarded(self, event: DisruptionWithdrawn | DisruptionAllowed) -> None:
        for job_id, instance, run in _runs(event) if len(self.unguarded) else ():
            if self.unguarded.get((job_id, instance)) == run:
                self.unguarded.remove((job_id, instance))

    def _clear_asked(self, slots: I64) -> None:
        if not len(slots):
            return
        self.arena.set("asked", slots, 0)
        self.arena.set("deferred", slots, 0)
        self._update_waiting(slots)

    def _update_waiting(self, slots: I64) -> None:
        """Updates which of the jobs of these slots have disruptions that wait for a verdict."""
        for job_id in self._jobs_at(slots):
            if self._stretch_of(self.jobs[job_id], "asked").any():
                self._waiting[job_id] = None
                self._mark_changed(job_id)
            else:
                self._waiting.pop(job_id, None)
                self._changed_jobs.pop(job_id, None)

    def _recheck(self, slots: I64) -> None:
        """Marks the jobs of changed slots, whose waiting disruptions may have a verdict now."""
        for job_id in self._jobs_at(slots):
            if job_id in self._waiting:
                self._mark_changed(job_id)

    def _mark_changed(self, job_id: str) -> None:
        assert job_id in self._waiting, job_id
        self._changed_jobs[job_id] = None
        self.jobs.change(job_id).changed_by = self._input.cause

    def _jobs_at(self, slots: I64) -> list[str]:
        return [self._job_at[base] for base in distinct(self.arena["owner"][slots] - 1).tolist()]


def _allow_unguarded(runs: Sequence[tuple[tuple[str, int], int]]) -> DisruptionAllowed:
    """Disruptions of instances that no SLA protects go on."""
    names = Names()
    job = [names[job_id] for (job_id, _), _ in runs]
    return DisruptionAllowed.pack(
        job_ids=names.all(),
        job=job,
        instance=(instance for (_, instance), _ in runs),
        run=(run for _, run in runs),
        causes=all_recorded([None] * len(names)),
    )


def _runs(event: DisruptionAsked | DisruptionWithdrawn | DisruptionAllowed) -> Iterator[tuple[str, int, int]]:
    """Job, instance and run of all that a record names."""
    columns = (column.tolist() for column in event.items())
    return ((event.job_ids[job], instance, run) for job, instance, run in zip(*columns, strict=True))
