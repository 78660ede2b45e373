"""What each pool is entitled to, demands and holds, as queues and pools are now."""

from events.resources import Vector, add, subtract
from processors.entitlement.max_min import entitlements
from processors.entitlement.pool_tree import parent_of
from processors.entitlement.queues import Queues
from processors.entitlement.rows import CellRow, PoolRow, ReportedRow
from processors.state.table import Table


class Shares:
    """Counted anew when queues or pools have changed."""

    def __init__(self, queues: Queues, pools: Table[str, PoolRow], cell: Table[str, CellRow]) -> None:
        self._queues = queues
        self._pools = pools
        self._cell = cell
        self._found: tuple[int, dict[str, ReportedRow]] = (-1, {})

    def restored(self) -> None:
        """Queues and pools were loaded."""
        self._found = (-1, {})

    def all(self) -> dict[str, ReportedRow]:
        """Entitlement, demand and allocation of each pool as the state is now, parents before their children."""
        version, found = self._found
        if version != self._queues.changes:
            found = self._count()
            self._found = (self._queues.changes, found)
        return found

    def entitlement(self) -> dict[str, Vector]:
        """What each pool may use now."""
        return {pool: row.entitlement for pool, row in self.all().items()}

    def allocation(self) -> dict[str, Vector]:
        """What each pool holds, and all below it."""
        return {pool: row.allocation for pool, row in self.all().items()}

    def _count(self) -> dict[str, ReportedRow]:
        paths = sorted(self._pools, key=lambda path: (path.count("/") if path != "/" else 0, path))
        index = {path: at for at, path in enumerate(paths)}
        parents = [-1 if path == "/" else index[parent_of(path)] for path in paths]
        nothing = self._queues.nothing
        allocation = [self._queues.allocation.get(path, nothing) for path in paths]
        waiting = [self._queues.waiting.get(path, nothing) for path in paths]
        rows = [self._pools[path] for path in paths]
        strict = [self._non_preemptible_demand(path, row.reservation) for path, row in zip(paths, rows, strict=True)]
        demand = [add(add(*parts[:2]), parts[2]) for parts in zip(waiting, strict, allocation, strict=True)]
        found = entitlements(
            parents,
            [row.reservation for row in rows],
            [row.limit for row in rows],
            [row.share for row in rows],
            demand,
            self._cell["cell"].capacity,
        )
        for at in range(len(paths) - 1, 0, -1):
            above = parents[at]
            allocation[above] = add(allocation[above], allocation[at])
            demand[above] = add(demand[above], demand[at])
        return {path: ReportedRow(found[at], demand[at], allocation[at]) for path, at in index.items()}

    def _non_preemptible_demand(self, pool: str, reservation: Vector) -> Vector:
        """What waits and isn't preemptible, as far as the reservation can take it: the rest would claim in vain."""
        queues = self._queues
        waits = queues.non_preemptible_waiting.get(pool, queues.nothing)
        room = subtract(reservation, queues.non_preemptible.get(pool, queues.nothing))
        return tuple(max(0, min(want, have)) for want, have in zip(waits, room, strict=True))
