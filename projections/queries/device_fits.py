"""The devices that a host lacks for a task even if nobody has any of them, counted and told as by placement."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from events.records.parts import HostDevice, PlacementRules
from processors.placement.devices.lacks import lack_text
from processors.placement.devices.layouts import device_rows, layout_of
from processors.placement.devices.needs import DeviceNeed, device_need
from processors.placement.devices.states import choose, untouched
from processors.state.record_rows import RulesRow, row_of


class OfferedDevices(NamedTuple):
    """The devices and cores of a host as its row has them, JSON, with those that operators have set aside."""

    devices: str = "[]"
    cores: str = "[]"
    disabled: str = "{}"


class Lack(NamedTuple):
    """The lack of a host in words, and `close`: how many of the devices or cores it has that a task asks for."""

    close: int
    text: str


def lack(
    need: Mapping[str, int], rules: PlacementRules | None, offered: OfferedDevices, amounts: Mapping[str, int]
) -> Lack | None:
    """The lack of an empty host for a task; None: it has all. `need` and `amounts`: by resource, those of the task and
    all of the host.
    """
    devices = device_rows(msgspec.json.decode(offered.devices, type=list[HostDevice]))
    own_rules = row_of(RulesRow, rules) if rules is not None else None
    kinds = {each.kind for each in devices} | {each.kind for each in (own_rules.devices if own_rules else ())}
    wants = device_need([*need], [*need.values()], own_rules, kinds)
    if wants is None:
        return None
    cores, disabled = msgspec.json.decode(offered.cores), msgspec.json.decode(offered.disabled)
    host = layout_of(devices, (), cores, amounts, kinds, disabled)
    empty = untouched(0, host.layout)
    if choose(wants, host.layout, empty) is not None:
        return None
    close = sum(each.usable and _is_asked(wants, each.kind, each.model) for each in host.layout.devices)
    return Lack(close or len(cores) * (not wants.kinds), lack_text(wants, host.layout, empty, host.ids))


def _is_asked(need: DeviceNeed, kind: str, model: str) -> bool:
    return any(each.kind == kind and (not each.models or model in each.models) for each in need.kinds)
