"""Exact weighted max-min sharing of one amount, in integers: among wants, and among the pools right below one.

Bertsekas and Gallager, Data Networks, 6.5.2 (max-min fair allocation by progressive filling), with weights as in
Demers, Keshav and Shenker (1989). Nobody can get more without another, who has less for its weight, getting less.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import Protocol


class Filling:
    """Wants that share an amount by weight, ordered by want for weight; who gets its whole want comes first.

    A change of one want, or of the amount, moves the border between those that are met and the others only as far as
    it must. What can't be divided evenly goes, unit by unit, to the largest remainders, in the order of the wants.
    """

    __slots__ = (
        *("_base", "_classes", "_cut", "_met", "_order", "_quota", "_scale", "_ties", "_total", "_used", "_wants"),
        *("_weight", "_weights"),
    )

    def __init__(self, wants: Sequence[int], weights: Sequence[int]) -> None:
        self._wants = list(wants)
        self._weights = weights
        # Two different wants for their weights differ by at least 1 / max(weights)^2: scaled so, the floor keeps order.
        # With its place as the last digit a key is one number, and those that are equal stand in their order.
        self._scale = max(weights, default=0) ** 2
        self._base = len(weights)
        self._order = sorted(self._key(at) for at, want in enumerate(wants) if want > 0 and weights[at] > 0)
        self._met = 0
        """The number of wants in the order that are met."""
        self._used = 0
        """The amount that those get together."""
        self._weight = 0
        """The weights of all others."""
        self._classes: dict[int, list[int]] = {}
        """These others by weight."""
        for key in self._order:
            self._join(key % self._base)
        self._total: int | None = None
        """The amount that the border is right for."""
        self._cut = 0
        self._quota = 0
        """Remainders above the cut get one unit more, of those at the cut so many."""
        self._ties: list[list[int]] = []

    def change(self, at: int, want: int) -> None:
        """Another want of one of them."""
        total, self._total = self._total, None
        old, weight = self._wants[at], self._weights[at]
        if weight == 0 or old == want:
            self._wants[at], self._total = want, total
            return
        active = False
        if old > 0:
            place = bisect_left(self._order, self._key(at))
            del self._order[place]
            active = place >= self._met
            if not active:
                self._met -= 1
                self._used -= old
        self._wants[at] = want
        if want > 0:
            key = self._key(at)
            place = bisect_left(self._order, key)
            self._order.insert(place, key)
            if place < self._met:
                self._met += 1
                self._used += want
            elif active:
                if total is not None and want * self._weight > (total - self._used) * weight:
                    self._total = total  # it is above the level still, which stays where it was
                return
            else:
                self._join(at)
                return
        if active:
            self._leave(at)

    def level(self, total: int) -> tuple[int, int]:
        """The amount that those share that aren't met, and their weights together; weight 0: all are met."""
        self._settle(total)
        return total - self._used, self._weight

    def given(self, total: int, at: int) -> int:
        """The part that one of them gets of an amount."""
        want, weight = self._wants[at], self._weights[at]
        if want <= 0 or weight == 0:
            return 0
        if total != self._total:
            self._settle(total)
        met, order = self._met, self._order
        if met == len(order) or self._key(at) < order[met]:
            return want
        part, rest = divmod((total - self._used) * weight, self._weight)
        if rest < self._cut:
            return part
        if rest > self._cut:
            return part + 1
        before = sum(bisect_left(tied, at) for tied in self._ties)
        return part + (before < self._quota)

    def _key(self, at: int) -> int:
        return self._wants[at] * self._scale // self._weights[at] * self._base + at

    def _join(self, at: int) -> None:
        """Counts one among those that aren't met."""
        weight = self._weights[at]
        self._weight += weight
        insort(self._classes.setdefault(weight, []), at)

    def _leave(self, at: int) -> None:
        weight = self._weights[at]
        self._weight -= weight
        same = self._classes[weight]
        del same[bisect_left(same, at)]
        if not same:
            del self._classes[weight]

    def _settle(self, total: int) -> None:
        """Moves the border to where it belongs for an amount."""
        if total == self._total:
            return
        order, wants, weights = self._order, self._wants, self._weights
        while self._met:
            at = order[self._met - 1] % self._base
            if wants[at] * (self._weight + weights[at]) <= (total - self._used + wants[at]) * weights[at]:
                break
            self._met -= 1
            self._used -= wants[at]
            self._join(at)
        while self._met < len(order):
            at = order[self._met] % self._base
            if wants[at] * self._weight > (total - self._used) * weights[at]:
                break
            self._met += 1
            self._used += wants[at]
            self._leave(at)
        self._total = total
        self._divide(total - self._used)

    def _divide(self, remaining: int) -> None:
        """Finds who gets a unit of what can't be divided evenly."""
        self._cut, self._quota, self._ties = 0, 0, []
        rests = {weight: remaining * weight % self._weight for weight in self._classes}
        units = sum(rest * len(self._classes[weight]) for weight, rest in rests.items())
        units = units // self._weight if units else 0
        if not units:
            self._cut = self._weight
            return
        for weight in sorted(rests, key=rests.__getitem__, reverse=True):
            if rests[weight] != self._cut or not self._ties:
                if units <= 0:
                    break
                self._cut, self._quota, self._ties = rests[weight], units, []
            self._ties.append(self._classes[weight])
            units -= len(self._classes[weight])


