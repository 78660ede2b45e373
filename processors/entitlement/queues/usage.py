"""The usage of pools, kept up along the path to the root: amounts that are allocated, placed, claimed, borrowed.

The sums of a pool include all pools below it. Where jobs are, amounts that are entitled are known by priority too. A
`Delta` is what a task adds to them, and to the counts of its part, when its state changes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import ge
from typing import NamedTuple

import numpy as np
from sortedcontainers import SortedDict

from events.columns import I32, I64, counted, distinct
from events.pool_paths import levels_of
from events.ranks import RANKS, Rank
from events.resources import Vector, add, subtract
from processors.entitlement.queues.parts import by
from processors.state.arena import Arena, Slots

WAITS, IS_ENTITLED, IS_BORROWED, HAS_PLACE, LEAVES, IS_PARKED = (1 << bit for bit in range(6))
"""The state of a task in bits."""
STATES = 64
BITS_OF_RANK = tuple(
    row.entitled * IS_ENTITLED | row.parked * IS_PARKED | (row.rank == Rank.BORROWED) * IS_BORROWED for row in RANKS
)
"""The bits that the rank of a task has in its state."""
_BITS = np.array(BITS_OF_RANK, dtype=np.int64)


class Delta(NamedTuple):
    """The amount that one task adds to counts and sums when it goes from one state to another."""

    queued: int
    entitled: int
    borrowed: int
    claims: int
    loans: int
    sums: tuple[tuple[str, int], ...]


@cache
def delta_of(before: int, after: int, preemptible: bool, controller: bool, daemon: bool, revocable: bool) -> Delta:
    """The delta of a task of a class between two states."""

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
        "revocable": more(holds) if revocable else 0,
        "placed": placed,
        "leaving": more(lambda state: state & HAS_PLACE > 0 and state & LEAVES > 0),
        "claims": more(claims),
        "loans": more(loans),
    }
    summed = sums
    if daemon:
        summed = {"allocation": sums["allocation"], "daemons": more(holds), "daemons_placed": placed}
    return Delta(
        more(lambda state: state & WAITS > 0),
        more(lambda state: state & IS_ENTITLED > 0),
        more(lambda state: state & IS_BORROWED > 0),
        sums["claims"],
        sums["loans"],
        tuple((name, sign) for name, sign in summed.items() if sign),
    )


def claims(state: int) -> bool:
    """Whether a task in a state is entitled and has no place."""
    return state & (IS_ENTITLED | HAS_PLACE) == IS_ENTITLED


CLAIMS = [claims(state) for state in range(STATES)]


def loans(state: int) -> bool:
    """Whether a task in a state is borrowed and has no place."""
    return state & (IS_BORROWED | HAS_PLACE) == IS_BORROWED


# The states of tasks, and how they change.

Numbers = list[int] | I64 | I32


class Transition(NamedTuple):
    """Tasks of a job that went from one state to another, and since which second each was, and is, entitled without a
    place. `owner` is the base of the job plus 1.
    """

    owner: int
    before: int
    after: int
    slots: Numbers
    since_before: Numbers
    since_after: Numbers


def states_of(arena: Arena, slots: I64) -> I64:
    """The state of each task in bits."""
    states: I64 = _BITS[arena["rank"][slots]]
    states += arena["queued"][slots] > 0
    states += (arena["placed"][slots] > 0) * np.int64(HAS_PLACE)
    states += (arena["leaving"][slots] > 0) * np.int64(LEAVES)
    return states


def states_of_few(arena: Arena, slots: I64) -> tuple[list[int], list[int]]:
    """The states of few tasks, and since when they are entitled without a place."""
    rows = arena.rows(slots, "rank", "queued", "placed", "leaving", "due_s")
    states = [
        BITS_OF_RANK[rank] | (queued > 0) | (placed > 0) * HAS_PLACE | (leaving > 0) * LEAVES
        for rank, queued, placed, leaving, _ in rows
    ]
    return states, [row[-1] for row in rows]


def transitions(arena: Arena, slots: I64, before: I64, since: Slots) -> list[Transition]:
    """The transitions of many tasks from the states that they were in to those that the columns have."""
    after, due_s, owners = states_of(arena, slots), arena["due_s"][slots], arena["owner"][slots]
    changed = (before != after) | (since != due_s)
    columns = tuple(each[changed] for each in (owners, slots, before, since, after, due_s))
    groups = (columns[0].astype(np.int64) * STATES + columns[2]) * STATES + columns[4]
    if 2 * len(distinct(groups)) > len(groups):  # to cut the columns apart for each would cost more than a loop
        return transitions_of_few(*(each.tolist() for each in columns))
    out: list[Transition] = []
    for group, at in by(np.arange(len(groups)), groups) if len(groups) else ():
        owner, was, is_ = group // (STATES * STATES), group // STATES % STATES, group % STATES
        out.append(Transition(owner, was, is_, columns[1][at], columns[3][at], columns[5][at]))
    return out


def transitions_of_few(
    owners: list[int], slots: list[int], before: list[int], since: list[int], after: list[int], due_s: list[int]
) -> list[Transition]:
    """The transitions of tasks that are few, or of about as many jobs; ascending by job and states."""
    groups: dict[tuple[int, int, int], tuple[list[int], list[int], list[int]]] = {}
    for owner, slot, was, from_, is_, due in zip(owners, slots, before, since, after, due_s, strict=True):
        if was == is_ and from_ == due:
            continue
        columns = groups.setdefault((owner, was, is_), ([], [], []))
        columns[0].append(slot)
        columns[1].append(from_)
        columns[2].append(due)
    return [Transition(*name, *columns) for name, columns in sorted(groups.items())]


def count_seconds(counts: dict[int, int], since: Numbers) -> None:
    """Counts tasks by the second since when they are entitled without a place. A `Counter` takes twice the time."""
    if len(since) == 1:
        second = int(since[0])
        counts[second] = counts.get(second, 0) + 1
        return
    for second, count in zip(*(each.tolist() for each in counted(np.asarray(since, dtype=np.int64))), strict=True):
        counts[second] = counts.get(second, 0) + count


# The sums of pools.

SUMS = ("allocation", "placed", "leaving", "firm", "claims", "loans", "controllers", "parked", "revocable")
OF_DAEMONS = ("daemons", "daemons_placed")
OF_KINDS = ("allocation", "parked", "revocable", "firm")
"""The sums that kinds of jobs have too, beside what waits."""


class PoolUsage:
    """The sums of a pool. `allocation`: what is admitted, but for what is parked; `placed`: what has a place,
    `leaving` the part of it that was ordered to leave; `firm`: what isn't preemptible; `claims`: entitled without a
    place; `parked`: claims that hold nothing under limits; `loans`: borrowed without a place; `controllers`: what
    controllers hold; `revocable`: what runs on slack holds; `daemons`: what those hold, `daemons_placed` what of it
    has a place; of the others they count for `allocation` alone. Of a pool that has jobs also `waiting`,
    `firm_waiting` and `revocable_waiting`: what waits and may be admitted some time, preemptible, not, and to run on
    slack.
    """

    __slots__ = (
        *SUMS,
        *OF_DAEMONS,
        "_nothing",
        "claims_since",
        "entitled",
        "firm_waiting",
        "on_slack",
        "revocable_waiting",
        "waiting",
    )

    def __init__(self, nothing: Vector) -> None:
        self._nothing = nothing
        self.allocation = self.placed = self.leaving = self.firm = nothing
        self.daemons = self.daemons_placed = nothing
        self.claims = self.loans = self.controllers = self.parked = self.waiting = self.firm_waiting = nothing
        self.revocable = self.revocable_waiting = nothing
        self.entitled: SortedDict[int, Vector] = SortedDict()
        """The preemptible amount that is entitled, by priority; of pools that have jobs."""
        self.on_slack: SortedDict[int, Vector] = SortedDict()
        """The same of what runs on slack, which isn't in the other."""
        self.claims_since: SortedDict[int, int] = SortedDict()
        """The number of tasks that are entitled without a place, by the second since when; of pools that have jobs."""

    def entitled_from(self, priority: int) -> Vector:
        """The amount that is entitled, placed or not, and is firm or of at least this priority."""
        level = self.firm
        for each in reversed(self.entitled):
            if each < priority:
                break
            level = add(level, self.entitled[each])
        return level

    def on_slack_from(self, priority: int) -> Vector:
        """The amount that is entitled to run on slack, placed or not, and of at least this priority."""
        level = self._nothing
        for each in self.on_slack.irange(priority) if self.on_slack else ():
            level = add(level, self.on_slack[each])
        return level

    def change_waiting(self, name: str, had: Vector, has: Vector) -> None:
        """Another amount of a part waits; `name`: in which sum."""
        waiting = getattr(self, name)
        waiting = subtract(waiting, had) if any(had) else waiting
        setattr(self, name, add(waiting, has) if any(has) else waiting)

    def add_claims(self, since_s: int, tasks: int) -> None:
        """So many more tasks, or fewer, are entitled without a place since a second."""
        count = self.claims_since.get(since_s, 0) + tasks
        if count:
            self.claims_since[since_s] = count
        else:
            del self.claims_since[since_s]

    def add_entitled(self, priority: int, amount: Vector, revocable: bool) -> None:
        """So much more is preemptible and entitled at a priority."""
        entitled = self.on_slack if revocable else self.entitled
        have = entitled.get(priority)
        amount = amount if have is None else add(have, amount)
        if any(amount):
            entitled[priority] = amount
        else:
            entitled.pop(priority, None)


