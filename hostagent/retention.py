"""The choice of runs that have ended which a host keeps for their output."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import inf

from hostagent.run import Run

DAY_S = 86_400
FRESH = 4
"""One part in so many is for the newest runs, whatever became of them."""


@dataclass(frozen=True)
class Retention:
    """The runs that ended and were forgotten which are kept: so many, within `size` bytes, and none for longer than
    `age_s` seconds, or `failed_age_s` for those that failed.
    """

    runs: int = 200
    size: int = 1024**3
    age_s: float = 7 * DAY_S
    failed_age_s: float = 30 * DAY_S

    def order(self, old: Iterable[Run], size_of: Callable[[Run], int], now_ns: int) -> Iterator[tuple[Run, bool]]:
        """All runs in the order in which they are kept, each with whether it is young enough. First come the newest,
        up to a part of the runs and of the bytes, so that those that end now can be read; then those that failed, the
        newest first; then the others.
        """
        fresh: list[Run] = []
        rest: list[Run] = []
        size = 0
        for run in sorted(old, key=lambda run: run.forgotten_ns, reverse=True):
            size += size_of(run)
            (fresh if len(fresh) < self.runs // FRESH and size <= self.size // FRESH else rest).append(run)
        rest.sort(key=lambda run: not run.failed)
        for run in (*fresh, *rest):
            age_s = self.failed_age_s if run.failed else self.age_s
            yield run, now_ns - run.forgotten_ns <= age_s * 1_000_000_000


KEEP_ALL = Retention(1 << 60, 1 << 60, inf, inf)
