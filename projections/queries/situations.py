"""The facts of the views from which the reasons of jobs are made, read for many jobs at once.

`Detail` is what only the explanation of one job tells: it costs a look at the queue, the hosts and the tasks.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from sqlalchemy import Connection, func, select, tuple_

from events.cell_settings import Settings, preemption_delay_ms
from events.codec import decode
from events.codes import ENDED_JOBS, LIVE_TASKS, Code, JobState, Outcome, TaskState, UpdateState
from events.columns import ints
from events.reasons import FULL
from events.records.pools import PoolDefined
from events.resources import REVOCABLE, Amounts
from events.topics import MACHINES
from events.work_classes import class_of
from paceline.client.sla_models import SlaWait
from projections.queries.departures import evicted_by
from projections.queries.disruption_waits import waits_of_job
from projections.queries.end_reasons import Stopped, stops_of
from projections.queries.last_failure import Failure, failures_of
from projections.queries.moving_reasons import Moving, Unheard, moving, unheard
from projections.queries.pool_tree import CLASS, beside, to_share
from projections.queries.resources import settings_of
from projections.queries.stop_counts import counted_stops
from projections.queries.taints import taints_of
from projections.queries.tasks import columns_of, waiting_columns, waiting_ranges
from projections.queries.unmet import unmet
from projections.queries.versions import has_way_back, newest_updates
from projections.queries.wanted_neighbours import JOBS_MAX, sentences
from projections.views import tables
from projections.views.rows import ExplanationRow, JobRow, amounts_in
from projections.views.sharing_rows import CreditRow, OrderRow, ReservationRow, TurnRow, WaitingRow, WaitReasonRow
from projections.views.update_rows import UpdateRow

HOLDERS_SHOWN = 3


class Wait(NamedTuple):
    """Tasks of a job that wait with one standing (`views/waiting.py`), and what entitlement holds them for."""

    tasks: int
    standing: int
    hold: WaitReasonRow | None


class Leaving(NamedTuple):
    """Runs of a job that orders name, for one winner by one right: how many are there, how many left, and how many of
    the tasks of those wait since, or have failed. `pool`: theirs; number, round and time are those of the last order.
    """

    code: str
    for_job: str
    for_pool: str
    pool: str
    order: int
    round: int
    at_ms: int
    live: int = 0
    left: int = 0
    waiting: int = 0
    failed: int = 0


class Situation(NamedTuple):
    """The facts about one job."""

    waits: list[Wait]
    reasons: dict[str, ExplanationRow]
    """By kind (`views/reasons.py`)."""
    orders: list[OrderRow]
    """That runs leave for it: those that aren't answered, and the last one."""
    leaving: list[Leaving]
    reservations: list[ReservationRow]
    update: UpdateRow | None = None
    """The newest."""
    way_back: bool = False
    """Whether that failed, and a roll-back has a version to go to."""
    failure: Failure | None = None
    """The last failure of its tasks."""
    stops: Sequence[Stopped] = ()
    """The stops by which its tasks are over, the last first."""
    shares: Mapping[str, dict[str, Amounts]] = {}
    """By pool that says no, what it may use and holds as entitlement said last."""
    unmet: str = ""
    """Conditions of its tasks that no host meets, where they wait behind others."""
    taint: str = ""
    """A host with a taint that keeps its tasks away, and what takes that off, in a sentence."""
    beside: str = ""
    """The labels beside which its tasks want to be and can't, in a sentence."""


class Ahead(NamedTuple):
    """The work before a job in the queue of its pool and class: jobs, tasks, and the first of them with its code."""

    jobs: int
    tasks: int
    first: str
    code: str


class Detail(NamedTuple):
    """The details of one job beside its situation."""

    settings: Settings
    since: Mapping[int, int]
    """By standing, the second since when tasks wait so."""
    ahead: Mapping[int, Ahead]
    """By the number of the hold."""
    holders: Mapping[str, list[tuple[str, Amounts]]]
    """By pool, the jobs that hold most of it, and what they hold."""
    credit: CreditRow | None
    turn: TurnRow | None
    """Those of its pool."""
    spec: PoolDefined | None
    """The definition of its pool."""
    now_ms: int
    """The time of the newest round."""
    moving: dict[int, Moving]
    """By state, tasks that start or stop."""
    admitted: int
    """The number of tasks of the job that are admitted and have no hosts."""
    shared: Amounts
    """The amounts that pools share."""
    reserved: Mapping[str, Mapping[str, Amounts]]
    """By pool that says no, what other pools want of their reservations, those that bound what a turn can give."""
    unheard: Unheard | None = None
    """Tasks that run on silent hosts."""
    disruptions: Sequence[SlaWait] = ()
    """Runs that sla doesn't let go."""
    instances: Mapping[int, str] = {}
    """By the number of the hold, where there are several, the first instances that it is about."""
    taints: Mapping[str, str] = {}
    """By the code of sla, the taint by which its runs are to leave, where it is a taint."""

    @property
    def delay_ms(self) -> int:
        """The time for which it is entitled without a place before others leave for it; -1: they don't."""
        return preemption_delay_ms(self.settings, self.spec.preemption_delay_ms if self.spec else None)


