"""The views as JSON values, for the API. Each function takes a connection, so that one answer sees one state."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, select, tuple_

from events.bounds import LOAD_STEPS
from events.cell_settings import DEFAULTS, Settings
from events.codes import Code, RunCause
from events.quantities import write_amounts, write_milli
from events.resources import GPU_MEMORY, REVOCABLE, Amounts, Kinds, Unit, in_order
from paceline.client.cell_models import SkippedRecord
from paceline.client.explanation_models import Explanation
from paceline.client.host_models import Host, HostLoad, HostTaint, Shrinkage, Suspicion, Volume
from paceline.client.json_type import Json
from paceline.client.maintenance_models import HostMaintenance
from paceline.client.models import ActorName, HistoryEntry, Job
from paceline.client.models import Reason as Headline
from projections.actor_names import actor_json, from_kept
from projections.host_states import HostState, conditions, host_state_of
from projections.queries import explain, situations, versions
from projections.queries.departures import departure
from projections.queries.host_conditions import conditions_json
from projections.queries.job_entries import ByActors, entry_json, newest_first, oldest_first
from projections.queries.no_forecasts import forecast_or_why_not
from projections.queries.own_records import own_records
from projections.queries.pages import Page, RowsPage, first_of, rows_of, some
from projections.queries.reason import Reason, of_code
from projections.queries.resources import kinds_of, offered_json
from projections.queries.sentences import amounts
from projections.queries.story_jobs import line_of
from projections.queries.story_parts import text_of
from projections.queries.strategies import strategy_of_job
from projections.queries.wake_ups import next_wake_up
from projections.record_json import at
from projections.views import tables
from projections.views.job_history import detail_of
from projections.views.rows import AnswerRow, HostRow, JobRow, VolumeRow, amounts_in, to_json
from projections.views.update_rows import UpdateRow

AMOUNTS = ("asked", "free", "need", "allocated", "entitlement", "limit", "floor", "kept", "wanted")
"""The fields of records that are amounts by name."""


def _one(connection: Connection, row: Any, table: Table, key: Any) -> Any:
    column = next(iter(table.primary_key))
    return next(iter(rows_of(connection, row, select(table).where(column == key))), None)


# Jobs.


def job_row(connection: Connection, job_id: str) -> JobRow | None:
    """The row of a job."""
    row: JobRow | None = _one(connection, JobRow, tables.jobs, job_id)
    return row


def job_rows(connection: Connection, numbers: Sequence[int]) -> list[JobRow]:
    """The rows of jobs by their numbers, in that order; numbers of none are left out."""
    unordered: list[JobRow] = rows_of(connection, JobRow, select(tables.jobs).where(tables.jobs.c.number.in_(numbers)))
    rows = {row.number: row for row in unordered}
    return [rows[number] for number in numbers if number in rows]


def jobs_json(connection: Connection, rows: Sequence[JobRow]) -> list[Job]:
    """Jobs as lists show them: all but their specs."""
    by_job = situations.of_jobs(connection, rows)
    kinds = kinds_of(connection)
    updates = versions.newest_updates(connection, rows)
    headlines = (explain.headline(explain.reasons(row, by_job.get(row.job_id), kinds)) for row in rows)
    return [_job_json(row, headline, updates.get(row.job_id)) for row, headline in zip(rows, headlines, strict=True)]


def job_json(connection: Connection, row: JobRow, overrides: bool = False) -> Job:
    """A job as the API shows it, with its spec, and in it all `overrides` even where they came in chunks."""
    reasons = reasons_of(connection, row)
    update = versions.newest_updates(connection, [row]).get(row.job_id)
    forecast, no_forecast = forecast_or_why_not(connection, row, reasons)
    return {
        **_job_json(row, explain.headline(reasons), update),
        "strategy_in_effect": strategy_of_job(connection, row),
        "next_wake_up": next_wake_up(connection, row, update),
        "forecast": forecast,
        "no_forecast": no_forecast,
        "spec": versions.present_spec(connection, row, overrides),
    }


def _job_json(row: JobRow, headline: Headline | None, update: UpdateRow | None) -> Job:
    position = f"paceline.lifecycle:{row.position - 1}" if row.position else f"paceline.jobs:{row.offset}"
    return {
        "job_id": row.job_id,
        "pool": row.pool,
        "kind": row.kind,
        "state": row.state,
        "instances": row.tasks,
        "priority": row.priority,
        "controller": bool(row.controller),
        "on_preempt": row.on_preempt,
        "owner": row.owner,
        "labels": msgspec.json.decode(row.labels),
        "submitted_at": at(row.submitted_ms),
        "started_at": at(row.started_ms),
        "ended_at": at(row.ended_ms),
        "held": bool(row.held_ms),
        "held_since": at(row.held_ms),
        "waiting_since": at(row.waits_ms),
        "first_run": row.first_run,
        "version": row.version or None,
        "update": versions.update_json(update) if update is not None else None,
        "tasks": {
            "queued": row.queued,
            "ordered": row.ordered,
            "running": row.running,
            "stopping": row.stopping_tasks,
            "backoff": row.backoff,
            "succeeded": row.succeeded,
            "failed": row.failed,
            "killed": row.killed,
        },
        "killed_by": {
            name: count
            for name, count in ((RunCause.RUN_LIMIT.name, row.overran), (RunCause.STOP.name, row.stopped))
            if count
        },
        "reason": headline,
        "position": position,
    }


def reasons_of(connection: Connection, row: JobRow) -> list[Reason]:
    """The reasons of one job, the headline first, with all that is known of it."""
    situation = situations.of_jobs(connection, [row]).get(row.job_id)
    more = situations.detail(connection, row, situation) if situation else None
    return explain.reasons(row, situation, kinds_of(connection), more)


def explanation(connection: Connection, row: JobRow) -> Explanation:
    """Why a job stands where it stands."""
    reasons = reasons_of(connection, row)
    forecast, no_forecast = forecast_or_why_not(connection, row, reasons)
    return {
        "job_id": row.job_id,
        "state": row.state,
        "headline": explain.headline(reasons),
        "reasons": [explain.reason_json(each) for each in reasons],
        "strategy_in_effect": strategy_of_job(connection, row),
        "forecast": forecast,
        "no_forecast": no_forecast,
        "preempted_for_it": situations.left_for(connection, row.job_id),
    }


def history_page(
    connection: Connection,
    job_id: str,
    size: int,
    after: Sequence[int] | None,
    newest: bool = False,
    actors: Collection[str] = (),
) -> Page[HistoryEntry]:
    """The history of a job, the oldest or the newest first; of some actors, a page may have fewer entries although
    there are more.
    """
    entries = ByActors((newest_first if newest else oldest_first)(connection, job_id, after), actors)
    units, own = kinds_of(connection).units, own_records(connection)
    details = ((entry, detail_of(entry.said)) for entry in entries if entry.said is not None)
    readable = details if own is None else (each for each in details if not own.is_of_another(each[0].event, each[1]))
    page = first_of(readable, size, lambda each: len(to_json(each[1])))
    items: list[HistoryEntry] = []
    for entry, detail in page.rows:
        words = own.names.told(detail) if own else detail
        actor, fields = _actor(words), _in_units(words, units)
        if led := departure(connection, job_id, entry, fields):
            fields["led"] = led
        items.append(entry_json(entry, actor, text_of(line_of(entry.event, fields)), fields))
    last = page.rows[-1][0][:5] if page.more else entries.cut_at
    return Page(items, list(last) if last else None)


def _actor(detail: Json) -> ActorName | None:
    """Takes who wrote a fact out of its details."""
    return actor_json(from_kept(detail.pop("actor", None)))


def _in_units(detail: Json, units: Mapping[str, Unit]) -> Json:
    """The details of a decision, with amounts as users write them."""
    for name in AMOUNTS:
        if isinstance(amounts := detail.get(name), dict):
            detail[name] = write_amounts(in_order(amounts), units)
    return detail


# Hosts.


def host_row(connection: Connection, host_id: str) -> HostRow | None:
    """The row of a host."""
    row: HostRow | None = _one(connection, HostRow, tables.hosts, host_id)
    return row


def offered_by_any(connection: Connection, attribute: str) -> bool:
    """Whether any host has an attribute."""
    has_attribute = tables.hosts.c.attributes.contains(f'"{attribute}":', autoescape=True)
    return connection.execute(select(tables.hosts.c.host_id).where(has_attribute).limit(1)).first() is not None


def host_json(
    row: HostRow, kinds: Kinds, maintenance: HostMaintenance | None = None, settings: Settings = DEFAULTS
) -> Host:
    """A host as the API shows it. Licences are the cell's, no host holds them. `settings`: those of the cell."""
    offer = offered_json(amounts_in(row.capacity), msgspec.json.decode(row.sizes), kinds)
    on_host = _on_host(row, kinds)
    return {
        "host_id": row.host_id,
        "state": host_state(row),
        "session": row.session,
        "gateway": row.gateway,
        "connected_at": at(row.connected_ms),
        "silent_since": at(row.silent_ms),
        "offer_refused": row.offer_fault or None,
        "lost": {"code": row.lost_code, "session": row.lost_session, "at": at(row.lost_ms)} if row.lost_code else None,
        "suspected": (suspected := _suspected(row)),
        "conditions": conditions_json(row, suspected, settings),
        "shrunk": _shrunk(row, kinds),
        "capacity": offer["capacity"],
        "ignored_resources": offer["ignored_resources"],
        "allocated": write_amounts(on_host, kinds.units),
        "slack": write_milli(amounts_in(row.capacity).get("cpu", 0) * row.slack // LOAD_STEPS),
        "used": _load(row),
        "runs": row.runs,
        "ports": {"first": row.port_first, "last": row.port_last},
        "attributes": msgspec.json.decode(row.attributes),
        "taints": _taints(row),
        "host_pool": row.host_pool,
        "maintenance": maintenance,
    }


def _taints(row: HostRow) -> list[HostTaint]:
    """The taints of a host, by key; of one that its agent and an operator gave that of the operator."""
    own, others = msgspec.json.decode(row.taints), msgspec.json.decode(row.tainted)
    by = {**dict.fromkeys(own, "agent"), **dict.fromkeys(others, "operator")}
    evicts = msgspec.json.decode(row.evicts)
    return [
        {"key": key, "value": value, "by": by[key], "effect": "evict" if key in evicts else "no_place"}
        for key, value in sorted((own | others).items())
    ]


def _load(row: HostRow) -> HostLoad | None:
    if not row.loaded_ms:
        return None
    return {"cpu": row.cpu_used, "memory": row.memory_used, "at": at(row.loaded_ms)}


def host_state(row: HostRow) -> HostState:
    """The state of a host."""
    return host_state_of(
        conditions(
            lost=bool(row.lost_code) and row.lost_session >= row.session,
            silent=row.silent_ms,
            offered=row.offered,
            avoided=row.avoided_ms,
            session=row.session,
            reconciled=row.reconciled_session,
        )
    )


_SUSPECTED_FOR: dict[str, str] = {
    Code.FAILS_AT_ONCE: ", at last run {run} of task {job}/{instance}",
    Code.STOP_NOT_OBEYED: ": run {run} of task {job}/{instance}",
}
"""The run for which a host was suspected."""


def _suspected(row: HostRow) -> Suspicion | None:
    """Why a host takes no new tasks, and until when."""
    if row.avoided_ms == 0 or row.suspect_code == Code.CONDITION:
        return None
    run = {"job": row.suspect_job, "instance": row.suspect_instance, "run": row.suspect_run}
    last = _SUSPECTED_FOR[row.suspect_code].format(**run) if row.suspect_job else ""
    message = of_code(row.suspect_code, "lifecycle", {"last": last}).message
    return {"code": row.suspect_code, "message": message, "until": at(max(0, row.avoided_ms))}


def _on_host(row: HostRow, kinds: Kinds) -> Amounts:
    """The amounts that runs hold of a host."""
    return {name: amount for name, amount in amounts_in(row.allocated).items() if name not in kinds.licences}


def surplus(row: HostRow, kinds: Kinds) -> Amounts:
    """The amounts by which a host offers less than its runs hold. What it lends is no part of that, nor are named
    devices: one that is gone or unwell stays that of its run.
    """
    if not row.offered or host_state(row) == HostState.LOST:
        return {}
    capacity = amounts_in(row.capacity)
    beyond = {
        name: amount - capacity.get(name, 0)
        for name, amount in _on_host(row, kinds).items()
        if amount > capacity.get(name, 0) and name != REVOCABLE
    }
    if beyond and (devices := msgspec.json.decode(row.devices)):
        apart = {GPU_MEMORY, *(each["kind"] for each in devices)}
        return {name: amount for name, amount in beyond.items() if name not in apart}
    return beyond


def _shrunk(row: HostRow, kinds: Kinds) -> Shrinkage | None:
    beyond = surplus(row, kinds)
    if not beyond:
        return None
    message = of_code(Code.HOST_SHRUNK, "placement", {"surplus": amounts(beyond, kinds)}).message
    return {"code": Code.HOST_SHRUNK, "message": message, "surplus": write_amounts(beyond, kinds.units)}


# The log.


def answer(connection: Connection, topic: str, offset: int) -> AnswerRow | None:
    """The answer to a fact."""
    answers = tables.answers
    query = select(answers).where(answers.c.topic == topic, answers.c.offset == offset)
    return next(iter(rows_of(connection, AnswerRow, query)), None)


def answers_between(connection: Connection, topic: str, first: int, last: int) -> list[AnswerRow]:
    """The answers to the facts of a topic from one offset to another."""
    answers = tables.answers
    within = answers.c.offset.between(first, last)
    return rows_of(connection, AnswerRow, select(answers).where(answers.c.topic == topic, within))


def round_offset(connection: Connection, machine: str, number: int) -> int | None:
    """Where an accepted round stands in its topic."""
    rounds = tables.rounds.c
    query = select(rounds.position).where(rounds.machine == machine, rounds.number == number)
    offset: int | None = connection.execute(query).scalar()
    return offset


def volume_rows(
    connection: Connection, size: int, after: Sequence[Any] | None, host_id: str, job_id: str
) -> RowsPage[VolumeRow]:
    """Volumes by host and task; `host_id`, `job_id`: of one of them only, where it isn't empty."""
    volumes = tables.volumes.c
    key = (volumes.host_id, volumes.job_id, volumes.instance, volumes.name)
    query = select(tables.volumes).order_by(*key)
    for column, value in ((volumes.host_id, host_id), (volumes.job_id, job_id)):
        query = query.where(column == value) if value else query
    if after is not None:
        query = query.where(tuple_(*key) > tuple_(*after))
    return some(connection, VolumeRow, query, size, lambda row: 0)


def volume_row(connection: Connection, host_id: str, job_id: str, instance: int, name: str) -> VolumeRow | None:
    """One volume."""
    volumes = tables.volumes.c
    of_task = (volumes.host_id == host_id) & (volumes.job_id == job_id) & (volumes.instance == instance)
    query = select(tables.volumes).where(of_task & (volumes.name == name))
    return next(iter(rows_of(connection, VolumeRow, query)), None)


def volume_json(row: VolumeRow) -> Volume:
    """A volume as the API shows it."""
    return {
        "host_id": row.host_id,
        "job_id": row.job_id,
        "instance": row.instance,
        "name": row.name,
        "created_at": at(row.created_ms),
    }


def quarantine_rows(connection: Connection, size: int, after: Sequence[Any] | None) -> RowsPage[SkippedRecord]:
    """Records that were skipped, by topic and offset."""
    records = tables.quarantine.c
    key = (records.topic, records.offset)
    query = select(*key, records.at_ms, records.reason, records.digest, records.size).order_by(*key)
    if after is not None:
        query = query.where(tuple_(*key) > tuple_(*after))

    def record_json(topic: str, offset: int, at_ms: int, reason: str, digest: bytes, size: int) -> SkippedRecord:
        return {
            "topic": topic,
            "offset": offset,
            "at": at(at_ms),
            "reason": reason,
            "digest": digest.hex(),
            "size": size,
        }

    return some(connection, record_json, query, size, lambda record: len(record["reason"]))
