"""The hosts that have runs of jobs with an SLA, and whether they are heard."""

import numpy as np

from events.arrays.reused_numbers import ReusedNumbers
from events.arrays.runs_by_host import RunsByHost
from events.columns import I64
from events.records.hosts import HostBack, HostConnected, HostSilent
from events.records.lifecycle import JobSlaChanged, RunsOrdered
from processors.sla.availability import Availability, Flag
from processors.sla.rows import HostRow
from processors.state.seconds import milliseconds, second
from processors.state.table import Table, struct_table

_SILENT = int(Flag.SILENT)
FEW_HOSTS = 64
"""So few rows are never looked through."""
LONG_MS = 24 * 3_600_000
"""A host that is silent for so long is lost: what ran there has ended."""


class Hosts:
    """A row for each host that has such a run or isn't heard. Rows of others are dropped as rows are added: there are
    less than twice as many as are needed, or few.
    """

    def __init__(self, available: Availability) -> None:
        self.table: Table[str, HostRow] = struct_table("hosts", HostRow)
        self._available = available
        self._numbers = ReusedNumbers()
        self._by_host = RunsByHost(lambda slots: available.arena["host"][slots] - 1)

    def restored(self) -> None:
        """Rebuilds what follows from the rows."""
        self._numbers.restored({host_id: row.number for host_id, row in self.table.items()})
        self._by_host.restored(np.flatnonzero(self._available.arena["host"]))

    def moved(self, slots: I64) -> None:
        """These slots are others, or new."""
        self._by_host.add(slots)

    def number(self, host_id: str, session: int = 0) -> int:
        """The number of a host, from 1; it has a row from now on."""
        row = self.table.get(host_id)
        if row is None:
            row = self.table.put(host_id, HostRow(self._numbers.take(host_id), session))
        elif row.session < session:
            row = self.table.change(host_id)
            row.session, row.silent_s = session, 0
        return row.number + 1

    def order(self, event: RunsOrdered | JobSlaChanged, slots: I64, host: I64, now: int) -> None:
        """Runs of slots are on hosts, given as indexes of a record; what was silent before is so now."""
        self._drop_unneeded(len(event.host_ids), now)
        sessions = event.host_session_array
        numbers = np.zeros(len(event.host_ids), dtype=np.int64)
        silent = np.zeros(len(event.host_ids), dtype=np.int64)
        for at in sorted({*host.tolist()}):
            host_id = event.host_ids[at]
            numbers[at] = self.number(host_id, int(sessions[at]))
            silent[at] = _SILENT if self.table[host_id].silent_s else 0
        off = ~int(Flag.SILENT | Flag.AWAY)
        flags = self._available.arena["flags"][slots] & off | silent[host]
        self._available.change(slots, host=numbers[host], flags=flags)
        self._by_host.add(slots)

    def hear(self, event: HostConnected | HostBack) -> I64:
        """A host is heard; returns the slots of its runs, if it wasn't before."""
        row = self.table.get(event.host_id)
        if row is None or event.session < row.session or not (row.silent_s or event.session > row.session):
            return np.zeros(0, dtype=np.int64)
        row = self.table.change(event.host_id)
        was_silent, row.silent_s, row.session = row.silent_s > 0, 0, event.session
        slots = self._slots(row) if was_silent else np.zeros(0, dtype=np.int64)
        self._available.flag(slots, off=_SILENT)
        return slots

    def miss(self, event: HostSilent, now: int) -> I64:
        """A host isn't heard any more; returns the slots of its runs."""
        self._drop_unneeded(1, now)
        self.number(event.host_id)  # runs that were ordered there may be heard of later
        row = self.table[event.host_id]
        if event.session < row.session or row.silent_s:
            return np.zeros(0, dtype=np.int64)
        row = self.table.change(event.host_id)
        row.silent_s, row.session = second(now), event.session
        slots = self._slots(row)
        self._available.flag(slots, on=_SILENT)
        return slots

    def _drop_unneeded(self, more: int, now: int) -> None:
        """Up to so many rows are added. Where their number passes a power of two, those of hosts are dropped that have
        no run and no unit, and aren't silent, or have been so for long.
        """
        count = len(self.table)
        if count + more < FEW_HOSTS or (count + more).bit_length() == max(count, FEW_HOSTS - 1).bit_length():
            return
        arena = self._available.arena
        in_use = {*np.unique(arena["host"]).tolist(), *np.unique(arena["unit"]).tolist()}
        for host_id, row in [*self.table.items()]:
            is_new = row.silent_s > 0 and milliseconds(row.silent_s) + LONG_MS > now
            if row.number + 1 not in in_use and not is_new:
                self._numbers.give_back(row.number)
                self.table.remove(host_id)

    def _slots(self, row: HostRow) -> I64:
        return self._by_host.of(np.array([row.number]))
