"""Units that are entitled from now on, or no more: pool by pool, in the order of each queue, within all bounds.

A unit is entitled if what its pool has entitled at its priority and above, with it, is within the entitlement of the
pool. So a higher priority claims at once. Borrowed and waiting units are walked together: a borrowed one whose turn
comes is entitled from then on. The first that isn't blocks those of its class in its pool that need what it lacks, and
no others; what else it needs is kept for it. When the entitlement of a pool falls, the last of its claims are demoted.

Deciding changes nothing, so what is admitted in one pass is counted beside the state.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np

from events.codes import Code
from events.columns import I64
from events.ranks import Rank, entitled_of
from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, GangsAdmitted
from events.records.parts import Cause
from events.resources import Vector, add, fits, scale, subtract
from processors.entitlement.admission.pass_usage import PassUsage, PoolRoom
from processors.entitlement.bounds import (
    BOUNDS,
    CONTROLLERS_SHARE,
    ENTITLEMENT,
    LIMITS,
    RESERVATION,
    SLACK,
    Ask,
    Refusal,
    check,
    closed_at,
    exceeds,
    is_served_last,
    refuses_all,
)
from processors.entitlement.host_pools import Mask
from processors.entitlement.queues.order import ALL, bits, merged
from processors.entitlement.queues.parts import GANG, ROLES, Consumer, PartKey, range_columns
from processors.entitlement.queues.queues import Queues
from processors.entitlement.rows import JobRow
from processors.entitlement.state import State
from processors.state.causes import recorded
from processors.state.steps import Pass

ONE = np.ones(1, dtype=np.bool_)


class Admission(msgspec.Struct, frozen=True):
    """Units of a job that get a rank; `is_gang`: they are one unit."""

    job_id: str
    row: JobRow
    slots: I64
    is_gang: bool
    rank: Rank


class Head(NamedTuple):
    """The first part of a class that isn't entitled, of those that need what it lacks, and why; `aside`: the amount
    that is kept for the heads of its class before it; `blocks`: the kinds that it lacks, as `bits`.
    """

    part: PartKey
    why: Refusal
    kind: int
    aside: Vector
    blocks: int


@dataclass(slots=True)
class PassResult:
    """The units to which a pass gives another rank, by what becomes of them."""

    admit: list[Admission] = field(default_factory=list)
    """Units that waited: they are entitled."""
    lend: list[Admission] = field(default_factory=list)
    """Units that waited: they are borrowed."""
    promote: list[Admission] = field(default_factory=list)
    """Borrowed units: they are entitled, where they are."""
    demote: list[Admission] = field(default_factory=list)
    """Claims beyond the entitlement of their pool: they are borrowed."""
    park: list[Admission] = field(default_factory=list)
    """Claims: placement is to park them."""
    unpark: list[Admission] = field(default_factory=list)
    """Parked units for which limits have room: they are claims again."""

    def records(self, state: State) -> list[Event]:
        """Return the decisions. Units that waited follow from a change that gave room, others from the last one."""
        out: list[Event] = []
        for admissions in (self.demote, self.promote, self.park, self.unpark):
            if admissions:
                out.append(rank_record(state.queues, admissions, recorded(state.cell.last_by)))
        for admissions in (self.admit, self.lend):
            if admissions:
                columns = _range_columns(state.queues, admissions, "queued")
                strategy = _strategies(state, admissions, columns)
                out.append(GangsAdmitted.pack(**columns, strategy=strategy, cause=recorded(state.cell.room_by)))
        return out


def _strategies(state: State, admissions: list[Admission], columns: Mapping[str, Any]) -> I64 | None:
    """The strategy of the pool of each range; None: all pack."""
    pools = {each.job_id: each.row.pool for each in admissions}
    of_pool = {pool: state.strategy_of(pool) for pool in dict.fromkeys(pools.values())}
    if not any(of_pool.values()):
        return None
    of_job = np.array([of_pool[pools[job_id]] for job_id in columns["job_ids"]], dtype=np.int64)
    strategies: I64 = of_job[columns["job"]]
    return strategies


def rank_record(queues: Queues, admissions: list[Admission], cause: Cause | None) -> AdmissionsRanked:
    """Return the record of admitted units that get another rank."""
    return AdmissionsRanked.pack(**_range_columns(queues, admissions, "held"), cause=cause)


def _range_columns(queues: Queues, admissions: list[Admission], column: str) -> dict[str, Any]:
    """The columns of a record about ranges of tasks; `column`: that of their runs. Ranges that meet are one, in however
    many steps they were taken: a process that was restored takes in others. Two gangs are never one range.
    """
    units = [(each.job_id, each.row.base, each.is_gang, each.slots) for each in admissions]
    numbers: dict[tuple[str, int, int], int] = {}
    keys = [(each.job_id, each.rank, at if each.is_gang else -1) for at, each in enumerate(admissions)]
    alike = [numbers.setdefault(key, len(numbers)) for key in keys]
    columns, at = range_columns(units, queues.arena[column], alike)
    return {**columns, "entitled": entitled_of(np.array([each.rank for each in admissions])[at])}


class AdmissionPass:
    """One pass over pools, with a budget of tasks."""

    def __init__(self, state: State, budget: int) -> None:
        self.state = state
        self.usage = PassUsage(state)
        self.budget = budget
        self.result = PassResult()

    def serve(self, pool: str) -> list[Head]:
        """Serves the queues of a pool; returns the heads, in the order of the queue. The rest of the budget must be
        above 0 then, else there may be others.
        """
        return Walk(self, pool).serve()


class Walk:
    """The queues of one pool in one pass."""

    def __init__(self, admission: AdmissionPass, pool: str) -> None:
        self._pass = admission
        self._pool = pool
        self._state = admission.state
        self._queues = admission.state.queues
        self._order = admission.state.order
        self._usage = admission.state.usage
        self._room = PoolRoom(admission.usage, pool, self._queues.nothing)
        self._aside: dict[int, Vector] = {}
        """By class the amount that is kept for its heads."""

    def serve(self) -> list[Head]:
        """Return the heads of the pool; see `AdmissionPass.serve`."""
        closed = closed_at(self._state.pools, self._usage.levels(self._pool)) != ""
        heads: list[Head] = []
        blocked: dict[int, int] = {}
        for kind, place in merged(self._order[self._pool], blocked):
            part = place[-1]
            row = self._queues.jobs[part.job_id]
            ask = Ask(self._pool, kind, row.priority, need_of(self._queues, part, row))
            why = self._serve_part(part, row, ask, closed)
            if why is not None:
                aside = self._aside.get(kind, self._queues.nothing)
                blocks = self._block(part, row, ask, why, aside)
                heads.append(Head(part, why, kind, aside, blocks))
                blocked[kind] = blocked.get(kind, 0) | blocks
            if self._pass.budget <= 0:
                break
        self._room.counted()
        return heads

    def _block(self, part: PartKey, row: JobRow, ask: Ask, why: Refusal, aside: Vector) -> int:
        """Keeps what a head needs and there is for it; returns the kinds that it lacks, as `bits`."""
        if refuses_all(why.code):
            return ALL
        lacks = lacking(self._room, ask, row.parts[part.key].borrowed > 0, aside)
        more = [0 if short else want for want, short in zip(ask.need, lacks, strict=True)]
        self._aside[ask.kind] = add(aside, tuple(more))
        return blocked_by(lacks)

    def _serve_part(self, part: PartKey, row: JobRow, ask: Ask, closed: bool) -> Refusal | None:
        """Takes what it can of a part; returns why not more."""
        borrowed, waiting = row.parts[part.key].borrowed > 0, self._order.waits(part) and not closed
        most = fits(ask.need, self._entitled_room(ask, borrowed))
        if not most or (not borrowed and not waiting):
            return self._refusal(ask)
        limited = fits(ask.need, self._limit_room(ask)) if waiting else 0
        if part.key % ROLES == GANG:
            if waiting and not limited:
                return self._refusal(ask)
            slots = self._queues.gang(row) if waiting else self._queues.slots(row, part.key, "rank", Rank.BORROWED)
            self._take(part, row, ask, slots, np.full(len(slots), waiting))
            return None
        most = min(most, self._pass.budget)
        slots, waits, more = self._first_units(row, part.key, most, limited, borrowed, waiting)
        if len(slots):
            self._take(part, row, ask, slots, waits)
        return self._refusal(ask) if more and self._pass.budget > 0 else None

    def _entitled_room(self, ask: Ask, borrowed: bool) -> Vector:
        """The amount that units of a class may still get, without what is kept for heads before them."""
        aside, room = self._aside.get(ask.kind), self._room.entitled(ask, borrowed)
        return room if aside is None else subtract(room, aside)

    def _limit_room(self, ask: Ask) -> Vector:
        """The same within limits."""
        aside, room = self._aside.get(ask.kind), self._room.limited(ask)
        return room if aside is None else subtract(room, aside)

    def _refusal(self, ask: Ask) -> Refusal:
        """Why no further unit is taken."""
        refusal = check(self._room.counted(), ask, BOUNDS.told[ask.kind])
        if refusal is not None:
            return refusal
        return Refusal(Code.BEHIND_IN_QUEUE, self._pool) if ask.kind in self._aside else Refusal(LIMITS.code, "/")

    def _first_units(
        self, row: JobRow, key: int, most: int, limited: int, borrowed: bool, waiting: bool
    ) -> tuple[I64, np.ndarray, bool]:
        """The first units of a part that are borrowed or wait, at most so many and so many that wait; which of them
        wait; whether there are more.
        """
        if row.instances == 1 and limited and waiting and not borrowed:
            return np.array((row.base,)), ONE, False
        queue = self._queues.slots(row, key, "queued") if waiting else self._queues.slots(row, key, "queued")[:0]
        if not borrowed:
            count = min(most, limited, len(queue))
            return queue[:count], np.ones(count, dtype=np.bool_), count < len(queue)
        loans = self._queues.slots(row, key, "rank", Rank.BORROWED)
        slots = np.concatenate((loans, queue))
        order = np.argsort(slots, kind="stable")
        slots, waits = slots[order], order >= len(loans)
        count = min(most, int(np.searchsorted(np.cumsum(waits), limited, side="right")))
        return slots[:count], waits[:count], count < len(slots)

    def _take(self, part: PartKey, row: JobRow, ask: Ask, slots: I64, waits: np.ndarray) -> None:
        admission, new, is_gang = self._pass, slots[waits], part.key % ROLES == GANG
        tasks, news = len(slots), len(new)
        amount = ask.need if is_gang else scale(ask.need, tasks)
        fresh = None
        if news:
            admission.result.admit.append(Admission(part.job_id, row, new, is_gang, Rank.ENTITLED))
            fresh = amount if news == tasks else scale(ask.need, news)
        if news < tasks:
            admission.result.promote.append(Admission(part.job_id, row, slots[~waits], is_gang, Rank.ENTITLED))
        self._room.take(ask.kind, amount, fresh)
        admission.budget -= tasks


def lacking(room: PoolRoom, ask: Ask, borrowed: bool, aside: Vector) -> list[int]:
    """Return what rights and limits leave too little of for a unit, beside an amount that is kept for others."""
    free = subtract(tuple(map(min, room.entitled(ask, borrowed), room.limited(ask))), aside)
    return [max(0, want - have) if want else 0 for want, have in zip(ask.need, free, strict=True)]


def blocked_by(lacks: list[int]) -> int:
    """Return the kinds that a head blocks which lacks so much: all where it is short of none."""
    return bits(lacks) - 1 or ALL


def _of_kind(amount: Vector, kind: int) -> Vector:
    """The part of an amount that is of one kind."""
    return tuple([each if at == kind else 0 for at, each in enumerate(amount)])


def need_of(queues: Queues, part: PartKey, row: JobRow) -> Vector:
    """Return what the next unit of a part needs to be entitled; of a borrowed gang what those members need that are
    still admitted.
    """
    key = part.key
    if key % ROLES == GANG and row.parts[key].borrowed:
        return queues.total_need(row, queues.slots(row, key, "rank", Rank.BORROWED))
    return queues.unit_need(row, key)


def demotions(state: State, pool: str, budget: int) -> list[Admission]:
    """Return the claims of a pool that its entitlement doesn't reach any more, the last ones first. Work that isn't
    preemptible can't be borrowed; parked units would hold room under limits again: they stay, and take nothing of what
    claims before them are entitled to.
    """
    queues = state.queues
    claims = state.order[pool].claims
    if not claims:
        return []
    usage, entitlement = state.usage[pool], state.shares.entitlement(pool)
    slack = state.shares.slack(pool)[0] if usage.on_slack else queues.nothing
    limits, counted = state.shares.limits_of_kinds(pool), PassUsage(state)
    regular = min(subtract(entitlement, usage.entitled_from(min(usage.entitled, default=0)))) >= 0
    if regular and min(subtract(slack, usage.on_slack_from(min(usage.on_slack, default=0)))) >= 0 and not limits:
        return []
    out: list[Admission] = []
    free: dict[tuple[int, bool, Mask], Vector] = {}
    for *_, (job_id, key) in reversed(claims):
        row = queues.jobs[job_id]
        if budget <= 0:
            break
        if not row.preemptible:
            continue
        ask = Ask(pool, queues.kind(row, key), row.priority, queues.nothing)
        group = row.priority, queues.is_revocable(key), 0
        if group not in free:
            on_slack = subtract(slack, usage.on_slack_from(row.priority)) if group[1] else ()
            free[group] = on_slack or subtract(entitlement, usage.entitled_from(row.priority))
        groups = [group]
        for mask, most, entitled in counted.by_kind(ask) if limits else ():
            groups.append((*group[:2], mask))
            free.setdefault(groups[-1], subtract(most, entitled))
        least = free[group] if len(groups) == 1 else tuple(map(min, *(free[each] for each in groups)))
        admission, freed = _demotion(queues, job_id, row, key, least, budget)
        for each in groups:
            free[each] = add(free[each], freed)
        if admission is not None:
            out.append(admission)
            budget -= len(admission.slots)
    return out


def _demotion(
    queues: Queues, job_id: str, row: JobRow, key: int, free: Vector, budget: int
) -> tuple[Admission | None, Vector]:
    """The last claims of a part that are beyond what is free, but for parked ones, and what all of these need."""
    need = queues.unit_need(row, key)
    short = max([-(have // want) for have, want in zip(free, need, strict=True) if want > 0 and have < 0], default=0)
    if not short:
        return None, queues.nothing
    slots = queues.claim_slots(row, key)
    is_gang = key % ROLES == GANG
    slots = slots if is_gang else slots[-short:]
    freed = need if is_gang else queues.total_need(row, slots)
    slots = slots[queues.arena["rank"][slots] == Rank.ENTITLED]
    slots = slots if is_gang else slots[-budget:]
    return (Admission(job_id, row, slots, is_gang, Rank.BORROWED) if len(slots) else None), freed


class Admissions:
    """Decides which units are entitled from now on, or no more. What it keeps only saves work: pools in which nothing
    was to be done aren't looked at again before something changes for them.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._queues = state.queues
        self._usage = state.usage
        self._marks = state.marks
        self._pools = state.pools
        self._shares = state.shares
        self.heads: dict[str, list[Head]] = {}
        """By pool with work that waits, the parts that aren't entitled and block others."""
        marks = self._marks
        self._dirty, self._unranked = marks.of(Consumer.ADMISSION), marks.of(Consumer.DEMOTION)
        self._reworded, self._settled = marks.of(Consumer.HEADS), marks.of(Consumer.REASONS)
        self._savings: dict[str, tuple[tuple[bool, bool], ...]] = {}
        """By pool that saves for a turn, `PassUsage.saving` of each head."""

    def restored(self) -> None:
        """Forgets all; the tables were loaded, and all pools are marked."""
        self.heads.clear()
        self._savings.clear()

    def decide(self, this: Pass) -> list[Event]:
        """Return the ranks of units in pools of which something has changed: first of those that lose theirs."""
        budget, dirty = this.budget.left, self._dirty
        self._state.holds.review()
        for pool, savings in self._savings.items():
            if pool not in dirty and savings != self._savings_of(pool):
                dirty[pool] = None
        for pool in self._reworded:
            if pool not in dirty and self._blocks_otherwise(pool):
                dirty[pool] = None
        if demote := self._demote(budget) if self._unranked else []:
            return PassResult(demote=demote).records(self._state)
        return self._serve(budget).records(self._state) if dirty else []

    def reword(self) -> None:
        """Marks pools that may have to be told another reason, and watches for the next one."""
        for pool in self._marks.take(Consumer.HEADS) if self._reworded else ():
            self._settled[pool] = None
            self._watch_levels(pool, self.heads.get(pool, []))

    def _blocks_otherwise(self, pool: str) -> bool:
        """Whether a head lacks other kinds than when its pool was served, so that others stand behind it."""
        room = PoolRoom(PassUsage(self._state), pool, self._queues.nothing)
        for head in self.heads.get(pool, ()):
            if not refuses_all(head.why.code):
                lacks = lacking(room, self._ask(pool, head), self._is_borrowed(head.part), head.aside)
                if blocked_by(lacks) != head.blocks:
                    return True
        return False

    def _demote(self, budget: int) -> list[Admission]:
        out: list[Admission] = []
        for pool in sorted(self._unranked, key=self._longest_ago):
            if budget <= 0:
                break
            admissions = demotions(self._state, pool, budget) if pool in self._pools else []
            out += admissions
            budget -= sum(len(each.slots) for each in admissions)
            if not admissions:
                del self._unranked[pool]
        return out

    def _serve(self, budget: int) -> PassResult:
        admission = AdmissionPass(self._state, budget)
        for pool in sorted(self._dirty, key=self._longest_ago):
            if admission.budget <= 0:
                break
            before = admission.budget
            heads = admission.serve(pool) if pool in self._pools else []
            if admission.budget == before:
                self._settle(pool, heads)
        return admission.result

    def _longest_ago(self, pool: str) -> tuple[int, str]:
        row = self._pools.get(pool)
        return (row.served if row else 0, pool)

    def _settle(self, pool: str, heads: list[Head]) -> None:
        """Removes the mark of a pool in which nothing is to be done before something changes for it."""
        del self._dirty[pool]
        if heads:
            self.heads[pool] = heads
        else:
            self.heads.pop(pool, None)
        self._savings.pop(pool, None)
        row = self._pools.get(pool)
        if row is not None:
            self._watch_entitlement(pool, heads)
            if row.is_saving:
                self._savings[pool] = self._savings_of(pool)
        self._settled[pool] = None
        self._watch_levels(pool, heads)

    def _savings_of(self, pool: str) -> tuple[tuple[bool, bool], ...]:
        usage = PassUsage(self._state)
        return tuple([usage.saving(self._ask(pool, head)) for head in self.heads.get(pool, ())])

    def _ask(self, pool: str, head: Head) -> Ask:
        row = self._queues.jobs[head.part.job_id]
        return Ask(pool, head.kind, row.priority, need_of(self._queues, head.part, row))

    def _is_borrowed(self, part: PartKey) -> bool:
        return self._queues.jobs[part.job_id].parts[part.key].borrowed > 0

    def _watch_levels(self, pool: str, heads: list[Head]) -> None:
        """Marks a pool, or the reasons of its heads, when something happens at the levels on which these depend."""
        levels = self._usage.levels(pool)
        # Who has no share above waits for shares or for other hosts: what others hold there changes nothing.
        above = [head for head in heads if head.why.code != Code.SHARE_OF_NOTHING]
        if any(head.why.at != pool or head.why.code == RESERVATION.code for head in above):
            self._marks.watch(pool, levels)
        elif heads:
            usage = PassUsage(self._state)
            places = [level for level in levels[1:] if not LIMITS.is_lifted(usage, level)]
            self._marks.watch(pool, places, Consumer.HEADS)

    def _watch_entitlement(self, pool: str, heads: list[Head]) -> None:
        """Marks a pool at an entitlement at which one of its heads is entitled, or waits for another reason, or at
        which claims aren't entitled any more.
        """
        holding, entitlement = self._usage[pool], self._shares.entitlement(pool)
        needs: list[Vector] = []
        level = holding.entitled_from(min(holding.entitled, default=0))
        if holding.on_slack:
            on_slack, regular = holding.on_slack_from(min(holding.on_slack)), self._shares.slack(pool)[1]
            pairs = zip(level, on_slack, regular, strict=True)
            level = tuple([max(have, more + others) if more else have for have, more, others in pairs])
        columns = zip(level, entitlement, holding.claims, strict=True)  # those of higher priority may be within it yet
        least = tuple([min(have, most) if claimed else 0 for have, most, claimed in columns])
        last, usage = self._kinds_served_last(pool) if heads else [], PassUsage(self._state)
        reached = self._shares.reached(pool) if heads else None
        for head in heads:
            bound = SLACK if SLACK.binds(head.kind) else ENTITLEMENT
            if not bound.binds(head.kind):
                continue
            ask = self._ask(pool, head)
            whole = bound.entitlement_for(usage, ask, head.aside)
            edges = [_of_kind(whole, kind) for kind in last]
            if (
                reached is not None and bound is ENTITLEMENT
            ):  # the reason is its host pools or its share, by which is less
                beyond = [kind for kind, most in enumerate(reached) if whole[kind] > most]
                edges += [_of_kind(reached, kind) for kind in beyond]
                if head.why.code == Code.HOST_POOLS_FULL and not beyond:
                    edges.append(whole)
            if CONTROLLERS_SHARE.binds(head.kind) and not self._is_borrowed(head.part):
                within = CONTROLLERS_SHARE.entitlement_for(usage, ask, head.aside)
                if within is not None:
                    edges.append(within)
                    whole = tuple(map(max, whole, within))
            needs += [edge for edge in (*edges, whole) if exceeds(edge, entitlement)]
            for edge in edges:
                if not exceeds(edge, entitlement):
                    least = tuple(map(max, least, edge))
        self._shares.watch(pool, tuple(dict.fromkeys(needs)), least)

    def _kinds_served_last(self, pool: str) -> list[int]:
        """The kinds of which the pool, or one above it, has no share and no reservation."""
        rows = [self._pools[level] for level in self._usage.levels(pool)[:-1]]
        kinds = range(len(self._queues.nothing))
        return [kind for kind in kinds if any(is_served_last(row, kind) for row in rows)]
