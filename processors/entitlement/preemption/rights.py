"""What placement is told of rights: which claims may have others leave for them, and which pools may be asked to give.

Said as changes, of pools of which something has changed or a time has come, never from a look at all. Entitlements are
those that were reported last: they may change for all pools at once. As long as nobody has a right, nobody is told what
may be given.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

from events.columns import I64, Names
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, RightsSet
from events.resources import Vector
from processors.entitlement.preemption.unplaced import Claims, GiverRow, RightRow
from processors.entitlement.queues.consumers import Consumer
from processors.entitlement.state import State
from processors.state.causes import recorded
from processors.state.deadlines import Deadlines
from processors.state.displacements import Task
from processors.state.preemption_rules import Flag
from processors.state.steps import Pass
from processors.state.table import Table, struct_table


class Change(NamedTuple):
    """What is to be said anew."""

    removed: list[tuple[Task, RightRow]]
    set: list[tuple[Task, RightRow]]
    givers: list[tuple[str, GiverRow | None]]

    def __len__(self) -> int:
        return len(self.removed) + len(self.set) + len(self.givers)


class Rights:
    """The tables `rights` and `givers`: what was said last."""

    def __init__(self, state: State, claims: Claims) -> None:
        self._state = state
        self._queues = state.queues
        self._claims = claims
        self.rights: Table[Task, RightRow] = struct_table("rights", RightRow, tuple[str, int])
        self.givers: Table[str, GiverRow] = struct_table("givers", GiverRow)
        self._of_pool: dict[str, dict[Task, None]] = {}
        self._clears = 0
        """How many rights may have hosts cleared."""
        marks = state.queues.order.marks
        self._takers, self._givers = marks.of(Consumer.TAKERS), marks.of(Consumer.GIVERS)
        self._untimed = marks.of(Consumer.RIGHT_TIMES)
        self._times: Deadlines[str] = Deadlines()
        """When time alone changes the rights of a pool next."""

    @property
    def tables(self) -> Sequence[Table[Task, RightRow] | Table[str, GiverRow]]:
        """What it remembers."""
        return (self.rights, self.givers)

    def restored(self) -> None:
        """Finds again what is derived."""
        self._of_pool, self._clears = {}, 0
        for task, right in self.rights.items():
            self._of_pool.setdefault(right.pool, {})[task] = None
            self._clears += right.flags & Flag.CLEAR > 0
        self._times.restore(())
        self.look_at_all()

    def look_at_all(self) -> None:
        """Settings or pools have changed: anybody may have other rights."""
        pools = {**dict(self._queues.usage.items()), **self._of_pool, **dict(self.givers.items())}
        self._look_at(pools)

    # What is decided.

    def decide(self, this: Pass) -> list[Event]:
        """What has changed, at most `budget` ranges and pools of it; what is left over follows when that is said."""
        now, budget = this.now, this.budget.left
        due = self.next_ms()
        if due is not None and due <= now:
            self._takers.update(dict.fromkeys(self._times.due(now)))
        change = Change([], [], [])
        for pool in sorted(self._takers):
            if len(change) < budget and not self._compare(pool, now, budget, change):
                del self._takers[pool]
        for pool in sorted(self._givers) if self.rights or change.set else ():
            if len(change) < budget:
                giver = self._claims.giver_row(pool, self._clears > 0)
                if giver == self.givers.get(pool):
                    del self._givers[pool]
                else:
                    change.givers.append((pool, giver))
        return [self._record(change)] if len(change) else []

    def next_ms(self) -> int | None:
        """When time alone changes rights next; None: it doesn't."""
        after = self._state.cell.timer_ms
        for pool in self._untimed:
            self._times.set(pool, self._claims.next_ms(pool, self._said(pool), after))
        self._untimed.clear()
        return self._times.first()

    # What is folded.

    def set(self, event: RightsSet, now: int) -> None:
        """It was said."""
        kinds, cleared = self._queues.kinds, self._clears > 0
        at = [event.resources.index(name) if name in event.resources else -1 for name in kinds.names]
        others, entitlement = _vectors(event.others_array, at), _vectors(event.entitlement_array, at)
        for job, first in zip(event.removed_job_array.tolist(), event.removed_first_array.tolist(), strict=True):
            self._drop((event.job_ids[job], first))
        ranges = (event.job_array, event.first_array, event.count_array, event.run_array, event.gang_array)
        rows = zip(*(column.tolist() for column in (*ranges, event.pool_array, event.flags_array)), strict=True)
        for index, (job, first, count, run, gang, pool, flags) in enumerate(rows):
            task, path = (event.job_ids[job], first), event.pools[pool]
            self._drop(task)
            due_s = self._claims.due_s(task, count)
            self.rights.put(
                task, RightRow(count, run, gang == 1, path, others[index], entitlement[index], flags, due_s)
            )
            self._of_pool.setdefault(path, {})[task] = None
            self._untimed[path] = None
            self._clears += flags & Flag.CLEAR > 0
        vectors = (event.excess_array, event.giver_entitlement_array, event.reserved_array, event.spare_array)
        for path, *giver in zip(event.givers, *(_vectors(column, at) for column in vectors), strict=True):
            row = GiverRow(*giver)
            if any(row.excess) or any(row.spare):
                self.givers.put(path, row)
            elif path in self.givers:
                self.givers.remove(path)
        if cleared != (self._clears > 0):  # from now on all pools say what they have to spare, or no more
            self.look_at_all()

    def reported(self, event: EntitlementsSet) -> None:
        """Entitlements were reported."""
        self._look_at(event.pools)

    def _look_at(self, pools: Iterable[str]) -> None:
        for marks in (self._takers, self._givers, self._untimed):
            marks.update(dict.fromkeys(pools))

    def passed(self, now: int) -> None:
        """Times up to now have passed, and all that they change was said."""
        self._untimed.update(dict.fromkeys(self._times.due(now)))

    def _said(self, pool: str) -> dict[Task, RightRow]:
        return {task: self.rights[task] for task in sorted(self._of_pool.get(pool, ()))}

    def _compare(self, pool: str, now: int, budget: int, change: Change) -> bool:
        """Adds what is new of the claims of a pool to a change, as far as the budget goes; whether that is anything."""
        before = len(change)
        said, found = self._said(pool), self._claims.takers(pool, now)
        for task, right in said.items():
            new = found.get(task)
            if (new is None or (new.count, new.run) != (right.count, right.run)) and len(change) < budget:
                change.removed.append((task, right))
        for task, right in found.items():
            if right != said.get(task) and len(change) < budget:
                change.set.append((task, right))
        return len(change) > before

    def _drop(self, task: Task) -> None:
        right = self.rights.get(task)
        if right is not None:
            self.rights.remove(task)
            del self._of_pool[right.pool][task]
            if not self._of_pool[right.pool]:
                del self._of_pool[right.pool]
            self._clears -= right.flags & Flag.CLEAR > 0
            self._untimed[right.pool] = None

    def _record(self, change: Change) -> RightsSet:
        jobs, pools = Names(), Names()
        nothing = self._queues.nothing
        none = GiverRow(nothing, nothing, nothing, nothing)
        givers = [giver or none for _, giver in change.givers]
        rights = [right for _, right in change.set]
        return RightsSet.pack(
            resources=self._queues.kinds.names,
            job=[jobs[job_id] for (job_id, _), _ in change.set],
            first=[first for (_, first), _ in change.set],
            count=[right.count for right in rights],
            run=[right.run for right in rights],
            gang=[right.gang for right in rights],
            pool=[pools[right.pool] for right in rights],
            others=_amounts([right.others for right in rights]),
            entitlement=_amounts([right.entitlement for right in rights]),
            flags=[right.flags for right in rights],
            removed_job=[jobs[job_id] for (job_id, _), _ in change.removed],
            removed_first=[first for (_, first), _ in change.removed],
            removed_count=[right.count for _, right in change.removed],
            job_ids=jobs.all(),
            pools=pools.all(),
            givers=tuple(map(itemgetter(0), change.givers)),
            excess=_amounts([giver.excess for giver in givers]),
            giver_entitlement=_amounts([giver.entitlement for giver in givers]),
            reserved=_amounts([giver.reserved for giver in givers]),
            spare=_amounts([giver.spare for giver in givers]),
            cause=recorded(self._state.cell.last_by),
        )


def _amounts(vectors: Sequence[Vector]) -> list[int]:
    return [amount for vector in vectors for amount in vector]


def _vectors(column: I64, at: Sequence[int]) -> list[Vector]:
    """The vectors of a column, over the kinds that the cell knows now: `at` is where the record has each."""
    return [tuple([row[index] if index >= 0 else 0 for index in at]) for row in column.tolist()]
