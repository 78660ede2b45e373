"""What the views are told of pools: entitlement, demand and allocation, at most so often as the cell says."""

from events.columns import longs
from events.records.base import Event
from events.records.entitlement import EntitlementsSet
from processors.entitlement.queues import Queues
from processors.entitlement.rows import MEANINGS, CellRow, PoolRow, ReportedRow
from processors.state.table import Table, struct_table


class Reports:
    """Says EntitlementsSet."""

    def __init__(self, pools: Table[str, PoolRow], cell: Table[str, CellRow], queues: Queues) -> None:
        self._pools = pools
        self._cell = cell
        self._queues = queues
        self.reported: Table[str, ReportedRow] = struct_table("said", ReportedRow)

    def restored(self) -> None:
        """The tables were loaded."""

    def due_ms(self) -> int:
        """When the next one may be said."""
        cell = self._cell["cell"]
        return cell.reported_ms + cell.settings.report_every_ms

    def is_news(self) -> bool:
        """Whether one is to be said."""
        return False

    def report(self, most: int) -> Event:
        """What is to be said, of so many pools at most."""
        raise NotImplementedError

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
