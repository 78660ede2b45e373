"""The passes that admit look at what has changed: units that are entitled, that are so no more, and that are lent to.

The last of a queue that have no place are demoted when the entitlement of their pool falls.
"""

from events.codes import Code
from events.ranks import Rank
from events.records.base import Event
from events.resources import Vector, add, subtract
from processors.entitlement.admission.admit import Admission, AdmissionPass, Head, admitted, need_of, ranked
from processors.entitlement.admission.idle import Idle, SteadyClaims
from processors.entitlement.admission.lend import Lending, LendOrder
from processors.entitlement.admission.pass_usage import PassUsage
from processors.entitlement.bounds import CONTROLLERS_SHARE, ENTITLEMENT, LIMITS, Ask, exceeds
from processors.entitlement.queues.parts import GANG, ROLES, Consumer
from processors.entitlement.queues.queues import Queues
from processors.entitlement.records import Folds
from processors.entitlement.rows import JobRow, parent_of
from processors.entitlement.state import State
from processors.state.causes import recorded
from processors.state.steps import Pass


def demoted(state: State, pool: str, budget: int) -> list[Admission]:
    """The claims of a pool that its entitlement doesn't reach any more, the last ones first; they are borrowed from
    now on. Work that isn't preemptible can't be; what is parked would hold room under limits again: it stays, and takes
    nothing of what claims before it are entitled to.
    """
    queues = state.queues
    claims = state.order[pool].claims
    if not claims:
        return []
    holding, entitlement = state.usage[pool], state.shares.entitlement(pool)
    lowest = min(holding.entitled, default=0)
    if not _is_over(subtract(entitlement, holding.level(lowest))):
        return []
    found: list[Admission] = []
    priority, free = None, queues.nothing
    for *_, (job_id, key) in reversed(claims):
        row = queues.jobs[job_id]
        if budget <= 0:
            break
        if not row.preemptible:
            continue
        if row.priority != priority:
            priority, free = row.priority, subtract(entitlement, holding.level(row.priority))
        taken, freed = _of_part(queues, job_id, row, key, free, budget)
        free = add(free, freed)
        if taken is not None:
            found.append(taken)
            budget -= len(taken.slots)
    return found


def _is_over(free: Vector) -> bool:
    return any(each < 0 for each in free)


