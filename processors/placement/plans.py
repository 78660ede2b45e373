"""Plans of preemption: the units for which others leave hosts, and the progress of each (decision 034).

A plan begins with PreemptionAsked. Refused, it is dropped, and whoever may not go isn't asked again for a while.
Ordered, its hosts are held until its unit has a place, waits no more, or a time is over. An order is whole or void.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from sortedcontainers import SortedList

from events.codes import Code
from events.ranks import are_entitled
from events.records.entitlement import PreemptionRefused, PreemptionsOrdered
from events.records.lifecycle import PreemptionAnswered
from events.records.placement import PreemptionAsked
from processors.placement.packing import Mask
from processors.placement.runs import Runs
from processors.state.causes import CauseRow, CurrentInput, recorded
from processors.state.cell_settings import CellSettings
from processors.state.deadlines import Deadlines, earliest
from processors.state.table import Table, struct_table

BARRED_MS: dict[str, int] = {Code.NO_RIGHT: 5_000, Code.SLICE_NOT_OVER: 5_000}
BARRED_LONG_MS = 60_000
"""For how long a run isn't asked again that entitlement refused, by why."""

Task = tuple[str, int]
"""A job, and the first instance of a unit."""


class PlanRow(msgspec.Struct, array_like=True):
    """A plan for a unit: `count` instances at a run."""

    count: int
    run: int
    hosts: list[str]
    tasks: list[int]
    """The number of its tasks that each host is to hold."""
    shapes: list[int]
    """The index of their shape among those of the unit."""
    by: CauseRow
    """Its PreemptionAsked."""
    until_ms: int
    """When what is held is given up."""
    order: int = 0
    """The order that came of it; 0: none yet."""
    victims: dict[str, list[int]] = {}
    """The victims that it asks for while it has no answer: instances by job."""


class OrderRow(msgspec.Struct, frozen=True, array_like=True):
    """An order without an answer. Until then its runs count as about to leave."""

    until_ms: int


class BarRow(msgspec.Struct, frozen=True, array_like=True):
    """A run that isn't asked until then, or a parked unit that doesn't ask."""

    run: int
    code: str
    until_ms: int


