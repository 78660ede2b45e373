"""Whether what placement asks for may be: by the rules that it planned by, here on exact numbers.

Each victim is judged on what the ones before it, of this ask and of those ordered in the same pass, have left. Of a
parked claim also what limits leave is found: what was lent of it leaves.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np

from events.codes import Code, Way
from events.columns import I32, I64, Names, ints, pack_ints, same_length
from events.records.base import Event
from events.records.entitlement import PreemptionRefused, PreemptionsOrdered
from events.resources import Vector, add, fits, subtract
from processors.entitlement.admission import Rooms, ranked
from processors.entitlement.claims import Claims
from processors.entitlement.limit_victims import Chosen, LimitVictims, Taker
from processors.entitlement.queues import Queues
from processors.entitlement.rows import BORROWED, CellRow, JobRow
from processors.state.causes import CauseRow
from processors.state.displacements import Displacements
from processors.state.preemption_rules import Flag, Giver, Right, Victim, may_go, slice_ms
from processors.state.seconds import milliseconds

NONE = np.zeros(0, dtype=np.int64)


class AskedRow(msgspec.Struct, frozen=True, array_like=True):
    """A PreemptionAsked that isn't answered."""

    job_id: str
    first: int
    count: int
    run: int
    host_ids: tuple[str, ...]
    job_ids: tuple[str, ...]
    """The jobs of the victims; the columns are those of the record."""
    job: bytes
    instance: bytes
    victim_run: bytes
    way: bytes
    spared: dict[str, int]
    cause: CauseRow

    @property
    def unit(self) -> tuple[str, int, int, int]:
        """For whom: job, first instance, count, run."""
        return self.job_id, self.first, self.count, self.run


class Named(NamedTuple):
    """A victim as it is asked for: a gang, or one task."""

    job_id: str
    instances: I64
    run: I32
    way: int


class Refusal(NamedTuple):
    """Why an ask is refused; `victim` is None where it isn't about one."""

    code: str
    victim: Named | None = None
    wanted: Vector = ()
    free: Vector = ()


