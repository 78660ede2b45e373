"""Who is entitled to go on: pool by pool, in the order of each queue, within entitlement, limits and reservation.

A unit is entitled if what its pool has entitled at its priority and above, with it, is within the pool's entitlement.
So a higher priority claims at once. Borrowed and waiting units are walked together: a borrowed one whose turn comes is
entitled from then on. The first that isn't blocks those of its class in its pool that need what it lacks, and nobody
else; what else it needs is kept for it.

Deciding changes nothing, so what is admitted in one pass is counted beside the state.
"""

from typing import NamedTuple

import numpy as np

from events.codes import Code
from events.columns import I64
from events.ranks import Rank, entitled_of
from events.records.entitlement import AdmissionsRanked, GangsAdmitted
from events.records.parts import Cause
from events.resources import Vector, add, fits, scale, subtract
from processors.entitlement.admission.pass_usage import PassUsage, PoolRoom
from processors.entitlement.bounds import LIMITS, Ask, Refusal, check, closed_at
from processors.entitlement.queues.order import ALL, bits, merged
from processors.entitlement.queues.parts import GANG, ROLES, PartKey, range_columns
from processors.entitlement.queues.queues import Queues
from processors.entitlement.rows import JobRow
from processors.entitlement.state import State

ONE = np.ones(1, dtype=np.bool_)


class Admission(NamedTuple):
    """Units of a job that get a rank; `is_gang`: they are one unit."""

    job_id: str
    row: JobRow
    slots: I64
    is_gang: bool
    rank: Rank


class Head(NamedTuple):
    """The first part of a class that isn't entitled, of those that need what it lacks, and why; `aside`: what is kept
    for the heads of its class before it.
    """

    part: PartKey
    why: Refusal
    kind: int
    aside: Vector


class AdmissionPass:
    """The units that become entitled in one pass."""

    def __init__(self, state: State, budget: int) -> None:
        self.state = state
        self.usage = PassUsage(state)
        self.budget = budget
        self.admitted: list[Admission] = []
        self.ranked: list[Admission] = []

    def serve(self, pool: str) -> list[Head]:
        """Serves the queues of a pool; returns the heads, in the order of the queue. The rest of the budget must be
        above 0 then, else there may be others.
        """
        return Walk(self, pool).serve()


