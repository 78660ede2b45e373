"""Room under limits, and licences: units that wait for it though their pool is entitled get it from others.

Placement knows nothing of limits, so entitlement itself orders: as soon as the first of a class has waited so long as
its pool waits for others to leave, and then each minute, while enough can be freed below the level that is full. Until
it is admitted, that room is its own; it stays so for as long as placement holds hosts.

The parts that limits hold up are derived from what they were told and since when; what is told no more is found out
when it is looked at.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from events.codes import Code, Way
from events.columns import I64
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from events.resources import Vector, fits, scale
from processors.entitlement.admission.pass_usage import PassUsage
from processors.entitlement.bounds import LIMITS, RIGHTS, Ask, closed_at, room
from processors.entitlement.preemption.unplaced import Claims
from processors.entitlement.preemption.victims import Chosen, LimitVictims, Taker, columns
from processors.entitlement.queues.parts import FIRM, GANG, ROLES, PartKey
from processors.entitlement.queues.placed_runs import PlacedRuns
from processors.entitlement.queues.queues import Queues
from processors.entitlement.rows import JobRow, RefusalRow
from processors.entitlement.state import State
from processors.state.causes import recorded
from processors.state.deadlines import Deadlines
from processors.state.steps import Pass


class LimitedParts:
    """Parts with `PartRow.limited_ms`. `delay_ms`: how long a pool waits until others leave; below 0: for ever."""

    def __init__(self, queues: Queues, delay_ms: Callable[[str], int]) -> None:
        self._queues = queues
        self._delay_ms = delay_ms
        self._jobs: dict[str, dict[int, str]] = {}
        """By job and key of the part the level that is full, or none."""
        self._starts: Deadlines[PartKey] = Deadlines()
        self._levels: dict[str, dict[PartKey, None]] = {}

    def restored(self) -> None:
        """The tables were loaded."""
        self._jobs.clear()
        self._starts.restore(())
        self._levels.clear()
        for job_id, row in self._queues.jobs.items():
            for key in row.parts:
                self.changed(PartKey(job_id, key), row)

    def pools_changed(self) -> None:
        """Pools may wait longer or less long until others leave."""
        for job_id, mine in list(self._jobs.items()):
            for key in list(mine):
                self.changed(PartKey(job_id, key), self._queues.jobs[job_id])

    def __len__(self) -> int:
        """How many jobs have any."""
        return len(self._jobs)

    def changed(self, part: PartKey, row: JobRow) -> None:
        """A part was told that a limit holds it up, or another reason, or waits since another time."""
        self._leave(part)
        what, level = row.parts.get(part.key), ""
        if what is None or not what.limited_ms:
            return
        if what.refusal is not None and is_limited(what.refusal):
            level, delay = what.refusal.at, self._delay_ms(row.pool)
            self._levels.setdefault(level, {})[part] = None
            if delay >= 0:
                self._starts.set(part, what.limited_ms + delay)
        self._jobs.setdefault(part.job_id, {})[part.key] = level

    def dropped(self, job_id: str) -> None:
        """A job has ended."""
        for key in list(self._jobs.get(job_id, ())):
            self._leave(PartKey(job_id, key))

    def starts(self, after: int, until: int) -> Iterator[PartKey]:
        """The parts for which others are to leave from a time after one until another on, in this order."""
        return filter(self._level, self._starts.due(until, after))

    def next_ms(self, after: int) -> int | None:
        """From when on others are to leave for a part next, after a time."""
        return next((at for at, part in self._starts.upcoming(after) if self._level(part)), None)

    def full_levels(self) -> list[str]:
        """The pools whose limits hold somebody up."""
        return sorted(
            level for level, parts in self._levels.items() if any(self._level(part) == level for part in parts)
        )

    def _level(self, part: PartKey) -> str:
        """The pool whose limit holds a part up, as it was told last; empty: none does."""
        row = self._queues.jobs.get(part.job_id)
        what = row.parts.get(part.key) if row is not None else None
        refusal = what.refusal if what is not None else None
        return refusal.at if refusal is not None and is_limited(refusal) else ""

    def _leave(self, part: PartKey) -> None:
        mine = self._jobs.get(part.job_id, {})
        level = mine.pop(part.key, "")
        if not mine:
            self._jobs.pop(part.job_id, None)
        if level:
            del self._levels[level][part]
            if not self._levels[level]:
                del self._levels[level]
        self._starts.clear(part)


def is_limited(refusal: RefusalRow | None) -> bool:
    """Whether a part was told that a limit holds it up."""
    return refusal is not None and refusal.code == Code.LIMIT_REACHED


AGAIN_MS = 60_000
"""So often it is looked whether enough can be freed for those that wait longer than they should."""


class Waiter(NamedTuple):
    """A part whose first units are entitled but for a limit."""

    pool: str
    part: PartKey
    row: JobRow
    units: int
    need: Vector
    """Of one unit."""


class Limits:
    """Decides PreemptionsOrdered under limits. A part is due from `PartRow.limited_ms` on."""

    def __init__(self, state: State, claims: Claims) -> None:
        self._state = state
        self._queues = state.queues
        self._holds = state.holds
        self._claims = claims
        self.runs = PlacedRuns(state.queues)
        self._parts = LimitedParts(state.queues, self._delay_ms)

    def restored(self) -> None:
        """Finds again what is derived."""
        self.runs.forget()
        self._parts.restored()

    def pools_changed(self) -> None:
        """Pools have other rules."""
        self._parts.pools_changed()

    # What is decided.

    def decide(self, this: Pass) -> list[Event]:
        """Orders for all that are due now, at most so many runs; a gang goes whole."""
        now, budget = this.now, this.budget.left
        after, out = self._state.cell.timer_ms, list[Event]()
        if not len(self._parts):
            return out
        due = list(self._parts.starts(-1 if _mark(after) <= now else after, now))
        if not due:
            return out
        victims = LimitVictims(self._state, self._claims, self.runs, now)
        usage = PassUsage(self._state)
        for part in due:
            waiter = self._waiter(part, usage)
            if waiter is not None and budget > 0:
                order = self._order(waiter, usage, victims, budget, self._state.cell.orders + len(out) + 1)
                if order is not None:
                    budget -= len(order.run) // 4
                    out.append(order)
        return out

    def next_ms(self) -> int | None:
        """When somebody is due next; None: nobody is."""
        after = self._state.cell.timer_ms
        if not len(self._parts):
            return self._holds.next_ms(after)
        start, mark = self._parts.next_ms(after), _mark(after)
        if start is None or mark < start:
            usage = PassUsage(self._state)
            if any(self._waiter(part, usage) for part in self._parts.starts(-1, after)):
                start = mark
        hold = self._holds.next_ms(after)
        return min((at for at in (start, hold) if at is not None), default=None)

    def full_levels(self) -> list[str]:
        """The pools whose limits hold somebody up."""
        return self._parts.full_levels()

    # What is folded.

    def told(self, part: PartKey, row: JobRow, now: int) -> None:
        """A part was told why it waits."""
        what = row.parts[part.key]
        what.limited_ms = (what.limited_ms or now) if is_limited(what.refusal) else 0
        self._parts.changed(part, row)

    def admitted(self, slots: I64, now: int) -> None:
        """Units were admitted: those behind them in their part wait anew."""
        for job_id, row, key, _ in self._queues.split(slots) if len(self._parts) else ():
            if row.parts[key].limited_ms:
                self._queues.jobs.change(job_id).parts[key].limited_ms = now
                self._parts.changed(PartKey(job_id, key), row)

    def dropped(self, job_id: str) -> None:
        """A job has ended."""
        self._parts.dropped(job_id)

    def _delay_ms(self, pool: str) -> int:
        return self._claims.delay_ms(pool) if pool in self._state.pools else -1

    def _waiter(self, part: PartKey, usage: PassUsage) -> Waiter | None:
        """A part of which units would be entitled if limits had room, and nothing is kept for it yet."""
        queues, row = self._queues, self._queues.jobs[part.job_id]
        pool, key = row.pool, part.key
        if not queues.order.waits(part) or closed_at(self._state.pools, queues.usage.levels(pool)):
            return None
        if row.daemon:
            return None
        ask = Ask(pool, queues.kind(row, key), row.priority, queues.unit_need(row, key))
        units = min(fits(ask.need, room(usage, ask, RIGHTS)), queues.waiting_units(row, key))
        if units <= 0 or fits(ask.need, room(usage, ask, (LIMITS,))) or self._holds.has(part.job_id):
            return None
        return Waiter(pool, part, row, units, ask.need)

    def _order(
        self, waiter: Waiter, usage: PassUsage, victims: LimitVictims, budget: int, number: int
    ) -> PreemptionsOrdered | None:
        """The order for as many units as others can leave for; None: not enough can be freed."""
        slots = self._slots(waiter)
        is_gang = waiter.part.key % ROLES == GANG
        taker = Taker(waiter.pool, waiter.row.priority, waiter.need, self._claims.own_right(waiter.pool, waiter.need))
        units, chosen = victims.room_for(taker, 1 if is_gang else len(slots), usage, budget)
        if not chosen:
            return None  # what is leaving already suffices, or nothing does
        usage.take(waiter.pool, FIRM * (not waiter.row.preemptible), scale(waiter.need, units))
        return self._record(waiter, slots if is_gang else slots[:units], chosen, number)

    def _slots(self, waiter: Waiter) -> I64:
        """The tasks of the gang; or the first neighbouring tasks that wait in one run, so many as are entitled."""
        slots = self._queues.slots(waiter.row, waiter.part.key, "queued")
        if waiter.part.key % ROLES == GANG:
            return slots
        slots = slots[: waiter.units]
        run = self._queues.arena["queued"][slots]
        breaks = np.flatnonzero((np.diff(slots) != 1) | (np.diff(run) != 0))
        return slots[: int(breaks[0]) + 1] if len(breaks) else slots

    def _record(self, waiter: Waiter, slots: I64, chosen: list[Chosen], number: int) -> PreemptionsOrdered:
        queues, sizes = self._queues, [len(each.slots) for each in chosen]
        run = int(queues.arena["queued"][slots[0]])
        leave = np.concatenate([each.slots for each in chosen])
        slices = np.repeat([int(each.by_slice) for each in chosen], sizes)
        return PreemptionsOrdered.pack(
            order=number,
            **columns(queues, leave, np.full(len(leave), Way.LIMIT), slices),
            for_pool=waiter.pool,
            for_job=waiter.part.job_id,
            for_first=int(slots[0]) - waiter.row.base,
            for_count=len(slots),
            for_run=run,
            code=Code.LIMIT_REACHED,
            cause=recorded(self._state.cell.last_by),
        )


def _mark(after: int) -> int:
    """The next full minute."""
    return (after // AGAIN_MS + 1) * AGAIN_MS
