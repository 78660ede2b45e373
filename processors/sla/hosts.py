"""The hosts that have runs of jobs with an SLA, and whether they are heard."""

import numpy as np

from events.arrays.reused_numbers import ReusedNumbers
from events.columns import I64
from events.records.hosts import HostBack, HostConnected, HostSilent
from events.records.lifecycle import RunsOrdered
from processors.sla.availability import Availability, Flag
from processors.sla.rows import HostRow
from processors.state.table import Table, struct_table

_SILENT = int(Flag.SILENT)


class Hosts:
    """A row for each host that has had such a run or isn't heard. One that is lost with its last run is forgotten."""

    def __init__(self, available: Availability) -> None:
        self.table: Table[str, HostRow] = struct_table("hosts", HostRow)
        self._available = available
        self._numbers = ReusedNumbers()

    def restored(self) -> None:
        """Rebuilds what follows from the rows."""
        self._numbers.restored({host_id: row.number for host_id, row in self.table.items()})

    def number(self, host_id: str, session: int = 0) -> int:
        """The number of a host, from 1; it has a row from now on."""
        row = self.table.get(host_id)
        if row is None:
            row = self.table.put(host_id, HostRow(self._numbers.take(host_id), session))
        elif row.session < session:
            self.table.change(host_id).session = session
        return row.number + 1

    def order(self, event: RunsOrdered, slots: I64, items: I64) -> None:
        """Runs of slots, items of a record, have hosts."""
        host = event.host_array[items]
        sessions = event.host_session_array
        numbers = np.zeros(len(event.host_ids), dtype=np.int64)
        silent = np.zeros(len(event.host_ids), dtype=np.int64)
        for at in sorted({*host.tolist()}):
            host_id = event.host_ids[at]
            numbers[at] = self.number(host_id, int(sessions[at]))
            silent[at] = _SILENT if self.table[host_id].silent else 0
        off = ~int(Flag.SILENT | Flag.AWAY)
        flags = self._available.arena["flags"][slots] & off | silent[host]
        self._available.change(slots, host=numbers[host], flags=flags)

    def hear(self, event: HostConnected | HostBack) -> I64:
        """A host is heard; returns the slots of its runs, if it wasn't before."""
        row = self.table.get(event.host_id)
        if row is None or event.session < row.session or not (row.silent or event.session > row.session):
            return np.zeros(0, dtype=np.int64)
        row = self.table.change(event.host_id)
        was_silent, row.silent, row.session = row.silent, False, event.session
        slots = self._slots(row) if was_silent else np.zeros(0, dtype=np.int64)
        self._available.flag(slots, off=_SILENT)
        return slots

    def miss(self, event: HostSilent) -> I64:
        """A host isn't heard any more; returns the slots of its runs."""
        self.number(event.host_id)  # runs that were ordered there may be heard of later
        row = self.table[event.host_id]
        if event.session < row.session or row.silent:
            return np.zeros(0, dtype=np.int64)
        row = self.table.change(event.host_id)
        row.silent, row.session = True, event.session
        slots = self._slots(row)
        self._available.flag(slots, on=_SILENT)
        return slots

    def lose(self, numbers: list[int]) -> None:
        """Runs are lost with the hosts of these numbers: nothing more is ordered there."""
        for number in sorted({*numbers}):
            host_id = self._numbers.ids[number - 1]
            if self.table[host_id].silent and not self._is_named(self.table[host_id]):
                self._forget(host_id)

    def _forget(self, host_id: str) -> None:
        self._numbers.give_back(self.table[host_id].number)
        self.table.remove(host_id)

    def _slots(self, row: HostRow) -> I64:
        return np.flatnonzero(self._available.arena["host"] == row.number + 1)

    def _is_named(self, row: HostRow) -> bool:
        """Whether there are runs on a host, or a unit that leaves it."""
        return bool(len(self._slots(row)) or (self._available.arena["unit"] == row.number + 1).any())