def of_jobs(connection: Connection, rows: Sequence[JobRow]) -> dict[str, Situation]:
    """The situations of jobs that aren't over, have failed, or of which a user stopped tasks, by id."""
    going = {
        row.job_id: row
        for row in rows
        if row.base >= 0 and (row.state not in ENDED_JOBS or row.stopped or row.state == JobState.FAILED)
    }
    by_job = {job_id: Situation([], {}, [], [], []) for job_id in going}
    if not by_job:
        return by_job
    ids = list(by_job)
    waiting, holds, explanations = tables.waiting, tables.holds, tables.explanations
    joined = waiting.outerjoin(holds, waiting.c.standing == holds.c.number)
    query = select(waiting, holds).select_from(joined).where(waiting.c.job_id.in_(ids))
    width = len(waiting.c)
    for values in connection.execute(query.order_by(waiting.c.job_id, waiting.c.standing)):
        row, hold = WaitingRow(*values[:width]), WaitReasonRow(*values[width:]) if values[width] is not None else None
        by_job[row.job_id].waits.append(Wait(row.tasks, row.standing, hold))
    for values in connection.execute(select(explanations).where(explanations.c.job_id.in_(ids))):
        reason = ExplanationRow(*values)
        by_job[reason.job_id].reasons[reason.kind] = reason
    for order in _orders_for(connection, ids):
        by_job[order.for_job].orders.append(order)
    for values in connection.execute(select(tables.reservations).where(tables.reservations.c.job_id.in_(ids))):
        reservation = ReservationRow(*values)
        by_job[reservation.job_id].reservations.append(reservation)
    for job_id, leaving in _leaving(connection, going):
        by_job[job_id].leaving.append(leaving)
    updates = newest_updates(connection, list(going.values()))
    failed = [job_id for job_id, update in updates.items() if update.state == UpdateState.FAILED]
    back = {job_id for job_id in failed if has_way_back(connection, going[job_id])}
    failures = failures_of(connection, list(going.values()))
    stops = stops_of(connection, [row for row in going.values() if row.stopped])
    shares = _shares(connection, {wait.hold.at for each in by_job.values() for wait in each.waits if wait.hold})
    codes = {job_id: [wait.hold for wait in each.waits if wait.hold] for job_id, each in by_job.items()}
    conditions = unmet(connection, list(going.values()), codes)
    alone = [job_id for job_id, each in by_job.items() if _is_alone(each)]
    waits_beside = sentences(connection, [going[job_id].offset for job_id in alone[:JOBS_MAX]]) if alone else {}
    tainted = [job_id for job_id, each in by_job.items() if _is_kept_away(each)]
    taints = taints_of(connection, [going[job_id].offset for job_id in tainted[:JOBS_MAX]]) if tainted else {}
    return {
        job_id: each._replace(
            taint=taints.get(job_id, ""),
            unmet=conditions.get(job_id, ""),
            beside=waits_beside.get(job_id, ""),
            update=updates.get(job_id),
            way_back=job_id in back,
            failure=failures.get(job_id),
            stops=counted_stops(connection, going[job_id], stops.get(job_id, ())),
            shares=shares,
        )
        for job_id, each in by_job.items()
    }


def _is_alone(situation: Situation) -> bool:
    """Whether tasks wait for others beside which they want to be."""
    return any(reason.code == Code.AFFINITY_UNMET for reason in situation.reasons.values())


def _is_kept_away(situation: Situation) -> bool:
    """Whether taints of hosts keep tasks away."""
    return any(reason.code == Code.HOSTS_TAINTED for reason in situation.reasons.values())


