"""The runs: which wait for a place, which have one, which are over.

Columns over all tasks in an `Arena`: `shape` the number of the task's shape, `waiting` the run that waits for a place,
`until` when its patience ends (see `seconds.py`), `placed` the run that has a place, `host` its host's number plus 1,
`ended` the highest run known to be over. A run at or below `ended` is void whatever says it later, so what a run holds
is given back exactly once.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.codes import ENDED_JOBS
from events.columns import I32, I64, counted, distinct, indexed, ints
from events.instance_changes import instance_change
from events.records.entitlement import GangsAdmitted
from events.records.lifecycle import GangsQueued, InstancesChanged, JobAccepted, JobChanged, RunsEnded
from events.records.placement import GangsReturned, GangsUnplaced, TasksPlaced
from processors.placement.hosts import Hosts
from processors.placement.rows import CellRow, JobRow
from processors.state.arena import Arena, locate, locate_ranges
from processors.state.cell_settings import CellSettings
from processors.state.seconds import milliseconds, second
from processors.state.shapes import MIXED, Shapes, shapes_of
from processors.state.table import Table, struct_table

Mask = NDArray[np.bool_]
Ranges = GangsAdmitted | GangsQueued | GangsReturned


class NamedRuns(NamedTuple):
    """What ranges name: slots, each with the index of its job and its run, and of each range its start and kind."""

    slots: I64
    job: I32
    run: I32
    starts: I64
    gang: Mask


class Runs:
    """Jobs, and the columns of their tasks. Keeps up what the runs hold of the hosts."""

    def __init__(self, hosts: Hosts, cell: Table[str, CellRow], settings: CellSettings) -> None:
        self.jobs: Table[str, JobRow] = struct_table("jobs", JobRow)
        self.ports: Table[tuple[str, int], list[int]] = struct_table("ports", list[int], tuple[str, int])
        self.shapes = Shapes()
        self.arena = Arena("runs", ("shape", "waiting", "until", "placed", "host", "ended"))
        self.waiting: dict[str, int] = {}
        """The jobs with tasks that wait, and how many."""
        self.settings = settings
        self._hosts = hosts
        self._cell = cell
        self._at: dict[int, str] = {}
        self._due: dict[int, list[I64]] = {}
        self._due_heap: list[int] = []

    def restored(self) -> None:
        """Rebuilds what is derived, and what runs hold of the hosts."""
        self.arena.restored()
        self.shapes.restored()
        self._at = {row.base: job_id for job_id, row in self.jobs.items()}
        waiting = np.flatnonzero(self.arena["waiting"])
        self.waiting = {job_id: len(slots) for job_id, slots in self.by_job(waiting)}
        self._due.clear()
        self._due_heap.clear()
        self._note_due(waiting)
        placed = np.flatnonzero(self.arena["placed"])
        self._hold(placed, 1)
        for (job_id, instance), ports in self.ports.items():
            slot = self.jobs[job_id].base + instance
            self._hosts.hold_ports(int(self.arena["host"][slot]) - 1, ports)

    def stretch(self, job_id: str) -> tuple[int, int] | None:
        """Base and size of a job in the arena."""
        row = self.jobs.get(job_id)
        return None if row is None else (row.base, row.instances)

    def by_job(self, slots: I64) -> Iterator[tuple[str, I64]]:
        """Ascending slots, job by job."""
        if len(slots):
            owner = self.arena["owner"][slots]
            starts = np.flatnonzero(np.diff(owner, prepend=-1))
            for part in np.split(slots, starts[1:]):
                yield self._at[int(self.arena["owner"][part[0]]) - 1], part

    def due(self, now: int) -> I64:
        """The slots whose patience has ended, ascending."""
        if not self._due_heap or milliseconds(self._due_heap[0]) > now:
            return np.zeros(0, dtype=np.int64)
        found = [self._still_due(at) for at in sorted(self._due) if milliseconds(at) <= now]
        return np.sort(np.concatenate(found))

    def next_due_ms(self) -> int | None:
        """When the next patience ends."""
        while self._due_heap:
            first = self._due_heap[0]
            if len(self._still_due(first)):
                return milliseconds(first)
            heappop(self._due_heap)
            self._due.pop(first, None)
        return None

    # What is said of jobs and runs.

    def accepted(self, event: JobAccepted, now: int) -> None:
        """A job is there."""
        shapes = shapes_of(event, self._hosts.kinds.asked_of_host)
        if event.job_id in self.jobs or event.instances < 1 or not shapes:
            return
        cell = self._cell.change("cell")
        base = self.arena.take(event.instances)
        self.arena.fill("ended", base, event.instances, event.first_run - 1)
        self._at[base] = event.job_id
        self.jobs.put(
            event.job_id,
            JobRow(
                number=cell.jobs,
                base=base,
                instances=event.instances,
                shapes=self.shapes.take_job(self.arena, base, event, shapes),
                gang=min(event.gang_min, event.instances) if event.gang_min > 1 else 0,
                priority=event.priority,
            ),
        )
        cell.jobs += 1

    def admitted(self, event: GangsAdmitted, now: int) -> None:
        """Gangs may be placed."""
        self._wait(event, None, now)

    def queued(self, event: GangsQueued, now: int) -> None:
        """Gangs whose admission was kept may be placed."""
        self._wait(event, ints(event.admitted), now)

    def placed(self, event: TasksPlaced, now: int) -> None:
        """Runs have places."""
        slots, _ = locate(event.job_ids, event.job, event.instance, self.stretch)
        numbers = np.array([self._hosts.table[host_id].number for host_id in event.host_ids], dtype=np.int64)
        host = numbers[ints(event.host)]
        self.arena.set("placed", slots, ints(event.run))
        self.arena.set("host", slots, host + 1)
        self._stop_waiting(slots)
        self._hold(slots, 1)
        for job_id in event.job_ids:
            if self.jobs[job_id].returns:
                self.jobs.change(job_id).returns = 0
        if event.ports:
            self._take_ports(event, host)

    def unplaced(self, event: GangsUnplaced, now: int) -> None:
        """It was said why a job's tasks wait."""
        self.jobs.change(event.job_id).reported_code = event.code

    def returned(self, event: GangsReturned, now: int) -> None:
        """Gangs went back to their pools."""
        named = self._named(event, None)
        self._stop_waiting(named.slots)
        if event.not_before_ms:
            for job_id in event.job_ids:
                self.jobs.change(job_id).returns += 1

    def ended(self, event: RunsEnded, now: int) -> None:
        """Runs are over: they give back what they hold, or need no place any more."""
        slots, known = locate(event.job_ids, event.job, event.instance, self.stretch)
        run = ints(event.run)
        if len(run) != len(slots):
            return
        slots, run = slots[known], run[known]
        order = np.lexsort((run, slots))  # of a task named twice, the highest run is set last
        slots, run = slots[order], run[order]
        arena = self.arena
        arena.set("ended", slots, np.maximum(arena["ended"][slots], run))
        slots = distinct(slots)
        last = arena["ended"][slots]
        self._release(slots[(arena["placed"][slots] > 0) & (arena["placed"][slots] <= last)])
        void_waits = slots[(arena["waiting"][slots] > 0) & (arena["waiting"][slots] <= last)]
        self._stop_waiting(self._whole_gangs(void_waits))

    def changed(self, event: JobChanged, now: int) -> None:
        """A job that has ended leaves the state; what others still say of it is void."""
        row = self.jobs.get(event.job_id)
        if row is None or event.state not in ENDED_JOBS:
            return
        self._let_go(np.arange(row.base, row.base + row.instances))
        self.shapes.give_back_job(row.shapes)
        self.arena.give_back(row.base, row.instances)
        del self._at[row.base]
        self.jobs.remove(event.job_id)

    def instances_changed(self, event: InstancesChanged, now: int) -> None:
        """Instances of a job were added or removed."""
        shapes = shapes_of(event, self._hosts.kinds.asked_of_host)
        if event.job_id not in self.jobs or len(shapes) < len(event.shapes):
            return
        row = self.jobs.change(event.job_id)
        self._let_go(row.base + instance_change(event).removed)
        del self._at[row.base]
        start, more = self.shapes.change_job(self.arena, row.base, row.instances, event, shapes)
        tasks = {number: row.shapes.get(number, 0) + more.get(number, 0) for number in row.shapes | more}
        row.shapes = {number: count for number, count in tasks.items() if count}
        self._at[start] = event.job_id
        if start != row.base:
            slots = np.arange(start, start + event.instances)
            self._note_due(slots[self.arena["waiting"][slots] > 0])
        row.base, row.instances = start, event.instances

    # How.

    def _let_go(self, slots: I64) -> None:
        """Tasks have no place and need none any more."""
        self._release(slots[self.arena["placed"][slots] > 0])
        self._stop_waiting(slots[self.arena["waiting"][slots] > 0])

    def _wait(self, event: Ranges, admitted: I32 | None, now: int) -> None:
        named = self._named(event, admitted)
        arena, slots, run = self.arena, named.slots, named.run
        good = (run > arena["ended"][slots]) & (arena["placed"][slots] == 0) & (arena["waiting"][slots] == 0)
        if named.gang.any():  # a gang of which a run is over is void as a whole: lifecycle ends the others too
            whole = np.logical_and.reduceat(good, named.starts) | ~named.gang
            good &= np.repeat(whole, np.diff(np.append(named.starts, len(slots))))
        taken = slots[good]
        arena.set("waiting", taken, run[good])
        patience_ms = self.settings.now.placement_patience_ms
        arena.set("until", taken, second(now + patience_ms))
        self._note_due(taken)
        for at, count in enumerate(np.bincount(named.job[good], minlength=len(event.job_ids)).tolist()):
            if count:
                job_id = event.job_ids[at]
                self.waiting[job_id] = self.waiting.get(job_id, 0) + count

    def _named(self, event: Ranges, admitted: I32 | None) -> NamedRuns:
        """What the ranges name, as far as it is there; with `admitted` those of 1."""
        slots, index = locate_ranges(event.job_ids, event.job, event.first, event.count, self.stretch)
        if admitted is not None:
            wanted = admitted[index] == 1
            slots, index = slots[wanted], index[wanted]
        starts = np.flatnonzero(np.diff(index, prepend=-1))
        return NamedRuns(
            slots, ints(event.job)[index], ints(event.run)[index], starts, ints(event.gang)[index[starts]] == 1
        )

    def _stop_waiting(self, slots: I64) -> None:
        """Tasks need no place now, or have one."""
        if not len(slots):
            return
        self.arena.set("waiting", slots, 0)
        self.arena.set("until", slots, 0)
        bases, counts = counted(self.arena["owner"][slots] - 1)
        for base, count in zip(bases.tolist(), counts.tolist(), strict=True):
            job_id = self._at[base]
            self.waiting[job_id] -= count
            if not self.waiting[job_id]:
                del self.waiting[job_id]
                if self.jobs[job_id].reported_code:
                    self.jobs.change(job_id).reported_code = ""

    def _whole_gangs(self, slots: I64) -> I64:
        """The slots, and those that wait with them as members of one gang."""
        more: list[I64] = [slots]
        for job_id, part in self.by_job(slots):
            row = self.jobs[job_id]
            if row.gang and part[0] < row.base + row.gang:
                members = np.arange(row.base, row.base + row.gang)
                more.append(members[self.arena["waiting"][members] > 0])
        return distinct(np.concatenate(more)) if len(more) > 1 else slots

    def _hold(self, slots: I64, sign: int) -> None:
        """Placed runs take what they need, ports left out, or (sign -1) give it back."""
        if not len(slots):
            return
        shapes, index = indexed(self.arena["shape"][slots])
        needs = np.array([self.shapes[number].need for number in shapes.tolist()], dtype=np.int64)
        host = self.arena["host"][slots].astype(np.int64) - 1
        self._hosts.hold(host, needs[index].T, sign)

    def _release(self, slots: I64) -> None:
        self._hold(slots, -1)
        for job_id, part in self.by_job(slots) if len(self.ports) else ():
            row = self.jobs[job_id]
            for slot in part.tolist() if row.shape == MIXED or self.shapes[row.shape].ports else ():
                key = (job_id, slot - row.base)
                if key in self.ports:
                    self._hosts.free_ports(int(self.arena["host"][slot]) - 1, self.ports[key])
                    self.ports.remove(key)
        self.arena.set("placed", slots, 0)
        self.arena.set("host", slots, 0)

    def _take_ports(self, event: TasksPlaced, host: I64) -> None:
        ports, at = ints(event.ports).tolist(), 0
        columns: Iterable[tuple[int, int, int, int]] = zip(
            ints(event.job).tolist(),
            ints(event.instance).tolist(),
            host.tolist(),
            ints(event.port_count).tolist(),
            strict=True,
        )
        for job, instance, number, count in columns:
            if count:
                mine = ports[at : at + count]
                at += count
                self.ports.put((event.job_ids[job], instance), mine)
                self._hosts.hold_ports(number, mine)

    def _note_due(self, slots: I64) -> None:
        until = self.arena["until"][slots]
        for at in distinct(until).tolist():
            if at not in self._due:
                heappush(self._due_heap, at)
            self._due.setdefault(at, []).append(slots[until == at])

    def _still_due(self, at: int) -> I64:
        slots = distinct(np.concatenate(self._due[at])) if at in self._due else np.zeros(0, dtype=np.int64)
        still: I64 = slots[(self.arena["waiting"][slots] > 0) & (self.arena["until"][slots] == at)]
        return still
