"""Reasons of entitlement: the pool that says no to tasks that wait for admission, with its numbers, and what helps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from events.codes import Code
from events.quantities import write_amounts
from events.reasons import HOST, OPERATOR, POOL_OWNER, WAIT, YOU, kind_of
from events.resources import REVOCABLE, Amounts, Kinds, in_order
from events.words import plural
from paceline.client.json_type import Json
from projections.queries.backoff_reasons import again
from projections.queries.placement_reasons import of_row
from projections.queries.reason import Reason, Remedy, count_tasks, counted, text_of
from projections.queries.sentences import amount, amounts, beyond, bound_text, short
from projections.queries.situations import Detail, Situation, Wait
from projections.record_json import at
from projections.views.rows import ExplanationRow, JobRow, amounts_in
from projections.views.sharing_rows import WaitReasonRow

RESERVED_SHOWN = 3
RESERVED = Remedy(POOL_OWNER, "ask for less, or have reservations changed; it goes on when these pools want less")
OWN_JOB = Remedy(WAIT, "it goes on when tasks of the job end")
OWN_WORK = Remedy(WAIT, "it goes on when tasks of that pool end; a higher priority goes first")


class Denial(NamedTuple):
    """Tasks of a job that entitlement doesn't admit, and the numbers of that."""

    job: JobRow
    wait: Wait
    hold: WaitReasonRow
    numbers: Mapping[str, Any]
    kinds: Kinds
    detail: Detail | None
    beyond_the_cell: bool
    """Whether it never fits since the whole cell has less; otherwise no host has enough for a task."""

    @property
    def asked(self) -> Amounts:
        """The amounts that are requested."""
        return self.numbers["asked"]  # type: ignore[no-any-return]

    @property
    def allocated(self) -> Amounts:
        """The amounts that the pool holds."""
        return self.numbers["allocated"]  # type: ignore[no-any-return]

    @property
    def limit(self) -> Amounts:
        """The limit of the pool, for the resources that have one."""
        return self.numbers["limit"]  # type: ignore[no-any-return]

    @property
    def entitlement(self) -> Amounts:
        """The entitlement of the pool, for each resource that is requested."""
        return {name: self.numbers["entitlement"].get(name, 0) for name in in_order(self.asked)}

    def say(self, text: str, **words: str) -> str:
        """A sentence about the tasks and the pool that says no."""
        return text.format_map({**counted(self.wait.tasks), "pool": self.hold.at, **words})

    def amounts(self, of: Mapping[str, int]) -> str:
        """Amounts in words."""
        return amounts(of, self.kinds)

    def use_of(self, bound: Amounts) -> str:
        """The use of a bound, and the request that goes beyond it."""
        names = beyond(self.asked, self.allocated, bound)
        return bound_text(names, self.asked, self.allocated, bound, self.kinds)

    def reason(self, text: str, remedy: Remedy | None = None, code: str = "", **numbers: Any) -> Reason:
        """The reason in a sentence. `remedy`: None for that of the code; `numbers` that aren't entitlement's."""
        hold, detail, tasks = self.hold, self.detail, self.wait.tasks
        since_ms = detail.since.get(hold.number, 0) * 1000 if detail else 0
        numbers |= {"tasks": tasks, "round": hold.round, "pool": hold.at, **self._numbers()}
        return Reason(code or hold.code, text, "entitlement", since_ms, remedy, tasks, numbers)

    def _numbers(self) -> Json:
        names = kind_of(self.hold.code).numbers + ("entitlement",) * self.beyond_the_cell
        values = {name: self.numbers["limit" if name == "reserved" else name] for name in names}
        written = {name: write_amounts(value, self.kinds.units) for name, value in values.items() if value}
        return {**written, "not_before": at(self.numbers.get("not_before_ms", 0))}


