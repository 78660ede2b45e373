"""Folds marks: what the plots of a cell point out on their time axis. What happens often within a step is one mark that
counts it and keeps the first few; with time steps become coarser, as those of series do.
"""

from typing import Any

import msgspec

from events.codec import decode
from events.codes import Code, JobState, Stage
from events.job_ends import is_over
from events.records.base import Event
from events.records.entitlement import PoolAnswered, PreemptionsOrdered
from events.records.hosts import HostSilent
from events.records.lifecycle import JobChanged
from events.records.placement import (
    HostAvoided,
    HostLost,
    HostMaintenanceChanged,
    MaintenanceChanged,
    MaintenanceWindowChanged,
)
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from events.records.rounds import EpochStarted
from paceline.client.json_type import Json
from projections.views.cache import Cache
from projections.views.record_context import Folds, RecordContext
from projections.views.rows import to_json
from projections.views.series_rows import MarkRow
from projections.views.series_table import RESOLUTIONS

LOST, SILENT, SUSPECTED, POLICY, PREEMPTED, RESTART, FAILED, DRAIN, MAINTENANCE, WINDOW = (
    "lost", "silent", "suspected", "policy", "preempted", "restart", "failed", "drain", "maintenance", "window",
)  # fmt: skip
"""Shapes: hosts that are lost, not heard, or avoided; changes to pools and settings; runs that leave for others; a new
process for a machine; jobs that failed; hosts that begin to drain; campaigns that have another state; windows
that open, close or were missed.
"""
DRAINS = (Stage.DRAINING, Stage.DRAINING_BATCH, Stage.FORCING)
ITEMS = 8
"""The most items of one mark that have details."""
UNSAID = frozenset(("path", "command_id", "reason", "actor"))


class MarkFold:
    """The fold of marks. It sees a decision before the other folds: a change is told by what was before."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.folds: Folds = {
            HostLost: self._lost,
            HostAvoided: self._avoided,
            PreemptionsOrdered: self._preempted,
            PoolAnswered: self._changed,
            JobChanged: self._failed,
            HostMaintenanceChanged: self._stages,
            MaintenanceChanged: self._campaign,
            MaintenanceWindowChanged: self._window,
        }

    def fact(self, moment: RecordContext, event: Event) -> None:
        """Folds a fact of the topic of hosts."""
        if isinstance(event, HostSilent):
            self._add(moment, SILENT, {"host_id": event.host_id})

    def epoch(self, moment: RecordContext, event: EpochStarted) -> None:
        """A process has taken a machine over from another one."""
        if event.epoch > 1:
            item = {"machine": event.machine, "epoch": event.epoch, "claimant": event.claimant, "round": event.round}
            self._add(moment, RESTART, item)

    def _lost(self, moment: RecordContext, event: HostLost) -> None:
        self._add(moment, LOST, {"host_id": event.host_id, "code": event.code})

    def _avoided(self, moment: RecordContext, event: HostAvoided) -> None:
        self._add(moment, SUSPECTED, {"host_id": event.host_id, "code": event.code})

    def _stages(self, moment: RecordContext, event: HostMaintenanceChanged) -> None:
        rows = self._cache.host_stages
        rows.load(event.host_ids)
        for host_id, stage in zip(event.host_ids, event.stage_array.tolist(), strict=True):
            row = rows.get(host_id)
            if stage in DRAINS and (row is None or row.stage not in DRAINS):
                self._add(moment, DRAIN, {"host_id": host_id, "code": event.source or event.by})

    def _campaign(self, moment: RecordContext, event: MaintenanceChanged) -> None:
        row = self._cache.maintenances.get(event.maintenance_id)
        if event.host_ids or row is None or row.state != event.state:
            item = {"maintenance_id": event.maintenance_id, "state": event.state, "code": event.code}
            self._add(moment, MAINTENANCE, item)

    def _window(self, moment: RecordContext, event: MaintenanceWindowChanged) -> None:
        if event.state in ("OPEN", "CLOSED", "MISSED"):
            self._add(moment, WINDOW, {"window_id": event.window_id, "state": event.state})

    def _preempted(self, moment: RecordContext, event: PreemptionsOrdered) -> None:
        runs = event.from_pool_array.tolist()
        for at, path in enumerate(event.from_pools):
            item = {"from": path, "for": event.for_pool, "job_id": event.for_job, "code": event.code}
            self._add(moment, PREEMPTED, item | {"runs": runs.count(at)}, runs.count(at))

    def _changed(self, moment: RecordContext, event: PoolAnswered) -> None:
        if event.code != Code.DONE:
            return
        pending = self._cache.pool_facts.get(event.pools_offset)
        fact = decode(pending.value) if pending is not None else None
        match fact:
            case PoolRemoved():
                self._add(moment, POLICY, {"path": fact.path, "removed": True})
            case PoolDefined():
                row = self._cache.pools.get(fact.path)
                before = decode(row.spec) if row is not None and row.spec else None
                item = {"path": fact.path, "changes": changes(before, fact)}
                self._add(moment, POLICY, item | ({"defined": True} if before is None else {}))
            case CellConfigured():
                self._add(moment, POLICY, {"settings": settings_named(fact)})

    def _failed(self, moment: RecordContext, event: JobChanged) -> None:
        if event.state != JobState.FAILED or not is_over(event):
            return
        row = self._cache.jobs.get(event.job_id)
        item = {"job_id": event.job_id, "tasks": event.failed}
        if row is not None:
            item |= {"pool": row.pool, "instance": row.failed_instance, "exit_code": row.failed_exit_code}
        self._add(moment, FAILED, item)

    def _add(self, moment: RecordContext, shape: str, item: Json, count: int = 1) -> None:
        rows, second = self._cache.marks, moment.at_ms // 1000
        for resolution in RESOLUTIONS:
            step = second // resolution.step_s * resolution.step_s
            row = rows.change((resolution.step_s, moment.rank, step, shape))
            if row is None:
                if resolution.kept_s:
                    old = (resolution.step_s, moment.rank, step - resolution.kept_s)
                    rows.delete("step_s = ? AND topic = ? AND step < ?", [old])
                begun = (resolution.step_s, moment.rank, step, shape, moment.at_ms, moment.offset)
                row = rows.put(MarkRow(*begun, 0, "[]"))
            row.count += count
            row.items = to_json(_with(msgspec.json.decode(row.items), item))


def _with(items: list[Json], item: Json) -> list[Json]:
    """Items with one more, as long as there is room; runs for the same pool and job are one item."""
    for each in items:
        if "runs" in item and {**each, "runs": 0} == {**item, "runs": 0}:
            each["runs"] += item["runs"]
            return items
    return [*items, item] if len(items) < ITEMS else items


def settings_named(fact: CellConfigured) -> list[str]:
    """The settings that a fact changes."""
    names = (name for name in fact.__struct_fields__ if name not in UNSAID)
    return [name for name in names if getattr(fact, name) not in (None, ())]


def changes(before: Event | None, after: PoolDefined) -> dict[str, list[Any]]:
    """The values of a pool before and now, of the fields and amounts that differ; null: it had none."""
    out: dict[str, list[Any]] = {}
    for field in after.__struct_fields__:
        old, new = getattr(before, field, None), getattr(after, field)
        if field in UNSAID or old == new:
            continue
        if isinstance(new, dict):
            parts = {**(old or {}), **new}
            pairs = {name: [(old or {}).get(name), new.get(name)] for name in parts}
            out |= {f"{field}/{name}": pair for name, pair in pairs.items() if pair[0] != pair[1]}
        else:
            out[field] = [old, new]
    return out
