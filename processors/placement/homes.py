"""Room on hosts that is kept for the next runs of tasks which ended there to go on: by an update or a restart.

A task has its home in two columns: `home`, the number of the host plus 1, and `home_s`, the second since when. What it
asks counts as used there, and ports that it must have as taken, so nobody else is put in its place. It ends when the
task has a place, there or elsewhere, when a run of it ends otherwise, when the host is given up or its maintenance
begins, or after `HOME_MS`, but for tasks that are bound to it.

Decision 038.
"""

from collections.abc import Callable

import numpy as np

from events.columns import I64, distinct, indexed
from processors.placement.hosts import Hosts
from processors.placement.packing import Mask, turns
from processors.placement.states import ABSENT
from processors.placement.waits import Waits
from processors.state.arena import Arena
from processors.state.calendar import Calendar
from processors.state.seconds import Wait, second
from processors.state.shapes import Shapes

HOME_MS = 120_000
"""Two minutes, after which others may use the room: nobody waits for longer for a run that doesn't come back."""
_KEPT = Wait(HOME_MS)


class Homes:
    """Keeps up the two columns, and what is held of hosts by them."""

    def __init__(self, arena: Arena, shapes: Shapes, hosts: Hosts, waits: Waits) -> None:
        self.tasks: dict[str, int] = {}
        """The number of tasks of each job that have a home."""
        self._arena = arena
        self._shapes = shapes
        self._hosts = hosts
        self._waits = waits
        self._calendar = Calendar(arena, "home_s", self._has)

    def _has(self, slots: I64) -> Mask:
        has: Mask = (self._arena["home"][slots] > 0) & (self._arena["pin"][slots] <= 0)
        return has

    def restored(self) -> None:
        """Finds again what is derived, and holds what is kept."""
        self.tasks.clear()
        self._calendar.clear()
        slots = np.flatnonzero(self._arena["home"])
        self._hold(slots, 1)
        self._calendar.note(slots[self._has(slots)])

    def note(self, slots: I64) -> None:
        """Tasks have these slots now, or aren't bound to a host any more."""
        self._calendar.note(slots[self._has(slots)])

    def next_ms(self) -> int | None:
        """When the next of them ends."""
        first = self._calendar.after() if self.tasks else None
        return None if first is None else _KEPT.over_ms(first)

    def until_ms(self, slot: int) -> int:
        """Until when the home of a task is kept."""
        return _KEPT.over_ms(int(self._arena["home_s"][slot]))

    def keep(self, slots: I64, numbers: I64, now: int) -> None:
        """Tasks whose runs have given their places back, ascending, have their homes there: on hosts by number."""
        there = ~self._hosts.are(ABSENT)[numbers] & (self._hosts.barred[numbers] == 0)
        slots, numbers = slots[there], numbers[there]
        if len(slots):
            self._arena.put(slots, home=numbers + 1, home_s=second(now))
            self._hold(slots, 1)
            self._calendar.note(slots[self._has(slots)])

    def leave(self, slots: I64) -> None:
        """Tasks, ascending, have no home any more, if they had one."""
        if not self.tasks:
            return
        slots = slots[self._arena["home"][slots] > 0]
        self._hold(slots, -1)
        self._arena.put(slots, home=0, home_s=0)

    def reshape(self, slots: I64, change: Callable[[], None]) -> None:
        """Tasks, ascending, ask something else after `change`: of those that ask more than their hosts have beside the
        others, no home is kept.
        """
        mine = slots[self._arena["home"][slots] > 0]
        self._hold(mine, -1)
        change()
        shapes = self._arena["shape"][mine]
        for number in distinct(shapes).tolist():
            slots = mine[shapes == number]
            fit = self._fits(slots, number)
            self._hold(slots[fit], 1)
            self._arena.put(slots[~fit], home=0, home_s=0)

    def _fits(self, slots: I64, number: int) -> Mask:
        """True for tasks of a shape whose hosts have what they ask, one after another."""
        need, ports = self._shapes[number].need, self._shapes[number].fixed_ports
        hosts = self._arena["home"][slots].astype(np.int64) - 1
        times, fit = turns(hosts) + 1, self._hosts.ports.without(ports)[hosts]
        if ports:
            fit &= times == 1
        for capacity, used, one in zip(self._hosts.capacity, self._hosts.used, need, strict=False):
            if one:
                fit &= times * one <= capacity[hosts] - used[hosts]
        return fit

    def passed(self, due_ms: int) -> None:
        """Time has passed."""
        if self.tasks:
            self.leave(self._calendar.until(_KEPT.since_s(due_ms)))

    def given_up(self, *host_ids: str) -> None:
        """Hosts are given up, forgotten or in maintenance: nothing is kept there."""
        if self.tasks:
            numbers = [self._hosts.table[host_id].number + 1 for host_id in host_ids]
            self.leave(np.flatnonzero(np.isin(self._arena["home"], numbers)))

    def _hold(self, slots: I64, sign: int) -> None:
        if not len(slots):
            return
        for job_id, part in self._waits.by_job(slots):
            self.tasks[job_id] = self.tasks.get(job_id, 0) + sign * len(part)
            assert self.tasks[job_id] >= 0, job_id
            if not self.tasks[job_id]:
                del self.tasks[job_id]
        shapes, index = indexed(self._arena["shape"][slots])
        needs = np.array([self._shapes[number].need for number in shapes.tolist()], dtype=np.int64)
        hosts = self._arena["home"][slots].astype(np.int64) - 1
        self._hosts.keep(hosts, needs[index].T, sign)
        for at, number in enumerate(shapes.tolist()):
            ports = [*self._shapes[number].fixed_ports]
            for host in hosts[index == at].tolist() if ports else ():
                (self._hosts.hold_ports if sign > 0 else self._hosts.free_ports)(host, ports)
