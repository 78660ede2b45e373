"""Surplus instances: beyond those that are wanted, so that one is up before another of its job stops.

Sla says how many a job is to have, and counts them by a serial: those of an older one count nowhere and leave. They are
ordinary instances with numbers above the others; no update counts them, and one that adds instances takes over those
whose numbers these get (`InstancesChanged.adopted`).
"""

import numpy as np

from events.columns import I64
from events.instance_changes import instance_change
from events.records.base import Event
from events.records.lifecycle import InstancesChanged, JobSlaChanged
from events.records.sla import SurplusSet
from events.sla import has_sla
from processors.lifecycle.causes import Goal
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.task_table import TaskEvent
from processors.lifecycle.tasks import Tasks
from processors.lifecycle.updates.instances import addition, first_queued
from processors.lifecycle.updates.updates import Updates
from processors.state.causes import recorded
from processors.state.steps import Pass


class SurplusInstances:
    """Adds them and lets them leave. The column `surplus` has the serial; 0: the instance is wanted."""

    def __init__(self, tasks: Tasks, jobs: Jobs, updates: Updates) -> None:
        self._tasks = tasks
        self._jobs = jobs
        self._updates = updates
        self._touched: dict[str, None] = {}
        """Jobs that lack some; of one that has ended nothing is told, so it may be among them."""

    def restored(self) -> None:
        """Looks at all jobs that have surplus."""
        self._touched = {job_id: None for job_id, row in self._jobs.table.items() if row.surplus}

    def said(self, event: SurplusSet, now: int) -> None:
        """Sla says how many more instances jobs are to have."""
        columns = (event.job_array.tolist(), event.surplus_array.tolist(), event.serial_array.tolist())
        for job, surplus, serial in zip(*columns, strict=True):
            job_id = event.job_ids[job]
            if job_id in self._jobs.table:
                row = self._jobs.table.change(job_id)
                row.surplus, row.serial, row.surplus_by = surplus, serial, self._tasks.input.cause
                self._review(job_id)

    def sla_changed(self, event: JobSlaChanged, now: int) -> None:
        """A job that has no SLA any more has no surplus."""
        row = self._jobs.table[event.job_id]
        if row.surplus and not has_sla(row.max_unavailable, row.sla):
            self._jobs.table.change(event.job_id).surplus = 0
            self._review(event.job_id)

    def instances_changed(self, event: InstancesChanged) -> None:
        """Instances were added, of which the record says whether they are surplus, or surplus ones are wanted now."""
        row, serials = self._jobs.table[event.job_id], self._tasks.arena["surplus"]
        if event.surplus:
            self._tasks.arena.set("surplus", row.base + instance_change(event).added, event.surplus)
        if event.adopted:
            surplus = row.base + np.flatnonzero(serials[row.base : row.base + row.instances])
            surplus = surplus[self._tasks.arena["goal"][surplus] != Goal.REMOVE]
            self._tasks.arena.set("surplus", surplus[: event.adopted], 0)
        if row.serial:
            self._review(event.job_id)

    def decide(self, this: Pass) -> list[Event]:
        """Instances that are added; they end the pass, so no budget is spent."""
        if not self._touched:
            return []
        out, limit = list[Event](), this.budget.left
        there = [job_id for job_id in self._touched if job_id in self._jobs.table]
        for job_id in sorted(there, key=lambda job_id: self._jobs.table[job_id].number):
            lacking = min(self._lacking(job_id), max(0, limit))
            limit -= lacking
            if lacking:
                out += self._added(job_id, lacking)
        return out

    def _review(self, job_id: str) -> None:
        """Lets instances leave that are of an older serial, or aren't to be any more."""
        row, arena = self._jobs.table[job_id], self._tasks.arena
        stretch = slice(row.base, row.base + row.instances)
        serials = arena["surplus"][stretch]
        leaves = (serials > 0) & (arena["goal"][stretch] != Goal.REMOVE)
        if row.surplus:
            leaves &= serials != row.serial
        if leaves.any():
            slots = row.base + np.flatnonzero(leaves)
            self._tasks.record_event(TaskEvent.REMOVE, slots)
            arena.set("goal", slots, Goal.REMOVE)
            self._updates.leave(job_id)
        self._touched.pop(job_id, None)
        if row.surplus and self._lacking(job_id) > 0:
            self._touched[job_id] = None

    def _lacking(self, job_id: str) -> int:
        row = self._jobs.table[job_id]
        serials = self._tasks.arena["surplus"][row.base : row.base + row.instances]
        return row.surplus - int(np.count_nonzero(serials == row.serial)) if row.surplus else 0

    def _added(self, job_id: str, count: int) -> list[Event]:
        row, version = self._jobs.table[job_id], self._updates.version(job_id)
        first = max(row.instances, version.instances)
        instances: I64 = np.arange(first, first + count)
        cause = recorded(row.surplus_by)
        assert cause is not None, job_id
        added = addition(job_id, row, version, instances, cause, row.serial)
        return [added] if added.waits else [added, first_queued(job_id, row, instances)]
