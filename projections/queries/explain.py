"""Why a job stands where it stands: the reasons that the machines gave, in sentences, and the one that counts most.

A job has one headline, the reason that comes first, and the list of all. Each part of its tasks has the reason of the
machine that it waits for: entitlement before it is admitted, placement after that. What a code means, who can act on it
and which comes first is in `events/reasons.py`.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import cast

import msgspec

from events.codes import Code, JobState
from events.reasons import YOU, Precedence, kind_of, order_of
from events.resources import Kinds
from paceline.client.explanation_models import ReasonNumbers, WaitReason
from paceline.client.models import Reason as Headline
from projections.queries import (
    backoff_reasons,
    end_reasons,
    held_reasons,
    order_reasons,
    placement_reasons,
    update_reasons,
)
from projections.queries.moving_reasons import of_moving, of_unheard
from projections.queries.reason import Reason, Remedy, counted, of_code
from projections.queries.situations import Detail, Situation
from projections.record_json import at
from projections.views.job_states import OVER, REJECTED, SUBMITTED
from projections.views.reasons import WAITS
from projections.views.rows import ExplanationRow, JobRow, amounts_in
from projections.views.update_rows import UpdateRow
from projections.views.waiting import Standing

OTHER_DAEMON = Remedy(YOU, "add hosts with these attributes, or submit another daemon")
MORE_ROOM = Remedy(YOU, "ask for less, or add hosts, and update it again")
DISRUPTED_FOR = {
    "DRAIN": "a drain",
    "UPDATE": "an update or a restart",
    "PREEMPT": "a preemption",
}
"""The causes of disruptions in words."""
_NOTHING = dict.fromkeys(ReasonNumbers.__annotations__)


def reasons(job: JobRow, situation: Situation | None, kinds: Kinds, detail: Detail | None = None) -> list[Reason]:
    """All reasons that hold for a job, those first that a user has to act on, then the one that most tasks wait for.
    `detail`: what only the explanation of this job tells.
    """
    if job.state in OVER:
        every = _of_end(job, situation)
    else:
        every = _of_open(job, situation or Situation([], {}, [], [], []), kinds, detail)
    return sorted(every, key=_rank)


def _rank(reason: Reason) -> tuple[Precedence, int, float, str]:
    precedence, place = order_of(reason.code)
    return precedence, -reason.tasks, place, reason.machine


def headline(ordered: Sequence[Reason]) -> Headline | None:
    """The first of all reasons: code, sentence, and who can act; None for a job that waits for nothing."""
    if not ordered:
        return None
    first = ordered[0]
    return {"code": first.code, "message": first.message, "actor": first.helps.actor}


def reason_json(reason: Reason) -> WaitReason:
    """A reason as the API shows it: numbers that it doesn't have are null."""
    helps = reason.helps
    head = {
        "code": reason.code,
        "tier": kind_of(reason.code).tier,
        "message": reason.message,
        "actor": helps.actor,
        "change": helps.change,
        "since": at(reason.since_ms),
        "machine": reason.machine,
    }
    return cast(WaitReason, {**head, **_NOTHING, **reason.numbers})


def _of_end(job: JobRow, situation: Situation | None) -> Iterator[Reason]:
    if job.state == REJECTED:
        yield Reason(job.code, job.message, "lifecycle", job.ended_ms)
        return
    yield from end_reasons.of_killed(job, situation.stops if situation else ())
    if job.state != JobState.FAILED:
        return
    preempted = situation.leaving if situation else []
    yield from map(order_reasons.of_victim, preempted)
    if not preempted or sum(each.failed for each in preempted) != job.failed:
        yield backoff_reasons.of_failed(job, situation.failure if situation else None)


def _of_open(job: JobRow, situation: Situation, kinds: Kinds, detail: Detail | None) -> Iterator[Reason]:
    placing = 0
    unplaced = [row for kind in WAITS if (row := situation.reasons.get(kind)) is not None]
    for wait in situation.waits:
        if wait.hold is not None:
            yield from held_reasons.of_wait(job, wait, wait.hold, situation, unplaced, kinds, detail)
        elif wait.standing < 0:
            placing += wait.tasks
        else:
            yield _unknown(wait.tasks, detail.since.get(wait.standing, 0) * 1000 if detail else 0)
    if placing:
        for reason in _of_placing(job, placing, situation, unplaced, kinds, detail):
            yield reason._replace(tasks=placing)
    backoff = backoff_reasons.of_backoff(job, situation.failure)
    if backoff is not None:
        yield backoff
    yield from map(order_reasons.of_victim, situation.leaving)
    disruption = situation.reasons.get("disruption")
    if detail is not None and detail.disruptions:
        yield from _of_disruptions(detail, situation)
    elif disruption is not None and any(each.live for each in situation.leaving):
        reason = of_code(disruption.code, disruption.machine, counted(disruption.tasks), disruption.since_ms)
        yield reason._replace(numbers={"tasks": disruption.tasks, "round": disruption.round})
    if situation.update is not None:
        yield from _of_update(job, situation.update, disruption, situation.way_back)
    if job.kind == "daemon" and job.state == "PENDING" and not job.tasks:
        text = "no host meets the constraints of the daemon, which has a task on each that does"
        yield Reason(Code.CONSTRAINT_MISMATCH, text, "placement", job.submitted_ms, OTHER_DAEMON)
    if job.state == SUBMITTED:
        yield _unknown(job.tasks, job.submitted_ms)
    yield from of_moving(job, detail.moving if detail else None)
    yield from of_unheard(detail.unheard if detail else None)
    yield from end_reasons.of_killed(job, situation.stops)


