"""The rules of preemption, which runs may leave for which unit: placement plans by them, entitlement confirms by them.

Pure functions over vectors of integers, one amount per kind in one order. Victims are judged one after another, in the
order in which they were chosen: each on the numbers that the ones before it leave (`Giver.less`, `transfer`).
"""

from collections.abc import Iterable, Sequence
from enum import IntFlag
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from events.cell_settings import Settings
from events.codes import Code, Way
from events.columns import I64
from events.resources import UNBOUNDED, Vector, subtract
from processors.state.displacements import Displacements
from processors.state.seconds import milliseconds


class Flag(IntFlag):
    """A permission of a right beyond OWN and GIVE (the column `flags` of RightsSet)."""

    BELOW_RESERVATION = 1
    """The pool of the gang is below its reservation: neither the cap of preemptions per hour nor, where hosts are
    cleared, a slice spares anybody.
    """
    MOVE = 2
    CLEAR = 4
    MOVES_ALONE = 16
    """An operator asked for room before others would leave for it: they are moved, and nobody leaves in another way."""
    DAEMON = 8
    """It is of a daemon: hosts are cleared for it at once, whatever share, reservation or slice covers who is there."""


class Right(NamedTuple):
    """The right of a gang without a place (the columns of RightsSet)."""

    others: Vector
    """The amount that its pool may still take from others for it: entitlement, less what is placed and isn't leaving,
    less claims that are older. Not above 0: nothing of that kind.
    """
    entitlement: Vector
    """That of its pool."""
    flags: int = 0


class Giver(NamedTuple):
    """A pool that may be asked to give (the columns of RightsSet), or what the victims before have left of it."""

    excess: Vector
    """The amount that it has placed and isn't leaving, beyond its entitlement; below 0: it has less."""
    entitlement: Vector
    spare: Vector
    """The same beyond the part of its entitlement that is within its reservation."""

    def less(self, amount: Vector) -> "Giver":
        """The rest when victims have left that hold an amount."""
        return Giver(_minus(self.excess, amount), self.entitlement, _minus(self.spare, amount))


class Victim(NamedTuple):
    """A unit that may have to leave: a gang whole, or one task."""

    amount: Vector
    """The amount that it holds."""
    own: bool
    """Whether it is of the pool of the gang that takes."""
    yields: bool
    """Whether it is of lower priority than that gang, borrowed or revocable: what an own victim must be."""
    preemptible: bool
    capped: bool
    """Whether it was preempted as often in the last hour as the cell allows."""
    slice_over: bool
    """Whether it has run for its slice (`slice_ms`)."""


class Protection(NamedTuple):
    """The past of a unit, as far as it keeps others from preempting it."""

    capped: bool
    slice_over: bool
    """It has run for its slice, so that no longer."""


UNPROTECTED = Protection(False, False)


class PlacedUnit(Protocol):
    """A unit that has a place, as its machine knows it, whoever takes from it."""

    @property
    def pool(self) -> str:
        """The pool of its job."""

    @property
    def priority(self) -> int:
        """The priority of its job."""

    @property
    def amount(self) -> Vector:
        """The amount that it holds."""

    @property
    def borrowed(self) -> bool:
        """Whether it is admitted beyond the entitlement of its pool."""

    @property
    def preemptible(self) -> bool:
        """Whether its job may be preempted."""

    @property
    def revocable(self) -> bool:
        """Whether it runs on slack."""

    @property
    def protection(self) -> Protection:
        """The protection by its past."""


WAYS_OF_OWN, WAYS_OF_OTHERS = (Way.OWN, Way.MOVE), (Way.GIVE, Way.MOVE, Way.CLEAR)
"""The ways in which units of the pool of the taking gang may leave, and those of other pools."""


@overload
def yields(priority: int, borrowed: bool, revocable: bool, taker_priority: int, for_revocable: bool) -> bool: ...
@overload
def yields(
    priority: I64,
    borrowed: NDArray[np.bool_],
    revocable: NDArray[np.bool_],
    taker_priority: int,
    for_revocable: bool,
) -> NDArray[np.bool_]: ...
def yields(priority: Any, borrowed: Any, revocable: Any, taker_priority: int, for_revocable: bool) -> Any:
    """Whether a unit, or each of many, gives way to a gang of its own pool. What runs on slack gives way to all that
    doesn't; for what runs on slack nothing else leaves.
    """
    gives_way = borrowed | (priority < taker_priority)
    return revocable & gives_way if for_revocable else revocable | gives_way


