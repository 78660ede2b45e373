"""The tree of pools by level: as much of it as is shown, however many pools there are."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from events.codes import Code
from events.pool_paths import ROOT, parent_of
from projections.queries.pages import rows_of
from projections.queries.pool_tree import hostless
from projections.views import tables
from projections.views.reader import rows_as_text
from projections.views.rows import PoolRow
from projections.views.waiting import Standing

PLACING = {Standing.ENTITLED: "entitled", Standing.BORROWED: "borrowed"}
"""The code of tasks that are admitted and have no place."""
_STANDINGS = str(select(tables.pools.c.path, tables.pools.c.over_since_ms, tables.pools.c.under_since_ms))
_use = tables.pool_use.c
_OPEN_JOBS = (
    f"SELECT {_use.path.name}, {_use.open_jobs.name} FROM {tables.pool_use.name} WHERE {_use.open_jobs.name} > 0"
)
_FETCHED = 500


class Standings(NamedTuple):
    """The pools right below each pool, and since when some have more or less than they may use."""

    below: Mapping[str, Sequence[str]]
    over: Mapping[str, int]
    under: Mapping[str, int]


@dataclass(slots=True)
class Waits:
    """The waiting work of a pool and those below it: tasks by the code that holds them, and those without a place;
    `limited`: those that this pool's own limit holds.
    """

    codes: Counter[str]
    placing: Counter[str]
    limited: int = 0
    jobs: int = 0
    """Open ones, waiting or not."""

    @property
    def tasks(self) -> int:
        """The number of tasks that wait."""
        return self.codes.total() + self.placing.total()


def standings(connection: Connection) -> Standings:
    """The tree, without what stands in its rows."""
    below: dict[str, list[str]] = {}
    over, under = {}, {}
    waiting = hostless(connection)
    for path, over_ms, under_ms in sorted(rows_as_text(connection, _STANDINGS)):
        if path == ROOT:
            continue
        below.setdefault(parent_of(path), []).append(path)
        if over_ms:
            over[path] = over_ms
        if under_ms and path in waiting:
            under[path] = under_ms
    return Standings(below, over, under)


def pools_named(connection: Connection, paths: Sequence[str]) -> dict[str, PoolRow]:
    """The rows of some pools."""
    pools = tables.pools
    found: dict[str, PoolRow] = {}
    for start in range(0, len(paths), _FETCHED):
        some = paths[start : start + _FETCHED]
        found |= {row.path: row for row in rows_of(connection, PoolRow, select(pools).where(pools.c.path.in_(some)))}
    return found


def waits(connection: Connection, paths: Iterable[str]) -> dict[str, Waits]:
    """The waiting work in each of some pools and below it; the root, for all, is always among them. Pools without jobs
    are left out.
    """
    holds, waiting, jobs = tables.holds.c, tables.waiting.c, tables.jobs.c
    counted, out, jobs_of = _Counted({ROOT, *paths}), dict[str, Waits](), dict[str, int]()

    def sums(path: str) -> Iterator[Waits]:
        return (out.setdefault(level, Waits(Counter(), Counter())) for level in counted.by(path))

    query = select(holds.pool, holds.code, holds.at, func.sum(holds.tasks)).where(holds.tasks > 0)
    for path, code, at, tasks in connection.execute(query.group_by(holds.pool, holds.code, holds.at)):
        for each in sums(path):
            each.codes[code] += tasks
        if code == Code.LIMIT_REACHED and at in out:
            out[at].limited += tasks
    placing = select(jobs.pool, waiting.standing, func.sum(waiting.tasks)).where(waiting.standing < 0)
    placing = placing.select_from(tables.waiting.join(tables.jobs, waiting.job_id == jobs.job_id))
    for path, standing, tasks in connection.execute(placing.group_by(jobs.pool, waiting.standing)):
        for each in sums(path):
            each.placing[PLACING[standing]] += tasks
    for path, open_jobs in rows_as_text(connection, _OPEN_JOBS):
        for level in counted.by(path):
            jobs_of[level] = jobs_of.get(level, 0) + open_jobs
    for level, number in jobs_of.items():
        out.setdefault(level, Waits(Counter(), Counter())).jobs = number
    return out


class _Counted:
    """The pools among some that a pool counts for: itself and those above it."""

    def __init__(self, paths: set[str]) -> None:
        self._paths = paths
        self._known: dict[str, list[str]] = {ROOT: [ROOT]}

    def by(self, path: str) -> list[str]:
        found = self._known.get(path)
        if found is None:
            up = self.by(parent_of(path))
            found = self._known[path] = [*up, path] if path in self._paths else up
        return found
