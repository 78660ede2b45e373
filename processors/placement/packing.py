"""The hot path: equal tasks onto hosts, as free functions over columns.

`free` is [kinds + 1, hosts] int64 (the kinds of the cell, then ports), `open_` says which hosts may be used, `score` is
the weighed sum of what is free, as in the engine. A task only lowers that of its host, so the order of hosts that a
greedy placing task by task would see is known beforehand, and a whole job is placed with a few sorts. Sorts are stable,
ties go to the lower host number.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.columns import I64, distinct
from processors.placement.engine import board
from processors.placement.engine.columns import LOAD_AT, LOAD_AWARE, SCORE_BITS, SCORE_MAX, UNEVEN_AT, UNEVEN_MAX

Mask = NDArray[np.bool_]

SCALE = 1 << 40
SCORE = 1 << 31
"""About the score of all that the largest host has of one kind."""
RANK_SHIFT = 48
"""Ranks of hosts stand so many bits above their scores."""
MANY = 1 << 31
"""More tasks than a host holds."""


class Weights(NamedTuple):
    """The weight of each kind, of what is left of an amount shifted by some bits; ports have none."""

    weight: I64
    shift: I64

    def plain(self) -> "PlainWeights":
        """The same as plain numbers."""
        return self.weight.tolist(), self.shift.tolist()


PlainWeights = tuple[list[int], list[int]]
"""Weights and shifts."""


def weights(largest: I64) -> Weights:
    """Each kind counts by its share of the largest host."""
    weight, shift = board.weights(largest[:-1].tolist())
    return Weights(np.array(weight, dtype=np.int64), np.array(shift, dtype=np.int64))


def shifts(largest: I64) -> I64:
    """By how many bits amounts of each kind, and of ports, are shifted."""
    return np.array(board.weights(largest.tolist())[1], dtype=np.int64)


def shares(largest: I64) -> Weights:
    """The same without rounding: to compare amounts that lack."""
    weight = SCALE // np.maximum(largest[:-1], 1)
    return Weights(weight, np.zeros_like(weight))


class Scales(NamedTuple):
    """The weights by which hosts are compared. What hosts lend comes and goes, and steers no placing."""

    weight: Weights
    """The weights of what is free."""
    plain: PlainWeights
    lack: Weights
    """The weights of what lacks."""
    shifts: I64
    """By so many bits amounts are shifted, those of ports too."""


def scales_of(largest: I64, revocable: int) -> Scales:
    """The weights by the largest amounts of hosts; `revocable`: which kind is lent, below 0: none."""
    weight = weights(largest)
    if revocable >= 0:
        weight.weight[revocable] = 0
    return Scales(weight, weight.plain(), shares(largest), shifts(largest))


def scores(free: I64, weight: Weights) -> I64:
    """The free amounts of each host as one score: pack fills the lowest first, spread takes the highest."""
    total = np.zeros(free.shape[1], dtype=np.int64)
    for row, one, shift in zip(free, weight.weight, weight.shift, strict=False):
        total += (np.maximum(row, 0) >> shift) * one
    return total


def score_of(amounts: Iterable[int], weight: PlainWeights) -> int:
    """The same of one host, quicker than of a column with one item."""
    score = 0
    for one, times, shift in zip(amounts, *weight, strict=False):
        if one > 0:
            score += (one >> shift) * times
    return score


def least(keys: Sequence[I64], count: int) -> I64:
    """The indexes of the least, at most `count`, in their order: the first key counts first, the index last."""
    rest, sure, more = np.arange(len(keys[0])), list[I64](), count
    for key in keys:
        if len(rest) <= more:
            break
        values = key[rest]
        last = np.partition(values, more - 1)[more - 1]
        sure.append(rest[values < last])
        rest, more = rest[values == last], more - len(sure[-1])
    indexes: I64 = np.sort(np.concatenate([*sure, rest[:more]]))
    ordered: I64 = indexes[np.lexsort([key[indexes] for key in reversed(keys)])]
    return ordered


def turns(hosts: I64) -> I64:
    """For each host named, how often it is named before."""
    order = np.argsort(hosts, kind="stable")
    starts = np.flatnonzero(np.diff(hosts[order], prepend=-1))
    counts = np.empty(len(hosts), dtype=np.int64)
    counts[order] = np.arange(len(hosts)) - np.repeat(starts, np.diff(np.append(starts, len(hosts))))
    return counts


class Scoring(NamedTuple):
    """Scores of hosts that aren't what is free alone; the least wins. Rows are kinds and ports behind them.

    `balanced`: the difference between the most and the least used share, in 1/1024, of what a task asks, with that task
    there; then what is free. `load-aware`: the load of the host, then what is free, the most first.
    """

    strategy: int
    need: tuple[int, ...]
    capacity: I64
    load: I64
    weight: Weights
    shifts: I64

    def terms(self, free: I64, hosts: I64) -> tuple[I64, I64]:
        """The two parts of the score of some hosts with so much free, [kinds + 1, hosts]; they add up to it."""
        total = scores(free, self.weight)
        if self.strategy == LOAD_AWARE:
            return self.load[hosts] << LOAD_AT, (SCORE_MAX - total) >> (SCORE_BITS - LOAD_AT)
        most, least = np.zeros(len(hosts), dtype=np.int64), np.full(len(hosts), SCORE_MAX)
        for kind in (kind for kind, one in enumerate(self.need) if one):
            capacity, shift = self.capacity[kind, hosts], self.shifts[kind]
            used = (capacity - free[kind] + self.need[kind]) >> shift
            share = (used * ((1 << 30) // np.maximum(capacity >> shift, 1))) >> 20
            np.maximum(most, share, out=most)
            np.minimum(least, share, out=least)
        return np.clip(most - least, 0, UNEVEN_MAX) << UNEVEN_AT, total >> (SCORE_BITS - UNEVEN_AT)

    def ordered(self, order: I64 | None, free: I64, hosts: I64) -> I64:
        """The scores of some hosts, with what goes before them."""
        first, then = self.terms(free, hosts)
        return first + then if order is None else first + then + order[hosts]


def feasible(free: I64, need: tuple[int, ...], open_: Mask) -> I64:
    """The hosts that hold one task."""
    feasible_hosts = open_.copy()
    for row, one in zip(free, need, strict=True):
        if one:
            feasible_hosts &= row >= one
    return np.flatnonzero(feasible_hosts)


def have_room(free: I64, need: I64) -> Mask:
    """Whether hosts hold one task each; `need` is [kinds + 1, 1]. What isn't asked for may lack."""
    enough: Mask = ((free >= need) | (need == 0)).all(axis=0)
    return enough


