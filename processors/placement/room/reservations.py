"""Hosts reserved for a unit that is entitled and has found no place for some time: what ends there is kept for it.

A reservation is complete: when the batch work on its hosts has left, the whole unit fits there. Services stay. There is
one at a time, or several on up to a tenth of the hosts; a host is in one only, so no two units ever hold halves. After
a reservation that found no use, unit and hosts pause for a while, each time twice as long.
"""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
import numpy as np

from events.codes import Code
from events.ranks import RESERVES
from events.records.placement import HostsReserved, TasksPlaced
from processors.placement.hosts import Hosts
from processors.placement.packing import Mask
from processors.placement.room.table import RoomRow, RoomTable, Task
from processors.placement.runs import Runs
from processors.state.cell_settings import CellSettings
from processors.state.deadlines import Deadlines, earliest
from processors.state.seconds import Wait
from processors.state.table import Table, struct_table

K = TypeVar("K", Task, str)

DOUBLINGS_MAX = 3
"""A pause becomes up to eight times as long."""
PAUSE_LEAST_MS = 1_000
"""Cells that were set before may have a `reserve_for` of 0: without a pause one moment would have no end."""


REASON = Code.HOSTS_RESERVED


class PauseRow(msgspec.Struct, frozen=True, array_like=True):
    """A pause after a reservation found no use, until a time; `times` in a row."""

    times: int
    until_ms: int


