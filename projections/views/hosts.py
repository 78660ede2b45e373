"""Folds the topic of hosts and what placement decides of hosts."""

from msgspec import to_builtins
from msgspec.json import decode as decode_json

from events.codes import Code, Stage
from events.columns import I32, I64
from events.host_offers import offer_fault
from events.records.base import Event
from events.records.hosts import (
    HostBack,
    HostConnected,
    HostHealthReported,
    HostOffered,
    HostSilent,
    HostsLoaded,
    HostVolumes,
)
from events.records.placement import (
    HostAnswered,
    HostAvoided,
    HostDeviceChanged,
    HostLost,
    HostMaintenanceChanged,
    HostPoolChanged,
    HostPoolMoveStarted,
    HostRemoved,
    HostsPooled,
    HostTainted,
    HostTrusted,
)
from events.topics import HOSTS
from projections.views.answers import add_answer
from projections.views.cache import Cache
from projections.views.host_conditions import HostConditions
from projections.views.record_context import Folds, RecordContext
from projections.views.rows import HostPoolMoveRow, HostPoolRow, HostRow, VolumeRow, to_json

MOVES_KEPT_MS = 30 * 24 * 3600 * 1000
"""The time for which moves between host pools are shown."""
LOAD = ("cpu_used", "memory_used", "slack", "loaded_ms")
CONNECTION = ("session", "gateway", "connected_ms", "silent_ms", "offered", "offer_fault", *LOAD)
OFFER = ("capacity", "sizes", "attributes", "taints", "port_first", "port_last", "devices", "cores")


