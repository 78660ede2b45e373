"""The maintenance of hosts: their stages, the runs that are left, and what each of these waits for."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from events.codes import LIVE_TASKS, Code, Stage, Step, TaskState
from events.reasons import kind_of
from paceline.client.host_models import Host
from paceline.client.maintenance_models import HostMaintenance, HostWait
from projections.actor_names import actor_json, from_kept
from projections.queries.devices import holders_on, host_cores, host_devices
from projections.queries.disruption_waits import numbers_text
from projections.queries.entities import host_json
from projections.queries.held_hosts import tell_held
from projections.queries.host_slots import blocks_of_host
from projections.queries.pages import rows_of
from projections.queries.reason import counted
from projections.queries.resources import kinds_of, settings_of
from projections.record_json import at
from projections.views import tables
from projections.views.blocks import BLOCK, unpack
from projections.views.cache import TASK_COLUMNS
from projections.views.maintenance_rows import DeferralRow, DisruptionRow, HostStageRow
from projections.views.rows import HostRow, JobRow

DRAINS = (Stage.DRAINING, Stage.DRAINING_BATCH, Stage.FORCING)
BOUND_KINDS = ("stateful", "daemon")
_COLUMNS = [TASK_COLUMNS.index(name) for name in ("state", "run", "host", "ordered_s", "started_s")]
_STATE, _RUN, _HOST, *_ = _COLUMNS
_SOME = 500


class HostTask(NamedTuple):
    """A task on a host."""

    job: JobRow
    instance: int
    run: int
    state: int
    host_id: str
    ordered_s: int
    started_s: int
    """When its run was ordered and available; 0: not yet."""


def stages_of(connection: Connection, host_ids: Sequence[str]) -> dict[str, HostStageRow]:
    """By host the stage of those that are cordoned, drain, or are in a campaign."""
    columns = tables.host_stages
    rows: dict[str, HostStageRow] = {}
    for start in range(0, len(host_ids), _SOME):
        query = select(columns).where(columns.c.host_id.in_(host_ids[start : start + _SOME]))
        rows |= {row.host_id: row for row in rows_of(connection, HostStageRow, query)}
    return rows


def tasks_on(connection: Connection, hosts: Sequence[HostRow]) -> list[HostTask]:
    """The tasks that hold something of hosts, by job and instance."""
    tasks: list[HostTask] = []
    jobs: list[JobRow] = []
    names = {host.number: host.host_id for host in hosts if host.number}
    for number, data in _blocks(connection, hosts):
        columns = unpack(data, len(TASK_COLUMNS))
        here = np.isin(columns[_HOST], list(names)) & np.isin(columns[_STATE], LIVE_TASKS)
        for place in np.flatnonzero(here).tolist():
            slot = number * BLOCK + place
            job = next((each for each in jobs[-1:] if each.base <= slot < each.base + each.slots), None)
            if job is None:
                job = _job_of(connection, slot)
                jobs.append(job)
            state, run, host, *times = columns[_COLUMNS, place].tolist()
            tasks.append(HostTask(job, slot - job.base, run, state, names[host], *times))
    return sorted(tasks, key=lambda each: (each.job.job_id, each.instance))


def _blocks(connection: Connection, hosts: Sequence[HostRow]) -> Iterator[tuple[int, bytes]]:
    """The blocks with tasks of hosts: of one host by their heads, of more all that have tasks on hosts."""
    blocks = tables.task_blocks.c
    query = select(blocks.block, blocks.data).where(blocks.live > 0).order_by(blocks.block)
    if len(hosts) == 1:
        numbers = list(blocks_of_host(connection, hosts[0], live=True))
        query = query.where(blocks.block.in_(numbers))
    yield from ((number, data) for number, data in connection.execute(query))


def _job_of(connection: Connection, slot: int) -> JobRow:
    jobs = tables.jobs
    query = select(jobs).where(jobs.c.base <= slot, jobs.c.base >= 0).order_by(jobs.c.base.desc()).limit(1)
    row: JobRow = rows_of(connection, JobRow, query)[0]
    return row


def maintenance_json(row: HostStageRow, runs: int) -> HostMaintenance:
    """The stage of a host, as lists have it; `runs`: so many are there."""
    actor = msgspec.json.decode(row.actor) if row.actor else None
    return {
        "stage": Stage(row.stage).name,
        "since": at(row.since_ms),
        "begun_at": at(row.begun_ms),
        "by": row.by,
        "source": row.source,
        "code": row.code,
        "message": row.message,
        "reason": row.reason,
        "actor": actor_json(from_kept(actor)),
        "cordoned": row.cordon > 0,
        "batch": "move" if row.batch else "wait",
        "preempt_at": at(row.preempt_at * 1000),
        "force_at": at(row.force_at * 1000),
        "check_until": at(row.check_until * 1000),
        "step": Step(row.step).name if row.step else None,
        "runs_left": runs,
    }


def whole_maintenance(connection: Connection, host: HostRow, row: HostStageRow) -> HostMaintenance:
    """The same with what each run that is left waits for."""
    body = maintenance_json(row, host.runs)
    if row.stage not in DRAINS:
        return body
    tasks = tasks_on(connection, [host])
    body["runs_left"] = len(tasks)
    body["stopping"] = sum(1 for each in tasks if each.state == TaskState.STOPPING)
    body["waits"] = waits_of(connection, row, [each for each in tasks if each.state != TaskState.STOPPING])
    return body


def whole_host(connection: Connection, row: HostRow) -> Host:
    """A host with its maintenance."""
    stage = stages_of(connection, [row.host_id]).get(row.host_id)
    maintenance = whole_maintenance(connection, row, stage) if stage is not None else None
    settings = settings_of(connection)
    body = host_json(row, kinds_of(connection), maintenance, settings)
    tell_held(connection, body, settings)
    holders = holders_on(connection, row.host_id)
    body["devices"], body["cores"] = host_devices(row, holders), host_cores(row, holders)
    return body


def waits_of(connection: Connection, row: HostStageRow, tasks: Sequence[HostTask]) -> list[HostWait]:
    """Why tasks are still on a host that drains, by job and code; those that wait for a verdict of sla first."""
    disruptions = _disruptions(connection, {each.job.job_id for each in tasks})
    unbound = sum(1 for each in tasks if each.job.kind not in BOUND_KINDS)
    groups: Counter[tuple[str, str]] = Counter()
    since: dict[tuple[str, str], int] = {}
    for task in tasks:
        disruption = disruptions.get((task.job.job_id, task.instance))
        code, since_ms = _why_there(row, task, disruption, unbound > 0)
        key = (task.job.job_id, code)
        groups[key] += 1
        since[key] = min(since.get(key, since_ms), since_ms)
    numbers = _deferrals(connection, {job_id for job_id, _ in groups})
    instances = {each.job.job_id: each.job.tasks for each in tasks}
    order = sorted(groups, key=lambda key: (key not in numbers, key[1] == Code.LEAVES_LAST, key))
    return [_wait(*key, groups[key], since[key], instances[key[0]], numbers.get(key)) for key in order]


def _why_there(
    row: HostStageRow, task: HostTask, disruption: DisruptionRow | None, others_there: bool
) -> tuple[str, int]:
    """The code by which a task is still on its host, and since when that is so."""
    if disruption is not None and disruption.run == task.run:
        judged = disruption.judged_run == task.run and disruption.code
        since_ms = max(disruption.judged_ms, disruption.since_s * 1000)  # of the ask that stands, by one code
        return (disruption.code, since_ms) if judged else (Code.ASKED, disruption.since_s * 1000)
    if task.job.kind in BOUND_KINDS and others_there:
        return Code.LEAVES_LAST, row.since_ms
    return (Code.RUNS_TO_ITS_END if task.job.kind == "batch" else Code.NOT_YET_EVALUATED), row.since_ms


def _disruptions(connection: Connection, job_ids: Iterable[str]) -> dict[tuple[str, int], DisruptionRow]:
    """By job and instance what is asked of sla."""
    columns, ids = tables.disruptions, sorted(job_ids)
    query = select(columns).where(columns.c.job_id.in_(ids), columns.c.run > 0)
    return {(row.job_id, row.instance): row for row in rows_of(connection, DisruptionRow, query)}


def _deferrals(connection: Connection, job_ids: Iterable[str]) -> dict[tuple[str, str], DeferralRow]:
    """By job and code the numbers of the last verdict."""
    columns, ids = tables.deferrals, sorted(job_ids)
    query = select(columns).where(columns.c.job_id.in_(ids))
    return {(row.job_id, row.code): row for row in rows_of(connection, DeferralRow, query)}


_WORDS: dict[str, str] = {
    Code.RUNS_TO_ITS_END: "{tasks} until {it} end{s}",
    Code.LEAVES_LAST: "{tasks} bound to the host, leave{s} last",
    Code.ASKED: "{tasks} wait{s} for the verdict of sla",
    Code.NOT_YET_EVALUATED: "{tasks} {is} looked at in the next rounds",
}
"""The sentences of codes about tasks on a host that drains, where they have none of their own."""


def _wait(job_id: str, code: str, runs: int, since_ms: int, instances: int, deferral: DeferralRow | None) -> HostWait:
    words = counted(runs)
    message = (_WORDS.get(code) or kind_of(code).sentence or "{tasks} wait{s} by {code}").format(**words, code=code)
    if deferral is not None:
        message += f" ({numbers_text(deferral, instances)})"
    return {
        "job_id": job_id,
        "code": code,
        "message": message,
        "runs": runs,
        "since": at(since_ms),
        "instances": instances,
        "unavailable": deferral.unavailable if deferral else None,
        "allowed": deferral.max_unavailable if deferral else None,
        "group": deferral.group if deferral else "",
        "until": at(deferral.until_s * 1000) if deferral else None,
    }
