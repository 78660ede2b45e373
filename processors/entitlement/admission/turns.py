"""Turns: a gang that needs more than the share of its pool gets it for a time, once the pool has saved for it.

Credit grows by what the pool's own work leaves of its share, per resource that the gang is short of, as amount times
time. When it is full in all of them, the pool is entitled to what the gang needs on top of its work, until the gang is
over or has run for its slice. Meanwhile what it uses beyond its share is paid back. What is left lets the next such
gang of the pool go on at once.
"""

from collections.abc import Iterator
from typing import NamedTuple

from events.codes import Code
from events.columns import I64
from events.records.base import Event
from events.records.entitlement import CreditsSet, TurnSet
from events.resources import Vector, add, positive, subtract
from events.turn_credit import is_left, suffices_after
from events.work_classes import FIRM, REVOCABLES
from processors.entitlement.admission.admit import Head
from processors.entitlement.bounds import ENTITLEMENT, LIMITS, closed_at, exceeds, lacks_behind_all
from processors.entitlement.queues.parts import GANG, ROLES, PartKey
from processors.entitlement.rows import CellRow, CreditRow, JobRow, PoolRow, TurnRow
from processors.entitlement.state import State
from processors.state.causes import recorded
from processors.state.deadlines import Deadlines
from processors.state.preemption_rules import slice_ms
from processors.state.seconds import milliseconds

Heads = dict[str, list[Head]]
MOST = 1 << 62
"""The most that is saved, of amount times milliseconds: far beyond any turn, and within 64 bits."""
WAITS_FOR_CREDIT = (*ENTITLEMENT.codes, LIMITS.code)
"""Codes of heads that a turn would help; one that a limit holds up has its turn once that has room."""


class Saver(NamedTuple):
    """The gang that a pool saves for, with what its pool has entitled at its priority and above."""

    job_id: str
    key: int
    row: JobRow
    need: Vector
    level: Vector


