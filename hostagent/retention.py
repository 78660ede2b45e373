"""The choice of runs that have ended which a host keeps for their output."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from operator import attrgetter

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

    def choose(self, old: Iterable[Run], now_ns: int) -> tuple[list[Run], list[Run]]:
        """The runs that stay and those that go, of runs with known `traces`. First come the newest, up to a part
        of the runs and of the bytes, so that those that end now can be read; then those that failed, the newest first;
        then the others.
        """
        newest = sorted(old, key=attrgetter("forgotten_ns"), reverse=True)
        fresh = 0
        room = self.size // FRESH
        for run in newest[: self.runs // FRESH]:
            room -= run.traces[0]
            if room < 0:
                break
            fresh += 1
        rest = newest[fresh:]
        failed, others = [run for run in rest if run.traces[2]], [run for run in rest if not run.traces[2]]
        since = (now_ns - self.age_s * 1e9, now_ns - self.failed_age_s * 1e9)
        stay: list[Run] = []
        go: list[Run] = []
        room, places = self.size, self.runs
        for run in (*newest[:fresh], *failed, *others):
            record, _, is_failed = run.traces
            if places and record <= room and run.forgotten_ns >= since[is_failed]:
                places -= 1
                room -= record
                stay.append(run)
            else:
                go.append(run)
        return stay, go


KEEP_ALL = Retention(1 << 60, 1 << 60, inf, inf)
