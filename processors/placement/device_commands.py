"""Devices that operators set aside: they take no new tasks, and the runs on them go on, or leave by `surplus.py`."""

from itertools import islice

import msgspec

from events.codes import Code
from events.records.base import Event
from events.records.hosts import HostDeviceRequested
from events.records.placement import HostAnswered, HostDeviceChanged
from events.words import listed
from processors.placement.hosts import Hosts
from processors.placement.rows import AskRow
from processors.state.causes import CurrentInput, host_fact
from processors.state.table import Table, struct_table

NAMED = 8
"""So many devices of a host are named to whom asks for one that it doesn't have."""


class DeviceAskRow(msgspec.Struct, array_like=True):
    """A request of an operator about a device, while it waits for its answer."""

    ask: AskRow
    device: str
    disabled: bool
    ends: bool


class DeviceCommands:
    """Decides `HostDeviceChanged` and answers operators."""

    def __init__(self, hosts: Hosts, current: CurrentInput) -> None:
        self.asks: Table[int, DeviceAskRow] = struct_table("device_asks", DeviceAskRow, int)
        self._hosts = hosts
        self._input = current

    def asked(self, event: HostDeviceRequested, now: int) -> None:
        """An operator sets a device aside, or gives it back."""
        ask = AskRow(event.host_id, event.command_id, now)
        ends = event.ends and event.disabled
        self.asks.put(self._input.offset, DeviceAskRow(ask, event.device, event.disabled, ends))

    def answered(self, event: HostAnswered, now: int) -> None:
        """The operator has an answer."""
        if event.hosts_offset in self.asks:
            self.asks.remove(event.hosts_offset)

    def next_ask_ms(self) -> int | None:
        """When an operator asked, who is to be answered at once."""
        return next(iter(self.asks.values())).ask.at_ms if self.asks else None

    def decide(self, budget: int) -> list[Event]:
        """At most `budget` answers; what changes a host comes before its answer, at most once for each host."""
        out: list[Event] = []
        changed: dict[str, None] = {}
        for offset, row in islice(self.asks.items(), budget):
            host_id = row.ask.host_id
            if host_id in changed:  # judged on what it has then
                continue
            code, message = self._judge(row)
            before = self._hosts.table[host_id].disabled.get(row.device) if code == Code.DONE else None
            if code == Code.DONE and before != (row.ends if row.disabled else None):
                changed[host_id] = None
                change = HostDeviceChanged(
                    host_id=host_id,
                    device=row.device,
                    disabled=row.disabled,
                    ends=row.ends,
                    cause=host_fact(offset),
                )
                out.append(change)
            out.append(row.ask.answer(offset, code, message))
        return out

    def _judge(self, ask: DeviceAskRow) -> tuple[Code, str]:
        row = self._hosts.table.get(ask.ask.host_id)
        if row is None:
            return Code.NOT_FOUND, "This cell knows no such host."
        device = next((each for each in (*row.devices, *row.former) if each.id == ask.device), None)
        if ask.device in row.disabled and not ask.disabled:
            ill = device is not None and not device.healthy
            still = "; its agent says that it isn't healthy, so it takes none until that ends" if ill else ""
            return Code.DONE, f"Device {ask.device} takes new tasks again{still}."
        if device is None:
            names = listed([each.id for each in row.devices], NAMED) or "none by name"
            return Code.NOT_FOUND, f"The host has no device {ask.device[:80]}; it has {names}."
        if not ask.disabled:
            return Code.DONE, f"Device {ask.device} wasn't disabled."
        runs = "those on it are to leave" if ask.ends else "runs on it go on"
        return Code.DONE, f"Device {ask.device} takes no new tasks; {runs}."
