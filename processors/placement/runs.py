"""The runs: which wait for a place, which have one, which are over.

Columns over all tasks in an `Arena`:

* `shape`: the number of the task's shape;
* `entitled`: 1 admitted within the entitlement of its pool, 2 borrowed, 0 not admitted; `admission`: the number of the
  admission, growing; both stay while the run has a place, and pass to the next run with a kept admission;
* `waiting`: the run that waits for a place; `since`: the second since when it waits at this rank (see `seconds.py`);
* `placed`: the run that has a place; `host`: its host's number plus 1; `placed_s`: the second since when;
  `available_s`: the second since when it is reported to be running, 0: not yet; `leaving`: the order by which it must
  leave, 0: none;
* `home`, `home_s`: the host that is kept for the next run, and since when (`homes.py`);
* `pin`: the number plus 1 of the only host that its next run may have, 0: any that matches; below 0, that of a host
  which couldn't start it, so that others go first;
* `ended`: the highest run known to be over. A run at or below it is void whatever says it later, so what a run holds
  is given back exactly once.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from events.bounds import INT_MAX
from events.codes import Outcome
from events.columns import FEW, I32, I64, distinct, indexed
from events.device_columns import devices_of
from events.instance_changes import instance_change
from events.job_ends import is_over
from events.records.entitlement import PreemptionsOrdered
from events.records.lifecycle import (
    GangsQueued,
    InstancesChanged,
    JobAccepted,
    JobChanged,
    JobPriorityChanged,
    JobSlaChanged,
    PreemptionAnswered,
    RunsAvailable,
    RunsEnded,
)
from events.records.placement import HostRemoved, TasksPlaced
from events.sla import Bounds, has_sla, replaces_first
from events.task_shapes import queued_shapes
from processors.placement.admissions import Admissions
from processors.placement.devices.host_devices import Held
from processors.placement.devices.task_devices import TaskDevices
from processors.placement.homes import Homes
from processors.placement.hosts import Hosts
from processors.placement.job_index import JobIndex
from processors.placement.ports import TaskPorts
from processors.placement.rows import GANG, CellRow, JobRow
from processors.placement.waits import Waits
from processors.placement.windows import Windows
from processors.state.alternatives import NONE, groups_to_change, waiting_again, with_alternative
from processors.state.arena import Arena, locate, locate_ranges
from processors.state.cell_settings import CellSettings
from processors.state.leaving import Leaving
from processors.state.seconds import second
from processors.state.shapes import Shape, Shapes, shapes_of
from processors.state.table import Table, struct_table

COLUMNS = (
    *("shape", "rank", "admission", "waiting", "since"),
    *("placed", "host", "placed_s", "available_s", "leaving", "home", "home_s", "pin", "ended"),
)

NOWHERE = INT_MAX
"""In the column `pin`: the host of a task of a daemon is gone."""

AT_ONCE = 1 << 16
"""So many runs are told to hosts at once when all are."""


class Watch(Protocol):
    """The one who is told of runs as they take places on hosts, or give them back (`sign` -1)."""

    def held(self, slots: I64, numbers: I64, sign: int) -> None:
        """Runs take places on hosts, or give them back."""

    def timed(self, slots: I64, sign: int) -> None:
        """Runs are available since then, or (-1) that isn't so any more."""


