"""What the views are told of pools: entitlement, demand and allocation, at most so often as the cell says.

Which pools have other numbers is found among those of which something has changed, not by a look at all.
"""

from collections.abc import Iterable
from typing import Any

from events.columns import longs, pack_longs
from events.records.base import Event
from events.records.entitlement import EntitlementsSet
from events.resources import Kinds
from processors.entitlement.queues import Queues
from processors.entitlement.rows import MEANINGS, CellRow, PoolRow, ReportedRow
from processors.entitlement.shares import Shares
from processors.state.table import Table, struct_table


class Reports:
    """Says EntitlementsSet."""

    def __init__(self, pools: Table[str, PoolRow], cell: Table[str, CellRow], queues: Queues, shares: Shares) -> None:
        self._pools = pools
        self._cell = cell
        self._queues = queues
        self._shares = shares
        self.reported: Table[str, ReportedRow] = struct_table("said", ReportedRow)
        self._maybe: dict[str, None] = {}
        """Pools that may have other numbers than was said."""

    def restored(self) -> None:
        """The tables were loaded."""
        self.look_at_all()

    def widen(self, kinds: Kinds) -> None:
        """The cell knows more kinds."""
        for path, row in list(self.reported.items()):
            self.reported.put(path, row.widened(kinds))

    def look_at_all(self) -> None:
        """Any pool may have other numbers."""
        self._maybe = dict.fromkeys(self._pools)

    def touch(self, pools: Iterable[str]) -> None:
        """Pools, and with them those above, may have other numbers."""
        for pool in pools:
            self._maybe.update(dict.fromkeys(self._queues.holdings.levels(pool)))

    def due_ms(self) -> int:
        """When the next one may be said."""
        cell = self._cell["cell"]
        return cell.reported_ms + cell.settings.report_every_ms

    def is_news(self) -> bool:
        """Whether one is to be said; the shares are up to date."""
        while self._maybe:
            path = next(reversed(self._maybe))
            if self._differs(path):
                return True
            del self._maybe[path]
        return bool(self._cell["cell"].changed_by)

    def report(self, most: int) -> Event:
        """What is to be said, of so many pools at most."""
        paths = [path for path in sorted(self._maybe) if self._differs(path)]
        self._maybe = dict.fromkeys(paths)
        rows = [self.row(path) for path in paths[:most]]
        columns: dict[str, Any] = {
            meaning: pack_longs([amount for row in rows for amount in getattr(row, meaning)]) for meaning in MEANINGS
        }
        columns |= {"pools": tuple(paths[:most]), "resources": self._queues.kinds.names, "partial": len(paths) > most}
        return EntitlementsSet(causes=self._cell["cell"].causes, **columns)

    def row(self, path: str) -> ReportedRow:
        """What is to be said of a pool."""
        allocation = self._queues.holdings[path].allocation
        return ReportedRow(self._shares.entitlement(path), self._shares.demand(path), allocation)

    def set(self, event: EntitlementsSet, now: int) -> None:
        """It was said."""
        shape = len(event.pools), len(event.resources)
        rows = [longs(getattr(event, meaning)).reshape(shape).tolist() for meaning in MEANINGS]
        for at, path in enumerate(event.pools):
            if path in self._pools:
                self.reported.put(path, ReportedRow(*(tuple(row[at]) for row in rows)))
        if not event.partial:
            cell = self._cell.change("cell")
            cell.reported_ms, cell.changed_by = now, []

    def forget(self, path: str) -> None:
        """A pool was removed."""
        self._maybe.pop(path, None)
        if path in self.reported:
            self.reported.remove(path)

    def _differs(self, path: str) -> bool:
        return path in self._pools and self.reported.get(path) != self.row(path)