def _of_part(
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
    freed = need if is_gang else queues.asked(row, slots)
    slots = slots[queues.arena["rank"][slots] == Rank.ENTITLED]
    slots = slots if is_gang else slots[-budget:]
    return (Admission(job_id, row, slots, is_gang, Rank.BORROWED) if len(slots) else None), freed


class Passes:
    """Decides GangsAdmitted and AdmissionsRanked. What it keeps only saves looks: pools in which nothing was found to
    do aren't looked at again before something changes for them.
    """

    def __init__(self, state: State, folds: Folds, idle: Idle, steady: SteadyClaims) -> None:
        self._state = state
        self._queues = state.queues
        self._order = state.order
        self._usage = state.usage
        self._marks = state.marks
        self._pools = state.pools
        self._shares = state.shares
        self._folds = folds
        self._idle = idle
        self._steady = steady
        self.heads: dict[str, list[Head]] = {}
        """Of each pool with work that waits those that aren't entitled and block others."""
        marks = state.marks
        self._dirty, self._unranked = marks.of(Consumer.ADMISSION), marks.of(Consumer.DEMOTION)
        self._to_lend, self._reworded = marks.of(Consumer.LENDING), marks.of(Consumer.HEADS)
        self.settled = marks.of(Consumer.REASONS)
        """Pools that were looked at, for whoever says why the rest of their queues waits."""
        self._beyond_share: dict[str, tuple[tuple[bool, bool], ...]] = {}
        """Of pools that save for a turn whether each head needs more than their share, and than a turn could give."""
        self._lend_order = LendOrder(state)
        self._lent_ms = -1
        self._static_of: list[str] | None = None

    def restored(self) -> None:
        """The tables were loaded: all pools are to be looked at."""
        self.heads.clear()
        self._beyond_share.clear()
        self._lend_order.clear()
        self.pools_changed()

    def pools_changed(self) -> None:
        """Pools have other rules."""
        self._static_of = None

    def entitled(self, budget: int) -> list[Event]:
        """Who is entitled from now on, or no more, in pools of which something has changed."""
        self._state.holds.review()
        dirty = self._dirty
        for pool, beyond in self._beyond_share.items():
            if pool not in dirty and beyond != self._are_beyond_share(pool):
                dirty[pool] = None
        over = self._over(budget)
        if over:
            return [ranked(self._queues, over, recorded(self._state.cell.last_by))]
        admission = AdmissionPass(self._state, budget)
        for pool in sorted(dirty, key=self._longest_ago):
            if admission.budget <= 0:
                break
            before = admission.budget
            heads = admission.serve(pool) if pool in self._pools else []
            if admission.budget == before:
                self._settle(pool, heads)
        out: list[Event] = []
        cell = self._state.cell
        if admission.ranked:
            out.append(ranked(self._queues, admission.ranked, recorded(cell.last_by)))
        if admission.admitted:
            out.append(admitted(self._queues, admission.admitted, recorded(cell.room_by)))
        return out

    def lend(self, this: Pass) -> list[Event]:
        """What is lent of what stands idle."""
        now, budget = this.now, this.budget.left
        if not self._order.waiting:
            return []
        room = self._room(now)
        for pool in self._folds.backoffs_over(self._lent_ms, now):
            self._to_lend[pool] = None
        if self._to_lend:
            self._lend_order.refresh(self._marks.take(Consumer.LENDING))
        if max(room) <= 0:
            return []
        lending = Lending(self._state, self._folds.backoffs, self._lend_order, room, now)
        lending.decide(budget)
        for pool in lending.limited:
            self._marks.watch(pool, self._usage.levels(pool))
        if lending.lent:
            return [admitted(self._queues, lending.lent, recorded(self._state.cell.room_by))]
        self._lent_ms = now
        for group, pool in lending.refused:
            self._lend_order.drop(group, pool)
        return []

    def _over(self, budget: int) -> list[Admission]:
        """Who isn't entitled any more."""
        over: list[Admission] = []
        unranked = self._unranked
        for pool in sorted(unranked, key=self._longest_ago):
            if budget <= 0:
                break
            found = demoted(self._state, pool, budget) if pool in self._pools else []
            over += found
            budget -= sum(len(each.slots) for each in found)
            if not found:
                del unranked[pool]
        return over

    def _longest_ago(self, pool: str) -> tuple[int, str]:
        row = self._pools.get(pool)
        return (row.served if row else 0, pool)

    def _settle(self, pool: str, heads: list[Head]) -> None:
        """Nothing is to be done in a pool before something changes for it."""
        del self._dirty[pool]
        if heads:
            self.heads[pool] = heads
        else:
            self.heads.pop(pool, None)
        self._beyond_share.pop(pool, None)
        row = self._pools.get(pool)
        if row is not None:
            self._watch(pool, heads)
            if row.credit is not None and any(row.credit.full):
                self._beyond_share[pool] = self._are_beyond_share(pool)
        self.settled[pool] = None
        self._watch_levels(pool, heads)

    def _are_beyond_share(self, pool: str) -> tuple[tuple[bool, bool], ...]:
        share, most, holding = self._shares.share(pool), self._shares.most(pool), self._usage[pool]
        rows = [(part, self._queues.jobs[part.job_id]) for part, *_ in self.heads.get(pool, ())]
        needs = [(need_of(self._queues, part, row), holding.level(row.priority)) for part, row in rows]
        return tuple([(exceeds(need, share), exceeds(need, subtract(most, held))) for need, held in needs])

    def reword(self) -> None:
        """Pools that may have to be told another reason are to be told it, and wait for the next one."""
        for pool in self._marks.take(Consumer.HEADS) if self._reworded else ():
            self.settled[pool] = None
            self._watch_levels(pool, self.heads.get(pool, []))

    def _watch_levels(self, pool: str, heads: list[Head]) -> None:
        """A pool is looked at again, or told another reason, when something changes at these levels."""
        marks, levels = self._marks, self._usage.levels(pool)
        above = [head for head in heads if head.why.code != Code.SHARE_OF_NOTHING]
        if any(head.why.at != pool or head.why.code == Code.RESERVATION_REACHED for head in above):
            marks.watch(pool, levels)
        elif heads:
            usage = PassUsage(self._state)
            places = [level for level in levels[1:] if not LIMITS.is_lifted(usage, level)]
            marks.watch(pool, places, Consumer.HEADS)

    def _watch(self, pool: str, heads: list[Head]) -> None:
        """Looks out for an entitlement at which one of those that wait first is entitled, or waits for another reason,
        or at which claims aren't entitled any more.
        """
        holding, entitlement = self._usage[pool], self._shares.entitlement(pool)
        needs: list[Vector] = []
        level = holding.level(min(holding.entitled, default=0))
        columns = zip(level, entitlement, holding.claims, strict=True)  # those of higher priority may be within it yet
        least = tuple([min(have, most) if claimed else 0 for have, most, claimed in columns])
        last, usage = self._kinds_served_last(pool) if heads else [], PassUsage(self._state)
        for head in heads:
            if not ENTITLEMENT.binds(head.kind):
                continue
            row = self._queues.jobs[head.part.job_id]
            ask = Ask(pool, head.kind, row.priority, need_of(self._queues, head.part, row))
            wanted = _above(add(ENTITLEMENT.held(usage, pool, ask), head.aside), ask.need)
            bounds = [tuple([want if at == each else 0 for at, want in enumerate(wanted)]) for each in last]
            if CONTROLLERS_SHARE.binds(head.kind) and not row.parts[head.part.key].borrowed:
                controllers = _above(add(CONTROLLERS_SHARE.held(usage, pool, ask), head.aside), ask.need)
                within = CONTROLLERS_SHARE.entitlement_for(usage, pool, controllers)
                if within is not None:
                    bounds.append(within)
                    wanted = tuple(map(max, wanted, within))
            for bound in (*bounds, wanted):
                if exceeds(bound, entitlement):
                    needs.append(bound)
            for bound in bounds:
                if not exceeds(bound, entitlement):
                    least = tuple(map(max, least, bound))
        self._shares.watch(pool, tuple(dict.fromkeys(needs)), least)

    def _kinds_served_last(self, pool: str) -> list[int]:
        """The kinds of which the pool, or one above it, has no share and no reservation."""
        rows = [self._pools[level] for level in self._usage.levels(pool)[:-1]]
        kinds = range(len(self._queues.nothing))
        return [kind for kind in kinds if any(not row.share[kind] and not row.reservation[kind] for row in rows)]

    def _room(self, now: int) -> Vector:
        """What may be lent: what nobody claims; or, if that is more, what was idle all along beside claims as they were
        all along, but for what is kept on hosts or is being freed; less what isn't lent at all, and what is lent
        already and has no place.
        """
        root, capacity = self._usage["/"], self._usage.shared(self._state.cell.capacity)
        room = subtract(subtract(subtract(capacity, root.placed), root.claims), self._static("allocation"))
        least = self._idle.least(now)
        if any(idle > free for idle, free in zip(least, room, strict=True)):
            young = self._steady.beyond(root.claims, now)
            long_idle = subtract(subtract(subtract(least, young), self._folds.spoken_for()), self._static("placed"))
            room = tuple(map(max, room, long_idle))
        return subtract(room, root.loans)

    def _static(self, used: str) -> Vector:
        """What pools don't use of reservations that aren't lent; `used`: the sum of their holdings that counts."""
        nothing, unused = self._queues.nothing, dict[str, Vector]()
        for path in self._static_paths():
            row, holding = self._pools[path], self._usage[path]
            have = holding.placed if used == "placed" else subtract(holding.allocation, holding.daemons)
            below = unused.pop(path, nothing)
            own = subtract(row.reservation, have)
            static = [name in row.static for name in self._queues.kinds.names]
            kept = tuple([max(each) if is_ else each[0] for is_, *each in zip(static, below, own, strict=True)])
            if path == "/":
                return kept
            parent = parent_of(path)
            unused[parent] = add(unused.get(parent, nothing), kept)
        return nothing

    def _static_paths(self) -> list[str]:
        """Pools with reservations that aren't lent, and those above them, the lowest first."""
        if self._static_of is None:
            levels = self._usage.levels
            static = [path for path, row in self._pools.items() if row.static]
            self._static_of = sorted({level for path in static for level in levels(path)}, reverse=True)
        return self._static_of


def _above(have: Vector, need: Vector) -> Vector:
    """What is had with a need, of the kinds that are needed."""
    return tuple([each + want if want else 0 for each, want in zip(have, need, strict=True)])
