"""Why a job stands where it stands: the reasons that the machines gave, in sentences, and the one that counts most.

A job has one headline, the reason whose code comes first in `events.codes.Code`, and the list of all.
"""

from typing import Any, NamedTuple

import msgspec

from events.codes import ENDED_JOBS, Code
from events.quantities import write_amount, write_amounts
from events.resources import Kinds, Unit, in_order
from projections.record_json import at
from projections.views.reasons import WAITS
from projections.views.rows import ExplanationRow, JobRow

YOU = "you"
POOL_OWNER = "pool owner"
OPERATOR = "operator"
WAIT = "nobody, wait"
AMOUNTS = ("asked", "free", "need")
"""Numbers of a reason that are amounts by name."""
_ORDER = {code: place for place, code in enumerate(Code)}
_TIERS = (
    (Code.WRONG_CELL, "job"),
    (Code.BEHIND_IN_QUEUE, "pool"),
    (Code.CONSTRAINT_MISMATCH, "shape"),
    (Code.SLA_BUDGET_SPENT, "now"),
    (Code.GRACE_PASSED, "hosts"),
)


class Remedy(NamedTuple):
    """Who can act on a reason, and what would change it."""

    actor: str
    change: str


_REMEDIES: dict[str, Remedy] = {
    Code.INVALID_SPEC: Remedy(YOU, "submit it again, corrected"),
    Code.UNKNOWN_RESOURCE: Remedy(YOU, "correct the name, or have the resource added to the cell"),
    Code.TOO_LARGE: Remedy(YOU, "submit it again, smaller"),
    Code.ID_TAKEN: Remedy(YOU, "choose another id"),
    Code.WRONG_CELL: Remedy(YOU, "submit it to the right cell"),
    Code.RUN_FAILED: Remedy(YOU, "look at the output of the task, or allow retries"),
    Code.NO_SUCH_POOL: Remedy(YOU, "choose another pool, or define this one"),
    Code.POOL_NOT_A_LEAF: Remedy(YOU, "choose a pool below it"),
    Code.OPEN_JOBS_MAX: Remedy(POOL_OWNER, "wait for a job to end, or raise open_jobs_max"),
    Code.OPEN_TASKS_MAX: Remedy(POOL_OWNER, "wait for jobs to end, or raise open_tasks_max"),
    Code.LIMIT_REACHED: Remedy(POOL_OWNER, "raise the limit, or wait until tasks of the pool end"),
    Code.RESERVATION_REACHED: Remedy(POOL_OWNER, "raise the reservation, or make the job preemptible"),
    Code.ENTITLEMENT_REACHED: Remedy(WAIT, "it goes on when others need less; a larger share or reservation helps"),
    Code.WAITING_FOR_PREEMPTION: Remedy(WAIT, "it goes on when tasks of other pools have left"),
    Code.BEHIND_IN_QUEUE: Remedy(WAIT, "its turn comes; a higher priority helps"),
    Code.NEVER_FITS: Remedy(YOU, "ask for less, or add larger hosts"),
    Code.CONSTRAINT_MISMATCH: Remedy(YOU, "change the constraints, or add hosts with these attributes"),
    Code.NO_HOST_FITS: Remedy(WAIT, "it goes on when tasks end or hosts are added"),
    Code.GANG_INCOMPLETE: Remedy(WAIT, "it goes on when there is room for the whole gang; a smaller gang helps"),
    Code.NO_HOSTS: Remedy(OPERATOR, "connect hosts"),
    Code.BACKOFF: Remedy(WAIT, "it is tried again by itself"),
    Code.BELOW_RESERVATION: Remedy(WAIT, "it runs again when its pool is entitled to more"),
    Code.SLA_BUDGET_SPENT: Remedy(WAIT, "it goes on when instances are available again"),
    Code.NOT_YET_EVALUATED: Remedy(WAIT, "it is looked at in the next rounds"),
}
_SENTENCES: dict[str, str] = {
    Code.NO_SUCH_POOL: "{tasks} wait{s} because there is no pool {pool} any more",
    Code.LIMIT_REACHED: "{tasks} would exceed the limit of pool {pool}",
    Code.RESERVATION_REACHED: "{tasks} that must not be preempted would exceed the reservation of pool {pool}",
    Code.ENTITLEMENT_REACHED: "{tasks} wait{s} because pool {pool} holds all that it may use now",
    Code.WAITING_FOR_PREEMPTION: "{tasks} wait{s} for others to leave, pool {pool} is below its reservation",
    Code.BEHIND_IN_QUEUE: "{tasks} wait{s} behind {ahead} others in pool {pool}",
    Code.NEVER_FITS: "{tasks} fit{s} no host, even when it is empty",
    Code.CONSTRAINT_MISMATCH: "{tasks} ask{s} for attributes that no host has",
    Code.NO_HOST_FITS: "{tasks} find{s} no room on any host now",
    Code.GANG_INCOMPLETE: "there is room for a part of the gang of {tasks}, not for the whole",
    Code.NO_HOSTS: "{tasks} wait{s} because the cell has no host that takes tasks",
    Code.BACKOFF: "{tasks} wait{s} before they are tried again",
    Code.BELOW_RESERVATION: "{tasks} must leave for pool {for_pool}, which is below its reservation",
    Code.SLA_BUDGET_SPENT: "{tasks} shall leave, but the SLA of the job allows no more unavailable instances now",
    Code.NOT_YET_EVALUATED: "nothing was decided about {tasks} yet",
}


