"""Metrics of pools for Prometheus, read from the views when they are asked for.

Amounts are CPUs, devices or bytes. What counts up does so since the pool was defined, by the log and not since the
start of a process. How long something waits grows with the clock of this machine, so that it is right while nothing is
decided.
"""

from collections.abc import Mapping

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from sqlalchemy import Connection, func, select

from events.codes import ENDED_JOBS, JobState, TaskState
from events.pool_paths import path_to
from events.resources import Unit
from projections.queries.metric_families import Family, Samples
from projections.queries.pool_tree import pool_rows, pools_in_full, spec_of
from projections.queries.resources import kinds_of
from projections.views import tables
from projections.views.blocks import BLOCK, unpack
from projections.views.cache import TASK_COLUMNS
from projections.views.rows import amounts_in
from projections.views.waiting import Standing

MIB = 1 << 20
STAGES = ("admission", "place", "start")
"""The stages of a wait: to be let in by its pool, to get a host, to run there."""
GOING = tuple(state for state in JobState if state not in ENDED_JOBS)
NEVER = 1 << 40
_AT = {name: at for at, name in enumerate(TASK_COLUMNS)}

_G, _C = GaugeMetricFamily, CounterMetricFamily

FAMILIES = (
    Family(_G, "paceline_pool_reservation", "What a pool gets whenever it demands it.", ("pool", "resource")),
    Family(_G, "paceline_pool_entitlement", "What a pool may use now.", ("pool", "resource")),
    Family(_G, "paceline_pool_allocation", "What is admitted, with hosts or without.", ("pool", "resource")),
    Family(_G, "paceline_pool_placed", "The part of that which has hosts.", ("pool", "resource")),
    Family(_G, "paceline_pool_demand", "What waits and what runs in a pool.", ("pool", "resource")),
    Family(_G, "paceline_pool_queue_tasks", "Tasks that wait for admission.", ("pool", "class")),
    Family(_C, "paceline_pool_admitted_tasks", "Tasks admitted.", ("pool",)),
    Family(_C, "paceline_pool_preempted_runs", "Runs ordered to leave.", ("pool",)),
    Family(_C, "paceline_pool_over_entitlement_seconds", "How long it had more on hosts than it may use.", ("pool",)),
    Family(
        _G,
        "paceline_pool_under_entitlement_seconds",
        "How long admitted work has waited for hosts while the pool has less there than it may use.",
        ("pool",),
    ),
    Family(_G, "paceline_pool_oldest_wait_seconds", "The longest wait for one of STAGES.", ("pool", "stage")),
    Family(_G, "paceline_preemption_oldest_seconds", "The longest time that an order to preempt is unanswered."),
)


def look(connection: Connection, cell: str, now_ms: int, samples: Samples) -> None:
    """Adds the samples of a cell."""
    _amounts(connection, cell, samples)
    oldest = _oldest(connection)
    hostless_s: dict[str, int] = {}
    for (pool, stage), since_s in oldest.items():
        for level in path_to(pool) if stage == "place" else ():
            hostless_s[level] = min(since_s, hostless_s.get(level, since_s))
    _counts(connection, cell, now_ms, hostless_s, samples)
    for (pool, stage), since_s in oldest.items():
        wait = max(0.0, now_ms / 1000 - since_s)
        samples["paceline_pool_oldest_wait_seconds"].append(((cell, pool, stage), wait))
    orders = tables.orders.c
    first = connection.execute(select(func.min(orders.at_ms)).where(orders.answer == "")).scalar()
    age = max(0, now_ms - first) / 1000 if first else 0.0
    samples["paceline_preemption_oldest_seconds"].append(((cell,), age))


def _amounts(connection: Connection, cell: str, samples: Samples) -> None:
    units = kinds_of(connection).units
    for row in pool_rows(connection):
        spec = spec_of(row)
        if str(spec.cell) != cell:
            continue
        shown = {"reservation": spec.reservation, "entitlement": amounts_in(row.entitlement)}
        shown |= {name: amounts_in(getattr(row, name)) for name in ("allocation", "placed", "demand")}
        for what, amounts in shown.items():
            for name, amount in amounts.items():
                value = amount * MIB if units.get(name) is Unit.MIB else amount / 1000
                samples[f"paceline_pool_{what}"].append(((cell, row.path, name), value))


def _counts(connection: Connection, cell: str, now_ms: int, hostless_s: Mapping[str, int], samples: Samples) -> None:
    """`hostless_s`: since when a task of a pool, or of one below it, has waited for a host, which those that wait
    before they are tried again don't.
    """
    queues = {each["path"]: each["queue"] for each in pools_in_full(connection)}
    for row in pool_rows(connection):
        if str(spec_of(row).cell) != cell:
            continue
        for name, line in queues[row.path].items():
            samples["paceline_pool_queue_tasks"].append(((cell, row.path, name), line["tasks"]))
        over_ms = row.over_ms + (max(0, now_ms - row.over_since_ms) if row.over_since_ms else 0)
        since_ms = max(row.under_since_ms, hostless_s.get(row.path, NEVER) * 1000) if row.under_since_ms else now_ms
        samples["paceline_pool_admitted_tasks"].append(((cell, row.path), row.admitted))
        samples["paceline_pool_preempted_runs"].append(((cell, row.path), row.preempted))
        samples["paceline_pool_over_entitlement_seconds"].append(((cell, row.path), over_ms / 1000))
        samples["paceline_pool_under_entitlement_seconds"].append(((cell, row.path), max(0, now_ms - since_ms) / 1000))


def _oldest(connection: Connection) -> dict[tuple[str, str], int]:
    """By pool and stage, the second since when the one waits that waits longest. Borrowed work waits for no place of
    its own.
    """
    jobs, blocks = tables.jobs.c, tables.task_blocks.c
    going = select(jobs.base, jobs.pool, jobs.waits_ms).where(jobs.state.in_(GOING), jobs.queued + jobs.ordered > 0)
    rows = [(base, pool, waits_ms) for base, pool, waits_ms in connection.execute(going.order_by(jobs.base))]
    bases = np.array([base for base, *_ in rows], dtype=np.int64)
    first = np.full(len(rows) * len(STAGES), NEVER, dtype=np.int64)
    for number, data in connection.execute(select(blocks.block, blocks.data).where(blocks.waiting > 0)):
        columns = unpack(data, len(TASK_COLUMNS))
        state, standing, since = (columns[_AT[name]] for name in ("state", "standing", "since_s"))
        stage = np.full(BLOCK, -1, dtype=np.int64)
        stage[(state == TaskState.QUEUED) & (standing >= 0)] = 0
        stage[(state == TaskState.QUEUED) & (standing == Standing.ENTITLED)] = 1
        stage[state == TaskState.ORDERED] = 2
        slots = np.flatnonzero(stage >= 0)
        job = np.searchsorted(bases, number * BLOCK + slots, side="right") - 1
        np.minimum.at(first, job * len(STAGES) + stage[slots], since[slots])
    out: dict[tuple[str, str], int] = {}
    for at in np.flatnonzero(first < NEVER).tolist():
        _, pool, waits_ms = rows[at // len(STAGES)]
        key = pool, STAGES[at % len(STAGES)]
        # a task that isn't admitted has the time of its present reason; the job has waited through all of them
        since_s = waits_ms // 1000 if key[1] == "admission" and waits_ms else int(first[at])
        out[key] = min(out.get(key, NEVER), since_s)
    return out
