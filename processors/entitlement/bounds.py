"""The bounds of admission: each is known here alone, with what it leaves, how it refuses, and the numbers of that.

A bound allows a pool, or one above it, so much of something, and the pool holds so much of that: the difference is its
room, and a unit that needs more is refused. Whoever admits, lends, preempts, waits for a change, explains or plans asks
the lists of `BOUNDS` over a `Usage`, so a new bound is a class more and its place there: these lists follow from what
each bound says of itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

import msgspec

from events.codes import Code
from events.resources import Amounts, Kinds, Vector, add, subtract
from events.work_classes import CLASSES, CONTROLLERS, DAEMONS, FIRM, LENT_TO, POOLED, REVOCABLES
from processors.entitlement.host_pools import Mask, WithinReach
from processors.entitlement.rows import UNLIMITED, PoolRow

BOUNDLESS = 1 << 62
"""More room than anybody needs; within 64 bits also after amounts were added."""
ALL, OWN, ABOVE, BELOW_ROOT = slice(None), slice(0, 1), slice(1, None), slice(0, -1)
"""At which of the pool and those above it, up to the root, a bound holds."""


class Refusal(NamedTuple):
    """Why a unit isn't admitted: the code of the bound, and the pool at which it holds. Where it is told also the
    numbers: what the unit asks, what the bound allows (empty: it is no amount) and what the pool holds of that.
    """

    code: Code
    at: str
    need: Vector = ()
    bound: Vector = ()
    usage: Vector = ()


class Ask(msgspec.Struct, frozen=True):
    """The next unit of a part; `kind` is its class. `lent`: it is admitted beyond the entitlement of its pool."""

    pool: str
    kind: int
    priority: int
    need: Vector
    lent: bool = False


class Usage(Protocol):
    """The usage of pools, as far as it is bounded: as the state is, with what a pass has admitted, or of a plan."""

    @property
    def has_hosts(self) -> bool:
        """Whether the cell has any host."""

    def row(self, level: str) -> PoolRow:
        """The definition of a pool."""

    def levels(self, pool: str) -> tuple[str, ...]:
        """The pool and those above it, up to the root."""

    def limit(self, level: str) -> Vector:
        """The limit of a pool; of the root with the licences of the cell."""

    def entitlement(self, level: str) -> Vector:
        """The amount that a pool may use now."""

    def allocation(self, level: str) -> Vector:
        """The amount that is admitted in a pool, without parked units."""

    def kept(self, level: str, pool: str) -> Vector | None:
        """The amount that is kept under the limit of a level for other pools than one ("": for all); None: nothing."""

    def parked(self, level: str) -> Vector:
        """The amount of parked units."""

    def firm(self, level: str) -> Vector:
        """The amount that is admitted and not preemptible."""

    def controllers(self, level: str) -> Vector:
        """The amount that controllers hold."""

    def entitled(self, pool: str, priority: int) -> Vector:
        """The amount that is entitled at a priority and above, or not preemptible."""

    def slack(self, pool: str) -> tuple[Vector, Vector]:
        """The amount to which revocable work of a pool may be entitled (`slack_of`), and what its other work wants."""

    def on_slack(self, pool: str, priority: int) -> Vector:
        """The amount that revocable work is entitled to at a priority and above."""

    def beyond(self, ask: Ask) -> Refusal:
        """Why a unit waits that is beyond the entitlement of its pool."""

    def within_reach(self, pool: str, kind: int) -> WithinReach | None:
        """The host pools that work of a class reaches in a pool; None: it may use all hosts."""

    def by_kind(self, ask: Ask) -> list[tuple[Mask, Vector, Vector]]:
        """The amounts to which kinds of jobs of a pool are entitled together, that of a unit among them, by the host
        pools that these reach, and what is entitled of them at its priority and above.
        """


class Role(Enum):
    """The part of admission in which a bound is asked."""

    RIGHT = auto()
    """For what a unit may be entitled to, whether it waits or is borrowed."""
    LIMIT = auto()
    """For units that wait, once they have a right."""
    LOAN = auto()
    """For what is lent alone."""
    GATE = auto()
    """For whole pools, before any unit of these is looked at (`closed_at`)."""


class Bound(ABC):
    """One bound of admission."""

    code: Code
    others: tuple[Code, ...] = ()
    """Further codes that are told of it."""
    levels: slice = ALL
    role = Role.LIMIT
    of_entitled = False
    """Whether it holds for what is entitled at a priority and above, and not for all that is admitted: then loans are
    beside it, and borrowed units are entitled only within it.
    """
    is_fixed = False
    """Whether it may refuse a unit even if nothing else is admitted: it allows what operators say, not what is left."""
    is_kept_up = False
    """Whether its room falls by just what units get that it binds, so that a pass finds it once for a pool."""

    @property
    def whole(self) -> "Bound":
        """The bound that leaves the room: another one where this is told for some of the levels of that."""
        return self

    def binds(self, kind: int) -> bool:
        """Whether it holds for a class of work."""
        return True

    def is_lifted(self, usage: Usage, level: str) -> bool:
        """Whether a pool may hold any amount for now."""
        return False

    @abstractmethod
    def allows(self, usage: Usage, level: str) -> Vector:
        """The amount that a pool may hold."""

    @abstractmethod
    def held(self, usage: Usage, level: str, ask: Ask) -> Vector:
        """The amount that it holds of that."""

    def room(self, usage: Usage, level: str, ask: Ask) -> Vector | None:
        """The amount that a pool may hold more; None: any."""
        if self.is_lifted(usage, level):
            return None
        return subtract(self.allows(usage, level), self.held(usage, level, ask))

    def refuses(self, usage: Usage, level: str, ask: Ask) -> bool:
        """Whether a pool has too little room for a unit."""
        room = self.room(usage, level, ask)
        return room is not None and exceeds(ask.need, room)

    def refusal(self, usage: Usage, ask: Ask) -> Refusal | None:
        """Why a unit isn't admitted by this bound, with the first pool at which that is so; None: it may be."""
        for level in usage.levels(ask.pool)[self.levels]:
            if self.refuses(usage, level, ask):
                return Refusal(self.code, level)
        return None

    def told(self, usage: Usage, level: str, ask: Ask) -> tuple[Vector, Vector]:
        """The numbers of a refusal: the amount that is allowed, and what counts against it."""
        return self.allows(usage, level), self.held(usage, level, ask)

    def told_limit(self, usage: Usage, level: str, ask: Ask, kinds: Kinds) -> Amounts:
        """The amount that is told as the limit of a pool, by resource."""
        return limit_amounts(usage.row(level), level, kinds)