BATCH, SERVICE, CONTROLLER = range(3)
"""The kinds of victims: of equal priority, those of a lower kind leave first."""


def victim_kind(service: bool, controller: bool) -> int:
    """The kind of a unit: the controller of a job leaves last, whatever its job is."""
    return CONTROLLER if controller else SERVICE if service else BATCH


def victim_of(unit: PlacedUnit, pool: str, priority: int, for_revocable: bool) -> Victim:
    """A unit as the rules judge it for a gang of a pool with a priority, which runs on slack or not."""
    gives_way = yields(unit.priority, unit.borrowed, unit.revocable, priority, for_revocable)
    return Victim(unit.amount, unit.pool == pool, gives_way, unit.preemptible, *unit.protection)


class Verdict(NamedTuple):
    """Whether a unit may go. `code` is empty: it may; else NON_PREEMPTIBLE, CAP_REACHED, SLICE_NOT_OVER or NO_RIGHT."""

    code: str = ""
    slice: bool = False
    """It has used up its slice, which doubles the next one of its tasks: else turns of the same length went round."""

    @property
    def goes(self) -> bool:
        """Whether it may go."""
        return not self.code


CLEAN = Verdict()
BY_SLICE = Verdict(slice=True)
NON_PREEMPTIBLE = Verdict(Code.NON_PREEMPTIBLE)
CAP_REACHED = Verdict(Code.CAP_REACHED)
SLICE_NOT_OVER = Verdict(Code.SLICE_NOT_OVER)
NO_RIGHT = Verdict(Code.NO_RIGHT)


def slice_ms(turn_for_ms: int, used: int, doublings: int) -> int:
    """For how long a unit is protected that used up its slice `used` times: each time doubles it, up to a
    number of doublings. Of a gang `used` is the most of its tasks.
    """
    return turn_for_ms << min(max(0, used), doublings)


def protection(
    displaced: Displacements, job_id: str, instances: Iterable[int], placed_s: int, settings: Settings, now: int
) -> Protection:
    """The protection of a unit of which all tasks have had a place since the second `placed_s`."""
    used, capped = 0, not settings.preemptions_per_hour
    if job_id in displaced and (unit := displaced.remembered(job_id, instances)):
        used = displaced.slices(job_id, unit)
        capped = displaced.capped_ms(job_id, unit, now, settings.preemptions_per_hour) > 0
    ran_ms = now - milliseconds(placed_s)
    return Protection(capped, ran_ms >= slice_ms(settings.turn_for_ms, used, settings.turn_doublings))


def may_go(way: int, victim: Victim, need: Vector, giver: Giver, right: Right, transfer: Vector) -> Verdict:
    """Whether a unit may be told to leave in a way for a gang that needs `need` and has `right`.

    `giver`: the pool of the victim, less the victims before; OWN and MOVE don't look at it. `transfer`: what those
    victims give by GIVE.
    """
    if not victim.preemptible:
        return NON_PREEMPTIBLE
    if victim.capped and not right.flags & Flag.BELOW_RESERVATION:
        return CAP_REACHED
    if way not in (WAYS_OF_OWN if victim.own else WAYS_OF_OTHERS):
        return NO_RIGHT
    if right.flags & Flag.MOVES_ALONE and way != Way.MOVE:
        return NO_RIGHT
    if way == Way.OWN:
        return CLEAN if victim.yields else NO_RIGHT
    if way == Way.GIVE:
        return may_give(victim.amount, need, giver, right, transfer, victim.slice_over)
    if way == Way.MOVE:
        return CLEAN if right.flags & Flag.MOVE else NO_RIGHT
    if right.flags & Flag.DAEMON:
        return CLEAN
    if not right.flags & Flag.CLEAR:
        return NO_RIGHT
    if any(have > 0 and have > spare for have, spare in zip(victim.amount, giver.spare, strict=True)):
        return NO_RIGHT
    if right.flags & Flag.BELOW_RESERVATION:
        return CLEAN
    return BY_SLICE if victim.slice_over else SLICE_NOT_OVER


