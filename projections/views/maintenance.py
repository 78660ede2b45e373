"""Folds what placement decides of the maintenance of hosts, and the facts of operators that led to it."""

import msgspec

from events.codec import decode, encode
from events.codes import Stage, Step
from events.records.base import Event
from events.records.hosts import (
    HostsCordonRequested,
    HostsDrainRequested,
    HostsResumeRequested,
    MaintenanceActionRequested,
    MaintenanceRequested,
    MaintenanceWindowRemoved,
    MaintenanceWindowSet,
)
from events.records.placement import (
    HostMaintenanceChanged,
    HostRemoved,
    HostsAnswered,
    MaintenanceChanged,
    MaintenanceWindowChanged,
)
from events.topics import HOSTS
from projections.actor_names import kept
from projections.views.answers import add_answer
from projections.views.cache import Cache
from projections.views.maintenance_rows import (
    HostCommandRow,
    HostStageRow,
    MaintenanceHostRow,
    MaintenanceRow,
    MaintenanceWindowRow,
)
from projections.views.record_context import Folds, RecordContext
from projections.views.rows import to_json

Command = (
    HostsDrainRequested
    | HostsCordonRequested
    | HostsResumeRequested
    | MaintenanceActionRequested
    | MaintenanceRequested
    | MaintenanceWindowSet
    | MaintenanceWindowRemoved
)
"""The facts of operators whose reason is shown with what they led to."""
OVER = (Step.NONE, Step.DONE, Step.FAILED, Step.SKIPPED)
"""The steps of a host that a campaign has nothing more to do with."""
ENDED = ("ABORTED", "DONE")


