"""The devices of each host that runs have. Derived from the rows of hosts and the devices of tasks."""

from collections.abc import Iterator, Sequence

import numpy as np

from events.columns import I32
from events.devices import CORE
from processors.placement.devices.layouts import EMPTY, HostLayout
from processors.placement.devices.needs import ONE, DeviceNeed
from processors.placement.devices.states import State, States, Taken, link_groups, share_of, untouched
from processors.placement.packing import Mask

Held = tuple[tuple[str, int, int], ...]
"""The devices of a task: their ids on the host, thousandths, MiB. A core is `core/` and its number."""


class HostDevices:
    """The state of each host, by its number: a column, and who has what."""

    def __init__(self) -> None:
        self.states = States()
        self.kinds: dict[str, None] = {}
        """Those of which hosts have said that they have devices."""
        self.any = False
        """Whether some host has devices or cores one by one."""
        self.layouts: list[HostLayout] = []
        self._held: list[dict[int, Held]] = []
        """By host the devices of each task, by its slot."""
        self.column: I32 = np.zeros(0, dtype=np.int32)
        """The state of each host."""
        self.empty: I32 = np.zeros(0, dtype=np.int32)
        """The state that it would be in if nobody had any of its devices."""

    def grow(self, hosts: int) -> None:
        """There are so many numbers of hosts."""
        more = hosts - len(self.layouts)
        if more > 0:
            self.layouts += [EMPTY] * more
            self._held += [{} for _ in range(more)]
            self.column, self.empty = (np.append(each, np.zeros(more, np.int32)) for each in (self.column, self.empty))

    def cut(self, hosts: int) -> None:
        """The last numbers are free again."""
        del self.layouts[hosts:], self._held[hosts:]
        self.column, self.empty = self.column[:hosts].copy(), self.empty[:hosts].copy()

    def offer(self, host: int, layout: HostLayout) -> None:
        """A host has these devices now; what runs there have they keep."""
        if layout is EMPTY and self.layouts[host] is EMPTY:
            return
        self.any = True
        self.layouts[host] = layout
        self._lay_out(host)

    def put(self, host: int, slot: int, holding: Held) -> None:
        """A task has these devices of a host."""
        self._held[host][slot] = holding
        self._settle(host)

    def take_away(self, host: int, slot: int) -> None:
        """A task has no devices of a host any more."""
        if self._held[host].pop(slot, None) is not None:
            self._settle(host)

    def move(self, host: int, slot: int, to: int) -> None:
        """A task has another slot."""
        self._held[host][to] = self._held[host].pop(slot)

    def of(self, host: int) -> dict[int, Held]:
        """The devices that tasks have of a host, by their slots."""
        return self._held[host]

    def link_groups_of(self, host: int) -> list[str]:
        """The link groups of the cards of a host."""
        return link_groups(self.layouts[host].layout)

    def fits(self, need: DeviceNeed) -> Mask:
        """The hosts where a task finds its devices beside those that are there."""
        return self.states.fits(need, self.column)

    def ids_held(self, host: int) -> Iterator[str]:
        """The devices of a host that runs have."""
        return (each[0] for holding in self._held[host].values() for each in holding)

    def refresh(self) -> None:
        """Forgets states that nobody is in."""
        self.states.forget()
        for host in range(len(self.layouts)):
            self._lay_out(host)

    def names_of(self, host: int, choice: Taken) -> Held:
        """Names a choice as records do."""
        ids = self.layouts[host].ids
        devices = tuple((ids[at], share, memory) for at, share, memory in choice.devices)
        return (*devices, *((f"{CORE}{core}", ONE, 0) for core in choice.cores))

    def without(self, host: int, slots: Sequence[int]) -> int:
        """The state of a host after some tasks have left it."""
        leave = {*slots}
        return self._state([holding for slot, holding in self._held[host].items() if slot not in leave], host)

    def taken_by(self, host: int, slot: int) -> Taken:
        """The choice of a task that has a place, without devices that aren't there any more."""
        return _places(self.layouts[host], self._held[host].get(slot, ()))

    def forced(self, host: int, need: DeviceNeed) -> Held:
        """Chooses for a task that has a place and whose record names no devices: as for others, or without room as
        much as there is, from one device after another (records of 0.3 knew amounts alone).
        """
        layout, number = self.layouts[host], int(self.column[host])
        choice = self.states.choice(need, number)
        if choice is not None:
            return self.names_of(host, choice)
        room, out = list(self.states.state(number).room), list[tuple[int, int, int]]()
        for each in need.kinds:
            missing = each.whole * ONE + each.share
            for at, device in enumerate(layout.layout.devices):
                if device.kind == each.kind and missing and room[at][0] > 0:
                    share = min(missing, room[at][0])
                    missing -= share
                    memory = min(room[at][1], device.memory * share // ONE)
                    room[at] = room[at][0] - share, room[at][1] - memory
                    out.append((at, share, memory))
            if each.memory and not each.whole and not each.share:
                fitting = [
                    (at, *share_of(device, each))
                    for at, device in enumerate(layout.layout.devices)
                    if device.kind == each.kind and device.memory >= each.memory
                ]
                out += [min(fitting)] if fitting else []
        return self.names_of(host, Taken(tuple(out)))

    def _lay_out(self, host: int) -> None:
        layout = self.layouts[host].layout
        self.empty[host] = self.states.number(untouched(self.states.layout(layout), layout))
        self._settle(host)

    def _settle(self, host: int) -> None:
        self.column[host] = self._state(list(self._held[host].values()), host)

    def _state(self, holding: Sequence[Held], host: int) -> int:
        layout = self.layouts[host]
        if layout is EMPTY:
            return 0
        number, whole, cores = self.states.state(int(self.empty[host]))
        room = list(whole)
        for each in holding:
            choice = _places(layout, each)
            for at, share, memory in choice.devices:
                room[at] = room[at][0] - share, room[at][1] - memory
            for core in choice.cores:
                cores &= ~(1 << core)
        return self.states.number(State(number, tuple(room), cores))


def _places(layout: HostLayout, holding: Held) -> Taken:
    devices, cores = [], []
    for each, share, memory in holding:
        if each in layout.at:
            devices.append((layout.at[each], share, memory))
        elif each.startswith(CORE) and int(each[len(CORE) :]) < len(layout.layout.cores):
            cores.append(int(each[len(CORE) :]))
    return Taken(tuple(devices), tuple(cores))
