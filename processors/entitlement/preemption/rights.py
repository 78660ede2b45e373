"""The rights of claims, units that are entitled and have no place: since when others may leave for them, and how much.

`Claims` computes them from what pools hold now. Claims of a pool share what it lacks in the order of its queue: what
one may take is what the claims before it leave over.

`Rights` tells placement (RightsSet) which claims have a right and what pools may be asked to give, as changes, of pools
of which something has changed or a time has come. Those follow the entitlements that were reported last, for these may
change for all pools at once. While no claim has a right, nothing is told of what pools may give.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from events.cell_settings import preemption_delay_ms
from events.columns import I32, I64, Names, distinct
from events.ranks import Rank, are_entitled
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, RightsSet
from events.resources import Kinds, Vector, add, positive, scale, subtract
from processors.entitlement.queues.parts import GANG, ROLES, Consumer, Form, PartKey, Unit
from processors.entitlement.rows import JobRow
from processors.entitlement.state import State
from processors.state.causes import recorded
from processors.state.deadlines import Deadlines
from processors.state.displacements import Task
from processors.state.preemption_rules import Flag, Giver, Right
from processors.state.seconds import Wait
from processors.state.steps import Pass
from processors.state.table import Table, struct_table

Bools = NDArray[np.bool_]
DAEMON_FLAGS = int(Flag.BELOW_RESERVATION | Flag.MOVE | Flag.DAEMON)
"""The rights of daemons from the beginning: no cap spares anybody, runs that have a place elsewhere are moved, and if
that isn't enough whatever is preemptible leaves.
"""
RANGES_PER_FORM = 64
"""The number of ranges of a pool, alike for hosts, that have a right at once. Where the first can't be helped, those
behind them can't either; so a record of rights stays small however long the queue is.
"""


class RightRow(msgspec.Struct, frozen=True, array_like=True):
    """The right of a range of units: a gang, or neighbouring tasks that are alike. `others`: what the first may take
    from other pools, each further one less by what those before it need. `flags`: `Flag`.
    """

    count: int
    run: int
    gang: bool
    pool: str
    others: Vector
    entitlement: Vector
    flags: int
    due_s: int
    """The second since when one of them has no place, the earliest."""

    def widened(self, kinds: Kinds) -> "RightRow":
        """The row as it is when the cell knows more kinds."""
        return replace(self, others=kinds.widened(self.others), entitlement=kinds.widened(self.entitlement))


RangesOfParts = dict[PartKey, tuple[list[int], list[RightRow]]]
"""The ranges of parts that have rights: their first instances, ascending, and their rights."""


class GiverRow(msgspec.Struct, frozen=True, array_like=True):
    """The amounts that a pool may be asked to give (the columns of RightsSet)."""

    excess: Vector
    entitlement: Vector
    reserved: Vector
    spare: Vector

    def widened(self, kinds: Kinds) -> "GiverRow":
        """The row as it is when the cell knows more kinds."""
        return GiverRow(*map(kinds.widened, (self.excess, self.entitlement, self.reserved, self.spare)))


class Claims:
    """Computes the rights of claims, and what pools may be asked to give."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._queues = state.queues
        self._order = state.order
        self._usage = state.usage
        self._pools = state.pools
        self._reported = state.reported
        self._displacements = state.displacements
        self._needs_before: dict[str, tuple[int, dict[PartKey, Vector]]] = {}
        """By pool the last answer of `_claims_before`, and the count of changes at which it was computed."""

    # Pools.

    def delay_ms(self, pool: str) -> int:
        """Return how long claims of a pool wait until others leave for them; -1: these never do."""
        return preemption_delay_ms(self._state.cell.settings, self._pools[pool].preemption_delay_ms)

    def giver(self, pool: str) -> Giver:
        """Return what a pool may be asked to give."""
        return self._giver(pool, self._state.shares.entitlement(pool))

    def giver_row(self, pool: str, clears: bool) -> GiverRow | None:
        """Return the same by the entitlement that was reported last; None: it gives nothing. `clears`: hosts may be
        cleared for some claim.
        """
        reported = self._reported.get(pool)
        if reported is None or pool not in self._pools or not self._queues.open_jobs[pool]:  # only leaves have runs
            return None
        giver = self._giver(pool, reported.entitlement)
        excess, spare = positive(giver.excess), positive(giver.spare)
        if not (any(excess) or (clears and any(spare))):
            return None
        return GiverRow(excess, giver.entitlement, self._reserved(pool, giver.entitlement), spare)

    # Claims.

    def rights_of_pool(self, pool: str, now: int) -> dict[Task, RightRow]:
        """Return the rights of a pool's claims, by job and first instance, by the entitlement that was reported last;
        so they change as seldom as that is reported.
        """
        reported = self._reported.get(pool)
        if pool not in self._pools:
            return {}
        rights = self._rights_of_daemons(pool, now)
        if reported is None or not self._has_due(pool, now):
            return rights
        alike: Counter[Form] = Counter()
        for part, before in self._claims_before(pool).items():
            row = self._queues.jobs[part.job_id]
            form = self._queues.form(row, part.key)
            if alike[form] < RANGES_PER_FORM:
                ranges = self._rights_of_part(part, row, before, reported.entitlement, now)
                rights |= ranges
                alike[form] += len(ranges)
        return rights

    def right(self, unit: Unit, now: int, rights_of: RangesOfParts) -> Right | None:
        """Return the right of a unit; None: it has none. `rights_of`: those of parts that were found at this moment."""
        job_id, first, count, run = unit
        row = self._queues.jobs[job_id]
        if row.pool not in self._pools or self.delay_ms(row.pool) < 0:
            return None
        if row.daemon:
            return self._right_of_daemon(row, first, now)
        if not self._has_due(row.pool, now):
            return None
        key = self._queues.part_of(row, first)
        part = PartKey(job_id, key)
        before = self._claims_before(row.pool).get(part)
        if before is None:
            return None
        if part not in rights_of:
            entitlement = self._state.shares.entitlement(row.pool)
            ranges = self._rights_of_part(part, row, before, entitlement, now)
            rights_of[part] = [start for _, start in ranges], [*ranges.values()]
        starts, rights = rights_of[part]
        at = bisect_right(starts, first) - 1
        if at < 0:
            return None
        right, ahead = rights[at], first - starts[at]
        if ahead >= right.count or right.run != run or count != (right.count if right.gang else 1):
            return None
        return Right(add(right.others, self._queues.unit_need(row, key), -ahead), right.entitlement, right.flags)

    def own_right(self, pool: str, need: Vector, ahead: Vector | None = None) -> Right:
        """Return the right of a unit however long it waits. `ahead`: the need of claims before it; by default, of all
        others.
        """
        entitlement = self._state.shares.entitlement(pool)
        used = add(self._stays(pool), self._usage[pool].claims if ahead is None else ahead)
        if self._queues.kinds.is_revocable(need):
            return Right(self._of_slack(subtract(entitlement, used)), entitlement)
        promised = subtract(self._reserved(pool, entitlement), used)
        flag = Flag.BELOW_RESERVATION if _units_below(need, promised) else 0
        return Right(subtract(entitlement, used), entitlement, flag)

    def ahead(self, unit: Unit) -> Vector:
        """Return what the claims before a claim need."""
        job_id, first, *_ = unit
        row = self._queues.jobs[job_id]
        key = self._queues.part_of(row, first)
        before = self._claims_before(row.pool)[PartKey(job_id, key)]
        if key % ROLES == GANG:
            return before
        units = int(np.searchsorted(self._queues.claim_slots(row, key), row.base + first))
        return add(before, self._queues.need(key), units)

    def behind(self, unit: Unit) -> Vector:
        """Return what the claims behind a claim need that are entitled with it and would be borrowed before it."""
        job_id, first, *_ = unit
        queues, row = self._queues, self._queues.jobs[job_id]
        mine, behind = (job_id, queues.part_of(row, first)), queues.nothing
        for *_, (name, key) in reversed(self._order[row.pool].claims):
            other = queues.jobs[name]
            if other.priority < row.priority or not other.preemptible:
                continue
            slots = queues.claim_slots(other, key)
            if (name, key) == mine:
                if key % ROLES == GANG:
                    return behind
                return add(behind, queues.total_need(row, slots[slots > row.base + first]))
            behind = add(behind, queues.total_need(other, slots))
        return behind

    def is_claim(self, unit: Unit) -> bool:
        """Return whether a unit is there, entitled, and has no place."""
        job_id, first, count, run = unit
        row = self._queues.jobs.get(job_id)
        if row is None or first < 0 or count < 1 or first + count > row.instances:
            return False
        if count != (row.gang_min if first < row.gang_min else 1) or (first and first < row.gang_min):
            return False
        arena = self._queues.arena
        if count == 1:
            slot = row.base + first
            has_it = int(arena["held"][slot]) == run and not arena["placed"][slot]
            return has_it and bool(are_entitled(arena["rank"][slot : slot + 1])[0])
        stretch = slice(row.base + first, row.base + first + count)
        entitled, placed = are_entitled(arena["rank"][stretch]), arena["placed"][stretch]
        return bool((arena["held"][stretch] == run).all() and entitled.all() and not placed.any())

    def is_parked(self, unit: Unit) -> bool:
        """Return whether a claim holds nothing under limits."""
        start = self._queues.jobs[unit.job_id].base + unit.first
        return bool((self._queues.arena["rank"][start : start + unit.size] == Rank.PARKED).all())

    def due_s(self, task: Task, count: int) -> int:
        """Return the earliest second since when one of these has no place."""
        base = self._queues.jobs[task[0]].base + task[1]
        return int(self._queues.arena["due_s"][base : base + count].min())

    def next_ms(self, pool: str, rights: Iterable[RightRow], after: int) -> int | None:
        """Return when time alone changes the rights of a pool next, after a time; None: it doesn't. `rights`: those
        that were told.
        """
        since, delay = self._usage[pool].claims_since, Wait(self.delay_ms(pool) if pool in self._pools else -1)
        if delay.ms < 0 or not (since or self._order[pool].daemons):
            return None
        times = [delay.over_ms(at) for at in since.irange(delay.since_s(after) + 1)][:1]
        for *_, (job_id, key) in self._order[pool].daemons:
            slots = self._queues.claim_slots(self._queues.jobs[job_id], key)
            times += [delay.over_ms(at) for at in distinct(self._queues.arena["due_s"][slots]).tolist()]
        move, clear = self._move_and_clear()
        for right in rights:  # of a gang whose turn it is hosts are cleared as early as runs are moved for others
            times += [move.over_ms(right.due_s), clear.over_ms(right.due_s)]
        times += self._state.rebalances.ends(pool)
        for job_id, _ in self._claims_before(pool):
            times += map(self._settled_ms, self._displacements.last(job_id).values())
        return min((at for at in times if at > after), default=None)

    def _move_and_clear(self) -> tuple[Wait, Wait]:
        """The times that claims wait until runs are moved for them, and until hosts are cleared."""
        settings = self._state.cell.settings
        return Wait(settings.move_after_ms), Wait(settings.clear_after_ms)

    def _settled_ms(self, preempted_ms: int) -> int:
        """When others may leave again for a unit that was preempted itself."""
        return preempted_ms + self._state.cell.settings.settle_ms

    def _stays(self, pool: str) -> Vector:
        """The amount that a pool has placed and isn't leaving; runs that are late to leave count as staying."""
        usage = self._usage[pool]
        return subtract(usage.placed, usage.leaving)

    def _of_slack(self, amount: Vector) -> Vector:
        """An amount, of what hosts lend alone."""
        at = self._queues.kinds.revocable
        return tuple([have if kind == at else 0 for kind, have in enumerate(amount)])

    def _giver(self, pool: str, entitlement: Vector) -> Giver:
        stays = self._stays(pool)
        return Giver(subtract(stays, entitlement), entitlement, subtract(stays, self._reserved(pool, entitlement)))

    def _reserved(self, pool: str, entitlement: Vector) -> Vector:
        """The part of its entitlement that is within its reservation."""
        return tuple(map(min, self._pools[pool].reservation, entitlement))

    def _rights_of_daemons(self, pool: str, now: int) -> dict[Task, RightRow]:
        """The rights of daemons of a pool, whatever that is entitled to: all preemptible work leaves for them, that of
        their own pool too.
        """
        queues, rights = self._queues, dict[Task, RightRow]()
        if self.delay_ms(pool) < 0:
            return rights
        for *_, (job_id, key) in self._order[pool].daemons:
            row = queues.jobs[job_id]
            slots = queues.claim_slots(row, key)
            run, ready, flags = queues.arena["held"][slots], *self._by_time(job_id, row, slots, now)
            flags |= DAEMON_FLAGS
            need = queues.need(key)
            for at, count in _alike(slots, run, flags, ready):
                task = job_id, int(slots[at]) - row.base
                others, due_s = scale(need, count), self.due_s(task, count)
                rights[task] = RightRow(count, int(run[at]), False, pool, others, need, int(flags[at]), due_s)
        return rights

    def _right_of_daemon(self, row: JobRow, first: int, now: int) -> Right | None:
        """The right of one task of a daemon."""
        slots = np.array([row.base + first])
        job_id = self._queues.at[row.base]
        ready, flags = self._by_time(job_id, row, slots, now)
        if not ready[0]:
            return None
        need = self._queues.need(self._queues.part_of(row, first))
        return Right(need, need, int(flags[0]) | DAEMON_FLAGS)

    def _has_due(self, pool: str, now: int) -> bool:
        """Whether any claim of a pool has waited long enough."""
        since, delay = self._usage[pool].claims_since, Wait(self.delay_ms(pool))
        if delay.ms < 0 or not since:
            return False
        return since.peekitem(0)[0] <= delay.since_s(now) or max(self._state.rebalances.ends(pool), default=0) > now

    def _claims_before(self, pool: str) -> dict[PartKey, Vector]:
        """The parts of a pool with claims, in the order of its queue, and what claims before each need."""
        queues = self._queues
        version, needs = self._needs_before.get(pool, (-1, {}))
        if version == queues.changes:
            return needs
        before, needs = queues.nothing, {}
        for *_, part in self._order[pool].claims:
            needs[part] = before
            row = queues.jobs[part.job_id]
            claims = row.parts[part.key].claims
            if part.key % ROLES == GANG:
                before = add(before, queues.total_need(row, queues.claim_slots(row, part.key)))
            else:
                before = add(before, scale(queues.need(part.key), claims))
        self._needs_before[pool] = queues.changes, needs
        return needs

    def _rights_of_part(
        self, part: PartKey, row: JobRow, before: Vector, entitlement: Vector, now: int
    ) -> dict[Task, RightRow]:
        """The rights of a part; `before`: what claims before it need."""
        queues, (job_id, key), pool = self._queues, part, row.pool
        slots = queues.claim_slots(row, key)
        gang = key % ROLES == GANG
        if gang and (len(slots) != row.gang_min or len(set(queues.arena["held"][slots].tolist())) > 1):
            return {}
        slots = slots[:1] if gang else slots
        run, ready, flags = queues.arena["held"][slots], *self._by_time(job_id, row, slots, now)
        need, stays = queues.unit_need(row, key), self._stays(pool)
        room, promised = subtract(entitlement, stays), subtract(self._reserved(pool, entitlement), stays)
        waited = queues.arena["due_s"][slots] <= self._move_and_clear()[0].since_s(now)  # else it was asked for
        if queues.is_revocable(key):  # it takes what hosts lend, from others that have it, and nothing else
            room, promised, flags, waited = self._of_slack(room), queues.nothing, flags * 0, waited & False
        rights: dict[Task, RightRow] = {}
        for at, count in _alike(slots, run, 2 * flags + waited, ready):
            ahead = add(before, need, at)
            below = _units_below(need, subtract(promised, ahead))
            for start, units in ((0, min(below, count)), (min(below, count), count - min(below, count))):
                if units:
                    others = _of_needed_kinds(subtract(room, add(ahead, need, start)), need)
                    flag = int(flags[at])
                    if not start and below:  # its reservation is due to it: hosts are cleared as soon as runs are moved
                        clears = waited[at] and flag & (Flag.MOVE | Flag.MOVES_ALONE) == Flag.MOVE
                        flag |= Flag.BELOW_RESERVATION | (Flag.CLEAR if clears else 0)
                    mine = slots[at + start : at + start + units]
                    task, size = (job_id, int(mine[0]) - row.base), row.gang_min if gang else units
                    due_s = self.due_s(task, size)
                    rights[task] = RightRow(size, int(run[at]), gang, pool, others, entitlement, flag, due_s)
        return rights

    def _by_time(self, job_id: str, row: JobRow, slots: I64, now: int) -> tuple[Bools, I64]:
        """Whether units have waited long enough for a right, by their first tasks, and the flags of that."""
        turn, since = self._pools[row.pool].turn, self._queues.arena["due_s"][slots]
        move, clear = (since <= wait.since_s(now) for wait in self._move_and_clear())
        if turn is not None and turn.job_id == job_id:
            clear |= move & (slots == row.base + turn.first)
        ready = since <= Wait(self.delay_ms(row.pool)).since_s(now)
        at_once = self._state.rebalances.is_on(job_id, now)
        early = ~ready & at_once
        ready, move = ready | at_once, move | at_once
        # A unit that was preempted itself a short while ago waits: else two units could take turns at each other.
        for instance, at in self._displacements.last(job_id).items():
            if self._settled_ms(at) > now:
                ready &= slots != row.base + (0 if instance < row.gang_min else instance)
        flags = (
            move * np.int64(Flag.MOVE) + (clear & ~early) * np.int64(Flag.CLEAR) + early * np.int64(Flag.MOVES_ALONE)
        )
        return ready, flags


