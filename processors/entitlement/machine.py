"""Entitlement: owns the pool tree, the queues and what each pool holds; decides who may go on and who must leave."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from events.codes import ENDED_JOBS
from events.records.base import Event
from events.records.entitlement import (
    AdmissionsRanked,
    CreditsSet,
    EntitlementsSet,
    GangsAdmitted,
    GangsHeld,
    PoolAnswered,
    PreemptionsOrdered,
    TurnSet,
)
from events.records.lifecycle import (
    GangsQueued,
    InstancesChanged,
    JobAccepted,
    JobChanged,
    JobPriorityChanged,
    PreemptionAnswered,
    RunsEnded,
)
from events.records.placement import CapacityChanged, GangsReturned, HostsReserved, TasksPlaced
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from events.records.rounds import TimerPassed
from events.resources import Kinds, Vector
from processors.entitlement.folds import Folds
from processors.entitlement.pools import Pools
from processors.entitlement.queues import Queues
from processors.entitlement.reports import Reports
from processors.entitlement.rows import CellRow, PoolRow, ask_row, root_row
from processors.machine import Decided, Fact, Input, PeerRound
from processors.state.causes import CurrentInput
from processors.state.conversion import Conversions
from processors.state.displacements import Displacements
from processors.state.table import Table, struct_table


class Entitlement:
    """See `processors.machine.Machine`."""

    name: ClassVar[str] = "entitlement"
    facts: ClassVar[tuple[str, ...]] = ("paceline.pools",)
    peers: ClassVar[tuple[str, ...]] = ("lifecycle", "placement")
    logic: ClassVar[int] = 13
    state: ClassVar[int] = 7
    conversions: ClassVar[Conversions] = {}

    def __init__(self, cell: int = 0) -> None:
        self.pools: Table[str, PoolRow] = struct_table("pools", PoolRow)
        self.pools.put("/", root_row())
        self._cell: Table[str, CellRow] = struct_table("cell", CellRow)
        self._cell.put("cell", CellRow())
        self.queues = Queues(self._refused)
        self.folds = Folds(self.queues, self.pools, self._cell)
        self.displacements = Displacements()
        self.commands = Pools(cell, self.pools, self._cell, self.queues)
        self.reports = Reports(self.pools, self._cell, self.queues)
        self._input = CurrentInput()
        self._on: dict[type[Event], Callable[[Any, int], None]] = {
            JobAccepted: lambda event, now: self.queues.add(event),
            InstancesChanged: self._instances_changed,
            JobPriorityChanged: lambda event, now: self.queues.change_priority(event.job_id, event.priority),
            JobChanged: self._job_changed,
            GangsQueued: self.folds.queued,
            RunsEnded: self._ended,
            PreemptionAnswered: self._preemption_answered,
            GangsReturned: self.folds.returned,
            TasksPlaced: self.folds.placed,
            HostsReserved: self.folds.reserved,
            CapacityChanged: self._capacity,
            PoolAnswered: self.commands.answered,
            EntitlementsSet: self.reports.set,
            GangsAdmitted: self.folds.admitted,
            AdmissionsRanked: self.folds.ranked,
            GangsHeld: self._held,
            PreemptionsOrdered: self._ordered,
            TurnSet: self._turn_set,
            CreditsSet: self._credits_set,
            TimerPassed: self._timer,
        }

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        """See `Machine.tables`."""
        queues, folds, commands = self.queues, self.folds, self.commands
        return (
            *(self.pools, self._cell, self.reports.reported),
            *(commands.foreign, commands.asks, commands.done),
            *(queues.jobs, queues.shapes.table, queues.arena.table),
            *(folds.orders, folds.kept, folds.backoffs, self.displacements.table),
        )

    @property
    def cell(self) -> CellRow:
        """Capacity and settings."""
        return self._cell["cell"]

    def restored(self) -> None:
        """See `Machine.restored`."""
        self.queues.restored(Kinds(self.cell.settings.resources))
        self.displacements.restored()
        self.commands.restored()
        self.reports.restored()

    def apply(self, record: Input) -> None:
        """See `Machine.apply`."""
        match record:
            case Fact(_, offset, _, event, _):
                if isinstance(event, PoolDefined | PoolRemoved | CellConfigured):
                    self.commands.asks.put(offset, ask_row(event))
            case PeerRound(machine, number, now, decisions):
                for index, decision in enumerate(decisions):
                    self._input.decision(machine, number, index)
                    self._apply(decision, now)
            case Decided(now, decision, number, index):
                self._input.decision(self.name, number, index)
                self._apply(decision, now)

    def decide(self, now: int, caught_up: bool, budget: int) -> list[Event]:
        """See `Machine.decide`; a unit is a fact answered, a task, a job that is told why it waits, or a pool."""
        if self.commands.asks:
            return self.commands.answers(budget)
        out: list[Event] = []
        if caught_up and not out and self.reports.due_ms() <= now and self.reports.is_news():
            out.append(self.reports.report(budget))  # after what else is decided, so that it is said once
        return out

    def next_wakeup(self) -> int | None:
        """See `Machine.next_wakeup`."""
        times: list[int] = []
        if self.reports.is_news():
            times.append(self.reports.due_ms())
        return min(times, default=None)

    def _refused(self, pool: str, kind: int, need: Vector) -> bool:
        return False

    # What inputs and decisions do.

    def _apply(self, event: Event, now: int) -> None:
        handler = self._on.get(type(event))
        if handler:
            before = self.queues.changes
            handler(event, now)
            if self.queues.changes != before:
                self._cell.change("cell").note(event, self._input.cause)

    def _instances_changed(self, event: InstancesChanged, now: int) -> None:
        self.queues.change_instances(event)
        self.displacements.instances_changed(event)

    def _job_changed(self, event: JobChanged, now: int) -> None:
        if event.state in ENDED_JOBS:
            self.queues.drop(event.job_id)
            self.displacements.dropped(event.job_id)

    def _ended(self, event: RunsEnded, now: int) -> None:
        self.displacements.ended(event, now)
        self.folds.ended(event, now)

    def _ordered(self, event: PreemptionsOrdered, now: int) -> None:
        self.displacements.ordered(event, now)
        self.folds.ordered(event, now)

    def _preemption_answered(self, event: PreemptionAnswered, now: int) -> None:
        self.displacements.answered(event, now, self.cell.settings.defer_for_ms)
        self.folds.answered(event, now)

    def _capacity(self, event: CapacityChanged, now: int) -> None:
        row = self._cell.change("cell")
        changed = row.version != event.version
        row.capacity, row.hosts, row.version = self.queues.kinds.vector(event.capacity), event.hosts, event.version
        self.queues.changes += 1
        if changed:
            self.queues.lines.release()

    def _held(self, event: GangsHeld, now: int) -> None:
        pass

    def _turn_set(self, event: TurnSet, now: int) -> None:
        pass

    def _credits_set(self, event: CreditsSet, now: int) -> None:
        pass

    def _timer(self, event: TimerPassed, now: int) -> None:
        self.displacements.expire(now)
