"""Room on hosts that is kept for units: where others leave for one, and where hosts are reserved for one.

What is held for a unit is the need of its tasks where they are to be. Of what is free there each unit has its part,
those admitted first before the others; the rest anybody may use.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.codes import Code
from events.columns import I64, Names, distinct, spread
from processors.placement.devices.board import OfDevices
from processors.placement.devices.needs import DeviceNeed
from processors.placement.hosts import Hosts
from processors.placement.packing import turns
from processors.placement.room.table import REASONS, RoomRow, RoomTable, Task
from processors.placement.runs import Runs
from processors.state.alternatives import NONE, as_alternative
from processors.state.shapes import Shape


class OwnRoom(NamedTuple):
    """The room kept for one unit."""

    hosts: I64
    """Numbers of hosts, ascending."""
    amounts: I64
    """The amounts kept on each of them, [kinds + 1, hosts] with ports behind the kinds; part of what is free there now.
    """
    complete: bool
    """Whether all is there that it needs."""
    needs: I64
    """[kinds + 1, hosts]: what it needs there."""
    code: Code
    """The reason of its wait while it finds no place: WAITING_FOR_PREEMPTION or HOSTS_RESERVED."""
    slot: int
    """The first task of the unit."""
    alternative: int = NONE
    """The alternative that it is for; NONE: the unit has only one request."""


class OwnRooms:
    """The room of each unit that has some, by the slot of its first task: columns, of which one is made when it is
    asked for.
    """

    def __init__(
        self,
        slots: I64,
        hosts: I64,
        amounts: I64,
        starts: I64,
        complete: NDArray[np.bool_],
        needs: I64,
        codes: Sequence[Code],
        alternatives: Mapping[int, int],
    ) -> None:
        """`hosts`, `amounts` and `needs` ([kinds + 1, those hosts]) have one room after another; `starts` says where
        each begins, and where the last one ends.
        """
        self.slots = slots
        self.hosts = hosts
        self._amounts = amounts
        self.starts = starts
        self._complete = complete
        self._needs = needs
        self._codes = codes
        self._alternatives = alternatives
        self._order = np.argsort(slots, kind="stable")
        self._sorted = slots[self._order]

    def __len__(self) -> int:
        return len(self.slots)

    def __iter__(self) -> Iterator[int]:
        return iter(self.slots.tolist())

    def __contains__(self, slot: int) -> bool:
        return self._at(slot) is not None

    def __getitem__(self, slot: int) -> OwnRoom:
        own = self.get(slot)
        assert own is not None, slot
        return own

    def get(self, slot: int) -> OwnRoom | None:
        """The room of a unit, if it has any."""
        at = self._at(slot)
        if at is None:
            return None
        which = slice(int(self.starts[at]), int(self.starts[at + 1]))
        amounts, needs = self._amounts[:, which], self._needs[:, which]
        alternative = self._alternatives.get(slot, NONE)
        return OwnRoom(self.hosts[which], amounts, bool(self._complete[at]), needs, self._codes[at], slot, alternative)

    def among(self, slots: I64) -> tuple[I64, NDArray[np.bool_]]:
        """Those of some ascending slots that have room, and whether that of each is complete."""
        at = np.searchsorted(self._sorted, slots)
        at[at == len(self._sorted)] = 0
        has = self._sorted[at] == slots if len(self) else np.zeros(len(slots), dtype=np.bool_)
        return slots[has], self._complete[self._order[at[has]]]

    def _at(self, slot: int) -> int | None:
        at = int(np.searchsorted(self._sorted, slot))
        return int(self._order[at]) if at < len(self._sorted) and self._sorted[at] == slot else None


def rooms_of(rooms: Mapping[int, OwnRoom], kinds: int) -> OwnRooms:
    """The columns of some rooms; `kinds`: so many amounts a host has, ports included."""
    none, nothing = np.zeros(0, dtype=np.int64), np.zeros((kinds, 0), dtype=np.int64)
    return OwnRooms(
        np.fromiter(rooms, dtype=np.int64),
        np.concatenate([none, *(room.hosts for room in rooms.values())]),
        np.concatenate([nothing, *(room.amounts for room in rooms.values())], axis=1),
        np.cumsum([0, *(len(room.hosts) for room in rooms.values())]),
        np.array([room.complete for room in rooms.values()], dtype=np.bool_),
        np.concatenate([nothing, *(room.needs for room in rooms.values())], axis=1),
        [room.code for room in rooms.values()],
        {slot: room.alternative for slot, room in rooms.items() if room.alternative != NONE},
    )


class KeptRoom(NamedTuple):
    """The room kept for all units. Others see what is free less that; a unit sees its own too."""

    amounts: I64
    """[kinds + 1, hosts]: the sum of what is kept."""
    own: OwnRooms
    ports: Mapping[int, list[int]]
    """The hosts on which a port number is kept for a unit."""
    devices: Mapping[int, OfDevices] = {}
    """By the first slot of a unit, or that of a task with a home, the devices that are kept for it."""


class Hold(NamedTuple):
    """The room held for one unit."""

    hosts: I64
    """Numbers of hosts, ascending."""
    needs: I64
    """[kinds + 1, hosts]: what its tasks need there."""
    ports: tuple[tuple[int, int], ...] = ()
    """Ports that its tasks must have, each with the host."""
    devices: OfDevices = ()


class Holding(NamedTuple):
    """All that is held, in the order in which the units were admitted."""

    slots: I64
    """The first task of each unit."""
    codes: list[Code]
    """The reason of the wait of each: WAITING_FOR_PREEMPTION or HOSTS_RESERVED."""
    hosts: I64
    """The hosts of one hold after another."""
    needs: I64
    """[kinds + 1, those hosts]."""
    starts: I64
    """Where each hold begins among them, and where the last one ends."""
    ports: dict[int, list[int]]
    """The hosts on which tasks of units must have a port, by its number."""
    devices: dict[int, OfDevices]
    """The devices that tasks of units need, by the first slot of the unit."""
    devices_at: dict[int, OfDevices]
    """The same by host."""
    alternatives: dict[int, int]
    """The alternatives that holds are for, of units that have some, in the same way."""


class Holds:
    """Looks at the table of room. What is held for a unit is found when its row has come, and kept in columns."""

    def __init__(self, hosts: Hosts, runs: Runs, room: RoomTable) -> None:
        self._hosts = hosts
        self._runs = runs
        self._table = room.table
        self.restored()

    def restored(self) -> None:
        """Forgets what it knows of rows."""
        kinds = len(self._hosts.kinds) + 1
        self._at: dict[Task, int] = {}
        """Where the hold of a unit stands."""
        self._new: dict[Task, None] = dict.fromkeys(self._table)
        """Units whose rows have come, gone or changed since."""
        self._ports: dict[Task, tuple[tuple[int, int], ...]] = {}
        self._devices: dict[Task, OfDevices] = {}
        self._alternatives: dict[Task, int] = {}
        self._jobs = Names()
        self._units = np.zeros((4, 0), dtype=np.int64)
        """A column a hold: the number of the job, the first instance, the index of its reason in `REASONS` or -1 where
        it is over, and the number of its hosts.
        """
        self._room = np.zeros((1 + kinds, 0), dtype=np.int64)
        """The hosts of one hold after another, and what its tasks need there."""

    def changed(self, task: Task) -> None:
        """The row of a unit has come, gone or changed."""
        self._new[task] = None

    def all(self) -> Holding:
        """All holds now."""
        self._bring_up()
        jobs, firsts, codes, counts = self._units
        runs, names = self._runs, self._jobs.all()
        bases = np.array([runs.jobs[job_id].base if job_id in runs.jobs else 0 for job_id in names], dtype=np.int64)
        which = np.flatnonzero(codes >= 0)
        slots = bases[jobs[which]] + firsts[which]
        order = np.lexsort((slots, runs.arena["admission"][slots]))
        which = which[order]
        starts = np.cumsum(counts) - counts
        room = self._room[:, spread(starts[which], counts[which])]
        ports: dict[int, list[int]] = {}
        for pairs in self._ports.values():
            for port, host in pairs:
                ports.setdefault(port, []).append(host)
        devices = self._devices_of(slots[order].tolist()) if self._devices else {}
        devices_at: dict[int, OfDevices] = {}
        for each in (each for of_unit in devices.values() for each in of_unit):
            devices_at[each[0]] = (*devices_at.get(each[0], ()), each)
        return Holding(
            slots[order],
            [REASONS[code] for code in codes[which].tolist()],
            room[0],
            room[1:],
            np.append(0, np.cumsum(counts[which])),
            ports,
            devices,
            devices_at,
            {runs.jobs[task[0]].base + task[1]: at for task, at in self._alternatives.items() if task[0] in runs.jobs},
        )

    def _devices_of(self, slots: list[int]) -> dict[int, OfDevices]:
        """The devices that units need, those admitted first before the others."""
        bases = self._runs.jobs
        by_slot = {bases[task[0]].base + task[1]: each for task, each in self._devices.items() if task[0] in bases}
        return {slot: by_slot[slot] for slot in slots if slot in by_slot}

    def _bring_up(self) -> None:
        """Looks at the rows that are new."""
        if not self._new:
            return
        over = [self._at.pop(task) for task in self._new if task in self._at]
        self._units[2, over] = -1
        units, hosts, needs = list[tuple[int, ...]](), [self._room[0]], [self._room[1:]]
        for task in self._new:
            self._ports.pop(task, None)
            self._devices.pop(task, None)
            self._alternatives.pop(task, None)
            row = self._table.get(task)
            if row is None:
                continue
            hold = self._hold(task, row)
            self._at[task] = self._units.shape[1] + len(units)
            units.append((self._jobs[task[0]], task[1], REASONS.index(Code(row.reason)), len(hold.hosts)))
            hosts.append(hold.hosts)
            needs.append(hold.needs)
            if hold.ports:
                self._ports[task] = hold.ports
            if hold.devices:
                self._devices[task] = hold.devices
            if row.alternative != NONE:
                self._alternatives[task] = row.alternative
        self._new = {}
        if units:
            self._units = np.concatenate([self._units, np.array(units, dtype=np.int64).T], axis=1)
            self._room = np.vstack((np.concatenate(hosts), np.concatenate(needs, axis=1)))
        if len(self._at) * 2 < self._units.shape[1]:
            self._forget()

    def _forget(self) -> None:
        """Holds that are over leave the columns."""
        stays = self._units[2] >= 0
        self._room = self._room[:, np.repeat(stays, self._units[3])]
        self._units = self._units[:, stays]
        self._jobs = Names()
        for at, task in enumerate(self._at):
            self._at[task], self._units[0, at] = at, self._jobs[task[0]]

    def _hold(self, task: Task, row: RoomRow) -> Hold:
        """The need of the tasks of a unit where they are to be."""
        slot = self._runs.jobs[task[0]].base + task[1]
        vector = self._hosts.kinds.asked_of_host
        shapes = [
            as_alternative(self._runs.shapes[number], row.alternative, vector)
            for number in shapes_of_unit(self._runs, slot, row.count)
        ]
        needs = [np.array((*shape.need, shape.ports), dtype=np.int64) for shape in shapes]
        fixed = [shape.fixed_ports for shape in shapes]
        numbers = np.array([self._hosts.table[host_id].number for host_id in row.hosts], dtype=np.int64)
        hosts = distinct(numbers)
        device_needs = [self._hosts.device_need(shape) for shape in shapes]
        devices = tuple(
            (host, each, tasks)
            for host, tasks, shape in zip(numbers.tolist(), row.tasks, row.shapes, strict=True)
            if (need := device_needs[shape]) is not None and tasks
            for each in self._by_link_group(host, need, shapes[shape])
        )
        if len(numbers) == 1 and not fixed[row.shapes[0]]:
            return Hold(hosts, (needs[row.shapes[0]] * row.tasks[0])[:, None], devices=devices)
        amounts = np.zeros((len(self._hosts.kinds) + 1, len(hosts)), dtype=np.int64)
        for at, tasks, shape in zip(np.searchsorted(hosts, numbers).tolist(), row.tasks, row.shapes, strict=True):
            amounts[:, at] += needs[shape] * tasks
        ports = tuple(
            (port, host)
            for host, tasks, shape in zip(numbers.tolist(), row.tasks, row.shapes, strict=True)
            for port in (fixed[shape] if tasks else ())
        )
        return Hold(hosts, amounts, ports, devices)

    def _by_link_group(self, host: int, need: DeviceNeed, shape: Shape) -> list[DeviceNeed]:
        """The devices that are kept for each task of a unit: where all of it, or each segment, must be in one link
        group, in each of the host, since which one others leave no record says.
        """
        if shape.rules is None or not shape.rules.is_linked:
            return [need]
        return [need._replace(group=name) for name in self._hosts.devices.link_groups_of(host)]


def shapes_of_unit(runs: Runs, slot: int, count: int) -> list[int]:
    """The numbers of the shapes of a unit's tasks, in the order of the first of each."""
    if count == 1:
        return [int(runs.arena["shape"][slot])]
    return list(dict.fromkeys(runs.arena["shape"][slot : slot + count].tolist()))


