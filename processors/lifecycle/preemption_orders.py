"""Orders to preempt runs: each goes as a whole or is void, and has exactly one answer, whatever becomes of its runs.

Sla is heard on all runs of an order that an SLA protects before any run is stopped. If all may leave, the order *goes*:
all leave, and it is answered LEFT when the last is over. If sla has given its verdict on every run and deferred one,
the order is answered DEFERRED and all stay. A run that is over by itself meanwhile is no obstacle. An order is VOID
where it has no run: all were over already, or are in an earlier order.

Decision 035.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from events.codes import Code, RunCause, RunReport, TaskState
from events.columns import I64, counted, distinct
from events.records.base import Event
from events.records.entitlement import PreemptionsOrdered
from events.records.lifecycle import PreemptionAnswered
from processors.lifecycle.asks import UNIT
from processors.lifecycle.causes import KIND_OF, CauseKind, SlaVerdict
from processors.lifecycle.lookups import Mask, among
from processors.lifecycle.rows import OrderRow
from processors.lifecycle.run_decisions import RunLookup, run_columns
from processors.lifecycle.task_rules import Trait
from processors.lifecycle.task_table import TaskEvent
from processors.lifecycle.tasks import Tasks
from processors.state.steps import Pass
from processors.state.table import Table, struct_table

_NOBODY: I64 = np.zeros(0, dtype=np.int64)


class PreemptionOrders:
    """The orders that aren't answered, by number; the column `order` of a run has that number. `limit`: how many runs
    of the job at a base its SLA ever lets go at once.
    """

    def __init__(self, tasks: Tasks, current: Callable[[Any], I64], limit: Callable[[int], int]) -> None:
        self.table: Table[int, OrderRow] = struct_table("preemption_orders", OrderRow, int)
        self._tasks = tasks
        self._current = current
        self._limit = limit
        self._slots: dict[int, I64] = {}
        """The slots of the runs of each order, ascending; those of runs that are over may be among them."""
        self._over: dict[int, None] = {}
        """Orders whose runs are all over."""
        self._deferred: dict[int, None] = {}
        """Orders of which sla has deferred a run."""

    def restored(self) -> None:
        """Finds again what is derived: the runs of each order by one look at the columns."""
        arena = self._tasks.arena
        slots = np.flatnonzero(arena["order"])
        slots = slots[np.argsort(arena["order"][slots], kind="stable")]
        self._slots = dict.fromkeys(self.table, _NOBODY)
        numbers, counts = counted(arena["order"][slots])
        self._slots |= dict(zip(numbers.tolist(), np.split(slots, np.cumsum(counts)[:-1]), strict=False))
        self._over = {number: None for number, row in self.table.items() if not row.open}
        deferred = slots[arena["verdict"][slots] == SlaVerdict.DEFERRED]
        self._deferred = dict.fromkeys(distinct(arena["order"][deferred]).tolist())

    def ordered(self, event: PreemptionsOrdered, now: int) -> None:
        """An order has come: its runs are those named that are present and in no order yet."""
        arena, number = self._tasks.arena, event.order
        slots = distinct(self._current(event))
        slots = self._tasks.record_event(TaskEvent.PREEMPT, slots[arena["order"][slots] == 0])
        arena.set("order", slots, number)
        self.table.put(number, OrderRow(self._tasks.input.cause, len(slots), len(slots)))
        self._slots[number] = slots
        if not len(slots):
            self._over[number] = None
        self.deferred(slots[arena["verdict"][slots] == SlaVerdict.DEFERRED])  # for an order before this one
        self._hear(number)

    def allowed(self, slots: I64) -> None:
        """Sla allows the disruption of these runs."""
        self._hear_of(slots)

    def deferred(self, slots: I64) -> None:
        """Sla defers the disruption of these runs."""
        self._deferred.update(dict.fromkeys(self._numbers(slots)))

    def stopping(self, slots: I64) -> None:
        """These runs are told to stop, for whatever reason: sla isn't waited for any more."""
        self._hear_of(slots)

    def ended(self, slots: I64) -> None:
        """The runs of these slots are over."""
        orders = self._tasks.arena["order"][slots]
        if not orders.any():
            return
        self._tasks.arena.set("order", slots, 0)
        numbers, counts = counted(orders[orders > 0])
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            row = self.table.change(number)
            row.open -= count
            assert row.open >= 0, number
            if not row.open:
                self._over[number] = None
            self._hear(number)

    def moved(self, base: int, tasks: int) -> None:
        """The tasks of a job stand elsewhere now, from `base` on."""
        slots = np.arange(base, base + tasks)
        for number in self._numbers(slots):
            mine = slots[self._tasks.arena["order"][slots] == number]
            self._slots[number] = np.union1d(self._runs_of(number), mine)

    def decide(self, lookup: RunLookup, this: Pass) -> list[Event]:
        """The answers that are due: an answer costs a unit, and one for each run named."""
        out: list[Event] = []
        for number in sorted(self._over.keys() | self._deferred.keys()):
            if not this.budget.left:
                break
            row = self.table[number]
            refused = self._refused(number) if row.open and not row.goes else _NOBODY
            if row.open and not len(refused):
                continue
            out.append(self._answer(number, refused, lookup))
            this.budget.spend(1 + len(refused))
        return out

    def answered(self, event: PreemptionAnswered, now: int) -> None:
        """An order has its answer: runs that aren't over stay, and belong to it no more."""
        slots = self._runs_of(event.number)
        self._tasks.record_event(TaskEvent.PREEMPT_WITHDRAWN, slots)
        self._tasks.arena.set("order", slots, 0)
        self.table.remove(event.number)
        for derived in (self._slots, self._over, self._deferred):
            derived.pop(event.number, None)

    def _numbers(self, slots: I64) -> list[int]:
        """The orders that these runs are in."""
        if not len(self.table):
            return []
        orders = self._tasks.arena["order"][slots]
        numbers: list[int] = distinct(orders[orders > 0]).tolist()
        return numbers

    def _runs_of(self, number: int) -> I64:
        """The slots of the runs of an order that aren't over."""
        slots = self._slots[number]
        present: I64 = slots[self._tasks.arena["order"][slots] == number]
        return present

    def _hear_of(self, slots: I64) -> None:
        for number in self._numbers(slots):
            self._hear(number)

    def _hear(self, number: int) -> None:
        """Lets an order go if sla need not be waited for any more."""
        row = self.table[number]
        if row.goes or not row.open:
            return
        slots = self._runs_of(number)
        if not self._waits(slots).any():
            self.table.change(number).goes = True
            self._deferred.pop(number, None)
            free = slots[self._tasks.arena["verdict"][slots] == SlaVerdict.FREE]
            self._tasks.note("verdict", free, SlaVerdict.ALLOWED)  # it goes with the order, ready or not
            self._tasks.record_event(TaskEvent.PREEMPT_GOES, slots)

    def _waits(self, slots: I64) -> Mask:
        """True for runs that stay until sla allows their disruption."""
        arena = self._tasks.arena
        state, verdict = arena["state"][slots], arena["verdict"][slots]
        waits: Mask = among(state, (TaskState.ORDERED, TaskState.RUNNING))
        waits &= (arena["traits"][slots] & Trait.SLA != 0) & (verdict != SlaVerdict.ALLOWED)
        waits &= (verdict != SlaVerdict.FREE) | (state != TaskState.ORDERED)
        return waits

    def _refused(self, number: int) -> I64:
        """The runs by which an order is void; none while sla still has to answer for one. Runs that end anyway, by
        themselves or by another cause, are left out.
        """
        arena, slots = self._tasks.arena, self._runs_of(number)
        slots = slots[self._waits(slots) & (KIND_OF.take(arena["causes"][slots]) != CauseKind.UNPLANNED)]
        slots = slots[arena["report"][slots] <= RunReport.STARTED]
        question = arena["asked"][slots]
        for_order = (question == 0) | (question % UNIT == RunCause.PREEMPT)  # sla is asked again about others
        refused: I64 = slots[(arena["verdict"][slots] == SlaVerdict.DEFERRED) & for_order]
        return refused if len(refused) == len(slots) else _NOBODY

    def _answer(self, number: int, refused: I64, lookup: RunLookup) -> PreemptionAnswered:
        row = self.table[number]
        code = (Code.DEFERRED if row.open else Code.LEFT if row.victims else Code.VOID).value
        columns = run_columns(self._tasks.arena, refused, lookup)._asdict()
        order, sla_code = row.order.record, self._sla_code(number) if row.open else ""
        return PreemptionAnswered.pack(
            number=number, order=order, code=code, victims=row.victims, **columns, sla_code=sla_code
        )

    def _sla_code(self, number: int) -> Code:
        """Why sla has deferred runs of an order: it names more of a job than ever go at once, or they may go later."""
        slots = self._runs_of(number)
        running = slots[self._tasks.arena["state"][slots] == TaskState.RUNNING]
        owners, counts = counted(self._tasks.arena["owner"][running])
        for owner, count in zip(owners.tolist(), counts.tolist(), strict=True):
            if count > self._limit(owner - 1):
                return Code.SLA_NEVER_ALLOWS
        return Code.SLA_BUDGET_SPENT
