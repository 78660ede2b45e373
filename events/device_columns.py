"""The devices of runs in records of runs: for each item so many as `device_count` says, one after the other."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from events.columns import I32, Names


class RunDevice(NamedTuple):
    """A device that a run has, or a whole core (its id begins with core/): so many thousandths and MiB of it."""

    id: str
    milli: int
    memory: int


class _Record(Protocol):
    """The columns of TasksPlaced and RunsOrdered."""

    @property
    def device_ids(self) -> tuple[str, ...]: ...
    @property
    def device(self) -> bytes: ...
    @property
    def device_array(self) -> I32: ...
    @property
    def device_share_array(self) -> I32: ...
    @property
    def device_mib_array(self) -> I32: ...
    @property
    def device_count_array(self) -> I32: ...


def devices_of(event: _Record) -> Iterator[tuple[int, list[RunDevice]]]:
    """The items that have devices: the place of each, and its devices."""
    if not event.device:
        return
    columns = (event.device_array, event.device_share_array, event.device_mib_array)
    devices = [
        RunDevice(event.device_ids[index], milli, memory)
        for index, milli, memory in zip(*(column.tolist() for column in columns), strict=True)
    ]
    at = 0
    for place, count in enumerate(event.device_count_array.tolist()):
        if count:
            yield place, devices[at : at + count]
        at += count


def device_fields(rows: Sequence[Sequence[RunDevice]]) -> dict[str, Any]:
    """The fields of a record by which each item has such a row of devices; none where nobody has any."""
    names = Names()
    parts = [(names[each.id], each.milli, each.memory) for row in rows for each in row]
    if not parts:
        return {}
    device, share, memory = zip(*parts, strict=True)
    return {
        "device_ids": names.all(),
        "device": device,
        "device_share": share,
        "device_mib": memory,
        "device_count": [len(row) for row in rows],
    }