def _orders_for(connection: Connection, ids: Sequence[str]) -> list[OrderRow]:
    orders = tables.orders
    last = select(func.max(orders.c.number)).where(orders.c.for_job.in_(ids)).group_by(orders.c.for_job)
    query = select(orders).where(orders.c.for_job.in_(ids), (orders.c.answer == "") | orders.c.number.in_(last))
    return [OrderRow(*values) for values in connection.execute(query.order_by(orders.c.number))]


def left_for(connection: Connection, job_id: str) -> dict[str, int]:
    """By job, how many of its runs have left for a job; of each order the first jobs that it names."""
    orders, left = tables.orders.c, Counter[str]()
    query = select(orders.from_jobs).where(orders.for_job == job_id, orders.answer == Code.LEFT)
    for (named,) in connection.execute(query.order_by(orders.number)):
        left.update(msgspec.json.decode(named, type=dict[str, int]))
    return dict(left)


def _leaving(connection: Connection, jobs: Mapping[str, JobRow]) -> list[tuple[str, Leaving]]:
    """The orders about each job, for whom its runs leave and left: those that are still there, and those whose tasks
    wait, or have failed, since. Orders by the same right for the same winner are one.
    """
    victims, orders = tables.victims.c, tables.orders.c
    lack = [job_id for job_id, job in jobs.items() if job.queued + job.backoff or _fails(job)]
    query = (
        select(victims.job_id, victims.pool, victims.runs, orders.number, orders.round, orders.at_ms, orders.answer)
        .add_columns(orders.code, orders.for_job, orders.for_pool)
        .select_from(tables.victims.join(tables.orders, victims.number == orders.number))
        .where(victims.job_id.in_(list(jobs)))
        .where((orders.answer == "") | (orders.answer == Code.LEFT) & victims.job_id.in_(lack))
        .order_by(victims.job_id, victims.number)
    )
    found: dict[tuple[str, str, str, str], list[Any]] = {}
    for row in connection.execute(query):
        found.setdefault((row.job_id, row.code, row.for_job, row.for_pool), []).append(row)
    out = []
    for (job_id, code, for_job, for_pool), rows in found.items():
        live, left, waiting, failed = np.sum([_now(connection, jobs[job_id], row) for row in rows], axis=0).tolist()
        if live or waiting or failed:
            last = rows[-1]
            whom = Leaving(code, for_job, for_pool, last.pool, last.number, last.round, last.at_ms)
            out.append((job_id, whom._replace(live=live, left=left, waiting=waiting, failed=failed)))
    return out


def _fails(job: JobRow) -> bool:
    """Whether tasks of a job may have failed since they were preempted."""
    return job.on_preempt == "fail" and job.failed > 0


def _now(connection: Connection, job: JobRow, victims: Any) -> tuple[int, int, int, int]:
    """Counts the runs of a job that an order names: how many are there, how many left, and how many of the tasks of
    those wait since, or have failed.
    """
    instance, run = ints(victims.runs).reshape(4, -1)[:2]
    inside = instance < job.instances
    state, now, _, _, outcome, *_ = columns_of(connection, job, instance[inside])
    ahead = now - run[inside]
    live = np.isin(state, LIVE_TASKS) & (ahead == 0)
    over = (ahead == 0) & np.isin(state, (TaskState.BACKOFF, TaskState.FAILED))
    over |= (ahead == 1) & (state == TaskState.QUEUED)
    over &= outcome == Outcome.PREEMPTED
    failed = over & (state == TaskState.FAILED)
    return int(live.sum()), len(run) - int(live.sum()), int((over & ~failed).sum()), int(failed.sum())


def detail(connection: Connection, job: JobRow, situation: Situation) -> Detail:
    """The details of one job beside its situation."""
    settings = settings_of(connection)
    standing, since = waiting_columns(connection, job)
    holds = [wait.hold for wait in situation.waits if wait.hold is not None]
    full = dict.fromkeys(hold.at for hold in holds if hold.code in FULL)
    credit = connection.execute(select(tables.credits).where(tables.credits.c.pool == job.pool)).first()
    turn = connection.execute(select(tables.turns).where(tables.turns.c.pool == job.pool)).first()
    spec = connection.execute(select(tables.pools.c.spec).where(tables.pools.c.path == job.pool)).scalar()
    defined = decode(spec) if spec else None
    now_ms = newest_ms(connection)
    return Detail(
        settings,
        {number: int(since[standing == number].min()) for number in np.unique(standing).tolist()},
        {hold.number: ahead(connection, job, hold) for hold in holds},
        {pool: _holders(connection, pool) for pool in full},
        CreditRow(*credit) if credit else None,
        TurnRow(*turn) if turn else None,
        defined if isinstance(defined, PoolDefined) else None,
        now_ms,
        moving(connection, job),
        sum(wait.tasks for wait in situation.waits if wait.standing < 0),
        to_share(connection),
        {pool: beside(connection, pool) for pool in full},
        unheard(connection, job, settings, now_ms),
        waits_of_job(connection, job.job_id, job.tasks),
        {hold.number: _instances(connection, job, hold.number) for hold in holds} if len(holds) > 1 else {},
        evicted_by(connection, job),
    )


