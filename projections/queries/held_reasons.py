"""What entitlement's reasons say: who says no to tasks that wait for admission, with which numbers, and what helps."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from events.codes import Code
from events.resources import Amounts, Kinds, in_order
from projections.queries.sentences import (
    OPERATOR,
    OWN_WORK,
    POOL_OWNER,
    WAIT,
    YOU,
    Remedy,
    amount,
    amounts,
    beyond,
    bound_text,
    count_tasks,
    counted,
    short,
)
from projections.queries.situations import Detail, Wait
from projections.record_json import at
from projections.views.rows import JobRow, amounts_in

Numbers = dict[str, Any]
RESERVED_SHOWN = 3
RESERVED = Remedy(POOL_OWNER, "ask for less, or have reservations changed; it goes on when these pools want less")
OWN_JOB = Remedy(WAIT, "it goes on when tasks of the job end")


class Told(NamedTuple):
    """A sentence, who can act where that isn't said by the code, and numbers that aren't entitlement's."""

    text: str
    remedy: Remedy | None = None
    more: Mapping[str, Any] = MappingProxyType({})


def _limit(job: JobRow, wait: Wait, numbers: Numbers, kinds: Kinds, detail: Detail | None) -> Told:
    asked, limit = numbers["asked"], numbers["limit"]
    words, pool = counted(wait.tasks), _at(wait)
    over = short(asked, limit)
    if _at(wait) == "/":
        return _licences(wait, numbers, kinds)
    if not over:
        names = beyond(asked, numbers["allocated"], limit)
        told = bound_text(names, asked, numbers["allocated"], limit, kinds)
        return Told("{tasks} would exceed the limit of pool {pool}".format(**words, pool=pool) + told)
    text = "{tasks} ask{s} for more than the limit of pool {pool}, and can never run".format(**words, pool=pool)
    parts = (
        f"{amount(name, asked[name], kinds)} asked, the limit is {amount(name, limit[name], kinds)}" for name in over
    )
    text += f" ({'; '.join(parts)})"
    if largest := numbers.get("largest"):
        need = {name: amounts_in(job.need).get(name, asked[name]) for name in largest}
        text += f"; no host has {amounts(need, kinds)} either, the largest has {amounts(largest, kinds)}"
    return Told(text, Remedy(YOU, "ask for less, or have the limit raised"))


def _licences(wait: Wait, numbers: Numbers, kinds: Kinds) -> Told:
    """The root has no other limits than the licences of the cell."""
    asked, held, limit = numbers["asked"], numbers["allocated"], numbers["limit"]
    over = short(asked, limit)
    names = over or beyond(asked, held, limit)
    text = "{tasks} ask{s} for more licences than the cell has" if over else "{tasks} wait{s} for licences of the cell"
    change = f"add some with `paceline cell set {' '.join(f'--licence {name}=N' for name in names)}`"
    change += "" if over else ", or wait until some are given back"
    return Told(
        text.format(**counted(wait.tasks)) + bound_text(names, asked, held, limit, kinds), Remedy(OPERATOR, change)
    )


def _reservation(job: JobRow, wait: Wait, numbers: Numbers, kinds: Kinds, detail: Detail | None) -> Told:
    asked, reserved = numbers["asked"], numbers["limit"]
    some = {name: reserved.get(name, 0) for name in in_order(asked)}
    text = "{tasks} that must not be preempted would exceed the reservation of pool {pool}"
    told = f" ({amounts(asked, kinds)} asked, {amounts(some, kinds)} reserved for all such work)"
    return Told(text.format(**counted(wait.tasks), pool=_at(wait)) + told)


def _controllers(job: JobRow, wait: Wait, numbers: Numbers, kinds: Kinds, detail: Detail | None) -> Told:
    text = "{tasks} wait{s}: controllers hold as much of pool {pool} as they may"
    text = text.format(**counted(wait.tasks), pool=_at(wait))
    if detail is not None and detail.spec is not None:
        may = amounts(_entitlement(numbers), kinds)
        text += f" ({detail.spec.controllers_percent} % of {may}; {amounts(numbers['asked'], kinds)} asked)"
    return Told(text)


def _closed(job: JobRow, wait: Wait, numbers: Numbers, kinds: Kinds, detail: Detail | None) -> Told:
    text = "{tasks} wait{s}: pool {pool} is closed and admits nothing"
    remedy = Remedy(POOL_OWNER, f"open it: `paceline pool open {_at(wait)}`")
    return Told(text.format(**counted(wait.tasks), pool=_at(wait)), remedy)


def _no_pool(job: JobRow, wait: Wait, numbers: Numbers, kinds: Kinds, detail: Detail | None) -> Told:
    text = "{tasks} wait{s} because there is no pool {pool} any more"
    return Told(text.format(**counted(wait.tasks), pool=_at(wait)))