def may_give(
    amount: Vector, need: Vector, giver: Giver, right: Right, transfer: Vector, slice_over: bool = False
) -> Verdict:
    """Whether a pool above its entitlement gives a unit that holds `amount`.

    Only kinds count that the unit holds, the gang needs and the giver has in excess; of one of them the taker must
    still be allowed some. Within the excess in all of them it goes. What is larger in some (oversize) goes only if, in
    each of these, (a) the taker is below its reservation and the giver stays within or above its own, or (b) the
    giver's deficit afterwards is, relative to its entitlement, smaller than the taker's before; or (c) its slice is
    over.
    """
    allowed = False
    oversize: list[int] = []
    excess, others = giver.excess, right.others
    for kind, have in enumerate(amount):
        if have > 0 and need[kind] > 0 and excess[kind] > 0:
            allowed = allowed or transfer[kind] < others[kind]
            if have > excess[kind]:
                oversize.append(kind)
    if not allowed:
        return NO_RIGHT
    if slice_over:
        return BY_SLICE
    return CLEAN if all(_oversize_goes(kind, amount, giver, right, transfer) for kind in oversize) else SLICE_NOT_OVER


def has_to_give(need: Vector, giver: Giver, right: Right) -> bool:
    """Whether a pool has anything in excess that a gang needs and may take; if not, `may_give` refuses each unit."""
    return any(
        want > 0 and have > 0 and most > 0 for want, have, most in zip(need, giver.excess, right.others, strict=True)
    )


def times(way: int, amount: Vector, need: Vector, giver: Giver, right: Right, transfer: Vector) -> int:
    """For how many units that are alike and hold so much each, one after another, the verdict on the first one holds,
    which may go.
    """
    if way == Way.CLEAR and not right.flags & Flag.DAEMON:
        return min(
            [spare // have for have, spare in zip(amount, giver.spare, strict=True) if have > 0], default=UNBOUNDED
        )
    if way != Way.GIVE:
        return UNBOUNDED
    excess = giver.excess
    kinds = [kind for kind, have in enumerate(amount) if have > 0 and need[kind] > 0 and excess[kind] > 0]
    within = min(excess[kind] // amount[kind] for kind in kinds)
    allowed = max(-((transfer[kind] - right.others[kind]) // amount[kind]) for kind in kinds)
    return max(1, min(within, allowed))


def takeable(way: int, need: Vector, giver: Giver, right: Right, transfer: Vector) -> Vector:
    """The amount that a pool may give in a way, of the kinds that a gang needs; empty: the way looks at no amounts."""
    if way == Way.CLEAR:
        amounts = giver.spare
    elif way == Way.GIVE:
        amounts = tuple(map(min, giver.excess, subtract(right.others, transfer)))
    else:
        return ()
    return tuple([max(0, amount) if want else 0 for amount, want in zip(amounts, need, strict=True)])


def staying(victims: Iterable[tuple[int, Sequence[int]]], surplus: Sequence[int]) -> list[int]:
    """The number of units that stay of each group of equal victims, when each whom nobody needs to leave stays.

    `victims`: units of a group, and what one of them frees of each amount that counts; the dearest first, so that the
    cheapest leave. `surplus`: what all of them free beyond what is needed, at least 0.
    """
    stay, rest = list[int](), list(surplus)
    for units, amount in victims:
        count = min([units, *[have // frees for have, frees in zip(rest, amount, strict=True) if frees > 0]])
        if count:
            rest = [have - count * frees for have, frees in zip(rest, amount, strict=True)]
        stay.append(count)
    return stay


def _minus(amount: Vector, less: Vector) -> Vector:
    """The difference, unchecked: it is computed for each victim that is judged, and can't be beyond 64 bits."""
    return tuple([have - take for have, take in zip(amount, less, strict=True)])


def _oversize_goes(kind: int, amount: Vector, giver: Giver, right: Right, transfer: Vector) -> bool:
    """Rule (a) or (b) for a kind of which a unit holds more than its pool's excess."""
    if right.flags & Flag.BELOW_RESERVATION and amount[kind] <= giver.spare[kind]:
        return True
    deficit, lacks = amount[kind] - giver.excess[kind], right.others[kind] - transfer[kind]
    return deficit * right.entitlement[kind] < lacks * giver.entitlement[kind]
