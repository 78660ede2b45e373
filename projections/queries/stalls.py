"""Stalls: work that fits and is free to go, on which nobody has decided for a minute and 100 rounds (decision 127).

A false alarm is worse here than a missing one. So only the first of a queue counts, one task or gang of it beside
all else, within the entitlement and the limits of its pools, on hosts that take it for sure (`stall_room.py`).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from prometheus_client.core import GaugeMetricFamily
from sqlalchemy import Connection, func, select

from events.work_classes import precedence_of
from projections.queries.metric_families import Family, Samples
from projections.queries.pages import rows_of
from projections.queries.pool_tree import pool_rows
from projections.queries.stall_room import Asked, asked, host_for, is_entitled
from projections.record_json import at
from projections.views import tables
from projections.views.rows import JobRow, PoolRow, amounts_in
from projections.views.sharing_rows import WaitReasonRow

STALLED_MS = 60_000
ROUNDS = 100
JOBS_MAX = 1000
POOLS_MAX = 100
"""Pools whose first job is looked at, so that a scrape of metrics stays cheap."""
STALLED = Family(
    GaugeMetricFamily, "paceline_stalled_seconds", "How long free work that fits has had no decision.", ("job",)
)
FAMILIES = (STALLED,)
ENTITLEMENT, PLACEMENT = "entitlement", "placement"


class Stall(NamedTuple):
    """A job on which a machine has decided nothing since `since_ms`, in so many rounds; `host_id` has room for it."""

    job_id: str
    pool: str
    machine: str
    since_ms: int
    now_ms: int
    rounds: int
    host_id: str
    tasks: int = 1
    """The number of them that go together, as a gang."""

    @property
    def sentence(self) -> str:
        """Says what stands still and what to do."""
        gang = f"the gang of {self.tasks} tasks of " if self.tasks > 1 else ""
        more = " and others" if self.tasks > 1 else ""
        return (
            f"{gang}job {self.job_id} of pool {self.pool} fits on host {self.host_id}{more} and is free to go, and "
            f"{self.machine} has decided nothing about it since {at(self.since_ms)}, in {self.rounds} rounds. "
            f"This is a bug: report it with what `paceline job explain {self.job_id}` says and an export of the log"
        )


def stalls(connection: Connection) -> list[Stall]:
    """The stalled jobs, by pool. Time is that of the newest round, so that views that are behind tell of nothing."""
    if connection.execute(select(tables.orders.c.number).where(tables.orders.c.answer == "").limit(1)).first():
        return []
    rows = tables.rounds.c
    newest = select(rows.machine, func.max(rows.at_ms)).group_by(rows.machine)
    ends: dict[str, int] = dict(map(tuple, connection.execute(newest)))
    now_ms = min((ends.get(machine, 0) for machine in (ENTITLEMENT, PLACEMENT)), default=0)
    claims = _claims(connection)
    if len(claims) > 1 or (not claims and connection.execute(select(tables.turns.c.pool).limit(1)).first()):
        return []  # what is free may be theirs
    machine = PLACEMENT if claims else ENTITLEMENT
    pools = {row.path: row for row in pool_rows(connection)}
    out = []
    for job in _heads(connection, now_ms - STALLED_MS):
        if claims and job.job_id not in claims:
            continue
        told_ms = connection.execute(
            select(func.max(tables.history.c.last_ms)).where(tables.history.c.job_id == job.job_id)
        ).scalar()
        since_ms = max(told_ms or now_ms, job.waits_ms)
        if now_ms - since_ms < STALLED_MS or (not claims and not _is_free(connection, job, pools, now_ms)):
            continue
        ask = asked(connection, job, pools)
        if ask is None or (not claims and not is_entitled(job.pool, ask, pools)):
            continue
        host_id = host_for(connection, ask)
        if not host_id:
            continue
        later = select(func.count()).where(rows.machine == machine, rows.at_ms > since_ms)
        count = connection.execute(later).scalar() or 0
        if count >= ROUNDS:
            out.append(Stall(job.job_id, job.pool, machine, since_ms, now_ms, count, host_id, ask.tasks))
    return out


def look(standing: Iterable[Stall], cell: str, samples: Samples) -> None:
    """Adds the samples of a cell."""
    for stall in standing:
        samples[STALLED.name].append(((cell, stall.job_id), (stall.now_ms - stall.since_ms) / 1000))


def _claims(connection: Connection) -> list[str]:
    """The jobs that are admitted and have no hosts yet; at most two."""
    waiting = tables.waiting.c
    admitted = select(waiting.job_id).where(waiting.standing < 0, waiting.tasks > 0).distinct().limit(2)
    return [job_id for (job_id,) in connection.execute(admitted)]


def _heads(connection: Connection, until_ms: int) -> list[JobRow]:
    """The waiting job of each pool that is first in order, where it has waited since then; of the pools those that have
    waited longest. None where too many jobs wait.
    """
    jobs = tables.jobs.c
    waiting = select(tables.jobs).where(jobs.waits_ms > 0, jobs.queued > 0).order_by(jobs.number).limit(JOBS_MAX + 1)
    rows: list[JobRow] = rows_of(connection, JobRow, waiting)
    heads: dict[str, JobRow] = {}
    for row in rows if len(rows) <= JOBS_MAX else ():
        if row.pool not in heads or _precedence(row) > _precedence(heads[row.pool]):
            heads[row.pool] = row
    oldest = sorted((row for row in heads.values() if row.waits_ms <= until_ms), key=lambda row: row.waits_ms)
    return sorted(oldest[:POOLS_MAX], key=lambda row: row.pool)


def _precedence(job: JobRow) -> int:
    return precedence_of(job.priority, job.kind == "daemon")


def _is_free(connection: Connection, job: JobRow, pools: Mapping[str, PoolRow], now_ms: int) -> bool:
    """Whether a job that isn't admitted waits for no time, and one task of it would be within entitlements."""
    one = Asked(amounts_in(job.need), (), 1, (), False, (), False, daemon=job.job_id if job.kind == "daemon" else "")
    if not is_entitled(job.pool, one, pools):
        return False
    waiting, holds = tables.waiting.c, tables.holds.c
    of_job = select(tables.holds).where(
        holds.number.in_(select(waiting.standing).where(waiting.job_id == job.job_id, waiting.standing > 0))
    )
    rows: list[WaitReasonRow] = rows_of(connection, WaitReasonRow, of_job)
    return not any((msgspec.json.decode(row.numbers).get("not_before_ms") or 0) > now_ms for row in rows)
