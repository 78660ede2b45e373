"""Judges the devices and cores of hosts, and sums what they offer."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from events.bounds import AMOUNT_MAX, EXCLUDES_MAX, HOST_CORES_MAX, HOST_DEVICES_MAX, WORD_MAX
from events.records.hosts import HostOffered
from events.records.parts import HostDevice
from events.resources import GPU_MEMORY, STANDARD, Amounts, Unit, is_gpu, name_fault

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
"""Ids of devices: none can be taken for a list of them, or for a device of unknown model (`KIND:N`)."""
CORE = "core/"
"""Ids of whole cores begin so, before their numbers."""
NUMA_MAX = 1023
"""The highest NUMA node; Linux numbers none higher."""


class Core(NamedTuple):
    """A whole core: its NUMA node, and its threads by their numbers in Linux; none: they aren't known."""

    numa: int
    threads: tuple[int, ...] = ()


def sums(devices: Iterable[HostDevice]) -> Amounts:
    """Sums what healthy devices offer: each 1000 of its kind, and of GPUs the memory in MiB, once where a card and its
    parts have the same.
    """
    healthy = {each.id: each for each in devices if each.healthy}
    amounts: Amounts = {}
    for each in healthy.values():
        amounts[each.kind] = amounts.get(each.kind, 0) + 1000
        if is_gpu(each.kind) and each.memory and each.of not in healthy:
            amounts[GPU_MEMORY] = amounts.get(GPU_MEMORY, 0) + each.memory
    return amounts


def devices_fault(offer: HostOffered) -> str:
    """Why the devices and cores of an offer make it nonsense; empty: they don't."""
    if not offer.devices and not offer.cores:
        return ""
    if len(offer.cores) % 4 or len(offer.cores) // 4 > HOST_CORES_MAX:
        return f"it has {len(offer.cores) // 4} cores, at most {HOST_CORES_MAX} are allowed"
    if len(offer.cores) and not 0 <= int(offer.cores_array.min()) <= int(offer.cores_array.max()) <= NUMA_MAX:
        return f"NUMA nodes of cores are numbered 0 to {NUMA_MAX}"
    if fault := list_fault(offer.devices):
        return fault
    for kind, amount in sums(offer.devices).items():
        if offer.capacity.get(kind, 0) != amount:
            return f"capacity has {offer.capacity.get(kind, 0)} of {kind}, the devices make {amount}"
    return ""


def list_fault(devices: Sequence[HostDevice]) -> str:
    """Why devices can't be those of a host; empty: they can."""
    if len(devices) > HOST_DEVICES_MAX:
        return f"it has {len(devices)} devices, at most {HOST_DEVICES_MAX} are allowed"
    ids = {each.id for each in devices}
    if len(ids) < len(devices):
        twice = next(each for each in ids if sum(other.id == each for other in devices) > 1)
        return f"more than one device has the id {twice[:WORD_MAX]!r}"
    for each in devices:
        if fault := _fault(each, ids):
            return f"device {each.id[:WORD_MAX]!r}: {fault}"
    return ""


def _fault(device: HostDevice, ids: set[str]) -> str:
    if not ID.fullmatch(device.id) or device.id.startswith(CORE):
        return "an id has 1 to 128 of A-Z, a-z, 0-9, dot, dash, underscore, slash, and doesn't begin with core/"
    if fault := name_fault(device.kind):
        return fault
    if device.kind == GPU_MEMORY or STANDARD.get(device.kind, Unit.MILLI) is not Unit.MILLI or device.kind == "cpu":
        return f"{device.kind} is no kind of device"
    if max(len(device.model), len(device.link_group)) > WORD_MAX:
        return f"model and link_group have at most {WORD_MAX} characters"
    if not 0 <= device.memory <= AMOUNT_MAX:
        return f"memory is {device.memory} MiB, it must be 0 to {AMOUNT_MAX}"
    if not -1 <= device.numa <= NUMA_MAX:
        return f"numa is {device.numa}, it must be 0 to {NUMA_MAX}, or -1 where it isn't known"
    if device.of and device.of not in ids:
        return f"of names {device.of[:WORD_MAX]!r}, which the host hasn't"
    if len(device.excludes) > EXCLUDES_MAX:
        return f"excludes names {len(device.excludes)} devices, at most {EXCLUDES_MAX} are allowed"
    if strangers := [other for other in device.excludes if other not in ids]:
        return f"excludes names {strangers[0][:WORD_MAX]!r}, which the host hasn't"
    if device.id in (device.of, *device.excludes):
        return "it can't be a part of itself, or exclude itself"
    return ""
