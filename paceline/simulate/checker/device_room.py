"""Whether a task would find the devices and cores that it asks on a host, told without the code of the machines.

Devices are taken one after another, whichever comes first: where parts exclude each other more than that may fit, and
the answer is no. Who judges by it finds nothing where nothing is wrong.
"""

from collections.abc import Iterable, Mapping, Sequence
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
    rules = shape.rules or PlacementRules()
    open_ = [each for each in room.devices if not any(room.used.get(other) for other in room.exclude[each.id])]
    if not rules.devices_within:
        return _takes(_wants(shape), open_, room) and len(room.cores) >= rules.cores
    if rules.devices_within == "numa":
        nodes = {*room.cores.values(), *map(_node, open_)}
        return any(
            _takes(_wants(shape), [each for each in open_ if _node(each) == node], room)
            and sum(at == node for at in room.cores.values()) >= rules.cores
            for node in nodes
        )
    groups = {each.link_group or each.id for each in open_}
    of_group = ([each for each in open_ if (each.link_group or each.id) == group] for group in groups)
    return len(room.cores) >= rules.cores and any(_takes(_wants(shape), each, room) for each in of_group)


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


def _takes(wants: Iterable[Want], open_: Sequence[HostDevice], room: Room) -> bool:
    own: list[str] = []
    for want in wants:
        mine = [each for each in open_ if each.kind == want.kind and (not want.models or each.model in want.models)]
        for _ in range(want.whole):
            device = next((each for each in mine if _is_free(each, own, room) and not room.used.get(each.id)), None)
            if device is None:
                return False
            own.append(device.id)
        if want.share or want.memory:
            device = next((each for each in mine if _is_free(each, own, room) and _has(each, want, room)), None)
            if device is None:
                return False
            own.append(device.id)
    return True


def _is_free(device: HostDevice, own: Sequence[str], room: Room) -> bool:
    """Whether what the task has taken before leaves a device."""
    return device.id not in own and room.exclude[device.id].isdisjoint(own)


def _has(device: HostDevice, want: Want, room: Room) -> bool:
    """Whether a device has a share and memory left; what isn't asked follows from what is, rounded up."""
    share = want.share or -(-want.memory * WHOLE // max(device.memory, 1))
    memory = want.memory or -(-device.memory * share // WHOLE)
    rest = WHOLE - room.used.get(device.id, 0), device.memory - room.memory.get(device.id, 0)
    return share <= rest[0] and memory <= rest[1]