def had_room(fit: Mask, hosts: I64) -> int:
    """The number of hosts that had room before tasks were put on some of them; `fit` says which have now."""
    return int(np.count_nonzero(fit)) + int(np.count_nonzero(~fit[distinct(hosts)]))


def fits(free: I64, need: tuple[int, ...], hosts: I64, most: int) -> I64:
    """The number of tasks that each of the hosts holds, at most `most`."""
    fit = np.full(len(hosts), most, dtype=np.int64)
    for row, one in zip(free, need, strict=True):
        if one:
            np.minimum(fit, row[hosts] // one, out=fit)
    return np.maximum(fit, 0, out=fit)


def pack(free: I64, score: I64, open_: Mask, need: tuple[int, ...], tasks: int, most: int = MANY) -> I64:
    """A host for each of so many `tasks`, or for fewer: the host with least free is filled first, by at most `most`."""
    hosts = feasible(free, need, open_)
    hosts = hosts[np.argsort(score[hosts], kind="stable")]
    fit = fits(free, need, hosts, min(tasks, most))
    before = np.cumsum(fit) - fit
    return np.repeat(hosts, np.clip(tasks - before, 0, fit))


def spread(
    free: I64,
    score: I64,
    open_: Mask,
    need: tuple[int, ...],
    tasks: int,
    level: I64,
    weight: Weights,
    most: int = MANY,
) -> I64:
    """A host for each of so many `tasks`, or for fewer: the host with fewest tasks of the job first (`level` has the
    count of each host), among those the one with most free.
    """
    hosts = feasible(free, need, open_)
    low = level[hosts]
    if tasks == 1 and len(hosts):
        lowest: I64 = hosts[low == low.min()]
        best = int(np.argmax(score[lowest]))
        return lowest[best : best + 1]
    fit = fits(free, need, hosts, min(tasks, most))
    count = np.clip(_water(low, fit, tasks) - low, 0, fit)
    step = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    places = np.repeat(hosts, count)
    rank = score[hosts] - scores(free[:-1, hosts], weight)
    score_after = scores(free[:-1, places] - np.array(need[:-1], dtype=np.int64)[:, None] * step, weight)
    score_after += np.repeat(rank, count)
    order = np.lexsort((places, -score_after, np.repeat(low, count) + step))[:tasks]
    return places[order]


def by_scores(
    free: I64, scoring: Scoring, order: I64 | None, open_: Mask, need: tuple[int, ...], tasks: int, most: int = MANY
) -> I64:
    """A host for each of so many `tasks`, or for fewer, one after another: the one with the least score then. `order`
    goes before it.

    A host whose score falls with a task gets the next one too, so each task counts as the worst of those before it on
    its host.
    """
    hosts = feasible(free, need, open_)
    best = least([scoring.ordered(order, free[:, hosts], hosts)], min(tasks, len(hosts))) if len(hosts) else hosts
    hosts = hosts[best]
    if tasks == 1 or not len(hosts):
        return hosts
    fit = fits(free, need, hosts, min(tasks, most))
    host_of, places = np.repeat(np.arange(len(hosts)), fit), np.repeat(hosts, fit)
    step = np.arange(len(places)) - np.repeat(np.cumsum(fit) - fit, fit)
    free_then = free[:, places] - np.array(need, dtype=np.int64)[:, None] * step
    by_score = np.lexsort((places, scoring.ordered(order, free_then, places)))
    rank = np.empty(len(places), dtype=np.int64)
    rank[by_score] = np.arange(len(places))
    worst = np.maximum.accumulate(host_of * len(places) + rank) - host_of * len(places)
    hosts_of_tasks: I64 = places[np.argsort(worst, kind="stable")[:tasks]]
    return hosts_of_tasks


def _water(low: I64, fit: I64, tasks: int) -> int:
    """The lowest level up to which hosts are filled that takes all wanted tasks, or all that fit."""
    if not len(low):
        return 0
    below, enough = int(low.min()), int((low + fit).max())
    tasks = min(tasks, int(fit.sum()))
    while enough - below > 1:
        middle = (below + enough) // 2
        if int(np.clip(middle - low, 0, fit).sum()) >= tasks:
            enough = middle
        else:
            below = middle
    return enough