class Reservations:
    """The rows of room that are reservations, and two tables of its own."""

    def __init__(self, room: RoomTable, runs: Runs, hosts: Hosts, settings: CellSettings) -> None:
        self.paused_units: Table[Task, PauseRow] = struct_table("paused_units", PauseRow, Task)
        self.paused_hosts: Table[str, PauseRow] = struct_table("paused_hosts", PauseRow)
        self._room = room
        self._runs = runs
        self._hosts = hosts
        self._settings = settings
        self._unit_pause_ends: Deadlines[Task] = Deadlines()
        self._host_pause_ends: Deadlines[str] = Deadlines()

    def restored(self) -> None:
        """Rebuilds the deadlines."""
        self._unit_pause_ends.restore((task, row.until_ms) for task, row in self.paused_units.items())
        self._host_pause_ends.restore((host_id, row.until_ms) for host_id, row in self.paused_hosts.items())

    # What is said.

    def reserved(self, event: HostsReserved, now: int) -> None:
        """Hosts are reserved, other amounts are kept there, or it is over."""
        task = (event.job_id, event.first)
        if event.state == Code.RESERVED:
            others = {host_id for unit, row in self._all() if unit != task for host_id in row.hosts}
            assert others.isdisjoint(event.host_ids), task
            row = RoomRow(
                count=event.count,
                run=event.run,
                hosts=[*event.host_ids],
                tasks=event.tasks_array.tolist(),
                shapes=event.shape_array.tolist(),
                reason=REASON,
                until_ms=event.until_ms,
                reported={**event.kept},
                alternative=event.alternative,
                passed=event.passed_codes,
            )
            if task in self._room.over:  # a plan of the same round has replaced it
                row.over = Code.WITHDRAWN
                self._room.over.put(task, row)
            else:
                self._room.put(task, row)
            return
        if task in self._room.over:
            self._room.over.remove(task)
        else:
            self._room.drop(task)
        if event.state == Code.IN_VAIN:
            self._pause(self.paused_units, self._unit_pause_ends, task, now, 0)
            self._pause_hosts(event.host_ids, now)

    def settle(self, event: Any, now: int) -> None:
        """Units of these jobs may have places, or wait no more."""
        for task in self._room.settled(REASON, event) if self._room.by_job else ():
            row = self._over(task, Code.PLACED if isinstance(event, TasksPlaced) else Code.WITHDRAWN)
            if isinstance(event, TasksPlaced):
                self._used(task, row, now)
        if not self.paused_units:
            return
        job_ids = {*(event.job_ids if hasattr(event, "job_ids") else (event.job_id,))}
        for task in [task for task in self.paused_units if task[0] in job_ids]:
            job = self._runs.jobs.get(task[0])
            if job is None or task[1] >= job.instances or not self._runs.arena["waiting"][job.base + task[1]]:
                self.paused_units.remove(task)
                self._unit_pause_ends.clear(task)

    def withdraw(self, task: Task) -> None:
        """Others are preempted for a unit: it needs no reservation."""
        if self._room.of(task, REASON) is not None:
            self._over(task, Code.WITHDRAWN)

    def lost(self, host_ids: set[str]) -> None:
        """Hosts have gone: what is reserved there isn't complete any more."""
        for task in [task for task, row in self._room.all(REASON) if not host_ids.isdisjoint(row.hosts)]:
            self.withdraw(task)

    def removed(self, host_id: str) -> None:
        """A host is forgotten; its number may be that of another."""
        self.lost({host_id})
        self._end_host_pause(host_id)

    def _end_host_pause(self, host_id: str) -> None:
        if host_id in self.paused_hosts:
            self.paused_hosts.remove(host_id)
            self._host_pause_ends.clear(host_id)

    def _all(self) -> Iterator[tuple[Task, RoomRow]]:
        """The reservations, those too whose end isn't said yet."""
        yield from self._room.all(REASON)
        yield from self._room.over.items()

    def _over(self, task: Task, why: Code) -> RoomRow:
        row = self._room.drop(task)
        row.over = why
        return self._room.over.put(task, row)

    def _used(self, task: Task, row: RoomRow, now: int) -> None:
        """A unit has places: on the hosts reserved for it, or these found no use."""
        first = self._runs.jobs[task[0]].base + task[1]
        numbers = self._runs.arena["host"][first : first + row.count].tolist()
        used = {self._hosts.ids[number - 1] for number in numbers if number}
        if not used.intersection(row.hosts):
            self._pause_hosts(row.hosts, now)
        for host_id in row.hosts:
            if host_id in used:
                self._end_host_pause(host_id)

    def _pause_hosts(self, host_ids: Sequence[str], now: int) -> None:
        for host_id in dict.fromkeys(host_ids):
            if host_id in self._hosts.table:
                self._pause(self.paused_hosts, self._host_pause_ends, host_id, now, 1)

    def _pause(self, table: Table[K, PauseRow], ends: Deadlines[K], key: K, now: int, more: int) -> None:
        """Doubles with each time, unless the last one is long over; hosts pause longer than units, which so find
        others.
        """
        pause_ms, had = max(PAUSE_LEAST_MS, self._settings.now.reserve_for_ms), table.get(key)
        again = had is not None and now - had.until_ms < pause_ms << DOUBLINGS_MAX
        times = had.times + 1 if had is not None and again else 1
        row = PauseRow(times, now + (pause_ms << min(times - 1 + more, DOUBLINGS_MAX)))
        table.put(key, row)
        ends.set(key, row.until_ms)

    # What is asked.

    def has(self, task: Task) -> bool:
        """Whether hosts are reserved for a unit, or the end of that isn't said yet."""
        return task in self._room.over or self._room.of(task, REASON) is not None

    def due(self, until_ms: int) -> list[tuple[Task, RoomRow, str]]:
        """The reservations that are over, or whose time is, in their order, and why; it isn't said yet."""
        in_vain = [(task, self._room.table[task], Code.IN_VAIN) for task in self._room.ends[REASON].due(until_ms)]
        return sorted([*in_vain, *((task, row, row.over) for task, row in self._room.over.items())], key=itemgetter(0))

    def present(self) -> list[tuple[Task, RoomRow]]:
        """The reservations that go on, in their order."""
        return sorted(self._room.all(REASON), key=itemgetter(0))

    def next_end_ms(self) -> int | None:
        """When the next reservation ends, if its unit has no place by then."""
        return self._room.ends[REASON].first()

    def next_ms(self, passed_ms: int) -> int | None:
        """When hosts may be reserved for a unit: it has waited for long enough, or a pause is over. Only times after
        `passed_ms` count: up to then all was looked at.
        """
        if not self._runs.waits.tasks:
            return None
        pause_end = earliest(self._unit_pause_ends.first(passed_ms), self._host_pause_ends.first(passed_ms))
        wait = self.wait
        waits = (self._runs.waits.calendars[rank] for rank in RESERVES)
        since = earliest(*(calendar.after(wait.since_s(passed_ms)) for calendar in waits))
        return earliest(pause_end, None if since is None else wait.over_ms(since))

    @property
    def wait(self) -> Wait:
        """The time that units wait for places until hosts are reserved for them."""
        return Wait(self._settings.now.reserve_after_ms)

    def blocked(self, now: int) -> Mask:
        """The hosts that can't be reserved now: they are reserved, or pause."""
        host_ids = [host_id for host_id, row in self.paused_hosts.items() if row.until_ms > now]
        host_ids += [host_id for _, row in self._all() for host_id in row.hosts if host_id in self._hosts.table]
        blocked = np.zeros(len(self._hosts.ids), dtype=np.bool_)
        blocked[[self._hosts.table[host_id].number for host_id in host_ids]] = True
        return blocked

    def is_paused(self, task: Task, now: int) -> bool:
        """Whether nothing is reserved for a unit now."""
        row = self.paused_units.get(task)
        return row is not None and row.until_ms > now

    @property
    def hosts_reserved(self) -> int:
        """The number of hosts that are reserved."""
        return sum(len({*row.hosts}) for _, row in self._all())
