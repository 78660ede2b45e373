"""The limits of a reader: of which pools, or of which one job, things may be seen; all else is as if it weren't there.

A limited reader reads the views through connections that hide the rest (`views/limited_tables.py`). Here is what else
that needs: caches by limits, and the names that stand where one may not be seen.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, text

from events.access import covers
from events.pool_paths import ROOT
from events.topology import HOST, LINK_GROUP
from projections.access.identity import present

OTHER_POOL = "another pool"
OTHER_JOB = "a job of another pool"
OTHER_HOST = "another host"
LIMITED = "What you may not read is left out, if there is any."
"""Said of every answer to a limited reader."""
_JOBS = ("for_job", "from_jobs", "victim_job_id", "job_ids")
_POOLS = ("at", "for_pool", "from_pool", "from_pools", "givers", "pool", "pools")
KEPT_MAX = 32
"""The limits for which caches are kept."""

T = TypeVar("T")


class Limits(NamedTuple):
    """The topmost pools that somebody may read; where a job is named, that one alone."""

    pools: tuple[str, ...] = ()
    job_id: str = ""

    def has_pool(self, path: str) -> bool:
        """Whether a pool may be seen."""
        return any(covers(pool, path) for pool in self.pools)


def limits() -> Limits | None:
    """The limits of who asks; None: there are none."""
    identity = present()
    if identity.reads is None and not identity.reads_job:
        return None
    return Limits((), identity.reads_job) if identity.reads_job else Limits(identity.reads or ())


class ByLimits(Generic[T]):
    """One of something, such as a cache, for readers without limits, and one for each of the last other limits."""

    def __init__(self, whole: T, make: Callable[[], T]) -> None:
        self._make = make
        self._whole = whole
        self._others: OrderedDict[Limits, T] = OrderedDict()
        self._lock = threading.Lock()

    def mine(self) -> T:
        """That of who asks."""
        key = limits()
        if key is None:
            return self._whole
        with self._lock:
            if key not in self._others:
                self._others[key] = self._make()
            self._others.move_to_end(key)
            while len(self._others) > KEPT_MAX:
                self._others.popitem(last=False)
            return self._others[key]


_IS_KNOWN = text("SELECT 1 FROM jobs WHERE job_id = :job_id")
_HAS_HOST = text("SELECT 1 FROM hosts WHERE host_id = :host_id")
_POOL_OF = text("SELECT pool FROM jobs WHERE job_id = :job_id")


class Names:
    """The names of jobs and pools as one reader sees them. `connection`: one of that reader."""

    def __init__(self, connection: Connection, of: Limits) -> None:
        self._connection = connection
        self._limits = of
        self._jobs: dict[str, bool] = {}

    def forget(self) -> None:
        """Another state of the views is read from now on."""
        self._jobs.clear()

    def has_job(self, job_id: str) -> bool:
        """Whether a job may be seen."""
        if job_id not in self._jobs:
            row = self._connection.execute(_IS_KNOWN, {"job_id": job_id}).first()
            self._jobs[job_id] = row is not None
        return self._jobs[job_id]

    def job(self, job_id: str) -> str:
        """A job as it is named."""
        return job_id if not job_id or self.has_job(job_id) else OTHER_JOB

    def has_host(self, host_id: str) -> bool:
        """Whether a host may be seen."""
        return self._connection.execute(_HAS_HOST, {"host_id": host_id}).first() is not None

    def host(self, host_id: str) -> str:
        """A host as it is named."""
        return host_id if self.has_host(host_id) else OTHER_HOST

    def pool(self, path: str) -> str:
        """A pool as it is named; the root is known to all, and so is that of a job to its runs."""
        if path in ("", ROOT) or self._limits.has_pool(path):
            return path
        if self._limits.job_id and self._connection.execute(_POOL_OF, {"job_id": self._limits.job_id}).scalar() == path:
            return path
        return OTHER_POOL

    def told(self, words: Mapping[str, Any]) -> dict[str, Any]:
        """The words or numbers of a record for a job, with the names that may be seen."""
        renamed: dict[str, Any] = {}
        for name, value in words.items():
            if name in _JOBS:
                renamed[name] = _renamed(value, self.job)
            elif name in _POOLS:
                renamed[name] = _renamed(value, self._place)
            elif name == "nearest":
                renamed[name] = [{**each, "host_id": self.host(each["host_id"])} for each in value]
            elif name == "groups" and words.get("level") == HOST:
                renamed[name] = [{**each, "value": self.host(each["value"])} for each in value]
            elif name == "groups" and words.get("level") == LINK_GROUP:
                split = [(each, *each["value"].partition(" ")) for each in value]
                renamed[name] = [{**each, "value": self.host(host) + space + of} for each, host, space, of in split]
            else:
                renamed[name] = value
        return renamed

    def _place(self, text: str) -> str:
        """A pool as it is named; other texts, such as times, stay."""
        return self.pool(text) if text.startswith("/") else text

    @staticmethod
    def counts(of: Mapping[str, int], say: Callable[[str], str]) -> dict[str, int]:
        """Counts by name; those whose names become one are added."""
        sums: dict[str, int] = {}
        for name, count in of.items():
            sums[say(name)] = sums.get(say(name), 0) + count
        return sums


def _renamed(value: Any, name: Callable[[str], str]) -> Any:
    """Names, a list of them, or amounts by name, each name as it is shown and once."""
    if isinstance(value, str):
        return name(value)
    if isinstance(value, dict):
        return Names.counts(value, name)
    return list(dict.fromkeys(map(name, value))) if isinstance(value, list | tuple) else value