def of_wait(
    job: JobRow,
    wait: Wait,
    hold: WaitReasonRow,
    situation: Situation,
    unplaced: Sequence[ExplanationRow],
    kinds: Kinds,
    detail: Detail | None,
) -> Iterator[Reason]:
    """Why tasks aren't admitted. `unplaced`: what placement says of tasks, which counts for those it gave back."""
    numbers: Json = msgspec.json.decode(hold.numbers)
    placements = _given_back(hold.code, unplaced)
    for row in placements:
        reason = of_row(row, wait.tasks, kinds, taint=situation.taint)
        which = detail.instances.get(hold.number) if detail else ""
        yield reason._replace(text=f"instance{'s' * (not which.isdigit())} {which}: {reason.text}") if which else reason
    if placements and hold.code != Code.BACKOFF:
        return
    numbers = _as_now(numbers, situation.shares.get(hold.at))
    beyond_the_cell = hold.code == Code.NEVER_FITS and _is_beyond(numbers["asked"], numbers["entitlement"])
    denial = Denial(job, wait, hold, numbers, kinds, detail, beyond_the_cell)
    if hold.code == Code.BEHIND_IN_QUEUE and situation.unmet:
        text = "{tasks} ask{s} for hosts that the cell doesn't have ({unmet}), and wait{s} behind others in the queue"
        yield denial.reason(denial.say(text, unmet=situation.unmet), code=Code.CONSTRAINT_MISMATCH)
        return
    text = text_of(hold.code, {**counted(wait.tasks), "pool": hold.at})
    more = _MORE.get(hold.code)
    yield more(denial, text) if more else denial.reason(text)


def _given_back(code: str, unplaced: Sequence[ExplanationRow]) -> Sequence[ExplanationRow]:
    """The reasons of placement for which entitlement holds what was given back. It says NEVER_FITS by itself too, and
    an older reason of placement says nothing of that.
    """
    if kind_of(code).waits != HOST:
        return ()
    return [row for row in unplaced if row.code == code] if code == Code.NEVER_FITS else unplaced


def _is_beyond(want: Amounts, entitlement: Amounts) -> bool:
    return bool(entitlement) and bool(short(want, {name: entitlement.get(name, 0) for name in want}))


def _as_now(numbers: Json, share: Mapping[str, Amounts] | None) -> Json:
    """The numbers of a reason, with what its pool may use and holds now, as long as these say no too: entitlement says
    a reason again only when it is another one.
    """
    now = {**numbers, **(share or {})}
    may = {name: now["entitlement"].get(name, 0) for name in numbers["asked"]}
    still = any(beyond(numbers["asked"], now["allocated"], bound) for bound in (may, numbers["limit"]))
    return now if still else numbers


def _limit(denial: Denial, text: str) -> Reason:
    asked, limit, kinds = denial.asked, denial.limit, denial.kinds
    over = short(asked, limit)
    if denial.hold.at == "/":
        return _licences(denial)
    if not over:
        return denial.reason(text + denial.use_of(limit))
    text = denial.say("{tasks} ask{s} for more than the limit of pool {pool}, and can never run")
    parts = (
        f"{amount(name, asked[name], kinds)} asked, the limit is {amount(name, limit[name], kinds)}" for name in over
    )
    text += f" ({'; '.join(parts)})"
    if largest := denial.numbers.get("largest"):
        need = {name: amounts_in(denial.job.need).get(name, asked[name]) for name in largest}
        text += f"; no host has {denial.amounts(need)} either, the largest has {denial.amounts(largest)}"
    return denial.reason(text, Remedy(YOU, "ask for less, or have the limit raised"))


def _licences(denial: Denial) -> Reason:
    """The root has no other limits than the licences of the cell."""
    over = short(denial.asked, denial.limit)
    names = over or beyond(denial.asked, denial.allocated, denial.limit)
    text = "{tasks} ask{s} for more licences than the cell has" if over else "{tasks} wait{s} for licences of the cell"
    change = f"add some with `paceline cell set {' '.join(f'--licence {name}=N' for name in names)}`"
    change += "" if over else ", or wait until some are given back"
    told = bound_text(names, denial.asked, denial.allocated, denial.limit, denial.kinds)
    return denial.reason(denial.say(text) + told, Remedy(OPERATOR, change))


def _reservation(denial: Denial, text: str) -> Reason:
    some = {name: denial.limit.get(name, 0) for name in in_order(denial.asked)}
    return denial.reason(
        f"{text} ({denial.amounts(denial.asked)} asked, {denial.amounts(some)} reserved for all such work)"
    )