class Gate(Bound):
    """A bound that is no amount: it refuses all units, or none."""

    role = Role.GATE

    def room(self, usage: Usage, level: str, ask: Ask) -> Vector | None:
        """Return nothing where it refuses; see `Bound.room`."""
        return (0,) * len(ask.need) if self.refuses(usage, level, ask) else None

    def allows(self, usage: Usage, level: str) -> Vector:
        """Return no amount."""
        return ()

    def held(self, usage: Usage, level: str, ask: Ask) -> Vector:
        """Return all that is admitted."""
        return _admitted(usage, level)


class Closed(Gate):
    """A closed pool admits nothing, and none below it does."""

    code = Code.POOL_CLOSED

    def refuses(self, usage: Usage, level: str, ask: Ask) -> bool:
        """Return whether units are refused, those that need nothing too."""
        return usage.row(level).closed


class Hosts(Gate):
    """Without hosts pools are entitled to nothing; that is said instead."""

    code = Code.NO_HOSTS
    levels = slice(-1, None)

    def refuses(self, usage: Usage, level: str, ask: Ask) -> bool:
        """Return whether units are refused."""
        return not usage.has_hosts

    def room(self, usage: Usage, level: str, ask: Ask) -> Vector | None:
        """Return None: daemons may be admitted before there are hosts."""
        return None


