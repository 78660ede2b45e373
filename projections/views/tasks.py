"""Folds what lifecycle decides of runs into the columns of tasks, the counts of jobs and what hosts have allocated."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from events.arrays.free_slots import room_to_grow
from events.codes import ENDED_TASKS, LIVE_TASKS, Counts, Outcome, RunCause, TaskState
from events.columns import I64, pack_ints, ranges_in, spread
from events.instance_changes import instance_change
from events.records.lifecycle import (
    GangsQueued,
    InstancesChanged,
    InstancesWanted,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
)
from events.resources import Amounts
from projections.views import tables
from projections.views.cache import Cache
from projections.views.host_use import HostUse
from projections.views.ledger import Ledger
from projections.views.named_tasks import NamedTasks
from projections.views.record_context import Folds, RecordContext
from projections.views.rows import JobRow, MetaRow, amounts_in, to_json
from projections.views.run_devices import RunDevices
from projections.views.run_needs import RunNeeds
from projections.views.state_times import StateTimes
from projections.views.task_moves import TaskMoves
from projections.views.task_series import TaskSeries
from projections.views.usage import UsageFold

RUNS_KEPT = 100
"""Runs of a task that are kept, the present one too."""
OF_RUN = ("host", "version", "outcome", "exit_code", "ordered_s", "started_s", "ended_s", "why")
"""Columns of a past run, as in `PastRunRow`."""


class TaskFold:
    """The fold of tasks. Ports stand in a column of their own, for each task as many slots as its job has ports."""

    def __init__(self, cache: Cache, times: StateTimes, series: TaskSeries, ledger: Ledger) -> None:
        self._cache = cache
        self._ledger = ledger
        self._moves = TaskMoves(cache, times, series, ledger)
        self._needs = RunNeeds(cache)
        self._hosts = HostUse(cache, self._needs)
        self._devices = RunDevices(cache)
        self._usage = UsageFold(cache)
        self._ends = {"next_base": 0, "next_port_base": 0}
        self.folds: Folds = {
            GangsQueued: self._queued,
            RunsOrdered: self._ordered,
            RunsAvailable: self._available,
            RunsStopping: self._stopping,
            RunsEnded: self._ended,
        }

    def restore(self, connection: Connection) -> None:
        """Finds the host numbers and the ends of the columns again."""
        self._hosts.restore(connection)
        self._devices.restore(connection)
        self._needs.restore(connection)
        settings = tables.meta.c
        ends = select(settings.name, settings.value).where(settings.name.in_(self._ends))
        self._ends.update((name, int(value)) for name, value in connection.execute(ends))

    def take_slots(self, tasks: int, ports: int) -> tuple[int, int]:
        """The first slots of a job that is accepted, in the task and the port columns; none is ever another job's."""
        bases = self._ends["next_base"], self._ends["next_port_base"]
        self._ends = {"next_base": bases[0] + tasks, "next_port_base": bases[1] + ports}
        for name, end in self._ends.items():
            self._cache.meta.put(MetaRow(name, str(end)))
        return bases

    def change_instances(self, moment: RecordContext, row: JobRow, event: InstancesChanged) -> None:
        """Adds and removes instances of a job. Slots behind its last one are never another job's, so they stay its own
        when it shrinks; when it grows beyond them it moves, unless nothing is behind them.
        """
        added, removed, _ = instance_change(event)
        self._remove(moment, row, removed)
        row.removed = event.instances - (row.tasks + len(added) - len(removed))
        row.instances = event.instances
        if event.instances > row.slots:
            self._make_room(row, event.instances)
        if event.waits:
            self.wait_at_gate(moment, row, added, event.first_run)

    def _make_room(self, row: JobRow, instances: int) -> None:
        last = (row.base + row.slots, row.port_base + row.slots * row.ports) == tuple(self._ends.values())
        slots = instances if last else max(instances, room_to_grow(row.slots))
        more = slots - row.slots if last else slots
        base, port_base = self.take_slots(more, more * row.ports)
        if not last:
            self._cache.tasks.move(row.base, row.slots, base)
            self._cache.ports.move(row.port_base, row.slots * row.ports, port_base)
            row.base, row.port_base = base, port_base
            self._cache.jobs.put(row)
        row.slots = slots

    def wait_at_gate(self, moment: RecordContext, row: JobRow, instance: I64, run: int) -> None:
        """New tasks wait for their first run until the job has room for them (max_running)."""
        places = self._cache.tasks.place(row.base + instance)
        selection = NamedTasks([row], np.zeros(len(instance), np.int64), instance, places, np.arange(len(instance)))
        self._cache.tasks["run"][places] = run
        self._moves.move(moment, selection, TaskState.BACKOFF)

    def start(self, moment: RecordContext, row: JobRow, event: InstancesWanted) -> None:
        """Tasks of a job are wanted: those that have ended run again."""
        every = event.named_instances() if event.first else np.arange(row.instances)
        self.run_again(moment, row, every)

    def unstopped(self, row: JobRow) -> tuple[bytes, bytes]:
        """Columns of ranges of the tasks of a job that no user has stopped; empty: all."""
        tasks = self._cache.tasks
        places = tasks.place(row.base + np.arange(row.instances))
        state, why = tasks["state"][places], tasks["why"][places]
        stopped = (state == TaskState.STOPPING) | ((state == TaskState.KILLED) & (why == RunCause.STOP))
        running = np.flatnonzero(~stopped)
        if not len(running) or len(running) == row.instances:
            return b"", b""
        first, count = ranges_in(running)
        return pack_ints(first), pack_ints(count)

    def run_again(self, moment: RecordContext, row: JobRow, instance: I64) -> None:
        """Tasks run again that have ended: they wait for it."""
        tasks = self._cache.tasks
        places = tasks.place(row.base + instance)
        over = np.isin(tasks["state"][places], ENDED_TASKS)
        instance, places = instance[over], places[over]
        selection = NamedTasks([row], np.zeros(len(instance), np.int64), instance, places, np.arange(len(instance)))
        tasks["failures"][places] = 0
        if row.killed:
            self._count_killed(selection, -1)
        self._moves.move(moment, selection, TaskState.BACKOFF)

    def _remove(self, moment: RecordContext, row: JobRow, removed: I64) -> None:
        tasks, count = self._cache.tasks, len(removed)
        selection = NamedTasks(
            [row], np.zeros(count, np.int64), removed, tasks.place(row.base + removed), np.arange(count)
        )
        self._keep_runs(selection)
        if row.killed:
            self._count_killed(selection, -1)
        self._moves.move(moment, selection, TaskState.NONE)
        tasks.zero(row.base + removed)
        if row.ports:
            self._cache.ports.zero(spread(row.port_base + removed * row.ports, np.full(count, row.ports)))

    def _jobs(self, moment: RecordContext, job_ids: tuple[str, ...]) -> list[JobRow]:
        jobs = self._cache.jobs
        jobs.load(job_ids)
        rows = [row for row in map(jobs.change, job_ids) if row is not None]
        for row in rows:
            row.position = moment.offset + 1
        return rows

    def _named(self, moment: RecordContext, event: Any) -> NamedTasks:
        """The tasks of a record with the columns job and instance, without those that no view knows of."""
        rows = self._jobs(moment, event.job_ids)
        job = event.job_array.astype(np.int64)
        instance = event.instance_array.astype(np.int64)
        at = np.arange(len(job))
        if len(rows) < len(event.job_ids) or any(row.base < 0 for row in rows):
            # Runs that a host has and no job wants may be of jobs that never were.
            rows = [row for row in rows if row.base >= 0]
            index = {row.job_id: number for number, row in enumerate(rows)}
            renamed = np.array([index.get(job_id, -1) for job_id in event.job_ids], dtype=np.int64)
            at = np.flatnonzero(renamed[job] >= 0)
            job, instance = renamed[job[at]], instance[at]
        bases = np.array([row.base for row in rows], dtype=np.int64)
        sizes = np.array([row.instances for row in rows], dtype=np.int64)
        inside = (instance >= 0) & (instance < sizes[job])
        if not inside.all():
            job, instance, at = job[inside], instance[inside], at[inside]
        return NamedTasks(rows, job, instance, self._cache.tasks.place(bases[job] + instance), at)

    def _queued(self, moment: RecordContext, event: GangsQueued) -> None:
        rows = self._jobs(moment, event.job_ids)
        job, instance, run = event.items()
        of = job.astype(np.int64)
        bases = np.array([row.base for row in rows], dtype=np.int64)
        tasks = self._cache.tasks
        selection = NamedTasks(rows, of, instance, tasks.place(bases[of] + instance), np.arange(len(of)))
        self._keep_runs(selection)
        tasks["run"][selection.places] = run
        tasks["host"][selection.places] = tasks["due_s"][selection.places] = 0
        keeps_admission = np.repeat(event.admitted_array, event.count_array).astype(np.int64)
        self._moves.move(moment, selection, TaskState.QUEUED, keeps_admission)

    def _keep_runs(self, selection: NamedTasks) -> None:
        """The runs that others come after: where they were, of which version, and how they ended."""
        columns = [self._cache.tasks[name][selection.places] for name in OF_RUN]
        host, run, old = self._cache.tasks["host"][selection.places], self._cache.tasks["run"][selection.places], []
        for at in np.flatnonzero(host).tolist():
            task, number = (selection.jobs[selection.job[at]].job_id, int(selection.instance[at])), int(run[at])
            self._cache.past_runs.add(*task, number, *(int(column[at]) for column in columns))
            old += [(*task, number - RUNS_KEPT)] if number >= RUNS_KEPT else []
        for table in (self._cache.past_runs, self._cache.run_reports) if old else ():
            table.delete("job_id = ? AND instance = ? AND run <= ?", old)

    def set_steps(self, row: JobRow, update: int, instances: I64, steps: I64) -> None:
        """Sets the steps of an update for instances of a job; others are ignored."""
        there = instances < row.instances
        places = self._cache.tasks.place(row.base + instances[there])
        self._cache.tasks["update"][places] = update
        self._cache.tasks["step"][places] = steps[there]
        self._cache.tasks.touch(places)

    def count_steps(self, row: JobRow, update: int, step: int) -> int:
        """The number of instances of a job at a step (`UpdateStep`) of an update."""
        tasks, places = self._cache.tasks, self._cache.tasks.place(row.base + np.arange(row.instances))
        return int(np.count_nonzero((tasks["update"][places] == update) & (tasks["step"][places] == step)))

    def change_need(self, row: JobRow, version: int, need: Amounts, ports: int, forgotten: Sequence[int]) -> None:
        """From now on the newest version of a job is another one, which needs this; of others no task is any more."""
        older = msgspec.json.decode(row.needs, type=dict[str, Amounts])
        text = to_json(need)
        older[str(row.version)] = amounts_in(row.need)
        row.version, row.need = version, text
        row.needs = to_json(
            {
                each: amounts
                for each, amounts in older.items()
                if to_json(amounts) != text and int(each) not in forgotten
            }
        )
        if ports > row.ports:
            self._widen_ports(row, ports)

    def _widen_ports(self, row: JobRow, ports: int) -> None:
        """Gives each task of a job more slots for its ports."""
        _, base = self.take_slots(0, row.slots * ports)
        port_table, before = self._cache.ports, row.ports
        if before:
            instances = np.repeat(np.arange(row.slots), before)
            port = np.tile(np.arange(before), row.slots)
            old = port_table.place(row.port_base + instances * before + port)
            numbers = port_table["port"][old].copy()
            new = port_table.place(base + instances * ports + port)
            port_table["port"][new] = numbers
            port_table.touch(new)
            port_table.clear(row.port_base, row.slots * before)
        row.port_base, row.ports = base, ports
        self._cache.jobs.put(row)

    def _ordered(self, moment: RecordContext, event: RunsOrdered) -> None:
        selection = self._named(moment, event)
        hosts = self._hosts.hosts(event.host_ids)
        index = event.host_array[selection.at]
        tasks = self._cache.tasks
        tasks["run"][selection.places] = event.run_array[selection.at]
        tasks["host"][selection.places] = np.array([host.number for host in hosts], dtype=np.int32)[index]
        for name in ("exit_code", "outcome", "started_s", "ended_s", "why"):
            tasks[name][selection.places] = 0
        tasks["ordered_s"][selection.places] = moment.now // 1000
        tasks["version"][selection.places] = event.version_array[selection.at]
        self._moves.move(moment, selection, TaskState.ORDERED)
        self._needs.ordered(selection, event)
        self._hosts.allocate(selection, hosts, index, 1)
        self._note_ports(selection, event)
        self._devices.ordered(selection, event)

    def _available(self, moment: RecordContext, event: RunsAvailable) -> None:
        selection = self._named(moment, event)
        self._cache.tasks["started_s"][selection.places] = moment.now // 1000
        self._ledger.begun(moment.now, self._cache.tasks, selection.places)
        self._moves.move(moment, selection, TaskState.RUNNING)
        for row in selection.jobs:
            row.started_ms = row.started_ms or moment.now

    def _stopping(self, moment: RecordContext, event: RunsStopping) -> None:
        selection = self._named(moment, event)
        tasks = self._cache.tasks
        state = tasks["state"][selection.places]
        current = tasks["run"][selection.places] == event.run_array[selection.at]
        current &= (state == TaskState.ORDERED) | (state == TaskState.RUNNING)
        tasks["why"][selection.places[current]] = event.why_array[selection.at[current]] if event.why else 0
        never_ran = selection.places[current & (state == TaskState.ORDERED)]
        self._ledger.begun(moment.now, tasks, never_ran)
        self._moves.move(moment, selection.some(current), TaskState.STOPPING)

    def _ended(self, moment: RecordContext, event: RunsEnded) -> None:
        selection = self._named(moment, event)
        tasks = self._cache.tasks
        outcome = event.outcome_array[selection.at]
        self._note_failures(selection, event)
        state = tasks["state"][selection.places]
        live = (state >= LIVE_TASKS[0]) & (state <= LIVE_TASKS[-1])
        running = selection.some(live)
        self._usage.ended(moment.now, running, self._needs)
        self._ledger.ended(moment.now, running, outcome[live], event.counts_as_array[running.at])
        self._hosts.release(running)
        self._needs.ended(running)
        self._devices.ended(running)
        counted = event.counts_as_array[selection.at] == Counts.TASK
        tasks["failures"][selection.places[counted]] = event.failures_array[selection.at[counted]]
        tasks["run"][selection.places] = event.run_array[selection.at]
        tasks["exit_code"][selection.places] = event.exit_code_array[selection.at]
        tasks["outcome"][selection.places] = outcome
        tasks["ended_s"][selection.places] = moment.now // 1000
        # A process that was over before its start was told has started all the same: then both are told at once.
        process = (outcome == Outcome.SUCCEEDED) | (outcome == Outcome.FAILED)
        unseen = selection.places[process & (tasks["started_s"][selection.places] == 0)]
        tasks["started_s"][unseen] = moment.now // 1000
        after, wait_ms = (
            event.next_array[selection.at],
            event.wait_ms_array[selection.at],
        )
        due_s = -(-(moment.now + wait_ms.astype(np.int64)) // 1000)
        tasks["due_s"][selection.places] = np.where((after == TaskState.BACKOFF) & (wait_ms > 0), due_s, 0)
        if event.why:
            tasks["why"][selection.places] = event.why_array[selection.at]
        for index in np.unique(selection.job[process]).tolist():
            selection.jobs[index].started_ms = selection.jobs[index].started_ms or moment.now
        self._moves.move(moment, selection, after)
        if event.why:
            self._count_killed(selection, 1)

    def _count_killed(self, selection: NamedTasks, sign: int) -> None:
        """Counts killed tasks of jobs by what ended them; `sign` -1: they are killed no longer."""
        killed = self._cache.tasks["state"][selection.places] == TaskState.KILLED
        why = self._cache.tasks["why"][selection.places[killed]]
        for name, cause in (("overran", RunCause.RUN_LIMIT), ("stopped", RunCause.STOP)):
            counted = np.bincount(selection.job[killed][why == cause], minlength=len(selection.jobs))
            for index in np.flatnonzero(counted).tolist():
                row = selection.jobs[index]
                setattr(row, name, getattr(row, name) + sign * int(counted[index]))

    @staticmethod
    def _note_failures(selection: NamedTasks, event: RunsEnded) -> None:
        run = event.run_array[selection.at]
        exit_code, why = event.exit_code_array[selection.at], event.why_array[selection.at]
        failed = np.flatnonzero(event.outcome_array[selection.at] == Outcome.FAILED)[::-1]
        jobs, last = np.unique(selection.job[failed], return_index=True)
        for index, at in zip(jobs.tolist(), failed[last].tolist(), strict=True):
            row = selection.jobs[index]
            row.failed_instance, row.failed_exit_code = int(selection.instance[at]), int(exit_code[at])
            row.failed_why, row.failed_run = int(why[at]), int(run[at])

    def _note_ports(self, selection: NamedTasks, event: RunsOrdered) -> None:
        """The port numbers stand one after another in the record, so many for each of its items; where a run has fewer
        than the one before it, the others are 0.
        """
        width = np.array([row.ports for row in selection.jobs], dtype=np.int64)[selection.job]
        if not width.any():
            return
        base = (
            np.array([row.port_base for row in selection.jobs], dtype=np.int64)[selection.job]
            + selection.instance * width
        )
        self._cache.ports.zero(spread(base, width))
        if not event.ports:
            return
        counts = event.port_count_array.astype(np.int64)
        starts = (np.cumsum(counts) - counts)[selection.at]
        counts = counts[selection.at]
        each = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        places = self._cache.ports.place(np.repeat(base, counts) + each)
        self._cache.ports["port"][places] = event.ports_array[np.repeat(starts, counts) + each]
        self._cache.ports.touch(places)