def _entitled(job: JobRow, wait: Wait, numbers: Numbers, kinds: Kinds, detail: Detail | None) -> Told:
    """The pool holds what it may use: its own work, or it may use too little for this."""
    pool, asked, bound = _at(wait), numbers["asked"], _entitlement(numbers)
    words = counted(wait.tasks)
    large = short(asked, bound)
    if large:
        text = "{tasks} wait{s}: the entitlement of pool {pool} is less than is asked".format(**words, pool=pool)
        text += _against(large, asked, bound, kinds)
        reserved = _reserved(pool, asked, large, kinds, detail) if detail else ""
        return Told(text + reserved, RESERVED) if reserved else Told(f"{text}; others use the rest")
    names = beyond(asked, numbers["allocated"], bound) or list(asked)
    holders = detail.holders.get(pool) if detail else None
    if detail and holders and holders[0][0] == job.job_id and job.pool == pool:
        own = amounts({name: holders[0][1].get(name, 0) for name in names}, kinds)
        may = amounts({name: bound[name] for name in names if name in bound}, kinds)
        text = "{tasks} wait{s}: this job holds {own} of the {may} that pool {pool} may use"
        text = text.format(**words, own=own, may=may, pool=pool)
        if detail.admitted:
            need = {name: detail.admitted * amounts_in(job.need).get(name, 0) for name in names}
            text += (
                f", {amounts(need, kinds)} of it for {count_tasks(detail.admitted)} admitted before, without hosts yet"
            )
        return Told(text, OWN_JOB)
    text = "{tasks} wait{s}: pool {pool} uses all that it may".format(**words, pool=pool)
    text += _held_of(numbers, bound, kinds)
    if holders:
        text += f"; most by {', '.join(_holder(job, job_id, held, names, kinds) for job_id, held in holders)}"
    return Told(text, OWN_WORK)


def _reserved(pool: str, asked: Amounts, names: list[str], kinds: Kinds, detail: Detail) -> str:
    """What other pools want of their reservations, where these leave too little; empty: they leave enough."""
    others = detail.reserved.get(pool, {})
    taken = {name: sum(each.get(name, 0) for each in others.values()) for name in names}
    small = [name for name in names if taken[name] and detail.shared.get(name, 0) - taken[name] < asked[name]]
    if not small:
        return ""
    most = sorted(others.items(), key=lambda each: (-each[1].get(small[0], 0), each[0]))[:RESERVED_SHOWN]
    named = (f"{path} {amounts({name: each.get(name, 0) for name in small}, kinds)}" for path, each in most)
    left = {name: max(0, detail.shared.get(name, 0) - taken[name]) for name in small}
    return f"; other pools use their reservations ({', '.join(named)}), which leaves {amounts(left, kinds)} at most"


def _saving(job: JobRow, wait: Wait, numbers: Numbers, kinds: Kinds, detail: Detail | None) -> Told:
    pool, asked, bound = _at(wait), numbers["asked"], _entitlement(numbers)
    words = counted(wait.tasks)
    if detail is not None and detail.turn is not None:
        text = "{tasks} need{s} more than the share of pool {pool}; job {job} has its turn now"
        return Told(text.format(**words, pool=pool, job=detail.turn.job_id), Remedy(WAIT, "it saves for the next turn"))
    if not short(asked, bound):
        return _entitled(job, wait, numbers, kinds, detail)
    text = "{tasks} need{s} more than the share of pool {pool}, which saves for it".format(**words, pool=pool)
    text += _against(short(asked, bound), asked, bound, kinds)
    if detail is None or detail.credit is None:
        return Told(text)
    full_ms = full_at(*(amounts_in(each) for each in (detail.credit.credit, detail.credit.rate, detail.credit.full)))
    if full_ms is None:
        why = "its own work uses its share" if any(bound.values()) else "others are entitled to all there is"
        return Told(f"{text}; it saves nothing now, since {why}")
    until = at(detail.credit.at_ms + full_ms)
    return Told(f"{text}; that suffices at {until}", None, {"until": until})


