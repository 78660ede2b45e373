"""The choice of hosts to reserve and of amounts to keep. One decision, on what is free when all who have places are
there.
"""

from collections.abc import Iterator

import numpy as np

from events.codes import Code
from events.ranks import RESERVES
from events.records.placement import HostsReserved
from events.resources import Amounts
from processors.placement.assignment import Assignment, Unplaced
from processors.placement.drains import Ground, drain
from processors.placement.holds import needed
from processors.placement.planner import Seen
from processors.placement.plans import Plans, Task
from processors.placement.reservation_rows import ReservationRow
from processors.placement.reservations import Reservations
from processors.state.budget import Budget
from processors.state.causes import CauseRow, recorded

TRIES_MAX = 8
"""For so many units hosts are looked for in one decision."""


class Reserving:
    """Changes nothing."""

    def __init__(self, seen: Seen, reservations: Reservations, plans: Plans, budget: Budget) -> None:
        self._seen = seen
        self._reservations = reservations
        self._plans = plans
        self._budget = budget

    def kept(self, last_by: CauseRow | None) -> Iterator[HostsReserved]:
        """Says where other amounts are kept than was said last."""
        for task, row in sorted(self._reservations.table.items()):
            own = None if row.over else self._seen.room.own.get(self._slot(task))
            if own is None:
                continue
            amounts = self._seen.hosts.kinds.amounts(own.amounts[:-1].sum(axis=1).tolist())
            if amounts != row.reported and self._budget.holds(len(row.hosts)):
                self._budget.spend(len(row.hosts))
                yield said(task, row, Code.RESERVED, amounts, last_by)

    def new(self, assignment: Assignment, for_ms: int, last_by: CauseRow | None) -> HostsReserved | None:
        """Reserves hosts for the first unit that has waited long enough and may have some."""
        most = int(self._seen.hosts.up.sum()) // 10
        have = self._reservations.hosts_reserved
        if have >= max(1, most):
            return None
        tried: set[object] = set()
        since_s = self._reservations.wait.since_s(self._seen.now)
        for unplaced in assignment.unplaced:
            if unplaced.rank not in RESERVES or unplaced.code is not None or unplaced.parts in tried:
                continue
            task = self._first(assignment, unplaced, since_s)
            if task is None:
                continue
            tried.add(unplaced.parts)
            row = self._row(task, unplaced, self._seen.now + for_ms)
            hosts = len({*row.hosts}) if row else 0
            if row is not None and (not have or have + hosts <= most) and self._budget.holds(hosts):
                self._budget.spend(hosts)
                return said(task, row, Code.RESERVED, row.reported, last_by)
            if len(tried) == TRIES_MAX:
                break
        return None

    def _first(self, assignment: Assignment, unplaced: Unplaced, since_s: int) -> Task | None:
        """The first unit that has waited long enough and has neither plan nor reservation."""
        arena, base = self._seen.runs.arena, unplaced.row.base
        slots = assignment.slots(unplaced)
        for slot in slots[arena["since"][slots] <= since_s].tolist():
            task = (unplaced.tasks.job_id, slot - base)
            if not (
                slot in self._seen.room.own
                or task in self._plans.table
                or task in self._reservations.table
                or self._reservations.is_paused(task, self._seen.now)
            ):
                return task
            if unplaced.gang:
                break
        return None

    def _row(self, task: Task, unplaced: Unplaced, until_ms: int) -> ReservationRow | None:
        """A complete set of hosts for a unit, least to drain first; None: there is none."""
        seen = self._seen
        physical = seen.view.free + seen.view.kept
        ground = Ground(
            physical - needed(seen.hosts, seen.holds),
            seen.hosts.used - seen.victims.services,
            seen.victims.preemptible,
            seen.view.lack_weight,
        )
        parts = [shape.part(tasks) for shape, tasks in unplaced.parts]
        blocked = self._reservations.blocked(seen.now)
        blocked[seen.holds.hosts] = True  # or an older unit would have what others leave for a younger one
        places = drain(ground, parts, blocked)
        if places is None:
            return None
        need = np.zeros_like(physical)
        for host, part, tasks in places:
            need[:, host] += np.array(parts[part].need, dtype=np.int64) * tasks
        amounts = np.minimum(np.maximum(seen.view.free, 0), need)[:-1].sum(axis=1)
        return ReservationRow(
            count=sum(part.size for part in parts),
            run=int(seen.runs.arena["waiting"][self._slot(task)]),
            hosts=[seen.hosts.ids[host] for host, _, _ in places],
            tasks=[tasks for _, _, tasks in places],
            shapes=[part for _, part, _ in places],
            until_ms=until_ms,
            reported=seen.hosts.kinds.amounts(amounts.tolist()),
        )

    def _slot(self, task: Task) -> int:
        return self._seen.runs.jobs[task[0]].base + task[1]


def said(task: Task, row: ReservationRow, state: str, amounts: Amounts, last_by: CauseRow | None) -> HostsReserved:
    """The decision about a reservation."""
    return HostsReserved.pack(
        job_id=task[0],
        first=task[1],
        count=row.count,
        run=row.run,
        host_ids=tuple(row.hosts),
        tasks=row.tasks,
        shape=row.shapes,
        kept=amounts,
        state=state,
        until_ms=row.until_ms,
        cause=recorded(last_by),
    )