class HostFold:
    """The fold of hosts by placement's rounds. What is said of an earlier session than the present one is void."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.folds: Folds = {
            HostLost: self._lost,
            HostRemoved: self._removed,
            HostAvoided: self._avoided,
            HostTrusted: self._trusted,
            HostTainted: self._tainted,
            HostPoolChanged: self._host_pool,
            HostPoolMoveStarted: self._moved,
            HostDeviceChanged: self._device_changed,
            HostsPooled: self._pooled,
            HostMaintenanceChanged: self._staged,
            HostAnswered: self._answered,
        }
        self._conditions = HostConditions(cache)

    def fact(self, moment: RecordContext, event: Event) -> None:
        """Folds a fact of the topic of hosts."""
        if isinstance(event, HostsLoaded):
            self._loaded(moment, event)
            return
        if isinstance(event, HostHealthReported):
            self._conditions.reported(moment, event)
            return
        if not isinstance(event, HostConnected | HostOffered | HostSilent | HostBack | HostVolumes):
            return
        row = self._cache.hosts.change(event.host_id)
        if isinstance(event, HostConnected):
            row = row or self._cache.hosts.put(HostRow(event.host_id))
            if event.session > row.session:
                row.session, row.gateway, row.connected_ms = event.session, event.gateway, moment.at_ms
                row.silent_ms, row.offered, row.offer_fault = 0, 0, ""
                row.cpu_used = row.memory_used = row.slack = row.loaded_ms = 0
            return
        if row is None or event.session != row.session:
            return
        match event:
            case HostOffered():
                row.offer_fault = offer_fault(event)
                row.offered = int(not row.offer_fault)
                offered = HostRow("") if row.offer_fault else _offer(event)
                for name in OFFER:
                    setattr(row, name, getattr(offered, name))
            case HostSilent():
                row.silent_ms = moment.at_ms
            case HostBack():
                row.silent_ms = 0
            case HostVolumes():
                self._has_volumes(event)

    def _loaded(self, moment: RecordContext, event: HostsLoaded) -> None:
        """Takes the use of hosts. A record whose columns don't fit says nothing."""
        columns: list[I32 | I64] = [event.host_session_array, event.cpu_used_array]
        columns += [event.memory_used_array, event.slack_array]
        if any(len(column) != len(event.host_ids) for column in columns):
            return
        self._cache.hosts.load(event.host_ids)
        for host_id, session, *load in zip(event.host_ids, *(each.tolist() for each in columns), strict=True):
            row = self._cache.hosts.change(host_id)
            if row is not None and row.session == session:
                row.cpu_used, row.memory_used, row.slack = load
                row.loaded_ms = moment.at_ms

    def _lost(self, moment: RecordContext, event: HostLost) -> None:
        row = self._row(event.host_id)
        row.lost_session, row.lost_code, row.lost_ms = event.session, event.code, moment.now

    def _avoided(self, moment: RecordContext, event: HostAvoided) -> None:
        row = self._row(event.host_id)
        row.suspect_code, row.avoided_ms = event.code, event.until_ms or -1

    def _trusted(self, moment: RecordContext, event: HostTrusted) -> None:
        row = self._row(event.host_id)
        row.suspect_code, row.avoided_ms = "", 0
        self._conditions.trusted(moment, event, row)

    def _staged(self, moment: RecordContext, event: HostMaintenanceChanged) -> None:
        self._cache.hosts.load(event.host_ids)
        for host_id, stage in zip(event.host_ids, event.stage_array.tolist(), strict=True):
            row = self._cache.hosts.change(host_id)
            if row is not None:
                before, row.drained_for = row.drained_for, ""
                if event.by == "health" and stage not in (Stage.UP, Stage.CORDONED):
                    row.drained_for = event.source or before
                elif before and event.code == Code.RESUMED:
                    self._conditions.dismissed(row)

    def _tainted(self, moment: RecordContext, event: HostTainted) -> None:
        row = self._row(event.host_id)
        row.tainted, row.evicts = to_json(event.taints), to_json(event.evicts)

    def _host_pool(self, moment: RecordContext, event: HostPoolChanged) -> None:
        if event.removed:
            self._cache.host_pools.remove(event.name)
        else:
            policies = to_json(tuple(to_builtins(each) for each in event.elastic))
            row = HostPoolRow(event.name, to_json(event.kinds), event.description, moment.now, policies)
            self._cache.host_pools.put(row)

    def _moved(self, moment: RecordContext, event: HostPoolMoveStarted) -> None:
        numbers = event.code, event.load, event.waiting, event.bound, event.since_ms, moment.now
        row = HostPoolMoveRow(
            moment.offset, moment.place, event.source, event.target, to_json(event.host_ids), *numbers
        )
        self._cache.host_pool_moves.put(row)
        self._cache.host_pool_moves.delete("started_ms < ?", [(moment.now - MOVES_KEPT_MS,)])

    def _device_changed(self, moment: RecordContext, event: HostDeviceChanged) -> None:
        row = self._row(event.host_id)
        others = {name: ends for name, ends in decode_json(row.disabled).items() if name != event.device}
        row.disabled = to_json(others | ({event.device: event.ends} if event.disabled else {}))

    def _pooled(self, moment: RecordContext, event: HostsPooled) -> None:
        self._cache.hosts.load(event.host_ids)
        for host_id in event.host_ids:
            if (row := self._cache.hosts.change(host_id)) is not None:
                row.host_pool = event.host_pool

    def _answered(self, moment: RecordContext, event: HostAnswered) -> None:
        answer = (event.host_id, event.code, event.message, event.command_id)
        add_answer(self._cache, moment, HOSTS.name, event.hosts_offset, *answer)

    def _has_volumes(self, event: HostVolumes) -> None:
        """A host has these volumes, and no others."""
        self._cache.volumes.delete("host_id = ?", [(event.host_id,)])
        for each in event.volumes:
            row = VolumeRow(event.host_id, each.job_id, each.instance, each.name, each.created_ms, event.session)
            self._cache.volumes.put(row)

    def _removed(self, moment: RecordContext, event: HostRemoved) -> None:
        """Leaves of the row what is of later sessions, mostly nothing: the same whichever topic came first."""
        self._cache.volumes.delete("host_id = ? AND session <= ?", [(event.host_id, event.session)])
        row = self._cache.hosts.get(event.host_id)
        if row is None:
            return
        rest = HostRow(row.host_id)
        if row.session > event.session:
            for name in CONNECTION + (OFFER if row.offered else ()):
                setattr(rest, name, getattr(row, name))
        if row.lost_session > event.session:
            rest.lost_session, rest.lost_code, rest.lost_ms = row.lost_session, row.lost_code, row.lost_ms
        if row.reconciled_session > event.session:
            rest.reconciled_session = row.reconciled_session
        if rest == HostRow(row.host_id):
            self._cache.hosts.remove(row.host_id)
        else:
            self._cache.hosts.put(rest)

    def _row(self, host_id: str) -> HostRow:
        return self._cache.hosts.change(host_id) or self._cache.hosts.put(HostRow(host_id))


def is_offered_again(row: HostRow | None, event: HostOffered) -> bool:
    """Whether a host said the same before in its session."""
    if row is None or row.session != event.session or not row.offered:
        return False
    offered = _offer(event)
    return all(getattr(row, name) == getattr(offered, name) for name in OFFER)


def _offer(event: HostOffered) -> HostRow:
    """The columns of an offer."""
    return HostRow(
        event.host_id,
        capacity=to_json(event.capacity),
        sizes=to_json(sorted({*event.sizes})),
        attributes=to_json(event.attributes),
        taints=to_json(event.taints),
        port_first=event.port_first,
        port_last=event.port_last,
        devices=to_json(event.devices) if event.devices else "[]",
        cores=to_json(event.cores_array.tolist()) if event.cores else "[]",
    )
