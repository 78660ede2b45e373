"""The reasons why units wait, told for all of them: by pool, class, shape and code, whenever one of these changes.

The first of a class that isn't entitled is told its refusal; those behind it that they are behind; units that can't be
admitted whoever leaves are told that, wherever they stand. Only what has changed is told, part by part.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from events.codes import Code
from events.records.base import Event
from events.records.entitlement import GangsHeld
from events.resources import Amounts, Vector
from events.work_classes import CONTROLLERS, FIRM
from processors.entitlement.admission.admit import Admissions, Head
from processors.entitlement.admission.pass_usage import PassUsage
from processors.entitlement.bounds import (
    ENTITLEMENT,
    LIMIT_ABOVE,
    Ask,
    Refusal,
    bound_of,
    check,
    with_numbers,
)
from processors.entitlement.lasting_refusals import refused_for_good
from processors.entitlement.queues.parts import GANG, ROLES, Consumer, Form, PartKey, range_columns
from processors.entitlement.rows import JobRow, RefusalRow
from processors.entitlement.state import State
from processors.state.causes import recorded
from processors.state.steps import Pass


class Group(NamedTuple):
    """Parts that are told one reason, in one record."""

    kind: int
    form: Form
    why: Refusal


class Explanations:
    """Decides GangsHeld."""

    def __init__(self, state: State, admissions: Admissions) -> None:
        self._state = state
        self._queues = state.queues
        self._order = state.order
        self._pools = state.pools
        self._admissions = admissions
        self._settled = state.marks.of(Consumer.REASONS)

    def decide(self, this: Pass) -> list[Event]:
        """Return the reasons that are new in pools that were looked at."""
        out, budget = list[Event](), this.budget.left
        self._admissions.reword()
        for pool in sorted(self._settled):
            if budget <= 0:
                break
            reasons = self.of(pool, self._admissions.heads.get(pool, ()), budget)
            budget -= sum(len(event.job) // 4 for event in reasons)
            out += reasons
            if not reasons:
                del self._settled[pool]
        return out

    def of(self, pool: str, heads: Sequence[Head], budget: int) -> list[GangsHeld]:
        """Return the reasons that are new in a pool, of so many parts at most; `heads`: those that block others."""
        groups: dict[Group, list[PartKey]] = {}
        first = {head.part: head.why for head in heads}
        for part in self._candidates(pool, heads):
            if budget <= 0:
                break
            row = self._queues.jobs[part.job_id]
            why = self._why(pool, part, row, first)
            if why is None or row.parts[part.key].refusal == RefusalRow(why.code, why.at):
                continue
            group = Group(self._queues.kind(row, part.key), self._queues.form(row, part.key), why)
            groups.setdefault(group, []).append(part)
            budget -= 1
        return [self._record(pool, group, parts) for group, parts in groups.items()]

    def _candidates(self, pool: str, heads: Sequence[Head]) -> Iterator[PartKey]:
        """The parts that may have to be told another reason."""
        queue = self._order[pool]
        news = [head.part for head in heads]
        yield from dict.fromkeys([*news, *(part for _, part in (*queue.told, *queue.untold))])

    def _why(self, pool: str, part: PartKey, row: JobRow, first: dict[PartKey, Refusal]) -> Refusal | None:
        """Why a part waits; None: it doesn't."""
        key = part.key
        code = row.parts[key].returned
        if code:
            return Refusal(Code(code), "/")
        if self._order.is_refused(part):
            kind, need = self._queues.kind(row, key), self._queues.unit_need(row, key)
            return refused_for_good(self._pools, self._state.cell, pool, kind, need, self._queues.task_needs(row, key))
        if not self._order.waits(part):
            return None
        why = first.get(part) or Refusal(Code.BEHIND_IN_QUEUE, pool)
        if why.code != ENTITLEMENT.code:
            return why
        # A limit above may be why its pool has no larger entitlement: then that is what can be changed.
        ask = Ask(pool, self._queues.kind(row, key), row.priority, self._queues.unit_need(row, key))
        return check(PassUsage(self._state), ask, (LIMIT_ABOVE,)) or why

    def _record(self, pool: str, group: Group, parts: list[PartKey]) -> GangsHeld:
        job_id, key = parts[0]
        row = self._queues.jobs[job_id]
        usage, at = PassUsage(self._state), group.why.at
        ask = Ask(pool, group.kind, row.priority, self._queues.unit_need(row, key))
        refusal = with_numbers(usage, group.why, ask)
        is_new = row.parts[key].refusal is None
        return GangsHeld.pack(
            pool=pool,
            at=at,
            code=refusal.code,
            firm=group.kind & FIRM > 0,
            controllers=group.kind & CONTROLLERS > 0,
            **self._ranges(parts),  # type: ignore[arg-type]
            asked=self._amounts(refusal.need),
            allocated=self._amounts(refusal.usage),
            entitlement=self._amounts(usage.entitlement(at)) if at in self._pools else {},
            limit=bound_of(refusal.code).told_limit(usage, at, ask, self._queues.kinds) if at in self._pools else {},
            largest=self._largest(self._queues.task_needs(row, key)),
            cause=None if is_new else recorded(self._state.cell.last_by),
        )

    def _amounts(self, vector: Sequence[int]) -> Amounts:
        return self._queues.kinds.amounts(vector)

    def _largest(self, tasks: list[Vector]) -> Amounts:
        """The most that one host has of kinds of which none has enough for one of these tasks."""
        lacks: dict[int, int] = {}
        for need in tasks:
            lacks |= self._state.cell.lacks(need)
        return {self._queues.kinds.names[kind]: most for kind, most in sorted(lacks.items())}

    def _ranges(self, parts: list[PartKey]) -> dict[str, object]:
        queues, units = self._queues, []
        for job_id, key in parts:
            row = queues.jobs[job_id]
            units.append((job_id, row.base, key % ROLES == GANG, queues.slots(row, key, "queued")))
        return range_columns(units, queues.arena["queued"], range(len(parts)))[0]
