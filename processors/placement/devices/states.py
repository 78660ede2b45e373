"""States of the devices of a host: equal ones are one number, and what a task takes of a state is found once.

A cluster has few different states: hosts are bought alike, and cards are whole, or shared in few ways. So a decision
looks up one answer for each need and state, however many hosts are in it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from events.columns import I32, I64, distinct
from events.resources import is_gpu
from processors.placement.devices.needs import ONE, DeviceNeed, KindNeed
from processors.placement.engine.columns import I8
from processors.placement.packing import Mask

UNKNOWN, NO, YES = -1, 0, 1
STATES_MAX = 1 << 16
"""So many states are remembered; then all are forgotten but those that hosts are in."""
GROUP = "group"
"""The first word of a link group that is more than one device by itself."""


class Device(NamedTuple):
    """A device, as far as it matters for who may have it."""

    kind: str
    model: str = ""
    memory: int = 0
    """MiB."""
    numa: int = -1
    group: str = ""
    share: int = ONE
    """Thousandths of it that there are: fewer only for the rest of a sum."""
    usable: bool = True
    """Whether it takes new tasks."""
    clashes: int = 0
    """The devices that can't be used beside it, a bit for each."""


class Layout(NamedTuple):
    """The devices of a host, and the NUMA node of each of its cores."""

    devices: tuple[Device, ...] = ()
    cores: tuple[int, ...] = ()
    summed: tuple[str, ...] = ()
    """The kinds that are amounts here: there are more devices of them than are listed."""


class State(NamedTuple):
    """The free part of a layout."""

    layout: int
    room: tuple[tuple[int, int], ...] = ()
    """Thousandths and MiB of each device."""
    cores: int = 0
    """The cores that nobody has, a bit for each."""


class Taken(NamedTuple):
    """A choice for one task: devices by their places in the layout, with thousandths and MiB; and cores."""

    devices: tuple[tuple[int, int, int], ...] = ()
    cores: tuple[int, ...] = ()


class States:
    """The numbers of layouts and states. 0 of each: no devices and no cores."""

    def __init__(self) -> None:
        self._layouts: list[Layout] = []
        self._layout_numbers: dict[Layout, int] = {}
        self.epoch = 0
        """The times that all states were forgotten: their numbers are others then."""
        self.forget()

    def forget(self) -> None:
        """Forgets all states; whoever has numbers asks for new ones."""
        self.epoch += 1
        self._states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._taken: dict[DeviceNeed, dict[int, Taken | None]] = {}
        self._fits: dict[DeviceNeed, I8] = {}
        self.number(State(self.layout(Layout())))

    @property
    def are_many(self) -> bool:
        """Whether so many states were seen that they are forgotten."""
        return len(self._states) > STATES_MAX

    def layout(self, layout: Layout) -> int:
        """The number of a layout."""
        number = self._layout_numbers.setdefault(layout, len(self._layouts))
        if number == len(self._layouts):
            self._layouts.append(layout)
        return number

    def number(self, state: State) -> int:
        """The number of a state."""
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def state(self, number: int) -> State:
        """The state of a number."""
        return self._states[number]

    def layout_of(self, number: int) -> Layout:
        """The layout of the state of a number."""
        return self._layouts[self._states[number].layout]

    def fits(self, need: DeviceNeed, numbers: I32 | I64) -> Mask:
        """Whether one task finds its devices in each of some states."""
        memo = self._fits.get(need)
        if memo is None or len(memo) < len(self._states):
            more = np.full(max(64, 2 * len(self._states)), UNKNOWN, dtype=np.int8)
            if memo is not None:
                more[: len(memo)] = memo
            memo = self._fits[need] = more
        answers = memo[numbers]
        if (answers == UNKNOWN).any():
            for number in distinct(np.asarray(numbers)[answers == UNKNOWN]).tolist():
                memo[number] = NO if self.choice(need, number) is None else YES
            answers = memo[numbers]
        return np.equal(answers, YES)

    def choice(self, need: DeviceNeed, number: int) -> Taken | None:
        """The choice of a task in a state; None: it has no room."""
        answers = self._taken.setdefault(need, {})
        if number not in answers:
            answers[number] = choose(need, self.layout_of(number), self._states[number])
        return answers[number]

    def claim(self, need: DeviceNeed, number: int) -> Taken | None:
        """The choice of a task that waits for its devices: also of those that it may have once nobody has any of what
        they exclude, as a part whose card is shared.
        """
        choice = self.choice(need, number)
        if choice is None and any(each.clashes for each in self.layout_of(number).devices):
            choice = choose(need, self.layout_of(number), self._states[number], once_free=True)
        return choice

    def choice_at(self, need: DeviceNeed, number: int, at: int) -> Taken | None:
        """The same for a task that asks a share of one device, of the device at a place alone."""
        state = self._states[number]
        room = tuple(each if place == at else (0, 0) for place, each in enumerate(state.room))
        return choose(need, self.layout_of(number), state._replace(room=room))

    def after(self, number: int, choice: Taken, sign: int = 1) -> int:
        """The state after a task has taken so much of one, or (`sign` -1) given it back."""
        state, room = self._states[number], list(self._states[number].room)
        for at, share, memory in choice.devices:
            room[at] = room[at][0] - sign * share, room[at][1] - sign * memory
        cores = state.cores
        for core in choice.cores:
            cores = cores & ~(1 << core) if sign > 0 else cores | 1 << core
        return self.number(State(state.layout, tuple(room), cores))


