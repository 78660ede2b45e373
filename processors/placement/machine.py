"""Placement: owns hosts and what is free on them; decides where runs go and which hosts are given up (decision 034).

Hosts stand in `hosts.py`, when they are given up in `liveness.py`, runs in `runs.py`. A decision is an `assignment.py`:
it puts waiting tasks on a `cluster_view.py`, by the arithmetic in `packing.py`; `explain.py` says why others find no
place. Here inputs are told apart.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, GangsAdmitted, PoolAnswered, PreemptionsOrdered
from events.records.hosts import (
    GatewayBeat,
    HostBack,
    HostClearRequested,
    HostConnected,
    HostLossConfirmed,
    HostOffered,
    HostRemovalRequested,
    HostSilent,
)
from events.records.lifecycle import (
    GangsQueued,
    HostReconciled,
    HostSuspected,
    InstancesChanged,
    JobAccepted,
    JobChanged,
    JobPriorityChanged,
    JobSlaChanged,
    PreemptionAnswered,
    RunsAvailable,
    RunsEnded,
)
from events.records.placement import (
    CapacityChanged,
    GangsParked,
    GangsReturned,
    GangsUnplaced,
    HostAnswered,
    HostAvoided,
    HostHearingChanged,
    HostLost,
    HostRemoved,
    HostTrusted,
    MatchingHostsChanged,
    TasksPlaced,
)
from events.records.pools import CellConfigured
from events.records.rounds import TimerPassed
from processors.machine import Decided, Fact, Input, PeerRound
from processors.placement.assignment import Assignment
from processors.placement.avoidance import Avoidance
from processors.placement.budget import Budget
from processors.placement.holds import kept_room
from processors.placement.host_removal import HostRemovals
from processors.placement.hosts import Hosts
from processors.placement.liveness import Liveness
from processors.placement.matching import Matching
from processors.placement.parked import asked, parked
from processors.placement.reports import Reports
from processors.placement.rows import CellRow, HostRow
from processors.placement.runs import Runs
from processors.placement.sharing import Sharing
from processors.state.causes import CurrentInput
from processors.state.cell_settings import CellSettings
from processors.state.conversion import Conversions, with_defaults
from processors.state.rest import Rest
from processors.state.table import Table, struct_table

CHANGES: frozenset[type[Event]] = frozenset(
    (
        *(HostConnected, HostOffered, HostSilent, HostBack, HostReconciled, HostLost, HostRemoved),
        *(HostAvoided, HostTrusted),
        *(GangsAdmitted, AdmissionsRanked, GangsQueued, TasksPlaced, GangsReturned, RunsEnded, JobChanged),
    )
)
"""What changes which tasks find a place."""


class Placement:
    """See `processors.machine.Machine`."""

    name: ClassVar[str] = "placement"
    facts: ClassVar[tuple[str, ...]] = ("paceline.pools", "paceline.hosts")
    peers: ClassVar[tuple[str, ...]] = ("entitlement", "lifecycle")
    logic: ClassVar[int] = 15
    state: ClassVar[int] = 12
    conversions: ClassVar[Conversions] = {11: with_defaults({"hosts": HostRow})}

    def __init__(self) -> None:
        self.cell: Table[str, CellRow] = struct_table("cell", CellRow)
        self.cell.put("cell", CellRow())
        self._input = CurrentInput()
        self.hosts = Hosts(self.cell, self._input)
        self._settings = CellSettings()
        self.runs = Runs(self.hosts, self.cell, self._settings)
        self._liveness = Liveness(self.hosts, self.cell, self._settings)
        self._removals = HostRemovals(self.hosts, self._settings)
        self._avoidance = Avoidance(self.hosts, self._input)
        self._matching = Matching(self.hosts, self.cell, self._input)
        self.sharing = Sharing(self.runs, self.hosts, self._settings, self._input)
        self._rest = Rest(self._next_wakeup)
        self._quiet = False
        """Whether nothing was to be said of the tasks that wait, and nothing has changed since. Only saves work."""
        self._on: dict[type[Event], tuple[Callable[[Any, int], object], ...]] = {
            HostConnected: (self.hosts.connected,),
            HostOffered: (self.hosts.offered, self._matching.offered),
            HostSilent: (self.hosts.silent,),
            HostBack: (self.hosts.back,),
            HostReconciled: (self.hosts.reconciled,),
            HostLost: (self._lost,),
            HostRemoved: (
                self._matching.host_removed,
                self.runs.host_removed,
                self._avoidance.host_removed,
                self._removed,
            ),
            HostSuspected: (self._avoidance.suspected,),
            HostAvoided: (self._avoidance.avoided,),
            HostTrusted: (self._avoidance.trusted,),
            MatchingHostsChanged: (self._matching.matching,),
            CapacityChanged: (self.hosts.capacity_said,),
            HostHearingChanged: (self.hosts.hearing_said,),
            GatewayBeat: (self._liveness.beat,),
            HostAnswered: (self._answered,),
            TimerPassed: (self._passed,),
            PoolAnswered: (self._pool_answered,),
            JobAccepted: (self.runs.accepted, self._matching.accepted),
            GangsAdmitted: (self.runs.admissions.admitted,),
            AdmissionsRanked: (self.runs.admissions.ranked,),
            GangsParked: (self.runs.admissions.parked,),
            PreemptionsOrdered: (self.runs.ordered,),
            GangsQueued: (self.runs.queued,),
            RunsAvailable: (self.runs.available,),
            PreemptionAnswered: (self.runs.answered,),
            JobPriorityChanged: (self.runs.priority_changed,),
            JobSlaChanged: (self.runs.sla_changed,),
            RunsEnded: (self.runs.ended,),
            JobChanged: (self.runs.changed, self._matching.job_changed),
            InstancesChanged: (self.runs.instances_changed,),
            TasksPlaced: (self.runs.placed,),
            GangsUnplaced: (self.runs.admissions.unplaced,),
            GangsReturned: (self.runs.admissions.returned,),
        }
        for kind, heard in self.sharing.handlers.items():  # after runs and hosts have heard it
            self._on[kind] = (*self._on.get(kind, ()), heard)

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        """See `Machine.tables`."""
        return (
            self.cell,
            self._settings.pending,
            self._settings.kept,
            self.hosts.table,
            self._liveness.asks,
            self._removals.asks,
            self._avoidance.asks,
            self._matching.table,
            self._matching.said,
            self.runs.jobs,
            self.runs.ports,
            self.runs.shapes.table,
            self.runs.arena.table,
            *self.sharing.tables,
        )

    def restored(self) -> None:
        """See `Machine.restored`."""
        self._rest.disturb()
        self._settings.restored()
        self.hosts.restored(self._settings.kinds)
        self._avoidance.restored()
        self._matching.restored()
        self.runs.restored()
        self.sharing.restored()
        self._quiet = False

    def apply(self, record: Input) -> None:
        """See `Machine.apply`."""
        if isinstance(record, Fact):
            self._rest.disturb()
        match record:
            case Fact(_, offset, at_ms, HostLossConfirmed() as event, _):
                self._liveness.confirmed(event, offset, at_ms)
            case Fact(_, offset, at_ms, HostRemovalRequested() as event, _):
                self._removals.asked(event, offset, at_ms)
            case Fact(_, offset, at_ms, HostClearRequested() as event, _):
                self._avoidance.asked(event, offset, at_ms)
            case Fact(_, offset, _, CellConfigured() as event, _):
                self._settings.asked(offset, event)
            case Fact(topic, offset, at_ms, event, _):
                self._input.fact(topic, offset)
                self._apply(event, at_ms)
            case PeerRound(machine, number, now, decisions):
                for index, decision in enumerate(decisions):
                    self._input.decision(machine, number, index)
                    self._apply(decision, now)
            case Decided(now, decision, number, index):
                self._input.decision(self.name, number, index)
                self._apply(decision, now)

    def decide(self, now: int, caught_up: bool, budget: int) -> list[Event]:
        """See `Machine.decide`; a unit of work is a host given up or removed, an operator answered, a task placed or
        returned, or a job explained.
        """
        if self._rest.lasts(now):
            return []
        units = Budget(budget)
        return self._rest.decided(self._decide(now, caught_up, units), caught_up and not units.cut)

    def _decide(self, now: int, caught_up: bool, units: Budget) -> list[Event]:
        out = self._operate(now, units) if caught_up else []
        if units.left <= 0 or any(isinstance(event, HostAvoided) for event in out):
            return out  # nothing is placed on a host before it is known to be avoided
        if heard := self.hosts.hearing_changed(units.left):
            out.append(heard)
        changed = self.hosts.capacity_changed()
        if changed:
            out.append(changed)
        if matching := self._matching.decide(units):
            out.append(matching)
        wakeup = self.next_wakeup()
        due = caught_up and wakeup is not None and wakeup <= now
        if due and (expired_ms := self.sharing.expired_ms(now)) is not None:
            return [*out, TimerPassed(machine=self.name, due_ms=expired_ms)]
        if ends := [*self.sharing.ends(now if caught_up else 0, units, self.cell["cell"].last_by)]:
            return [*out, *ends]
        if self.runs.waits.parking and (parks := parked(self.runs)):
            return [*out, parks]
        looked_ms = now
        if self.runs.waits.tasks and (due or not self._quiet):
            said, looked_ms = self._serve(now, caught_up, units)
            self._quiet = not said and not units.cut
            out += said
        if due and not out:
            out.append(TimerPassed(machine=self.name, due_ms=looked_ms))
        return out

    def _operate(self, now: int, budget: Budget) -> list[Event]:
        """Hosts that are given up or forgotten, and answers to operators."""
        out = self._liveness.decide(now, budget.left)
        if len(out) < budget.left:
            busy = {event.host_id for event in out if isinstance(event, HostLost)}
            out += self._removals.decide(now, busy, budget.left - len(out))
        out += [] if out else self._avoidance.decide(now, budget.left)
        budget.spend(len(out))
        return out

    def _serve(self, now: int, caught_up: bool, budget: Budget) -> tuple[list[Event], int]:
        """What is decided of the tasks that wait, and up to when all deadlines were looked at."""
        last_by, holds = self.cell["cell"].last_by, self.sharing.holds()
        room = kept_room(self.hosts, holds)
        assignment = Assignment(self.runs, self.hosts, room, budget, lambda slot: self.sharing.may_ask(slot, now))
        placed = assignment.place()
        out: list[Event] = [placed] if placed else []
        out += [asked(self.runs, self.hosts.ids, found, last_by) for found in assignment.parked]
        out += Reports(self.runs, assignment, budget, last_by).decide(now if caught_up else 0)
        if placed or assignment.parked or budget.cut or not caught_up:
            return out, now
        planned, looked_ms = self.sharing.decide(assignment, holds, room, now, budget, last_by)
        return out + planned, looked_ms

    def next_wakeup(self) -> int | None:
        """See `Machine.next_wakeup`."""
        return self._rest.next_ms()

    def _next_wakeup(self) -> int | None:
        times = (
            self._liveness.next_wakeup(),
            self._removals.next_wakeup(),
            self._avoidance.next_wakeup(),
            self.runs.admissions.next_due_ms(),
            self.sharing.next_wakeup(self.cell["cell"].passed_ms),
        )
        return min((time for time in times if time is not None), default=None)

    def _pool_answered(self, event: PoolAnswered, now: int) -> None:
        before = self.hosts.kinds
        self._settings.answered(event)
        kinds = self._settings.kinds
        if kinds.names != before.names:
            self.runs.shapes.widen(kinds)
            self.restored()
        if (kinds.names, kinds.licences) != (before.names, before.licences):
            self.hosts.know(kinds)

    def _answered(self, event: HostAnswered, now: int) -> None:
        self._liveness.answered(event, now)
        self._removals.answered(event, now)
        self._avoidance.answered(event, now)

    def _passed(self, event: TimerPassed, now: int) -> None:
        self._liveness.passed(event, now)
        row = self.cell.change("cell")
        row.passed_ms = max(row.passed_ms, event.due_ms)

    def _removed(self, event: HostRemoved, now: int) -> None:
        self.runs.homes.given_up(event.host_id)
        self.hosts.remove(event, now)

    def _lost(self, event: HostLost, now: int) -> None:
        self.runs.homes.given_up(event.host_id)
        self.hosts.lose(event, now)
        self._liveness.lost(event, now)

    def _apply(self, event: Event, now: int) -> None:
        handlers = self._on.get(type(event))
        if not handlers or (isinstance(event, TimerPassed) and event.machine != self.name):
            return  # a deadline of another machine
        self._rest.disturb()
        for handler in handlers:
            handler(event, now)
        if not isinstance(event, GatewayBeat | HostHearingChanged):
            self._quiet = False
        if type(event) in CHANGES:
            self.cell.change("cell").last_by = self._input.cause
