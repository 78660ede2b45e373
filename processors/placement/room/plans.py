"""Plans of preemption: the units for which others leave hosts, and the progress of each (decision 034).

A plan begins with PreemptionAsked and is a row of the room that is kept. Refused, it is dropped, and whoever may not go
isn't asked again for a while. Ordered, its hosts are held until its unit has a place, waits no more, or a time is over.
An order is whole or void.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import numpy as np

from events.codes import Code
from events.columns import I64
from events.records.entitlement import PreemptionRefused, PreemptionsOrdered
from events.records.lifecycle import PreemptionAnswered
from events.records.placement import PreemptionAsked
from processors.placement.room.table import RoomRow, RoomTable, Task
from processors.placement.runs import Runs
from processors.state.causes import CurrentInput, recorded
from processors.state.cell_settings import CellSettings
from processors.state.deadlines import Deadlines, earliest
from processors.state.table import Table, struct_table

REASON = Code.WAITING_FOR_PREEMPTION
BARRED_MS: dict[str, int] = {Code.NO_RIGHT: 5_000, Code.SLICE_NOT_OVER: 5_000, Code.MOVES_REACHED: 5_000}
BARRED_LONG_MS = 60_000
"""For how long a run isn't asked again that entitlement refused, by why."""


class OrderRow(msgspec.Struct, frozen=True, array_like=True):
    """An order without an answer. Until then its runs count as about to leave."""

    until_ms: int


class BarRow(msgspec.Struct, frozen=True, array_like=True):
    """A run that isn't asked until then, or a parked unit that doesn't ask."""

    run: int
    code: str
    until_ms: int


