"""The lengths of runs, learnt from those that have ended (groups as in `paceline.whatif.lengths`)."""

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

LIKE_MIN = 3
"""So many known lengths make a group that is drawn from."""
GROUP_LENGTHS, WIDE_LENGTHS = 200, 2000
"""So many of the last lengths are kept of an owner, and of a pool or the cell."""
GROUPS_MAX = 10_000
"""So many groups are kept, those that were learnt from last."""
GUESS_MS = 60_000.0
"""The length of a run of which nothing is known, as long again as it has lasted, at least this."""


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
        self._groups: OrderedDict[tuple[object, ...], deque[float]] = OrderedDict()
        self._sorted: dict[tuple[object, ...], list[float]] = {}

    def learn(self, like: Like, ran_ms: int) -> None:
        """A run has ended by itself."""
        for key, unit, size in _groups(like):
            group = self._groups.setdefault(key, deque(maxlen=size))
            group.append(ran_ms / unit)
            self._groups.move_to_end(key)
            self._sorted.pop(key, None)
        while len(self._groups) > GROUPS_MAX:
            self._sorted.pop(self._groups.popitem(last=False)[0], None)

    def draws(self, like: Like, passed_ms: float, count: int, random: Random) -> list[float]:
        """So many lengths of a run that has lasted `passed_ms` already."""
        if like.endless:
            return [float("inf")] * count
        for key, unit, _ in _groups(like):
            lengths = self._ordered(key)
            first = bisect_right(lengths, passed_ms / unit)
            if (longer := len(lengths) - first) >= LIKE_MIN:
                return [lengths[first + int(random.random() * longer)] * unit for _ in range(count)]
        if like.limit_ms > passed_ms:
            return [passed_ms + random.random() * (like.limit_ms - passed_ms) for _ in range(count)]
        return [passed_ms + max(GUESS_MS, passed_ms)] * count

    def longest(self, like: Like, passed_ms: float) -> float:
        """The length that Slurm would reckon with: the limit; without one the mean of what is known."""
        if like.endless:
            return float("inf")
        if like.limit_ms:
            return max(float(like.limit_ms), passed_ms)
        for key, _, _ in _groups(like):
            lengths = self._ordered(key)
            longer = lengths[bisect_right(lengths, passed_ms) :]
            if len(longer) >= LIKE_MIN:
                return sum(longer) / len(longer)
        return passed_ms + max(GUESS_MS, passed_ms)

    def _ordered(self, key: tuple[object, ...]) -> list[float]:
        lengths = self._sorted.get(key)
        if lengths is None:
            lengths = self._sorted[key] = sorted(self._groups.get(key, ()))
        return lengths


def _groups(like: Like) -> Iterator[tuple[tuple[object, ...], float, int]]:
    """The groups of runs like those of a job, the nearest first: key, unit of its lengths, and how many it keeps."""
    part, unit = ("limit", float(like.limit_ms)) if like.limit_ms else ("whole", 1.0)
    yield ("owner and limit", like.owner, like.limit_ms), 1.0, GROUP_LENGTHS
    yield ("owner", like.owner, part), unit, GROUP_LENGTHS
    yield ("pool", like.pool, part), unit, WIDE_LENGTHS
    yield ("cell", part), unit, WIDE_LENGTHS
