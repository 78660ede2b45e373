"""The usage of pools with what one pass has admitted: a pass changes nothing, so that is counted beside the state."""

from functools import cached_property

from events.codes import Code
from events.resources import Vector, add, subtract, total
from events.work_classes import CONTROLLERS, FIRM, POOLED, REVOCABLES
from processors.entitlement.bounds import (
    BOUNDLESS,
    BOUNDS,
    ENTITLEMENT,
    Ask,
    Bound,
    Refusal,
    exceeds,
    is_served_last,
    limit_of,
    room,
)
from processors.entitlement.host_pools import ALL_KINDS, Mask, WithinReach, kinds_in, of_class
from processors.entitlement.rows import PoolRow
from processors.entitlement.shares.reach import Reach
from processors.entitlement.state import State


class PassUsage:
    """Implements `bounds.Usage`."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._usage = state.usage
        self._allocation: dict[str, Vector] = {}
        self._firm: dict[str, Vector] = {}
        self._controllers: dict[str, Vector] = {}
        self.entitled_now: dict[str, Vector] = {}
        """By pool the amount of units that are entitled by this pass, admitted by it or before."""
        self.on_slack_now: dict[str, Vector] = {}
        """The same of revocable ones, which aren't in the other."""
        self._of_kinds: dict[tuple[str, int], Vector] = {}
        """By pool and kind of jobs the amount of units that were admitted by this pass, in a cell with host pools."""
        self.entitled_of_kinds: dict[tuple[str, int], Vector] = {}
        """The same of those that are entitled by this pass, revocable or not."""

    @property
    def has_hosts(self) -> bool:
        """Whether the cell has any host."""
        return self._state.cell.hosts > 0

    def row(self, level: str) -> PoolRow:
        """The definition of a pool."""
        return self._state.pools[level]

    def levels(self, pool: str) -> tuple[str, ...]:
        """The pool and those above it, up to the root."""
        return self._usage.levels(pool)

    def limit(self, level: str) -> Vector:
        """The limit of a pool; of the root with the licences of the cell."""
        if level != "/":
            return self._state.pools[level].limit
        return limit_of(self._state.pools[level], level, self._state.queues.kinds)

    def entitlement(self, level: str) -> Vector:
        """The amount that a pool may use now."""
        return self._state.shares.entitlement(level)

    def allocation(self, level: str) -> Vector:
        """The amount that is admitted in a pool, without parked units."""
        return _sum(self._usage[level].allocation, self._allocation.get(level))

    def kept(self, level: str, pool: str) -> Vector | None:
        """The amount that is kept under the limit of a level for other pools than one ("": for all); None: nothing."""
        return self._state.holds.others(pool, level)

    def parked(self, level: str) -> Vector:
        """The amount of parked units."""
        return self._usage[level].parked

    def firm(self, level: str) -> Vector:
        """The amount that is admitted and not preemptible."""
        return _sum(self._usage[level].firm, self._firm.get(level))

    def controllers(self, level: str) -> Vector:
        """The amount that controllers hold."""
        return _sum(self._usage[level].controllers, self._controllers.get(level))

    def entitled(self, pool: str, priority: int) -> Vector:
        """The amount that is entitled at a priority and above, or not preemptible."""
        return _sum(self._usage[pool].entitled_from(priority), self.entitled_now.get(pool))

    def slack(self, pool: str) -> tuple[Vector, Vector]:
        """The amount to which revocable work of a pool may be entitled, and what its other work wants."""
        return self._state.shares.slack(pool)

    def on_slack(self, pool: str, priority: int) -> Vector:
        """The amount that revocable work is entitled to at a priority and above."""
        return _sum(self._usage[pool].on_slack_from(priority), self.on_slack_now.get(pool))

    def beyond(self, ask: Ask) -> Refusal:
        """Why a unit waits that is beyond the entitlement of its pool."""
        pool = ask.pool
        if self._state.pools[pool].is_saving and self.saving(ask) == (True, False):
            return Refusal(Code.SAVING_FOR_TURN, pool)
        room = ENTITLEMENT.room(self, pool, ask) or ()
        short = [kind for kind, (want, have) in enumerate(zip(ask.need, room, strict=True)) if want > have]
        if any(self._state.shares.is_bounded(pool, kind) for kind in short):
            return Refusal(Code.HOST_POOLS_FULL, pool)
        for level in self.levels(pool)[:-1]:
            if any(is_served_last(self._state.pools[level], kind) for kind in short):
                return Refusal(Code.SHARE_OF_NOTHING, level)
        return Refusal(ENTITLEMENT.code, pool)

    def within_reach(self, pool: str, kind: int) -> WithinReach | None:
        """The host pools that work of a class reaches in a pool; None: it may use all hosts."""
        if self._reach is None:
            return None
        of, reach = of_class(kind), self._reach
        return WithinReach(
            reach.capacity(pool, of), reach.room(pool, of, self._admitted), self._admitted(pool, reach.within(pool, of))
        )

    def by_kind(self, ask: Ask) -> list[tuple[Mask, Vector, Vector]]:
        """The amounts to which kinds of jobs of a pool are entitled together, that of a unit among them, by the host
        pools that these reach, and what is entitled of them at its priority and above.
        """
        bit = 1 << of_class(ask.kind)
        limits = self._state.shares.limits_of_kinds(ask.pool)
        return [(mask, most, self._entitled_of(ask, mask)) for mask, most in limits.items() if mask & bit]

    def _entitled_of(self, ask: Ask, mask: Mask) -> Vector:
        """The amount that is entitled of kinds of jobs; work that isn't revocable goes before all that is."""
        pool, is_revocable = ask.pool, ask.kind & REVOCABLES > 0
        sums = [self._state.queues.nothing]
        for kind in kinds_in(mask):
            usage = self._usage.of_kind(pool, kind)
            sums.append(usage.entitled_from(min(usage.entitled, default=0) if is_revocable else ask.priority))
            sums += [usage.on_slack_from(ask.priority)] if is_revocable else []
            sums.append(self.entitled_of_kinds.get((pool, kind), sums[0]))
        return total(sums)

    def _admitted(self, pool: str, mask: Mask) -> Vector:
        """The amount that is admitted of kinds of jobs, with parked units."""
        if mask == ALL_KINDS:
            return add(self.allocation(pool), subtract(self.parked(pool), self._usage[pool].daemons))
        sums = [self._state.queues.nothing]
        for kind in kinds_in(mask):
            usage = self._usage.of_kind(pool, kind)
            sums += [usage.allocation, usage.parked, self._of_kinds.get((pool, kind), sums[0])]
        return total(sums)

    @cached_property
    def _reach(self) -> Reach | None:
        return self._state.shares.reach

    def saving(self, ask: Ask) -> tuple[bool, bool]:
        """Whether a unit needs more than the share of its pool, and more than a turn could give that: a pool saves for
        what is only the first.
        """
        shares, pool = self._state.shares, ask.pool
        most = subtract(shares.most(pool), self.entitled(pool, ask.priority))
        return exceeds(ask.need, shares.share(pool)), exceeds(ask.need, most)

    def take(self, pool: str, kind: int, amount: Vector) -> None:
        """Units of a class were admitted that hold so much together."""
        sums = (self._allocation, self._firm) if kind & FIRM else (self._allocation,)
        for level in self._usage.levels(pool):
            for each in sums:
                have = each.get(level)
                each[level] = amount if have is None else add(have, amount)
        if kind & POOLED:
            of_kind = pool, of_class(kind)
            self._of_kinds[of_kind] = _sum(amount, self._of_kinds.get(of_kind))
        if kind & CONTROLLERS:
            have = self._controllers.get(pool)
            self._controllers[pool] = amount if have is None else add(have, amount)


