"""The plan of a job, from the decisions of a branch and the views of it."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from events.cell_settings import preemption_delay_ms
from events.codes import IN_EFFECT, Code, TaskState, UpdateState, Way
from events.columns import ranges_in
from events.instance_ranges import write_ranges
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from events.records.jobs import JobSubmitted
from events.records.lifecycle import PreemptionAnswered, RunsStopping, UpdateEnded, UpdatePaused
from events.records.placement import TasksPlaced
from events.topics import JOBS
from paceline.client.explanation_models import WaitReason
from paceline.client.plan_models import JobPlan, PlannedHost, PlannedVictim
from paceline.plans.branch import Branch, Decision
from processors.lifecycle.machine import Lifecycle
from projections.queries import entities, pool_tree, versions
from projections.queries.resources import settings_of
from projections.record_json import at
from projections.views.job_states import REJECTED
from projections.views.reader import write_positions
from projections.views.rows import AnswerRow
from projections.views.update_rows import UpdateRow

MARGIN_MS = 30_000
"""So long in simulated time a plan looks beyond the preemption delay: orders, stops and the place that follows."""
UPDATE_MS = 30 * 60_000
"""So long in simulated time a plan follows an update."""
UNSETTLED = (TaskState.QUEUED, TaskState.BACKOFF, TaskState.STOPPING, TaskState.ORDERED)


def horizon_ms(connection: Connection, fact: Event) -> int:
    """The simulated time that a plan of a submission or an update looks ahead, in milliseconds."""
    if not isinstance(fact, JobSubmitted):
        return UPDATE_MS
    row = next(iter(pool_tree.pool_rows(connection, fact.pool)), None)
    own = pool_tree.spec_of(row).preemption_delay_ms if row else None
    return max(0, preemption_delay_ms(settings_of(connection), own)) + MARGIN_MS


def is_settled(lifecycle: Lifecycle, job_id: str, decisions: Iterable[Decision]) -> bool:
    """Whether nothing of a job waits: each of its tasks has a host, and its update, if there is one, is over."""
    stretch = lifecycle.stretch(job_id)
    if stretch is None:
        return True
    base, size = stretch
    state = lifecycle.tasks.arena["state"][base : base + size]
    if np.isin(state, UNSETTLED).any():
        return False
    return job_id not in lifecycle.updates.table or _is_over(job_id, decisions)


def _is_over(job_id: str, decisions: Iterable[Decision]) -> bool:
    ends = (UpdateEnded, UpdatePaused)
    return any(isinstance(each.event, ends) and each.event.job_id == job_id for each in decisions)


class Standing(NamedTuple):
    """The number of tasks of a job that have a host, of those that wait, and their reasons."""

    placed: int
    waiting: int
    reasons: list[WaitReason]


def standing(connection: Connection, job_id: str) -> Standing:
    """The standing of a job in the views of a branch."""
    row = entities.job_row(connection, job_id)
    if row is None:
        return Standing(0, 0, [])
    waiting = row.queued + row.backoff
    has_more = waiting > 0 or row.update > 0 or row.state == REJECTED
    reasons = entities.explanation(connection, row)["reasons"] if has_more else []
    return Standing(row.ordered + row.running, waiting, reasons)


def job_plan(connection: Connection, branch: Branch, job_id: str, offset: int, first: Standing) -> JobPlan:
    """The plan of a job whose last fact has that offset in the branch, and how it stood when the machines had decided
    on it. `connection`: to the views of the branch.
    """
    answer, row = entities.answer(connection, JOBS.name, offset), entities.job_row(connection, job_id)
    last = standing(connection, job_id)
    update = next(iter(versions.newest_updates(connection, [row] if row else []).values()), None)
    if update is not None and update.started_ms < branch.begin_ms:
        update = None  # an earlier one
    return {
        "job_id": job_id,
        "pool": row.pool if row else "",
        "cell": branch.log.cell,
        "outcome": _outcome(answer, update, last),
        "code": answer.code if answer else None,
        "message": answer.message if answer else "",
        "tasks": row.tasks if row else 0,
        "placed_at_once": first.placed,
        "placed": last.placed,
        "waiting": last.waiting,
        "hosts": list(_hosts(job_id, branch.decisions)),
        "preempts": list(_victims(job_id, branch.decisions)),
        "reasons": first.reasons,
        "later_reasons": last.reasons,
        "update": versions.update_json(update) if update else None,
        "at": at(branch.begin_ms),
        "position": write_positions(branch.starts),
        "looked_ahead_s": branch.passed_ms / 1000,
        "cut_short": branch.is_cut_short,
    }


def _outcome(answer: AnswerRow | None, update: UpdateRow | None, last: Standing) -> str:
    if answer is not None and answer.code not in IN_EFFECT:
        return "REFUSED"
    if answer is not None and answer.code == Code.REPEATED:
        return "REPEATED"
    if update is not None:
        return (
            "UPDATED"
            if update.state == UpdateState.SUCCEEDED
            else "UPDATE_WAITS"
            if not update.ended_ms
            else "UPDATE_FAILS"
        )
    return "PLACED" if not last.waiting else "PARTLY_PLACED" if last.placed else "WAITS"


def _hosts(job_id: str, decisions: Iterable[Decision]) -> Iterator[PlannedHost]:
    """The hosts on which instances of a job start, each instance where it starts last."""
    last: dict[int, tuple[str, int]] = {}
    for each in decisions:
        event = each.event
        if not isinstance(event, TasksPlaced) or job_id not in event.job_ids:
            continue
        mine = event.job_array == event.job_ids.index(job_id)
        columns = (event.instance_array[mine].tolist(), event.host_array[mine].tolist())
        last.update({instance: (event.host_ids[host], each.after_ms) for instance, host in zip(*columns, strict=True)})
    by_host: dict[str, list[int]] = {}
    for instance in sorted(last):
        by_host.setdefault(last[instance][0], []).append(instance)
    for host_id, instances in by_host.items():
        after_ms = max(last[instance][1] for instance in instances)
        first, count = ranges_in(np.array(instances, dtype=np.int64))
        text = write_ranges(zip(first.tolist(), count.tolist(), strict=True))
        yield {"host_id": host_id, "tasks": len(instances), "instances": text, "after_s": after_ms / 1000}


def _victims(job_id: str, decisions: Iterable[Decision]) -> Iterator[PlannedVictim]:
    """The runs that orders for a job name, each once, in the order in which they were chosen."""
    hosts: dict[tuple[str, int, int], str] = {}
    deferred: set[int] = set()
    orders: list[tuple[PreemptionsOrdered, int]] = []
    for each in decisions:
        event = each.event
        if isinstance(event, PreemptionsOrdered) and event.for_job == job_id:
            orders.append((event, each.after_ms))
        elif isinstance(event, PreemptionAnswered) and event.code == Code.DEFERRED:
            deferred.add(event.number)
        elif isinstance(event, RunsStopping):
            columns = zip(*(column.tolist() for column in (*event.items(), event.host_array)), strict=True)
            hosts |= {(event.job_ids[job], instance, run): event.host_ids[host] for job, instance, run, host in columns}
    seen: set[tuple[str, int, int]] = set()
    for order, after_ms in orders:
        columns = zip(
            *(column.tolist() for column in (*order.items(), order.way_array, order.from_pool_array)), strict=True
        )
        for job, instance, run, way, pool in columns:
            key = order.job_ids[job], instance, run
            if key in seen:
                continue
            seen.add(key)
            yield {
                "job_id": key[0],
                "pool": order.from_pools[pool],
                "instance": instance,
                "run": run,
                "host_id": hosts.get(key),
                "way": Way(way).name,
                "after_s": after_ms / 1000,
                "deferred": order.order in deferred,
            }