_BEYOND_THE_CELL = "{tasks} ask{s} for more than the whole cell has"


def reasons(job: JobRow, rows: list[ExplanationRow], kinds: Kinds) -> list[dict[str, Any]]:
    """All reasons that hold for a job, the one that counts most first."""
    found = _of_end(job) if job.state in ENDED_JOBS or job.state == "REJECTED" else _of_open(job, rows, kinds)
    return sorted(found, key=lambda reason: (_ORDER.get(reason["code"], len(_ORDER)), reason["machine"]))


def headline(job: JobRow, rows: list[ExplanationRow], kinds: Kinds) -> dict[str, Any] | None:
    """Code, sentence, and who can act; None for a job that lacks nothing."""
    return first(reasons(job, rows, kinds))


def first(found: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The headline of all reasons."""
    return {name: found[0][name] for name in ("code", "message", "actor")} if found else None


def tier_of(code: str) -> str:
    """job, pool, shape, now, hosts or cell: whose matter a reason is."""
    place = _ORDER.get(Code(code)) if code in Code.__members__ else None
    if place is not None:
        for last, tier in _TIERS:
            if place <= _ORDER[last]:
                return tier
    return "cell"


def _of_end(job: JobRow) -> list[dict[str, Any]]:
    if job.state == "REJECTED":
        return [_reason(job.code, job.message, job.ended_ms, "lifecycle")]
    if job.state != "FAILED":
        return []
    text = f"{_tasks(job.failed)} of {job.tasks} failed"
    if job.failed_instance >= 0:
        text += f"; task {job.failed_instance} exited with {job.failed_exit_code}"
    return [_reason(Code.RUN_FAILED, text, job.ended_ms, "lifecycle")]


def _of_open(job: JobRow, rows: list[ExplanationRow], kinds: Kinds) -> list[dict[str, Any]]:
    running = job.ordered + job.running + job.stopping_tasks
    waits = [row for row in rows if row.kind in WAITS] if job.queued else []
    # A reason that was settled counts where nothing newer explains the tasks that still wait.
    shown = [row for row in waits if row.tasks] or [msgspec.structs.replace(row, tasks=job.queued) for row in waits]
    if not _given_up(rows):
        shown += [row for row in rows if row.kind == "preempted" and (running or job.queued)]
        shown += [row for row in rows if row.kind == "disruption" and running]
    out = [_of_row(job, row, kinds) for row in shown]
    if job.backoff:
        text = _SENTENCES[Code.BACKOFF].format(**_counted(job.backoff))
        if job.failed_instance >= 0:
            text += f"; task {job.failed_instance} exited with {job.failed_exit_code}"
        out.append(_reason(Code.BACKOFF, text, 0, "lifecycle") | {"tasks": job.backoff})
    if not out and (job.queued or job.state == "SUBMITTED"):
        text = _SENTENCES[Code.NOT_YET_EVALUATED].format(**_counted(job.queued or job.tasks))
        out.append(_reason(Code.NOT_YET_EVALUATED, text, job.submitted_ms, ""))
    return out


def _given_up(rows: list[ExplanationRow]) -> bool:
    """Whether lifecycle has answered the last order to preempt tasks of a job: sla deferred it, and they stay."""
    by_kind = {row.kind: row for row in rows}
    preempted, deferred = by_kind.get("preempted"), by_kind.get("deferred")
    if preempted is None or deferred is None:
        return False
    return int(msgspec.json.decode(deferred.numbers)["order"]) >= preempted.round


def _of_row(job: JobRow, row: ExplanationRow, kinds: Kinds) -> dict[str, Any]:
    numbers: dict[str, Any] = msgspec.json.decode(row.numbers)
    beyond = row.code == Code.NEVER_FITS and row.kind == "held" and numbers.get("free") is not None
    remedy = _beyond_the_cell(numbers, kinds) if beyond else None
    shortage, funnel = _shortage(numbers, kinds), _funnel(numbers, kinds)
    for name in AMOUNTS:
        if name in numbers:
            numbers[name] = write_amounts(in_order(numbers[name]), kinds.units)
    for near in numbers.get("nearest", ()):
        near["lacks"] = write_amounts(in_order(near["lacks"]), kinds.units)
    words = {**_counted(row.tasks), "pool": job.pool, "ahead": 0, "from_pool": job.pool, "for_pool": "another"}
    sentence = _BEYOND_THE_CELL if beyond else _SENTENCES.get(row.code, "{tasks} wait{s}: " + row.code)
    text = sentence.format(**(words | _plain(numbers)))
    text += shortage + funnel
    found = _reason(row.code, text, row.since_ms, row.machine, remedy)
    found |= {"tasks": row.tasks, "round": row.round}
    found["asked"] = numbers.get("asked", numbers.get("need"))
    for name in ("free", "ahead", "hosts_considered", "hosts_by_reason", "nearest"):
        found[name] = numbers.get(name)
    found["not_before"] = at(numbers.get("not_before_ms", 0))
    return found


def _beyond_the_cell(numbers: dict[str, Any], kinds: Kinds) -> Remedy:
    """What helps where tasks ask for more than the whole cell has: no larger host does where it is a licence."""
    free = numbers.get("free") or {}
    short = [name for name, asked in numbers.get("asked", {}).items() if asked > free.get(name, 0)]
    licences = [name for name in short if name in kinds.licences]
    ways = [f"raise the licence {', '.join(licences)}"] if licences else []
    ways += ["add hosts"] if len(short) > len(licences) else []
    return Remedy(YOU, f"ask for less, or {' and '.join(ways) or 'add hosts'}")


def _reason(code: str, text: str, since_ms: int, machine: str, remedy: Remedy | None = None) -> dict[str, Any]:
    remedy = remedy or _REMEDIES.get(code, Remedy(OPERATOR, ""))
    return {
        "code": str(code),
        "tier": tier_of(code),
        "message": f"{text}; {remedy.change}" if remedy.change and remedy.change not in text else text,
        "actor": remedy.actor,
        "since": at(since_ms),
        "machine": machine,
        "tasks": None,
        "round": None,
        "asked": None,
        "free": None,
        "ahead": None,
        "hosts_considered": None,
        "hosts_by_reason": None,
        "nearest": None,
        "not_before": None,
    }


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def _counted(count: int) -> dict[str, Any]:
    """The words of a sentence about so many tasks."""
    return {"tasks": _tasks(count), "s": "s" if count == 1 else ""}


def _plain(numbers: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in numbers.items() if isinstance(value, str | int)}


def _amount(name: str, value: int, kinds: Kinds) -> str:
    return f"{write_amount(value, kinds.units.get(name, Unit.MILLI))} {name}"


def _shortage(numbers: dict[str, Any], kinds: Kinds) -> str:
    """Where more is asked than free."""
    asked, free = numbers.get("asked"), numbers.get("free")
    if not asked or free is None:
        return ""
    lacks = [
        f"{_amount(name, most, kinds)} asked, {_amount(name, free.get(name, 0), kinds)} free"
        for name, most in asked.items()
        if most > free.get(name, 0)
    ]
    return f" ({'; '.join(lacks)})" if lacks else ""


def _funnel(numbers: dict[str, Any], kinds: Kinds) -> str:
    """How many hosts failed for which reason, and the one that lacked least."""
    if "hosts_considered" not in numbers:
        return ""
    counts = ", ".join(f"{count} {name}" for name, count in sorted(numbers.get("hosts_by_reason", {}).items()))
    text = f" ({numbers['hosts_considered']} hosts seen{': ' if counts else ''}{counts})"
    for near in numbers.get("nearest", ())[:1]:
        lacks = ", ".join(_amount(name, value, kinds) for name, value in near["lacks"].items() if value > 0)
        text += f"; nearest {near['host_id']}, short of {lacks or 'ports'}"
    return text