class Plans:
    """Three tables."""

    def __init__(self, runs: Runs, settings: CellSettings, current: CurrentInput) -> None:
        self.table: Table[Task, PlanRow] = struct_table("plans", PlanRow, Task)
        self.orders: Table[int, OrderRow] = struct_table("orders", OrderRow, int)
        self.barred: Table[Task, BarRow] = struct_table("barred", BarRow, Task)
        self._runs = runs
        self._input = current
        self._settings = settings
        self.on_change: Callable[[str, int], None] = lambda job_id, first: None
        """Called with the job and the first instance of a unit that has a plan now, another one, or none any more."""
        self._of_job: dict[str, SortedList[int]] = {}
        """The first instances of the units that have plans."""
        self._asking: dict[Task, None] = {}
        """Those whose plans have no answer."""
        self._ends: Deadlines[Task] = Deadlines()
        """When what is held for units is given up."""
        self._bar_ends: Deadlines[Task] = Deadlines()

    def restored(self) -> None:
        """Finds again what is derived."""
        firsts: dict[str, list[int]] = {}
        for job_id, first in self.table:
            firsts.setdefault(job_id, []).append(first)
        self._of_job = {job_id: SortedList(mine) for job_id, mine in firsts.items()}
        self._asking = {task: None for task, row in self.table.items() if not row.order}
        self._ends.restore((task, row.until_ms) for task, row in self.table.items())
        self._bar_ends.restore((task, row.until_ms) for task, row in self.barred.items())

    def planned(self, job_id: str, first: int, count: int) -> int:
        """Counts the units within a range that have plans."""
        mine = self._of_job.get(job_id)
        return mine.bisect_left(first + count) - mine.bisect_left(first) if mine is not None else 0

    def within(self, job_id: str, first: int, count: int) -> list[int]:
        """The first instances of the units within a range that have plans."""
        mine = self._of_job.get(job_id)
        return list(mine.irange(first, first + count, (True, False))) if mine is not None else []

    def next_ms(self) -> int | None:
        """When the next time is over."""
        return earliest(self._ends.first(), self._bar_ends.first())

    # What is said.

    def asked(self, event: PreemptionAsked, now: int) -> None:
        """A plan was made."""
        victims: dict[str, list[int]] = {}
        for job, instance in zip(event.job_array.tolist(), event.instance_array.tolist(), strict=True):
            victims.setdefault(event.job_ids[job], []).append(instance)
        row = PlanRow(
            count=event.count,
            run=event.run,
            hosts=[*event.host_ids],
            tasks=event.tasks_array.tolist(),
            shapes=event.shape_array.tolist(),
            by=self._input.cause,
            until_ms=now + self._settings.now.hold_for_ms,
            victims=victims,
        )
        self.table.put((event.job_id, event.first), row)
        self._asking[event.job_id, event.first] = None
        self._ends.set((event.job_id, event.first), row.until_ms)
        mine = self._of_job.setdefault(event.job_id, SortedList())
        if event.first not in mine:
            mine.add(event.first)
        self.on_change(event.job_id, event.first)

    def ordered(self, event: PreemptionsOrdered, now: int) -> None:
        """Runs must leave. Entitlement's time may be behind ours: a hold ends no earlier than it did when we asked."""
        until_ms = now + self._settings.now.hold_for_ms
        task = (event.for_job, event.for_first)
        if self._answers(task, event):
            row = self.table.change(task)
            until_ms = max(until_ms, row.until_ms)
            row.order, row.until_ms, row.victims = event.order, until_ms, {}
            self._asking.pop(task, None)
            self._ends.set(task, until_ms)
        self.orders.put(event.order, OrderRow(until_ms))

    def refused(self, event: PreemptionRefused, now: int) -> list[Task]:
        """They need not; returns the unit whose plan came to nothing."""
        task, victim = (event.job_id, event.first), (event.victim_job_id, event.victim_instance)
        if event.victim_job_id in self._runs.jobs:
            barred_ms = BARRED_MS.get(event.code, BARRED_LONG_MS)
            self._bar(victim, BarRow(event.victim_run, event.code, now + barred_ms))
        elif event.code == Code.LIMIT_REACHED and event.job_id in self._runs.jobs:
            self._bar(task, BarRow(event.run, event.code, now + BARRED_LONG_MS))
        return self._dropped([task] if self._answers(task, event) else [])

    def answered(self, event: PreemptionAnswered) -> list[Task]:
        """All runs of an order are over, or none leaves; returns the units whose plans came to nothing."""
        if event.number in self.orders:
            self.orders.remove(event.number)
        over = [task for task, row in self.table.items() if row.order == event.number and event.code != Code.LEFT]
        return self._dropped(over)

    def settle(self, event: Any) -> None:
        """Units of these jobs may have places, or wait no more: then their plans are over."""
        job_ids: Sequence[str] = event.job_ids if hasattr(event, "job_ids") else (event.job_id,)
        for job_id in dict.fromkeys(job_ids) if self._of_job else ():
            firsts = list(self._of_job.get(job_id, ()))
            runs = [self.table[job_id, first].run for first in firsts]
            for first in np.array(firsts)[~wait(self._runs, job_id, firsts, runs)].tolist():
                self._drop((job_id, first))

    def lost(self, host_id: str) -> list[Task]:
        """A host has gone; returns the units whose plans came to nothing."""
        return self._dropped([task for task, row in self.table.items() if host_id in row.hosts])

    def passed(self, due_ms: int) -> list[Task]:
        """Time has passed; returns the units whose plans came to nothing."""
        for task in self._bar_ends.due(due_ms):
            self.barred.remove(task)
            self._bar_ends.clear(task)
        return self._dropped(self._ends.due(due_ms))

    # What is asked.

    def asked_slots(self) -> Iterator[int]:
        """The tasks that plans without an answer ask for."""
        for task in self._asking:
            for job_id, instances in self.table[task].victims.items():
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
        row = self.table.get(task)
        return row is not None and not row.order and (event.cause is None or event.cause == recorded(row.by))

    def _dropped(self, tasks: Iterable[Task]) -> list[Task]:
        dropped = sorted(tasks)
        for task in dropped:
            self._drop(task)
        return dropped

    def _drop(self, task: Task) -> None:
        self.table.remove(task)
        self._asking.pop(task, None)
        self._ends.clear(task)
        mine = self._of_job[task[0]]
        mine.remove(task[1])
        if not mine:
            del self._of_job[task[0]]
        self.on_change(*task)


def wait(runs: Runs, job_id: str, firsts: Sequence[int], at: Sequence[int]) -> Mask:
    """True for the units of a job, by their first instances, that wait for places at these runs and are entitled to
    them.
    """
    job, first = runs.jobs.get(job_id), np.array(firsts, dtype=np.int64)
    there: Mask = first < (job.instances if job is not None else 0)
    slots = first[there] + (job.base if job is not None else 0)
    waiting = runs.arena["waiting"][slots] == np.array(at, dtype=np.int64)[there]
    there[there] = waiting & are_entitled(runs.arena["rank"][slots])
    return there
