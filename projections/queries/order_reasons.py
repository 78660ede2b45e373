"""What is said of work that leaves, or is to leave, for other work: to the winner, to the victims."""

from typing import Any

import msgspec

from events.codes import Code
from events.resources import Kinds
from projections.queries.sentences import (
    FOR_WHOM,
    PROTECTED,
    REMEDIES,
    WAIT,
    YOU,
    Remedy,
    amounts,
    count_tasks,
    counted,
    span,
)
from projections.queries.situations import Detail, Leaving, Situation, victims_of
from projections.record_json import at
from projections.views.rows import ExplanationRow, JobRow, amounts_in
from projections.views.sharing_rows import OrderRow, ReservationRow

PLANNED_MS = 5000
"""So long after a gang has a right placement has looked for runs that may leave for it."""
NAMED = 3
"""Jobs and hosts that a sentence names."""


def of_victim(leaving: Leaving) -> tuple[str, Remedy | None, dict[str, Any]]:
    """Runs that leave, or tasks that wait or have failed since their runs left: for whom."""
    whom = FOR_WHOM.get(leaving.code, "job {for_job} of pool {for_pool}")
    whom = whom.format(for_job=leaving.for_job, for_pool=leaving.for_pool)
    told, remedy = [], REMEDIES.get(leaving.code) or Remedy(WAIT, "")
    if leaving.live:
        told.append(f"{count_tasks(leaving.live)} must leave for {whom}")
    if leaving.failed:
        told.append(f"{count_tasks(leaving.failed)} failed: preempted for {whom} (on_preempt: fail)")
        remedy = (
            remedy if leaving.live or leaving.waiting else Remedy(YOU, "submit the job again, or requeue its tasks")
        )
    if leaving.waiting:
        runs = "1 run" if leaving.left == 1 else f"{leaving.left} runs"
        words = counted(leaving.waiting)
        told.append(f"{runs} left for {whom}; {leaving.waiting} of these tasks wait{words['s']}")
    tasks = leaving.live or leaving.waiting or leaving.failed
    more = {"tasks": tasks, "round": leaving.round, "order": leaving.order, "pool": leaving.pool}
    return "; ".join(told), remedy, more | {"for_job": leaving.for_job}


def of_winner(order: OrderRow, detail: Detail | None) -> tuple[str, str, Remedy | None, dict[str, Any]] | None:
    """Runs that leave for tasks without a place: which, and until when what they free is kept. Code, text and the
    rest; None: the order is over and leaves nothing to say.
    """
    victims = victims_of(order)
    named = ", ".join(f"{tasks} of job {job_id}" for job_id, tasks in list(victims.items())[:NAMED])
    named += f" and {len(victims) - NAMED} more" if len(victims) > NAMED else ""
    until = order.at_ms + detail.settings.hold_for_ms if detail else 0
    more = {"order": order.number, "round": order.round, "from_jobs": victims, "pool": order.for_pool}
    more |= {"hosts": msgspec.json.decode(order.host_ids), "until": at(until) if detail else None}
    kept = f"; what they free is kept for it until {at(until)}" if detail else ""
    spared = _spared(msgspec.json.decode(order.spared))
    match order.answer:
        case "":
            runs = "1 run leaves" if order.victims == 1 else f"{order.victims} runs leave"
            return Code.WAITING_FOR_PREEMPTION, f"{runs} for it ({named}){kept}{spared}", None, more
        case Code.LEFT:
            runs = "1 run has left" if order.victims == 1 else f"{order.victims} runs have left"
            return (
                Code.WAITING_FOR_PREEMPTION,
                f"{runs} for it ({named}){kept}",
                Remedy(WAIT, "it is placed next"),
                more,
            )
        case Code.DEFERRED:
            again = order.answered_ms + detail.settings.defer_for_ms if detail else 0
            text = f"the SLA of a job allows no preemption now ({named})"
            text += f"; they aren't asked again before {at(again)}" if detail else ""
            return Code.DEFERRED, text, None, more | {"until": at(again) if detail else None}
    return None


def _spared(spared: dict[str, int]) -> str:
    parts = (f"{count} {code}" for code, count in spared.items())
    return f"; spared on these hosts: {', '.join(parts)}" if spared else ""


def of_reservation(row: ReservationRow, kinds: Kinds) -> tuple[str, dict[str, Any]]:
    """Hosts that are drained for a gang."""
    hosts: list[str] = msgspec.json.decode(row.host_ids)
    named = ", ".join(hosts[:NAMED]) + (f" and {len(hosts) - NAMED} more" if len(hosts) > NAMED else "")
    one = len(hosts) == 1
    text = f"{'host' if one else 'hosts'} {named} {'is' if one else 'are'} drained for {count_tasks(row.count)}"
    text += f", {amounts(amounts_in(row.kept), kinds)} kept there so far; given up at {at(row.until_ms)}"
    return text, {"tasks": row.count, "round": row.round, "hosts": hosts, "until": at(row.until_ms)}


def of_refusal(row: ExplanationRow, kinds: Kinds) -> tuple[str, dict[str, Any]]:
    """Others were asked to leave, and one may stay."""
    numbers: dict[str, Any] = msgspec.json.decode(row.numbers)
    why = PROTECTED.get(row.code, row.code)
    victim = numbers.get("victim_job_id")
    text = f"others were asked to leave for {count_tasks(row.tasks)}, and stay"
    if victim:
        text += f": task {numbers['victim_instance']} of job {victim}, {why}"
    wanted, free = numbers.get("wanted") or {}, numbers.get("free") or {}
    if wanted:
        text += f" ({amounts(wanted, kinds)} wanted, {amounts(free, kinds)} may be taken)"
    return text, {"from_jobs": {victim: 1} if victim else None}


def what_helps(job: JobRow, claims: int, detail: Detail | None, situation: Situation) -> str:
    """What becomes of admitted tasks without a place, beside that others end."""
    if detail is None or any(not order.answer for order in situation.orders):
        return ""
    settings = detail.settings
    if not claims:
        wait = span(settings.placement_patience_ms)
        return f"it is beyond the entitlement of pool {job.pool}, so it is given back after {wait} and tried later"
    since = min((second for standing, second in detail.since.items() if standing < 0), default=0) * 1000
    entitled = f"entitled since {at(since)}"
    if detail.delay_ms < 0:
        return f"{entitled}; nobody is preempted for pool {job.pool}"
    from_ms, right = since + detail.delay_ms, situation.reasons.get("right")
    if right is not None and right.since_ms + PLANNED_MS <= detail.now_ms:
        return f"{entitled}; preemption has been allowed since {at(right.since_ms)}; no set of victims is permitted now"
    if from_ms <= detail.now_ms:
        return f"{entitled}; preemption has been allowed since {at(from_ms)}"
    return f"{entitled}; preemption is allowed from {at(from_ms)} on"
