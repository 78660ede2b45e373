"""Orders to preempt runs: each has exactly one answer, whatever becomes of its victims.

An order is answered DEFERRED as soon as sla has given its verdict on every victim and deferred one: those that it
deferred stay, and the cause is withdrawn from them. Else it is answered LEFT when all victims are over. It is VOID
where it has none: its runs were over already, or are in an earlier order.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from events.codes import Code, TaskState
from events.columns import I64, counted, distinct
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from events.records.lifecycle import PreemptionAnswered
from processors.lifecycle.causes import KIND_OF, CauseKind, SlaVerdict
from processors.lifecycle.lookups import among
from processors.lifecycle.rows import OrderRow
from processors.lifecycle.run_decisions import RunLookup, packed, run_columns
from processors.lifecycle.task_rules import Trait
from processors.lifecycle.task_table import TaskEvent
from processors.lifecycle.tasks import Tasks
from processors.state.sequence import SequenceNumbers
from processors.state.table import Table, struct_table


class PreemptionOrders:
    """The orders that aren't answered, by number; the column `order` of a victim has that number."""

    def __init__(self, tasks: Tasks, current: Callable[[Any], I64]) -> None:
        self.table: Table[int, OrderRow] = struct_table("preemption_orders", OrderRow, int)
        self._tasks = tasks
        self._current = current
        self._touched: dict[int, None] = {}
        self._numbers = SequenceNumbers(lambda: iter(self.table))

    def restored(self) -> None:
        """Looks at all of them again."""
        self._touched = dict.fromkeys(self.table)
        self._numbers.restored()

    def ordered(self, event: PreemptionsOrdered, now: int) -> None:
        """An order has come: its victims are the runs that have a cause by it and are in no order yet."""
        arena = self._tasks.arena
        slots = distinct(self._current(event))
        victims = self._tasks.record_event(TaskEvent.PREEMPT, slots[arena["order"][slots] == 0])
        number = self._numbers.take()
        arena.set("order", victims, number)
        row = OrderRow(self._tasks.input.cause, len(victims), len(victims))
        row.deferred = bool((arena["verdict"][victims] == SlaVerdict.DEFERRED).any())  # of an order before this one
        self.table.put(number, row)
        self._touched[number] = None

    def touch(self, slots: I64) -> None:
        """Something about these victims has changed: their orders may have an answer now."""
        numbers = self._tasks.arena["order"][slots]
        self._touched.update(dict.fromkeys(distinct(numbers[numbers > 0]).tolist()))

    def deferred(self, slots: I64) -> None:
        """Sla has deferred these victims."""
        for number in distinct(self._tasks.arena["order"][slots]).tolist():
            if number in self.table:
                self.table.change(number).deferred = True
        self.touch(slots)

    def ended(self, slots: I64) -> None:
        """The runs of these slots are over; called before their columns are cleared."""
        orders = self._tasks.arena["order"][slots]
        if not orders.any():
            return
        numbers, counts = counted(orders[orders > 0])
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self.table.change(number).open -= count
            self._touched[number] = None

    def decide(self, limit: int, lookup: RunLookup) -> list[Event]:
        """At most `limit` answers that are due."""
        out: list[Event] = []
        waiting: dict[int, None] = {}
        for number in sorted(self._touched):
            if len(out) == limit:
                waiting[number] = None
                continue
            answer = self._answer(self.table[number], number, lookup)
            if answer is not None:
                out.append(answer)
                waiting[number] = None
        self._touched = waiting
        return out

    def answered(self, event: PreemptionAnswered) -> None:
        """An order has its answer: the runs named stay, and no victim belongs to it any more."""
        number = next(each for each, row in self.table.items() if row.order.record == event.order)
        arena = self._tasks.arena
        if self.table[number].open:
            self._tasks.record_event(TaskEvent.PREEMPT_WITHDRAWN, self._current(event))
            arena.set("order", np.flatnonzero(arena["order"] == number), 0)
        self.table.remove(number)
        self._numbers.give_back(number)
        self._touched.pop(number, None)

    def _answer(self, row: OrderRow, number: int, lookup: RunLookup) -> Event | None:
        if not row.open:
            return _answered(row, Code.LEFT if row.victims else Code.VOID, self._named(lookup))
        if not row.deferred:
            return None
        arena = self._tasks.arena
        slots = np.flatnonzero(arena["order"] == number)
        slots = slots[among(arena["state"][slots], (TaskState.ORDERED, TaskState.RUNNING))]
        slots = slots[(arena["report"][slots] <= 1) & (KIND_OF.take(arena["causes"][slots]) == CauseKind.PLANNED)]
        verdict = arena["verdict"][slots]
        undecided = among(verdict, (SlaVerdict.NONE, SlaVerdict.ASKED)) & (arena["traits"][slots] & Trait.SLA != 0)
        slots = slots[verdict == SlaVerdict.DEFERRED]
        if undecided.any() or not len(slots):
            return None
        return _answered(row, Code.DEFERRED, self._named(lookup, slots))

    def _named(self, lookup: RunLookup, slots: I64 | None = None) -> dict[str, Any]:
        none = np.zeros(0, dtype=np.int64)
        return packed(run_columns(self._tasks.arena, none if slots is None else slots, lookup))


def _answered(row: OrderRow, code: Code, runs: dict[str, Any]) -> PreemptionAnswered:
    return PreemptionAnswered(order=row.order.record, code=code, victims=row.victims, **runs)