class Reservation(Bound):
    """Work that isn't preemptible stays within the reservation of its pool and of those above it."""

    code = Code.RESERVATION_REACHED
    levels = BELOW_ROOT
    role = Role.RIGHT
    is_fixed = is_kept_up = True

    def binds(self, kind: int) -> bool:
        """Return whether it holds for a class of work."""
        return kind & FIRM > 0

    def allows(self, usage: Usage, level: str) -> Vector:
        """Return the amount that a pool may hold."""
        return usage.row(level).reservation

    def held(self, usage: Usage, level: str, ask: Ask) -> Vector:
        """Return the amount that it holds of that."""
        return usage.firm(level)

    def told_limit(self, usage: Usage, level: str, ask: Ask, kinds: Kinds) -> Amounts:
        """Return the amount that it allows, by resource."""
        return kinds.amounts(self.allows(usage, level))


class Limit(Bound):
    """Admitted work stays within limits and licences, without what is kept there for others."""

    code = Code.LIMIT_REACHED
    is_fixed = is_kept_up = True

    def __init__(self, levels: slice) -> None:
        self.levels = levels

    @property
    def whole(self) -> Bound:
        """Return the bound at all levels."""
        return LIMITS

    def is_lifted(self, usage: Usage, level: str) -> bool:
        """Return whether a pool may hold any amount for now."""
        return max(usage.limit(level)) < 0

    def room(self, usage: Usage, level: str, ask: Ask) -> Vector | None:
        """Return the amount that a pool may hold more; most pools have no limit."""
        limit = usage.limit(level)
        if max(limit) < 0:
            return None
        pairs = zip(limit, self.held(usage, level, ask), strict=True)
        return tuple([most - have if most >= 0 else BOUNDLESS for most, have in pairs])

    def allows(self, usage: Usage, level: str) -> Vector:
        """Return the limit; `UNLIMITED` where there is none."""
        return usage.limit(level)

    def held(self, usage: Usage, level: str, ask: Ask) -> Vector:
        """Return the amount that it holds of that."""
        allocation, others = usage.allocation(level), usage.kept(level, "" if ask.lent else ask.pool)
        return allocation if others is None else add(allocation, others)


class HostPools(Bound):
    """Loans of a pool stay within what the host pools that it reaches have idle. Entitlements are within what these
    hold by themselves (`shares/reach.py`), so that claims may preempt there what is lent.
    """

    code = Code.HOST_POOLS_FULL
    others = (Code.HOST_POOLS_TOO_SMALL,)
    levels = OWN
    role = Role.LOAN

    def binds(self, kind: int) -> bool:
        """Return whether it holds for a class of work."""
        return kind & POOLED > 0 and kind in LENT_TO

    def room(self, usage: Usage, level: str, ask: Ask) -> Vector | None:
        """Return the amount that may be lent to a pool."""
        within = usage.within_reach(level, ask.kind) if ask.lent else None
        return None if within is None else within.idle

    def allows(self, usage: Usage, level: str) -> Vector:
        """Return no amount: each kind of jobs has its own (`told`)."""
        return ()

    def held(self, usage: Usage, level: str, ask: Ask) -> Vector:
        """Return what is admitted of the kind of a unit."""
        within = usage.within_reach(level, ask.kind)
        return _admitted(usage, level) if within is None else within.admitted

    def told(self, usage: Usage, level: str, ask: Ask) -> tuple[Vector, Vector]:
        """Return the amount that the host pools hold, and what is admitted of it in the pool."""
        within = usage.within_reach(level, ask.kind)
        return () if within is None else within.capacity, self.held(usage, level, ask)

    def told_limit(self, usage: Usage, level: str, ask: Ask, kinds: Kinds) -> Amounts:
        """Return the amount that the host pools hold, by resource."""
        amounts = kinds.amounts(self.told(usage, level, ask)[0])
        return {name: amount for name, amount in amounts.items() if amount < BOUNDLESS}


