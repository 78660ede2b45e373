"""Claims of pools, units that are entitled and have no place: from when on others may leave for each, and how much.

Exact numbers, computed from what pools hold now.

Claims of a pool share what it lacks in the order of its queue: what may be taken for one is what those before it leave.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from events.bounds import PREEMPTION_DELAY_LEAST_MS
from events.columns import I32, I64, distinct
from events.ranks import Rank, are_entitled
from events.resources import Kinds, Vector, add, scale, subtract
from processors.entitlement.queues.parts import GANG, ROLES, Form, PartKey, Unit
from processors.entitlement.rows import JobRow
from processors.entitlement.state import State
from processors.state.displacements import Task
from processors.state.preemption_rules import Flag, Giver, Right
from processors.state.seconds import EPOCH_S, milliseconds

Bools = NDArray[np.bool_]
DAEMON_FLAGS = int(Flag.BELOW_RESERVATION | Flag.MOVE | Flag.DAEMON)
"""What daemons may from the beginning: no cap spares anybody, who has a place elsewhere is moved, and if that isn't
enough whoever is preemptible leaves.
"""
RANGES_PER_FORM = 64
"""So many ranges of a pool that are alike for hosts have a right at once: where the first can't be helped, those behind
them can't either.
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


class GiverRow(msgspec.Struct, frozen=True, array_like=True):
    """What a pool may be asked to give (the columns of RightsSet)."""

    excess: Vector
    entitlement: Vector
    reserved: Vector
    spare: Vector

    def widened(self, kinds: Kinds) -> "GiverRow":
        """The row as it is when the cell knows more kinds."""
        return GiverRow(*map(kinds.widened, (self.excess, self.entitlement, self.reserved, self.spare)))


