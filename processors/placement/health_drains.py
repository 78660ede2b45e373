"""Drains of hosts that aren't well: by the policies of their conditions, few at a time, never forced (decision 091)."""

from collections.abc import Iterable, Mapping

import msgspec

from events.codes import Code, Stage
from events.host_health import DRAINED_PERCENT, HOUR_MS, most
from events.records.base import Event
from events.records.parts import DrainPlan
from events.records.placement import HostMaintenanceChanged, HostRemoved
from processors.placement.conditions import ConditionRow, Conditions
from processors.placement.hosts import Hosts
from processors.placement.stages import HEALTH, OPERATOR, Stages, changed
from processors.placement.states import LEAVING, TAKES_BOUND
from processors.state.causes import recorded
from processors.state.table import Table, struct_table

Named = list[tuple[str, ConditionRow]]
"""Conditions of a host by name."""
WAITS = DrainPlan(batch="wait", deadline_ms=0, escalate="wait", force_after_ms=0)


class StartRow(msgspec.Struct, array_like=True):
    """When the drain of a host began; kept for an hour."""

    at_ms: int


class HealthDrains:
    """Decides `HostMaintenanceChanged` by health."""

    def __init__(self, hosts: Hosts, stages: Stages, conditions: Conditions) -> None:
        self.starts: Table[str, StartRow] = struct_table("health_drains", StartRow)
        self._hosts = hosts
        self._stages = stages
        self._conditions = conditions
        self.ours: dict[str, None] = {}
        """The hosts that are drained for conditions, in no order that means anything."""

    def restored(self) -> None:
        """Rebuilds the index; after the stages."""
        self.ours = {host_id: None for host_id, row in self._stages.table.items() if row.by == HEALTH}

    def next_ms(self, passed_ms: int) -> int | None:
        """When one more host may be drained, while one waits for it."""
        ends = [row.at_ms + HOUR_MS for row in self.starts.values() if row.at_ms + HOUR_MS > passed_ms]
        return min(ends, default=None) if self._conditions.table else None

    def staged(self, event: HostMaintenanceChanged, now: int) -> None:
        """Hosts have other stages; to be called before their rows have them. One that an operator takes back is let
        alone until its check has passed once.
        """
        if not self._conditions.table and not self.ours:
            return
        self._conditions.unsettle()
        for host_id, stage in zip(event.host_ids, event.stage_array.tolist(), strict=True):
            is_ours = host_id in self.ours
            if is_ours and event.code == Code.RESUMED:
                self._conditions.dismiss(host_id)
            if event.by == HEALTH and not is_ours and stage in LEAVING:
                for old in [old for old, row in self.starts.items() if row.at_ms + HOUR_MS <= now]:
                    self.starts.remove(old)
                self.starts.put(host_id, StartRow(now))
            if event.by == HEALTH and stage in LEAVING:
                self.ours[host_id] = None
            else:
                self.ours.pop(host_id, None)

    def host_removed(self, event: HostRemoved, now: int) -> None:
        """A host is forgotten; that its drain began counts on."""
        self.ours.pop(event.host_id, None)
        self._conditions.unsettle()

    def decide(self, now: int, passed_ms: int) -> list[Event]:
        """The next host that is taken back, or drained."""
        at = self.next_ms(passed_ms)
        if self._conditions.settled(passed_ms, now) and (at is None or at > now):
            return []
        broken = self._conditions.broken(now)
        why = {host_id: self._wants(host_id, now, broken) for host_id in self._conditions.hosts()}
        for host_id in sorted(host_id for host_id in self.ours if not why.get(host_id)):
            stage = self._stages.of(host_id)
            by = OPERATOR if stage.cordon else ""
            return [changed({host_id: stage.taken_back()}, Code.CONDITION, by=by, cause=recorded(stage.cause))]
        return self._drain(why, now)

    def _drain(self, why: Mapping[str, Named], now: int) -> list[Event]:
        bound = most(self._conditions.heard(), DRAINED_PERCENT)
        newly = sum(row.at_ms + HOUR_MS > now for row in self.starts.values())
        due = sorted(
            (row.since_ms, host_id, name) for host_id, rows in why.items() for name, row in self._due(rows, now)
        )
        for _, host_id, name in due:
            if len(self.ours) >= bound or newly >= bound:
                break
            if self._may_drain(host_id):
                row = self._conditions.table[host_id, name]
                message = f"{name} ({row.code}): {row.text}" if row.text else f"{name} ({row.code})"
                goal = {host_id: self._stages.of(host_id).drained(WAITS, now)}
                return [changed(goal, Code.CONDITION, by=HEALTH, source=name, message=message, cause=row.by.record)]
        return []

    def _wants(self, host_id: str, now: int, broken: Iterable[str]) -> Named:
        """The conditions of a host by which it is drained, or will be."""
        return [
            (name, row)
            for name, row in self._conditions.lasting(host_id, now)
            if name not in broken and self._conditions.action(name).drain_after_ms is not None
        ]

    def _due(self, rows: Named, now: int) -> Named:
        """Those that are bad, and have lasted for long enough."""
        return [
            (name, row)
            for name, row in rows
            if row.bad and row.since_ms + (self._conditions.action(name).drain_after_ms or 0) <= now
        ]

    def _may_drain(self, host_id: str) -> bool:
        """Whether nobody else has a host, and it is heard."""
        stage = self._stages.of(host_id)
        number = self._hosts.table[host_id].number
        is_heard = int(self._hosts.phase[number]) in TAKES_BOUND
        return is_heard and not stage.in_campaign and stage.stage in (Stage.UP, Stage.CORDONED)
