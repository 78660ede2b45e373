"""What pools hold, kept up along the path to the root: amounts that are allocated, placed, leaving, claimed, borrowed.

The sums of a pool include all pools below it. Where jobs are, amounts that are entitled are known by priority too.
"""

from collections.abc import Iterable, Mapping

from sortedcontainers import SortedDict

from events.resources import Vector, add
from processors.entitlement.pools.tree import levels_of

SUMS = ("allocation", "placed", "leaving", "firm", "claims", "loans", "controllers", "parked")
OF_DAEMONS = ("daemons", "daemons_placed")


class Holding:
    """The sums of a pool. `allocation`: what is admitted, but for what is parked; `placed`: what has a place, `leaving`
    the part of it that was ordered to leave; `firm`: what isn't preemptible; `claims`: entitled without a place;
    `parked`: claims that hold nothing under limits; `loans`: borrowed without a place; `controllers`: what controllers
    hold; `daemons`: what those hold, `daemons_placed` what of it has a place; of the others they count for `allocation`
    alone. Of a pool that has jobs also `waiting` and `firm_waiting`: what waits and may be admitted some time,
    preemptible and not.
    """

    __slots__ = (*SUMS, *OF_DAEMONS, "claims_since", "entitled", "firm_waiting", "waiting")

    def __init__(self, nothing: Vector) -> None:
        self.allocation = self.placed = self.leaving = self.firm = nothing
        self.daemons = self.daemons_placed = nothing
        self.claims = self.loans = self.controllers = self.parked = self.waiting = self.firm_waiting = nothing
        self.entitled: SortedDict[int, Vector] = SortedDict()
        """What is preemptible and entitled, by priority; of pools that have jobs."""
        self.claims_since: SortedDict[int, int] = SortedDict()
        """How many tasks are entitled without a place since which second; of pools that have jobs."""

    def level(self, priority: int) -> Vector:
        """What is entitled, placed or not, and is firm or of at least this priority."""
        level = self.firm
        for each in reversed(self.entitled):
            if each < priority:
                break
            level = add(level, self.entitled[each])
        return level

    def add_claims(self, since_s: int, tasks: int) -> None:
        """So many more tasks, or fewer, are entitled without a place since a second."""
        count = self.claims_since.get(since_s, 0) + tasks
        if count:
            self.claims_since[since_s] = count
        else:
            del self.claims_since[since_s]

    def add_entitled(self, priority: int, amount: Vector) -> None:
        """So much more is preemptible and entitled at a priority."""
        have = self.entitled.get(priority)
        amount = amount if have is None else add(have, amount)
        if any(amount):
            self.entitled[priority] = amount
        else:
            self.entitled.pop(priority, None)


class Holdings:
    """The sums of all pools."""

    def __init__(self, nothing: Vector) -> None:
        self.nothing = nothing
        self._pools: dict[str, Holding] = {}
        self._levels: dict[str, tuple[str, ...]] = {}
        self._empty = Holding(nothing)
        self.numbers = 0
        """Grows with each change of what a pool may hold, holds or wants."""

    def __getitem__(self, pool: str) -> Holding:
        """The sums of a pool, to look at."""
        return self._pools.get(pool, self._empty)

    def clear(self, nothing: Vector) -> None:
        """Nobody holds anything."""
        self.nothing, self._empty = nothing, Holding(nothing)
        self._pools.clear()
        self._levels.clear()

    def items(self) -> Iterable[tuple[str, Holding]]:
        """The pools that held or wanted anything, and their sums."""
        return self._pools.items()

    def levels(self, pool: str) -> tuple[str, ...]:
        """The pool and those above it, up to the root."""
        levels = self._levels.get(pool)
        if levels is None:
            levels = self._levels[pool] = tuple(levels_of(pool))
        return levels

    def leaf(self, pool: str) -> Holding:
        """The sums of a pool that has jobs, to change."""
        found = self._pools.get(pool)
        if found is None:
            found = self._pools[pool] = Holding(self.nothing)
        return found

    def shared(self, capacity: Vector) -> Vector:
        """What is there for pools to share: the capacity of the cell without what daemons hold."""
        return tuple([max(0, have - held) for have, held in zip(capacity, self["/"].daemons, strict=True)])

    def add(self, pool: str, sums: Mapping[str, Vector]) -> None:
        """Adds to sums of a pool and of all above it."""
        for level in self.levels(pool):
            holding = self.leaf(level)
            for name, amount in sums.items():
                have = getattr(holding, name)
                setattr(holding, name, tuple([each + more for each, more in zip(have, amount, strict=True)]))
