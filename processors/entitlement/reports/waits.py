"""Why units wait, said of all of them: by pool, class, shape and code, whenever one of these changes.

The first of a class that isn't entitled hears why; those behind it that they are behind; those that can't be admitted
whoever leaves hear that, wherever they stand. Said is what has changed, part by part, so it costs what has changed.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from events.codes import Code
from events.records.entitlement import GangsHeld
from events.resources import Amounts, Vector
from processors.entitlement.admission.admit import Head
from processors.entitlement.admission.pass_usage import PassUsage
from processors.entitlement.bounds import (
    LIMIT_ABOVE,
    Ask,
    Refusal,
    bound_of,
    check,
    refused_for_good,
    with_numbers,
)
from processors.entitlement.queues.parts import CONTROLLERS, FIRM, GANG, ROLES, Form, PartKey, range_columns
from processors.entitlement.rows import JobRow, RefusalRow
from processors.entitlement.state import State
from processors.state.causes import recorded


class Group(NamedTuple):
    """What is said in one record."""

    kind: int
    form: Form
    why: Refusal


class Explanations:
    """Finds what is to be said of the gangs of pools."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._queues = state.queues
        self._order = state.order
        self._usage = state.usage
        self._pools = state.pools

    def of(self, pool: str, heads: Sequence[Head], budget: int) -> list[GangsHeld]:
        """What is to be said of a pool, of so many parts at most; `heads`: those that block others, and why
        they wait.
        """
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
        """The parts of which something else may be to say than was said."""
        lines = self._order[pool]
        news = [head.part for head in heads]
        yield from dict.fromkeys([*news, *(part for _, part in (*lines.told, *lines.untold))])

    def _why(self, pool: str, part: PartKey, row: JobRow, first: dict[PartKey, Refusal]) -> Refusal | None:
        """Why a part waits; None: it doesn't."""
        lines, key = self._order, part.key
        code = row.parts[key].returned
        if code:
            return Refusal(Code(code), "/")
        if lines.is_refused(part):
            levels, kind = self._usage.levels(pool), self._queues.kind(row, key)
            need, tasks = self._queues.unit_need(row, key), self._queues.task_needs(row, key)
            return refused_for_good(self._pools, self._state.cell, levels, kind, need, tasks)
        if not lines.waits(part):
            return None
        why = first.get(part) or Refusal(Code.BEHIND_IN_QUEUE, pool)
        if why.code != Code.ENTITLEMENT_REACHED:
            return why
        ask = Ask(pool, self._queues.kind(row, key), row.priority, self._queues.unit_need(row, key))
        return check(PassUsage(self._state), ask, (LIMIT_ABOVE,)) or why  # that leaves it no larger entitlement

    def _record(self, pool: str, group: Group, parts: list[PartKey]) -> GangsHeld:
        job_id, key = parts[0]
        row = self._queues.jobs[job_id]
        usage, at = PassUsage(self._state), group.why.at
        refusal = with_numbers(usage, group.why, Ask(pool, group.kind, row.priority, self._queues.unit_need(row, key)))
        is_new = row.parts[key].refusal is None
        return GangsHeld.pack(
            pool=pool,
            at=at,
            code=refusal.code,
            firm=group.kind & FIRM > 0,
            controllers=group.kind & CONTROLLERS > 0,
            **self._ranges(parts),  # type: ignore[arg-type]
            asked=self._amounts(refusal.asked),
            allocated=self._amounts(refusal.held),
            entitlement=self._amounts(usage.entitlement(at)) if at in self._pools else {},
            limit=bound_of(refusal.code).told_limit(usage, at, self._queues.kinds) if at in self._pools else {},
            largest=self._largest(self._queues.task_needs(row, key)),
            cause=None if is_new else recorded(self._state.cell.last_by),
        )

    def _amounts(self, vector: Sequence[int]) -> Amounts:
        return self._queues.kinds.amounts(vector)

    def _largest(self, tasks: list[Vector]) -> Amounts:
        """Of kinds of which no host has enough for one of these tasks the most that one has."""
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
