"""The lengths of runs, learnt from those that have ended."""

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

LIKE_MIN = 3
"""So many known lengths make a group that is drawn from."""
GROUP_LENGTHS, WIDE_LENGTHS = 200, 2000
"""So many of the last lengths are kept of an owner, and of a pool or the cell."""
GROUPS_MAX = 10_000
"""So many groups are kept, those that were learnt from last."""
GUESS_MS = 60_000
"""The length of a run of which nothing is known, as long again as it has lasted, at least this."""
Group = tuple[str | int, ...]


class Like(NamedTuple):
    """The facts about a job that are known beforehand. `limit_ms`: its `max_runtime`; 0: none."""

    owner: str
    pool: str
    limit_ms: int
    endless: bool = False
    """Whether its runs go on until they are stopped."""


class Past:
    """The lengths of the runs that have ended, in milliseconds, or as parts of the limit."""

    def __init__(self) -> None:
        self._groups: OrderedDict[Group, deque[float]] = OrderedDict()
        self._sorted: dict[Group, list[float]] = {}

    def learn(self, like: Like, ran_ms: int) -> None:
        """A run has ended by itself."""
        for key, unit in _groups(like):
            group = self._groups.setdefault(key, deque(maxlen=_size(key)))
            group.append(ran_ms / unit)
            self._groups.move_to_end(key)
            self._sorted.pop(key, None)
        while len(self._groups) > GROUPS_MAX:
            self._sorted.pop(self._groups.popitem(last=False)[0], None)

    def draws(self, like: Like, passed_ms: float, count: int, random: Random) -> list[float]:
        """So many lengths of a run that has lasted `passed_ms` already."""
        if like.endless:
            return [float("inf")] * count
        for key, unit in _groups(like):
            lengths = self._ordered(key)
            if longer := longer_than(lengths, passed_ms / unit):
                return [lengths[longer[int(random.random() * len(longer))]] * unit for _ in range(count)]
        if like.limit_ms > passed_ms:
            return [passed_ms + random.random() * (like.limit_ms - passed_ms) for _ in range(count)]
        return [passed_ms + max(GUESS_MS, passed_ms)] * count

    def longest(self, like: Like, passed_ms: float) -> float:
        """The length that Slurm would reckon with: the limit; without one the mean of what is known."""
        if like.endless:
            return float("inf")
        if like.limit_ms:
            return max(float(like.limit_ms), passed_ms)
        for key, _ in _groups(like):
            lengths = self._ordered(key)
            if longer := longer_than(lengths, passed_ms):
                return sum(lengths[longer.start :]) / len(longer)
        return passed_ms + max(GUESS_MS, passed_ms)

    def dump(self) -> list[tuple[Group, list[float]]]:
        """The lengths by group, as `load` takes them."""
        return [(key, list(lengths)) for key, lengths in self._groups.items()]

    def load(self, groups: Iterable[tuple[Group, list[float]]]) -> None:
        """Takes the place of what is known."""
        self._groups = OrderedDict((tuple(key), deque(lengths, _size(tuple(key)))) for key, lengths in groups)
        self._sorted.clear()

    def _ordered(self, key: Group) -> list[float]:
        lengths = self._sorted.get(key)
        if lengths is None:
            lengths = self._sorted[key] = sorted(self._groups.get(key, ()))
        return lengths


def longer_than(lengths: Sequence[float], floor: float) -> range:
    """The places of the lengths, which ascend, that are greater than a floor; empty where fewer than `LIKE_MIN` are."""
    places = range(bisect_right(lengths, floor), len(lengths))
    return places if len(places) >= LIKE_MIN else range(0)


def groups_of(owner: str, pool: str, limit_ms: int) -> Iterator[tuple[Group, int]]:
    """The groups of runs like those of a job, the nearest first, and the unit of their lengths: a millisecond, or the
    limit of each job, of which lengths are parts then.
    """
    part, unit = ("limit", limit_ms) if limit_ms else ("whole", 1)
    yield ("owner and limit", owner, limit_ms), 1
    yield ("owner", owner, part), unit
    yield ("pool", pool, part), unit
    yield ("cell", part), unit


def _groups(like: Like) -> Iterator[tuple[Group, int]]:
    return groups_of(like.owner, like.pool, like.limit_ms)


def _size(group: Group) -> int:
    return WIDE_LENGTHS if group[0] in ("pool", "cell") else GROUP_LENGTHS