class Walk:
    """One pool in one pass."""

    def __init__(self, into: AdmissionPass, pool: str) -> None:
        self._into = into
        self._pool = pool
        self._state = into.state
        self._queues = into.state.queues
        self._order = into.state.order
        self._usage = into.state.usage
        self._room = PoolRoom(into.usage, pool, self._queues.nothing)
        self._aside: dict[int, Vector] = {}

    def serve(self) -> list[Head]:
        """Return the heads of the pool; see `AdmissionPass.serve`."""
        closed = closed_at(self._state.pools, self._usage.levels(self._pool)) != ""
        heads: list[Head] = []
        blocked: dict[int, int] = {}
        for kind, place in merged(self._order[self._pool], blocked):
            part = place[-1]
            row = self._queues.jobs[part.job_id]
            ask = Ask(self._pool, kind, row.priority, need_of(self._queues, part, row))
            why = self._part(part, row, ask, closed)
            if why is not None:
                aside = self._aside.get(kind, self._queues.nothing)
                heads.append(Head(part, why, kind, aside))
                blocked[kind] = blocked.get(kind, 0) | self._block(part, row, ask, why, aside)
            if self._into.budget <= 0:
                break
        return heads

    def _block(self, part: PartKey, row: JobRow, ask: Ask, why: Refusal, aside: Vector) -> int:
        """The kinds that a head lacks, as `bits`; what it needs of others is kept for it."""
        if why.code in (Code.POOL_CLOSED, Code.NO_HOSTS):
            return ALL
        room = tuple(map(min, self._entitled(ask, row.parts[part.key].borrowed > 0), self._limited(ask)))
        lacked = [max(0, want - have) if want else 0 for want, have in zip(ask.need, room, strict=True)]
        more = [0 if short else want for want, short in zip(ask.need, lacked, strict=True)]
        self._aside[ask.kind] = add(aside, tuple(more))
        return bits(lacked) - 1 or ALL

    def _part(self, part: PartKey, row: JobRow, ask: Ask, closed: bool) -> Refusal | None:
        """Takes what it can of a part; returns why not more."""
        borrowed, waiting = row.parts[part.key].borrowed > 0, self._order.waits(part) and not closed
        most = fits(ask.need, self._entitled(ask, borrowed))
        if not most or (not borrowed and not waiting):
            return self._why(ask)
        limited = fits(ask.need, self._limited(ask)) if waiting else 0
        if part.key % ROLES == GANG:
            if waiting and not limited:
                return self._why(ask)
            slots = self._queues.gang(row) if waiting else self._queues.slots(row, part.key, "rank", Rank.BORROWED)
            self._take(part, row, ask, slots, np.full(len(slots), waiting))
            return None
        slots, waits, more = self._first(row, part.key, min(most, self._into.budget), limited, borrowed, waiting)
        if len(slots):
            self._take(part, row, ask, slots, waits)
        return self._why(ask) if more and self._into.budget > 0 else None

    def _entitled(self, ask: Ask, borrowed: bool) -> Vector:
        """The amount that units of a class may still get, without what is kept for heads before them."""
        aside, left = self._aside.get(ask.kind), self._room.entitled(ask, borrowed)
        return left if aside is None else subtract(left, aside)

    def _limited(self, ask: Ask) -> Vector:
        aside, left = self._aside.get(ask.kind), self._room.limited(ask)
        return left if aside is None else subtract(left, aside)

    def _why(self, ask: Ask) -> Refusal:
        """Why no further unit is taken."""
        refusal = check(self._into.usage, ask)
        if refusal is not None:
            return refusal
        return Refusal(Code.BEHIND_IN_QUEUE, self._pool) if ask.kind in self._aside else Refusal(LIMITS.code, "/")

    def _first(
        self, row: JobRow, key: int, most: int, limited: int, borrowed: bool, waiting: bool
    ) -> tuple[I64, np.ndarray, bool]:
        """The first units of a part that are borrowed or wait, at most so many and so many that wait; which of them
        wait; whether there are more.
        """
        if row.instances == 1 and limited and waiting and not borrowed:
            return np.array((row.base,)), ONE, False
        queued = self._queues.slots(row, key, "queued") if waiting else self._queues.slots(row, key, "queued")[:0]
        if not borrowed:
            count = min(most, limited, len(queued))
            return queued[:count], np.ones(count, dtype=np.bool_), count < len(queued)
        lent = self._queues.slots(row, key, "rank", Rank.BORROWED)
        slots = np.concatenate((lent, queued))
        order = np.argsort(slots, kind="stable")
        slots, waits = slots[order], order >= len(lent)
        count = min(most, int(np.searchsorted(np.cumsum(waits), limited, side="right")))
        return slots[:count], waits[:count], count < len(slots)

    def _take(self, part: PartKey, row: JobRow, ask: Ask, slots: I64, waits: np.ndarray) -> None:
        into, new, is_gang = self._into, slots[waits], part.key % ROLES == GANG
        tasks, news = len(slots), len(new)
        amount = ask.need if is_gang else scale(ask.need, tasks)
        fresh = None
        if news:
            into.admitted.append(Admission(part.job_id, row, new, is_gang, Rank.ENTITLED))
            fresh = amount if news == tasks else scale(ask.need, news)
        if news < tasks:
            into.ranked.append(Admission(part.job_id, row, slots[~waits], is_gang, Rank.ENTITLED))
        self._room.take(ask.kind, amount, fresh)
        into.budget -= tasks


def need_of(queues: Queues, part: PartKey, row: JobRow) -> Vector:
    """What the next unit of a part needs to be entitled; of a borrowed gang what those members need that still hold."""
    key = part.key
    if key % ROLES == GANG and row.parts[key].borrowed:
        return queues.asked(row, queues.slots(row, key, "rank", Rank.BORROWED))
    return queues.unit_need(row, key)


def _alike(admissions: list[Admission]) -> list[int]:
    """A number for each that those have in common whose tasks may stand in one range: never two gangs."""
    numbers: dict[tuple[str, int, int], int] = {}
    keys = [(each.job_id, each.rank, at if each.is_gang else -1) for at, each in enumerate(admissions)]
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def columns_of(queues: Queues, admissions: list[Admission], column: str) -> dict[str, object]:
    """The columns of a record about ranges of tasks; `column`: that of their runs. Ranges that meet are one, in however
    many steps they were taken: a process that was restored takes in others.
    """
    units = [(each.job_id, each.row.base, each.is_gang, each.slots) for each in admissions]
    columns, at = range_columns(units, queues.arena[column], _alike(admissions))
    return {**columns, "entitled": entitled_of(np.array([each.rank for each in admissions])[at])}


def admitted(queues: Queues, admissions: list[Admission], cause: Cause | None) -> GangsAdmitted:
    """The record of units that are admitted."""
    return GangsAdmitted.pack(**columns_of(queues, admissions, "queued"), cause=cause)  # type: ignore[arg-type]


def ranked(queues: Queues, admissions: list[Admission], cause: Cause | None) -> AdmissionsRanked:
    """The record of units that are entitled from now on, or borrowed."""
    return AdmissionsRanked.pack(**columns_of(queues, admissions, "held"), cause=cause)  # type: ignore[arg-type]