class Runs:
    """Jobs, and the columns of their tasks. Keeps up what the runs hold of the hosts."""

    def __init__(self, hosts: Hosts, cell: Table[str, CellRow], settings: CellSettings, windows: Windows) -> None:
        self.windows = windows
        self.jobs: Table[str, JobRow] = struct_table("jobs", JobRow)
        self.ports = TaskPorts()
        self.devices = TaskDevices()
        self.shapes = Shapes()
        self.index = JobIndex(self.jobs, self.shapes)
        self.arena = Arena("runs", COLUMNS)
        self._at: dict[int, str] = {}
        self.waits = Waits(self.jobs, self.arena, self._at)
        self.admissions = Admissions(self.jobs, self.arena, self.waits, cell, settings)
        self.homes = Homes(self.arena, self.shapes, hosts, self.waits)
        self._leaving = Leaving(self.arena, self._at)
        self.elsewhere: dict[str, None] = {}
        """Jobs of which a host couldn't start tasks."""
        self._hosts = hosts
        self._cell = cell
        self.watch: Watch | None = None

    def restored(self) -> None:
        """Rebuilds what is derived, and what runs hold of the hosts; the arena is restored before."""
        self.shapes.restored()
        self.index.restored()
        self._at.clear()
        self._at.update((row.base, job_id) for job_id, row in self.jobs.items())
        self.waits.restored()
        self._leaving.restored()
        placed = np.flatnonzero(self.arena["placed"])
        for start in range(0, len(placed), AT_ONCE):
            self._hold(placed[start : start + AT_ONCE], 1)
        for slot, mine in self.devices.items():
            self._hosts.devices.put(int(self.arena["host"][slot]) - 1, slot, mine)
        self.homes.restored()
        avoiding = self.waits.by_job(np.flatnonzero(self.arena["pin"] < 0))
        self.elsewhere = {job_id: None for job_id, _ in avoiding}
        for slot, ports in self.ports.items():
            self._hosts.hold_ports(int(self.arena["host"][slot]) - 1, ports)

    def unit(self, slot: int) -> I64:
        """The tasks that are placed, and leave, with a task: its gang, or it alone."""
        row = self.jobs[self.waits.job_of(slot)]
        if row.in_gang(slot - row.base):
            return np.arange(row.base + row.gang_first, row.base + row.gang_first + row.gang)
        return np.array([slot])

    # What is said of jobs and runs.

    def accepted(self, event: JobAccepted, now: int) -> None:
        """A job is there."""
        shapes = shapes_of(event, self._hosts.kinds.asked_of_host)
        if event.job_id in self.jobs or not shapes:
            return
        sla = has_sla(event.max_unavailable, event.sla)
        cell = self._cell.change("cell")
        base = self.arena.take(event.instances, ended=event.first_run - 1) if event.instances else self.arena.take(1)
        self._at[base] = event.job_id
        row = self.jobs.put(
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
                sla=sla,
                controller=event.controller,
                daemon=event.kind == "daemon",
                labels=dict(sorted(event.labels.items())),
                stays=event.kind in ("stateful", "daemon"),
                bounds=_bounds(event) if sla else None,
                surge=_surge(event) if sla else 0,
                longest_ms=event.longest_ms,
            ),
        )
        self.index.add(event.job_id, row)
        cell.jobs += 1

    def priority_changed(self, event: JobPriorityChanged, now: int) -> None:
        """A job has another priority."""
        if event.job_id in self.jobs:
            self.jobs.change(event.job_id).priority = event.priority

    def sla_changed(self, event: JobSlaChanged, now: int) -> None:
        """A job has an objective of availability, or none any more."""
        if event.job_id in self.jobs:
            row = self.jobs.change(event.job_id)
            row.sla, row.bounds, row.surge = has_sla(event.max_unavailable, event.sla), _bounds(event), _surge(event)

    def queued(self, event: GangsQueued, now: int) -> None:
        """Runs wait for admission, or for a place where it is kept, some of them on one host alone; their tasks may ask
        something else than before.
        """
        if event.shapes:
            self._reshape(event)
        slots, index = locate_ranges(event, self.jobs)
        if event.pin:
            self._bind(event, slots, event.pin_array[index])
        else:
            self._pin(slots[self.arena["pin"][slots] != 0], 0)
        if event.avoid:
            self._keep_from(event, slots, event.avoid_array[index])
        self.admissions.queued(event, now)

    def host_removed(self, event: HostRemoved, now: int) -> None:
        """A host is forgotten; to be called while it still has its number. What was bound to it may run anywhere; a
        task of a daemon nowhere: it is about to be removed.
        """
        pin, number = self.arena["pin"], self._hosts.table[event.host_id].number + 1
        self.arena.set("pin", np.flatnonzero(pin == -number), 0)
        slots = np.flatnonzero(pin == number)
        for job_id, part in self.waits.by_job(slots):
            self._pin(part, NOWHERE if self.jobs[job_id].daemon else 0)
            self._hosts.changed()

    def placed(self, event: TasksPlaced, now: int) -> None:
        """Runs have places."""
        slots, _ = locate(event, self.jobs)
        numbers = np.array([self._hosts.table[host_id].number for host_id in event.host_ids], dtype=np.int64)
        host = numbers[event.host_array]
        self.homes.leave(np.sort(slots))
        if event.alternative:
            self._ask_as(slots, event.alternative_array)
        self.arena.put(slots, placed=event.run_array, host=host + 1, placed_s=second(now))
        self.admissions.stop(slots)
        self._hold(slots, 1)
        if event.ports:
            self._take_ports(event, slots, host)
        if event.device_count:
            items = {item: tuple(devices) for item, devices in devices_of(event)}
            self._take_devices(slots, host, [items.get(item, ()) for item in range(len(slots))])
        elif self._hosts.devices.any:
            self._take_unnamed(slots, host)

    def available(self, event: RunsAvailable, now: int) -> None:
        """Runs were reported to be running."""
        slots = self._running(event)
        if self.watch is not None:
            self.watch.timed(slots, -1)
        self.arena.set("available_s", slots, second(now))
        if self.watch is not None:
            self.watch.timed(slots, 1)

    def ordered(self, event: PreemptionsOrdered, now: int) -> None:
        """Runs must leave."""
        slots = self._running(event)
        self.arena.set("leaving", slots, min(event.order, INT_MAX))
        self._leaving.add(min(event.order, INT_MAX), slots)

    def answered(self, event: PreemptionAnswered, now: int) -> None:
        """The runs of an order are over, or stay."""
        if event.number > 0:
            self.arena.set("leaving", self._leaving.take(min(event.number, INT_MAX), self._stretch), 0)

    def _stretch(self, job_id: str) -> tuple[int, int]:
        row = self.jobs.get(job_id)
        return (row.base, row.instances) if row is not None else (0, 0)

    def ended(self, event: RunsEnded, now: int) -> None:
        """Runs are over: they give back what they hold, or need no place any more."""
        slots, exists = locate(event, self.jobs)
        run = event.run_array
        if len(run) != len(slots):
            return
        slots, run, keeps = slots[exists], run[exists], event.kept_array[exists]
        hold, again = event.hold_array[exists] == 1, bool(keeps.any())
        lost = event.outcome_array[exists] == Outcome.LOST if again else hold
        if len(slots) > 1:
            order = np.lexsort((run, slots))
            order = order[np.diff(slots[order], append=-1) != 0]  # of a task named twice, the highest run
            slots, run, keeps, hold, lost = slots[order], run[order], keeps[order], hold[order], lost[order]
        arena = self.arena
        self.homes.leave(slots[~hold & (run > arena["ended"][slots])])
        last = np.maximum(arena["ended"][slots], run)
        arena.set("ended", slots, last)
        over = (arena["placed"][slots] > 0) & (arena["placed"][slots] <= last)
        there = arena["host"][slots].astype(np.int64) - 1
        self._release(slots[over])
        self.homes.keep(slots[over & hold], there[over & hold], now)
        void_waits = slots[(arena["waiting"][slots] > 0) & (arena["waiting"][slots] <= last)]
        self.admissions.stop(self._whole_gangs(void_waits))
        idle = (arena["placed"][slots] == 0) & (arena["waiting"][slots] == 0)
        self.admissions.withdraw(slots[(keeps == 0) & idle])
        if self.shapes.of_devices:
            given_up = slots[over & (keeps == 0)]
            self._ask_as(given_up, np.full(len(given_up), NONE))
        if again:
            self.admissions.come_back(slots[(keeps == 1) & idle], lost[(keeps == 1) & idle])

    def changed(self, event: JobChanged, now: int) -> None:
        """A job that has ended leaves the state; what others still say of it is void."""
        row = self.jobs.get(event.job_id)
        if row is None or not is_over(event):
            return
        self._let_go(np.arange(row.base, row.base + row.instances))
        self.shapes.give_back_job(row.shapes)
        self.arena.give_back(row.base, row.instances)
        del self._at[row.base]
        self.waits.bound.pop(event.job_id, None)
        self.index.remove(event.job_id, row)
        self.jobs.remove(event.job_id)
        self.elsewhere.pop(event.job_id, None)

    def instances_changed(self, event: InstancesChanged, now: int) -> None:
        """Instances of a job were added or removed."""
        shapes = shapes_of(event, self._hosts.kinds.asked_of_host)
        if event.job_id not in self.jobs or len(shapes) < len(event.shapes):
            return
        row = self.jobs.change(event.job_id)
        self._let_go(row.base + instance_change(event).removed)
        del self._at[row.base]
        start, more = self.shapes.change_job(self.arena, row.base, row.instances, event, shapes)
        self._count_shapes(event.job_id, row, more)
        self._at[start] = event.job_id
        if start != row.base:
            if len(self.ports):
                self.ports.move(row.base, row.instances, start)
            for slot in self.devices.move(row.base, row.instances, start) if len(self.devices) else ():
                host = int(self.arena["host"][slot + start - row.base]) - 1
                self._hosts.devices.move(host, slot, slot + start - row.base)
            slots = np.arange(start, start + event.instances)
            self.waits.moved(slots[self.arena["waiting"][slots] > 0])
            self.homes.note(slots)
        row.base, row.instances = start, event.instances

    # How.

    def _reshape(self, event: GangsQueued) -> None:
        shapes = shapes_of(event, self._hosts.kinds.asked_of_host)
        slots, index = locate_ranges(event, self.jobs)
        shape, run = queued_shapes(event)[index], event.run_array[index]
        new = (shape >= 0) & (run > self.arena["ended"][slots]) & (self.arena["placed"][slots] == 0)
        slots, shape = slots[new], shape[new]
        order = np.argsort(slots, kind="stable")
        slots, shape = slots[order], shape[order]
        start = 0
        for job_id, part in self.waits.by_job(slots) if shapes else ():
            index, start = shape[start : start + len(part)], start + len(part)
            self.homes.reshape(part, partial(self._change_shapes, job_id, part, index, shapes))

    def _change_shapes(self, job_id: str, slots: I64, index: I64, shapes: Sequence[Shape]) -> None:
        more = self.shapes.change_tasks(self.arena, slots, index, shapes)
        self._count_shapes(job_id, self.jobs.change(job_id), more)

    def _ask_as(self, slots: I64, numbers: I64 | I32) -> None:
        """Tasks ask what the alternatives ask that they took, or (NONE) may take any again."""
        vector = self._hosts.kinds.asked_of_host
        for job_id, shape, number, mine in groups_to_change(self.arena, self.shapes, self._at, slots, numbers):
            changed = waiting_again(shape, vector) if number == NONE else with_alternative(shape, number, vector)
            self._change_shapes(job_id, mine, np.zeros(len(mine), dtype=np.int64), [changed])

    def _count_shapes(self, job_id: str, row: JobRow, more: dict[int, int]) -> None:
        """A job has so many more tasks of each shape."""
        tasks = {number: row.shapes.get(number, 0) + more.get(number, 0) for number in row.shapes | more}
        row.shapes = {number: count for number, count in tasks.items() if count}
        self.index.reshaped(job_id, row)
        assert min(tasks.values(), default=0) >= 0, tasks
        row.reported = {number: code for number, code in row.reported.items() if number in row.shapes or number <= GANG}

    def _bind(self, event: GangsQueued, slots: I64, pin: I32) -> None:
        """Tasks may run on one host alone, -1: anywhere."""
        rows = (self._hosts.table.get(host_id) for host_id in event.host_ids)
        numbers = np.array([*(row.number + 1 if row else NOWHERE for row in rows), 0], dtype=np.int64)
        for job_id, at in self._of_jobs(slots):
            row, pins = self.jobs.change(job_id), numbers[pin[at]]
            if pins.any():
                row.bound = True
                self.waits.bound[job_id] = None
            self._pin(slots[at], pins if row.daemon else np.where(pins == NOWHERE, 0, pins))

    def _pin(self, slots: I64, pins: I64 | int) -> None:
        """Tasks are bound to hosts by `pins`, or to none any more."""
        bound = slots[self.arena["pin"][slots] > 0] if self.homes.tasks else slots[:0]
        self.arena.set("pin", slots, pins)
        if len(bound):
            self.homes.note(bound)

    def _keep_from(self, event: GangsQueued, slots: I64, avoid: I32) -> None:
        """Tasks couldn't be started on a host, -1: on none; another one goes first, if it has room."""
        rows = (self._hosts.table.get(host_id) for host_id in event.host_ids)
        numbers = np.array([*(row.number + 1 if row else 0 for row in rows), 0], dtype=np.int64)[avoid]
        away = (numbers > 0) & (self.arena["pin"][slots] == 0)
        self.arena.set("pin", slots[away], -numbers[away])
        for job_id, _ in self._of_jobs(slots[away]):
            self.elsewhere[job_id] = None

    def _of_jobs(self, slots: I64) -> Iterator[tuple[str, I64]]:
        """The indexes of slots, job by job."""
        bases, index = indexed(self.arena["owner"][slots] - 1)
        for at, base in enumerate(bases.tolist()):
            yield self._at[base], np.flatnonzero(index == at)

    def _let_go(self, slots: I64) -> None:
        """Tasks have no place and need none any more."""
        if len(slots) <= FEW and not any(map(any, self.arena.rows(slots, "placed", "waiting", "rank", "home"))):
            return
        self._release(slots[self.arena["placed"][slots] > 0])
        self.admissions.stop(slots[self.arena["waiting"][slots] > 0])
        self.admissions.withdraw(slots)
        self.homes.leave(slots)

    def _running(self, event: RunsAvailable | PreemptionsOrdered) -> I64:
        """The slots of the runs named that have a place now."""
        slots, exists = locate(event, self.jobs)
        run = event.run_array
        if len(run) != len(slots):
            return slots[:0]
        slots, run = slots[exists], run[exists]
        running: I64 = slots[self.arena["placed"][slots] == run]
        return running

    def _whole_gangs(self, slots: I64) -> I64:
        """The slots, and those that wait with them as members of one gang."""
        more: list[I64] = [slots]
        for job_id, part in self.waits.by_job(slots):
            row = self.jobs[job_id]
            gang = self.unit(row.base + row.gang_first) if row.gang else part[:0]
            if len(np.intersect1d(gang, part)):
                members = gang
                more.append(members[self.arena["waiting"][members] > 0])
        return distinct(np.concatenate(more)) if len(more) > 1 else slots

    def _hold(self, slots: I64, sign: int) -> None:
        """Placed runs take what they need, ports left out, or (sign -1) give it back."""
        shapes, index = indexed(self.arena["shape"][slots])
        needs = np.array([self.shapes[number].need for number in shapes.tolist()], dtype=np.int64)
        host = self.arena["host"][slots].astype(np.int64) - 1
        self._hosts.hold(host, needs[index].T, sign)
        if self.watch is not None:
            self.watch.held(slots, host, sign)
        assert sign > 0 or self.homes.tasks or self._hosts.are_balanced(host), "amounts are used where nothing runs"

    def _release(self, slots: I64) -> None:
        if not len(slots):
            return
        self._hold(slots, -1)
        if len(self.ports):
            for slot, ports in self.ports.take_away(slots):
                self._hosts.free_ports(int(self.arena["host"][slot]) - 1, ports)
        for slot in self.devices.take_away(slots):
            host = int(self.arena["host"][slot]) - 1
            self._hosts.devices.take_away(host, slot)
            self._hosts.freed(host)
        self.arena.put(slots, placed=0, host=0, placed_s=0, available_s=0, leaving=0)

    def _take_devices(self, slots: I64, host: I64, devices: Iterable[Held]) -> None:
        for slot, number, mine in zip(slots.tolist(), host.tolist(), devices, strict=True):
            if mine:
                self.devices.put(slot, mine)
                self._hosts.devices.put(number, slot, mine)

    def _take_unnamed(self, slots: I64, host: I64) -> None:
        """Runs take the devices that they find: a record of 0.3 names none."""
        shapes = self.arena["shape"][slots]
        for shape in distinct(shapes).tolist():
            need = self._hosts.device_need(self.shapes[shape])
            if need is None:
                continue
            for at in np.flatnonzero(shapes == shape).tolist():
                forced = self._hosts.devices.forced(int(host[at]), need)
                self._take_devices(slots[at : at + 1], host[at : at + 1], [forced])

    def _take_ports(self, event: TasksPlaced, slots: I64, host: I64) -> None:
        ports, at = event.ports_array.tolist(), 0
        for slot, number, count in zip(slots.tolist(), host.tolist(), event.port_count_array.tolist(), strict=True):
            if count:
                mine = ports[at : at + count]
                at += count
                self.ports.put(slot, mine)
                self._hosts.hold_ports(number, mine)


def _bounds(event: JobAccepted | JobSlaChanged) -> Bounds | None:
    return Bounds.of(event.max_unavailable, event.sla) if has_sla(event.max_unavailable, event.sla) else None


def _surge(event: JobAccepted | JobSlaChanged) -> int:
    return event.sla.surge if event.sla is not None and replaces_first(event.sla) else 0
