"""The state that all parts of entitlement share: tables of pools, cell, jobs and tasks, and what follows from them."""

from collections.abc import Sequence

from events.pool_paths import parent_of
from events.resources import STANDARD, STANDARD_KINDS, Vector, scale, subtract
from events.strategies import DEFAULT, default_strategy, strategy_number
from processors.entitlement.bounds import exceeds
from processors.entitlement.lasting_refusals import refused_for_good
from processors.entitlement.queues.limit_holds import LimitHolds
from processors.entitlement.queues.order import QueueOrder
from processors.entitlement.queues.parts import EACH_CHANGE, Consumer
from processors.entitlement.queues.queues import Queues
from processors.entitlement.queues.rebalances import Rebalances
from processors.entitlement.queues.usage import Usages
from processors.entitlement.rows import CellRow, PoolRow, ReportedRow, root_row
from processors.entitlement.shares.entitlements import Shares
from processors.state.displacements import Displacements
from processors.state.marks import Marks
from processors.state.table import Table, struct_table

GPU = [*STANDARD].index("gpu")


class State:
    """`reported`: by pool, what EntitlementsSet said of it last; `holds`: what is kept under limits for others."""

    def __init__(self) -> None:
        self.pools: Table[str, PoolRow] = struct_table("pools", PoolRow)
        self.pools.put("/", root_row())
        self.cells: Table[str, CellRow] = struct_table("cell", CellRow)
        self.cell = self.cells.put("cell", CellRow())
        """Capacity and settings, to look at: the one row of `cells`."""
        self.reported: Table[str, ReportedRow] = struct_table("said", ReportedRow)
        self.marks: Marks[Consumer, str] = Marks(Consumer, EACH_CHANGE)
        """The pools that each consumer must look at again; they watch the levels above them."""
        self.usage = Usages((0,) * len(STANDARD_KINDS))
        self.order = QueueOrder()
        self.queues = Queues(self.usage, self.order, self.marks, self)
        self.holds = LimitHolds(self.queues, self.usage, self.marks)
        self.shares = Shares(self.pools, self.cells, self.queues, self.usage, self.marks)
        self.displacements = Displacements()
        self.rebalances = Rebalances(self.queues)

    def restored(self) -> None:
        """Takes the row that was loaded."""
        self.cell = self.cells["cell"]

    def change_cell(self) -> CellRow:
        """Return capacity and settings, to change."""
        return self.cells.change("cell")

    def strategy_of(self, pool: str) -> int:
        """The strategy of jobs of a pool that name none: its own, that of the first pool above that has one, or the
        default.
        """
        above = pool
        while above != "/":
            if (name := self.pools[above].strategy) not in ("", DEFAULT):
                return strategy_number(name)
            above = parent_of(above)
        return default_strategy(self.pools[pool].strategy, self.cell.capacity[GPU])

    def idle(self) -> Vector:
        """The capacity that pools share and on which nothing is placed."""
        return subtract(self.usage.shared(self.cell.capacity), self.usage["/"].placed)

    def is_refused(self, pool: str, kind: int, need: Vector, tasks: Sequence[Vector]) -> bool:
        """Implements `LastingBounds.is_refused`."""
        return refused_for_good(self.pools, self.cell, pool, kind, need, tasks) is not None

    def may_fit(self, need: Vector, tasks: int) -> bool:
        """Implements `LastingBounds.may_fit`; where no host has reported, any could."""
        cell = self.cell
        return not cell.hosts or not (exceeds(scale(need, tasks), cell.capacity) or cell.lacks(need))
