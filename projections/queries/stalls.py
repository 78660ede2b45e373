"""Stalls: work that fits and is free to go, on which nobody has decided for a minute and 100 rounds (decision 127).

A false alarm is worse here than a missing one. So only plain work counts: the first of a queue, one task of it beside
all else, within the entitlement and the limits of its pools, on a host that anybody may have.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from prometheus_client.core import GaugeMetricFamily
from sqlalchemy import Connection, func, select

from events.abilities import needed
from events.codec import decode
from events.host_pools import SHARED
from events.pool_paths import path_to
from events.records.jobs import JobSubmitted
from events.resources import Amounts
from projections.host_states import HostState
from projections.queries.entities import host_state
from projections.queries.metric_families import Family, Samples
from projections.queries.pages import rows_of
from projections.queries.pool_tree import pool_rows, spec_of
from projections.queries.resources import kinds_of
from projections.record_json import at
from projections.views import tables
from projections.views.rows import HostRow, JobRow, PoolRow, amounts_in
from projections.views.sharing_rows import WaitReasonRow

STALLED_MS = 60_000
ROUNDS = 100
JOBS_MAX = 1000
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

    @property
    def sentence(self) -> str:
        """Says what stands still and what to do."""
        return (
            f"job {self.job_id} of pool {self.pool} fits on host {self.host_id} and is free to go, and {self.machine} "
            f"has decided nothing about it since {at(self.since_ms)}, in {self.rounds} rounds. This is a bug: report "
            f"it with what `paceline job explain {self.job_id}` says and an export of the log"
        )


def stalls(connection: Connection) -> list[Stall]:
    """The stalled jobs, by pool. Time is that of the newest round, so that views that are behind tell of nothing."""
    if connection.execute(select(tables.orders.c.number).where(tables.orders.c.answer == "").limit(1)).first():
        return []
    rows = tables.rounds.c
    newest = select(rows.machine, func.max(rows.at_ms)).group_by(rows.machine)
    ends: dict[str, int] = dict(map(tuple, connection.execute(newest)))
    now_ms = min((ends.get(machine, 0) for machine in (ENTITLEMENT, PLACEMENT)), default=0)
    pools = {row.path: row for row in pool_rows(connection)}
    out = []
    for job in _heads(connection):
        machine = _responsible(connection, job, now_ms)
        if not machine or now_ms - job.waits_ms < STALLED_MS or not _is_plain(connection, job):
            continue
        told_ms = connection.execute(
            select(func.max(tables.history.c.last_ms)).where(tables.history.c.job_id == job.job_id)
        ).scalar()
        since_ms = max(told_ms or now_ms, job.waits_ms)
        if now_ms - since_ms < STALLED_MS:
            continue
        need = amounts_in(job.need)
        if machine == ENTITLEMENT and not _is_entitled(job, need, pools):
            continue
        host_id = _host_for(connection, need)
        if not host_id:
            continue
        later = select(func.count()).where(rows.machine == machine, rows.at_ms > since_ms)
        count = connection.execute(later).scalar() or 0
        if count >= ROUNDS:
            out.append(Stall(job.job_id, job.pool, machine, since_ms, now_ms, count, host_id))
    return out


def look(standing: Iterable[Stall], cell: str, samples: Samples) -> None:
    """Adds the samples of a cell."""
    for stall in standing:
        samples[STALLED.name].append(((cell, stall.job_id), (stall.now_ms - stall.since_ms) / 1000))


def _heads(connection: Connection) -> list[JobRow]:
    """The waiting job of each pool that is first in order; none where too many wait."""
    jobs = tables.jobs.c
    waiting = select(tables.jobs).where(jobs.waits_ms > 0, jobs.queued > 0).order_by(jobs.number).limit(JOBS_MAX + 1)
    rows: list[JobRow] = rows_of(connection, JobRow, waiting)
    heads: dict[str, JobRow] = {}
    for row in rows if len(rows) <= JOBS_MAX else ():
        if row.pool not in heads or row.priority > heads[row.pool].priority:
            heads[row.pool] = row
    return [heads[pool] for pool in sorted(heads)]


def _responsible(connection: Connection, job: JobRow, now_ms: int) -> str:
    """The machine that is to decide about a job next; empty: others are before it, or it is to wait for a time."""
    waiting, holds = tables.waiting.c, tables.holds.c
    admitted = select(waiting.job_id).where(waiting.standing < 0, waiting.tasks > 0).distinct().limit(2)
    claims = [job_id for (job_id,) in connection.execute(admitted)]
    if claims:  # what is free may be theirs
        return PLACEMENT if claims == [job.job_id] else ""
    if connection.execute(select(tables.turns.c.pool).limit(1)).first():
        return ""
    of_job = select(tables.holds).where(
        holds.number.in_(select(waiting.standing).where(waiting.job_id == job.job_id, waiting.standing > 0))
    )
    rows: list[WaitReasonRow] = rows_of(connection, WaitReasonRow, of_job)
    later = any((msgspec.json.decode(row.numbers).get("not_before_ms") or 0) > now_ms for row in rows)
    return "" if later else ENTITLEMENT


def _is_plain(connection: Connection, job: JobRow) -> bool:
    """Whether nothing about a job but its amounts says where and when it may run."""
    if job.kind == "daemon" or job.held_ms or job.stopping or job.controller or job.gang_min > 1 or job.overridden:
        return False
    if job.version != 1 or job.update or job.ports or job.max_running or job.backoff or job.ended_ms:
        return False
    submissions = tables.submissions.c
    value = connection.execute(select(submissions.value).where(submissions.offset == job.offset)).scalar()
    spec = decode(value) if value else None
    if not isinstance(spec, JobSubmitted) or spec.constraints or spec.rules is not None or needed(spec):
        return False
    licences = kinds_of(connection).licences
    return spec.preemptible and not spec.revocable and not any(name in licences for name in spec.resources)


def _is_entitled(job: JobRow, need: Amounts, pools: dict[str, PoolRow]) -> bool:
    """Whether one more task of a job is within what each of its pools may use and holds."""
    for path in path_to(job.pool):
        row = pools.get(path)
        if row is None or spec_of(row).closed:
            return False
        allocated, entitled, limit = amounts_in(row.allocation), amounts_in(row.entitlement), spec_of(row).limit
        for name, amount in need.items():
            after = allocated.get(name, 0) + amount
            if after > entitled.get(name, 0) or after > limit.get(name, after):
                return False
    return True


def _host_for(connection: Connection, need: Amounts) -> str:
    """A host that is well, that nobody has reserved, and that has room; empty: there is none."""
    if connection.execute(select(tables.reservations.c.job_id).limit(1)).first():
        return ""
    staged = {host_id for (host_id,) in connection.execute(select(tables.host_stages.c.host_id))}
    for host in rows_of(connection, HostRow, select(tables.hosts).order_by(tables.hosts.c.place)):
        plain = host.host_pool == SHARED and host.taints == host.tainted == host.conditions == host.disabled == "{}"
        if not plain or host.host_id in staged or host_state(host) != HostState.UP or host.offer_fault:
            continue
        capacity, used = amounts_in(host.capacity), amounts_in(host.allocated)
        if all(used.get(name, 0) + amount <= capacity.get(name, 0) for name, amount in need.items()):
            return str(host.host_id)
    return ""
