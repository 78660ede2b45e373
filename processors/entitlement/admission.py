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
from events.columns import I64, Names, pack_ints
from events.ranks import Rank, pack_ranks
from events.records.entitlement import AdmissionsRanked, GangsAdmitted
from events.records.parts import Cause
from events.resources import Vector, add, fits, scale, subtract
from processors.entitlement.limit_holds import LimitHolds
from processors.entitlement.lines import ALL, bits, merged
from processors.entitlement.parts import CONTROLLERS, DAEMONS, FIRM, GANG, ROLES, Part, stretches
from processors.entitlement.queues import Queues
from processors.entitlement.refusals import Refusal, exceeds
from processors.entitlement.rows import CellRow, JobRow, PoolRow
from processors.entitlement.shares import Shares
from processors.state.table import Table

BOUNDLESS = 1 << 62
ONE = np.ones(1, dtype=np.bool_)
Taken = tuple[str, JobRow, I64, int, Rank]
"""Job, row, slots, whether they are one gang, their rank."""


class Head(NamedTuple):
    """The first part of a class that isn't entitled, of those that need what it lacks, and why; `aside`: what is kept
    for the heads of its class before it.
    """

    part: Part
    why: Refusal
    kind: int
    aside: Vector


class Rooms:
    """What may be admitted within limits, counted beside the state: pools and those above them."""

    def __init__(self, queues: Queues, pools: Table[str, PoolRow], holds: LimitHolds) -> None:
        self._queues = queues
        self._pools = pools
        self._holds = holds
        self._more: dict[str, Vector] = {}
        self._more_firm: dict[str, Vector] = {}

    def limit(self, pool: str, lent: bool = False) -> Vector:
        """What a pool and those above it may still admit by their limits; `lent`: beyond its entitlement."""
        room = (BOUNDLESS,) * len(self._queues.nothing)
        for level in self._queues.holdings.levels(pool):
            if self.bounds(level):
                room = tuple(map(min, room, self.left(level, "" if lent else pool)))
        return room

    def bounds(self, level: str) -> bool:
        """Whether a level has any limit, or licences."""
        return max(self._pools[level].limit) >= 0 or (level == "/" and bool(self._queues.kinds.licences))

    def left(self, level: str, pool: str) -> Vector:
        """What the limit of a level, and licences, leave for a pool below it, without what is kept for other pools."""
        limit, licences = self._pools[level].limit, self._queues.kinds.licences if level == "/" else {}
        if max(limit) < 0 and not licences:
            return (BOUNDLESS,) * len(limit)
        if licences:
            names = self._queues.kinds.names
            limit = tuple([licences.get(name, most) for name, most in zip(names, limit, strict=True)])
        held, kept = self.allocation(level), self._holds.others(pool, level)
        held = held if kept is None else add(held, kept)
        return tuple([most - have if most >= 0 else BOUNDLESS for most, have in zip(limit, held, strict=True)])

    def reservation(self, pool: str) -> Vector:
        """What they may still admit of work that isn't preemptible."""
        room = (BOUNDLESS,) * len(self._queues.nothing)
        for level in self._queues.holdings.levels(pool)[:-1]:
            room = tuple(map(min, room, subtract(self._pools[level].reservation, self.firm(level))))
        return room

    def allocation(self, level: str) -> Vector:
        """What a pool holds with what was admitted just now."""
        more = self._more.get(level)
        have = self._queues.holdings[level].allocation
        return have if more is None else add(have, more)

    def firm(self, level: str) -> Vector:
        """What isn't preemptible of that."""
        more, have = self._more_firm.get(level), self._queues.holdings[level].firm
        return have if more is None else add(have, more)

    def take(self, pool: str, amount: Vector, firm: bool) -> None:
        """So much was admitted."""
        for level in self._queues.holdings.levels(pool):
            for more in (self._more, self._more_firm) if firm else (self._more,):
                have = more.get(level)
                more[level] = amount if have is None else add(have, amount)