class MaintenanceFold:
    """The fold of stages, campaigns and windows."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.folds: Folds = {
            HostMaintenanceChanged: self._changed,
            MaintenanceChanged: self._campaign,
            MaintenanceWindowChanged: self._window,
            HostsAnswered: self._answered,
            HostRemoved: self._removed,
        }

    def fact(self, moment: RecordContext, event: Event, value: bytes) -> None:
        """Keeps a fact of an operator until it is answered."""
        if isinstance(event, Command):
            self._cache.host_commands.put(HostCommandRow(moment.offset, value))

    def _changed(self, moment: RecordContext, event: HostMaintenanceChanged) -> None:
        rows = self._cache.host_stages
        rows.load(event.host_ids)
        request = self._asked(event)
        columns = (event.stage_array, event.cordon_array, event.batch_array, event.step_array)
        times = (event.preempt_at_array, event.force_at_array, event.check_until_array)
        values = zip(*(column.tolist() for column in (*columns, *times)), strict=True)
        for host_id, (stage, cordon, batch, step, *until) in zip(event.host_ids, values, strict=True):
            preempt_at, force_at, check_until = until
            before = rows.get(host_id) or HostStageRow(host_id)
            self._step(moment, event, before, host_id, step)
            if stage == Stage.UP and not cordon and step in OVER:
                rows.remove(host_id)
                continue
            since_ms = before.since_ms if before.stage == stage and before.since_ms else moment.now
            begun_ms = before.begun_ms if before.stage != Stage.UP else 0 if stage == Stage.UP else moment.now
            because = (before.reason, before.actor) if request is None else request
            why = (event.code, event.by, event.source, event.message)
            times_of = (preempt_at, force_at, check_until)
            rows.put(HostStageRow(host_id, stage, cordon, batch, step, *times_of, *why, since_ms, begun_ms, *because))

    def _asked(self, event: HostMaintenanceChanged) -> tuple[str, str] | None:
        """The reason and the actor of the fact that led to it; None: those of before hold."""
        if event.cause is None or event.cause.topic != HOSTS.name:
            fact = self._fact_of(event)
        else:
            row = self._cache.host_commands.get(event.cause.offset)
            fact = row.value if row is not None else None
        if fact is None:
            return None
        command = decode(fact)
        assert isinstance(command, Command)
        return command.reason, "" if command.actor is None else to_json(kept(command.actor))

    def _fact_of(self, event: HostMaintenanceChanged) -> bytes | None:
        """The fact that began the campaign or set the window whose a host is."""
        row: MaintenanceRow | MaintenanceWindowRow | None = None
        if event.by == "campaign":
            row = self._cache.maintenances.get(event.source)
        elif event.by == "window":
            row = self._cache.maintenance_windows.get(event.source)
        return row.fact if row is not None else None

    def _step(
        self, moment: RecordContext, event: HostMaintenanceChanged, before: HostStageRow, host_id: str, step: int
    ) -> None:
        """Notes the step of a host in its campaign."""
        campaign = event.source if event.by == "campaign" else before.source if before.by == "campaign" else ""
        row = self._cache.maintenance_hosts.get((campaign, host_id)) if campaign else None
        if row is None or step in (Step.NONE, row.step):
            return
        begun_ms = row.begun_ms or (moment.now if step == Step.DRAIN else 0)
        self._cache.maintenance_hosts.put(
            MaintenanceHostRow(campaign, host_id, step, moment.now, event.code, event.message, begun_ms, row.place)
        )

    def _campaign(self, moment: RecordContext, event: MaintenanceChanged) -> None:
        row = self._cache.maintenances.get(event.maintenance_id)
        command = None
        if event.host_ids and event.cause is not None and event.cause.topic == HOSTS.name:
            command = self._cache.host_commands.get(event.cause.offset)
        if event.host_ids and command is not None:
            row = self._begin(moment, event, command.value)
        if row is None:
            return
        changes = {"state": event.state, "code": event.code, "message": event.message, "changed_ms": moment.now}
        ended_ms = moment.now if event.state in ENDED else 0
        self._cache.maintenances.put(msgspec.structs.replace(row, **changes, ended_ms=ended_ms))

    def _begin(self, moment: RecordContext, event: MaintenanceChanged, fact: bytes) -> MaintenanceRow:
        name = event.maintenance_id
        self._cache.maintenance_hosts.delete("maintenance_id = ?", [(name,)])
        for host_id in event.host_ids:
            self._cache.maintenance_hosts.put(MaintenanceHostRow(name, host_id, Step.PENDING, moment.now))
        hosts = len(event.host_ids)
        request = msgspec.structs.replace(decode(fact), host_ids=())
        times = (moment.now, moment.now)
        return MaintenanceRow(
            name, moment.offset, encode(request), event.state, event.code, event.message, hosts, *times
        )

    def _window(self, moment: RecordContext, event: MaintenanceWindowChanged) -> None:
        rows, opens_ms, closes_ms = self._cache.maintenance_windows, event.opens_ms, event.closes_ms
        before = rows.get(event.window_id)
        if event.state == "REMOVED":
            rows.remove(event.window_id)
        elif event.state == "SET":
            command = None if event.cause is None else self._cache.host_commands.get(event.cause.offset)
            if command is not None:
                goes_on = before is not None and before.state != "SET" and before.opens_ms == opens_ms
                state = before.state if before is not None and goes_on else "SET"
                past = (before.closed_ms, before.missed_ms) if before is not None else (0, 0)
                times = (opens_ms, closes_ms, moment.now, moment.now)
                rows.put(MaintenanceWindowRow(event.window_id, command.value, state, *times, *past))
        elif before is not None:
            over = event.state in ("CLOSED", "MISSED")
            changes = {"state": "SET" if over else event.state, "opens_ms": opens_ms, "closes_ms": closes_ms}
            if over:
                changes |= (
                    {"closed_ms": before.closes_ms} if event.state == "CLOSED" else {"missed_ms": before.opens_ms}
                )
            rows.put(msgspec.structs.replace(before, **changes, changed_ms=moment.now))

    def _answered(self, moment: RecordContext, event: HostsAnswered) -> None:
        subject = to_json(event.host_ids)
        answer = (subject, event.code, event.message, event.command_id)
        add_answer(self._cache, moment, HOSTS.name, event.hosts_offset, *answer)
        self._cache.host_commands.delete("offset < ?", [(event.hosts_offset,)])

    def _removed(self, moment: RecordContext, event: HostRemoved) -> None:
        self._cache.host_stages.remove(event.host_id)
