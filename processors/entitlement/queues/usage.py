"""The usage of pools, kept up along the path to the root: amounts that are allocated, placed, claimed, borrowed.

The sums of a pool include all pools below it. Where jobs are, amounts that are entitled are known by priority too. A
passage says what a task adds to them, and to the counts of its part, when it passes from one state to another.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from sortedcontainers import SortedDict

from events.columns import I32, I64
from events.resources import Vector, add
from processors.entitlement.pools.tree import levels_of

WAITS, IS_ENTITLED, IS_BORROWED, HAS_PLACE, LEAVES, IS_PARKED = (1 << bit for bit in range(6))
"""The state of a task in bits."""
STATES = 64
BITS_OF_RANK = (0, IS_ENTITLED, IS_BORROWED, IS_ENTITLED | IS_PARKED, IS_ENTITLED)
"""What the state of a task has of its rank, by `Rank`; one that is to be parked holds what it held."""


class Passage(NamedTuple):
    """What one task adds to counts and sums when it passes from a state to another."""

    queued: int
    entitled: int
    borrowed: int
    claims: int
    loans: int
    sums: tuple[tuple[str, int], ...]


@cache
def passage_of(before: int, after: int, preemptible: bool, controller: bool, daemon: bool) -> Passage:
    """The passage of a task of a class between two states."""

    def more(is_counted: Callable[[int], bool]) -> int:
        return is_counted(after) - is_counted(before)

    def holds(state: int) -> bool:
        return state & (IS_ENTITLED | IS_BORROWED) > 0

    placed = more(lambda state: state & HAS_PLACE > 0)
    sums = {
        "allocation": more(lambda state: holds(state) and not state & IS_PARKED),
        "parked": more(lambda state: state & IS_PARKED > 0),
        "firm": 0 if preemptible else more(holds),
        "controllers": more(holds) if controller else 0,
        "placed": placed,
        "leaving": more(lambda state: state & HAS_PLACE > 0 and state & LEAVES > 0),
        "claims": more(claims),
        "loans": more(loans),
    }
    counted = sums
    if daemon:
        counted = {"allocation": sums["allocation"], "daemons": more(holds), "daemons_placed": placed}
    return Passage(
        more(lambda state: state & WAITS > 0),
        more(lambda state: state & IS_ENTITLED > 0),
        more(lambda state: state & IS_BORROWED > 0),
        sums["claims"],
        sums["loans"],
        tuple((name, sign) for name, sign in counted.items() if sign),
    )


def claims(state: int) -> bool:
    """Whether a task in a state is entitled and has no place."""
    return state & (IS_ENTITLED | HAS_PLACE) == IS_ENTITLED


CLAIMS = [claims(state) for state in range(STATES)]


def loans(state: int) -> bool:
    """Whether a task in a state is borrowed and has no place."""
    return state & (IS_BORROWED | HAS_PLACE) == IS_BORROWED


Numbers = list[int] | I64 | I32


class Passed(NamedTuple):
    """Tasks of a job that passed from a state to another, and since which second each was, and is, entitled without a
    place. `owner` is the base of the job plus 1.
    """

    owner: int
    was: int
    is_: int
    slots: Numbers
    since: Numbers
    due_s: Numbers


def apart(
    owners: list[int], slots: list[int], before: list[int], since: list[int], after: list[int], due_s: list[int]
) -> Iterator[Passed]:
    """What has passed of tasks that are few, or of about as many jobs; ascending by job and states."""
    groups: dict[tuple[int, int, int], tuple[list[int], list[int], list[int]]] = {}
    for owner, slot, was, from_, is_, due in zip(owners, slots, before, since, after, due_s, strict=True):
        if was == is_ and from_ == due:
            continue
        columns = groups.setdefault((owner, was, is_), ([], [], []))
        columns[0].append(slot)
        columns[1].append(from_)
        columns[2].append(due)
    for name, columns in sorted(groups.items()):
        yield Passed(*name, *columns)


SUMS = ("allocation", "placed", "leaving", "firm", "claims", "loans", "controllers", "parked")
OF_DAEMONS = ("daemons", "daemons_placed")


class PoolUsage:
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


class Usages:
    """The sums of all pools."""

    def __init__(self, nothing: Vector) -> None:
        self.nothing = nothing
        self._pools: dict[str, PoolUsage] = {}
        self._levels: dict[str, tuple[str, ...]] = {}
        self._empty = PoolUsage(nothing)
        self.numbers = 0
        """Grows with each change of what a pool may hold, holds or wants."""

    def __getitem__(self, pool: str) -> PoolUsage:
        """The sums of a pool, to look at."""
        return self._pools.get(pool, self._empty)

    def clear(self, nothing: Vector) -> None:
        """Nobody holds anything."""
        self.nothing, self._empty = nothing, PoolUsage(nothing)
        self._pools.clear()
        self._levels.clear()

    def items(self) -> Iterable[tuple[str, PoolUsage]]:
        """The pools that held or wanted anything, and their sums."""
        return self._pools.items()

    def levels(self, pool: str) -> tuple[str, ...]:
        """The pool and those above it, up to the root."""
        levels = self._levels.get(pool)
        if levels is None:
            levels = self._levels[pool] = tuple(levels_of(pool))
        return levels

    def leaf(self, pool: str) -> PoolUsage:
        """The sums of a pool that has jobs, to change."""
        found = self._pools.get(pool)
        if found is None:
            found = self._pools[pool] = PoolUsage(self.nothing)
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
