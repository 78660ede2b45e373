"""The devices of a host as its offer says them, and those that it has by an amount alone."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from events.records.parts import HostDevice
from events.resources import is_gpu
from processors.placement.devices.needs import ONE
from processors.placement.devices.states import Device, Layout
from processors.state.record_rows import row_of

SUMMED_MAX = 64
"""So many devices a host has of a kind of which it says only an amount. Of more none is told from another."""


class DeviceRow(msgspec.Struct, frozen=True, array_like=True):
    """A `HostDevice`."""

    id: str
    kind: str
    model: str = ""
    memory: int = 0
    numa: int = -1
    link_group: str = ""
    of: str = ""
    excludes: tuple[str, ...] = ()
    healthy: bool = True


def device_rows(devices: Sequence[HostDevice]) -> tuple[DeviceRow, ...]:
    """The rows of what an offer says."""
    return tuple(row_of(DeviceRow, each) for each in devices)


def vanished(before: Sequence[DeviceRow], now: Sequence[DeviceRow], holding: Collection[str]) -> tuple[DeviceRow, ...]:
    """The devices that are no longer offered and that runs have, as rows that take no tasks. Beside one of them only
    those parts of its card may be used that were there before and could be.
    """
    offered, by_id = {each.id for each in now}, {each.id: each for each in before}
    former = [each for each in before if each.id in holding and each.id not in offered]
    rows = []
    for each in former:
        beside = {
            other
            for other, one in by_id.items()
            if other not in each.excludes and each.id not in one.excludes and one.of == each.of
        }
        card = each.of or each.id
        of_card = [one.id for one in now if card in (one.id, one.of) and (not each.of or one.id not in beside)]
        rows.append(msgspec.structs.replace(each, healthy=False, excludes=(*each.excludes, *of_card)))
    return tuple(rows)


class HostLayout(NamedTuple):
    """A layout, and what its devices are called on one host."""

    layout: Layout
    ids: tuple[str, ...] = ()
    at: Mapping[str, int] = {}
    """The place of each device by its id."""


EMPTY = HostLayout(Layout())


def layout_of(
    offered: Sequence[DeviceRow],
    former: Sequence[DeviceRow],
    cores: Sequence[int],
    capacity: Mapping[str, int],
    kinds: Collection[str],
    disabled: Collection[str] = (),
) -> HostLayout:
    """The layout of a host that offers these devices and cores; `former`: those that it offers no more and runs have;
    `capacity`: all its amounts; `kinds`: those that some host has as devices; `disabled`: devices that an operator has
    set aside.
    """
    devices, listed = (*offered, *former), {each.kind for each in offered}
    summed = {
        name: amount for name, amount in capacity.items() if name not in listed and (is_gpu(name) or name in kinds)
    }
    if not devices and not cores and not summed:
        return EMPTY
    places = {each.id: at for at, each in enumerate(devices)}
    clashes = [0] * len(devices)
    for at, each in enumerate(devices):
        for other in {*each.excludes, each.of} & places.keys():
            clashes[at] |= 1 << places[other]
            clashes[places[other]] |= 1 << at
    items = [
        Device(
            *(each.kind, each.model, each.memory, each.numa, each.link_group),
            usable=each.healthy and each.id not in disabled,
            clashes=mask,
        )
        for each, mask in zip(devices, clashes, strict=True)
    ]
    ids = [each.id for each in devices]
    many = tuple(name for name, amount in summed.items() if amount > SUMMED_MAX * ONE)
    for name, amount in summed.items():
        whole, rest = divmod(amount, ONE) if name not in many else (0, 0)
        parts = [ONE] * whole + [rest] * bool(rest)
        items += [Device(name, share=share) for share in parts]
        ids += [f"{name}:{number}" for number in range(len(parts))]
    by_id = {each: place for place, each in enumerate(ids)}
    for name in listed:  # a run from before its host said more than an amount has the device of that number
        of_kind = [each.id for each in offered if each.kind == name]
        by_id |= {f"{name}:{number}": by_id[each] for number, each in enumerate(of_kind)}
    return HostLayout(Layout(tuple(items), tuple(cores), many), tuple(ids), by_id)
