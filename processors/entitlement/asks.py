"""What placement asks for is ordered, or refused with the victim and the numbers: each ask has one answer, in order.

The rules are those that placement planned by (`processors/state/preemption_rules.py`), here on exact numbers: each
victim is judged on what the ones before it, of this ask and of those ordered in the same pass, have left.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from events.codes import Code, Way
from events.columns import I32, I64, Names, ints, pack_ints, same_length
from events.records.base import Event
from events.records.entitlement import PreemptionRefused, PreemptionsOrdered
from events.records.placement import PreemptionAsked
from events.resources import Vector, add, subtract
from processors.entitlement.claims import Claims
from processors.entitlement.queues import Queues
from processors.entitlement.rows import BORROWED, CellRow, JobRow
from processors.state.causes import CauseRow
from processors.state.displacements import Displacements
from processors.state.preemption_rules import Flag, Giver, Right, Victim, may_go, slice_ms
from processors.state.seconds import milliseconds
from processors.state.table import Table, struct_table

NONE = np.zeros(0, dtype=np.bool_)


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


class Asks:
    """The table `preemptions_asked`: asks by number, in the order in which they came."""

    def __init__(self, claims: Claims, queues: Queues, cell: Table[str, CellRow], displacements: Displacements) -> None:
        self._claims = claims
        self._queues = queues
        self._cell = cell
        self._displacements = displacements
        self.table: Table[int, AskedRow] = struct_table("preemptions_asked", AskedRow, int)

    def asked(self, event: PreemptionAsked, cause: CauseRow) -> None:
        """Placement asks."""
        row = AskedRow(
            event.job_id,
            event.first,
            event.count,
            event.run,
            event.host_ids,
            event.job_ids,
            event.job,
            event.instance,
            event.victim_run,
            event.way,
            dict(event.spared),
            cause,
        )
        self.table.put(max(self.table, default=0) + 1, row)

    def answered(self, event: PreemptionsOrdered | PreemptionRefused) -> None:
        """The first ask has its answer; an order under a limit isn't one."""
        if self.table and (isinstance(event, PreemptionRefused) or event.host_ids):
            self.table.remove(min(self.table))

    def answers(self, now: int, budget: int) -> list[Event]:
        """The answers to the first asks, as far as the budget goes; an ask costs its victims."""
        out: list[Event] = []
        judge = Judge(self._claims, self._queues, self._cell["cell"], self._displacements, now)
        for number in sorted(self.table):
            row = self.table[number]
            budget -= 1 + len(row.job) // 4
            if out and budget < 0:
                break
            out.append(judge.answer(row))
        return out


class Judge:
    """Judges asks one after another, as the ones before it that were ordered have left the numbers."""

    def __init__(self, claims: Claims, queues: Queues, cell: CellRow, displacements: Displacements, now: int) -> None:
        self._claims = claims
        self._queues = queues
        self._cell = cell
        self._displacements = displacements
        self._now = now
        self._orders = cell.orders
        self._given: dict[str, Vector] = {}
        """What victims of this pass hold, by pool."""
        self._gone: set[int] = set()
        """Their slots."""

    def answer(self, ask: AskedRow) -> Event:
        """The order for an ask, or why there is none."""
        if not self._claims.is_claim(ask.unit):
            return self._refused(ask, Refusal(Code.VOID))
        right = self._claims.right(ask.unit, self._now)
        if right is None:
            return self._refused(ask, Refusal(Code.NO_RIGHT))
        taker = self._queues.jobs[ask.job_id]
        right = right._replace(others=add(right.others, self._given.get(taker.pool, self._queues.nothing)))
        given, gone, taken = dict(self._given), set(self._gone), self._queues.nothing
        need, slices = self._need(ask, taker), [NONE]
        for victim in self._named(ask):
            mine = self._slots(victim, gone)
            if mine is None:
                return self._refused(ask, Refusal(Code.VICTIM_GONE, victim))
            row = self._queues.jobs[victim.job_id]
            facts = self._facts(victim, row, mine, taker)
            giver = self._claims.giver(row.pool).less(given.get(row.pool, self._queues.nothing))
            code, by_slice = may_go(victim.way, facts, need, giver, right, taken)
            if not code and self._displacements.spared_ms(victim.job_id, victim.instances.tolist(), self._now):
                code = Code.DEFERRED
            if code:
                free = _takeable(victim.way, giver, right, taken, need)
                return self._refused(ask, Refusal(code, victim, facts.amount, free))
            slices.append(np.full(len(mine), by_slice))
            given[row.pool] = add(given.get(row.pool, self._queues.nothing), facts.amount)
            gone.update(mine.tolist())
            if victim.way == Way.GIVE:
                taken = add(taken, facts.amount)
        self._given, self._gone = given, gone
        self._orders += 1
        return self._ordered(ask, taker, right, np.concatenate(slices))

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

    def _slots(self, victim: Named, gone: set[int]) -> I64 | None:
        """The slots of a victim, a whole unit; None: it isn't there, or not whole."""
        row = self._queues.jobs.get(victim.job_id)
        if row is None or victim.instances.min() < 0 or victim.instances.max() >= row.instances:
            return None
        arena, slots = self._queues.arena, victim.instances + row.base
        here = (arena["placed"][slots] == victim.run) & (arena["leaving"][slots] == 0)
        if not here.all() or not gone.isdisjoint(slots.tolist()):
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

    def _need(self, ask: AskedRow, taker: JobRow) -> Vector:
        slots = np.arange(ask.first, ask.first + ask.count) + taker.base
        return self._queues.asked(taker, slots)

    def _ordered(self, ask: AskedRow, taker: JobRow, right: Right, by_slice: NDArray[np.bool_]) -> PreemptionsOrdered:
        pools = Names()
        jobs = ints(ask.job)
        ways = {*ints(ask.way).tolist()}
        from_pool = [pools[self._queues.jobs[ask.job_ids[job]].pool] for job in jobs.tolist()]
        return PreemptionsOrdered(
            order=self._orders,
            job_ids=ask.job_ids,
            job=ask.job,
            instance=ask.instance,
            run=ask.victim_run,
            way=ask.way,
            slice=pack_ints(by_slice.astype("<i4")),
            from_pools=pools.all(),
            from_pool=pack_ints(from_pool),
            for_pool=taker.pool,
            for_job=ask.job_id,
            for_first=ask.first,
            for_count=ask.count,
            for_run=ask.run,
            host_ids=ask.host_ids,
            spared=ask.spared,
            code=why(ways, right.flags),
            cause=ask.cause.record,
        )

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
