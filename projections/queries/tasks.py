"""Tasks as the API shows them, read from their columns."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, Table, select

from events.codes import LIVE_TASKS, Code, Outcome, RunCause, TaskState, UpdateStep
from events.columns import I32, I64, ints
from paceline.client.models import Task
from projections.access.limits import limits
from projections.queries.devices import task_devices
from projections.queries.end_reasons import ended_by, stops_of
from projections.queries.host_slots import blocks_of_host
from projections.queries.pages import Page, rows_of
from projections.queries.run_details import exit_code_of, run_details, task_details
from projections.queries.task_specs import own_specs
from projections.record_json import at
from projections.views import tables
from projections.views.blocks import BLOCK, unpack
from projections.views.cache import TASK_COLUMNS
from projections.views.reader import rows_as_text
from projections.views.rows import HostRow, JobRow
from projections.views.waiting import Standing

TASK_PLACES = {name: place for place, name in enumerate(TASK_COLUMNS)}
"""Where each column of tasks stands."""
SHRUNK = "preempted: its host offers less than its runs hold, or its device was set aside"
_JOBS_IN = "SELECT base, slots FROM jobs WHERE base >= 0 AND base < ? AND base + slots > ?"
_SHOWN = ("state", "run", "host", "outcome", "step", "why")
"""Outcomes of runs whose processes ended by themselves."""


class TaskValues(NamedTuple):
    """A task, and its values in the order of `TASK_COLUMNS`."""

    instance: int
    columns: list[int]

    def of(self, name: str) -> int:
        """The value in a column."""
        return self.columns[TASK_PLACES[name]]


class TaskFilter(NamedTuple):
    """A filter of the tasks of a job; an empty field lets all through."""

    states: Sequence[int] = ()
    host_id: str = ""
    """The host of a task that is there, or of its last run."""
    ranges: Sequence[tuple[int, int]] = ()
    """The first instance of each, and how many."""


def tasks_page(connection: Connection, job: JobRow, task_filter: TaskFilter, size: int, first: int) -> Page[Task]:
    """Tasks of a job by instance."""
    items: list[TaskValues] = []
    hosts = _host_numbers(connection, task_filter.host_id)
    while job.base >= 0 and first < job.instances and len(items) <= size:
        number = (job.base + first) // BLOCK
        stop = min(job.instances, (number + 1) * BLOCK - job.base)
        columns = _block(connection, tables.task_blocks, number, len(TASK_COLUMNS))
        start = (job.base + first) % BLOCK
        part = columns[:, start : start + stop - first]
        matches = np.isin(part[0], task_filter.states) if task_filter.states else part[0] > 0
        if task_filter.host_id:
            matches &= np.isin(part[TASK_PLACES["host"]], hosts) & (part[0] != TaskState.QUEUED)
        if task_filter.ranges:
            matches &= _within(task_filter.ranges, first, stop)
        places = np.flatnonzero(matches)[: size + 1 - len(items)]
        items += [TaskValues(first + place, part[:, place].tolist()) for place in places.tolist()]
        first = stop
    more = items[size].instance if len(items) > size else None
    return Page(_tasks_json(connection, job, items[:size]), more)


def host_tasks(connection: Connection, host: HostRow, size: int, first: int) -> Page[Task]:
    """Tasks that hold something of a host; `first` is a slot."""
    slots: list[int] = []
    columns: list[list[int]] = []
    for number in blocks_of_host(connection, host, first // BLOCK, live=True):
        block = _block(connection, tables.task_blocks, number, len(TASK_COLUMNS))
        on_host = (block[TASK_PLACES["host"]] == host.number) & np.isin(block[0], LIVE_TASKS)
        if limits() is not None:
            on_host &= _of_seen_jobs(connection, number)
        for place in np.flatnonzero(on_host).tolist():
            if number * BLOCK + place >= first:
                slots.append(number * BLOCK + place)
                columns.append(block[:, place].tolist())
        if len(slots) > size:
            break
    items: list[Task] = []
    place = 0
    while place < min(size, len(slots)):
        job = _job_of_slot(connection, slots[place])
        end = bisect_left(slots, job.base + job.instances, place, min(size, len(slots)))
        some = [TaskValues(slots[one] - job.base, columns[one]) for one in range(place, end)]
        items += [{"job_id": job.job_id, **task} for task in _tasks_json(connection, job, some)]
        place = end
    return Page(items, slots[size] if len(slots) > size else None)


def _of_seen_jobs(connection: Connection, number: int) -> Any:
    """A flag for each slot of a block: whether it is one of a job that who asks may see."""
    flags = np.zeros(BLOCK, dtype=np.bool_)
    for base, slots in rows_as_text(connection, _JOBS_IN, ((number + 1) * BLOCK, number * BLOCK)):
        start = base - number * BLOCK
        flags[max(0, start) : max(0, start + slots)] = True
    return flags


def _host_numbers(connection: Connection, host_id: str) -> list[int]:
    """The numbers that a host has had in the columns."""
    names = tables.host_names.c
    return list(connection.scalars(select(names.number).where(names.host_id == host_id))) if host_id else []


def _within(ranges: Sequence[tuple[int, int]], first: int, stop: int) -> Any:
    """A flag for each of the instances from one to another: whether ranges have it."""
    inside = np.zeros(stop - first, dtype=np.bool_)
    for start, count in ranges:
        inside[max(0, start - first) : max(0, start + count - first)] = True
    return inside


def task(connection: Connection, job: JobRow, instance: int) -> Task | None:
    """One task."""
    if not 0 <= instance < job.instances:
        return None
    page = tasks_page(connection, job, TaskFilter(ranges=[(instance, 1)]), 1, instance)
    return next((task for task in page.items if task["instance"] == instance), None)


def columns_of(connection: Connection, job: JobRow, instances: I32 | I64) -> I32:
    """The columns of some tasks of a job, a row for each of `TASK_COLUMNS`."""
    return columns_at(connection, job.base + instances.astype(np.int64))


def columns_at(connection: Connection, slots: I64) -> I32:
    """The same of tasks of any jobs, by their slots."""
    out = np.zeros((len(TASK_COLUMNS), len(slots)), dtype=np.int32)
    order = np.argsort(slots, kind="stable")
    blocks, starts = np.unique(slots[order] // BLOCK, return_index=True)
    mine = dict(zip(blocks.tolist(), np.split(order, starts[1:]), strict=False))
    numbers = ",".join(map(str, mine))
    for number, data in rows_as_text(connection, f"SELECT block, data FROM task_blocks WHERE block IN ({numbers})"):
        out[:, mine[number]] = unpack(data, len(TASK_COLUMNS))[:, slots[mine[number]] % BLOCK]
    return out


def waiting_columns(connection: Connection, job: JobRow) -> tuple[I32, I32]:
    """The standings of the queued tasks of a job (`views/waiting.py`), and the second since when each has it."""
    columns = columns_of(connection, job, np.arange(job.instances if job.base >= 0 and job.queued else 0))
    queued = columns[:, columns[0] == TaskState.QUEUED]
    return queued[TASK_PLACES["standing"]], queued[TASK_PLACES["since_s"]]


def waiting_ranges(connection: Connection, job: JobRow, standing: int, most: int) -> list[tuple[int, int, int]]:
    """The first units of a job that wait with a standing: first instance, tasks, and the second since when. A gang is
    one unit; of tasks that are admitted alone, neighbours stand together.
    """
    columns = columns_of(connection, job, np.arange(job.instances if job.base >= 0 else 0))
    mine = (columns[0] == TaskState.QUEUED) & (columns[TASK_PLACES["standing"]] == standing)
    instances = np.flatnonzero(mine)
    gang = instances < job.gang_min
    parts = [instances[gang]] if gang.any() else []
    alone = instances[~gang]
    parts += np.split(alone, np.flatnonzero(np.diff(alone) != 1) + 1) if len(alone) else []
    since = columns[TASK_PLACES["since_s"]]
    return [(int(part[0]), len(part), int(since[part].min())) for part in parts[:most]]


def live_hosts(connection: Connection, job: JobRow) -> list[str]:
    """The hosts that runs of a job go on, by id."""
    if job.base < 0:
        return []
    columns = columns_of(connection, job, np.arange(job.instances))
    numbers = np.unique(columns[TASK_PLACES["host"]][np.isin(columns[0], LIVE_TASKS)]).tolist()
    hosts = tables.host_names.c
    query = select(hosts.host_id).where(hosts.number.in_(numbers)).order_by(hosts.host_id)
    return list(connection.scalars(query))


def past_host(connection: Connection, job: JobRow, instance: int, run: int) -> str | None:
    """The host of a run that another one of its task came after; None where it had none."""
    past, hosts = tables.past_runs.c, tables.host_names.c
    query = select(hosts.host_id).where(
        past.job_id == job.job_id, past.instance == instance, past.run == run, hosts.number == past.host
    )
    return connection.execute(query).scalar()


def _job_of_slot(connection: Connection, slot: int) -> JobRow:
    jobs = tables.jobs
    query = select(jobs).where(jobs.c.base <= slot, jobs.c.base >= 0).order_by(jobs.c.base.desc()).limit(1)
    row: JobRow = rows_of(connection, JobRow, query)[0]
    return row


def _block(connection: Connection, table: Table, number: int, columns: int) -> Any:
    data = connection.execute(select(table.c.data).where(table.c.block == number)).scalar()
    return unpack(data, columns) if data is not None else np.zeros((columns, BLOCK), dtype=np.int32)


def _tasks_json(connection: Connection, job: JobRow, items: Sequence[TaskValues]) -> list[Task]:
    instances = [item.instance for item in items]
    details = run_details(connection, job, [(item.instance, item.of("run")) for item in items])
    numbers = {item.of("host") for item in items}
    names = host_names(connection, numbers)
    ports = _ports(connection, job, instances)
    devices = task_devices(connection, job.job_id, [(item.instance, item.of("run")) for item in items])
    specs = own_specs(connection, job, {item.instance: item.of("version") for item in items})
    preempted = any(item.of("outcome") == Outcome.PREEMPTED for item in items)
    won = winners(connection, job) if preempted else {}
    stopped = any(item.of("why") == RunCause.STOP for item in items)
    stops = stops_of(connection, [job]).get(job.job_id, ()) if stopped else ()
    out: list[Task] = []
    for item in items:
        values = dict(zip(TASK_COLUMNS, item.columns, strict=True))
        state, run, host, outcome, step, why = (values[name] for name in _SHOWN)
        last = item.instance, run - (state == TaskState.QUEUED)
        reported = details.get((item.instance, run), {})
        process = task_details(job, state, reported)
        on_host = host > 0 and state != TaskState.QUEUED
        task_row: Task = {
            "instance": item.instance,
            "state": TaskState(state).name,
            "run": run,
            "host_id": names.get(host) if on_host else None,
            "ports": [port for port in ports.get(item.instance, ()) if port] if on_host else [],
            "health": process["health"],
            "signal": process["signal"],
            "out_of_memory": process["out_of_memory"],
            "cpu_ms": process["cpu_ms"],
            "memory_kib": process["memory_kib"],
            "throttled_ms": process["throttled_ms"],
            "read_kib": process["read_kib"],
            "written_kib": process["written_kib"],
            "exit_code": exit_code_of(outcome, values["exit_code"], reported),
            "outcome": Outcome(outcome).name if outcome else None,
            "cause": RunCause(why).name if why else None,
            "reason": reported.get("reason")
            or (won.get(last) if outcome == Outcome.PREEMPTED else None)
            or ended_by(job, stops, item.instance, why, values["ended_s"]),
            "admission": Standing(values["standing"]).name if values["standing"] < 0 else None,
            "since": at(values["since_s"] * 1000),
            "failures": values["failures"],
            "next_run_at": at(values["due_s"] * 1000),
            "spec": specs.get(item.instance),
            "version": values["version"] or None,
            "update": UpdateStep(step).name if step and values["update"] == job.update else None,
        }
        has_some = on_host and item.instance in devices
        out.append({**task_row, **devices[item.instance]} if has_some else task_row)
    return out


def winners(connection: Connection, job: JobRow) -> dict[tuple[int, int], str]:
    """By instance and run, for whom runs of a job left."""
    victims, orders = tables.victims.c, tables.orders.c
    joined = tables.victims.join(tables.orders, victims.number == orders.number)
    query = select(victims.runs, orders.for_job, orders.code).select_from(joined).where(victims.job_id == job.job_id)
    by_run = {}
    for runs, for_job, code in connection.execute(query.where(orders.answer == Code.LEFT)):
        instance, run = ints(runs).reshape(4, -1)[:2].tolist()
        why = f"moved to make room for job {for_job} (REBALANCED)" if code == Code.REBALANCED else SHRUNK
        if for_job and code != Code.REBALANCED:
            why = f"preempted for job {for_job}"
        by_run.update(dict.fromkeys(zip(instance, run, strict=True), why))
    return by_run


def host_names(connection: Connection, numbers: Iterable[int]) -> dict[int, str]:
    """The hosts of numbers in the columns."""
    hosts = tables.host_names.c
    query = select(hosts.number, hosts.host_id).where(hosts.number.in_(list(numbers)))
    return dict(map(tuple, connection.execute(query)))


def _ports(connection: Connection, job: JobRow, instances: Sequence[int]) -> dict[int, list[int]]:
    if not job.ports or not instances:
        return {}
    first, last = (job.port_base + instance * job.ports for instance in (instances[0], instances[-1] + 1))
    blocks = [_block(connection, tables.port_blocks, at, 1)[0] for at in range(first // BLOCK, (last - 1) // BLOCK + 1)]
    numbers = np.concatenate(blocks)
    start = job.port_base - first // BLOCK * BLOCK
    slots = {at: numbers[start + at * job.ports : start + (at + 1) * job.ports] for at in instances}
    return {at: mine[mine > 0].tolist() for at, mine in slots.items()}