def full_at(credit: Amounts, rate: Amounts, full: Amounts) -> int | None:
    """After how many milliseconds credit suffices; None: not as it is now."""
    longest = 0
    for name, most in full.items():
        lacks = most - credit.get(name, 0)
        if lacks > 0:
            if rate.get(name, 0) <= 0:
                return None
            longest = max(longest, -(-lacks // rate[name]))
    return longest


def _nothing(job: JobRow, wait: Wait, numbers: Numbers, kinds: Kinds, detail: Detail | None) -> Told:
    text = "{tasks} wait{s}: pool {pool} has a share of 0, so it is served after all others"
    return Told(text.format(**counted(wait.tasks), pool=_at(wait)) + _held_of(numbers, _entitlement(numbers), kinds))


def _preemption(job: JobRow, wait: Wait, numbers: Numbers, kinds: Kinds, detail: Detail | None) -> Told:
    text = "{tasks} wait{s} for others to leave, pool {pool} is below its reservation"
    return Told(text.format(**counted(wait.tasks), pool=_at(wait)))


def impossible(wait: Wait, conditions: str) -> Told:
    """Tasks wait behind others, and no host meets their conditions."""
    words = counted(wait.tasks)
    text = "{tasks} ask{s} for hosts that the cell doesn't have ({conditions}), and wait{s} behind others in the queue"
    return Told(text.format(**words, conditions=conditions))


def _behind(job: JobRow, wait: Wait, numbers: Numbers, kinds: Kinds, detail: Detail | None) -> Told:
    words = counted(wait.tasks)
    assert wait.hold is not None
    before = detail.ahead.get(wait.hold.number) if detail else None
    if before is None or not before.jobs:
        return Told("{tasks} wait{s} behind others in the queue of pool {pool}".format(**words, pool=wait.hold.pool))
    text = "{tasks} wait{s} behind {ahead} of {jobs} in the queue of pool {pool}; first is job {first} ({code})"
    one = before.jobs == 1
    text = text.format(
        **words,
        ahead=f"{before.tasks} other{'' if before.tasks == 1 else 's'}",
        jobs="1 job" if one else f"{before.jobs} jobs",
        pool=wait.hold.pool,
        first=before.first,
        code=before.code,
    )
    return Told(text, None, {"ahead": before.tasks, "jobs_ahead": before.jobs})


def is_beyond_the_cell(wait: Wait) -> bool:
    """Whether entitlement itself says that it never fits: the whole cell has less."""
    if wait.hold is None or wait.hold.code != Code.NEVER_FITS:
        return False
    numbers = msgspec.json.decode(wait.hold.numbers)
    return bool(numbers["entitlement"]) and bool(short(numbers["asked"], _entitlement(numbers)))


def larger_than_hosts(wait: Wait, numbers: Numbers, kinds: Kinds) -> Told:
    """No host has enough for one task."""
    largest = numbers.get("largest") or {}
    text = "{tasks} fit{s} no host, even when it is empty".format(**counted(wait.tasks))
    return Told(f"{text}; the largest has {amounts(largest, kinds)}" if any(largest.values()) else text)


def beyond_the_cell(wait: Wait, numbers: Numbers, kinds: Kinds) -> Told:
    """More is asked than the whole cell has: no larger host helps where that is a licence."""
    asked, bound = numbers["asked"], _entitlement(numbers)
    large = short(asked, bound)
    licences = [name for name in large if name in kinds.licences]
    ways = [f"raise the licence {', '.join(licences)}"] if licences else []
    ways += ["add hosts"] if len(large) > len(licences) or not licences else []
    parts = (
        f"{amount(name, asked[name], kinds)} asked, the cell has {amount(name, bound[name], kinds)}" for name in large
    )
    text = "{tasks} ask{s} for more than the whole cell has".format(**counted(wait.tasks))
    return Told(f"{text} ({'; '.join(parts)})", Remedy(YOU, f"ask for less, or {' and '.join(ways)}"))


def _at(wait: Wait) -> str:
    assert wait.hold is not None
    return wait.hold.at


def _entitlement(numbers: Numbers) -> Amounts:
    """What the pool may use of each resource that is asked."""
    return {name: numbers["entitlement"].get(name, 0) for name in in_order(numbers["asked"])}


def _held_of(numbers: Numbers, bound: Amounts, kinds: Kinds) -> str:
    names = beyond(numbers["asked"], numbers["allocated"], bound)
    return bound_text(names, numbers["asked"], numbers["allocated"], bound, kinds)


def _against(names: list[str], asked: Amounts, bound: Amounts, kinds: Kinds) -> str:
    """What is asked, and what the pool may use."""
    parts = (f"{amount(name, asked[name], kinds)} asked, {amount(name, bound[name], kinds)} for it" for name in names)
    return f" ({'; '.join(parts)})" if names else ""


def _holder(job: JobRow, job_id: str, held: Amounts, names: list[str], kinds: Kinds) -> str:
    who = "this job itself" if job_id == job.job_id else f"job {job_id}"
    return f"{who}: {amounts({name: held.get(name, 0) for name in names}, kinds)}"


SENTENCES: dict[str, Callable[[JobRow, Wait, Numbers, Kinds, Detail | None], Told]] = {
    Code.LIMIT_REACHED: _limit,
    Code.RESERVATION_REACHED: _reservation,
    Code.CONTROLLER_LIMIT_REACHED: _controllers,
    Code.POOL_CLOSED: _closed,
    Code.NO_SUCH_POOL: _no_pool,
    Code.ENTITLEMENT_REACHED: _entitled,
    Code.SAVING_FOR_TURN: _saving,
    Code.SHARE_OF_NOTHING: _nothing,
    Code.WAITING_FOR_PREEMPTION: _preemption,
    Code.BEHIND_IN_QUEUE: _behind,
}
"""By code; others say what placement says."""