def kept_room(hosts: Hosts, holding: Holding) -> KeptRoom:
    """The free amounts that are kept for each unit: on each host those admitted first have their part first."""
    amounts, parts = np.zeros_like(hosts.used), np.zeros_like(holding.needs)
    turn = turns(holding.hosts)
    for each in range(int(turn.max(initial=-1)) + 1):  # the first hold of each host, then the second
        which = np.flatnonzero(turn == each)
        on = holding.hosts[which]
        free = np.maximum(hosts.capacity[:, on] - hosts.used[:, on] - amounts[:, on], 0)
        parts[:, which] = np.minimum(free, holding.needs[:, which])
        amounts[:, on] += parts[:, which]
    short = np.append(0, np.cumsum((parts < holding.needs).any(axis=0)))[holding.starts]
    complete = np.diff(short) == 0
    own = OwnRooms(
        holding.slots,
        holding.hosts,
        parts,
        holding.starts,
        complete,
        needs=holding.needs,
        codes=holding.codes,
        alternatives=holding.alternatives,
    )
    return KeptRoom(amounts, own, holding.ports, holding.devices)


def needed(hosts: Hosts, holding: Holding) -> I64:
    """The need of all units that have holds, on their hosts."""
    amounts = np.zeros_like(hosts.used)
    for row, need in zip(amounts, holding.needs, strict=True):
        np.add.at(row, holding.hosts, need)
    return amounts
