"""The state that all parts of entitlement share: tables of pools, cell, jobs and tasks, and what follows from them."""

from collections.abc import Sequence

from events.resources import Vector, subtract
from processors.entitlement.bounds import refused_for_good
from processors.entitlement.queues.limit_holds import LimitHolds
from processors.entitlement.queues.queues import Queues
from processors.entitlement.rows import CellRow, PoolRow, ReportedRow, root_row
from processors.entitlement.shares.entitlements import Shares
from processors.state.displacements import Displacements
from processors.state.table import Table, struct_table


class State:
    """`reported`: by pool, what EntitlementsSet said of it last; `holds`: what is kept under limits for others."""

    def __init__(self) -> None:
        self.pools: Table[str, PoolRow] = struct_table("pools", PoolRow)
        self.pools.put("/", root_row())
        self.cells: Table[str, CellRow] = struct_table("cell", CellRow)
        self.cell = self.cells.put("cell", CellRow())
        """Capacity and settings, to look at: the one row of `cells`."""
        self.reported: Table[str, ReportedRow] = struct_table("said", ReportedRow)
        self.queues = Queues(self._is_refused)
        self.holds = LimitHolds(self.queues)
        self.shares = Shares(self.queues, self.pools, self.cells)
        self.displacements = Displacements()

    def restored(self) -> None:
        """Takes the row that was loaded."""
        self.cell = self.cells["cell"]

    def change_cell(self) -> CellRow:
        """Return capacity and settings, to change."""
        return self.cells.change("cell")

    def idle(self) -> Vector:
        """The capacity that pools share and on which nothing is placed."""
        usage = self.queues.usage
        return subtract(usage.shared(self.cell.capacity), usage["/"].placed)

    def _is_refused(self, pool: str, kind: int, need: Vector, tasks: Sequence[Vector]) -> bool:
        """Whether units can't be admitted before hosts or pools change."""
        levels = self.queues.usage.levels(pool)
        return refused_for_good(self.pools, self.cell, levels, kind, need, tasks) is not None
