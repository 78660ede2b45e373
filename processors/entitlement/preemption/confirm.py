"""Preemptions that placement asks for are ordered or refused, by the rules that it planned by, on exact numbers.

Each ask has one answer, in order. Each victim is judged on what the ones before it, of this ask and of those ordered in
the same pass, have left; single tasks that are alike are counted, not gone through. For a parked claim the room that
limits leave is found too: what was lent of it leaves.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np

from events.codes import Code, Way
from events.columns import I32, I64, ints, same_length
from events.ranks import Rank, ranks_of
from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, PreemptionRefused, PreemptionsOrdered
from events.records.placement import PreemptionAsked
from events.resources import Vector, add, fits, scale, subtract
from processors.entitlement.admission.admit import Admission, ranked
from processors.entitlement.admission.pass_usage import PassUsage
from processors.entitlement.bounds import LIMITS, Ask, room
from processors.entitlement.preemption.unplaced import Claims
from processors.entitlement.preemption.victims import Chosen, LimitVictims, Taker, columns
from processors.entitlement.queues.parts import Unit
from processors.entitlement.queues.placed_runs import PlacedRuns
from processors.entitlement.rows import JobRow
from processors.entitlement.state import State
from processors.state.causes import CauseRow
from processors.state.preemption_rules import Flag, Giver, Right, Victim, may_go, protection, times, yields
from processors.state.seconds import elapsed
from processors.state.steps import Pass
from processors.state.table import Table, struct_table

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
    def unit(self) -> Unit:
        """The unit for which it asks."""
        return Unit(self.job_id, self.first, self.count, self.run)


class Named(NamedTuple):
    """Victims as they are asked for, one after another: a gang, or single tasks of a job that go in one way."""

    job_id: str
    instances: I64
    run: I32
    way: int


class Denial(NamedTuple):
    """Why an ask is refused; `victim` is None where it isn't about one."""

    code: str
    victim: Named | None = None
    wanted: Vector = ()
    free: Vector = ()


