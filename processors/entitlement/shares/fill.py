"""Exact weighted max-min sharing of one amount, in integers.

Bertsekas and Gallager, Data Networks, 6.5.2 (max-min fair allocation by progressive filling), with weights as in
Demers, Keshav and Shenker (1989). Nobody can get more without another, who has less for its weight, getting less.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence


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
        """How many of the order are met."""
        self._used = 0
        """What those get together."""
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
        """What those that aren't met share, and their weights together; weight 0: all are met."""
        self._settle(total)
        return total - self._used, self._weight

    def given(self, total: int, at: int) -> int:
        """What one of them gets of an amount."""
        want, weight = self._wants[at], self._weights[at]
        if want <= 0 or weight == 0:
            return 0
        if total != self._total:
            self._settle(total)
        met, order = self._met, self._order
        if met == len(order) or self._key(at) < order[met]:
            return want
        given, rest = divmod((total - self._used) * weight, self._weight)
        if rest < self._cut:
            return given
        if rest > self._cut:
            return given + 1
        before = sum(bisect_left(tied, at) for tied in self._ties)
        return given + (before < self._quota)

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

    def _divide(self, left: int) -> None:
        """Finds who gets a unit of what can't be divided evenly."""
        self._cut, self._quota, self._ties = 0, 0, []
        rests = {weight: left * weight % self._weight for weight in self._classes}
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
    given = dict[int, int]()
    while True:
        left = total - sum(given.values())
        filling = Filling([0 if at in given else want for at, want in enumerate(wants)], weights)
        level, weight = filling.level(left)
        over = {
            at: low
            for at, low in least.items()
            if at not in given and (low * weight > level * weights[at] or weights[at] == 0 < low)
        }
        if not over:
            whole = [given[at] if at in given else filling.given(left, at) for at in range(len(wants))]
            return whole, (level, weight)
        given |= over