def _instances(connection: Connection, job: JobRow, standing: int) -> str:
    """The first instances that wait with a standing: `0, 2-3`."""
    ranges = waiting_ranges(connection, job, standing, HOLDERS_SHOWN)
    return ", ".join(f"{first}-{first + tasks - 1}" if tasks > 1 else f"{first}" for first, tasks, _ in ranges)


def newest_ms(connection: Connection) -> int:
    """The logical time of the newest round of any machine; 0: there is none."""
    rounds = tables.rounds.c
    last = (
        connection.execute(
            select(rounds.now).where(rounds.machine == machine).order_by(rounds.number.desc()).limit(1)
        ).scalar()
        for machine in MACHINES
    )
    return max(each or 0 for each in last)


def _shares(connection: Connection, names: Collection[str]) -> dict[str, dict[str, Amounts]]:
    """By pool, what it may use and holds."""
    pools = tables.pools.c
    rows = connection.execute(select(pools.path, pools.entitlement, pools.allocation).where(pools.path.in_(names)))
    return {path: {"entitlement": amounts_in(may), "allocated": amounts_in(has)} for path, may, has in rows}


def ahead(connection: Connection, job: JobRow, hold: WaitReasonRow) -> Ahead:
    """The work before a job in the queue of its pool and class, without what stands aside."""
    jobs, waiting, holds = tables.jobs.c, tables.waiting.c, tables.holds.c
    joined = tables.waiting.join(tables.holds, waiting.standing == holds.number)
    revocable = REVOCABLE in amounts_in(job.need)
    kind = class_of(hold.firm > 0, hold.controllers > 0, job.kind == "daemon", revocable)
    before = (
        select(waiting.job_id, waiting.tasks, holds.code, jobs.priority, jobs.accepted, jobs.offset)
        .select_from(joined.join(tables.jobs, waiting.job_id == jobs.job_id))
        .where(holds.pool == hold.pool, kind == CLASS)
        .where(holds.aside == 0)
        .where(tuple_(-jobs.priority, jobs.accepted, jobs.offset) < tuple_(-job.priority, job.accepted, job.offset))
        .subquery()
        .c
    )
    counts = select(func.count(before.job_id.distinct()), func.coalesce(func.sum(before.tasks), 0))
    count, tasks = connection.execute(counts).one()
    order = (before.priority.desc(), before.accepted, before.offset)
    head = connection.execute(select(before.job_id, before.code).order_by(*order).limit(1)).first()
    return Ahead(count, tasks, *(head or ("", "")))


def _holders(connection: Connection, pool: str) -> list[tuple[str, Amounts]]:
    """The jobs that hold most in a pool and below it, those with most tasks first, on hosts or admitted without."""
    jobs, waiting = tables.jobs.c, tables.waiting.c
    admitted = select(waiting.job_id, func.sum(waiting.tasks).label("tasks")).where(waiting.standing < 0)
    without = admitted.group_by(waiting.job_id).subquery()
    held = jobs.ordered + jobs.running + jobs.stopping_tasks + func.coalesce(without.c.tasks, 0)
    query = select(jobs.job_id, jobs.need, held).where(held > 0, jobs.state.not_in(ENDED_JOBS))
    query = query.select_from(tables.jobs.outerjoin(without, jobs.job_id == without.c.job_id))
    if pool != "/":
        query = query.where((jobs.pool == pool) | jobs.pool.startswith(f"{pool}/", autoescape=True))
    found = connection.execute(query.order_by(held.desc(), jobs.job_id).limit(HOLDERS_SHOWN))
    return [(job_id, {name: each * tasks for name, each in amounts_in(need).items()}) for job_id, need, tasks in found]


def victims_of(order: OrderRow) -> dict[str, int]:
    """The first jobs with runs that leave by an order, and how many."""
    return msgspec.json.decode(order.from_jobs, type=dict[str, int])