class Judge:
    """Judges asks one after another."""

    def __init__(self, state: State, claims: Claims, victims: LimitVictims, usage: PassUsage, now: int) -> None:
        self._queues = state.queues
        self._cell = state.cell
        self._displacements = state.displacements
        self._claims = claims
        self._victims = victims
        self._usage = usage
        self._now = now
        self._orders = state.cell.orders

    def answer(self, ask: AskedRow, budget: int) -> Event:
        """The order for an ask, or why there is none. `budget`: so many tasks may leave so that limits have room."""
        before = self._victims.mark()
        answer = self._answer(ask, budget)
        if isinstance(answer, Denial):
            self._victims.back_to(before)
            return self._refused(ask, answer)
        return answer

    def _answer(self, ask: AskedRow, budget: int) -> Event | Denial:
        if not self._claims.is_claim(ask.unit):
            return Denial(Code.VOID)
        taker, parked = self._queues.jobs[ask.job_id], self._claims.is_parked(ask.unit)
        slots = np.arange(ask.first, ask.first + ask.count) + taker.base
        need = self._queues.asked(taker, slots)
        right = self._claims.right(ask.unit, self._now)
        if not len(ask.job) and not parked:
            return Denial(Code.VOID)  # it has a place, and needs nobody to leave
        if len(ask.job) and right is None:
            return Denial(Code.NO_RIGHT)
        by_slice = self._leave(ask, taker, need, right) if right is not None else NONE
        if isinstance(by_slice, Denial):
            return by_slice
        under_limits: list[Chosen] = []
        if parked:
            found, free = self._under_limits(ask.unit, taker, need, budget), self._limit(taker, need)
            if found is None or not (len(ask.job) or found or fits(need, free)):
                return Denial(Code.LIMIT_REACHED, None, need, free)
            under_limits = found
            self._usage.take(taker.pool, 0, need)
            if not len(ask.job) and not found:
                admission = Admission(ask.job_id, taker, slots, ask.count > 1, Rank.ENTITLED)
                return ranked(self._queues, [admission], ask.cause.record)
        self._orders += 1
        flags = right.flags if right is not None else 0
        return self._ordered(ask, taker, flags, by_slice, under_limits)

    def _leave(self, ask: AskedRow, taker: JobRow, need: Vector, right: Right) -> I64 | Denial:
        """For each run that is asked for whether it goes by its slice; or why one of them stays."""
        right = right._replace(others=add(right.others, self._victims.given(taker.pool)))
        taken, slices = self._queues.nothing, [NONE]
        for named in self._named(ask):
            for victim, mine in self._alike(named):
                if mine is None:
                    return Denial(Code.VICTIM_GONE, victim)
                found = self._go(victim, mine, taker, need, right, taken)
                if isinstance(found, Denial):
                    return found
                taken, by_slice = found
                slices.append(by_slice)
        return np.concatenate(slices)

    def _go(
        self, victim: Named, slots: I64, taker: JobRow, need: Vector, right: Right, taken: Vector
    ) -> tuple[Vector, I64] | Denial:
        """Lets a gang go, or single tasks that are alike: what is taken by then, and which go by their slices."""
        row, way = self._queues.jobs[victim.job_id], victim.way
        size = len(slots) if victim.instances[0] < row.gang_min else 1
        facts = self._facts(victim, row, slots[:size], taker)
        spared = self._displacements.spared_ms(victim.job_id, victim.instances[:size].tolist(), self._now)
        at, slices = 0, [NONE]
        while at < len(slots):
            giver = self._claims.giver(row.pool).less(self._victims.given(row.pool))
            code, by_slice = may_go(way, facts, need, giver, right, taken)
            if not code and spared:
                code = Code.DEFERRED
            if code:
                first = victim._replace(instances=victim.instances[at:], run=victim.run[at:])
                return Denial(code, first, facts.amount, _takeable(way, giver, right, taken, need))
            units = min(times(way, facts.amount, need, giver, right, taken), (len(slots) - at) // size)
            amount = scale(facts.amount, units)
            self._victims.leave(row.pool, slots[at : at + units * size], amount)
            if way == Way.GIVE:
                taken = add(taken, amount)
            slices.append(np.full(units * size, by_slice, dtype=np.int64))
            at += units * size
        return taken, np.concatenate(slices)

    def _under_limits(self, unit: Unit, taker: JobRow, need: Vector, budget: int) -> list[Chosen] | None:
        """Who else has to leave so that limits have room for a parked claim; None: not enough can."""
        level = subtract(self._queues.usage[taker.pool].level(taker.priority), self._claims.behind(unit))
        entitlement = self._claims.entitlement(taker.pool)
        if any(want > 0 and have > most for want, have, most in zip(need, level, entitlement, strict=True)):
            return None  # its pool isn't entitled to it any more
        right = self._claims.own_right(taker.pool, need, self._claims.ahead(unit))
        units, chosen = self._victims.room_for(Taker(taker.pool, taker.priority, need, right), 1, self._usage, budget)
        return chosen if units else None

    def _limit(self, taker: JobRow, need: Vector) -> Vector:
        """The amount that limits leave beside what is kept for all others."""
        return room(self._usage, Ask(taker.pool, 0, taker.priority, need, lent=True), (LIMITS,))

    def _named(self, ask: AskedRow) -> Iterator[Named]:
        """The victims of an ask in their order."""
        if not same_length(ask.job_ids, ask.job, ask.instance, ask.victim_run, ask.way):
            return
        job, instance, run, way = (ints(column) for column in (ask.job, ask.instance, ask.victim_run, ask.way))
        row_of = [self._queues.jobs.get(job_id) for job_id in ask.job_ids]
        gang_min = np.array([row.gang_min if row else 0 for row in row_of])[job]
        member = instance < gang_min
        starts = np.ones(len(job), dtype=np.bool_)
        starts[1:] = (np.diff(job) != 0) | (np.diff(way) != 0) | (member[1:] != member[:-1])
        edges = np.append(np.flatnonzero(starts), len(job)).tolist()
        for start, end in pairwise(edges):
            instances = instance[start:end].astype(np.int64)
            yield Named(ask.job_ids[job[start]], instances, run[start:end], int(way[start]))

    def _alike(self, named: Named) -> Iterator[tuple[Named, I64 | None]]:
        """A gang and its slots; of single tasks those that are alike one after another. None: one isn't there, or
        not whole.
        """
        row = self._queues.jobs.get(named.job_id)
        if row is None:
            yield named, None
            return
        instances, slots = named.instances, named.instances + row.base
        good = (instances >= 0) & (instances < row.instances)
        slots = np.where(good, slots, row.base)
        arena = self._queues.arena
        good &= (arena["placed"][slots] == named.run) & (arena["leaving"][slots] == 0) & ~self._victims.are_gone(slots)
        if instances[0] < row.gang_min:
            members = self._queues.gang(row)
            whole = members[arena["placed"][members] > 0]
            yield named, slots if good.all() and np.array_equal(np.sort(slots), whole) else None
            return
        again = np.ones(len(slots), dtype=np.bool_)
        again[np.unique(slots, return_index=True)[1]] = False
        good &= ~again
        starts = np.ones(len(slots), dtype=np.bool_)
        if named.job_id not in self._displacements:
            first_slice_over = elapsed(self._now - self._cell.settings.turn_for_ms)
            borrowed, over = arena["rank"][slots] == Rank.BORROWED, arena["placed_s"][slots] <= first_slice_over
            for what in (good, arena["shape"][slots], borrowed, over):
                starts[1:] &= what[1:] == what[:-1]
            starts = ~starts
            starts[0] = True
        for start, end in pairwise(np.append(np.flatnonzero(starts), len(slots)).tolist()):
            victim = Named(named.job_id, instances[start:end], named.run[start:end], named.way)
            yield victim, slots[start:end] if good[start] else None

    def _facts(self, victim: Named, row: JobRow, slots: I64, taker: JobRow) -> Victim:
        """What counts of a unit."""
        name, instances, arena = victim.job_id, victim.instances[: len(slots)].tolist(), self._queues.arena
        placed_s, borrowed = int(arena["placed_s"][slots].max()), bool((arena["rank"][slots] == Rank.BORROWED).any())
        return Victim(
            self._queues.asked(row, slots),
            row.pool == taker.pool,
            yields(row.priority, borrowed, taker.rank),
            row.preemptible,
            *protection(self._displacements, name, instances, placed_s, self._cell.settings, self._now),
        )

    def _ordered(
        self, ask: AskedRow, taker: JobRow, flags: int, by_slice: I64, under_limits: list[Chosen]
    ) -> PreemptionsOrdered:
        ways = {*ints(ask.way).tolist()}
        return PreemptionsOrdered.pack(
            order=self._orders,
            **self._columns(ask, by_slice, under_limits),
            for_pool=taker.pool,
            for_job=ask.job_id,
            for_first=ask.first,
            for_count=ask.count,
            for_run=ask.run,
            host_ids=ask.host_ids,
            spared=ask.spared,
            code=Code.FOR_DAEMON if taker.daemon else why(ways, flags) if ways else Code.LIMIT_REACHED,
            cause=ask.cause.record,
        )

    def _columns(self, ask: AskedRow, by_slice: I64, under_limits: list[Chosen]) -> dict[str, Any]:
        """The runs that leave: those that were asked for, then those that free what limits leave."""
        bases = [self._queues.jobs[job_id].base for job_id in ask.job_ids]
        asked = ints(ask.instance) + np.array(bases, dtype=np.int64)[ints(ask.job)] if bases else NONE
        slots = np.concatenate([asked, *(each.slots for each in under_limits)])
        ways = np.concatenate([ints(ask.way), np.full(len(slots) - len(asked), Way.LIMIT)])
        extra = [np.full(len(each.slots), each.by_slice, dtype=np.int64) for each in under_limits]
        return columns(self._queues, slots, ways, np.concatenate([by_slice, *extra]))

    def _refused(self, ask: AskedRow, denial: Denial) -> PreemptionRefused:
        kinds, victim = self._queues.kinds, denial.victim
        return PreemptionRefused(
            job_id=ask.job_id,
            first=ask.first,
            count=ask.count,
            run=ask.run,
            code=denial.code,
            victim_job_id=victim.job_id if victim else "",
            victim_instance=int(victim.instances[0]) if victim else 0,
            victim_run=int(victim.run[0]) if victim else 0,
            wanted=kinds.amounts(denial.wanted) if denial.wanted else {},
            free=kinds.amounts(denial.free) if denial.free else {},
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


class Asks:
    """The table `preemptions_asked`: asks by number, in the order in which they came."""

    def __init__(self, state: State, claims: Claims, runs: PlacedRuns) -> None:
        self._state = state
        self._queues = state.queues
        self._claims = claims
        self._runs = runs
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

    def answered(self, event: PreemptionsOrdered | PreemptionRefused | AdmissionsRanked, now: int) -> None:
        """The first ask has its answer; an order under a limit isn't one, and of ranks only that of its own unit."""
        if not self.table or (isinstance(event, PreemptionsOrdered) and not event.host_ids):
            return
        first = min(self.table)
        if isinstance(event, AdmissionsRanked) and self.table[first].unit not in claims_of(event):
            return
        self.table.remove(first)

    def pools(self) -> set[str]:
        """The pools by whose numbers asks are answered: those of who asks, and of who is to leave."""
        jobs = {job_id for row in self.table.values() if row.job for job_id in (row.job_id, *row.job_ids)}
        return {self._queues.jobs[job_id].pool for job_id in jobs if job_id in self._queues.jobs}

    def answers(self, this: Pass) -> list[Event]:
        """The answers to the first asks, as far as the budget goes; an ask costs its victims."""
        now, budget = this.now, this.budget.left
        out: list[Event] = []
        if not len(self.table):
            return out
        victims = LimitVictims(self._state, self._claims, self._runs, now)
        judge = Judge(self._state, self._claims, victims, PassUsage(self._state), now)
        for number in sorted(self.table):
            row = self.table[number]
            budget -= 1 + len(row.job) // 4
            if out and budget < 0:
                break
            out.append(judge.answer(row, max(1, budget)))
        return out


def claims_of(event: AdmissionsRanked) -> set[Unit]:
    """The units that are claims from now on."""
    columns = (event.job_array, event.first_array, event.count_array, event.run_array, ranks_of(event))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    units = ((Unit(event.job_ids[job], first, size, run), rank) for job, first, size, run, rank in rows)
    return {unit for unit, rank in units if rank == Rank.ENTITLED}
