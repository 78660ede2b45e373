"""Why units wait, said of all of them: by pool, class, shape and code, whenever one of these changes.

The first of a class that isn't entitled hears why; those behind it that they are behind; those that can't be admitted
whoever leaves hear that, wherever they stand. Said is what has changed, part by part, so it costs what has changed.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from events.codes import Code
from events.columns import Names, pack_ints
from events.records.entitlement import GangsHeld
from events.resources import Amounts, Vector, add
from processors.entitlement.admission import Head, Rooms
from processors.entitlement.limit_holds import LimitHolds
from processors.entitlement.parts import CONTROLLERS, FIRM, GANG, ROLES, Form, Part, stretches
from processors.entitlement.queues import Queues
from processors.entitlement.refusals import Refusal, exceeds, refused_for_good
from processors.entitlement.rows import UNLIMITED, CellRow, JobRow, PoolRow, RefusalRow
from processors.entitlement.shares import Shares
from processors.state.causes import recorded
from processors.state.table import Table


class Group(NamedTuple):
    """What is said in one record."""

    kind: int
    form: Form
    why: Refusal


class Explanations:
    """Finds what is to be said of the gangs of pools."""

    def __init__(
        self,
        queues: Queues,
        pools: Table[str, PoolRow],
        cell: Table[str, CellRow],
        shares: Shares,
        holds: LimitHolds,
    ) -> None:
        self._queues = queues
        self._pools = pools
        self._cell = cell
        self._shares = shares
        self._holds = holds

    def of(self, pool: str, heads: Sequence[Head], budget: int) -> list[GangsHeld]:
        """What is to be said of a pool, of so many parts at most; `heads`: those that block others, and why
        they wait.
        """
        groups: dict[Group, list[Part]] = {}
        first = {head.part: head.why for head in heads}
        for part in self._candidates(pool, heads):
            if budget <= 0:
                break
            row = self._queues.jobs[part[0]]
            why = self._why(pool, part, row, first)
            if why is None or row.parts[part[1]].refusal == RefusalRow(why.code, why.at):
                continue
            group = Group(self._queues.kind(row, part[1]), self._queues.form(row, part[1]), why)
            groups.setdefault(group, []).append(part)
            budget -= 1
        return [self._record(pool, group, parts) for group, parts in groups.items()]

    def _candidates(self, pool: str, heads: Sequence[Head]) -> Iterator[Part]:
        """The parts of which something else may be to say than was said."""
        lines = self._queues.lines[pool]
        news = [head.part for head in heads]
        yield from dict.fromkeys([*news, *(part for _, part in (*lines.told, *lines.untold))])

    def _why(self, pool: str, part: Part, row: JobRow, first: dict[Part, Refusal]) -> Refusal | None:
        """Why a part waits; None: it doesn't."""
        lines, key = self._queues.lines, part[1]
        code = row.parts[key].returned
        if code:
            return Refusal(Code(code), "/")
        if lines.is_refused(part):
            levels, kind = self._queues.holdings.levels(pool), self._queues.kind(row, key)
            need, tasks = self._queues.unit_need(row, key), self._queues.task_needs(row, key)
            return refused_for_good(self._pools, self._cell["cell"], levels, kind, need, tasks)
        if not lines.waits(part):
            return None
        why = first.get(part) or Refusal(Code.BEHIND_IN_QUEUE, pool)
        return self._above(pool, row, key) or why if why.code == Code.ENTITLEMENT_REACHED else why

    def _above(self, pool: str, row: JobRow, key: int) -> Refusal | None:
        """The limit above a pool that is reached, and so leaves it no larger entitlement."""
        need, rooms = self._queues.unit_need(row, key), Rooms(self._queues, self._pools, self._holds)
        for level in self._queues.holdings.levels(pool)[1:]:
            if rooms.bounds(level) and exceeds(need, rooms.left(level, pool)):
                return Refusal(Code.LIMIT_REACHED, level)
        return None

    def _record(self, pool: str, group: Group, parts: list[Part]) -> GangsHeld:
        job_id, key = parts[0]
        row = self._queues.jobs[job_id]
        need, at = self._queues.unit_need(row, key), group.why.at
        cell = self._cell["cell"]
        is_new = row.parts[key].refusal is None
        return GangsHeld(
            pool=pool,
            at=at,
            code=group.why.code,
            firm=group.kind & FIRM > 0,
            controllers=group.kind & CONTROLLERS > 0,
            **self._ranges(parts),  # type: ignore[arg-type]
            asked=self._amounts(need),
            allocated=self._amounts(self._held(pool, at, group.why.code)),
            entitlement=self._amounts(self._shares.entitlement(at)) if at in self._pools else {},
            limit=self._limits(at, group.why.code),
            largest=self._largest(self._queues.task_needs(row, key)),
            cause=None if is_new else recorded(cell.last_by),
        )

    def _amounts(self, vector: Sequence[int]) -> Amounts:
        return self._queues.kinds.amounts(vector)

    def _held(self, pool: str, at: str, code: str) -> Vector:
        """What a pool holds of what its limit is about; where that is reached also what is kept under it for others,
        else what is parked too: it counts as entitled.
        """
        holding = self._queues.holdings[at]
        if code == Code.CONTROLLER_LIMIT_REACHED:
            return holding.controllers
        if code == Code.RESERVATION_REACHED:
            return holding.firm
        kept = self._holds.others(pool, at) if code == Code.LIMIT_REACHED else holding.parked
        return holding.allocation if kept is None else add(holding.allocation, kept)

    def _limits(self, at: str, code: str) -> Amounts:
        row = self._pools.get(at)
        if row is None:
            return {}
        if code == Code.CONTROLLER_LIMIT_REACHED:
            return self._amounts([row.controllers_percent * each // 100 for each in self._shares.entitlement(at)])
        if code == Code.RESERVATION_REACHED:
            return self._amounts(row.reservation)
        licences = self._queues.kinds.licences if at == "/" else {}
        return self._queues.kinds.amounts(row.limit, UNLIMITED) | licences

    def _largest(self, tasks: list[Vector]) -> Amounts:
        """Of kinds of which no host has enough for one of these tasks the most that one has."""
        lacks: dict[int, int] = {}
        for need in tasks:
            lacks |= self._cell["cell"].lacks(need)
        return {self._queues.kinds.names[kind]: most for kind, most in sorted(lacks.items())}

    def _ranges(self, parts: list[Part]) -> dict[str, object]:
        queues, names = self._queues, Names()
        slots, jobs, bases, gangs = [], [], [], []
        for job_id, key in parts:
            row = queues.jobs[job_id]
            gang = key % ROLES == GANG
            slots.append(queues.slots(row, key, "queued"))
            jobs.append(names[job_id])
            bases.append(row.base)
            gangs.append(int(gang))
        sizes = [len(each) for each in slots]
        part = np.repeat(np.arange(len(parts)), sizes)
        every = np.concatenate(slots)
        run = queues.arena["queued"][every].astype(np.int64)
        first, count = stretches(every, run, part)
        part = part[first]
        return {
            "job_ids": names.all(),
            "job": pack_ints(np.array(jobs)[part]),
            "first": pack_ints(every[first] - np.array(bases)[part]),
            "count": pack_ints(count),
            "run": pack_ints(run[first]),
            "gang": pack_ints(np.array(gangs)[part]),
        }
