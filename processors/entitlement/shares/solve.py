"""The entitlements of all pools, computed whole, level by level; `ShareTree` keeps the same numbers up along paths.

Columns have a row for each kind and a column for each pool of a level, ordered by path, so that those right below one
pool are side by side: a group.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from events.columns import I64
from events.pool_paths import parent_of
from events.resources import Kinds, Vector
from processors.entitlement.rows import PoolRow
from processors.entitlement.shares.fill import Siblings

BITS = 8
"""So many bits of a weight are multiplied at once where the product could have more than 63."""


class Level:
    """The pools of one level."""

    def __init__(self, paths: list[str], rows: Mapping[str, PoolRow], kinds: Kinds, above: Mapping[str, int]) -> None:
        """`above`: the places of the pools of the level above."""
        self.paths = paths
        self.at = {path: at for at, path in enumerate(paths)}
        own = [rows[path] for path in paths]
        self.reservation = np.array([row.reservation for row in own], dtype=np.int64).T
        self.limit = np.array([row.limit for row in own], dtype=np.int64).T
        self.share = np.array([row.share for row in own], dtype=np.int64).T
        self.static = np.array([[name in row.static for name in kinds.names] for row in own]).T
        parents = np.array([above[parent_of(path)] for path in paths])
        self.starts = np.flatnonzero(np.diff(parents, prepend=-1))
        """Where the groups begin."""
        self.parents = parents[self.starts]
        """The places of the pools above them."""
        self.sizes = np.diff(self.starts, append=len(paths))

    def group(self, number: int) -> slice:
        """The pools of a group."""
        return slice(int(self.starts[number]), int(self.starts[number] + self.sizes[number]))


class Fixed(NamedTuple):
    """A floor."""

    amount: int

    def floor_in(self, kind: int) -> int:
        """Implements `HasFloor`."""
        return self.amount


class WholeTree:
    """The rules of all pools; `rows` has the root too."""

    def __init__(self, rows: Mapping[str, PoolRow], kinds: Kinds) -> None:
        self._levels: list[Level] = []
        by_depth: dict[int, list[str]] = {}
        for path in sorted(rows):
            if path != "/":
                by_depth.setdefault(path.count("/"), []).append(path)
        above = {"/": 0}
        for depth in sorted(by_depth):
            self._levels.append(Level(by_depth[depth], rows, kinds, above))
            above = self._levels[-1].at

    def entitlements(
        self, own: Mapping[str, Vector], capacity: Vector, floors: Mapping[str, Vector]
    ) -> dict[str, Vector]:
        """The entitlement of each pool; `own`: what each wants itself."""
        wants = self._wants(own)
        result = {"/": capacity}
        totals = np.array(capacity, dtype=np.int64)[:, np.newaxis]
        all_floors = list(self._floors(wants, floors))[::-1] if floors else [{}] * len(self._levels)
        for level, want, here in zip(self._levels, wants, all_floors, strict=True):
            totals = _shared(level, want, totals[:, level.parents], here)
            result.update(zip(level.paths, map(tuple, totals.T.tolist()), strict=True))
        return result

    def _wants(self, own: Mapping[str, Vector]) -> list[I64]:
        """The amounts that pools want within their rules, for each level."""
        result: list[I64] = []
        below: tuple[Level, I64] | None = None
        for level in reversed(self._levels):
            want = np.array([own[path] for path in level.paths], dtype=np.int64).T
            if below is not None:
                lower, demand = below
                want[:, lower.parents] += np.add.reduceat(demand, lower.starts, axis=1)
            want = np.where((level.limit >= 0) & (want > level.limit), level.limit, want)
            want = np.where(level.static, np.maximum(want, level.reservation), want)
            below = level, want
            result.append(want)
        return result[::-1]

    def _floors(self, wants: Sequence[I64], floors: Mapping[str, Vector]) -> "Iterator[dict[tuple[int, int], int]]":
        """The floors of pools, and of those above them, by kind and place, for each level from below."""
        below: tuple[Level, I64, dict[tuple[int, int], int]] | None = None
        for level, want in zip(reversed(self._levels), reversed(wants), strict=True):
            here: dict[tuple[int, int], int] = {}
            if below is not None:
                lower, demand, result = below
                for kind, parent in sorted({(kind, parent_of(lower.paths[at])) for kind, at in result}):
                    group = lower.group(int(np.searchsorted(lower.parents, level.at[parent])))
                    least = np.minimum(demand[kind, group], lower.reservation[kind, group]).tolist()
                    needed = sum(
                        max(low, min(result.get((kind, group.start + at), 0), int(demand[kind, group.start + at])))
                        for at, low in enumerate(least)
                    )
                    here[kind, level.at[parent]] = needed
            for path in floors.keys() & level.at.keys():
                here |= {(kind, level.at[path]): floor for kind, floor in enumerate(floors[path]) if floor}
            below = level, want, here
            yield here


def _shared(level: Level, want: I64, totals: I64, floors: Mapping[tuple[int, int], int]) -> I64:
    """The entitlements of the pools of a level; `totals`: those of the pools above each group."""
    kinds, groups = totals.shape
    number = np.repeat(np.arange(groups), level.sizes)
    group = (np.arange(kinds)[:, np.newaxis] * groups + number).ravel()
    total, flat = totals.ravel(), want.ravel()
    weight, reservation = level.share.ravel(), level.reservation.ravel()
    claim = np.minimum(flat, reservation)
    demand, claimed = _sums(flat, group, len(total)), _sums(claim, group, len(total))
    full, short = total >= demand, total <= claimed
    amounts = np.where(full[group], flat, claim)
    some = np.flatnonzero((short & ~full)[group])
    amounts[some] = _fill(total, claim[some], reservation[some], group[some])
    some = np.flatnonzero(~(short | full)[group])
    beyond, where = flat[some] - claim[some], group[some]
    remaining = total - claimed
    more = _fill(remaining, beyond, weight[some], where)
    remaining -= _sums(more, where, len(total))
    last = np.flatnonzero((weight[some] == 0) & (remaining[where] > 0))
    more[last] = _fill(remaining, beyond[last], np.ones(len(last), dtype=np.int64), where[last])
    amounts[some] += more
    result = amounts.reshape(want.shape)
    for kind, each in sorted({(kind, int(number[at])) for kind, at in floors}):
        if not full[kind * groups + each] and not short[kind * groups + each]:
            result[kind, level.group(each)] = _with_floors(level, want, kind, each, int(totals[kind, each]), floors)
    return result


def _with_floors(
    level: Level, want: I64, kind: int, number: int, total: int, floors: Mapping[tuple[int, int], int]
) -> list[int]:
    group = level.group(number)
    size = group.stop - group.start
    fixed = {at: Fixed(floors[kind, group.start + at]) for at in range(size) if (kind, group.start + at) in floors}
    reservation, share, wants = (each[kind, group].tolist() for each in (level.reservation, level.share, want))
    siblings = Siblings(kind, reservation, share, wants, fixed)
    return [siblings.given(total, at, True) for at in range(size)]


def _sums(values: I64, group: I64, groups: int) -> I64:
    """The sum of each group."""
    result = np.zeros(groups, dtype=np.int64)
    if len(values):
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        result[group[starts]] = np.add.reduceat(values, starts)
    return result


def _fill(totals: I64, want: I64, weight: I64, group: I64) -> I64:
    """Divides the total of each group as `fill`, by rounds: who wants no more than its part gets what it wants,
    until nobody is left who does.
    """
    amounts = np.zeros(len(want), dtype=np.int64)
    remaining = totals.copy()
    open_ = np.flatnonzero((want > 0) & (weight > 0))
    parts: list[tuple[I64, I64]] = []
    while len(open_):
        where = group[open_]
        part, rest = _portion(remaining[where], weight[open_], _sums(weight[open_], where, len(totals))[where])
        met = want[open_] <= part
        amounts[open_] = np.where(met, want[open_], part)
        goes_on = np.zeros(len(totals), dtype=np.bool_)
        goes_on[where[met]] = True
        final = ~goes_on[where]
        parts.append((open_[final], rest[final]))
        remaining -= _sums(np.where(met | final, amounts[open_], 0), where, len(totals))
        open_ = open_[~met & ~final]
    if parts:
        _round_up(amounts, remaining, group, *map(np.concatenate, zip(*parts, strict=True)))
    return amounts


def _round_up(amounts: I64, remaining: I64, group: I64, at: I64, rest: I64) -> None:
    """Gives what is left of each group to its largest remainders, in the order of paths."""
    some = remaining[group[at]] > 0
    at, rest = at[some], rest[some]
    order = np.lexsort((at, -rest, group[at]))
    at = at[order]
    where = group[at]
    starts = np.flatnonzero(np.diff(where, prepend=-1))
    rank = np.arange(len(at)) - np.repeat(starts, np.diff(starts, append=len(at)))
    amounts[at[rank < remaining[where]]] += 1


def _portion(remaining: I64, weight: I64, weights: I64) -> tuple[I64, I64]:
    """Left * weight / weights, and the remainder. `weights` has at most 54 bits."""
    whole, rest = np.divmod(remaining, weights)
    if int(weight.max()) * int(weights.max()) < 1 << 63:
        more, rest = np.divmod(rest * weight, weights)
        return whole * weight + more, rest
    factor, more, over = rest, np.zeros_like(rest), np.zeros_like(rest)
    for shift in range((int(weight.max()).bit_length() - 1) // BITS * BITS, -1, -BITS):
        digit = weight >> shift & (1 << BITS) - 1
        step, over = np.divmod((over << BITS) + factor * digit, weights)
        more = (more << BITS) + step
    return whole * weight + more, over
