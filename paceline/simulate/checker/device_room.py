"""Whether a task would find the devices and cores that it asks on a host, told without the code of the machines.

Devices are taken one after another, whichever comes first: where parts exclude each other more than that may fit, and
the answer is no. Who judges by it finds nothing where nothing is wrong.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from events.records.parts import HostDevice, PlacementRules, TaskShape
from events.resources import is_gpu

WHOLE = 1000


class Room(NamedTuple):
    """The devices of a host, and what runs have of them."""

    devices: Sequence[HostDevice]
    """Those that take new tasks."""
    used: Mapping[str, int]
    """Thousandths by device, of those that aren't there any more too."""
    memory: Mapping[str, int]
    """MiB by device."""
    cores: Mapping[int, int]
    """The NUMA node of each core that nobody has, by its number."""
    exclude: Mapping[str, frozenset[str]]
    """By device those that can't be used beside it."""


class Want(NamedTuple):
    """Devices of a kind: whole ones, or a part of one."""

    kind: str
    whole: int
    share: int
    memory: int
    models: tuple[str, ...]


def asks_devices(shape: TaskShape) -> bool:
    """Whether tasks ask single devices or cores."""
    return bool(_wants(shape)) or bool(shape.rules and shape.rules.cores)


def fits(shape: TaskShape, room: Room) -> bool:
    """Whether a task finds its devices and cores."""
    return _take(shape, room) is not None


def count(shape: TaskShape, room: Room, most: int) -> int:
    """The number of tasks that find their devices and cores beside each other, at most so many."""
    used, memory, cores = Counter(room.used), Counter(room.memory), dict(room.cores)
    room = room._replace(used=used, memory=memory, cores=cores)
    for number in range(most):
        part = _take(shape, room)
        if part is None:
            return number
        for device_id, share, mib in part.devices:
            used[device_id] += share
            memory[device_id] += mib
        for core in part.cores:
            del cores[core]
    return most


def of_link_group(room: Room, group: str) -> Room:
    """The room without the cards of other link groups."""
    return room._replace(devices=[each for each in room.devices if not is_gpu(each.kind) or link_group(each) == group])


def link_group(card: HostDevice) -> str:
    """The link group of a card; one that is in none is one by itself."""
    return f"group {card.link_group}" if card.link_group else f"card {card.id}"


class _Taken(NamedTuple):
    """The devices that a task takes, each with its thousandths and MiB, and its cores."""

    devices: list[tuple[str, int, int]]
    cores: list[int]


def _take(shape: TaskShape, room: Room) -> _Taken | None:
    """The devices and cores that a task finds; None: there aren't enough."""
    rules = shape.rules or PlacementRules()
    open_ = [each for each in room.devices if not any(room.used.get(other) for other in room.exclude[each.id])]
    for devices, cores in _groups(rules.devices_within, open_, room.cores):
        choice = _takes(_wants(shape), devices, room)
        if choice is not None and len(cores) >= rules.cores:
            return _Taken(choice, cores[: rules.cores])
    return None


def _groups(
    within: str, open_: Sequence[HostDevice], cores: Mapping[int, int]
) -> Iterator[tuple[Sequence[HostDevice], list[int]]]:
    """The devices and cores of each group of which all must be."""
    if not within:
        yield open_, [*cores]
    elif within == "numa":
        for node in {*cores.values(), *map(_node, open_)}:
            yield [each for each in open_ if _node(each) == node], [at for at, its in cores.items() if its == node]
    else:  # cores are in no link group
        for group in {each.link_group or each.id for each in open_}:
            yield [each for each in open_ if (each.link_group or each.id) == group], [*cores]


def _node(device: HostDevice) -> int | str:
    """The NUMA node of a device, of its own where that is unknown."""
    return device.numa if device.numa >= 0 else device.id


def _wants(shape: TaskShape) -> list[Want]:
    """The devices of each kind that tasks ask; memory without a share is a part of a card by itself."""
    models = {each.kind: each.models for each in shape.rules.devices} if shape.rules else {}
    amounts = {name: amount for name, amount in shape.resources.items() if is_gpu(name)}
    wants = [Want(name, *divmod(amount, WHOLE), 0, models.get(name, ())) for name, amount in amounts.items() if amount]
    if memory := shape.resources.get("gpu_memory", 0):
        shared = next((at for at, want in enumerate(wants) if want.share), None)
        if shared is None:
            wants.append(Want("gpu", 0, 0, memory, models.get("gpu", ())))
        else:
            wants[shared] = wants[shared]._replace(memory=memory)
    return wants


def _takes(wants: Iterable[Want], open_: Sequence[HostDevice], room: Room) -> list[tuple[str, int, int]] | None:
    own: dict[str, tuple[int, int]] = {}
    for want in wants:
        mine = [each for each in open_ if each.kind == want.kind and (not want.models or each.model in want.models)]
        for _ in range(want.whole):
            device = next((each for each in mine if _is_free(each, own, room) and not room.used.get(each.id)), None)
            if device is None:
                return None
            own[device.id] = WHOLE, device.memory
        if want.share or want.memory:
            device = next((each for each in mine if _is_free(each, own, room) and _has(each, want, room)), None)
            if device is None:
                return None
            own[device.id] = _part(device, want)
    return [(device_id, *part) for device_id, part in own.items()]


def _is_free(device: HostDevice, own: Collection[str], room: Room) -> bool:
    """Whether what the task has taken before leaves a device."""
    return device.id not in own and room.exclude[device.id].isdisjoint(own)


def _has(device: HostDevice, want: Want, room: Room) -> bool:
    """Whether a device has a share and memory left."""
    share, memory = _part(device, want)
    rest = WHOLE - room.used.get(device.id, 0), device.memory - room.memory.get(device.id, 0)
    return share <= rest[0] and memory <= rest[1]


def _part(device: HostDevice, want: Want) -> tuple[int, int]:
    """The thousandths and MiB that a task takes of a device; what isn't asked follows from what is, rounded up."""
    share = want.share or -(-want.memory * WHOLE // max(device.memory, 1))
    return share, want.memory or -(-device.memory * share // WHOLE)