def untouched(number: int, layout: Layout) -> State:
    """The state of a layout, by its number, in which nobody has anything."""
    return State(number, tuple((each.share, each.memory) for each in layout.devices), (1 << len(layout.cores)) - 1)


def choose(need: DeviceNeed, layout: Layout, state: State, once_free: bool = False) -> Taken | None:
    """The devices and cores that a task takes; None: there aren't enough. `once_free`: whoever has some of what they
    exclude doesn't matter.

    Of the groups that it must be within the one that has least left over, in their order. In it whole devices come from
    the link groups that have just enough, and a share from the device with least left: what is whole stays whole.
    """
    best: tuple[tuple[int, ...], Taken] | None = None
    for _, devices, cores in groups_of(need.within, layout):
        if need.group:
            devices = [at for at in devices if link_group_of(layout, at) in ("", need.group)]
        draft = _Draft(layout, state, once_free)
        choice = draft.take(need, devices, cores)
        if choice is not None:
            rest = draft.whole_left(need, devices), len(draft.free_cores(cores))
            if best is None or rest < best[0]:
                best = rest, choice
    return best[1] if best is not None else None


def in_use(layout: Layout, state: State) -> int:
    """The devices of which somebody has some, a bit for each."""
    return sum(
        1 << at
        for at, (device, room) in enumerate(zip(layout.devices, state.room, strict=True))
        if room[0] < device.share or room[1] < device.memory
    )


def link_group_of(layout: Layout, at: int) -> str:
    """The link group of a card, which is one by itself where it is in none; empty: it is no card."""
    return _link_group(layout.devices[at], at) if is_gpu(layout.devices[at].kind) else ""


def link_groups(layout: Layout, kinds: Collection[str] = ()) -> list[str]:
    """The link groups of the cards of a layout, in the order of these. `kinds`: of cards that count; none: all do."""
    counting = (at for at, each in enumerate(layout.devices) if not kinds or each.kind in kinds)
    names = dict.fromkeys(link_group_of(layout, at) for at in counting)
    return [name for name in names if name]


def _link_group(device: Device, at: int) -> str:
    return f"{GROUP} {device.group}" if device.group else f"device {at}"


def groups_of(within: str, layout: Layout) -> Iterator[tuple[str, list[int], list[int]]]:
    """The name, devices and cores of each group; without `within` all are one. A device that is in no group is one by
    itself.
    """
    cores = [*range(len(layout.cores))]
    if not within:
        yield "", [*range(len(layout.devices))], cores
        return
    groups: dict[str, tuple[list[int], list[int]]] = {}
    for at, device in enumerate(layout.devices):
        if within == "numa":
            name = f"node {device.numa}" if device.numa >= 0 else f"device {at}"
        else:
            name = _link_group(device, at)
        groups.setdefault(name, ([], []))[0].append(at)
    for core, numa in enumerate(layout.cores):
        if within == "numa":
            groups.setdefault(f"node {numa}", ([], []))[1].append(core)
    if within != "numa":  # cores are in no link group
        groups = {name: (devices, cores) for name, (devices, _) in (groups or {"": ([], [])}).items()}
    yield from ((name, *each) for name, each in groups.items())