class Admission:
    """The units that become entitled in one pass."""

    def __init__(
        self,
        queues: Queues,
        pools: Table[str, PoolRow],
        cell: CellRow,
        shares: Shares,
        holds: LimitHolds,
        budget: int,
    ) -> None:
        self._queues = queues
        self._pools = pools
        self._cell = cell
        self._shares = shares
        self._rooms = Rooms(queues, pools, holds)
        self.budget = budget
        self.admitted: list[Taken] = []
        self.ranked: list[Taken] = []

    def pool(self, pool: str) -> list[Head]:
        """Serves the queues of a pool; returns the heads, in the order of the queue. What is left of the
        budget must be above 0 then, else there may be others that are.
        """
        return Walk(self, self._queues, self._pools, self._cell, self._shares, self._rooms).serve(pool)


class Walk:
    """One pool in one pass."""

    def __init__(
        self,
        into: Admission,
        queues: Queues,
        pools: Table[str, PoolRow],
        cell: CellRow,
        shares: Shares,
        rooms: Rooms,
    ) -> None:
        self._into = into
        self._queues = queues
        self._pools = pools
        self._cell = cell
        self._shares = shares
        self._rooms = rooms

    def serve(self, pool: str) -> list[Head]:
        """See `Admission.pool`."""
        self._pool, self._lines = pool, self._queues.lines[pool]
        self._holding, self._entitlement = self._queues.holdings[pool], self._shares.entitlement(pool)
        self._taken, self._boundless = self._queues.nothing, (BOUNDLESS,) * len(self._queues.nothing)
        self._limit, self._reservation = self._rooms.limit(pool), self._rooms.reservation(pool)
        self._controllers = self._holding.controllers
        self._priority: int | None = None
        self._free = self._queues.nothing
        self._aside: dict[int, Vector] = {}
        closed = closed_at(self._pools, self._queues.holdings.levels(pool))
        heads: list[Head] = []
        blocked: dict[int, int] = {}
        for kind, place in merged(self._lines, blocked):
            part = place[-1]
            row = self._queues.jobs[part[0]]
            why = self._part(part, row, kind, closed)
            if why is not None:
                aside = self._aside.get(kind, self._queues.nothing)
                heads.append(Head(part, why, kind, aside))
                blocked[kind] = blocked.get(kind, 0) | self._block(part, row, kind, why, aside)
            if self._into.budget <= 0:
                break
        return heads

    def _block(self, part: Part, row: JobRow, kind: int, why: Refusal, aside: Vector) -> int:
        """The kinds that a head lacks, as `bits`; what it needs of others is kept for it."""
        if why.code in (Code.POOL_CLOSED, Code.NO_HOSTS):
            return ALL
        need = need_of(self._queues, part, row)
        room = tuple(map(min, self._room(kind, row.parts[part[1]].borrowed), subtract(self._limit, aside)))
        lacked = [max(0, want - have) if want else 0 for want, have in zip(need, room, strict=True)]
        more = [0 if short else want for want, short in zip(need, lacked, strict=True)]
        self._aside[kind] = add(aside, tuple(more))
        return bits(lacked) - 1 or ALL

    def _part(self, part: Part, row: JobRow, kind: int, closed: str) -> Refusal | None:
        """Takes what it can of a part; returns why not more."""
        queues, key = self._queues, part[1]
        if row.priority != self._priority:
            self._priority = row.priority
            self._free = subtract(subtract(self._entitlement, self._holding.level(row.priority)), self._taken)
        need, borrowed = need_of(queues, part, row), row.parts[key].borrowed
        most = fits(need, self._room(kind, borrowed))
        waiting = queues.lines.waits(part) and not closed
        if not most or (not borrowed and not waiting):
            return self._why(need, kind, closed)
        if key % ROLES == GANG:
            return self._gang(part, row, need, waiting, kind)
        limited = fits(need, self._limited(kind)) if waiting else 0
        slots, waits, more = self._first(row, key, min(most, self._into.budget), limited, bool(borrowed), waiting)
        if len(slots):
            self._take(part, row, slots, waits, need, 0)
        return self._why(need, kind, closed) if more and self._into.budget > 0 else None

    def _room(self, kind: int, borrowed: int) -> Vector:
        """What units of a class may still get of entitlement, reservation and the share of controllers, without what is
        kept for heads before them.
        """
        room = self._boundless if kind == DAEMONS else self._free
        if kind & FIRM:
            room = tuple(map(min, room, self._reservation))
        if kind & CONTROLLERS and not borrowed:
            room = tuple(map(min, room, self._controllers_room()))
        aside = self._aside.get(kind)
        return room if aside is None else subtract(room, aside)

    def _limited(self, kind: int) -> Vector:
        aside = self._aside.get(kind)
        return self._limit if aside is None else subtract(self._limit, aside)

    def _gang(self, part: Part, row: JobRow, need: Vector, waiting: bool, kind: int) -> Refusal | None:
        if waiting and not fits(need, self._limited(kind)):
            return self._why(need, kind, "")
        slots = self._queues.gang(row) if waiting else self._queues.slots(row, part[1], "rank", Rank.BORROWED)
        self._take(part, row, slots, np.full(len(slots), waiting), need, 1)
        return None

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

    def _take(self, part: Part, row: JobRow, slots: I64, waits: np.ndarray, need: Vector, gang: int) -> None:
        into, new = self._into, slots[waits]
        units = 1 if gang else len(slots)
        amount = scale(need, units)
        if not row.daemon:
            self._taken = add(self._taken, amount)
            self._free = subtract(self._free, amount)
        if len(new):
            into.admitted.append((part[0], row, new, gang, Rank.ENTITLED))
            fresh = amount if gang else scale(need, len(new))
            self._limit = subtract(self._limit, fresh)
            firm = not row.preemptible and not row.daemon
            if firm:
                self._reservation = subtract(self._reservation, fresh)
            if self._queues.kind(row, part[1]) & CONTROLLERS:
                self._controllers = add(self._controllers, fresh)
            self._rooms.take(row.pool, fresh, firm)
        if len(new) < len(slots):
            into.ranked.append((part[0], row, slots[~waits], gang, Rank.ENTITLED))
        into.budget -= len(slots)

    def _why(self, need: Vector, kind: int, closed: str) -> Refusal:
        """Why no further unit is taken."""
        if closed:
            return Refusal(Code.POOL_CLOSED, closed)
        if not self._cell.hosts:
            return Refusal(Code.NO_HOSTS, "/")
        pool = self._pool
        if kind & FIRM and exceeds(need, self._reservation):
            levels = self._queues.holdings.levels(pool)[:-1]
            return Refusal(Code.RESERVATION_REACHED, next(filter(lambda at: self._is_reserved(at, need), levels), pool))
        if self._is_full(pool, need):
            return Refusal(Code.LIMIT_REACHED, pool)
        if kind & CONTROLLERS and exceeds(need, self._controllers_room()):
            return Refusal(Code.CONTROLLER_LIMIT_REACHED, pool)
        if kind != DAEMONS and exceeds(need, self._free):
            return self._beyond(need)
        above = self._queues.holdings.levels(pool)[1:]
        full = next((level for level in above if self._is_full(level, need)), "")
        if not full and kind in self._aside:
            return Refusal(Code.BEHIND_IN_QUEUE, pool)
        return Refusal(Code.LIMIT_REACHED, full or "/")

    def _controllers_room(self) -> Vector:
        return controllers_room(self._pools[self._pool], self._controllers, self._entitlement)

    def _is_reserved(self, level: str, need: Vector) -> bool:
        return exceeds(need, subtract(self._pools[level].reservation, self._rooms.firm(level)))

    def _is_full(self, level: str, need: Vector) -> bool:
        return exceeds(need, self._rooms.left(level, self._pool))

    def _beyond(self, need: Vector) -> Refusal:
        """Why a unit waits that is beyond the entitlement of its pool."""
        row = self._pools[self._pool]
        saves = row.credit is not None and any(row.credit.full) and exceeds(need, self._shares.share(self._pool))
        held = subtract(self._entitlement, self._free)
        if saves and not exceeds(need, subtract(self._shares.most(self._pool), held)):
            return Refusal(Code.SAVING_FOR_TURN, self._pool)
        short = [kind for kind, want in enumerate(need) if want > self._free[kind]]
        for level in self._queues.holdings.levels(self._pool)[:-1]:
            above = self._pools[level]
            if any(not above.share[kind] and not above.reservation[kind] for kind in short):
                return Refusal(Code.SHARE_OF_NOTHING, level)
        return Refusal(Code.ENTITLEMENT_REACHED, self._pool)


