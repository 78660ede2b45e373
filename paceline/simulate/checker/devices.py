"""Checks devices and cores one by one, at placement's positions: who has which, and that nobody else has it too."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from events.columns import ints
from events.job_ends import is_over
from events.records.base import Event
from events.records.hosts import HostConnected, HostOffered
from events.records.lifecycle import GangsQueued, InstancesChanged, JobAccepted, JobChanged, RunsEnded
from events.records.parts import HostDevice, PlacementRules, TaskShape
from events.records.placement import HostDeviceChanged, HostLost, HostRemoved, TasksPlaced
from events.resources import is_gpu
from paceline.simulate.checker.alternatives import Alternatives
from paceline.simulate.checker.device_room import Room, count, fits, link_group, of_link_group
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.items import Task, added, places_of, reshaped, runs_of

WHOLE = 1000
SINGLE_MAX = 64_000
"""So many thousandths of a host that only says an amount are single devices."""


class Part(NamedTuple):
    """The part of one device that a run has."""

    id: str
    share: int
    memory: int


class Devices:
    """Follows offers, places and ends."""

    def __init__(self) -> None:
        self._alternatives = Alternatives()
        self._jobs: dict[str, JobAccepted] = {}
        self._sessions: dict[str, int] = {}
        """The newest session of each host: its offers alone count."""
        self._lost: set[str] = set()
        """Hosts whose offers don't count before their next session."""
        self._offers: dict[str, HostOffered] = {}
        self._devices: dict[str, dict[str, HostDevice]] = {}
        """By host all devices that it has offered: one that is offered no more may still be held."""
        self._holders: dict[Task, tuple[int, str, list[Part]]] = {}
        self._set_aside: dict[str, set[str]] = {}
        """By host the devices that take no new tasks."""
        self._vacated: dict[str, set[str]] = {}
        """Those of them whose runs are to leave."""

    def round(self, round_: Round) -> None:
        """Takes a round of placement. Raises `Violation`."""
        for _, _, event, _ in round_.inputs:
            self._take(event)
        for event in round_.decisions:
            if isinstance(event, TasksPlaced):
                self._place(event, round_)
            elif isinstance(event, HostLost):
                self._lost.add(event.host_id)
            elif isinstance(event, HostRemoved):
                self._sessions.pop(event.host_id, None)
                self._lost.discard(event.host_id)
                self._offers.pop(event.host_id, None)
                self._devices.pop(event.host_id, None)
                self._set_aside.pop(event.host_id, None)
                self._vacated.pop(event.host_id, None)
            elif isinstance(event, HostDeviceChanged):
                set_aside = self._set_aside.setdefault(event.host_id, set())
                (set_aside.add if event.disabled else set_aside.discard)(event.device)
                vacated = self._vacated.setdefault(event.host_id, set())
                (vacated.add if event.disabled and event.ends else vacated.discard)(event.device)

    def is_to_leave(self, task: Task) -> bool:
        """Whether a task has a device that its runs are to leave."""
        if task not in self._holders:
            return False
        _, host_id, parts = self._holders[task]
        return not self._vacated.get(host_id, set()).isdisjoint(part.id for part in parts)

    def choices(self, task: Task) -> list[TaskShape]:
        """The shapes of which a task that waits may take any."""
        return self._alternatives.choices(self._jobs[task[0]], task)

    def fit(self, shape: TaskShape, host_id: str, leave: Collection[Task] = ()) -> bool:
        """Whether a task would find its devices and cores on a host when some tasks have left it."""
        room = self._room(host_id, leave)
        return room is not None and fits(shape, room)

    def count(self, shape: TaskShape, host_id: str, most: int, leave: Collection[Task] = ()) -> int:
        """The number of tasks, at most so many, that would find their devices and cores on a host."""
        room = self._room(host_id, leave)
        return 0 if room is None else count(shape, room, most)

    def count_by_link_group(
        self, shape: TaskShape, host_id: str, most: int, leave: Collection[Task] = ()
    ) -> dict[str, int]:
        """The same of each link group of a host, with no cards but its own."""
        room = self._room(host_id, leave)
        if room is None:
            return {}
        groups = {link_group(each) for each in room.devices if is_gpu(each.kind)}
        return {group: count(shape, of_link_group(room, group), most) for group in groups}

    def link_groups(self, task: Task) -> set[tuple[str, str]]:
        """The link groups of the cards of a task, each with its host."""
        if task not in self._holders:
            return set()
        _, host_id, parts = self._holders[task]
        cards = (self._device(host_id, part.id) for part in parts)
        return {(host_id, link_group(card)) for card in cards if card is not None and is_gpu(card.kind)}

    def _room(self, host_id: str, leave: Collection[Task]) -> Room | None:
        """The room of a host when some tasks have left it; None: it offers nothing."""
        offered, used, memory = self._offers.get(host_id), Counter[str](), Counter[str]()
        if offered is None:
            return None
        for task, (_, at, parts) in self._holders.items():
            for part in parts if at == host_id and task not in leave else ():
                used[part.id] += part.share
                memory[part.id] += part.memory
        ever, names = self._devices.get(host_id, {}), {each.kind for each in offered.devices}
        sums = {
            kind: amount for kind, amount in offered.capacity.items() if kind.startswith("gpu") and kind not in names
        }
        plain = [
            HostDevice(f"{kind}:{at}", kind)
            for kind, amount in sums.items()
            for at in range(amount // WHOLE if kind != "gpu_memory" and amount <= SINGLE_MAX else 0)
        ]
        set_aside = self._set_aside.get(host_id, set())
        devices = [each for each in (*offered.devices, *plain) if each.healthy and each.id not in set_aside]
        free = {at: node for at, node in enumerate(ints(offered.cores).tolist()) if not used[f"core/{at}"]}
        exclude = {
            each.id: frozenset(other for other in ever if other != each.id and _exclude(each, other, ever))
            for each in devices
        }
        return Room(devices, used, memory, free, exclude)

    def _take(self, event: Event) -> None:
        match event:
            case JobAccepted():
                self._jobs[event.job_id] = event
            case GangsQueued():
                reshaped(self._jobs, event)
            case InstancesChanged():
                added(self._jobs, event)
            case JobChanged() if is_over(event):
                for task in [task for task in self._holders if task[0] == event.job_id]:
                    del self._holders[task]
            case HostConnected() if event.session > self._sessions.get(event.host_id, 0):
                self._sessions[event.host_id] = event.session
                self._lost.discard(event.host_id)
            case HostOffered() if (
                event.session == self._sessions.get(event.host_id) and event.host_id not in self._lost
            ):
                self._offers[event.host_id] = event
                self._devices.setdefault(event.host_id, {}).update({each.id: each for each in event.devices})
            case RunsEnded():
                self._alternatives.ended(event)
                for task, run in runs_of(event):
                    if task in self._holders and self._holders[task][0] <= run:
                        del self._holders[task]

    def _place(self, event: TasksPlaced, round_: Round) -> None:
        self._alternatives.placed(event)
        for (task, run, host_id, _, _), parts in zip(places_of(event), _parts(event), strict=True):
            what = f"{round_} places {task} on {host_id}"
            shape = self._alternatives.shape(self._jobs[task[0]], task)
            self._has_all(what, shape, host_id, parts)
            if parts:
                self._holders[task] = (run, host_id, parts)
                self._shared(what, host_id, parts)

    def _device(self, host_id: str, name: str) -> HostDevice | None:
        """A device by its id; one of a host that says an amount alone is named by its kind and a number."""
        if name in self._devices.get(host_id, {}):
            return self._devices[host_id][name]
        kind, colon, number = name.rpartition(":")
        offered = self._offers[host_id]
        is_there = colon and number.isdigit() and kind not in {each.kind for each in offered.devices}
        if is_there and int(number) * WHOLE < offered.capacity.get(kind, 0):
            return HostDevice(name, kind)
        return None

    def _has_all(self, what: str, shape: TaskShape, host_id: str, parts: list[Part]) -> None:
        """The devices are such as the task asks."""
        rules, offered = shape.rules or PlacementRules(), self._offers[host_id]
        cores = [part for part in parts if part.id.startswith("core/")]
        if len(cores) != rules.cores:
            raise Violation(f"{what} with {len(cores)} cores of {rules.cores}")
        nodes = ints(offered.cores).tolist()
        is_numa = rules.devices_within == "numa"
        groups: set[object] = {nodes[int(part.id[5:])] for part in cores if is_numa}  # cores are in no link group
        got: Counter[str] = Counter()
        memory = 0
        for part in parts:
            if part in cores:
                continue
            device = self._device(host_id, part.id)
            if device is None or not device.healthy:
                raise Violation(f"{what}, which doesn't offer {part.id}: {device}")
            if part.id in self._set_aside.get(host_id, set()):
                raise Violation(f"{what} on {part.id}, which is set aside")
            models = [each.models for each in rules.devices if each.kind == device.kind]
            if models and device.model not in models[0]:
                raise Violation(f"{what} with a {device.model!r}, it asks {models[0]}")
            got[device.kind] += part.share
            memory += part.memory
            groups.add(device.numa if is_numa else device.link_group or device.id)
        if rules.devices_within and len(groups) > 1:
            raise Violation(f"{what} with devices of {rules.devices_within} {groups}")
        wants = {name: amount for name, amount in shape.resources.items() if is_gpu(name)}
        if memory < (want := shape.resources.get("gpu_memory", 0)):
            raise Violation(f"{what} with {memory} of {want} MiB")
        for name, amount in wants.items():
            if offered.capacity.get(name, 0) <= SINGLE_MAX and got[name] != amount:
                raise Violation(f"{what} with {got[name]} of {amount} {name}: {parts}")
            pieces = [part for part in parts if part.share < WHOLE]
            if len(wants) == 1 and len(pieces) > 1:
                raise Violation(f"{what} with shares of several devices: {parts}")

    def _shared(self, what: str, host_id: str, parts: list[Part]) -> None:
        """Nobody has more of a device than there is, nor one that excludes another."""
        used, memory = Counter[str](), Counter[str]()
        for _, other_host, holding in self._holders.values():
            for part in holding if other_host == host_id else ():
                used[part.id] += part.share
                memory[part.id] += part.memory
        for part in parts:
            if used[part.id] > WHOLE:
                raise Violation(f"{what}: {used[part.id]} thousandths of {part.id} are held")
            device = self._device(host_id, part.id) if not part.id.startswith("core/") else None
            if device is None:
                continue
            if memory[part.id] > device.memory:
                raise Violation(f"{what}: {memory[part.id]} of {device.memory} MiB of {part.id} are held")
            for other in used:
                if other != part.id and _exclude(device, other, self._devices.get(host_id, {})):
                    raise Violation(f"{what} on {part.id} beside {other}, which it excludes")


def _exclude(device: HostDevice, other: str, devices_of: Mapping[str, HostDevice]) -> bool:
    """Whether two devices can't be used at once."""
    if other not in devices_of:
        return False
    return other in (*device.excludes, device.of) or device.id in (*devices_of[other].excludes, devices_of[other].of)


def _parts(event: TasksPlaced) -> Iterator[list[Part]]:
    """Yields the parts of each item."""
    columns = (ints(event.device).tolist(), ints(event.device_share).tolist(), ints(event.device_mib).tolist())
    each = zip(*columns, strict=True)
    counts = ints(event.device_count).tolist() or [0] * len(ints(event.job))
    for size in counts:
        items = [next(each) for _ in range(size)]
        yield [Part(event.device_ids[at], share, memory) for at, share, memory in items]