class Change(NamedTuple):
    """The rights and givers that differ from what was told."""

    removed: list[tuple[Task, RightRow]]
    set: list[tuple[Task, RightRow]]
    givers: list[tuple[str, GiverRow | None]]

    def __len__(self) -> int:
        return len(self.removed) + len(self.set) + len(self.givers)


class Rights:
    """The tables `rights` and `givers`, as placement was told them last; decides RightsSet."""

    def __init__(self, state: State, claims: Claims) -> None:
        self._state = state
        self._queues = state.queues
        self._usage = state.usage
        self._claims = claims
        self.rights: Table[Task, RightRow] = struct_table("rights", RightRow, tuple[str, int])
        self.givers: Table[str, GiverRow] = struct_table("givers", GiverRow)
        self._of_pool: dict[str, dict[Task, None]] = {}
        self._clears = 0
        """The number of rights by which hosts may be cleared."""
        marks = state.marks
        self._takers, self._givers = marks.of(Consumer.TAKERS), marks.of(Consumer.GIVERS)
        self._untimed = marks.of(Consumer.RIGHT_TIMES)
        self._times: Deadlines[str] = Deadlines()
        """When time alone changes the rights of a pool next."""

    @property
    def tables(self) -> Sequence[Table[Task, RightRow] | Table[str, GiverRow]]:
        """The rows that are kept."""
        return (self.rights, self.givers)

    def restored(self) -> None:
        """Derives the rest; the tables were loaded."""
        self._of_pool, self._clears = {}, 0
        for task, right in self.rights.items():
            self._of_pool.setdefault(right.pool, {})[task] = None
            self._clears += right.flags & Flag.CLEAR > 0
        self._times.restore(())
        self.mark_all()

    def mark_all(self) -> None:
        """Marks all pools: settings or pools have changed, and any claim may have another right."""
        pools = {**dict(self._usage.items()), **self._of_pool, **dict(self.givers.items())}
        self._mark(pools)

    # Decisions.

    def decide(self, this: Pass) -> list[Event]:
        """Return what has changed, at most `budget` ranges and pools of it; the rest follows once that is applied."""
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
        """Return when time alone changes rights next; None: it doesn't."""
        after = self._state.cell.timer_ms
        for pool in self._untimed:
            rights = [self.rights[task] for task in self._of_pool.get(pool, ())]
            self._times.set(pool, self._claims.next_ms(pool, rights, after))
        self._untimed.clear()
        return self._times.first()

    # Records.

    def set(self, event: RightsSet, now: int) -> None:
        """Applies what placement was told."""
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
            right = RightRow(count, run, gang == 1, path, others[index], entitlement[index], flags, due_s)
            self.rights.put(task, right)
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
        if cleared != (self._clears > 0):  # from now on all pools tell what they have to spare, or no more
            self.mark_all()

    def mark_reported(self, event: EntitlementsSet) -> None:
        """Marks the pools of which another entitlement was reported."""
        self._mark(event.pools)

    def expire(self, now: int) -> None:
        """Finds new times for pools whose times are over; all that these change was told."""
        self._untimed.update(dict.fromkeys(self._times.due(now)))

    def _mark(self, pools: Iterable[str]) -> None:
        for marks in (self._takers, self._givers, self._untimed):
            marks.update(dict.fromkeys(pools))

    def _compare(self, pool: str, now: int, budget: int, change: Change) -> bool:
        """Adds what is new of the claims of a pool to a change, as far as the budget goes; returns whether that is
        anything.
        """
        before = len(change)
        old = {task: self.rights[task] for task in sorted(self._of_pool.get(pool, ()))}
        new = self._claims.rights_of_pool(pool, now)
        for task, right in old.items():
            other = new.get(task)
            if (other is None or (other.count, other.run) != (right.count, right.run)) and len(change) < budget:
                change.removed.append((task, right))
        for task, right in new.items():
            if right != old.get(task) and len(change) < budget:
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


