"""The runs of a host over a time: those that are there, the last ones of tasks that are over, and those before them."""

from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, select

from events.codes import LIVE_TASKS, Outcome
from projections.queries.host_slots import blocks_of_host
from projections.queries.tasks import TASK_PLACES
from projections.views import tables
from projections.views.blocks import BLOCK, unpack
from projections.views.cache import TASK_COLUMNS
from projections.views.rows import HostRow

RUNS_MAX = 1000
_TIMES = ("ordered_s", "started_s", "ended_s")


class HostRun(NamedTuple):
    """A run; seconds, 0: not yet. `outcome` is empty while it goes on."""

    job_id: str
    instance: int
    run: int
    outcome: str
    ordered_s: int
    started_s: int
    ended_s: int


def host_runs(connection: Connection, host: HostRow, since_s: int, size: int = RUNS_MAX) -> list[HostRun]:
    """The runs that were on a host since then, by the time of their order; the newest so many."""
    if not host.number:
        return []
    found = [*_last_runs(connection, host, since_s), *_past_runs(connection, host, since_s, size)]
    return sorted(found, key=lambda each: (each.ordered_s, each.job_id, each.instance, each.run))[-size:]


def _past_runs(connection: Connection, host: HostRow, since_s: int, size: int) -> list[HostRun]:
    past = tables.past_runs.c
    query = select(past.job_id, past.instance, past.run, past.outcome, *(past[name] for name in _TIMES))
    query = query.where(past.host == host.number, past.ended_s >= since_s).order_by(past.ended_s.desc()).limit(size)
    return [
        HostRun(job_id, instance, run, Outcome(outcome).name, *times)
        for job_id, instance, run, outcome, *times in connection.execute(query)
    ]


def _last_runs(connection: Connection, host: HostRow, since_s: int) -> list[HostRun]:
    """The last runs of tasks, those that are there among them."""
    names = ("state", "run", "outcome", *_TIMES)
    slots: list[tuple[int, ...]] = []
    for number in blocks_of_host(connection, host):
        block = tables.task_blocks
        data = connection.execute(select(block.c.data).where(block.c.block == number)).scalar_one()
        columns = unpack(data, len(TASK_COLUMNS))
        there = (columns[TASK_PLACES["host"]] == host.number) & (columns[TASK_PLACES["state"]] > 0)
        for place in np.flatnonzero(there).tolist():
            slots.append((number * BLOCK + place, *(int(columns[TASK_PLACES[name], place]) for name in names)))
    found = []
    jobs = _jobs_of(connection, [slot for slot, *_ in slots])
    for slot, state, run, outcome, ordered_s, started_s, ended_s in slots:
        live = state in LIVE_TASKS
        if slot in jobs and (live or ended_s >= max(1, since_s)):
            job_id, base = jobs[slot]
            name = "" if live else Outcome(outcome).name
            found.append(HostRun(job_id, slot - base, run, name, ordered_s, started_s, 0 if live else ended_s))
    return found


def _jobs_of(connection: Connection, slots: list[int]) -> dict[int, tuple[str, int]]:
    """By slot the job that has it, and the first slot of that."""
    jobs, found = tables.jobs.c, {}
    for slot in slots:
        query = select(jobs.job_id, jobs.base, jobs.slots).where(jobs.base <= slot, jobs.base >= 0)
        row = connection.execute(query.order_by(jobs.base.desc()).limit(1)).first()
        if row is not None and slot < row.base + row.slots:
            found[slot] = (row.job_id, row.base)
    return found