def fill(total: int, wants: Sequence[int], weights: Sequence[int], least: Mapping[int, int] | None = None) -> list[int]:
    """Divides an amount among wants by weights. Weight 0 gets nothing. `least`: what some get at least, not more than
    they want and together not more than the amount; the others share the rest.
    """
    return fill_to_level(total, wants, weights, least or {})[0]


def fill_to_level(
    total: int, wants: Sequence[int], weights: Sequence[int], least: Mapping[int, int]
) -> tuple[list[int], tuple[int, int]]:
    """The same, and the level (`Filling.level`)."""
    amounts = dict[int, int]()
    while True:
        remaining = total - sum(amounts.values())
        filling = Filling([0 if at in amounts else want for at, want in enumerate(wants)], weights)
        level, weight = filling.level(remaining)
        over = {
            at: low
            for at, low in least.items()
            if at not in amounts and (low * weight > level * weights[at] or weights[at] == 0 < low)
        }
        if not over:
            whole = [amounts[at] if at in amounts else filling.given(remaining, at) for at in range(len(wants))]
            return whole, (level, weight)
        amounts |= over


class HasFloor(Protocol):
    """A pool that has a floor, or pools below it that do."""

    def floor_in(self, kind: int) -> int:
        """The least that it needs of a kind."""