class Turns:
    """Decides credits and turns; the rows are those of the pools. `heads`: the first parts in the queues of pools."""

    def __init__(self, state: State, heads: Heads) -> None:
        self._state = state
        self._queues = state.queues
        self._order = state.order
        self._usage = state.usage
        self._marks = state.marks
        self._pools = state.pools
        self._shares = state.shares
        self._displacements = state.displacements
        self._heads = heads
        self._turns: dict[str, None] = {}
        """Pools that have a turn."""
        self._fills: Deadlines[str] = Deadlines()
        """When the credit of pools that save is full."""
        self._credits_of: dict[str, None] = {}
        """Pools that have saved something, or owe it."""

    def restored(self) -> None:
        """Derives the rest; the tables were loaded."""
        self._turns = {path: None for path, row in self._pools.items() if row.turn is not None}
        self._fills.restore(())
        self._credits_of = {path: None for path, row in self._pools.items() if row.credit is not None}
        for path in self._pools:
            self._time(path)

    # Decisions.

    def decide(self, now: int) -> list[Event]:
        """Return the turns that are over; else one that begins."""
        return [event for pool in sorted(self._turns) for event in self._over(pool, now)] or self._begin(now)

    def credits(self, now: int, budget: int) -> list[Event]:
        """Return the changes of what pools save, of so many pools at most."""
        changed: list[tuple[str, CreditRow]] = []
        for pool in sorted({**self._credits_of, **self._turns, **dict.fromkeys(self._beyond())}):
            row = self._pools.get(pool)
            new = None if row is None else self._credit(pool, row, now)
            if new is not None:
                changed.append((pool, new))
                if len(changed) >= budget:
                    break
        if not changed:
            return []
        columns = {
            name: [each for _, credit in changed for each in getattr(credit, name)]
            for name in ("credit", "rate", "full")
        }
        pools = tuple(pool for pool, _ in changed)
        return [CreditsSet.pack(pools=pools, resources=self._queues.kinds.names, **columns)]

    def next_ms(self) -> int | None:
        """The next time at which time alone ends a turn, or fills a credit."""
        after = self._state.cell.timer_ms
        times = [at for pool in self._turns for at in self._ends(pool) if at > after]
        if (filled := self._fills.first(after)) is not None:
            times.append(filled)
        return min(times, default=None)

    def _over(self, pool: str, now: int) -> list[Event]:
        turn = self._pools[pool].turn
        assert turn is not None
        code, _ = self._gang_state(turn)
        if not code and now >= self._ends(pool)[0]:
            code = Code.SLICE_USED if self._placed_ms(turn) else Code.GIVEN_UP
        return [self._turn_set(pool, turn, code)] if code else []

    def _gang_state(self, turn: TurnRow) -> tuple[Code | None, JobRow | None]:
        """ENDED: the gang of a turn is over or waits for good; None: it isn't; and the row of its job."""
        row = self._queues.jobs.get(turn.job_id)
        if row is None or turn.first >= row.instances:
            return Code.ENDED, None
        arena, slot = self._queues.arena, row.base + turn.first
        if arena["held"][slot] >= turn.run:
            return None, row
        waits = arena["queued"][slot] == turn.run
        part = PartKey(turn.job_id, self._queues.part_of(row, turn.first))
        return (None, row) if waits and self._order.waits(part) else (Code.ENDED, None)

    def _placed_ms(self, turn: TurnRow) -> int:
        """Since when the gang of a turn has a place; 0: it has none."""
        row = self._queues.jobs[turn.job_id]
        arena, slot = self._queues.arena, row.base + turn.first
        return milliseconds(int(arena["placed_s"][slot])) if arena["placed"][slot] else 0

    def _ends(self, pool: str) -> list[int]:
        """When a turn is over by time; nothing where it is already."""
        turn, settings = self._pools[pool].turn, self._state.cell.settings
        if turn is None or self._gang_state(turn)[0]:
            return []
        placed = self._placed_ms(turn)
        if not placed:
            return [turn.since_ms + settings.turn_wait_ms]
        used = self._displacements.slices(turn.job_id, range(turn.first, turn.first + turn.count))
        return [placed + slice_ms(settings.turn_for_ms, used, settings.turn_doublings)]

    def _beyond(self) -> Iterator[str]:
        """Pools with a head that needs more than they are entitled to, whatever they hold."""
        entitlements = self._shares.all() if self._heads else {}
        for pool, heads in self._heads.items():
            for head in heads:
                job_id, key = head.part
                if exceeds(self._queues.unit_need(self._queues.jobs[job_id], key), entitlements[pool]):
                    yield pool
                    break

    def _credit(self, pool: str, row: PoolRow, now: int) -> CreditRow | None:
        """The credit of a pool from now on; None: as before."""
        old, nothing = row.credit, self._queues.nothing
        have = value(old, now, self._state.cell) if old is not None else nothing
        full = rate = nothing
        saver = None if row.turn is not None else self._saver(pool)
        share = self._shares.share(pool)
        if row.turn is not None:
            full = old.full if old is not None else nothing
            rate = subtract(share, self._used(pool, row.turn))
            rate = tuple([each if want else 0 for each, want in zip(rate, full, strict=True)])
        elif saver is not None:
            short = subtract(add(saver.level, saver.need), share)
            time = max(1, self._state.cell.settings.credit_time_ms)
            full = tuple(
                [min(max(0, each) * time, MOST) if want else 0 for each, want in zip(short, saver.need, strict=True)]
            )
            rate = positive(subtract(share, saver.level))
            have = tuple(map(min, have, full))
        else:
            have = tuple([min(0, each) for each in have])
            rate = positive(subtract(share, self._usage[pool].placed))
        rate = tuple([each if want or debt < 0 else 0 for each, want, debt in zip(rate, full, have, strict=True)])
        if old is None and not any(full) and not any(have):
            return None
        stays = any(full) or (old is not None and max(old.credit) <= 0)
        if old is not None and (old.rate, old.full) == (rate, full) and stays:
            return None
        return CreditRow(have, rate, full, now)

    def _saver(self, pool: str) -> Saver | None:
        """The head that needs more than the share of its pool, and for which that would suffice."""
        heads = [head for head in self._heads.get(pool, ()) if not head.kind & (FIRM | REVOCABLES)]
        parts = [head.part for head in heads if head.why.code in WAITS_FOR_CREDIT and self._order.waits(head.part)]
        if not parts:
            return None
        job_id, key = min(parts, key=self._place)
        row = self._queues.jobs[job_id]
        need = self._queues.unit_need(row, key)
        level = self._usage[pool].entitled_from(row.priority)
        if not exceeds(need, self._shares.share(pool)) or self._is_last(pool, need, level):
            return None
        return Saver(job_id, key, row, need, level)

    def _place(self, part: PartKey) -> tuple[int, int, int]:
        row = self._queues.jobs[part.job_id]
        return -row.priority, row.number, row.parts[part.key].first

    def _is_last(self, pool: str, need: Vector, level: Vector) -> bool:
        """Whether what a pool is short of is with those that are served before it, or before one above it. Where one
        above it that is served last has enough for it, it competes with its siblings only.
        """
        share, floor = self._shares.share(pool), add(level, need)
        short = [kind for kind, (want, have) in enumerate(zip(need, share, strict=True)) if want > have]
        return any(
            lacks_behind_all(self._pools[path], kind, floor[kind], self._shares.share(path)[kind])
            for path in self._usage.levels(pool)[:-1]
            for kind in short
        )

    def _used(self, pool: str, turn: TurnRow) -> Vector:
        """The amount that a pool uses during its turn: what it has placed, and what stands idle for its gang."""
        placed = self._usage[pool].placed
        row = self._gang_state(turn)[1]
        if row is None or self._placed_ms(turn):
            return placed
        need = self._queues.unit_need(row, self._queues.part_of(row, turn.first))
        return add(placed, tuple(map(min, need, positive(self._state.idle()))))

    def _time(self, pool: str) -> None:
        """Notes when the credit of a pool is full."""
        row = self._pools.get(pool)
        credit = None if row is None or row.turn is not None else row.credit
        if row is None or credit is None:
            self._fills.clear(pool)
            return
        after = suffices_after(credit.credit, credit.rate, credit.full, row.goes_on)
        self._fills.set(pool, None if after is None else credit.since_ms + after)

    def _begin(self, now: int) -> list[Event]:
        """The first turn that can begin."""
        for pool in self._fills.due(now):
            saver = self._saver(pool)
            if saver is None or closed_at(self._pools, self._usage.levels(pool)):
                continue
            floor = add(saver.level, saver.need)
            floor = tuple([each if want else 0 for each, want in zip(floor, saver.need, strict=True)])
            most = self._shares.most(pool)
            if not exceeds(floor, most) and self._shares.holds_floor(pool, floor, self._turns):
                gang = saver.key % ROLES == GANG
                slots = self._queues.gang(saver.row) if gang else self._queues.slots(saver.row, saver.key, "queued")[:1]
                run = int(self._queues.arena["queued"][slots[0]])
                first = int(slots[0]) - saver.row.base
                turn = TurnRow(saver.job_id, first, len(slots), run, floor, now)
                return [self._turn_set(pool, turn, Code.STARTED)]
        return []

    def _turn_set(self, pool: str, turn: TurnRow, state: Code) -> TurnSet:
        return TurnSet(
            pool=pool,
            job_id=turn.job_id,
            first=turn.first,
            count=turn.count,
            run=turn.run,
            floor=self._queues.kinds.amounts(turn.floor),
            state=state,
            cause=recorded(self._state.cell.last_by),
        )

    # Records.

    def set_turn(self, event: TurnSet, now: int) -> None:
        """Begins a turn, or ends it."""
        if event.pool not in self._pools:
            return
        row = self._pools.change(event.pool)
        row.goes_on = False
        if event.state == Code.STARTED:
            floor = self._queues.kinds.vector(event.floor)
            row.turn = TurnRow(event.job_id, event.first, event.count, event.run, floor, now)
            self._turns[event.pool] = None
        else:
            row.turn = None
            self._turns.pop(event.pool, None)
            if event.state == Code.GIVEN_UP:
                row.credit = None
            elif event.state == Code.ENDED and row.credit is not None:
                credit = row.credit
                row.goes_on = is_left(credit.credit, credit.rate, credit.full, max(0, now - credit.since_ms))
        self._time(event.pool)
        self._shares.turned(event.pool)
        self._marks.touch(event.pool)
        self._queues.changes += 1
        self._usage.numbers += 1

    def removed(self, pool: str) -> None:
        """Forgets a pool that was removed, maybe during its turn: one of the same name begins with nothing."""
        self._turns.pop(pool, None)
        self._credits_of.pop(pool, None)
        self._time(pool)

    def set_credits(self, event: CreditsSet, now: int) -> None:
        """Sets what pools save from now on."""
        columns = [_rows(column) for column in (event.credit_array, event.rate_array, event.full_array)]
        widened = self._queues.kinds.widened
        for pool, have, rate, full in zip(event.pools, *columns, strict=True):
            if pool not in self._pools:
                continue
            row = self._pools.change(pool)
            credit = CreditRow(widened(have), widened(rate), widened(full), now)
            row.credit = credit if any(credit.full) or any(credit.credit) else None
            row.goes_on = row.goes_on and row.credit is not None
            if row.credit is None:
                self._credits_of.pop(pool, None)
            else:
                self._credits_of[pool] = None
            self._time(pool)
            self._marks.touch(pool)
        self._queues.changes += 1


def value(credit: CreditRow, now: int, cell: CellRow) -> Vector:
    """Return the credit now: at most what suffices for a turn; below 0 after one, at least what a whole slice
    uses.
    """
    settings, passed = cell.settings, max(0, now - credit.since_ms)
    amounts = []
    for have, rate, full in zip(credit.credit, credit.rate, credit.full, strict=True):
        if full:
            least = -(full * settings.turn_for_ms // max(1, settings.credit_time_ms))
            amounts.append(max(min(least, have), min(have + rate * passed, full)))
        else:
            amounts.append(min(have + rate * passed, 0) if have < 0 else have)
    return tuple(amounts)


def _rows(column: I64) -> list[Vector]:
    return [tuple(row) for row in column.tolist()]
