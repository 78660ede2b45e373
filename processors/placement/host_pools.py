"""The host pools as placement knows them: which there are, which hosts are in them, and which ones jobs may use.

A host without a row is in `SHARED`. The host pools of a resource pool come with the answer of entitlement, which owns
that; those of a kind of job with the definition of the host pool (decision 108).
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from events.host_pools import SHARED, kind_of, of_kind
from events.pool_paths import levels_of
from events.records.entitlement import PoolAnswered
from events.records.parts import HostPoolPolicy
from events.records.placement import HostPoolChanged
from processors.placement.rows import JobRow
from processors.state.table import Table, struct_table

PolicyRow = tuple[str, int, int, int, int, int]
"""The fields of a `HostPoolPolicy`."""


def policy_rows(policies: Iterable[HostPoolPolicy]) -> tuple[PolicyRow, ...]:
    """Policies as rows have them."""
    return tuple((one.source, one.above, one.below, one.lasts_ms, one.hosts, one.keep) for one in policies)


class HostPoolRow(msgspec.Struct, array_like=True):
    """A host pool."""

    kinds: tuple[str, ...] = ()
    """The kinds of jobs that use it before `SHARED`."""
    description: str = ""
    elastic: tuple[PolicyRow, ...] = ()

    def policies(self) -> tuple[HostPoolPolicy, ...]:
        """Its policies, by which hosts move to it and back by themselves."""
        return tuple(HostPoolPolicy(*each) for each in self.elastic)


class HostPools:
    """Tables, and the host pools of jobs."""

    def __init__(self) -> None:
        self.table: Table[str, HostPoolRow] = struct_table("host_pools", HostPoolRow)
        self.of_host: Table[str, str] = struct_table("pooled", str)
        """The host pool of each host that isn't in `SHARED`."""
        self.of_pool: Table[str, tuple[str, ...]] = struct_table("pools", tuple[str, ...])
        """By resource pool the host pools that it names."""
        self._reach: dict[tuple[str, bool, bool], tuple[str, ...]] = {}

    @property
    def tables(self) -> tuple[Table[str, Any], ...]:
        """All tables."""
        return self.table, self.of_host, self.of_pool

    def restored(self) -> None:
        """Forgets what is derived."""
        self._reach = {}

    @property
    def are_used(self) -> bool:
        """Whether there are host pools beside `SHARED`, or a resource pool names some."""
        return bool(self.table or self.of_pool)

    def of(self, host_id: str) -> str:
        """The host pool of a host."""
        return self.of_host.get(host_id) or SHARED

    def is_known(self, name: str) -> bool:
        """Whether there is such a host pool."""
        return name == SHARED or name in self.table

    def reach(self, job: JobRow) -> tuple[str, ...]:
        """The host pools that a job may use, the first choice first; empty: any, as it is where there are none."""
        if job.daemon or not self.are_used:
            return ()
        key = job.pool, job.service, job.preemptible
        if key not in self._reach:
            kinds = {name: row.kinds for name, row in self.table.items()}
            lists = [self.of_pool[level] for level in levels_of(job.pool) if level in self.of_pool]
            self._reach[key] = lists[0] if lists else of_kind(kinds, kind_of(job.service, job.preemptible))
        return self._reach[key]

    def changed(self, event: HostPoolChanged) -> None:
        """A host pool is so now."""
        self._reach = {}
        if event.removed:
            self.table.remove(event.name)
        else:
            self.table.put(event.name, HostPoolRow(event.kinds, event.description, policy_rows(event.elastic)))

    def pool_answered(self, event: PoolAnswered) -> bool:
        """A resource pool may have other host pools; returns whether it does."""
        if event.host_pools is None or event.host_pools == self.of_pool.get(event.path, ()):
            return False
        self._reach = {}
        if event.host_pools:
            self.of_pool.put(event.path, event.host_pools)
        else:
            self.of_pool.remove(event.path)
        return True
