"""An independent version of the rules of preemption: amounts by name of the resource, victims one after another."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

OWN, GIVE, MOVE, CLEAR, LIMIT = 1, 2, 3, 4, 5
Amounts = Mapping[str, int]


class Giver(NamedTuple):
    """A pool that gives: what of it has a place and isn't leaving, its entitlement, and its reservation within that."""

    placed: Counter[str]
    entitlement: Amounts
    reserved: Amounts

    def excess(self, name: str) -> int:
        """The amount that it has beyond its entitlement."""
        return self.placed[name] - self.entitlement.get(name, 0)


class Taker(NamedTuple):
    """A gang that takes: what it needs, what has a place of its pool and isn't leaving, and the pool's entitlement."""

    need: Amounts
    placed: Counter[str]
    entitlement: Amounts
    below_reservation: bool

    def lacks(self, name: str) -> int:
        """The amount that its pool has less than its entitlement."""
        return self.entitlement.get(name, 0) - self.placed[name]


def why_not(victim: Amounts, giver: Giver, taker: Taker, earlier: Counter[str], slice_over: bool) -> str:
    """Why a pool needn't give a unit; empty: it must. `taken`: what those before it give to the same gang."""
    counts = [
        name for name, amount in victim.items() if amount > 0 < taker.need.get(name, 0) and giver.excess(name) > 0
    ]
    if not counts:
        return "its pool has nothing above its entitlement that is needed"
    if all(earlier[name] >= taker.lacks(name) for name in counts):
        return "the other pool has all that it is entitled to"
    for name in (name for name in counts if victim[name] > giver.excess(name)):
        above = victim[name] <= giver.placed[name] - giver.reserved.get(name, 0)
        if taker.below_reservation and above:
            continue
        deficit, lacks = victim[name] - giver.excess(name), taker.lacks(name) - earlier[name]
        if deficit * taker.entitlement.get(name, 0) < lacks * giver.entitlement.get(name, 0):
            continue
        if not slice_over:
            return f"it is larger than what its pool holds above its entitlement, in {name}"
    return ""


def slice_ms(turn_for_ms: int, used: int, doublings: int) -> int:
    """So long a unit is protected that has used up so many slices."""
    return turn_for_ms << min(used, doublings)
