"""The runs: which wait for a place, which have one, which are over.

Columns over all tasks in an `Arena`:

* `shape`: the number of the task's shape;
* `entitled`: 1 admitted within the entitlement of its pool, 2 borrowed, 0 not admitted; `admission`: the number of the
  admission, growing; both stay while the run has a place, and pass to the next run with a kept admission;
* `waiting`: the run that waits for a place; `since`: the second since when it waits at this rank (see `seconds.py`);
* `placed`: the run that has a place; `host`: its host's number plus 1; `placed_s`: the second since when;
  `available_s`: the second since when it is reported to be running, 0: not yet; `leaving`: the order by which it must
  leave, 0: none;
* `ended`: the highest run known to be over. A run at or below it is void whatever says it later, so what a run holds
  is given back exactly once.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.bounds import INT_MAX
from events.codes import ENDED_JOBS
from events.columns import I32, I64, distinct, indexed, ints
from events.instance_changes import instance_change
from events.records.entitlement import AdmissionsRanked, GangsAdmitted, PreemptionsOrdered
from events.records.lifecycle import (
    GangsQueued,
    InstancesChanged,
    JobAccepted,
    JobChanged,
    JobPriorityChanged,
    PreemptionAnswered,
    RunsAvailable,
    RunsEnded,
)
from events.records.placement import GangsReturned, GangsUnplaced, TasksPlaced
from processors.placement.hosts import Hosts
from processors.placement.rows import GANG, CellRow, JobRow
from processors.placement.waits import BORROWED, ENTITLED, Waits
from processors.state.arena import Arena, locate, locate_ranges
from processors.state.cell_settings import CellSettings
from processors.state.seconds import elapsed, milliseconds, second
from processors.state.shapes import MIXED, Shapes, shapes_of
from processors.state.table import Table, struct_table

Mask = NDArray[np.bool_]
Ranges = GangsAdmitted | AdmissionsRanked | GangsQueued | GangsReturned

COLUMNS = (
    *("shape", "entitled", "admission", "waiting", "since"),
    *("placed", "host", "placed_s", "available_s", "leaving", "ended"),
)


class NamedRuns(NamedTuple):
    """What ranges name: slots, each with the index of its range, of its job, and its run; and of each range its start
    and kind.
    """

    slots: I64
    range: I64
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
        self.arena = Arena("runs", COLUMNS)
        self._at: dict[int, str] = {}
        self.waits = Waits(self.jobs, self.arena, self._at)
        self.settings = settings
        self._hosts = hosts
        self._cell = cell

    def restored(self) -> None:
        """Rebuilds what is derived, and what runs hold of the hosts."""
        self.arena.restored()
        self.shapes.restored()
        self._at.clear()
        self._at.update((row.base, job_id) for job_id, row in self.jobs.items())
        self.waits.restored()
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

    def patience_over(self, now: int) -> I64:
        """The slots of borrowed work that has waited for a place as long as it may, ascending."""
        return self.waits.calendars[BORROWED].until(elapsed(now - self.settings.now.placement_patience_ms))

    def next_due_ms(self) -> int | None:
        """When the next patience ends."""
        first = self.waits.calendars[BORROWED].after()
        return None if first is None else milliseconds(first) + self.settings.now.placement_patience_ms

    def job_of(self, slot: int) -> str:
        """The job of a task."""
        return self._at[int(self.arena["owner"][slot]) - 1]

    def unit(self, slot: int) -> I64:
        """The tasks that are placed, and leave, with a task: its gang, or it alone."""
        row = self.jobs[self.job_of(slot)]
        if row.gang and row.gang_first <= slot - row.base < row.gang_first + row.gang:
            return np.arange(row.base + row.gang_first, row.base + row.gang_first + row.gang)
        return np.array([slot])

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
                pool=event.pool,
                priority=event.priority,
                preemptible=event.preemptible,
                service=event.kind != "batch",
                sla=event.max_unavailable is not None,
                controller=event.controller,
            ),
        )
        cell.jobs += 1

    def priority_changed(self, event: JobPriorityChanged, now: int) -> None:
        """A job has another priority."""
        if event.job_id in self.jobs:
            self.jobs.change(event.job_id).priority = event.priority

    def admitted(self, event: GangsAdmitted, now: int) -> None:
        """Gangs may be placed."""
        named = self._named(event)
        entitled = ints(event.entitled)[named.range] if event.entitled else np.ones(len(named.slots), dtype=np.int32)
        self._wait(event, named, np.where(entitled == 1, ENTITLED, BORROWED), now)

    def queued(self, event: GangsQueued, now: int) -> None:
        """Gangs whose admission was kept may be placed: they are what they were."""
        named = self._named(event, ints(event.admitted) == 1)
        kept = self.arena["entitled"][named.slots]
        self._wait(event, named, np.where(kept > 0, kept, ENTITLED), now)

    def ranked(self, event: AdmissionsRanked, now: int) -> None:
        """Admitted gangs are entitled from now on, or borrowed. Of those that were returned it is void."""
        named = self._named(event)
        arena, slots = self.arena, named.slots
        rank = np.where(ints(event.entitled)[named.range] == 1, ENTITLED, BORROWED)
        good = (arena["entitled"][slots] > 0) & (arena["entitled"][slots] != rank)
        slots, rank = slots[good], rank[good]
        waiting = slots[arena["waiting"][slots] > 0]
        self.waits.remove(waiting)
        arena.set("entitled", slots, rank)
        arena.set("since", waiting, second(now))
        self.waits.add(waiting)

    def placed(self, event: TasksPlaced, now: int) -> None:
        """Runs have places."""
        slots, _ = locate(event.job_ids, event.job, event.instance, self.stretch)
        numbers = np.array([self._hosts.table[host_id].number for host_id in event.host_ids], dtype=np.int64)
        host = numbers[ints(event.host)]
        self.arena.set("placed", slots, ints(event.run))
        self.arena.set("host", slots, host + 1)
        self.arena.set("placed_s", slots, second(now))
        self._stop_waiting(slots)
        self._hold(slots, 1)
        if event.ports:
            self._take_ports(event, host)

    def unplaced(self, event: GangsUnplaced, now: int) -> None:
        """It was said why a job's tasks wait."""
        row = self.jobs.change(event.job_id)
        row.reported[GANG if event.size > 1 else int(self.arena["shape"][row.base + event.instance])] = event.code

    def returned(self, event: GangsReturned, now: int) -> None:
        """Gangs went back to their pools."""
        slots = self._named(event).slots
        self._stop_waiting(slots)
        self._withdraw(slots)

    def available(self, event: RunsAvailable, now: int) -> None:
        """Runs were reported to be running."""
        slots = self._running(event)
        self.arena.set("available_s", slots, second(now))

    def ordered(self, event: PreemptionsOrdered, now: int) -> None:
        """Runs must leave."""
        self.arena.set("leaving", self._running(event), min(event.order, INT_MAX))

    def answered(self, event: PreemptionAnswered, now: int) -> None:
        """The runs of an order are over, or stay."""
        self.arena.set("leaving", np.flatnonzero(self.arena["leaving"] == min(event.number, INT_MAX)), 0)

    def ended(self, event: RunsEnded, now: int) -> None:
        """Runs are over: they give back what they hold, or need no place any more."""
        slots, known = locate(event.job_ids, event.job, event.instance, self.stretch)
        run = ints(event.run)
        if len(run) != len(slots):
            return
        slots, run, kept = slots[known], run[known], ints(event.kept)[known]
        order = np.lexsort((run, slots))
        order = order[np.diff(slots[order], append=-1) != 0]  # of a task named twice, the highest run
        slots, run, kept = slots[order], run[order], kept[order]
        arena = self.arena
        last = np.maximum(arena["ended"][slots], run)
        arena.set("ended", slots, last)
        self._release(slots[(arena["placed"][slots] > 0) & (arena["placed"][slots] <= last)])
        void_waits = slots[(arena["waiting"][slots] > 0) & (arena["waiting"][slots] <= last)]
        self._stop_waiting(self._whole_gangs(void_waits))
        self._withdraw(slots[(kept == 0) & (arena["placed"][slots] == 0) & (arena["waiting"][slots] == 0)])

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
            self.waits.moved(slots[self.arena["waiting"][slots] > 0])
        row.base, row.instances = start, event.instances

    # How.

    def _let_go(self, slots: I64) -> None:
        """Tasks have no place and need none any more."""
        self._release(slots[self.arena["placed"][slots] > 0])
        self._stop_waiting(slots[self.arena["waiting"][slots] > 0])
        self._withdraw(slots)

    def _withdraw(self, slots: I64) -> None:
        """Tasks aren't admitted any more."""
        self.arena.set("entitled", slots, 0)
        self.arena.set("admission", slots, 0)

    def _running(self, event: RunsAvailable | PreemptionsOrdered) -> I64:
        """The slots of the runs named that have a place now."""
        slots, known = locate(event.job_ids, event.job, event.instance, self.stretch)
        run = ints(event.run)
        if len(run) != len(slots):
            return slots[:0]
        slots, run = slots[known], run[known]
        return slots[self.arena["placed"][slots] == run]

    def _wait(self, event: GangsAdmitted | GangsQueued, named: NamedRuns, rank: I64, now: int) -> None:
        arena, slots, run = self.arena, named.slots, named.run
        good = (run > arena["ended"][slots]) & (arena["placed"][slots] == 0) & (arena["waiting"][slots] == 0)
        if named.gang.any():  # a gang of which a run is over is void as a whole: lifecycle ends the others too
            whole = np.logical_and.reduceat(good, named.starts) | ~named.gang
            good &= np.repeat(whole, np.diff(np.append(named.starts, len(slots))))
            self._know_gangs(event, named)
        taken = slots[good]
        arena.set("admission", taken, self._numbers(event, named.range[good], taken))
        arena.set("entitled", taken, rank[good])
        arena.set("waiting", taken, run[good])
        arena.set("since", taken, second(now))
        self.waits.add(taken)

    def _know_gangs(self, event: GangsAdmitted | GangsQueued, named: NamedRuns) -> None:
        """Which instances of a job are its gang, those say that admit it."""
        for start in named.starts[named.gang].tolist():
            at = int(named.range[start])
            first, count = int(ints(event.first)[at]), int(ints(event.count)[at])
            row = self.jobs[event.job_ids[int(named.job[start])]]
            if (row.gang_first, row.gang) != (first, count):
                row = self.jobs.change(event.job_ids[int(named.job[start])])
                row.gang_first, row.gang = first, count

    def _numbers(self, event: GangsAdmitted | GangsQueued, ranges: I64, slots: I64) -> I64:
        """The numbers of admissions: one more for each range; a kept admission has the one it had."""
        cell = self._cell.change("cell")
        more = len(ints(event.job))
        if cell.admissions > INT_MAX - more:
            self._renumber()
        fresh = cell.admissions + 1 + ranges
        cell.admissions += more
        if isinstance(event, GangsAdmitted):
            return fresh
        had = self.arena["admission"][slots]
        return np.where(had > 0, had, fresh)

    def _renumber(self) -> None:
        """The numbers of admissions have grown as far as a column goes: they are given anew, in their order."""
        slots = np.flatnonzero(self.arena["admission"])
        known, index = indexed(self.arena["admission"][slots])
        self.arena.set("admission", slots, index + 1)
        self._cell.change("cell").admissions = len(known)
        self.waits.restored()

    def _named(self, event: Ranges, wanted: Mask | None = None) -> NamedRuns:
        """What the ranges name, as far as it is there and wanted."""
        slots, index = locate_ranges(event.job_ids, event.job, event.first, event.count, self.stretch)
        if wanted is not None:
            slots, index = slots[wanted[index]], index[wanted[index]]
        starts = np.flatnonzero(np.diff(index, prepend=-1))
        return NamedRuns(
            slots, index, ints(event.job)[index], ints(event.run)[index], starts, ints(event.gang)[index[starts]] == 1
        )

    def _stop_waiting(self, slots: I64) -> None:
        """Tasks need no place now, or have one. Those that don't wait may be among them."""
        slots = slots[self.arena["waiting"][slots] > 0]
        for job_id in self.waits.remove(slots):
            if self.jobs[job_id].reported:
                self.jobs.change(job_id).reported = {}
        self.arena.set("waiting", slots, 0)
        self.arena.set("since", slots, 0)

    def _whole_gangs(self, slots: I64) -> I64:
        """The slots, and those that wait with them as members of one gang."""
        more: list[I64] = [slots]
        for job_id, part in self.by_job(slots):
            row = self.jobs[job_id]
            gang = self.unit(row.base + row.gang_first) if row.gang else part[:0]
            if len(np.intersect1d(gang, part)):
                members = gang
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
        for column in ("placed", "host", "placed_s", "available_s", "leaving"):
            self.arena.set(column, slots, 0)

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
