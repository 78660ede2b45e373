"""Preemptions that placement requests are ordered or refused, by the rules that it planned by, on exact numbers.

Each request has one answer, in the order in which requests came. Each victim is judged on what the ones before it, of
this request and of those ordered in the same pass, have left; single tasks that are alike are counted, not judged one
by one. For a parked claim the room that limits leave is found too: runs that borrowed it leave.
"""

from collections import deque
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
from processors.entitlement.admission.admit import Admission, rank_record
from processors.entitlement.admission.pass_usage import PassUsage
from processors.entitlement.bounds import ENTITLEMENT, LIMITS, Ask, exceeds, room
from processors.entitlement.preemption.rights import Claims, RangesOfParts
from processors.entitlement.preemption.victims import (
    LimitVictims,
    PlacedRuns,
    Taker,
    Victims,
    order_columns,
    placed_unit,
)
from processors.entitlement.queues.parts import Unit
from processors.entitlement.rows import JobRow
from processors.entitlement.state import State
from processors.state.causes import CauseRow
from processors.state.preemption_rules import Flag, Right, may_go, slice_ms, takeable, times, victim_of
from processors.state.seconds import elapsed
from processors.state.steps import Pass
from processors.state.table import Table, struct_table

NONE = np.zeros(0, dtype=np.int64)


class RequestRow(msgspec.Struct, frozen=True, array_like=True):
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
        """The unit for which others would leave."""
        return Unit(self.job_id, self.first, self.count, self.run)


class VictimGroup(NamedTuple):
    """Victims of a request that stand together: a gang, or single tasks of a job that leave in one way."""

    job_id: str
    instances: I64
    run: I32
    way: int


class Denial(NamedTuple):
    """Why a request is refused; `victim` is None where it isn't about one."""

    code: str
    victim: VictimGroup | None = None
    need: Vector = ()
    free: Vector = ()