class Plans:
    """The rows of room that are plans, and two tables of its own."""

    def __init__(self, room: RoomTable, runs: Runs, settings: CellSettings, current: CurrentInput) -> None:
        self.orders: Table[int, OrderRow] = struct_table("orders", OrderRow, int)
        self.barred: Table[Task, BarRow] = struct_table("barred", BarRow, Task)
        self._room = room
        self._runs = runs
        self._input = current
        self._settings = settings
        self.asked_beside: Callable[[], Iterator[int]] = lambda: iter(())
        """The victims of asks that are for no unit."""
        self._asking: dict[Task, None] = {}
        """Those whose plans have no answer."""
        self._of_order: dict[int, Task] = {}
        """The unit of each order that it has a plan for."""
        self._bar_ends: Deadlines[Task] = Deadlines()
        self._order_ends: Deadlines[int] = Deadlines()

    def restored(self) -> None:
        """Finds again what is derived."""
        plans = [*self._room.all(REASON)]
        self._asking = {task: None for task, row in plans if not row.order}
        self._of_order = {row.order: task for task, row in plans if row.order}
        self._order_ends.restore((order, row.until_ms) for order, row in self.orders.items())
        self._bar_ends.restore((task, row.until_ms) for task, row in self.barred.items())

    def has(self, task: Task) -> bool:
        """Whether a unit has a plan."""
        return self._room.of(task, REASON) is not None

    def planned(self, job_id: str, first: int, count: int) -> int:
        """Counts the units within a range that have plans."""
        return self._room.count(REASON, job_id, first, count)

    def within(self, job_id: str, first: int, count: int) -> list[int]:
        """The first instances of the units within a range that have plans."""
        return self._room.within(REASON, job_id, first, count)

    def next_ms(self) -> int | None:
        """When the next time is over."""
        return earliest(self._room.ends[REASON].first(), self._bar_ends.first())

    # What is said.

    def asked(self, event: PreemptionAsked, now: int) -> None:
        """A plan was made, unless it is for no unit."""
        if not event.job_id:
            return
        victims: dict[str, list[int]] = {}
        for job, instance in zip(event.job_array.tolist(), event.instance_array.tolist(), strict=True):
            victims.setdefault(event.job_ids[job], []).append(instance)
        row = RoomRow(
            count=event.count,
            run=event.run,
            hosts=[*event.host_ids],
            tasks=event.tasks_array.tolist(),
            shapes=event.shape_array.tolist(),
            reason=REASON,
            until_ms=now + self._settings.now.hold_for_ms,
            by=self._input.cause,
            victims=victims,
            alternative=event.alternative,
            passed=event.passed_codes,
        )
        task = (event.job_id, event.first)
        self._forget(task)
        self._asking[task] = None
        self._room.put(task, row)

    def ordered(self, event: PreemptionsOrdered, now: int) -> None:
        """Runs must leave. Entitlement's time may be behind ours: a hold ends no earlier than it did when we asked."""
        until_ms = now + self._settings.now.hold_for_ms
        task = (event.for_job, event.for_first)
        if self._answers(task, event):
            until_ms = max(until_ms, self._room.table[task].until_ms)
            row = self._room.prolong(task, until_ms)
            row.order, row.victims = event.order, {}
            self._asking.pop(task, None)
            self._of_order[event.order] = task
        self.orders.put(event.order, OrderRow(until_ms))
        self._order_ends.set(event.order, until_ms)

    def refused(self, event: PreemptionRefused, now: int) -> list[Task]:
        """They need not; returns the unit whose plan came to nothing."""
        task, victim = (event.job_id, event.first), (event.victim_job_id, event.victim_instance)
        if event.victim_job_id in self._runs.jobs:
            barred_ms = BARRED_MS.get(event.code, BARRED_LONG_MS)
            self._bar(victim, BarRow(event.victim_run, event.code, now + barred_ms))
        elif event.code in (Code.LIMIT_REACHED, Code.MOVES_REACHED) and event.job_id in self._runs.jobs:
            self._bar(task, BarRow(event.run, event.code, now + BARRED_MS.get(event.code, BARRED_LONG_MS)))
        return self._dropped([task] if self._answers(task, event) else [])

    def answered(self, event: PreemptionAnswered) -> list[Task]:
        """All runs of an order are over, or none leaves; returns the units whose plans came to nothing."""
        if event.number in self.orders:
            self.orders.remove(event.number)
            self._order_ends.clear(event.number)
        task = self._of_order.get(event.number)
        return self._dropped([task] if task is not None and event.code != Code.LEFT else [])

    def settle(self, event: Any) -> None:
        """Units of these jobs may have places, or wait no more: then their plans are over."""
        if self._room.by_job:
            self._dropped(self._room.settled(REASON, event))

    def lost(self, host_ids: set[str]) -> list[Task]:
        """Hosts have gone; returns the units whose plans came to nothing."""
        return self._dropped([task for task, row in self._room.all(REASON) if not host_ids.isdisjoint(row.hosts)])

    def passed(self, due_ms: int) -> list[Task]:
        """Time has passed; returns the units whose plans came to nothing."""
        for task in self._bar_ends.due(due_ms):
            self.barred.remove(task)
            self._bar_ends.clear(task)
        return self._dropped(self._room.ends[REASON].due(due_ms))

    # What is asked.

    def open_orders(self, now: int) -> I64:
        """The orders without an answer whose runs are about to leave."""
        late = np.array(self._order_ends.due(now), dtype=np.int64)
        return np.setdiff1d(np.fromiter(self.orders, dtype=np.int64), late, assume_unique=True)

    def asked_slots(self) -> Iterator[int]:
        """The tasks that are asked for and have no answer."""
        yield from self.asked_beside()
        for task in self._asking:
            for job_id, instances in self._room.table[task].victims.items():
                job = self._runs.jobs.get(job_id)
                if job is not None:
                    yield from (job.base + each for each in instances if each < job.instances)

    def why_barred(self, task: Task, run: int, now: int) -> str:
        """Why a run isn't to be asked; empty: it may be."""
        row = self.barred.get(task)
        return row.code if row is not None and row.run == run and row.until_ms > now else ""

    def _bar(self, task: Task, row: BarRow) -> None:
        self.barred.put(task, row)
        self._bar_ends.set(task, row.until_ms)

    def _answers(self, task: Task, event: PreemptionsOrdered | PreemptionRefused) -> bool:
        """Whether an answer is that to the plan which a unit has now."""
        row = self._room.of(task, REASON)
        return row is not None and not row.order and (event.cause is None or event.cause == recorded(row.by))

    def _dropped(self, tasks: Iterable[Task]) -> list[Task]:
        dropped = sorted(tasks)
        for task in dropped:
            self._forget(task)
            self._room.drop(task)
        return dropped

    def _forget(self, task: Task) -> None:
        """A plan is over, or replaced by another one."""
        self._asking.pop(task, None)
        row = self._room.of(task, REASON)
        if row is not None and self._of_order.get(row.order) == task:
            del self._of_order[row.order]
