"""Refusals that last: units that can't be admitted before hosts or pools change, whoever leaves."""

from collections.abc import Mapping, Sequence

from events.codes import Code
from events.pool_paths import levels_of
from events.resources import Kinds, Vector
from events.work_classes import POOLED, REVOCABLES
from processors.entitlement.bounds import BOUNDS, Ask, Refusal, check, exceeds
from processors.entitlement.host_pools import Mask, WithinReach, capacity_of, of_class, reach_of
from processors.entitlement.rows import CellRow, PoolRow


class NoUsage:
    """Implements `Usage`: pools in which nothing is admitted, as if all work had left. Licences are no limits there."""

    has_hosts = True

    def __init__(self, pools: Mapping[str, PoolRow], kinds: int) -> None:
        self._pools = pools
        self._nothing: Vector = (0,) * kinds

    def row(self, level: str) -> PoolRow:
        """The definition of a pool."""
        return self._pools[level]

    def levels(self, pool: str) -> tuple[str, ...]:
        """The pool and those above it, up to the root."""
        return tuple(levels_of(pool))

    def limit(self, level: str) -> Vector:
        """The limit of a pool."""
        return self._pools[level].limit

    def entitlement(self, level: str) -> Vector:
        """No amount."""
        return self._nothing

    def allocation(self, level: str) -> Vector:
        """No amount."""
        return self._nothing

    def kept(self, level: str, pool: str) -> Vector | None:
        """Nothing is kept."""
        return None

    def parked(self, level: str) -> Vector:
        """No amount."""
        return self._nothing

    def firm(self, level: str) -> Vector:
        """No amount."""
        return self._nothing

    def controllers(self, level: str) -> Vector:
        """No amount."""
        return self._nothing

    def entitled(self, pool: str, priority: int) -> Vector:
        """No amount."""
        return self._nothing

    def slack(self, pool: str) -> tuple[Vector, Vector]:
        """No amount."""
        return self._nothing, self._nothing

    def on_slack(self, pool: str, priority: int) -> Vector:
        """No amount."""
        return self._nothing

    def beyond(self, ask: Ask) -> Refusal:
        """No further reason."""
        return Refusal(Code.ENTITLEMENT_REACHED, ask.pool)

    def within_reach(self, pool: str, kind: int) -> WithinReach | None:
        """No bound."""
        return None

    def by_kind(self, ask: Ask) -> list[tuple[Mask, Vector, Vector]]:
        """No bound."""
        return []


def refused_for_good(
    pools: Mapping[str, PoolRow], cell: CellRow, pool: str, kind: int, need: Vector, tasks: Sequence[Vector]
) -> Refusal | None:
    """Why a unit of a class that needs so much can't be admitted before hosts or pools change, whoever leaves; `tasks`:
    what its tasks need. None: it can.
    """
    if pool not in pools:
        return Refusal(Code.NO_SUCH_POOL, pool)
    usage = NoUsage(pools, len(need))
    if refusal := check(usage, Ask(pool, kind, 0, need), BOUNDS.fixed[kind]):
        return refusal
    if cell.host_pools and kind & POOLED:
        group, kinds = reach_of(pools, cell, pool)[of_class(kind)], Kinds(cell.settings.resources)
        if exceeds(need, capacity_of(cell, kinds, group)):
            return Refusal(Code.HOST_POOLS_TOO_SMALL, pool)
    need, *tasks = map(cell.owned, (need, *tasks)) if kind & REVOCABLES else (need, *tasks)
    if cell.hosts and (exceeds(need, cell.capacity) or any(map(cell.lacks, tasks))):
        return Refusal(Code.NEVER_FITS, "/")
    return None
