"""Room that is held on hosts for units that wait: where others leave for one by a plan, or where hosts are drained for
one.

A hold is the need of the tasks of its unit there. Each unit has its part of the free amounts of a host, those admitted
first before the others; the rest anybody may use.
"""

from typing import NamedTuple, Protocol

import numpy as np

from events.codes import Code
from events.columns import I64, distinct
from processors.placement.hosts import Hosts
from processors.placement.kept import KeptRoom, OwnRoom
from processors.placement.packing import turns
from processors.placement.plans import Plans, Task
from processors.placement.reservation_rows import ReservationRow
from processors.placement.runs import Runs
from processors.state.table import Table


class Places(Protocol):
    """Where a unit is to be: the rows of plans and reservations."""

    @property
    def count(self) -> int: ...  # noqa: D102 - the class says it
    @property
    def hosts(self) -> list[str]: ...  # noqa: D102 - the class says it
    @property
    def tasks(self) -> list[int]: ...  # noqa: D102 - the class says it
    @property
    def shapes(self) -> list[int]: ...  # noqa: D102 - the class says it


class Hold(NamedTuple):
    """The room held for one unit."""

    task: Task
    hosts: I64
    """Numbers of hosts, ascending."""
    needs: I64
    """[kinds + 1, hosts]: what its tasks need there."""
    code: Code
    """The reason of its wait: WAITING_FOR_PREEMPTION or HOSTS_RESERVED."""
    ports: tuple[tuple[int, int], ...] = ()
    """Ports that its tasks must have, each with the host."""


class Holding(NamedTuple):
    """All that is held, by the slots of the first tasks of units, in the order in which these were admitted."""

    holds: dict[int, Hold]
    hosts: I64
    """The hosts of one hold after another."""
    needs: I64
    """[kinds + 1, those hosts]."""
    starts: I64
    """Where each hold begins among them, and where the last one ends."""


class Holds:
    """Looks at plans and reservations."""

    def __init__(self, hosts: Hosts, runs: Runs, plans: Plans, reservations: Table[Task, ReservationRow]) -> None:
        self._hosts = hosts
        self._runs = runs
        self._plans = plans
        self._reservations = reservations
        self._known: dict[Task, tuple[Places, Hold]] = {}

    def restored(self) -> None:
        """Forgets what it knows of rows."""
        self._known.clear()

    def all(self) -> Holding:
        """All holds now."""
        before, self._known = self._known, {}
        for task, plan in self._plans.table.items():
            self._known[task] = self._hold(before, task, plan, Code.WAITING_FOR_PREEMPTION)
        for task, row in self._reservations.items():
            if not row.over:
                self._known[task] = self._hold(before, task, row, Code.HOSTS_RESERVED)
        admission, jobs = self._runs.arena["admission"], self._runs.jobs
        holds = {jobs[task[0]].base + task[1]: hold for task, (_, hold) in self._known.items()}
        slots = np.fromiter(holds, dtype=np.int64)
        order = slots[np.lexsort((slots, admission[slots]))].tolist()
        holds = {slot: holds[slot] for slot in order}
        empty = np.zeros((len(self._hosts.kinds) + 1, 0), dtype=np.int64)
        return Holding(
            holds,
            np.concatenate([empty[0], *(hold.hosts for hold in holds.values())]),
            np.concatenate([empty, *(hold.needs for hold in holds.values())], axis=1),
            np.cumsum([0, *(len(hold.hosts) for hold in holds.values())]),
        )

    def _hold(
        self, holds: dict[Task, tuple[Places, Hold]], task: Task, places: Places, code: Code
    ) -> tuple[Places, Hold]:
        """The need of the tasks of a unit where they are to be."""
        had = holds.get(task)
        if had is not None and had[0] is places:
            return had
        slot = self._runs.jobs[task[0]].base + task[1]
        shapes = shapes_of_unit(self._runs, slot, places.count)
        needs = [self._need(number) for number in shapes]
        fixed = [self._runs.shapes[number].fixed_ports for number in shapes]
        numbers = np.array([self._hosts.table[host_id].number for host_id in places.hosts], dtype=np.int64)
        hosts = distinct(numbers)
        amounts = np.zeros((len(self._hosts.kinds) + 1, len(hosts)), dtype=np.int64)
        for at, tasks, shape in zip(np.searchsorted(hosts, numbers).tolist(), places.tasks, places.shapes, strict=True):
            amounts[:, at] += needs[shape] * tasks
        ports = tuple(
            (port, host)
            for host, tasks, shape in zip(numbers.tolist(), places.tasks, places.shapes, strict=True)
            for port in (fixed[shape] if tasks else ())
        )
        return places, Hold(task, hosts, amounts, code, ports)

    def _need(self, number: int) -> I64:
        shape = self._runs.shapes[number]
        return np.array((*shape.need, shape.ports), dtype=np.int64)


def shapes_of_unit(runs: Runs, slot: int, count: int) -> list[int]:
    """The numbers of the shapes of a unit's tasks, in the order of the first of each."""
    if count == 1:
        return [int(runs.arena["shape"][slot])]
    return list(dict.fromkeys(runs.arena["shape"][slot : slot + count].tolist()))


def kept_room(hosts: Hosts, holding: Holding) -> KeptRoom:
    """The free amounts that are kept for each unit: on each host those admitted first have their part first."""
    amounts = np.zeros_like(hosts.used)
    if not holding.holds:
        return KeptRoom(amounts, {}, {})
    parts = np.zeros_like(holding.needs)
    turn = turns(holding.hosts)
    for each in range(int(turn.max(initial=-1)) + 1):  # the first hold of each host, then the second
        which = np.flatnonzero(turn == each)
        on = holding.hosts[which]
        free = np.maximum(hosts.capacity[:, on] - hosts.used[:, on] - amounts[:, on], 0)
        parts[:, which] = np.minimum(free, holding.needs[:, which])
        amounts[:, on] += parts[:, which]
    short = np.append(0, np.cumsum((parts < holding.needs).any(axis=0)))[holding.starts]
    complete = (np.diff(short) == 0).tolist()
    ends = zip(holding.starts[:-1].tolist(), holding.starts[1:].tolist(), complete, strict=True)
    own = {
        slot: OwnRoom(hold.hosts, parts[:, start:end], whole, hold.code)
        for (slot, hold), (start, end, whole) in zip(holding.holds.items(), ends, strict=True)
    }
    ports: dict[int, list[int]] = {}
    for hold in holding.holds.values():
        for port, host in hold.ports:
            ports.setdefault(port, []).append(host)
    return KeptRoom(amounts, own, ports)


def needed(hosts: Hosts, holding: Holding) -> I64:
    """The need of all units that have holds, on their hosts."""
    amounts = np.zeros_like(hosts.used)
    for row, need in zip(amounts, holding.needs, strict=True):
        np.add.at(row, holding.hosts, need)
    return amounts