class _Draft:
    """One choice in the making."""

    def __init__(self, layout: Layout, state: State, once_free: bool = False) -> None:
        self._devices, self._summed = layout.devices, layout.summed
        self._cores = state.cores
        self._left = list(state.room)
        self._used = in_use(layout, state)
        self._excluding = 0 if once_free else self._used
        """The devices beside which none that they exclude is taken."""

    def free_cores(self, cores: Iterable[int]) -> list[int]:
        """Those of some cores that nobody has."""
        return [core for core in cores if self._cores >> core & 1]

    def whole_left(self, need: DeviceNeed, devices: Iterable[int]) -> int:
        """Counts the devices of the kinds asked that are still whole."""
        kinds = {each.kind for each in need.kinds}
        return sum(self._devices[at].kind in kinds and self._is_whole(at) for at in devices)

    def take(self, need: DeviceNeed, devices: Sequence[int], cores: Sequence[int]) -> Taken | None:
        """Takes all of these devices and cores; None: there aren't enough."""
        out: list[tuple[int, int, int]] = []
        for each in need.kinds:
            if each.kind in self._summed and (each.whole or each.share):
                continue
            mine = [at for at in devices if self._takes(each, at)]
            whole = self._whole(mine, each.whole)
            if len(whole) < each.whole:
                return None
            for at in whole:
                out.append((at, ONE, self._left[at][1]))
                self._put(*out[-1])
            if each.share or each.memory:
                part = self._part(mine, each)
                if part is None:
                    return None
                out.append(part)
                self._put(*part)
        mine = self.free_cores(cores)[: need.cores]
        if len(mine) < need.cores:
            return None
        for core in mine:
            self._cores &= ~(1 << core)
        return Taken(tuple(out), tuple(mine))

    def _takes(self, need: KindNeed, at: int) -> bool:
        device = self._devices[at]
        return device.kind == need.kind and device.usable and (not need.models or device.model in need.models)

    def _is_whole(self, at: int) -> bool:
        device = self._devices[at]
        return (
            device.usable and device.share == ONE and not self._used >> at & 1 and not self._excluding & device.clashes
        )

    def _harm(self, at: int) -> int:
        """Counts the devices that nobody could use any more."""
        clashes = self._devices[at].clashes
        return sum(
            1 for other, one in enumerate(self._devices) if clashes >> other & 1 and not self._used & one.clashes
        )

    def _whole(self, mine: Sequence[int], count: int) -> list[int]:
        """So many whole devices, or fewer where there aren't enough: of the link group that has least more than is
        asked; where none has enough of the largest, and so on.
        """
        picks: list[int] = []
        while len(picks) < count:
            groups: dict[str, list[int]] = {}
            for at in mine:
                if at not in picks and self._is_whole(at) and not self._clashes(at, picks):
                    groups.setdefault(self._devices[at].group, []).append(at)
            if not groups:
                break
            missing = count - len(picks)
            enough = [each for each in groups.values() if len(each) >= missing]
            group = min(enough, key=len) if enough else max(groups.values(), key=len)
            group = sorted(group, key=self._harm)
            for at in group:
                if len(picks) < count and not self._clashes(at, picks):
                    picks.append(at)
        return picks

    def _clashes(self, at: int, picks: Iterable[int]) -> bool:
        return any(self._devices[at].clashes >> other & 1 for other in picks)

    def _part(self, mine: Sequence[int], need: KindNeed) -> tuple[int, int, int] | None:
        """A share of one device: of that with least left that suffices."""
        fitting = []
        for at in mine:
            share, memory = share_of(self._devices[at], need)
            room = self._left[at]
            if share and share <= room[0] and memory <= room[1] and not self._excluding & self._devices[at].clashes:
                fitting.append((*room, self._harm(at), at, share, memory))
        return min(fitting)[3:] if fitting else None

    def _put(self, at: int, share: int, memory: int) -> None:
        self._left[at] = self._left[at][0] - share, self._left[at][1] - memory
        self._used |= 1 << at
        self._excluding |= 1 << at


def share_of(device: Device, need: KindNeed) -> tuple[int, int]:
    """The thousandths and MiB that a share takes of a device: what isn't asked follows from what is. No thousandths: it
    hasn't so much memory.
    """
    if not need.memory:
        return need.share, device.memory * need.share // ONE
    if need.memory > device.memory:
        return 0, 0
    return need.share or -(-need.memory * ONE // device.memory), need.memory
