"""Reports of pools to the views: what they may use, demand and hold, as often as the cell says while it changes.

Decision 046.
"""

from collections.abc import Iterable
from typing import Any

from events.records.base import Event
from events.records.entitlement import EntitlementsSet, HostPoolsWanted
from events.records.parts import HostPoolWaits
from events.resources import Vector, add, in_order
from processors.entitlement.rows import MEANINGS, ReportedRow
from processors.entitlement.state import State
from processors.state.causes import recorded


class Reports:
    """Decides EntitlementsSet."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._pools = state.pools
        self._queues = state.queues
        self._usage = state.usage
        self._shares = state.shares

    def next_ms(self) -> int | None:
        """Return when one is due; None: nothing has changed."""
        cell = self._state.cell
        due_ms = cell.reported_ms + cell.settings.report_every_ms
        return due_ms if cell.is_news or cell.changed_by else None

    def report(self, most: int) -> Event:
        """Return the report of so many pools at most."""
        rows = {path: self._row(path, amount) for path, amount in self._shares.all().items()}
        paths = sorted(path for path, row in rows.items() if self._state.reported.get(path) != row)
        return self._record({path: rows[path] for path in paths[:most]}, len(paths) > most)

    def wanted(self) -> list[Event]:
        """Return what waits for host pools, if that was said otherwise."""
        cell, kinds = self._state.cell, self._queues.kinds
        if not cell.host_pools and not cell.waits:
            return []
        waits = {name: kinds.amounts(amount) for name, amount in self._shares.waiting_for_host_pools().items()}
        if waits == cell.waits:
            return []
        host_pools = tuple(HostPoolWaits(name=name, waiting=amounts) for name, amounts in waits.items())
        return [HostPoolsWanted(host_pools=host_pools, cause=recorded(cell.last_by))]

    def set_wanted(self, event: HostPoolsWanted, now: int) -> None:
        """Applies the same."""
        self._state.change_cell().waits = {each.name: in_order(each.waiting) for each in event.host_pools}

    def of_pools(self, paths: Iterable[str]) -> list[Event]:
        """Return a report of those of some pools that may use something else; others follow when they are due."""
        rows = {path: self.row(path) for path in sorted(paths)}
        new = {path: row for path, row in rows.items() if self._was(path) != row.entitlement}
        return [self._record(new, True)] if new else []

    def row(self, path: str) -> ReportedRow:
        """Return the numbers of a pool."""
        return self._row(path, self._shares.entitlement(path))

    def set(self, event: EntitlementsSet, now: int) -> None:
        """Applies a report."""
        rows = [getattr(event, f"{meaning}_array").tolist() for meaning in MEANINGS]
        for at, path in enumerate(event.pools):
            if path in self._pools:
                self._state.reported.put(path, ReportedRow(*(tuple(row[at]) for row in rows)))
        if not event.partial:
            cell = self._state.change_cell()
            cell.reported_ms, cell.changed_by, cell.is_news = now, [], False

    def forget(self, path: str) -> None:
        """Forgets a pool that was removed."""
        if path in self._state.reported:
            self._state.reported.remove(path)

    def _was(self, path: str) -> Vector | None:
        row = self._state.reported.get(path)
        return None if row is None else row.entitlement

    def _record(self, rows: dict[str, ReportedRow], partial: bool) -> Event:
        columns: dict[str, Any] = {
            meaning: [amount for row in rows.values() for amount in getattr(row, meaning)] for meaning in MEANINGS
        }
        claims = self._usage["/"].claims
        columns["claimed"] = claims if any(claims) else ()
        daemons = [amount for path in rows for amount in self._usage[path].daemons_placed]
        columns["daemons"] = daemons
        columns |= {"pools": tuple(rows), "resources": self._queues.kinds.names, "partial": partial}
        return EntitlementsSet.pack(causes=self._state.cell.causes, **columns)

    def _row(self, path: str, entitlement: Vector) -> ReportedRow:
        holding = self._usage[path]
        placed = add(holding.placed, holding.daemons_placed)
        return ReportedRow(entitlement, self._shares.demand(path), holding.allocation, placed)