class Claims:
    """Looks at the claims of pools."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._queues = state.queues
        self._pools = state.pools
        self._reported = state.reported
        self._displacements = state.displacements
        self._before: dict[str, tuple[int, dict[PartKey, Vector]]] = {}

    # Pools.

    def delay_ms(self, pool: str) -> int:
        """How long claims of a pool wait until others leave for them; -1: these never do."""
        delay = self._pools[pool].preemption_delay_ms
        delay = self._state.cell.settings.preemption_delay_ms if delay is None else delay
        return delay if delay < 0 else max(PREEMPTION_DELAY_LEAST_MS, delay)

    def stays(self, pool: str) -> Vector:
        """What a pool has placed and isn't leaving; who should have left by now is counted in."""
        holding = self._queues.usage[pool]
        return subtract(holding.placed, holding.leaving)

    def entitlement(self, pool: str) -> Vector:
        """What a pool may use now."""
        return self._state.shares.entitlement(pool)

    def giver(self, pool: str) -> Giver:
        """What a pool may be asked to give."""
        return self._giver(pool, self._state.shares.entitlement(pool))

    def giver_row(self, pool: str, clears: bool) -> GiverRow | None:
        """The same by the entitlement that was reported last; None: it gives nothing. `clears`: hosts may be cleared
        for somebody.
        """
        reported = self._reported.get(pool)
        if reported is None or pool not in self._pools or not self._queues.open_jobs[pool]:  # only leaves have runs
            return None
        giver = self._giver(pool, reported.entitlement)
        excess, spare = _positive(giver.excess), _positive(giver.spare)
        if not (any(excess) or (clears and any(spare))):
            return None
        return GiverRow(excess, giver.entitlement, self._reserved(pool, giver.entitlement), spare)

    # Claims.

    def takers(self, pool: str, now: int) -> dict[Task, RightRow]:
        """The claims of a pool that have a right, by job and first instance, by the entitlement that was reported last;
        so they change as seldom as that is reported.
        """
        reported = self._reported.get(pool)
        if pool not in self._pools:
            return {}
        found = self._of_daemons(pool, now)
        if reported is None or not self._due(pool, now):
            return found
        alike: Counter[Form] = Counter()
        for part, before in self._befores(pool).items():
            row = self._queues.jobs[part.job_id]
            form = self._queues.form(row, part.key)
            if alike[form] < RANGES_PER_FORM:
                ranges = self._ranges(part, row, before, reported.entitlement, now)
                found |= ranges
                alike[form] += len(ranges)
        return found

    def right(self, unit: Unit, now: int) -> Right | None:
        """The right of a unit; None: it has none."""
        job_id, first, count, run = unit
        row = self._queues.jobs[job_id]
        if row.pool not in self._pools or self.delay_ms(row.pool) < 0:
            return None
        if row.daemon:
            return self._right_of_daemon(row, first, now)
        if not self._due(row.pool, now):
            return None
        key = self._queues.part_of(row, first)
        before = self._befores(row.pool).get(PartKey(job_id, key))
        if before is None:
            return None
        entitlement = self._state.shares.entitlement(row.pool)
        for (_, start), right in self._ranges(PartKey(job_id, key), row, before, entitlement, now).items():
            ahead = first - start
            if 0 <= ahead < right.count and right.run == run and (count == right.count if right.gang else count == 1):
                need = self._queues.unit_need(row, key)
                return Right(add(right.others, need, -ahead), right.entitlement, right.flags)
        return None

    def own_right(self, pool: str, need: Vector, ahead: Vector | None = None) -> Right:
        """The right of a unit however long it waits. `ahead`: what claims before it need; by default, all others."""
        entitlement = self._state.shares.entitlement(pool)
        held = add(self.stays(pool), self._queues.usage[pool].claims if ahead is None else ahead)
        promised = subtract(self._reserved(pool, entitlement), held)
        below = any(want > 0 and more > 0 for want, more in zip(need, promised, strict=True))
        return Right(subtract(entitlement, held), entitlement, Flag.BELOW_RESERVATION if below else 0)

    def ahead(self, unit: Unit) -> Vector:
        """What the claims before a claim need."""
        job_id, first, *_ = unit
        row = self._queues.jobs[job_id]
        key = self._queues.part_of(row, first)
        before = self._befores(row.pool)[PartKey(job_id, key)]
        if key % ROLES == GANG:
            return before
        units = int(np.searchsorted(self._queues.claim_slots(row, key), row.base + first))
        return add(before, self._queues.need(key), units)

    def behind(self, unit: Unit) -> Vector:
        """What the claims behind a claim need that are entitled with it and would be borrowed before it."""
        job_id, first, *_ = unit
        queues, row = self._queues, self._queues.jobs[job_id]
        mine, behind = (job_id, queues.part_of(row, first)), queues.nothing
        for *_, (name, key) in reversed(queues.order[row.pool].claims):
            other = queues.jobs[name]
            if other.priority < row.priority or not other.preemptible:
                continue
            slots = queues.claim_slots(other, key)
            if (name, key) == mine:
                return (
                    behind if key % ROLES == GANG else add(behind, queues.asked(row, slots[slots > row.base + first]))
                )
            behind = add(behind, queues.asked(other, slots))
        return behind

    def is_claim(self, unit: Unit) -> bool:
        """Whether a unit is there, entitled, and has no place."""
        job_id, first, count, run = unit
        row = self._queues.jobs.get(job_id)
        if row is None or first < 0 or count < 1 or first + count > row.instances:
            return False
        if count != (row.gang_min if first < row.gang_min else 1) or (first and first < row.gang_min):
            return False
        arena, stretch = self._queues.arena, slice(row.base + first, row.base + first + count)
        entitled, placed = are_entitled(arena["rank"][stretch]), arena["placed"][stretch]
        return bool((arena["held"][stretch] == run).all() and entitled.all() and not placed.any())

    def is_parked(self, unit: Unit) -> bool:
        """Whether a claim holds nothing under limits."""
        start = self._queues.jobs[unit.job_id].base + unit.first
        return bool((self._queues.arena["rank"][start : start + unit.size] == Rank.PARKED).all())

    def due_s(self, task: Task, count: int) -> int:
        """The earliest second since when one of these has no place."""
        base = self._queues.jobs[task[0]].base + task[1]
        return int(self._queues.arena["due_s"][base : base + count].min())

    def next_ms(self, pool: str, said: dict[Task, RightRow], after: int) -> int | None:
        """When time alone changes the rights of a pool next, after a time; None: it doesn't. `said`: those it has."""
        since, delay = self._queues.usage[pool].claims_since, self.delay_ms(pool) if pool in self._pools else -1
        if delay < 0 or not (since or self._queues.order[pool].daemons):
            return None
        settings = self._state.cell.settings
        times = [milliseconds(at) + delay for at in since.irange(latest(after - delay) + 1)][:1]
        for *_, (job_id, key) in self._queues.order[pool].daemons:
            slots = self._queues.claim_slots(self._queues.jobs[job_id], key)
            times += [milliseconds(at) + delay for at in distinct(self._queues.arena["due_s"][slots]).tolist()]
        for right in said.values():  # whose turn it is may have hosts cleared when others may have runs moved
            due = milliseconds(right.due_s)
            times += [due + settings.move_after_ms, due + settings.clear_after_ms]
        for job_id, _ in self._befores(pool):
            times += [at + settings.settle_ms for at in self._displacements.last(job_id).values()]
        return min((at for at in times if at > after), default=None)

    def _giver(self, pool: str, entitlement: Vector) -> Giver:
        stays = self.stays(pool)
        return Giver(subtract(stays, entitlement), entitlement, subtract(stays, self._reserved(pool, entitlement)))

    def _reserved(self, pool: str, entitlement: Vector) -> Vector:
        """The part of its entitlement that is within its reservation."""
        return tuple(map(min, self._pools[pool].reservation, entitlement))

    def _of_daemons(self, pool: str, now: int) -> dict[Task, RightRow]:
        """The rights of daemons of a pool, whatever that is entitled to: whoever is preemptible leaves for them, of
        their own pool too.
        """
        queues, found = self._queues, dict[Task, RightRow]()
        if self.delay_ms(pool) < 0:
            return found
        for *_, (job_id, key) in queues.order[pool].daemons:
            row = queues.jobs[job_id]
            slots = queues.claim_slots(row, key)
            run, ready, flags = queues.arena["held"][slots], *self._by_time(job_id, row, slots, now)
            flags |= DAEMON_FLAGS
            need = queues.need(key)
            for at, count in _alike(slots, run, flags, ready):
                task = job_id, int(slots[at]) - row.base
                due_s = self.due_s(task, count)
                found[task] = RightRow(
                    count, int(run[at]), False, pool, scale(need, count), need, int(flags[at]), due_s
                )
        return found

    def _right_of_daemon(self, row: JobRow, first: int, now: int) -> Right | None:
        """The right of one task of a daemon."""
        slots = np.array([row.base + first])
        job_id = self._queues.at[row.base]
        ready, flags = self._by_time(job_id, row, slots, now)
        if not ready[0]:
            return None
        need = self._queues.need(self._queues.part_of(row, first))
        return Right(need, need, int(flags[0]) | DAEMON_FLAGS)

    def _due(self, pool: str, now: int) -> bool:
        """Whether any claim of a pool has waited long enough."""
        since, delay = self._queues.usage[pool].claims_since, self.delay_ms(pool)
        return delay >= 0 and bool(since) and since.peekitem(0)[0] <= latest(now - delay)

    def _befores(self, pool: str) -> dict[PartKey, Vector]:
        """The parts of a pool with claims, in the order of its queue, and what claims before each need."""
        queues = self._queues
        version, found = self._before.get(pool, (-1, {}))
        if version == queues.changes:
            return found
        before, found = queues.nothing, {}
        for *_, part in queues.order[pool].claims:
            found[part] = before
            row = queues.jobs[part.job_id]
            claims = row.parts[part.key].claims
            if part.key % ROLES == GANG:
                before = add(before, queues.asked(row, queues.claim_slots(row, part.key)))
            else:
                before = add(before, scale(queues.need(part.key), claims))
        self._before[pool] = queues.changes, found
        return found

    def _ranges(
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
        need, stays = queues.unit_need(row, key), self.stays(pool)
        room, promised = subtract(entitlement, stays), subtract(self._reserved(pool, entitlement), stays)
        found: dict[Task, RightRow] = {}
        for at, count in _alike(slots, run, flags, ready):
            ahead = add(before, need, at)
            below = _times_below(need, subtract(promised, ahead))
            for start, units in ((0, min(below, count)), (min(below, count), count - min(below, count))):
                if units:
                    others = _needed(subtract(room, add(ahead, need, start)), need)
                    flag = int(flags[at])
                    if not start and below:  # what is promised to it is cleared as soon as others are moved
                        flag |= Flag.BELOW_RESERVATION | (Flag.CLEAR if flag & Flag.MOVE else 0)
                    mine = slots[at + start : at + start + units]
                    task, size = (job_id, int(mine[0]) - row.base), row.gang_min if gang else units
                    due_s = self.due_s(task, size)
                    found[task] = RightRow(size, int(run[at]), gang, pool, others, entitlement, flag, due_s)
        return found

    def _by_time(self, job_id: str, row: JobRow, slots: I64, now: int) -> tuple[Bools, I64]:
        """Which units have waited long enough for a right, by their first tasks, and what else they may for that."""
        settings, turn = self._state.cell.settings, self._pools[row.pool].turn
        since = self._queues.arena["due_s"][slots]
        move = since <= latest(now - settings.move_after_ms)
        clear = since <= latest(now - settings.clear_after_ms)
        if turn is not None and turn.job_id == job_id:
            clear |= move & (slots == row.base + turn.first)
        ready = since <= latest(now - self.delay_ms(row.pool))
        for instance, at in self._displacements.last(job_id).items():
            if at + settings.settle_ms > now:
                ready &= slots != row.base + (0 if instance < row.gang_min else instance)
        return ready, move * np.int64(Flag.MOVE) + clear * np.int64(Flag.CLEAR)


def _alike(slots: I64, run: I32, flags: I64, ready: Bools) -> Iterator[tuple[int, int]]:
    """Neighbours that are ready and alike: index of the first, and how many."""
    breaks = np.ones(len(slots), dtype=np.bool_)
    breaks[1:] = (np.diff(slots) != 1) | (np.diff(run) != 0) | (np.diff(flags) != 0) | (ready[1:] != ready[:-1])
    starts = np.flatnonzero(breaks)
    for at, count in zip(starts.tolist(), np.diff(np.append(starts, len(slots))).tolist(), strict=True):
        if ready[at]:
            yield at, count


def _times_below(need: Vector, promised: Vector) -> int:
    """How many units in a row begin while their pool is below its reservation in a kind that they need."""
    pairs = zip(need, promised, strict=True)
    return max((-(-more // want) for want, more in pairs if want > 0 and more > 0), default=0)


def _needed(amount: Vector, need: Vector) -> Vector:
    """Of kinds that are needed what there is, of others nothing."""
    return tuple([max(0, have) if want else 0 for have, want in zip(amount, need, strict=True)])


def _positive(amount: Vector) -> Vector:
    return tuple([max(0, each) for each in amount])


def latest(at_ms: int) -> int:
    """The last second that isn't after a time."""
    return at_ms // 1000 - EPOCH_S
