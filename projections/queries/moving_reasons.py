"""Why tasks that are on hosts neither run nor are over, in words: they start, or stop, or their host is silent."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, select, tuple_

from events.cell_settings import Settings
from events.codes import Code, RunReport, TaskState
from events.words import listed
from projections.queries.reason import Reason, counted, of_code
from projections.queries.tasks import TASK_PLACES, columns_of
from projections.record_json import at
from projections.views import tables
from projections.views.rows import JobRow

HOSTS_SHOWN = 3
RUNS_ASKED = 100
"""The tasks that it is looked for whether their hosts prepare them."""


_SILENT = select(tables.hosts.c.number).where(tables.hosts.c.silent_ms > 0, tables.hosts.c.runs > 0)


class Moving(NamedTuple):
    """Tasks of a job on hosts in one state that they are to leave: since when the first one has it, on which hosts they
    are, the first ones, and which of all of these are silent or lost, each with since when.
    """

    since_ms: int
    hosts: list[str]
    hosts_all: int
    """The number of hosts."""
    silent: list[tuple[str, int]]
    prepares: str = ""
    """The words of a host about what one of them waits for there, such as its image."""


class Unheard(NamedTuple):
    """Tasks of a job that run on silent hosts, as far as is known: how many, on which, and what comes next."""

    tasks: int
    hosts: Moving
    next: str


def unheard(connection: Connection, job: JobRow, settings: Settings, now_ms: int) -> Unheard | None:
    """The tasks of a job that run on silent hosts; None: there are none."""
    silent = list(connection.execute(_SILENT).scalars()) if job.running else []
    if not silent:
        return None
    columns = columns_of(connection, job, np.arange(job.instances))
    mine = (columns[0] == TaskState.RUNNING) & np.isin(columns[TASK_PLACES["host"]], silent)
    if not mine.any():
        return None
    numbers = np.unique(columns[TASK_PLACES["host"]][mine]).tolist()
    here = _moving(connection, 0, numbers)
    since_ms = min(since for _, since in here.silent)
    lost_ms, grace_ms = since_ms + settings.host_lost_after_ms, since_ms + settings.host_lost_grace_ms
    what = f"unless heard before, a host is lost at {at(lost_ms)}"
    if lost_ms <= now_ms:
        what = f"of silent hosts only some a minute are lost, this one by {at(max(lost_ms, grace_ms))}"
    return Unheard(int(mine.sum()), here._replace(since_ms=since_ms), f"{what}, and its tasks run again")


def moving(connection: Connection, job: JobRow) -> dict[int, Moving]:
    """By state, the tasks of a job that start or stop."""
    if not job.ordered and not job.stopping_tasks:
        return {}
    columns, found = columns_of(connection, job, np.arange(job.instances)), {}
    for state in (TaskState.ORDERED, TaskState.STOPPING):
        mine = columns[0] == state
        if mine.any():
            numbers = np.unique(columns[TASK_PLACES["host"]][mine]).tolist()
            here = _moving(connection, int(columns[TASK_PLACES["state_s"]][mine].min()), numbers)
            instances = np.flatnonzero(mine)[:RUNS_ASKED]
            runs = columns[TASK_PLACES["run"]][instances]
            found[int(state)] = here._replace(prepares=_prepares(connection, job, instances.tolist(), runs.tolist()))
    return found


def _prepares(connection: Connection, job: JobRow, instances: list[int], runs: list[int]) -> str:
    """The newest words of a host about what one of these runs waits for on it; empty: none has said any."""
    reports = tables.run_reports.c
    mine = tuple_(reports.instance, reports.run).in_(list(zip(instances, runs, strict=True)))
    query = select(reports.reason).where(reports.job_id == job.job_id, reports.state == RunReport.PREPARING, mine)
    return connection.execute(query.order_by(reports.offset.desc()).limit(1)).scalar() or ""


def _moving(connection: Connection, since_s: int, numbers: list[int]) -> Moving:
    hosts = tables.hosts.c
    query = select(hosts.host_id, hosts.silent_ms, hosts.lost_ms).where(hosts.number.in_(numbers[:1000]))
    rows = connection.execute(query.order_by(hosts.host_id)).all()
    silent = [(host_id, silent_ms or lost_ms) for host_id, silent_ms, lost_ms in rows if silent_ms or lost_ms]
    return Moving(since_s * 1000, [row.host_id for row in rows[:HOSTS_SHOWN]], len(numbers), silent)


def of_moving(job: JobRow, moving_by_state: dict[int, Moving] | None) -> Iterator[Reason]:
    """That tasks start, and that tasks stop. `known`: the tasks of a job that is explained alone."""
    waits = "its health check hasn't passed" if job.health else "its host hasn't said that it runs"
    for state, code, count in (
        (TaskState.ORDERED, Code.STARTING, job.ordered),
        (TaskState.STOPPING, Code.STOPPING, job.stopping_tasks),
    ):
        if not count:
            continue
        here = (moving_by_state or {}).get(state)
        prepares = here.prepares if here is not None else ""
        words = {
            **counted(count),
            "on": _on(here),
            "waits": f"{prepares}, so it doesn't run" if prepares else waits,
            "has": "has" if count == 1 else "have",
        }
        reason = of_code(code, "lifecycle", words, here.since_ms if here is not None else 0)
        if here is not None and here.silent:
            host_id, since_ms = here.silent[0]
            more = f" and {len(here.silent) - 1} hosts more" * (len(here.silent) > 1)
            reason = reason._replace(text=f"{reason.text}; host {host_id}{more} hasn't been heard since {at(since_ms)}")
        yield reason._replace(tasks=count, numbers={"tasks": count})


def of_unheard(unheard: Unheard | None) -> Iterator[Reason]:
    """That tasks run on hosts that aren't heard, since when, and what comes next."""
    if unheard is None:
        return
    here = unheard.hosts
    first, _ = min(here.silent, key=lambda each: each[1])
    words = {
        **counted(unheard.tasks),
        "on": _on(here),
        "since": at(here.since_ms),
        "next": unheard.next,
        "host": first,
    }
    reason = of_code(Code.HOST_SILENT, "placement", words, here.since_ms)
    yield reason._replace(tasks=unheard.tasks, numbers={"tasks": unheard.tasks})


def _on(moving: Moving | None) -> str:
    if moving is None or not moving.hosts:
        return "hosts"
    hosts = listed(moving.hosts, len(moving.hosts), moving.hosts_all)
    return f"{'host' if moving.hosts_all == 1 else 'hosts'} {hosts}"