class KindsReach(HostPools):
    """A pool is entitled for kinds of its jobs to no more than its part of the host pools that these reach."""

    role = Role.RIGHT
    of_entitled = True

    def binds(self, kind: int) -> bool:
        """Return whether it holds for a class of work."""
        return kind & POOLED > 0

    def room(self, usage: Usage, level: str, ask: Ask) -> Vector | None:
        """Return the amount to which units of the kind may be entitled."""
        amounts = [subtract(most, entitled) for _, most, entitled in usage.by_kind(ask)]
        return tuple(map(min, *amounts)) if len(amounts) > 1 else next(iter(amounts), None)


class Controllers(Bound):
    """Controllers hold at most a part of the entitlement of their pool. The first one may go on whatever it needs: else
    a pool that wants little never ran one.
    """

    code = Code.CONTROLLER_LIMIT_REACHED
    levels = OWN
    role = Role.RIGHT

    def binds(self, kind: int) -> bool:
        """Return whether it holds for a class of work."""
        return kind & CONTROLLERS > 0

    def is_lifted(self, usage: Usage, level: str) -> bool:
        """Return whether a pool may hold any amount for now."""
        percent = usage.row(level).controllers_percent
        return percent >= 100 or (percent > 0 and not any(usage.controllers(level)))

    def allows(self, usage: Usage, level: str) -> Vector:
        """Return the amount that a pool may hold."""
        percent = usage.row(level).controllers_percent
        return tuple([percent * amount // 100 for amount in usage.entitlement(level)])

    def held(self, usage: Usage, level: str, ask: Ask) -> Vector:
        """Return the amount that it holds of that."""
        return usage.controllers(level)

    def told_limit(self, usage: Usage, level: str, ask: Ask, kinds: Kinds) -> Amounts:
        """Return the amount that it allows, by resource."""
        return kinds.amounts(self.allows(usage, level))

    def entitlement_for(self, usage: Usage, ask: Ask, aside: Vector) -> Vector | None:
        """The least entitlement with which a controller is admitted, beside an amount that is kept for others; None: it
        doesn't depend on that.
        """
        percent = usage.row(ask.pool).controllers_percent
        if not percent or self.is_lifted(usage, ask.pool):
            return None
        amount = _needed(add(self.held(usage, ask.pool, ask), aside), ask.need)
        return tuple([-(100 * -each // percent) for each in amount])  # the inverse of `allows`, rounded up


class Entitlement(Bound):
    """A pool has entitled what it may use now, by priority; daemons stand beside that."""

    code = Code.ENTITLEMENT_REACHED
    codes = (Code.ENTITLEMENT_REACHED, Code.SAVING_FOR_TURN, Code.SHARE_OF_NOTHING, Code.HOST_POOLS_FULL)
    """All codes with which it refuses (`Usage.beyond`)."""
    levels = OWN
    role = Role.RIGHT
    of_entitled = is_kept_up = True

    def binds(self, kind: int) -> bool:
        """Return whether it holds for a class of work."""
        return not kind & (DAEMONS | REVOCABLES)

    def allows(self, usage: Usage, level: str) -> Vector:
        """Return the amount that a pool may hold."""
        return usage.entitlement(level)

    def held(self, usage: Usage, level: str, ask: Ask) -> Vector:
        """Return the amount that it holds of that."""
        return usage.entitled(level, ask.priority)

    def entitlement_for(self, usage: Usage, ask: Ask, aside: Vector) -> Vector:
        """The least entitlement with which a unit is entitled, beside an amount that is kept for others."""
        return _needed(add(self.held(usage, ask.pool, ask), aside), ask.need)

    def refusal(self, usage: Usage, ask: Ask) -> Refusal | None:
        """Return a refusal whose code says why a pool isn't entitled to more."""
        return usage.beyond(ask) if self.refuses(usage, ask.pool, ask) else None

    def told(self, usage: Usage, level: str, ask: Ask) -> tuple[Vector, Vector]:
        """Return the entitlement, and all that is admitted, of lower priority too."""
        return usage.entitlement(level), _admitted(usage, level)


class Slack(Bound):
    """Revocable work is entitled to its share of what hosts lend, and beside that to what the other work of its pool
    leaves of the entitlement, within a part of the reservation.
    """

    code = Code.SLACK_REACHED
    levels = OWN
    role = Role.RIGHT
    of_entitled = is_kept_up = True

    def binds(self, kind: int) -> bool:
        """Return whether it holds for a class of work."""
        return kind & REVOCABLES > 0

    def allows(self, usage: Usage, level: str) -> Vector:
        """Return the amount that a pool may hold."""
        return usage.slack(level)[0]

    def held(self, usage: Usage, level: str, ask: Ask) -> Vector:
        """Return the amount that it holds of that."""
        return usage.on_slack(level, ask.priority)

    def entitlement_for(self, usage: Usage, ask: Ask, aside: Vector) -> Vector:
        """The least entitlement with which a unit is entitled, beside an amount that is kept for others; its pool may
        lend it too little all the same.
        """
        return _needed(add(add(self.held(usage, ask.pool, ask), aside), usage.slack(ask.pool)[1]), ask.need)

    def told_limit(self, usage: Usage, level: str, ask: Ask, kinds: Kinds) -> Amounts:
        """Return the amount that it allows, by resource."""
        return kinds.amounts(self.allows(usage, level))


Lists = tuple[tuple[Bound, ...], ...]
"""Bounds by class of work: those that bind it."""


class Bounds:
    """All bounds, and which of them hold for whom."""

    def __init__(self, bounds: Sequence[Bound]) -> None:
        self.told = _by_class(bounds)
        """The first that refuses a unit is the reason that is told."""
        amounts = tuple(dict.fromkeys([bound.whole for bound in bounds if bound.role is not Role.GATE]))
        limits = [bound for bound in amounts if bound.role is Role.LIMIT]
        rights = [bound for bound in amounts if bound.role is Role.RIGHT]
        self.rights = _by_class(rights)
        """Those by which a unit is entitled, before limits are looked at."""
        self.limits = _by_class(limits)
        """Those within which units that wait are admitted."""
        self.loans = _by_class(amounts, lambda bound, kind: kind in LENT_TO and not bound.of_entitled)
        """Those within which is lent."""
        self.beside_limits = _by_class(amounts, lambda bound, kind: bound is not LIMITS)
        """Those for which nobody leaves: room is made under limits alone."""
        self.fixed = _by_class([bound for bound in (*limits, *rights) if bound.is_fixed])
        """Those that may refuse a unit even if nothing else is admitted."""
        self.kept_up = _by_class([bound for bound in amounts if bound.is_kept_up])
        self.of_entitled = tuple([bound for bound in amounts if bound.of_entitled])
        self.by_code: Mapping[str, Bound] = {
            code: each for bound in bounds for each in (bound, bound.whole) for code in (each.code, *each.others)
        }


def _by_class(bounds: Iterable[Bound], holds: Callable[[Bound, int], bool] = lambda bound, kind: True) -> Lists:
    every = tuple(bounds)
    return tuple([tuple([one for one in every if one.binds(kind) and holds(one, kind)]) for kind in range(CLASSES)])


CLOSED, HOSTS, RESERVATION, CONTROLLERS_SHARE = Closed(), Hosts(), Reservation(), Controllers()
LIMIT, LIMIT_ABOVE, LIMITS = Limit(OWN), Limit(ABOVE), Limit(ALL)
ENTITLEMENT, SLACK, KINDS_REACH, HOST_POOLS = Entitlement(), Slack(), KindsReach(), HostPools()
OWN_BOUNDS = CLOSED, HOSTS, RESERVATION, LIMIT, CONTROLLERS_SHARE, ENTITLEMENT, SLACK
BOUNDS = Bounds((*OWN_BOUNDS, KINDS_REACH, LIMIT_ABOVE, HOST_POOLS))
"""In the order in which they are told: an own bound comes before those of others, and what a user or an owner can
change before what changes by itself.
"""


def check(usage: Usage, ask: Ask, bounds: Iterable[Bound]) -> Refusal | None:
    """Why a unit isn't admitted by bounds that bind it; None: none of them refuses it."""
    for bound in bounds:
        if (refusal := bound.refusal(usage, ask)) is not None:
            return refusal
    return None


def room(usage: Usage, ask: Ask, bounds: Iterable[Bound]) -> Vector:
    """The amount that bounds leave for a unit that they bind, and for those like it; what it needs itself isn't looked
    at, nor, but for what is entitled, its priority.
    """
    amount: Vector = (BOUNDLESS,) * len(ask.need)
    for bound in bounds:
        for level in usage.levels(ask.pool)[bound.levels]:
            free = bound.room(usage, level, ask)
            amount = amount if free is None else tuple(map(min, amount, free))
    return amount


def bound_of(code: str) -> Bound:
    """The bound that refuses with a code; of codes for which there is none one that has no amount."""
    return BOUNDS.by_code.get(code, CLOSED)


def refuses_all(code: str) -> bool:
    """Whether the bound with a code refuses all units of a pool, however little they need."""
    return isinstance(BOUNDS.by_code.get(code), Gate)


def is_served_last(row: PoolRow, kind: int) -> bool:
    """Whether a pool gets of a kind only what no other pool wants: it has neither share nor reservation. Its units are
    told so (SHARE_OF_NOTHING).
    """
    return not row.share[kind] and not row.reservation[kind]


def has_no_share(row: PoolRow, kind: int) -> bool:
    """Whether a pool gets of a kind beyond its reservation only what no other pool wants: it is lent to last, since
    loans are beyond that.
    """
    return not row.share[kind]


def lacks_behind_all(row: PoolRow, kind: int, floor: int, share: int) -> bool:
    """Whether a pool gets the rest of a floor only from what no other pool wants: it saves for no turn then. `share`:
    the amount that it gets already.
    """
    return has_no_share(row, kind) and floor > share


def with_numbers(usage: Usage, refusal: Refusal, ask: Ask) -> Refusal:
    """A refusal with its numbers, as they are now."""
    allowed, used = bound_of(refusal.code).told(usage, refusal.at, ask)
    return refusal._replace(need=ask.need, bound=allowed, usage=used)


def closed_at(pools: Mapping[str, PoolRow], levels: Iterable[str]) -> str:
    """The pool on a path that is closed; empty: none is."""
    return next((level for level in levels if pools[level].closed), "")


def limit_of(row: PoolRow, level: str, kinds: Kinds) -> Vector:
    """The limit of a pool; of the root with the licences of the cell."""
    licences = kinds.licences if level == "/" else {}
    if not licences:
        return row.limit
    return tuple([licences.get(name, most) for name, most in zip(kinds.names, row.limit, strict=True)])


def limited_kinds(row: PoolRow) -> list[bool]:
    """Whether each kind is limited at a pool; licences aside."""
    return [most != UNLIMITED for most in row.limit]


def limit_amounts(row: PoolRow, level: str, kinds: Kinds) -> Amounts:
    """The same by resource, of those that are limited; licences come last."""
    return kinds.amounts(row.limit, UNLIMITED) | (kinds.licences if level == "/" else {})


def exceeds(need: Vector, room: Vector) -> bool:
    """Whether more is needed of a kind than there is."""
    return any(want > have for want, have in zip(need, room, strict=True) if want > 0)


def _needed(have: Vector, need: Vector) -> Vector:
    """An amount with a need, of the kinds that are needed."""
    return tuple([each + want if want else 0 for each, want in zip(have, need, strict=True)])


def _admitted(usage: Usage, level: str) -> Vector:
    """The amount that is admitted in a pool, with parked units: these count as entitled."""
    return add(usage.allocation(level), usage.parked(level))
