"""Which tasks were ordered to leave, and what became of that: pools wait for it, and jobs are spared for a while."""

from typing import Any

from events.columns import I32, I64, distinct, ints
from events.records.entitlement import PreemptionsOrdered
from events.records.lifecycle import PreemptionAnswered, RunsAvailable
from events.resources import add
from processors.entitlement.queues import Queues
from processors.entitlement.rows import DEFERRED, ORDERED, WEIGHED, PoolRow
from processors.state.arena import locate
from processors.state.causes import CurrentInput
from processors.state.table import Table


class LeavingRuns:
    """Follows orders to leave. A job whose SLA has deferred one gives nothing until a task of it becomes available."""

    def __init__(self, queues: Queues, pools: Table[str, PoolRow], current: CurrentInput) -> None:
        self._queues = queues
        self._pools = pools
        self._current = current

    def ordered(self, event: PreemptionsOrdered, now: int) -> None:
        """Runs were ordered to leave."""
        slots, run = self._located(event)
        self._queues.arena.set("leaving", slots, run)
        for job_id in event.job_ids:
            if job_id in self._queues.jobs:
                self._queues.jobs.change(job_id).preempting = ORDERED
        if not event.partial:
            self._pools.change(event.for_pool).starving_ms = now

    def answered(self, event: PreemptionAnswered, now: int) -> None:
        """The runs named stay: sla would not have them leave now. Others of their jobs would have to stay too, unless
        a task of the job has become available since the order: then it can be tried again.
        """
        arena, queues = self._queues.arena, self._queues
        slots, run = self._located(event)
        stay = slots[arena["leaving"][slots] == run]
        arena.set("leaving", stay, 0)
        for base in distinct(arena["owner"][stay] - 1).tolist():
            if queues.jobs[queues.at[base]].preempting == ORDERED:
                queues.jobs.change(queues.at[base]).preempting = DEFERRED
        if len(stay):  # a pool may have been weighed while these were thought to leave
            self._weigh_anew(now)

    def available(self, event: RunsAvailable, now: int) -> None:
        """Tasks became available: their jobs can give again, and pools that nobody could give anything look anew."""
        again = False
        for job_id in event.job_ids:
            row = self._queues.jobs.get(job_id)
            if row is not None and row.preempting:
                again |= row.preempting == DEFERRED
                self._queues.jobs.change(job_id).preempting = 0
        if again:
            self._weigh_anew(now)

    def _weigh_anew(self, now: int) -> None:
        for pool, row in self._pools.items():
            if row.starving_ms == WEIGHED:
                self._pools.change(pool).starve(now, self._current.cause)

    def starve(self, now: int) -> None:
        """Notes which pools have been below their reservation with work waiting, and since when."""
        for pool, row in self._pools.items():
            lines = (self._queues.allocation, self._queues.waiting, self._queues.non_preemptible_waiting)
            held_, waits, strict = (line.get(pool, self._queues.nothing) for line in lines)
            waits = add(waits, strict)
            below = any(want and have < most for want, have, most in zip(waits, held_, row.reservation, strict=True))
            if below and row.starving_ms <= 0:
                self._pools.change(pool).starve(now, self._current.cause)
            elif not below and row.starving_ms:
                self._pools.change(pool).starve(0, None)

    def _located(self, event: Any) -> tuple[I64, I32]:
        slots, known = locate(event.job_ids, event.job, event.instance, self._queues.stretch)
        return slots[known], ints(event.run)[known]