class Confirmation:
    """Answers requests one after another, in one pass."""

    def __init__(self, state: State, claims: Claims, victims: LimitVictims, usage: PassUsage, now: int) -> None:
        self._state = state
        self._queues = state.queues
        self._claims = claims
        self._victims = victims
        self._departures = victims.departures
        self._usage = usage
        self._now = now
        self._orders = state.cell.orders
        self._rights: RangesOfParts = {}

    def answer(self, request: RequestRow, budget: int) -> Event:
        """Return the order for a request, or its refusal. `budget`: so many tasks may leave under limits."""
        before = self._departures.mark()
        answer = self._answer(request, budget)
        if isinstance(answer, Denial):
            self._departures.undo(before)
            return self._refused(request, answer)
        return answer

    def _answer(self, request: RequestRow, budget: int) -> Event | Denial:
        if not request.job_id:
            return self._leaving_host(request)
        if not self._claims.is_claim(request.unit):
            return Denial(Code.VOID)
        taker, parked = self._queues.jobs[request.job_id], self._claims.is_parked(request.unit)
        slots = np.arange(request.first, request.first + request.count) + taker.base
        need = self._queues.total_need(taker, slots)
        right = self._claims.right(request.unit, self._now, self._rights)
        if not len(request.job) and not parked:
            return Denial(Code.VOID)  # it has a place, and needs no victims
        if len(request.job) and right is None:
            return Denial(Code.NO_RIGHT)
        if self._is_beyond_bound(request):
            return Denial(Code.MOVES_REACHED)
        by_slice = self._judge(request, taker, need, right) if right is not None else NONE
        if isinstance(by_slice, Denial):
            return by_slice
        under_limits: list[Victims] = []
        if parked:
            victims, free = self._make_room(request.unit, taker, need, budget), self._limit(taker, need)
            if victims is None or not (len(request.job) or victims or fits(need, free)):
                return Denial(Code.LIMIT_REACHED, None, need, free)
            under_limits = victims
            self._usage.take(taker.pool, 0, need)
            if not len(request.job) and not victims:
                admission = Admission(request.job_id, taker, slots, request.count > 1, Rank.ENTITLED)
                return rank_record(self._queues, [admission], request.cause.record)
        self._orders += 1
        flags = right.flags if right is not None else 0
        return self._ordered(request, taker, flags, by_slice, under_limits)

    def _is_beyond_bound(self, request: RequestRow) -> bool:
        """Whether more would be moved for a job than whoever asked for room allows, or the cell in an hour."""
        per_hour = self._state.cell.settings.rebalance_moves_per_hour
        bound = self._state.rebalances.bound(request.job_id, per_hour, self._now)
        return bound is not None and int((ints(request.way) == Way.MOVE).sum()) > bound

    # Victims on hosts.

    def _leaving_host(self, request: RequestRow) -> Event | Denial:
        """Runs that leave a host which offers less than they hold, for no job: only what is preemptible, and isn't
        spared by sla. Neither caps nor slices keep them there.
        """
        for group in self._groups(request):
            for victim, slots in self._split_alike(group) if len(group.run) > 1 else self._alone(group):
                if slots is None:
                    return Denial(Code.VICTIM_GONE, victim)
                row = self._queues.jobs[victim.job_id]
                if not row.preemptible:
                    return Denial(Code.NON_PREEMPTIBLE, victim)
                if self._state.displacements.spared_ms(victim.job_id, victim.instances.tolist(), self._now):
                    return Denial(Code.DEFERRED, victim)
                self._departures.add(row.pool, slots, self._queues.total_need(row, slots))
        if not len(request.job):
            return Denial(Code.VOID)
        self._orders += 1
        return PreemptionsOrdered.pack(
            order=self._orders,
            **self._columns(request, np.zeros(len(ints(request.job)), dtype=np.int64), []),
            for_pool="",
            for_job="",
            for_first=0,
            for_count=0,
            for_run=0,
            host_ids=request.host_ids,
            code=Code.HOST_SHRUNK,
            cause=request.cause.record,
        )

    def _judge(self, request: RequestRow, taker: JobRow, need: Vector, right: Right) -> I64 | Denial:
        """Return for each victim of a request whether it leaves by its slice; or why one of them stays."""
        right = right._replace(others=add(right.others, self._departures.of_pool(taker.pool)))
        transfer, slices = self._queues.nothing, [NONE]
        for group in self._groups(request):
            for victim, slots in self._split_alike(group) if len(group.run) > 1 else self._alone(group):
                if slots is None:
                    return Denial(Code.VICTIM_GONE, victim)
                judged = self._judge_alike(victim, slots, taker, need, right, transfer)
                if isinstance(judged, Denial):
                    return judged
                transfer, by_slice = judged
                slices.append(by_slice)
        return np.concatenate(slices)

    def _judge_alike(
        self, group: VictimGroup, slots: I64, taker: JobRow, need: Vector, right: Right, transfer: Vector
    ) -> tuple[Vector, I64] | Denial:
        """Lets a gang leave, or single tasks that are alike; returns what is taken by then, and which of them leave by
        their slices.
        """
        row, way = self._queues.jobs[group.job_id], group.way
        size = len(slots) if group.instances[0] < row.gang_min else 1
        unit = placed_unit(self._state, group.job_id, row, slots[:size], self._now)
        for_revocable = self._queues.kinds.is_revocable(need)
        victim = victim_of(unit, taker.pool, taker.precedence, for_revocable)
        spared = self._state.displacements.spared_ms(group.job_id, group.instances[:size].tolist(), self._now)
        at, slices = 0, [NONE]
        while at < len(slots):
            giver = self._claims.giver(row.pool).less(self._departures.of_pool(row.pool))
            code, by_slice = may_go(way, victim, need, giver, right, transfer)
            if not code and spared:
                code = Code.DEFERRED
            if code:
                first = group._replace(instances=group.instances[at:], run=group.run[at:])
                return Denial(code, first, unit.amount, takeable(way, need, giver, right, transfer))
            units = min(times(way, unit.amount, need, giver, right, transfer), (len(slots) - at) // size)
            amount = scale(unit.amount, units)
            self._departures.add(row.pool, slots[at : at + units * size], amount)
            if way == Way.GIVE:
                transfer = add(transfer, amount)
            slices.append(np.full(units * size, by_slice, dtype=np.int64))
            at += units * size
        return transfer, np.concatenate(slices)

    def _groups(self, request: RequestRow) -> Iterator[VictimGroup]:
        """The victims of a request in their order."""
        if not same_length(request.job_ids, request.job, request.instance, request.victim_run, request.way):
            return
        columns = request.job, request.instance, request.victim_run, request.way
        job, instance, run, way = (ints(column) for column in columns)
        if len(job) == 1:
            yield VictimGroup(request.job_ids[job[0]], instance.astype(np.int64), run, int(way[0]))
            return
        row_of = [self._queues.jobs.get(job_id) for job_id in request.job_ids]
        gang_min = np.array([row.gang_min if row else 0 for row in row_of])[job]
        member = instance < gang_min
        starts = np.ones(len(job), dtype=np.bool_)
        starts[1:] = (np.diff(job) != 0) | (np.diff(way) != 0) | (member[1:] != member[:-1])
        edges = np.append(np.flatnonzero(starts), len(job)).tolist()
        for start, end in pairwise(edges):
            instances = instance[start:end].astype(np.int64)
            yield VictimGroup(request.job_ids[job[start]], instances, run[start:end], int(way[start]))

    def _alone(self, group: VictimGroup) -> Iterator[tuple[VictimGroup, I64 | None]]:
        """The same of one task by itself."""
        row, instance = self._queues.jobs.get(group.job_id), int(group.instances[0])
        if row is None or instance < row.gang_min:
            yield from self._split_alike(group)
            return
        slots, arena = group.instances + row.base, self._queues.arena
        good = 0 <= instance < row.instances and arena["placed"][slots[0]] == group.run[0]
        good = bool(good and arena["leaving"][slots[0]] == 0 and not self._departures.leave(slots)[0])
        yield group, slots if good else None

    def _split_alike(self, group: VictimGroup) -> Iterator[tuple[VictimGroup, I64 | None]]:
        """A gang and its slots; of single tasks those that are alike one after another. None: one of them has no place
        any more, or isn't the whole gang.
        """
        row = self._queues.jobs.get(group.job_id)
        if row is None:
            yield group, None
            return
        instances, slots = group.instances, group.instances + row.base
        good = (instances >= 0) & (instances < row.instances)
        slots = np.where(good, slots, row.base)
        arena = self._queues.arena
        good &= (arena["placed"][slots] == group.run) & (arena["leaving"][slots] == 0) & ~self._departures.leave(slots)
        if instances[0] < row.gang_min:
            members = self._queues.gang(row)
            whole = members[arena["placed"][members] > 0]
            yield group, slots if good.all() and np.array_equal(np.sort(slots), whole) else None
            return
        again = np.ones(len(slots), dtype=np.bool_)
        again[np.unique(slots, return_index=True)[1]] = False
        good &= ~again
        starts = np.ones(len(slots), dtype=np.bool_)
        # Tasks that were never displaced have the same past once their first slice is over, or none yet.
        if group.job_id not in self._state.displacements:
            settings = self._state.cell.settings
            first_slice_over = elapsed(self._now - slice_ms(settings.turn_for_ms, 0, settings.turn_doublings))
            borrowed, over = arena["rank"][slots] == Rank.BORROWED, arena["placed_s"][slots] <= first_slice_over
            for column in (good, arena["shape"][slots], borrowed, over):
                starts[1:] &= column[1:] == column[:-1]
            starts = ~starts
            starts[0] = True
        for start, end in pairwise(np.append(np.flatnonzero(starts), len(slots)).tolist()):
            victim = VictimGroup(group.job_id, instances[start:end], group.run[start:end], group.way)
            yield victim, slots[start:end] if good[start] else None

    # Room under limits.

    def _make_room(self, unit: Unit, taker: JobRow, need: Vector, budget: int) -> list[Victims] | None:
        """Orders others to leave so that limits have room for a parked claim; returns them. None: not enough can be
        freed.
        """
        # It is counted as entitled itself, and so are claims behind it, which would be borrowed before it.
        ahead = subtract(self._usage.entitled(taker.pool, taker.priority), add(need, self._claims.behind(unit)))
        if exceeds(need, subtract(ENTITLEMENT.allows(self._usage, taker.pool), ahead)):
            return None  # its pool isn't entitled to it any more
        right = self._claims.own_right(taker.pool, need, self._claims.ahead(unit))
        units, victims = self._victims.make_room(Taker(taker.pool, taker.priority, need, right), 1, self._usage, budget)
        return victims if units else None

    def _limit(self, taker: JobRow, need: Vector) -> Vector:
        """The amount that limits leave beside what is kept for all others."""
        return room(self._usage, Ask(taker.pool, 0, taker.priority, need, lent=True), (LIMITS,))

    # Records.

    def _ordered(
        self, request: RequestRow, taker: JobRow, flags: int, by_slice: I64, under_limits: list[Victims]
    ) -> PreemptionsOrdered:
        ways = {*ints(request.way).tolist()}
        return PreemptionsOrdered.pack(
            order=self._orders,
            **self._columns(request, by_slice, under_limits),
            for_pool=taker.pool,
            for_job=request.job_id,
            for_first=request.first,
            for_count=request.count,
            for_run=request.run,
            host_ids=request.host_ids,
            spared=request.spared,
            code=str(self._order_code(request.job_id, taker, ways, flags)),
            cause=request.cause.record,
        )

    def _order_code(self, job_id: str, taker: JobRow, ways: set[int], flags: int) -> str:
        if taker.daemon:
            return Code.FOR_DAEMON
        if not ways:
            return Code.LIMIT_REACHED
        if ways == {Way.MOVE} and self._state.rebalances.is_on(job_id, self._now):
            return Code.REBALANCED
        return order_code(ways, flags)

    def _columns(self, request: RequestRow, by_slice: I64, under_limits: list[Victims]) -> dict[str, Any]:
        """The runs that leave: those that were requested, then those that free what limits leave."""
        bases = [self._queues.jobs[job_id].base for job_id in request.job_ids]
        requested = ints(request.instance) + np.array(bases, dtype=np.int64)[ints(request.job)] if bases else NONE
        slots = np.concatenate([requested, *(each.slots for each in under_limits)])
        ways = np.concatenate([ints(request.way), np.full(len(slots) - len(requested), Way.LIMIT)])
        extra = [np.full(len(each.slots), each.by_slice, dtype=np.int64) for each in under_limits]
        return order_columns(self._queues, slots, ways, np.concatenate([by_slice, *extra]))

    def _refused(self, request: RequestRow, denial: Denial) -> PreemptionRefused:
        kinds, victim = self._queues.kinds, denial.victim
        return PreemptionRefused(
            job_id=request.job_id,
            first=request.first,
            count=request.count,
            run=request.run,
            code=denial.code,
            victim_job_id=victim.job_id if victim else "",
            victim_instance=int(victim.instances[0]) if victim else 0,
            victim_run=int(victim.run[0]) if victim else 0,
            wanted=kinds.amounts(denial.need) if denial.need else {},
            free=kinds.amounts(denial.free) if denial.free else {},
            cause=request.cause.record,
        )


def order_code(ways: set[int], flags: int) -> str:
    """Return the code of an order whose victims leave in these ways for a gang with these flags."""
    if Way.GIVE in ways:
        return Code.BELOW_RESERVATION if flags & Flag.BELOW_RESERVATION else Code.BELOW_ENTITLEMENT
    return Code.HIGHER_PRIORITY if ways == {Way.OWN} else Code.HOSTS_CLEARED


class PreemptionRequests:
    """The table `preemptions_asked`: requests by number, in the order in which they came. Decides their answers."""

    def __init__(self, state: State, claims: Claims, runs: PlacedRuns) -> None:
        self._state = state
        self._queues = state.queues
        self._claims = claims
        self._runs = runs
        self.table: Table[int, RequestRow] = struct_table("preemptions_asked", RequestRow, int)
        self._numbers: deque[int] = deque()

    def restored(self) -> None:
        """Finds the order of the requests again."""
        self._numbers = deque(sorted(self.table))

    def add(self, event: PreemptionAsked, cause: CauseRow) -> None:
        """Adds a request of placement."""
        row = RequestRow(
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
        number = self._numbers[-1] + 1 if self._numbers else 1
        self.table.put(number, row)
        self._numbers.append(number)

    def close(self, event: PreemptionsOrdered | PreemptionRefused | AdmissionsRanked, now: int) -> None:
        """Removes the first request, which has its answer. An order under a limit is none, and of ranks only that of
        its own unit is.
        """
        if not self.table or (isinstance(event, PreemptionsOrdered) and not event.host_ids):
            return
        first = self._numbers[0]
        if isinstance(event, AdmissionsRanked) and self.table[first].unit not in _entitled_units(event):
            return
        self.table.remove(self._numbers.popleft())

    def pools(self) -> set[str]:
        """Return the pools by whose numbers requests are answered: those of the claims, and of their victims."""
        jobs = {job_id for row in self.table.values() if row.job for job_id in (row.job_id, *row.job_ids)}
        return {self._queues.jobs[job_id].pool for job_id in jobs if job_id in self._queues.jobs}

    def decide(self, this: Pass) -> list[Event]:
        """Return the answers to the first requests, as far as the budget goes; a request costs its victims."""
        now, budget = this.now, this.budget.left
        out: list[Event] = []
        if not len(self.table):
            return out
        victims = LimitVictims(self._state, self._claims, self._runs, now)
        confirmation = Confirmation(self._state, self._claims, victims, PassUsage(self._state), now)
        for number in self._numbers:
            row = self.table[number]
            budget -= 1 + len(row.job) // 4
            if out and budget < 0:
                break
            out.append(confirmation.answer(row, max(1, budget)))
        return out


def _entitled_units(event: AdmissionsRanked) -> set[Unit]:
    """The units that are claims from now on."""
    columns = (event.job_array, event.first_array, event.count_array, event.run_array, ranks_of(event))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    units = ((Unit(event.job_ids[job], first, size, run), rank) for job, first, size, run, rank in rows)
    return {unit for unit, rank in units if rank == Rank.ENTITLED}