class PoolRoom:
    """The room that bounds leave for units of one pool in a pass, kept up with what they get: a part costs a
    subtraction.
    """

    def __init__(self, usage: PassUsage, pool: str, nothing: Vector) -> None:
        self._usage = usage
        self._pool = pool
        self._boundless: Vector = (BOUNDLESS,) * len(nothing)
        self._room: dict[Bound, Vector] = {}
        self._entitled: list[Vector] = []
        self._on_slack: list[Vector] = []
        self._of_kinds: dict[tuple[str, int], Vector] = {}
        self._fresh: dict[int, list[Vector]] = {}
        """The amounts that were entitled, and by class those that were admitted, and aren't counted yet: they are, at
        all levels, before a bound asks.
        """
        self._priority: int | None = None

    def entitled(self, ask: Ask, borrowed: bool) -> Vector:
        """The amount that may be entitled of units; those that are borrowed are in what bounds of all that is admitted
        count already.
        """
        if ask.priority != self._priority:
            self._priority = ask.priority
            for bound in BOUNDS.of_entitled:
                self._room.pop(bound, None)
        free = None
        for bound in BOUNDS.rights[ask.kind]:
            if bound.of_entitled or not borrowed:
                leaves = self._room.get(bound) or self._find(bound, ask)
                free = leaves if free is None else tuple(map(min, free, leaves))
        return free or self._boundless

    def limited(self, ask: Ask) -> Vector:
        """The amount that limits leave for units."""
        free = None
        for bound in BOUNDS.limits[ask.kind]:
            leaves = self._room.get(bound) or self._find(bound, ask)
            free = leaves if free is None else tuple(map(min, free, leaves))
        return free or self._boundless

    def take(self, kind: int, amount: Vector, fresh: Vector | None) -> None:
        """Units hold so much that are entitled now; `fresh`: those of them that weren't admitted before; None: none."""
        if kind & POOLED:
            of_kind = self._pool, of_class(kind)
            self._of_kinds[of_kind] = _sum(amount, self._of_kinds.get(of_kind))
        if kind & REVOCABLES:
            self._on_slack.append(amount)
        elif ENTITLEMENT in BOUNDS.rights[kind]:
            self._entitled.append(amount)
        if fresh is not None:
            self._fresh.setdefault(kind, []).append(fresh)
        for bound in BOUNDS.kept_up[kind]:
            less = amount if bound.of_entitled else fresh
            if less is not None and bound in self._room:
                self._room[bound] = subtract(self._room[bound], less)

    def counted(self) -> PassUsage:
        """The usage of pools with all that units of this pool got."""
        usage = self._usage
        for sums, amounts in ((usage.entitled_now, self._entitled), (usage.on_slack_now, self._on_slack)):
            if amounts:
                sums[self._pool] = _sum(total(amounts), sums.get(self._pool))
                amounts.clear()
        for of_kind, amount in self._of_kinds.items():
            usage.entitled_of_kinds[of_kind] = _sum(amount, usage.entitled_of_kinds.get(of_kind))
        self._of_kinds.clear()
        for kind, amounts in self._fresh.items():
            usage.take(self._pool, kind, total(amounts))
        self._fresh.clear()
        return usage

    def _find(self, bound: Bound, ask: Ask) -> Vector:
        free = room(self.counted(), ask, (bound,))
        if bound.is_kept_up:
            self._room[bound] = free
        return free


def _sum(have: Vector, more: Vector | None) -> Vector:
    return have if more is None else add(have, more)
