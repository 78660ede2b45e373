"""The histories of pools and of hosts: the facts and decisions that change one, or refuse to.

They are kept as those of jobs are, in pieces (decision 052), under names that no job can have. What is said of a pool
stands in one entry, the answer to a fact: with what that changed, who wrote it and why. Of a host each record is an
entry, as it is in the log; what an offer changes is found when it is read, beside the offer before it.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from events.codec import decode, encode
from events.codes import IN_EFFECT, Code
from events.records.base import Event
from events.records.entitlement import PoolAnswered
from events.records.hosts import (
    HostBack,
    HostCertified,
    HostClearRequested,
    HostConnected,
    HostDeviceRequested,
    HostHealthReported,
    HostInvited,
    HostLossConfirmed,
    HostOffered,
    HostPoolAssigned,
    HostRemovalRequested,
    HostsCordonRequested,
    HostsDrainRequested,
    HostSilent,
    HostsResumeRequested,
    HostTaintRequested,
    MaintenanceWindowSet,
)
from events.records.parts import ZoneOffsets
from events.records.placement import (
    HostAnswered,
    HostAvoided,
    HostDeviceChanged,
    HostLost,
    HostMaintenanceChanged,
    HostRemoved,
    HostsAnswered,
    HostsPooled,
    HostTainted,
    HostTrusted,
    MaintenanceWindowChanged,
)
from events.records.pools import CellConfigured, PoolDefined
from events.topics import POOLS
from paceline.client.json_type import Json
from projections.actor_names import kept
from projections.views.cache import Cache
from projections.views.hosts import is_offered_again
from projections.views.marks import changes, settings_named
from projections.views.record_context import Folds, RecordContext

POOL, HOST = "/pools", "/hosts/"
"""The first characters of the names of histories, beside those of jobs."""
KEPT_MS = 90 * 24 * 3600 * 1000
"""The time for which an entry is kept, by the time of the machine that owns the thing."""
OF_HOSTS = (
    *(HostInvited, HostCertified, HostConnected, HostOffered, HostSilent, HostBack, HostHealthReported),
    *(HostLossConfirmed, HostRemovalRequested, HostClearRequested, HostTaintRequested),
    HostDeviceRequested,
)
"""Facts that are entries of the history of a host."""
OF_SEVERAL = (HostsDrainRequested, HostsCordonRequested, HostsResumeRequested, MaintenanceWindowSet, HostPoolAssigned)
"""The same about several hosts: each has an entry that names it alone."""


def of_pool(path: str) -> str:
    """The name of the history of a pool."""
    return POOL + path


def of_host(host_id: str) -> str:
    """The name of the history of a host."""
    return HOST + host_id


class OtherHistories:
    """The fold of these histories. It sees records before the other folds: changes are told by what was before."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        decided = (HostLost, HostRemoved, HostAvoided, HostTrusted, HostTainted, HostDeviceChanged)
        self.folds: Folds = {
            PoolAnswered: self._pool,
            HostAnswered: self._answered,
            HostMaintenanceChanged: self._stages,
            HostsAnswered: self._hosts_answered,
            MaintenanceWindowChanged: self._window,
            HostsPooled: self._pooled,
            **dict.fromkeys(decided, self._decided),
        }

    def fact(self, moment: RecordContext, event: Event, value: bytes) -> None:
        """Notes a fact of the topic of hosts."""
        if isinstance(event, OF_SEVERAL):
            if isinstance(event, MaintenanceWindowSet):
                event = replace(event, zone=ZoneOffsets(event.zone.name))
            for host_id in event.host_ids:
                self._add(moment, event, of_host(host_id), encode(replace(event, host_ids=(host_id,))))
        if not isinstance(event, OF_HOSTS):
            return
        if isinstance(event, HostOffered) and is_offered_again(self._cache.hosts.get(event.host_id), event):
            return
        self._add(moment, event, of_host(event.host_id), value)

    def _decided(self, moment: RecordContext, event: Any) -> None:
        self._add(moment, event, of_host(event.host_id), encode(event))

    def _answered(self, moment: RecordContext, event: HostAnswered) -> None:
        if event.code not in IN_EFFECT:
            self._decided(moment, event)

    def _stages(self, moment: RecordContext, event: HostMaintenanceChanged) -> None:
        """Notes the stage of each host in an entry that names it alone."""
        for at, host_id in enumerate(event.host_ids):
            columns = {
                name: getattr(event, name)[at * kind.itemsize : (at + 1) * kind.itemsize]
                for name, kind in event.columns.items()
            }
            self._add(moment, event, of_host(host_id), encode(replace(event, host_ids=(host_id,), **columns)))

    def _pooled(self, moment: RecordContext, event: HostsPooled) -> None:
        """Notes the host pool of each host in an entry that names it alone."""
        for host_id in event.host_ids:
            self._add(moment, event, of_host(host_id), encode(replace(event, host_ids=(host_id,))))

    def _window(self, moment: RecordContext, event: MaintenanceWindowChanged) -> None:
        """Notes what no stage of a host tells: that a window of it was missed, or is there no more."""
        row = self._cache.maintenance_windows.get(event.window_id)
        if event.state not in ("MISSED", "REMOVED") or row is None:
            return
        fact = decode(row.fact)
        assert isinstance(fact, MaintenanceWindowSet)
        for host_id in fact.host_ids:
            self._add(moment, event, of_host(host_id), encode(event))

    def _hosts_answered(self, moment: RecordContext, event: HostsAnswered) -> None:
        """Notes a refusal with the hosts that it is for."""
        if event.code not in IN_EFFECT:
            for host_id, code in zip(event.host_ids, event.codes, strict=False):
                entry = replace(event, code=code, host_ids=(host_id,), codes=(code,))
                if self._cache.hosts.get(host_id) is not None:
                    self._add(moment, event, of_host(host_id), encode(entry))

    def _pool(self, moment: RecordContext, event: PoolAnswered) -> None:
        pending = self._cache.pool_facts.get(event.pools_offset)
        if pending is None:
            return
        fact: Any = decode(pending.value)
        detail: Json = {"pool": event.path, "fact": type(fact).__name__, "code": event.code, "message": event.message}
        detail |= {"cause": f"{POOLS.name}:{event.pools_offset}", "reason": fact.reason, "changes": self._changes(fact)}
        if isinstance(fact, PoolDefined) and self._present(fact.path) is None:
            detail["created"] = True
        if fact.actor is not None:
            detail["actor"] = kept(fact.actor)
        self._add(moment, event, of_pool(event.path), detail)
        parent = event.path.rpartition("/")[0]
        if parent and event.code == Code.DONE:
            self._add(moment, event, of_pool(parent), detail)

    def _changes(self, fact: Any) -> Mapping[str, Any]:
        if isinstance(fact, CellConfigured):
            return dict.fromkeys(settings_named(fact))
        if not isinstance(fact, PoolDefined):
            return {}
        return changes(self._present(fact.path) or PoolDefined(path=fact.path, command_id=""), fact)

    def _present(self, path: str) -> Event | None:
        """The definition of a pool; None: there is no such pool."""
        row = self._cache.pools.get(path)
        return decode(row.spec) if row is not None and row.spec else None

    def _add(self, moment: RecordContext, event: Event, name: str, content: bytes | Json) -> None:
        place = (moment.at_ms, moment.depth, moment.rank, moment.offset, moment.place, moment.round)
        self._cache.history.add_one(name, (*place, type(event).__name__, content))
