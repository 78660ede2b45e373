"""The devices as one decision sees them: what it puts takes some, and what is kept for units is nobody else's."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from events.columns import I32, I64, distinct
from events.natural_order import natural_key
from processors.placement.devices.host_devices import Held, HostDevices
from processors.placement.devices.lacks import lack_text
from processors.placement.devices.needs import DeviceNeed
from processors.placement.devices.states import Layout, Taken, link_group_of, link_groups
from processors.placement.packing import Mask

OfDevices = tuple[tuple[int, DeviceNeed, int], ...]
"""Hosts, what each task needs there, and how many tasks."""


class Put(NamedTuple):
    """A task that was put on a host."""

    need: DeviceNeed
    """Without the link group in which it was put."""
    choice: Taken


class Islands(NamedTuple):
    """Link groups of hosts."""

    hosts: I64
    names: Sequence[str]
    room: I64
    """The tasks that each holds by itself."""


class Keep(NamedTuple):
    """The devices that are kept for a task on a host; None: none of those that it needs is free."""

    host: int
    need: DeviceNeed
    choice: Taken | None


class DeviceBoard:
    """The state of each host, and what was put since."""

    def __init__(self, devices: HostDevices) -> None:
        if devices.states.are_many:
            devices.refresh()
        self.devices, self._states = devices, devices.states
        self._column = devices.column.copy()
        self._puts: dict[int, list[Put]] = {}
        self._unnamed: dict[tuple[int, DeviceNeed], list[Taken]] = {}
        """Those of the tasks put whose devices no record names yet."""
        self._kept: dict[int, list[Keep]] = {}
        """By the first slot of a unit."""
        self._preferred: tuple[int, int] | None = None
        """A host, and the place of the device that the share of the next task there comes from."""

    @property
    def column(self) -> I32:
        """The state of each host, to look at."""
        return self._column

    def prefer(self, host: int, place: int) -> None:
        """The next task that is put goes to a host and takes its share of a device, if it can."""
        self._preferred = host, place

    def fits(self, need: DeviceNeed) -> Mask:
        """The hosts where one task more finds its devices."""
        return self._states.fits(need, self._column)

    def room(self, need: DeviceNeed, hosts: I64, most: int, when_empty: bool = False) -> I64:
        """The tasks that find their devices on each of some hosts one after another, at most so many. `when_empty`: if
        nobody else had any.
        """
        column = self.devices.empty if when_empty else self._column
        states, of_host = np.unique(column[hosts], return_inverse=True)
        counts = np.zeros(len(states), dtype=np.int64)
        for at, number in enumerate(states.tolist()):
            counts[at] = self._tasks(need, number, most)
        room: I64 = counts[of_host.ravel()]
        return room

    def islands(
        self, need: DeviceNeed, hosts: I64, most: int, when_empty: bool = False, kinds: Collection[str] = ()
    ) -> Islands:
        """The link groups of some hosts in which tasks find their devices, and how many do in each; as `room`. `kinds`:
        as `link_groups`.
        """
        column = self.devices.empty if when_empty else self._column
        of_state: dict[int, list[tuple[str, int]]] = {}
        for number in np.unique(column[hosts]).tolist():
            names = link_groups(self._states.layout_of(number), kinds)
            of_state[number] = [(name, self._tasks(need._replace(group=name), number, most)) for name in names]
        each = [(host, *one) for host in hosts.tolist() for one in of_state[int(column[host])]]
        numbers, groups, counts = zip(*each, strict=True) if each else ((), (), ())
        return Islands(np.array(numbers, dtype=np.int64), groups, np.array(counts, dtype=np.int64))

    def _tasks(self, need: DeviceNeed, number: int, most: int) -> int:
        """Counts the tasks, at most so many, that find their devices in a state one after another."""
        count = 0
        while count < most and (choice := self._states.choice(need, number)) is not None:
            number = self._states.after(number, choice)
            count += 1
        return count

    def could(self, need: DeviceNeed) -> Mask:
        """The hosts where one task finds its devices if nobody else has any."""
        return self._states.fits(need, self.devices.empty)

    def state(self, host: int) -> int:
        """The state of a host."""
        return int(self._column[host])

    def lack(self, host: int, need: DeviceNeed, when_empty: bool = False) -> str:
        """Says in words which devices of a host a task lacks; empty: none. `when_empty`: as `room`."""
        number, layout = int((self.devices.empty if when_empty else self._column)[host]), self.devices.layouts[host]
        if self._states.choice(need, number) is not None:
            return ""
        return lack_text(need, layout.layout, self._states.state(number), layout.ids)

    def put(self, host: int, need: DeviceNeed, sign: int = 1) -> None:
        """A task is on a host, or (`sign` -1) the one put last that needs the same isn't any more."""
        puts, anywhere = self._puts.setdefault(host, []), need._replace(group="")
        if sign > 0:
            choice = self._preferred_of(host, need) or self._states.choice(need, self.state(host))
            assert choice is not None, "a task was put where its devices aren't"
            puts.append(Put(anywhere, choice))
            self._unnamed.setdefault((host, anywhere), []).append(choice)
        else:
            at = next(at for at in reversed(range(len(puts))) if puts[at].need == anywhere)
            choice = puts.pop(at).choice
            self._unnamed[host, anywhere].remove(choice)
        self._column[host] = self._states.after(self.state(host), choice, sign)

    def _preferred_of(self, host: int, need: DeviceNeed) -> Taken | None:
        preferred, self._preferred = self._preferred, None
        if preferred is None or preferred[0] != host:
            return None
        return self._states.choice_at(need, self.state(host), preferred[1])

    def in_turn(self, need: DeviceNeed, hosts: I64, fit: Mask) -> Mask:
        """True for tasks that find their devices on their hosts, one after another; those are put there."""
        finds = fit.copy()
        for at in np.flatnonzero(fit).tolist():
            host = int(hosts[at])
            finds[at] = self._states.choice(need, self.state(host)) is not None
            if finds[at]:
                self.put(host, need)
        return finds

    def names_of(self, need: DeviceNeed, hosts: I64, by_link_group: bool = False) -> list[Held]:
        """The devices of tasks that were put on hosts and are to be recorded, in their order, or on each host by the
        names of link groups, numbers in them counting as such.
        """
        for host in distinct(hosts).tolist() if by_link_group else ():
            self._unnamed[host, need].sort(key=partial(_along_link_groups, self.devices.layouts[host].layout))
        return [self.devices.names_of(host, self._unnamed[host, need].pop(0)) for host in hosts.tolist()]

    # What is kept.

    def keep(self, slot: int, host: int, need: DeviceNeed, tasks: int = 1) -> None:
        """Keeps devices on a host for tasks of a unit, as far as there are some."""
        for _ in range(tasks):
            choice = self._claim(need, self.state(host))
            self._kept.setdefault(slot, []).append(Keep(host, need, choice))
            if choice is not None:
                self._column[host] = self._states.after(self.state(host), choice)

    def keep_rooms(self, rooms: Mapping[int, OfDevices]) -> None:
        """Keeps devices for units by their first slots."""
        for slot, of_unit in rooms.items():
            for host, need, tasks in of_unit:
                self.keep(slot, host, need, tasks)

    def release(self, *slots: int) -> None:
        """Units may use what is kept for them."""
        for host, _, choice in (each for slot in slots for each in self._kept.get(slot, ())):
            if choice is not None:
                self._column[host] = self._states.after(self.state(host), choice, -1)

    def keep_again(self, *slots: int) -> None:
        """Units haven't used it."""
        for slot in slots:
            for host, need, _ in self._kept.pop(slot, []):
                self.keep(slot, host, need)

    def _claim(self, need: DeviceNeed, number: int) -> Taken | None:
        """The choice that is kept for a task: all that it needs, else as many whole devices as there are. What others
        use of the devices that these exclude nobody takes after them.
        """
        parts = [each._replace(whole=n, share=0, memory=0) for each in need.kinds for n in range(each.whole, 0, -1)]
        needs = (need, *(DeviceNeed((part,), group=need.group) for part in parts))
        return next(filter(None, (self._states.claim(each, number) for each in needs)), None)

    def after_leaving(self, host: int, slots: Sequence[int], holds: OfDevices) -> int:
        """The state of a host when some tasks have left it, and what was put has come, and the tasks for which
        room is held there.
        """
        number = self.devices.without(host, slots)
        for _, choice in self._puts.get(host, ()):
            number = self._states.after(number, choice)
        for _, need, tasks in holds:
            for _ in range(tasks):
                if (claim := self._claim(need, number)) is not None:
                    number = self._states.after(number, claim)
        return number


def _along_link_groups(layout: Layout, choice: Taken) -> tuple[str, Taken]:
    """Sorts what tasks have of a host."""
    groups = (link_group_of(layout, at) for at, _, _ in choice.devices)
    return natural_key(next(filter(None, groups), "")), choice