def need_of(queues: Queues, part: Part, row: JobRow) -> Vector:
    """What the next unit of a part needs to be entitled; of a borrowed gang what those members need that still hold."""
    key = part[1]
    if key % ROLES == GANG and row.parts[key].borrowed:
        return queues.asked(row, queues.slots(row, key, "rank", Rank.BORROWED))
    return queues.unit_need(row, key)


def controllers_room(row: PoolRow, held: Vector, entitlement: Vector) -> Vector:
    """What controllers of a pool may still hold, that hold so much. The first one may go on whatever it needs: else a
    pool that wants little never ran one.
    """
    percent = row.controllers_percent
    if percent >= 100 or (percent and not any(held)):
        return (BOUNDLESS,) * len(entitlement)
    return subtract(tuple([percent * amount // 100 for amount in entitlement]), held)


def closed_at(pools: Table[str, PoolRow], levels: tuple[str, ...]) -> str:
    """The pool on a path that is closed; empty: none is."""
    return next((level for level in levels if pools[level].closed), "")


def _alike(taken: list[Taken]) -> list[int]:
    """A number for each that those have in common whose tasks may stand in one range: never two gangs."""
    numbers: dict[tuple[str, int, int], int] = {}
    keys = [(job_id, rank, at if gang else -1) for at, (job_id, _, _, gang, rank) in enumerate(taken)]
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def columns_of(queues: Queues, taken: list[Taken], column: str) -> dict[str, object]:
    """The columns of a record about ranges of tasks; `column`: that of their runs. Ranges that meet are one, in however
    many steps they were taken: a process that was restored takes in others.
    """
    names = Names()
    jobs = [names[job_id] for job_id, *_ in taken]
    alike = _alike(taken)
    bases = [row.base for _, row, *_ in taken]
    sizes = [len(slots) for _, _, slots, _, _ in taken]
    slots = np.concatenate([slots for _, _, slots, _, _ in taken])
    part = np.repeat(np.arange(len(sizes)), sizes)
    run = queues.arena[column][slots]
    first, count = stretches(slots, run, np.repeat(alike, sizes))
    part = part[first]
    return {
        "job_ids": names.all(),
        "job": pack_ints(np.array(jobs)[part]),
        "first": pack_ints(slots[first] - np.array(bases)[part]),
        "count": pack_ints(count),
        "run": pack_ints(run[first]),
        "gang": pack_ints(np.array([gang for *_, gang, _ in taken])[part]),
        "entitled": pack_ranks(np.array([rank for *_, rank in taken])[part]),
    }


def admitted(queues: Queues, taken: list[Taken], cause: Cause | None) -> GangsAdmitted:
    """The record of units that are admitted."""
    return GangsAdmitted(**columns_of(queues, taken, "queued"), cause=cause)  # type: ignore[arg-type]


def ranked(queues: Queues, taken: list[Taken], cause: Cause | None) -> AdmissionsRanked:
    """The record of units that are entitled from now on, or borrowed."""
    return AdmissionsRanked(**columns_of(queues, taken, "held"), cause=cause)  # type: ignore[arg-type]