def _controllers(denial: Denial, text: str) -> Reason:
    if denial.detail is not None and denial.detail.spec is not None:
        may = denial.amounts(denial.entitlement)
        text += f" ({denial.detail.spec.controllers_percent} % of {may}; {denial.amounts(denial.asked)} asked)"
    return denial.reason(text)


def _slack(denial: Denial, text: str) -> Reason:
    if not denial.limit.get(REVOCABLE):
        text = denial.say("{tasks} wait{s}: no host lends CPU to pool {pool} now")
        return denial.reason(text)
    return denial.reason(text + denial.use_of(denial.limit))


def _closed(denial: Denial, text: str) -> Reason:
    kind = kind_of(denial.hold.code)
    return denial.reason(text, Remedy(kind.actor, denial.say(kind.remedy)))


def _entitled(denial: Denial, text: str) -> Reason:
    """The pool holds what it may use: its own work, or it may use too little for this."""
    job, asked, bound, detail = denial.job, denial.asked, denial.entitlement, denial.detail
    large = short(asked, bound)
    if large:
        text = denial.say("{tasks} wait{s}: the entitlement of pool {pool} is less than is asked")
        text += _against(denial, large)
        reserved = _reserved(denial, large, detail) if detail else ""
        return denial.reason(text + reserved, RESERVED) if reserved else denial.reason(f"{text}; others use the rest")
    names = beyond(asked, denial.allocated, bound) or list(asked)
    holders = detail.holders.get(denial.hold.at) if detail else None
    if detail and holders and holders[0][0] == job.job_id and job.pool == denial.hold.at:
        own = denial.amounts({name: holders[0][1].get(name, 0) for name in names})
        may = denial.amounts({name: bound[name] for name in names if name in bound})
        text = denial.say(
            "{tasks} wait{s}: this job holds {own} of the {may} that pool {pool} may use", own=own, may=may
        )
        if detail.admitted:
            need = denial.amounts({name: detail.admitted * amounts_in(job.need).get(name, 0) for name in names})
            text += f", {need} of it for {count_tasks(detail.admitted)} admitted before, without hosts yet"
        return denial.reason(text, OWN_JOB)
    text = denial.say(kind_of(Code.ENTITLEMENT_REACHED).sentence) + denial.use_of(bound)
    if holders:
        text += f"; most by {', '.join(_holder(denial, job_id, each, names) for job_id, each in holders)}"
    return denial.reason(text, OWN_WORK)


def _reserved(denial: Denial, names: list[str], detail: Detail) -> str:
    """The demand of other pools within their reservations, where these leave too little; empty: they leave enough."""
    others = detail.reserved.get(denial.hold.at, {})
    reserved = {name: sum(each.get(name, 0) for each in others.values()) for name in names}
    small = [
        name for name in names if reserved[name] and detail.shared.get(name, 0) - reserved[name] < denial.asked[name]
    ]
    if not small:
        return ""
    most = sorted(others.items(), key=lambda each: (-each[1].get(small[0], 0), each[0]))[:RESERVED_SHOWN]
    pools = (f"{path} {denial.amounts({name: each.get(name, 0) for name in small})}" for path, each in most)
    rest = {name: max(0, detail.shared.get(name, 0) - reserved[name]) for name in small}
    return f"; other pools use their reservations ({', '.join(pools)}), which leaves {denial.amounts(rest)} at most"


def _saving(denial: Denial, text: str) -> Reason:
    detail, bound = denial.detail, denial.entitlement
    if detail is not None and detail.turn is not None:
        text = "{tasks} need{s} more than the share of pool {pool}; job {job} has its turn now"
        return denial.reason(denial.say(text, job=detail.turn.job_id), Remedy(WAIT, "it saves for the next turn"))
    large = short(denial.asked, bound)
    if not large:
        return _entitled(denial, text)
    text += _against(denial, large)
    if detail is None or detail.credit is None:
        return denial.reason(text)
    suffices_ms = detail.credit.suffices_ms()
    if suffices_ms is None:
        why = "its own work uses its share" if any(bound.values()) else "others are entitled to all there is"
        return denial.reason(f"{text}; it saves nothing now, since {why}")
    until = at(suffices_ms)
    return denial.reason(f"{text}; that suffices at {until}", until=until)