class Judge:
    """Judges asks one after another."""

    def __init__(
        self,
        claims: Claims,
        queues: Queues,
        cell: CellRow,
        displacements: Displacements,
        victims: LimitVictims,
        rooms: Rooms,
        now: int,
    ) -> None:
        self._claims = claims
        self._queues = queues
        self._cell = cell
        self._displacements = displacements
        self._victims = victims
        self._rooms = rooms
        self._now = now
        self._orders = cell.orders

    def answer(self, ask: AskedRow, budget: int) -> Event:
        """The order for an ask, or why there is none. `budget`: so many tasks may leave so that limits have room."""
        before = self._victims.mark()
        answer = self._answer(ask, budget)
        if isinstance(answer, Refusal):
            self._victims.back_to(before)
            return self._refused(ask, answer)
        return answer

    def _answer(self, ask: AskedRow, budget: int) -> Event | Refusal:
        if not self._claims.is_claim(ask.unit):
            return Refusal(Code.VOID)
        taker, parked = self._queues.jobs[ask.job_id], self._claims.is_parked(ask.unit)
        slots = np.arange(ask.first, ask.first + ask.count) + taker.base
        need = self._queues.asked(taker, slots)
        right = self._claims.right(ask.unit, self._now)
        if not len(ask.job) and not parked:
            return Refusal(Code.VOID)  # it has a place, and needs nobody to leave
        if len(ask.job) and right is None:
            return Refusal(Code.NO_RIGHT)
        by_slice = self._leave(ask, taker, need, right) if right is not None else NONE
        if isinstance(by_slice, Refusal):
            return by_slice
        under_limits: list[Chosen] = []
        if parked:
            room = self._rooms.limit(taker.pool)
            found = self._under_limits(taker, need, budget)
            at_once = not len(ask.job) and not found
            if found is None or (at_once and not fits(need, room)):  # there is room when others have left
                return Refusal(Code.LIMIT_REACHED, None, need, room)
            under_limits = found
            if at_once:
                return ranked(self._queues, [(ask.job_id, taker, slots, int(ask.count > 1), 1)], ask.cause.record)
        self._orders += 1
        flags = right.flags if right is not None else 0
        return self._ordered(ask, taker, flags, by_slice, under_limits)

    def _leave(self, ask: AskedRow, taker: JobRow, need: Vector, right: Right) -> I64 | Refusal:
        """For each run that is asked for whether it goes by its slice; or why one of them stays."""
        right = right._replace(others=add(right.others, self._victims.given(taker.pool)))
        taken, slices = self._queues.nothing, [NONE]
        for victim in self._named(ask):
            mine = self._slots(victim)
            if mine is None:
                return Refusal(Code.VICTIM_GONE, victim)
            row = self._queues.jobs[victim.job_id]
            facts = self._facts(victim, row, mine, taker)
            giver = self._claims.giver(row.pool).less(self._victims.given(row.pool))
            code, by_slice = may_go(victim.way, facts, need, giver, right, taken)
            if not code and self._displacements.spared_ms(victim.job_id, victim.instances.tolist(), self._now):
                code = Code.DEFERRED
            if code:
                return Refusal(code, victim, facts.amount, _takeable(victim.way, giver, right, taken, need))
            slices.append(np.full(len(mine), by_slice, dtype=np.int64))
            self._victims.leave(row.pool, mine, facts.amount)
            if victim.way == Way.GIVE:
                taken = add(taken, facts.amount)
        return np.concatenate(slices)

    def _under_limits(self, taker: JobRow, need: Vector, budget: int) -> list[Chosen] | None:
        """Who else has to leave so that limits have room for a parked claim; None: not enough can."""
        level = self._queues.holdings[taker.pool].level(taker.priority)
        entitlement = self._claims.entitlement(taker.pool)
        if any(want > 0 and have > most for want, have, most in zip(need, level, entitlement, strict=True)):
            return None  # its pool isn't entitled to it any more
        right = self._claims.own_right(taker.pool, need, claimed=True)
        units, chosen = self._victims.room_for(Taker(taker.pool, taker.priority, need, right), 1, self._rooms, budget)
        if not units:
            return None
        self._rooms.take(taker.pool, need, False)
        return chosen

    def _named(self, ask: AskedRow) -> Iterator[Named]:
        """The victims of an ask in their order; members of a gang stand one after another."""
        if not same_length(ask.job_ids, ask.job, ask.instance, ask.victim_run, ask.way):
            return
        job, instance, run, way = (ints(column) for column in (ask.job, ask.instance, ask.victim_run, ask.way))
        row_of = [self._queues.jobs.get(job_id) for job_id in ask.job_ids]
        gang_min = np.array([row.gang_min if row else 0 for row in row_of])[job]
        member = instance < gang_min
        starts = ~member
        starts[:1] = True
        starts[1:] |= (np.diff(job) != 0) | (np.diff(way) != 0) | (member[1:] != member[:-1])
        edges = np.append(np.flatnonzero(starts), len(job)).tolist()
        for start, end in pairwise(edges):
            instances = instance[start:end].astype(np.int64)
            yield Named(ask.job_ids[job[start]], instances, run[start:end], int(way[start]))

    def _slots(self, victim: Named) -> I64 | None:
        """The slots of a victim, a whole unit; None: it isn't there, or not whole."""
        row = self._queues.jobs.get(victim.job_id)
        if row is None or victim.instances.min() < 0 or victim.instances.max() >= row.instances:
            return None
        arena, slots = self._queues.arena, victim.instances + row.base
        here = (arena["placed"][slots] == victim.run) & (arena["leaving"][slots] == 0)
        if not here.all() or self._victims.are_gone(row.pool, slots):
            return None
        if victim.instances[0] < row.gang_min:
            members = self._queues.gang(row)
            whole = members[arena["placed"][members] > 0]
            return slots if np.array_equal(np.sort(slots), whole) else None
        return slots if len(slots) == 1 else None

    def _facts(self, victim: Named, row: JobRow, slots: I64, taker: JobRow) -> Victim:
        settings, instances = self._cell.settings, victim.instances.tolist()
        name, arena = victim.job_id, self._queues.arena
        used = self._displacements.slices(name, instances)
        ran = self._now - milliseconds(int(arena["placed_s"][slots].max()))
        return Victim(
            amount=self._queues.asked(row, slots),
            own=row.pool == taker.pool,
            yields=row.priority < taker.priority or bool((arena["entitled"][slots] == BORROWED).any()),
            preemptible=row.preemptible,
            capped=self._displacements.capped_ms(name, instances, self._now, settings.preemptions_per_hour) > 0,
            slice_over=ran >= slice_ms(settings.turn_for_ms, used, settings.turn_doublings),
        )

    def _ordered(
        self, ask: AskedRow, taker: JobRow, flags: int, by_slice: I64, under_limits: list[Chosen]
    ) -> PreemptionsOrdered:
        ways = {*ints(ask.way).tolist()}
        return PreemptionsOrdered(
            order=self._orders,
            **self._columns(ask, by_slice, under_limits),
            for_pool=taker.pool,
            for_job=ask.job_id,
            for_first=ask.first,
            for_count=ask.count,
            for_run=ask.run,
            host_ids=ask.host_ids,
            spared=ask.spared,
            code=why(ways, flags) if ways else Code.LIMIT_REACHED,
            cause=ask.cause.record,
        )

    def _columns(self, ask: AskedRow, by_slice: I64, under_limits: list[Chosen]) -> dict[str, Any]:
        """The runs that leave: those that were asked for, then those that free what limits leave."""
        queues, jobs, pools = self._queues, Names(), Names()
        bases = [queues.jobs[job_id].base for job_id in ask.job_ids]
        asked = ints(ask.instance) + np.array(bases, dtype=np.int64)[ints(ask.job)] if bases else NONE
        slots = np.concatenate([asked, *(each.slots for each in under_limits)])
        more = len(slots) - len(asked)
        names = [queues.at[base] for base in (queues.arena["owner"][slots] - 1).tolist()]
        extra = [np.full(len(each.slots), each.by_slice, dtype=np.int64) for each in under_limits]
        rows = [queues.jobs[name] for name in names]
        return {
            "job": pack_ints([jobs[name] for name in names]),
            "instance": pack_ints([slot - row.base for slot, row in zip(slots.tolist(), rows, strict=True)]),
            "run": pack_ints(queues.arena["placed"][slots]),
            "way": pack_ints([*ints(ask.way).tolist(), *[int(Way.LIMIT)] * more]),
            "slice": pack_ints(np.concatenate([by_slice, *extra])),
            "from_pool": pack_ints([pools[row.pool] for row in rows]),
            "job_ids": jobs.all(),
            "from_pools": pools.all(),
        }

    def _refused(self, ask: AskedRow, refusal: Refusal) -> PreemptionRefused:
        kinds, victim = self._queues.kinds, refusal.victim
        return PreemptionRefused(
            job_id=ask.job_id,
            first=ask.first,
            count=ask.count,
            run=ask.run,
            code=refusal.code,
            victim_job_id=victim.job_id if victim else "",
            victim_instance=int(victim.instances[0]) if victim else 0,
            victim_run=int(victim.run[0]) if victim else 0,
            wanted=kinds.amounts(refusal.wanted) if refusal.wanted else {},
            free=kinds.amounts(refusal.free) if refusal.free else {},
            cause=ask.cause.record,
        )


def why(ways: set[int], flags: int) -> str:
    """The code of an order whose victims go in these ways for a gang with these flags."""
    if Way.GIVE in ways:
        return Code.BELOW_RESERVATION if flags & Flag.BELOW_RESERVATION else Code.BELOW_ENTITLEMENT
    return Code.HIGHER_PRIORITY if ways == {Way.OWN} else Code.HOSTS_CLEARED


def _takeable(way: int, giver: Giver, right: Right, taken: Vector, need: Vector) -> Vector:
    """What may be taken from a pool for a gang in a way, of the kinds that it needs."""
    if way == Way.CLEAR:
        amounts = giver.spare
    elif way == Way.GIVE:
        amounts = tuple(map(min, giver.excess, subtract(right.others, taken)))
    else:
        return ()
    return tuple([max(0, amount) if want else 0 for amount, want in zip(amounts, need, strict=True)])