class Usages:
    """The sums of all pools."""

    def __init__(self, nothing: Vector) -> None:
        self._pools: dict[str, PoolUsage] = {}
        self._levels: dict[str, tuple[str, ...]] = {}
        self._of_kinds: dict[tuple[str, int], PoolUsage] = {}
        self.are_pooled = False
        """Whether the cell has host pools: kinds of jobs have sums then."""
        self.numbers = 0
        """Grows with each change of what a pool may hold, holds or wants."""
        self.clear(nothing)

    def __getitem__(self, pool: str) -> PoolUsage:
        """The sums of a pool, to look at."""
        return self._pools.get(pool, self._empty)

    def clear(self, nothing: Vector) -> None:
        """Forgets all sums; `nothing`: a vector over the kinds that the cell knows."""
        self.nothing, self._empty = nothing, PoolUsage(nothing)
        self._pools.clear()
        self._of_kinds.clear()
        self._levels.clear()

    def of_kind(self, pool: str, kind: int) -> PoolUsage:
        """The sums `OF_KINDS` of a kind of jobs in a pool, and its amounts by priority, to look at; empty in a cell
        without host pools. Daemons are of no kind.
        """
        return self._of_kinds.get((pool, kind), self._empty)

    def to_change(self, pool: str, kind: int) -> Sequence[PoolUsage]:
        """The sums of a pool, and in a cell with host pools those of a kind of jobs in it, to change."""
        usage = self.change(pool)
        return (usage, self.change_of_kind(pool, kind)) if self.are_pooled else (usage,)

    def change_of_kind(self, pool: str, kind: int) -> PoolUsage:
        """The sums of a kind of jobs in a pool, to change, in a cell with host pools."""
        return self._of_kinds.setdefault((pool, kind), PoolUsage(self.nothing))

    def add_of_kind(self, pool: str, kind: int, amount: Vector, sums: Iterable[tuple[str, int]]) -> None:
        """Adds an amount to sums of a kind of jobs, each with its sign."""
        usage = self.change_of_kind(pool, kind)
        for name, sign in sums:
            if name in OF_KINDS:
                setattr(usage, name, add(getattr(usage, name), amount, sign))

    def items(self) -> Iterable[tuple[str, PoolUsage]]:
        """The pools that held or wanted anything, and their sums."""
        return self._pools.items()

    def levels(self, pool: str) -> tuple[str, ...]:
        """The pool and those above it, up to the root."""
        levels = self._levels.get(pool)
        if levels is None:
            levels = self._levels[pool] = tuple(levels_of(pool))
        return levels

    def change(self, pool: str) -> PoolUsage:
        """The sums of a pool, to change."""
        usage = self._pools.get(pool)
        if usage is None:
            usage = self._pools[pool] = PoolUsage(self.nothing)
        return usage

    def shared(self, capacity: Vector) -> Vector:
        """The amount that pools share: the capacity of the cell without what daemons hold."""
        return tuple([max(0, have - used) for have, used in zip(capacity, self["/"].daemons, strict=True)])

    def add(self, pool: str, sums: Mapping[str, Vector]) -> None:
        """Adds to sums of a pool and of all above it, each of which has what pools below it have."""
        below: PoolUsage | None = None
        for level in self.levels(pool):
            usage = self.change(level)
            for name, amount in sums.items():
                have = getattr(usage, name)
                setattr(usage, name, tuple([each + more for each, more in zip(have, amount, strict=True)]))
            if below is not None:  # not all children: one that has more shows that sums went wrong, and costs little
                assert all(map(ge, usage.allocation, below.allocation)), level
                assert all(map(ge, usage.placed, below.placed)), level
            below = usage
