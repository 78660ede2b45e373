"""What is held on hosts for units that wait: where others leave for one by a plan, and what is drained for one.

A hold is what the tasks of its unit need there. Of what is free on a host each unit has its part, those admitted first
before the others; the rest anybody may use.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from events.codes import Code
from events.columns import I64, distinct
from processors.placement.hosts import Hosts
from processors.placement.kept import KeptRoom, OwnRoom
from processors.placement.plans import Plans, Task
from processors.placement.reservation_rows import ReservationRow
from processors.placement.runs import Runs
from processors.state.table import Table


class Places(Protocol):
    """Where a unit is to be: the rows of plans and reservations."""

    @property
    def count(self) -> int: ...  # noqa: D102
    @property
    def hosts(self) -> list[str]: ...  # noqa: D102
    @property
    def tasks(self) -> list[int]: ...  # noqa: D102
    @property
    def shapes(self) -> list[int]: ...  # noqa: D102


class Hold(NamedTuple):
    """What is held for one unit."""

    slot: int
    """Its first task."""
    hosts: I64
    """Numbers of hosts, ascending."""
    needs: I64
    """[kinds + 1, hosts]: what its tasks need there."""
    code: Code
    """What it waits for: WAITING_FOR_PREEMPTION or HOSTS_RESERVED."""


class Holds:
    """Looks at plans and reservations."""

    def __init__(self, hosts: Hosts, runs: Runs, plans: Plans, reservations: Table[Task, ReservationRow]) -> None:
        self._hosts = hosts
        self._runs = runs
        self._plans = plans
        self._reservations = reservations

    def all(self) -> list[Hold]:
        """The holds, in the order in which their units were admitted."""
        if not self._plans.table and not self._reservations:
            return []
        found = [*self._each()]
        admission = self._runs.arena["admission"]
        return sorted(found, key=lambda hold: (int(admission[hold.slot]), hold.slot))

    def _each(self) -> Iterator[Hold]:
        for task, plan in self._plans.table.items():
            yield self.of(task, plan, Code.WAITING_FOR_PREEMPTION)
        for task, reservation in self._reservations.items():
            if not reservation.over:
                yield self.of(task, reservation, Code.HOSTS_RESERVED)

    def of(self, task: Task, places: Places, code: Code) -> Hold:
        """What the tasks of a unit need where they are to be."""
        slot = self._runs.jobs[task[0]].base + task[1]
        needs = [self._need(number) for number in shapes_of_unit(self._runs, slot, places.count)]
        numbers = np.array([self._hosts.table[host_id].number for host_id in places.hosts], dtype=np.int64)
        hosts = distinct(numbers)
        amounts = np.zeros((len(self._hosts.kinds) + 1, len(hosts)), dtype=np.int64)
        for at, tasks, shape in zip(np.searchsorted(hosts, numbers).tolist(), places.tasks, places.shapes, strict=True):
            amounts[:, at] += needs[shape] * tasks
        return Hold(slot, hosts, amounts, code)

    def _need(self, number: int) -> I64:
        shape = self._runs.shapes[number]
        return np.array((*shape.need, shape.ports), dtype=np.int64)


def shapes_of_unit(runs: Runs, slot: int, count: int) -> list[int]:
    """The numbers of the shapes of a unit's tasks, in the order of the first of each."""
    if count == 1:
        return [int(runs.arena["shape"][slot])]
    return list(dict.fromkeys(runs.arena["shape"][slot : slot + count].tolist()))


def kept_room(hosts: Hosts, holds: list[Hold]) -> KeptRoom:
    """Of what is free now, what is kept for whom."""
    amounts = np.zeros_like(hosts.used)
    if not holds:
        return KeptRoom(amounts, {})
    free = np.maximum(hosts.capacity - hosts.used, 0)
    own: dict[int, OwnRoom] = {}
    for hold in holds:
        part = np.minimum(free[:, hold.hosts], hold.needs)
        free[:, hold.hosts] -= part
        amounts[:, hold.hosts] += part
        own[hold.slot] = OwnRoom(hold.hosts, part, hold.code)
    return KeptRoom(amounts, own)


def needed(hosts: Hosts, holds: list[Hold], but: int = -1) -> I64:
    """What all units that have holds need on their hosts, `but` one (the slot of its first task)."""
    amounts = np.zeros_like(hosts.used)
    for hold in holds:
        if hold.slot != but:
            amounts[:, hold.hosts] += hold.needs
    return amounts