def _alike(slots: I64, run: I32, flags: I64, ready: Bools) -> Iterator[tuple[int, int]]:
    """Neighbours that are ready and alike: index of the first, and how many."""
    breaks = np.ones(len(slots), dtype=np.bool_)
    breaks[1:] = (np.diff(slots) != 1) | (np.diff(run) != 0) | (np.diff(flags) != 0) | (ready[1:] != ready[:-1])
    starts = np.flatnonzero(breaks)
    for at, count in zip(starts.tolist(), np.diff(np.append(starts, len(slots))).tolist(), strict=True):
        if ready[at]:
            yield at, count


def _units_below(need: Vector, promised: Vector) -> int:
    """The number of units in a row that begin while their pool is below its reservation in a kind that they need."""
    pairs = zip(need, promised, strict=True)
    return max((-(-more // want) for want, more in pairs if want > 0 and more > 0), default=0)


def _of_needed_kinds(amount: Vector, need: Vector) -> Vector:
    """An amount, of the kinds that are needed; nothing of others, or where it is below 0."""
    return tuple([max(0, have) if want else 0 for have, want in zip(amount, need, strict=True)])


def _amounts(vectors: Sequence[Vector]) -> list[int]:
    return [amount for vector in vectors for amount in vector]


def _vectors(column: I64, at: Sequence[int]) -> list[Vector]:
    """The vectors of a column, over the kinds that the cell knows now: `at` is where the record has each."""
    return [tuple([row[index] if index >= 0 else 0 for index in at]) for row in column.tolist()]