def _of_disruptions(detail: Detail, situation: Situation) -> Iterator[Reason]:
    """The runs that sla doesn't let go, by code; an update tells itself that the budget is spent."""
    for wait in detail.disruptions:
        if situation.update is not None and wait["cause"] == "UPDATE" and wait["code"] == Code.SLA_BUDGET_SPENT:
            continue
        cause = detail.taints.get(wait["code"]) or DISRUPTED_FOR.get(wait["cause"])
        text = wait["message"].replace(" to leave", f" to leave for {cause}" if cause else " to leave", 1)
        numbers = {"tasks": wait["tasks"]} | ({"until": wait["until"]} if wait["until"] else {})
        since = datetime.fromisoformat(wait["since"]).timestamp() * 1000 if wait["since"] else 0
        yield Reason(wait["code"], text, "sla", int(since), tasks=wait["tasks"], numbers=numbers)


def _of_update(job: JobRow, update: UpdateRow, disruption: ExplanationRow | None, way_back: bool) -> Iterator[Reason]:
    """Why the newest update of a job isn't over, or why it failed."""
    if update_reasons.is_settled(update, job):
        return
    numbers = msgspec.json.decode(disruption.numbers) if disruption is not None and disruption.tasks else None
    for reason in update_reasons.of_update(update, numbers, job.held_ms > 0):
        failed = way_back and kind_of(reason.code).precedence == Precedence.ACT
        yield reason._replace(
            since_ms=update.ended_ms or update.paused_ms or update.moved_ms,
            remedy=MORE_ROOM if update.lacks_places else None,
            also=f", or `paceline job rollback {update.job_id}`" if failed else "",
        )


def _of_placing(
    job: JobRow,
    tasks: int,
    situation: Situation,
    unplaced: list[ExplanationRow],
    kinds: Kinds,
    detail: Detail | None,
) -> Iterator[Reason]:
    """The reasons of tasks that are admitted and have no place."""
    claims = sum(wait.tasks for wait in situation.waits if wait.standing == Standing.ENTITLED)
    becomes = order_reasons.what_becomes(job, claims, detail, situation)
    rows = {row.code: row for row in unplaced}
    which = order_reasons.by_alternative(situation.reasons.get("asked"))
    need = {} if which else amounts_in(job.need)
    for reservation in situation.reservations:
        reason = order_reasons.of_reservation(reservation, need, kinds, becomes, which)
        funnel = placement_reasons.funnel_of(rows.get(Code.HOSTS_RESERVED), kinds)
        yield reason._replace(numbers={**funnel, **reason.numbers})
    for order in situation.orders:
        won = order_reasons.of_winner(order, detail, which)
        if won is not None:
            yield won
    refused = situation.reasons.get("refused")
    if refused is not None:
        yield order_reasons.of_refusal(refused, kinds)
    with_details: dict[str, bool] = {
        Code.HOSTS_RESERVED: bool(situation.reservations),
        Code.WAITING_FOR_PREEMPTION: bool(situation.orders),
    }
    others = tasks - sum(reservation.count for reservation in situation.reservations)
    for row in unplaced:
        if not with_details.get(row.code, False):
            reason = placement_reasons.of_row(row, others if others > 0 else tasks, kinds, becomes, situation.taint)
            beside = f"; {situation.beside}" if row.code == Code.AFFINITY_UNMET and situation.beside else ""
            yield reason._replace(text=reason.text + beside)
    if not unplaced and not situation.orders and not situation.reservations:
        text = "{tasks} {is} admitted and wait{s} for a place".format(**counted(tasks))
        yield Reason(Code.NOT_YET_EVALUATED, text, "", numbers={"tasks": tasks})


def _unknown(tasks: int, since_ms: int) -> Reason:
    reason = of_code(Code.NOT_YET_EVALUATED, "", counted(tasks), since_ms)
    return reason._replace(numbers={"tasks": tasks})
