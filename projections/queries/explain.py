"""Why a job stands where it stands: the reasons that the machines gave, in sentences, and the one that counts most.

A job has one headline, the reason that comes first, and the list of all. Each part of its tasks has the reason of the
machine that it waits for: entitlement before it is admitted, placement after that.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from events.codes import ENDED_JOBS, LASTING, Code
from events.quantities import write_amounts
from events.resources import Amounts, Kinds, in_order
from projections.queries import backoff_reasons, end_reasons, held_reasons, last_failure, order_reasons, update_reasons
from projections.queries.moving_reasons import of_moving
from projections.queries.sentences import (
    MORE_HOSTS,
    MORE_ROOM,
    OTHER_DAEMON,
    REMEDIES,
    Remedy,
    again,
    beyond,
    bound_host_text,
    count_tasks,
    counted,
    funnel,
)
from projections.queries.situations import Detail, Leaving, Situation, Wait
from projections.record_json import at
from projections.views.reasons import WAITS
from projections.views.rows import ExplanationRow, JobRow
from projections.views.update_rows import UpdateRow
from projections.views.waiting import Standing

Json = dict[str, Any]
AMOUNTS = ("asked", "free", "need", "allocated", "entitlement", "limit", "floor", "kept", "wanted")
"""What of records and reasons is amounts by name."""
OF_PLACEMENT = (
    *LASTING,
    *(Code.NO_HOST_FITS, Code.GANG_INCOMPLETE, Code.HELD_FOR_OTHERS, Code.WAITING_FOR_HOST, Code.BOUND_HOST_BUSY),
    *(Code.HOSTS_SUSPECTED, Code.BACKOFF),
)
"""Codes by which entitlement holds what placement gave back: placement has the numbers."""
_ORDER: dict[str, float] = {code: place for place, code in enumerate(Code)}
_BEFORE_HOSTS = _ORDER[Code.NEVER_FITS] - 0.5
_ORDER |= dict.fromkeys((Code.HOSTS_RESERVED, Code.WAITING_FOR_PREEMPTION), _BEFORE_HOSTS)
_TIERS = (
    (Code.WRONG_CELL, "job"),
    (Code.BEHIND_IN_QUEUE, "pool"),
    (Code.CONSTRAINT_MISMATCH, "shape"),
    (Code.SLA_BUDGET_SPENT, "now"),
    (Code.WRONG_UNIT, "hosts"),
)
_TIER_ORDER = {code: place for place, code in enumerate(Code)}
_FAILED_UPDATE = (Code.MAX_FAILURES, Code.STALLED, Code.BLOCKED)
_FIRST = (Code.HELD, *_FAILED_UPDATE, Code.CRASH_LOOP)
"""That it is held, why its update failed, or that it fails again and again: a user has to act, whatever its tasks wait
for.
"""
_LAST = (
    Code.MAX_RUNNING,
    Code.BEHIND_IN_QUEUE,
    Code.UPDATING,
    Code.NOT_YET_EVALUATED,
)
_MOVING = (Code.STARTING, Code.STOPPING)
"""That tasks start or stop: behind what others wait for."""
_OVER = (Code.RUN_LIMIT, Code.STOPPED, Code.CONTROLLER_OVER)
"""Why tasks are over: nothing waits for that."""
_SENTENCES: dict[str, str] = {
    Code.NEVER_FITS: "{tasks} fit{s} no host, even when it is empty",
    Code.CONSTRAINT_MISMATCH: "{tasks} ask{s} for attributes that no host has",
    Code.HOSTS_RESERVED: "{tasks} wait{s} for hosts that are drained for {it}",
    Code.WAITING_FOR_PREEMPTION: "{tasks} wait{s} for others that are asked to leave",
    Code.NO_HOST_FITS: "{tasks} find{s} no room on any host now",
    Code.HELD_FOR_OTHERS: "{tasks} wait{s}: what is free on hosts is kept for others",
    Code.HOSTS_SUSPECTED: "{tasks} find{s} room only on suspected hosts, which are avoided for a time",
    Code.NO_HOSTS: "{tasks} wait{s} because the cell has no host that takes tasks",
    Code.BACKOFF: "{tasks} wait{s} before {it} {is} tried again",
    Code.SLA_BUDGET_SPENT: "{tasks} shall leave, but the SLA of the job allows no more unavailable instances now",
    Code.NOT_YET_EVALUATED: "nothing was decided about {tasks} yet",
}


def reasons(job: JobRow, situation: Situation | None, kinds: Kinds, detail: Detail | None = None) -> list[Json]:
    """All reasons that hold for a job; first those of `_FIRST`, then the one that most tasks wait for, those only
    behind others last. `detail`: what is told of it alone.
    """
    if job.state in ENDED_JOBS or job.state == "REJECTED":
        found = _of_end(job, situation)
    else:
        found = list(_of_open(job, situation or Situation([], {}, [], [], []), kinds, detail))
    order = sorted(found, key=_rank)
    for each in order:
        del each["of"]
    return order


def _rank(found: Json) -> tuple[bool, bool, bool, bool, int, float, str]:
    code = found["code"]
    return (
        code not in _FIRST,
        code in _OVER,
        code in _MOVING,
        code in _LAST,
        -found["of"],
        _ORDER.get(code, len(_ORDER)),
        found["machine"],
    )


def headline(job: JobRow, situation: Situation | None, kinds: Kinds) -> Json | None:
    """Code, sentence, and who can act; None for a job that lacks nothing."""
    return first(reasons(job, situation, kinds))


def first(found: list[Json]) -> Json | None:
    """The headline of all reasons."""
    return {name: found[0][name] for name in ("code", "message", "actor")} if found else None


def tier_of(code: str) -> str:
    """job, pool, shape, now, hosts or cell: whose matter a reason is."""
    place = _TIER_ORDER.get(Code(code)) if code in Code.__members__ else None
    if place is not None:
        for last, tier in _TIERS:
            if place <= _TIER_ORDER[last]:
                return tier
    return "cell"


def _of_end(job: JobRow, situation: Situation | None) -> list[Json]:
    if job.state == "REJECTED":
        return [reason(job.code, job.message, job.ended_ms, "lifecycle")]
    killed = list(_of_killed(job, situation))
    if job.state != "FAILED":
        return killed
    preempted = situation.leaving if situation else []
    found = [_of_victim(each) for each in preempted]
    if found and sum(each.failed for each in preempted) == job.failed:
        return [*found, *killed]
    text = f"{count_tasks(job.failed)} of {job.tasks} failed"
    failure = situation.failure if situation else None
    if failure is not None:
        text += f"; {last_failure.words_of(failure)}"
    remedy = end_reasons.remedy_of_failed(job, failure is not None and failure.cannot_start)
    return [reason(Code.RUN_FAILED, text, job.ended_ms, "lifecycle", remedy), *found, *killed]


def _of_killed(job: JobRow, situation: Situation | None) -> Iterator[Json]:
    """Why tasks are killed; they wait for nothing."""
    for code, text, remedy, since_ms in end_reasons.of_killed(job, situation.stops if situation else ()):
        yield reason(code, text, since_ms, "lifecycle", remedy)


def _of_victim(leaving: Leaving) -> Json:
    """Runs that leave, or tasks that wait or have failed since they left."""
    told, remedy, more = order_reasons.of_victim(leaving)
    found = reason(leaving.code, told, leaving.at_ms, "entitlement", remedy) | more
    return found | {"of": leaving.live or leaving.failed}  # those that wait are counted where it is said why


def _of_open(job: JobRow, situation: Situation, kinds: Kinds, detail: Detail | None) -> Iterator[Json]:
    placing = 0
    unplaced = [row for kind in WAITS if (row := situation.reasons.get(kind)) is not None]
    for wait in situation.waits:
        if wait.hold is None and wait.standing < 0:
            placing += wait.tasks
        elif wait.hold is None:
            yield _unknown(wait.tasks, detail.since.get(wait.standing, 0) * 1000 if detail else 0)
        else:
            placements = (
                unplaced if wait.hold.code in OF_PLACEMENT and not held_reasons.is_beyond_the_cell(wait) else []
            )
            told = [_unplaced(row, wait.tasks, kinds) for row in placements]
            if not placements or wait.hold.code == Code.BACKOFF:
                told.append(_held(job, wait, situation, kinds, detail))
            yield from (each | {"of": wait.tasks} for each in told)
    if placing:
        for found in _of_placing(job, placing, situation, unplaced, kinds, detail):
            yield found | {"of": placing}
    backoff = backoff_reasons.of_backoff(job, situation.failure)
    if backoff is not None:
        found = reason(backoff.code, backoff.text, backoff.since_ms, "lifecycle", backoff.remedy)
        yield found | {"tasks": job.backoff, "of": job.backoff}
    yield from map(_of_victim, situation.leaving)
    disruption = situation.reasons.get("disruption")
    if disruption is not None and any(each.live for each in situation.leaving):
        yield _said(disruption, _SENTENCES[disruption.code].format(**counted(disruption.tasks)))
    if situation.update is not None:
        yield from _of_update(job, situation.update, disruption, situation.way_back)
    if job.kind == "daemon" and job.state == "PENDING" and not job.tasks:
        text = "no host meets the constraints of the daemon, which has a task on each that does"
        yield reason(Code.CONSTRAINT_MISMATCH, text, job.submitted_ms, "placement", OTHER_DAEMON) | {"of": 0}
    if job.state == "SUBMITTED":
        yield _unknown(job.tasks, job.submitted_ms)
    for code, text, since_ms, tasks in of_moving(job, detail.moving if detail else None):
        yield reason(code, text, since_ms, "lifecycle") | {"tasks": tasks, "of": tasks}
    yield from _of_killed(job, situation)


def _of_update(job: JobRow, update: UpdateRow, disruption: ExplanationRow | None, way_back: bool) -> Iterator[Json]:
    """What the newest update of a job waits for, or why it failed."""
    if update_reasons.is_settled(update, job):
        return
    numbers = msgspec.json.decode(disruption.numbers) if disruption is not None and disruption.tasks else None
    remedy = MORE_ROOM if update_reasons.lacked_places(update) else None
    for code, text, more in update_reasons.of_update(update, numbers, job.held_ms > 0):
        found = reason(code, text, update.ended_ms or update.paused_ms or update.moved_ms, "lifecycle", remedy)
        if code in _FAILED_UPDATE and way_back:
            found["message"] += f", or `paceline job rollback {update.job_id}`"
        yield found | more | {"of": more.get("tasks", 0)}


def _of_placing(
    job: JobRow,
    tasks: int,
    situation: Situation,
    unplaced: list[ExplanationRow],
    kinds: Kinds,
    detail: Detail | None,
) -> Iterator[Json]:
    """The reasons of tasks that are admitted and have no place."""
    claims = sum(wait.tasks for wait in situation.waits if wait.standing == Standing.ENTITLED)
    change = order_reasons.what_helps(job, claims, detail, situation)
    said = {row.code: row for row in unplaced}
    for reservation in situation.reservations:
        told, more = order_reasons.of_reservation(reservation, kinds)
        found = reason(Code.HOSTS_RESERVED, told, reservation.since_ms, "placement", _with(Code.HOSTS_RESERVED, change))
        yield found | _funnel_of(said.get(Code.HOSTS_RESERVED), kinds) | more
    for order in situation.orders:
        won = order_reasons.of_winner(order, detail)
        if won is not None:
            code, told, remedy, more = won
            yield reason(code, told, order.at_ms, "entitlement", remedy) | more
    refused = situation.reasons.get("refused")
    if refused is not None:
        told, more = order_reasons.of_refusal(refused, kinds)
        yield _said(refused, told) | more
    shown: dict[str, bool] = {
        Code.HOSTS_RESERVED: bool(situation.reservations),
        Code.WAITING_FOR_PREEMPTION: bool(situation.orders),
    }
    yield from (_unplaced(row, tasks, kinds, change) for row in unplaced if not shown.get(row.code, False))
    if unplaced:
        return
    if not situation.orders and not situation.reservations:
        text = f"{count_tasks(tasks)} {counted(tasks)['is']} admitted and wait{counted(tasks)['s']} for a place"
        yield reason(Code.NOT_YET_EVALUATED, text, 0, "") | {"tasks": tasks}


def _unknown(tasks: int, since_ms: int) -> Json:
    text = _SENTENCES[Code.NOT_YET_EVALUATED].format(**counted(tasks))
    return reason(Code.NOT_YET_EVALUATED, text, since_ms, "") | {"tasks": tasks}


def _held(job: JobRow, wait: Wait, situation: Situation, kinds: Kinds, detail: Detail | None) -> Json:
    """A reason of entitlement."""
    hold = wait.hold
    assert hold is not None
    numbers = _as_now(msgspec.json.decode(hold.numbers), situation.shares.get(hold.at))
    sentence, code = _SENTENCES.get(hold.code), hold.code
    if code == Code.BEHIND_IN_QUEUE and situation.unmet:
        code, told = Code.CONSTRAINT_MISMATCH, held_reasons.impossible(wait, situation.unmet)
    elif hold.code in held_reasons.SENTENCES:
        told = held_reasons.SENTENCES[hold.code](job, wait, numbers, kinds, detail)
    elif held_reasons.is_beyond_the_cell(wait):
        told = held_reasons.beyond_the_cell(wait, numbers, kinds)
    elif hold.code == Code.NEVER_FITS:
        told = held_reasons.larger_than_hosts(wait, numbers, kinds)
    elif hold.code == Code.BACKOFF:
        told = held_reasons.Told(_SENTENCES[Code.BACKOFF].format(**counted(wait.tasks)), again(wait.tasks))
    else:
        told = held_reasons.Told((sentence or "{tasks} wait{s}: " + hold.code).format(**counted(wait.tasks)))
    since = detail.since.get(hold.number, 0) * 1000 if detail else 0
    found = reason(code, told.text, since, "entitlement", told.remedy)
    found |= {"tasks": wait.tasks, "round": hold.round, "pool": hold.at, **told.more}
    for name in ("asked", "allocated", "entitlement", "limit"):
        found[name] = write_amounts(numbers[name], kinds.units) if numbers.get(name) else None
    if hold.code == Code.NEVER_FITS:  # nothing has to become free for it
        found["allocated"] = None
        found["entitlement"] = found["entitlement"] if held_reasons.is_beyond_the_cell(wait) else None
    if hold.code == Code.RESERVATION_REACHED:
        found["reserved"], found["limit"] = found["limit"], None
    found["not_before"] = at(numbers.get("not_before_ms", 0))
    return found


def _as_now(numbers: Json, share: Mapping[str, Amounts] | None) -> Json:
    """The numbers of a reason, with what its pool may use and holds now, as long as these say no too: entitlement says
    a reason anew only when it is another one.
    """
    now = {**numbers, **(share or {})}
    may = {name: now["entitlement"].get(name, 0) for name in numbers["asked"]}
    still = any(beyond(numbers["asked"], now["allocated"], bound) for bound in (may, numbers["limit"]))
    return now if still else numbers


def _unplaced(row: ExplanationRow, waiting: int, kinds: Kinds, change: str = "") -> Json:
    """A reason of placement."""
    numbers: Json = msgspec.json.decode(row.numbers)
    tasks = min(row.tasks or waiting, waiting)
    size, fit, missing = numbers.get("size", 1), numbers.get("fit", 0), numbers.get("missing", "")
    remedy = None
    if row.code == Code.NEVER_FITS and size > 1 and fit:
        text = f"{fit} of the {size} tasks of the gang would fit at once, even if nothing else ran"
        remedy = MORE_HOSTS
    elif row.code == Code.GANG_INCOMPLETE:
        text = f"there is room for {fit} of the {size} tasks of the gang now, not for the whole"
    elif row.code == Code.WAITING_FOR_HOST:
        text = "{tasks} wait{s} for the host where {it} ran".format(**counted(tasks))
        text += f", which is kept until {at(numbers['until_ms'])}: task {numbers['instance']} for {numbers['host_id']}"
    elif row.code in (Code.BOUND_HOST_BUSY, Code.BOUND_HOST_LOST):
        return _with_needs(_said(row, bound_host_text(tasks, numbers, kinds)), row, tasks, kinds)
    else:
        text = _SENTENCES.get(row.code, "{tasks} wait{s}: " + row.code).format(**counted(tasks))
    if missing and size > 1 and fit:
        text += f"; without a place: {'task' if missing.isdigit() else 'tasks'} {missing}"
    if row.code != Code.WAITING_FOR_HOST:
        text += funnel(numbers, kinds)
    found = _said(row, text, remedy or _with(row.code, change))
    found |= {"fit": fit if size > 1 else None, "missing": missing or None}
    return _with_needs(found, row, tasks, kinds)


def _with_needs(found: Json, row: ExplanationRow, tasks: int, kinds: Kinds) -> Json:
    """A reason of placement with what its tasks ask, and what hosts lack."""
    need = msgspec.json.decode(row.numbers).get("need")
    found |= _funnel_of(row, kinds) | {"tasks": tasks}
    return found | {"asked": write_amounts(in_order(need), kinds.units) if need else None}


def _with(code: str, change: str) -> Remedy | None:
    """What becomes of tasks by themselves, and what helps by a code."""
    remedy = REMEDIES.get(code)
    return Remedy(remedy.actor, f"{change}; {remedy.change}") if remedy is not None and change else remedy


def _funnel_of(row: ExplanationRow | None, kinds: Kinds) -> Json:
    """How many hosts failed for which reason, and those that lacked least."""
    numbers: Json = msgspec.json.decode(row.numbers) if row else {}
    for near in numbers.get("nearest", ()):
        near["lacks"] = write_amounts(in_order(near["lacks"]), kinds.units)
    return {name: numbers.get(name) for name in ("hosts_considered", "hosts_by_reason", "nearest")}


def _said(row: ExplanationRow, text: str, remedy: Remedy | None = None) -> Json:
    found = reason(row.code, text, row.since_ms, row.machine, remedy)
    return found | {"tasks": row.tasks, "round": row.round}


def reason(code: str, text: str, since_ms: int, machine: str, remedy: Remedy | None = None) -> Json:
    """A reason as the API shows it, without numbers."""
    remedy = remedy or REMEDIES.get(code, Remedy("operator", ""))
    return {
        "code": str(code),
        "tier": tier_of(code),
        "message": f"{text}; {remedy.change}" if remedy.change and remedy.change not in text else text,
        "actor": remedy.actor,
        "change": remedy.change if remedy.change not in text else "",
        "since": at(since_ms),
        "machine": machine,
        "tasks": None,
        "round": None,
        "pool": None,
        "asked": None,
        "allocated": None,
        "entitlement": None,
        "limit": None,
        "reserved": None,
        "ahead": None,
        "jobs_ahead": None,
        "hosts_considered": None,
        "hosts_by_reason": None,
        "nearest": None,
        "fit": None,
        "missing": None,
        "order": None,
        "for_job": None,
        "from_jobs": None,
        "hosts": None,
        "until": None,
        "not_before": None,
        "of": 0,
    }
