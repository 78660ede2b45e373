"""Reasons about preemption: of the job that others leave for, and of the victims."""

from collections.abc import Sequence
from itertools import islice

import msgspec

from events.codes import Code
from events.quantities import write_ms
from events.reasons import WAIT, YOU, kind_of
from events.resources import Amounts, Kinds
from events.words import listed, plural
from paceline.client.json_type import Json
from projections.queries.placement_reasons import remedy_of
from projections.queries.reason import Reason, Remedy, count_tasks, counted
from projections.queries.sentences import amounts
from projections.queries.situations import Detail, Leaving, Situation, victims_of
from projections.record_json import at
from projections.views.rows import ExplanationRow, JobRow, amounts_in
from projections.views.sharing_rows import OrderRow, ReservationRow

PLANNED_MS = 5000
"""So long after a gang has a right placement has looked for runs that may leave for it."""
NAMED = 3
"""Jobs and hosts that a sentence names."""


def of_victim(leaving: Leaving) -> Reason:
    """Runs that leave, or tasks that wait or have failed since their runs left: for whom."""
    kind = kind_of(leaving.code)
    whom = kind.winner or "job {for_job} of pool {for_pool}"
    whom = f"for {whom.format(for_job=leaving.for_job, for_pool=leaving.for_pool)}" if leaving.for_job else whom
    parts, remedy = [], Remedy(kind.actor if kind.winner else WAIT, kind.remedy)
    if leaving.live:
        parts.append(f"{count_tasks(leaving.live)} must leave {whom}")
    if leaving.failed:
        parts.append(f"{count_tasks(leaving.failed)} failed: preempted {whom} (on_preempt: fail)")
        if not leaving.live and not leaving.waiting:
            remedy = Remedy(YOU, "submit the job again, or requeue its tasks")
    if leaving.waiting:
        wait = f"{leaving.waiting} of these tasks wait{counted(leaving.waiting)['s']}"
        parts.append(f"{plural(leaving.left, 'run')} left {whom}; {wait}")
    numbers = {
        "tasks": leaving.live or leaving.waiting or leaving.failed,
        "round": leaving.round,
        "order": leaving.order,
        "pool": leaving.pool,
        "for_job": leaving.for_job,
    }
    weight = leaving.live or leaving.failed  # those that wait are counted where it is said why
    return Reason(leaving.code, "; ".join(parts), "entitlement", leaving.at_ms, remedy, weight, numbers)


def of_winner(order: OrderRow, detail: Detail | None, which: str = "") -> Reason | None:
    """Runs that leave for tasks without a place: which, and until when what they free is kept; None: the order is over
    and leaves nothing to say. `which`: by which alternative the tasks are to have it.
    """
    victims = victims_of(order)
    first = [f"{tasks} of job {job_id}" for job_id, tasks in islice(victims.items(), NAMED)]
    named = listed(first, NAMED, len(victims))
    until_ms = order.kept_until_ms
    kept = f"; what they free is kept for it until {at(until_ms)}" if detail else ""
    code, remedy = Code.WAITING_FOR_PREEMPTION, None
    match order.answer:
        case "":
            runs = "1 run leaves" if order.victims == 1 else f"{order.victims} runs leave"
            text = f"{runs} for it{which} ({named}){kept}{_spared(msgspec.json.decode(order.spared))}"
        case Code.LEFT:
            runs = "1 run has left" if order.victims == 1 else f"{order.victims} runs have left"
            text, remedy = f"{runs} for it{which} ({named}){kept}", Remedy(WAIT, "it is placed next")
        case Code.DEFERRED:
            code, until_ms = Code.DEFERRED, order.spared_until_ms
            text = f"the SLA of a job allows no preemption now ({named})"
            text += f"; they aren't asked again before {at(until_ms)}" if detail else ""
        case _:
            return None
    numbers = {"order": order.number, "round": order.round, "from_jobs": victims, "pool": order.for_pool}
    numbers |= {"hosts": msgspec.json.decode(order.host_ids), "until": at(until_ms)}
    return Reason(code, text, "entitlement", order.at_ms, remedy, numbers=numbers)


def _spared(spared: dict[str, int]) -> str:
    parts = (f"{count} {code}" for code, count in spared.items())
    return f"; spared on these hosts: {', '.join(parts)}" if spared else ""


def alternative_text(alternative: int | None, passed: Sequence[str]) -> str:
    """Says by which of several requests tasks are to have their place, and why not by those before it; empty: they
    have only one.
    """
    if alternative is None or alternative < 0:
        return ""
    before = ", ".join(f"{at}: {code}" for at, code in enumerate(passed))
    return f" by alternative {alternative} of any_of{f' ({before})' * bool(before)}"


def by_alternative(row: ExplanationRow | None) -> str:
    """The same of the last plan of a job or the last hosts that were reserved for it; None: there are none."""
    numbers: Json = msgspec.json.decode(row.numbers) if row is not None else {}
    return alternative_text(numbers.get("alternative"), numbers.get("passed", ()))


def of_reservation(row: ReservationRow, need: Amounts, kinds: Kinds, becomes: str, which: str = "") -> Reason:
    """Hosts that are reserved for a gang. `need`: that of a task, empty where it may have another; `becomes`: what
    becomes of it by itself; `which`: by which alternative it is to have its place.
    """
    hosts: list[str] = msgspec.json.decode(row.host_ids)
    named = listed(hosts, NAMED)
    one = len(hosts) == 1
    text = f"{'host' if one else 'hosts'} {named} {'is' if one else 'are'} reserved for {count_tasks(row.count)}{which}"
    kept = amounts_in(row.kept)
    lacks = {name: max(0, row.count * each - kept.get(name, 0)) for name, each in need.items()}
    lacks = {name: each for name, each in lacks.items() if name not in kinds.licences}
    short = f", short of {amounts(lacks, kinds)}" if any(lacks.values()) else ""
    text += f", {amounts(kept, kinds)} kept there so far{short}; given up at {at(row.until_ms)}"
    numbers = {"tasks": row.count, "round": row.round, "hosts": hosts, "until": at(row.until_ms)}
    remedy = remedy_of(Code.HOSTS_RESERVED, becomes)
    return Reason(Code.HOSTS_RESERVED, text, "placement", row.since_ms, remedy, numbers=numbers)


def of_refusal(row: ExplanationRow, kinds: Kinds) -> Reason:
    """A preemption was refused: one of the victims may stay."""
    numbers: Json = msgspec.json.decode(row.numbers)
    victim = numbers.get("victim_job_id")
    text = f"others were asked to leave for {count_tasks(row.tasks)}, and stay"
    if victim:
        why = kind_of(row.code).stays or row.code
        text += f": task {numbers['victim_instance']} of job {victim}, {why}"
    wanted, free = numbers.get("wanted") or {}, numbers.get("free") or {}
    if wanted:
        text += f" ({amounts(wanted, kinds)} wanted, {amounts(free, kinds)} may be taken)"
    fields = {"tasks": row.tasks, "round": row.round, "from_jobs": {victim: 1} if victim else None}
    return Reason(row.code, text, row.machine, row.since_ms, numbers=fields)


def what_becomes(job: JobRow, claims: int, detail: Detail | None, situation: Situation) -> str:
    """The future of admitted tasks without a place, beside that others end."""
    if detail is None or any(not order.answer for order in situation.orders):
        return ""
    settings = detail.settings
    if not claims:
        wait = write_ms(settings.placement_patience_ms)
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
