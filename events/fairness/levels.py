"""The level up to which pools share, found from what they got, and whether each got what it says."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple


class Unfair(ValueError):
    """Why what pools got isn't fair."""


class Member(NamedTuple):
    """One of the pools right below another, in one resource."""

    path: str
    want: int
    """Within its limit."""
    reservation: int
    weight: int
    """Its share."""
    floor: int
    """The least that it, or a pool below it, needs for a turn; 0: nobody has one."""
    entitlement: int
    low: int = 0
    """The part of that which it must get, its reservation included."""


class Outcome(NamedTuple):
    """The result of filling a level, and the rule that bounds it."""

    rule: str
    """want: each got what it wants; reservation: all was divided by reservation; share: by share beyond these."""
    reserved: int
    """The sum of what all want of their reservations."""
    levels: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))
    """The amount for each unit of share, and for each pool with share 0."""


class _Part(NamedTuple):
    """The part of a pool in an amount that is divided by weight, with the least and the most that it can get."""

    path: str
    weight: int
    least: int
    most: int
    entitlement: int

    def at(self, level: Fraction) -> Fraction:
        """The amount that it is due at a level."""
        return max(Fraction(self.least), min(Fraction(self.most), level * self.weight))


def with_lows(total: int, members: Sequence[Member]) -> list[Member]:
    """The pools with what each must get: its reservation, and of its floor what those of the others leave, by path."""
    rest = total - sum(min(each.want, each.reservation) for each in members)
    members_with_lows = []
    for each in members:
        reserved = min(each.want, each.reservation)
        more = max(0, min(min(each.floor, each.want) - reserved, rest))
        rest -= more
        members_with_lows.append(each._replace(low=reserved + more))
    return members_with_lows


def outcome(total: int, members: Sequence[Member]) -> Outcome:
    """Derives how the pools right below one came to their parts of `total`. Raises `Unfair`."""
    for each in members:
        if not 0 <= each.entitlement <= each.want:
            raise Unfair(f"{each.path} wants {each.want} and gets {each.entitlement}")
    total_given = sum(each.entitlement for each in members)
    reserved = sum(min(each.want, each.reservation) for each in members)
    if all(each.entitlement == each.want for each in members):
        if total_given > total:
            raise Unfair(f"they get {total_given}, there is {total}")
        return Outcome("want", reserved)
    if total_given != total:
        raise Unfair(f"they get {total_given}, there is {total}, and not all have what they want")
    if reserved >= total:
        level = _level(
            total,
            [
                _Part(each.path, each.reservation, 0, min(each.want, each.reservation), each.entitlement)
                for each in members
            ],
        )
        return Outcome("reservation", reserved, (level, level))
    members = with_lows(total, members)
    if low := next((each for each in members if each.entitlement < each.low), None):
        raise Unfair(f"{low.path} gets {low.entitlement}, {low.low} is reserved for it or needed for its turn")
    parts = [
        _Part(each.path, each.weight, each.low - reservation, each.want - reservation, each.entitlement - reservation)
        for each in members
        for reservation in [min(each.want, each.reservation)]
    ]
    first, last = (
        [part for part in parts if part.weight],
        [part._replace(weight=1) for part in parts if not part.weight],
    )
    if all(part.entitlement == part.most for part in first):
        return Outcome("share", reserved, (Fraction(0), _level(sum(part.entitlement for part in last), last)))
    if early := next((part for part in last if part.entitlement > part.least), None):
        raise Unfair(f"{early.path} has share 0 and gets {early.entitlement} before others have what they want")
    return Outcome("share", reserved, (_level(sum(part.entitlement for part in first), first), Fraction(0)))


def _level(total: int, parts: Sequence[_Part]) -> Fraction:
    """The level at which they get `total` together, which isn't all that they want. Raises `Unfair` where there is
    none, or where one of them got something else than it says.
    """
    lowest, highest = Fraction(0), Fraction(0)
    low_path = high_path = ""
    for part in parts:
        if part.weight and part.entitlement < part.most:
            bound = Fraction(part.entitlement + 1, part.weight)
            if not high_path or bound < highest:
                highest, high_path = bound, part.path
        if part.weight and part.entitlement > part.least:
            bound = Fraction(part.entitlement - 1, part.weight)
            if bound > lowest:
                lowest, low_path = bound, part.path
    if not high_path:
        highest = max((Fraction(part.most, part.weight) for part in parts if part.weight), default=Fraction(0)) + 1
    if lowest >= highest:
        raise Unfair(f"{low_path} gets more for its weight than {high_path}, which wants more")
    level = _solved(total, parts, lowest, highest)
    exact = [part.at(level) for part in parts]
    whole = [int(each) for each in exact]
    order = sorted(range(len(parts)), key=lambda at: (whole[at] - exact[at], at))
    for at in order[: total - sum(whole)]:
        whole[at] += 1
    for part, due in zip(parts, whole, strict=True):
        if part.entitlement != due:
            raise Unfair(f"{part.path} gets {part.entitlement}, {due} is due")
    return level


def _solved(total: int, parts: Sequence[_Part], lowest: Fraction, highest: Fraction) -> Fraction:
    """The level between two bounds at which they get `total` together."""
    bends = {Fraction(each, part.weight) for part in parts if part.weight for each in (part.least, part.most)}
    levels = sorted({lowest, highest} | {bend for bend in bends if lowest < bend < highest})
    below, above = 0, len(levels) - 1
    sums = {at: sum((part.at(levels[at]) for part in parts), Fraction(0)) for at in (below, above)}
    if not sums[below] <= total <= sums[above]:
        raise Unfair(
            f"they get {total}; the level that their numbers show gives {int(sums[below])} to {int(sums[above])}"
        )
    while above - below > 1:
        middle = (below + above) // 2
        sums[middle] = sum((part.at(levels[middle]) for part in parts), Fraction(0))
        if sums[middle] <= total:
            below = middle
        else:
            above = middle
    rise = sums[above] - sums[below]
    return levels[below] + (levels[above] - levels[below]) * (total - sums[below]) / rise if rise else levels[below]