def _behind(denial: Denial, text: str) -> Reason:
    before = denial.detail.ahead.get(denial.hold.number) if denial.detail else None
    if before is None or not before.jobs:
        return denial.reason(denial.say(kind_of(denial.hold.code).sentence, pool=denial.hold.pool))
    text = "{tasks} wait{s} behind {ahead} of {jobs} in the queue of pool {pool}; first is job {first} ({code})"
    text = denial.say(
        text,
        ahead=plural(before.tasks, "other"),
        jobs=plural(before.jobs, "job"),
        pool=denial.hold.pool,
        first=before.first,
        code=before.code,
    )
    return denial.reason(text, ahead=before.tasks, jobs_ahead=before.jobs)


def _host_pools(denial: Denial, text: str) -> Reason:
    """The host pools of the pool hold too little, or others have their part of that."""
    names = [name for name in denial.asked if name in denial.limit]
    have, may, use = (
        denial.amounts({name: of.get(name, 0) for name in names})
        for of in (denial.limit, denial.entitlement, denial.allocated)
    )
    return denial.reason(f"{text} ({have}; the pool may use {may} of it and holds {use})" if names else text)


def _never_fits(denial: Denial, text: str) -> Reason:
    """No host has enough for one task, or the whole cell has less than is asked."""
    if denial.beyond_the_cell:
        return _beyond_the_cell(denial)
    largest = denial.numbers.get("largest") or {}
    return denial.reason(f"{text}; the largest has {denial.amounts(largest)}" if any(largest.values()) else text)


def _beyond_the_cell(denial: Denial) -> Reason:
    """No larger host helps where that is a licence."""
    kinds, bound = denial.kinds, denial.entitlement
    large = short(denial.asked, bound)
    licences = [name for name in large if name in kinds.licences]
    ways = [f"raise the licence {', '.join(licences)}"] if licences else []
    ways += ["add hosts"] if len(large) > len(licences) or not licences else []
    parts = (
        f"{amount(name, denial.asked[name], kinds)} asked, the cell has {amount(name, bound[name], kinds)}"
        for name in large
    )
    text = denial.say("{tasks} ask{s} for more than the whole cell has")
    on_hosts = {name: denial.numbers.get("largest", {}).get(name, 0) for name in large if name not in licences}
    largest = f"; the largest host has {denial.amounts(on_hosts)}" if any(on_hosts.values()) else ""
    return denial.reason(f"{text} ({'; '.join(parts)}){largest}", Remedy(YOU, f"ask for less, or {' and '.join(ways)}"))


def _against(denial: Denial, names: list[str]) -> str:
    """The request beside the entitlement of the pool."""
    asked, bound, kinds = denial.asked, denial.entitlement, denial.kinds
    parts = (f"{amount(name, asked[name], kinds)} asked, {amount(name, bound[name], kinds)} for it" for name in names)
    return f" ({'; '.join(parts)})" if names else ""


def _holder(denial: Denial, job_id: str, holds: Amounts, names: list[str]) -> str:
    who = "this job itself" if job_id == denial.job.job_id else f"job {job_id}"
    return f"{who}: {denial.amounts({name: holds.get(name, 0) for name in names})}"


_MORE: dict[str, Callable[[Denial, str], Reason]] = {
    Code.LIMIT_REACHED: _limit,
    Code.RESERVATION_REACHED: _reservation,
    Code.CONTROLLER_LIMIT_REACHED: _controllers,
    Code.POOL_CLOSED: _closed,
    Code.SLACK_REACHED: _slack,
    Code.ENTITLEMENT_REACHED: _entitled,
    Code.SAVING_FOR_TURN: _saving,
    Code.SHARE_OF_NOTHING: lambda denial, text: denial.reason(text + denial.use_of(denial.entitlement)),
    Code.HOST_POOLS_FULL: _host_pools,
    Code.HOST_POOLS_TOO_SMALL: _host_pools,
    Code.BEHIND_IN_QUEUE: _behind,
    Code.NEVER_FITS: _never_fits,
    Code.BACKOFF: lambda denial, text: denial.reason(text, again(denial.wait.tasks)),
}
"""By code, what its sentence says beside the words of `events/reasons.py`."""