class Siblings:
    """First each has what it wants of its reservation; then they share by weight what they want beyond it, within a
    floor for those whose turn it is; what nobody with a share wants goes to those with share 0.

    Where the reservations exceed what there is, all of it is divided by reservation.
    """

    __slots__ = (
        *("_by_reservation", "_by_share", "_changes", "_found", "_kind", "_last", "_level", "_reservation", "_share"),
        *("claimed", "floors", "reserved", "want", "wanted"),
    )

    def __init__(
        self,
        kind: int,
        reservation: Sequence[int],
        share: Sequence[int],
        want: Sequence[int],
        floors: Mapping[int, HasFloor],
    ) -> None:
        """The columns of the pools, ordered by path. `want`: within limits; `floors`: of some of them."""
        self._kind = kind
        self._reservation = reservation
        self._share = share
        self.want = list(want)
        self.reserved = list(map(min, want, reservation))
        """The part of its reservation that each wants."""
        self.wanted = sum(self.want)
        self.claimed = sum(self.reserved)
        """The sums of these."""
        self.floors = dict(floors)
        self._by_reservation: Filling | None = None
        self._by_share: Filling | None = None
        self._last: Filling | None = None
        """Those with share 0."""
        self._found: tuple[object, list[int]] = (None, [])
        self._level = (0, 0)
        """The last result with floors, and its arguments."""
        self._changes = 0

    def change(self, at: int, want: int) -> None:
        """One of them wants something else."""
        self._changes += 1
        reserved = min(want, self._reservation[at])
        self.wanted += want - self.want[at]
        self.claimed += reserved - self.reserved[at]
        self.want[at], self.reserved[at] = want, reserved
        if self._by_reservation is not None:
            self._by_reservation.change(at, reserved)
        if self._by_share is not None:
            self._by_share.change(at, want - reserved)
        if self._last is not None:
            self._last.change(at, want - reserved)

    def floor(self) -> int:
        """The amount with which each floor among them holds beside the reservations of the others."""
        return self.claimed + sum(self._floor_of(at) - self.reserved[at] for at in self.floors)

    def given(self, total: int, at: int, floors: bool) -> int:
        """The entitlement of one of them when all together have an amount; with or without the floors."""
        if total >= self.wanted:
            return self.want[at]
        if total <= self.claimed:
            if self._by_reservation is None:
                self._by_reservation = Filling(self.reserved, self._reservation)
            return self._by_reservation.given(total, at)
        if floors and self.floors:
            return self._with_floors(total)[at]
        free, reserved = total - self.claimed, self.reserved[at]
        by_share = self._shares()
        if self._share[at]:
            return reserved + by_share.given(free, at)
        remaining, weight = by_share.level(free)
        if weight:
            return reserved
        if self._last is None:
            self._last = Filling(self._beyond(), self._without_share())
        return reserved + self._last.given(remaining, at)

    def most(self, total: int, at: int) -> int:
        """The most that one of them could be entitled to by a floor, beside what the others want of their reservations
        and while no other has a floor.
        """
        if total <= self.claimed:
            return self.given(total, at, False)
        return min(self.want[at], total - self.claimed + self.reserved[at])

    def level(self, total: int, floors: bool) -> tuple[int, int] | None:
        """The amount that those share by weight that haven't got what they want, and their weights together. None: all
        have it; weights 0: those with share 0 share, or all by reservation.
        """
        if total >= self.wanted:
            return None
        if total <= self.claimed:
            return 0, 0
        if floors and self.floors:
            self._with_floors(total)
            return self._level
        return self._shares().level(total - self.claimed)

    def _shares(self) -> Filling:
        if self._by_share is None:
            self._by_share = Filling(self._beyond(), self._share)
        return self._by_share

    def _beyond(self) -> list[int]:
        return [want - reserved for want, reserved in zip(self.want, self.reserved, strict=True)]

    def _without_share(self) -> list[int]:
        return [0 if share else 1 for share in self._share]

    def _floor_of(self, at: int) -> int:
        return max(self.reserved[at], min(self.floors[at].floor_in(self._kind), self.want[at]))

    def _with_floors(self, total: int) -> list[int]:
        """The entitlements of all of them, with floors. These hold in the order of paths, as far as the reservations
        leave something.
        """
        floors = {at: self._floor_of(at) for at in sorted(self.floors)}
        key = (self._changes, total, tuple(floors.items()))
        if self._found[0] == key:
            return self._found[1]
        free = remaining = total - self.claimed
        least: dict[int, int] = {}
        for at, floor in floors.items():
            least[at] = min(floor - self.reserved[at], remaining)
            remaining -= least[at]
        beyond = self._beyond()
        last = {at: low for at, low in least.items() if not self._share[at]}
        first = {at: low for at, low in least.items() if self._share[at]}
        by_share, self._level = fill_to_level(free - sum(last.values()), beyond, self._share, first)
        rest = fill(free - sum(by_share), beyond, self._without_share(), last)
        amounts = [sum(parts) for parts in zip(self.reserved, by_share, rest, strict=True)]
        self._found = (key, amounts)
        return amounts
