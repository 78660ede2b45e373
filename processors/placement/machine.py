"""Placement: owns hosts and what is free on them; decides where runs go and which hosts are given up (decision 034).

Hosts stand in `hosts.py`, when they are given up in `liveness.py`, runs in `runs.py`. A decision is an `assignment.py`:
it puts waiting tasks on a `cluster_view.py`, by the arithmetic in `packing.py`; `explain.py` says why others find no
place. This module is the dispatch: which record goes to which part, in which order the parts decide, and by which
deadlines the machine wakes.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from events.records.base import Event
from events.records.entitlement import (
    AdmissionsRanked,
    GangsAdmitted,
    HostPoolsWanted,
    PoolAnswered,
    PreemptionRefused,
    PreemptionsOrdered,
    RightsSet,
)
from events.records.hosts import (
    GatewayBeat,
    HostBack,
    HostClearRequested,
    HostConnected,
    HostDeviceRequested,
    HostHealthReported,
    HostImages,
    HostLossConfirmed,
    HostOffered,
    HostPoolAssigned,
    HostPoolDefined,
    HostPoolMoveRequested,
    HostRemovalRequested,
    HostsCordonRequested,
    HostsDrainRequested,
    HostSilent,
    HostsLoaded,
    HostsResumeRequested,
    HostTaintRequested,
    MaintenanceActionRequested,
    MaintenanceRequested,
    MaintenanceWindowRemoved,
    MaintenanceWindowSet,
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
    HostDeviceChanged,
    HostHearingChanged,
    HostLost,
    HostMaintenanceChanged,
    HostPoolChanged,
    HostPoolMoveStarted,
    HostRemoved,
    HostsAnswered,
    HostsPooled,
    HostsReserved,
    HostTainted,
    HostTrusted,
    MaintenanceChanged,
    MaintenanceWindowChanged,
    MatchingHostsChanged,
    PreemptionAsked,
    RevocationAsked,
    TasksPlaced,
)
from events.records.pools import CellConfigured
from events.records.rounds import TimerPassed
from processors.base import MachineBase
from processors.placement.assignment import Assignment
from processors.placement.avoidance import Avoidance
from processors.placement.campaigns.campaigns import Campaigns
from processors.placement.card_arrivals import arrived
from processors.placement.cluster_view import ClusterView
from processors.placement.conditions import Conditions
from processors.placement.device_commands import DeviceCommands
from processors.placement.health_drains import HealthDrains
from processors.placement.host_pool_commands import HostPoolCommands
from processors.placement.host_pool_moves import HostPoolMoves
from processors.placement.host_removal import HostRemovals
from processors.placement.host_reports import HostReports
from processors.placement.hosts import Hosts
from processors.placement.liveness import Liveness
from processors.placement.maintenance import Maintenance
from processors.placement.matching import Matching
from processors.placement.reports import Reports
from processors.placement.room.kept import kept_room
from processors.placement.room.parked import asked, parked
from processors.placement.rows import CellRow
from processors.placement.runs import Runs
from processors.placement.sharing import Sharing
from processors.placement.slack import Slack
from processors.placement.stages import Stages
from processors.placement.surplus import Surplus
from processors.placement.taints import Taints
from processors.placement.windows import Windows
from processors.state.budget import Budget
from processors.state.causes import CurrentInput
from processors.state.cell_settings import CellSettings
from processors.state.conversion import Conversions
from processors.state.deadlines import Deadline, earliest
from processors.state.handlers import Handlers, Row
from processors.state.steps import Pass
from processors.state.table import Table, struct_table

CHANGES: frozenset[type[Event]] = frozenset(
    (
        *(HostConnected, HostOffered, HostSilent, HostBack, HostReconciled, HostLost, HostRemoved),
        *(HostAvoided, HostTrusted, HostTainted, HostMaintenanceChanged, HostPoolChanged, HostsPooled),
        HostDeviceChanged,
        *(GangsAdmitted, AdmissionsRanked, GangsQueued, TasksPlaced, GangsReturned, RunsEnded, JobChanged),
    )
)
"""Records that change which tasks find a place."""

BESIDE_WAITING: frozenset[type[Event]] = frozenset(
    (
        *(GatewayBeat, HostHearingChanged, HostLossConfirmed, HostRemovalRequested, HostClearRequested, HostsLoaded),
        *(CellConfigured, HostTaintRequested, HostImages, HostHealthReported),
        *(HostsDrainRequested, HostsCordonRequested, HostsResumeRequested, HostsAnswered),
        *(MaintenanceWindowSet, MaintenanceWindowRemoved, HostPoolDefined, HostPoolAssigned),
        *(HostPoolMoveRequested, HostPoolMoveStarted, HostDeviceRequested, HostPoolsWanted),
    )
)
"""Records that change nothing for the tasks that wait."""

CLOSES = HostAvoided | HostTainted | HostDeviceChanged | HostMaintenanceChanged | HostPoolChanged | HostsPooled
"""Decisions by which hosts take other tasks than before."""


class Placement(MachineBase):
    """Implements `processors.machine.Machine`."""

    name: ClassVar[str] = "placement"
    facts: ClassVar[tuple[str, ...]] = ("paceline.pools", "paceline.hosts")
    peers: ClassVar[tuple[str, ...]] = ("entitlement", "lifecycle")
    logic: ClassVar[int] = 15
    state: ClassVar[int] = 12
    conversions: ClassVar[Conversions] = {}

    def __init__(self) -> None:
        super().__init__(CurrentInput())
        self.cell: Table[str, CellRow] = struct_table("cell", CellRow)
        self.cell.put("cell", CellRow())
        self.hosts = Hosts(self.cell, self._input)
        self._settings = CellSettings()
        self.stages = Stages(self.hosts)
        self.windows = Windows(self.hosts, self.stages, self._settings, self._input)
        self.runs = Runs(self.hosts, self.cell, self._settings, self.windows)
        self._reports = HostReports(self.hosts, self.cell, self.runs)
        self._liveness = Liveness(self.hosts, self.cell, self._settings, self._input, self.stages)
        self._removals = HostRemovals(self.hosts, self._settings, self._input)
        self.conditions = Conditions(self.hosts, self._settings, self._input)
        self._avoidance = Avoidance(self.hosts, self.conditions, self._input)
        self._health = HealthDrains(self.hosts, self.stages, self.conditions)
        self._taints = Taints(self.hosts, self._input)
        self._devices = DeviceCommands(self.hosts, self._input)
        self._host_pools = HostPoolCommands(self.hosts, self._input)
        self._moves = HostPoolMoves(self.hosts, self.runs, self.stages, self._settings, self._input)
        self._maintenance = Maintenance(self.hosts, self.runs, self.stages, self._settings, self._input)
        self._matching = Matching(self.hosts, self.cell, self._input)
        self.slack = Slack(self.hosts, self.runs, self._input)
        self.sharing = Sharing(self.runs, self.hosts, self._settings, self._input)
        self.surplus = Surplus(
            self.hosts, self.runs, self.sharing.plans, self.sharing.displaced, self._settings, self._input
        )
        self.campaigns = Campaigns(
            self.runs, self.hosts, self.stages, self._settings, self._input, self.windows, self.view
        )
        self._maintenance.resumed_in_campaign = self.campaigns.resumed
        self.campaigns.is_well = self.conditions.is_well
        self._quiet = False
        """Whether nothing was to be said of the tasks that wait, and nothing has changed since. Only saves work."""
        self._set_handlers(*self._of_hosts(), *self._of_devices(), *self._of_host_pools(), *self._of_runs())
        self._deadlines = self._deadline_table()

    def _of_hosts(self) -> Sequence[Row]:
        """Handlers of records about hosts, and of what operators say."""
        hosts, sharing, campaigns = self.hosts, self.sharing, self.campaigns
        return (
            (HostConnected, hosts.connected, self.windows.connected, campaigns.said_of_host),
            (HostOffered, hosts.offered, self._matching.offered, self.slack.offered, campaigns.said_of_host),
            (HostSilent, hosts.silent, campaigns.said_of_host),
            (HostBack, hosts.back, campaigns.said_of_host),
            (HostReconciled, hosts.reconciled, campaigns.said_of_host),
            (HostLost, self._lost, sharing.lost, campaigns.said_of_host),
            (
                HostRemoved,
                campaigns.host_removed,
                self._matching.host_removed,
                self.runs.host_removed,
                self._avoidance.host_removed,
                self.conditions.host_removed,
                self._health.host_removed,
                *(self.stages.host_removed, self._moves.host_removed),
                self._removed,
                sharing.removed,
            ),
            (HostSuspected, self._avoidance.suspected),
            (HostAvoided, self._avoidance.avoided, campaigns.said_of_host),
            (HostTrusted, self._avoidance.trusted, self.conditions.trusted, campaigns.said_of_host),
            (HostHealthReported, self.conditions.reported, campaigns.said_of_host),
            (MatchingHostsChanged, self._matching.matching),
            (CapacityChanged, self._reports.capacity_said, self.slack.capacity_said),
            (HostsLoaded, self._loaded),
            (RevocationAsked, self.slack.asked),
            (HostHearingChanged, hosts.hearing_said),
            (GatewayBeat, self._liveness.beat),
            (HostLossConfirmed, self._liveness.confirmed),
            (HostRemovalRequested, self._removals.asked),
            (HostClearRequested, self._avoidance.asked),
            (HostTaintRequested, self._taints.asked),
            (HostImages, hosts.images),
            (HostsDrainRequested, self._maintenance.drain_asked),
            (HostsCordonRequested, self._maintenance.cordon_asked),
            (HostsResumeRequested, self._maintenance.resume_asked),
            (MaintenanceRequested, campaigns.rows.asked),
            (MaintenanceActionRequested, campaigns.rows.action_asked),
            (MaintenanceChanged, campaigns.changed),
            (MaintenanceWindowSet, self.windows.set_asked),
            (MaintenanceWindowRemoved, self.windows.removal_asked),
            (MaintenanceWindowChanged, self.windows.changed, campaigns.window_changed),
            (
                HostsAnswered,
                *(self._maintenance.answered, self.windows.answered, campaigns.rows.answered),
                *(self._host_pools.answered, self._moves.answered),
            ),
            (
                HostMaintenanceChanged,
                self._health.staged,
                self.stages.changed,
                self.windows.host_changed,
                self._closed,
                campaigns.staged,
                self._moves.staged,
            ),
            (HostTainted, hosts.taint, self._matching.tainted),
            (
                HostAnswered,
                *(self._liveness.answered, self._removals.answered, self._avoidance.answered),
                *(self._taints.answered, self._devices.answered),
            ),
            (CellConfigured, lambda event, now: self._settings.asked(self._input.offset, event)),
            (PoolAnswered, self._pool_answered),
            (TimerPassed, self._passed, sharing.passed, self.slack.passed, self.surplus.passed),
        )

    def _of_devices(self) -> Sequence[Row]:
        """Handlers of records about devices of hosts; the answers stand with those about hosts."""
        return (
            (HostDeviceRequested, self._devices.asked),
            (HostDeviceChanged, self.hosts.device_changed, self.surplus.device_changed),
        )

    def _of_host_pools(self) -> Sequence[Row]:
        """Handlers of records about host pools; the answers stand with those about hosts."""
        return (
            (HostPoolDefined, self._host_pools.define_asked),
            (HostPoolAssigned, self._host_pools.assign_asked),
            (HostPoolChanged, self.hosts.pool_changed, self._moves.defined),
            (HostsPooled, self.hosts.pooled, self._pooled, self._moves.pooled),
            (HostPoolMoveRequested, self._moves.asked),
            (HostPoolMoveStarted, self._moves.started),
            (HostPoolsWanted, self._moves.wanted),
        )

    def _of_runs(self) -> Sequence[Row]:
        """Handlers of records about jobs and their runs; sharing comes last, as it looks at what the others did."""
        runs, sharing = self.runs, self.sharing
        return (
            (JobAccepted, runs.accepted, self._matching.accepted),
            (JobPriorityChanged, runs.priority_changed),
            (JobSlaChanged, runs.sla_changed, self.campaigns.job_changed),
            (JobChanged, runs.changed, self._matching.job_changed, sharing.job_changed),
            (
                InstancesChanged,
                runs.instances_changed,
                self.slack.instances_changed,
                sharing.instances_changed,
                self.campaigns.job_changed,
            ),
            (GangsQueued, runs.queued),
            (GangsAdmitted, runs.admissions.admitted, self._arrived),
            (AdmissionsRanked, runs.admissions.ranked, sharing.settle),
            (GangsParked, runs.admissions.parked),
            (TasksPlaced, runs.placed, self.slack.placed, sharing.settle),
            (GangsUnplaced, runs.admissions.unplaced),
            (GangsReturned, runs.admissions.returned, sharing.settle),
            (RunsAvailable, runs.available),
            (RunsEnded, self._maintenance.ended, runs.ended, sharing.ended, self.slack.ended),
            (RightsSet, sharing.rights.set),
            (PreemptionAsked, sharing.asked, self.surplus.asked),
            (PreemptionsOrdered, runs.ordered, sharing.ordered, self.surplus.ordered),
            (PreemptionRefused, sharing.refused, self.surplus.refused),
            (PreemptionAnswered, runs.answered, sharing.answered, self.surplus.answered),
            (HostsReserved, sharing.reservations.reserved),
        )

    def _deadline_table(self) -> tuple[Deadline, ...]:
        return (
            Deadline("hosts given up", self._liveness.next_wakeup),
            Deadline("hosts forgotten", self._removals.next_wakeup),
            Deadline("hosts to be cleared, tainted and drained; windows; conditions", self._next_of_operators),
            Deadline("hosts to be judged", self._avoidance.suspicions.first),
            Deadline("hosts avoided", self._avoidance.avoided_until.first),
            Deadline("patience of borrowed work", self.runs.admissions.next_due_ms),
            Deadline("revocable runs that are to end", self.slack.next_ms),
            Deadline("slack to be said", self.slack.next_said_ms),
            Deadline("runs that are to leave hosts", self.surplus.next_ms),
            Deadline("plans", self.sharing.plans.next_ms),
            Deadline("homes", self.runs.homes.next_ms),
            Deadline("rights", self.sharing.rights.tries.first),
            Deadline("reservations that end", self.sharing.reservations.next_end_ms),
            Deadline("reservations to be made", self._next_reservation),
        )

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        """Implements `Machine.tables`."""
        return (
            self.cell,
            self._settings.pending,
            self._settings.kept,
            self.hosts.table,
            self.hosts.expected.table,
            self.hosts.lent,
            self.slack.lending,
            self._liveness.asks,
            self._removals.asks,
            self._avoidance.asks,
            self.conditions.table,
            self._health.starts,
            self._taints.asks,
            self._devices.asks,
            self._host_pools.asks,
            *self.hosts.pools.tables,
            *self._moves.tables,
            self._maintenance.asks,
            *self.campaigns.tables,
            self.stages.table,
            self.windows.asks,
            self.windows.table,
            self._matching.table,
            self._matching.said,
            self.runs.jobs,
            *self.runs.ports.tables,
            self.runs.devices.table,
            self.runs.shapes.table,
            self.runs.arena.table,
            *self.sharing.tables,
            self.surplus.table,
        )

    def _restored(self) -> None:
        self._settings.restored()
        self.runs.arena.restored()  # first: what is made after takes the memory that its rows give back
        self.hosts.restored(self._settings.kinds)
        self.hosts.topology = self._settings.now.topology
        self._avoidance.restored()
        self.conditions.restored()
        self._matching.restored()
        self.windows.restored()
        self.runs.restored()
        self.stages.restored()  # behind what runs hold: that is no change of what leaves
        self._moves.restored()
        self._health.restored()
        self.hosts.watch_shrunk()
        self.slack.restored()
        self.sharing.restored()
        self.campaigns.restored()
        self.surplus.restored()
        self._quiet = False

    def _handle(self, event: Event, now: int, handlers: Handlers) -> None:
        super()._handle(event, now, handlers)
        if type(event) not in BESIDE_WAITING:
            self._quiet = False
        if type(event) in CHANGES:
            self.cell.change("cell").last_by = self._input.cause
            if self.campaigns.rows.going_on:
                self.campaigns.stir(now)

    def _decide(self, this: Pass) -> list[Event]:
        """A unit of work is a host given up or removed, an operator answered, a task placed or returned, or a job
        explained.
        """
        now, caught_up, budget = this.now, this.caught_up, this.budget
        out = self._operate(now, budget) if caught_up else []
        if not budget or any(isinstance(event, CLOSES) for event in out):
            return out  # nothing is placed on a host before it is known to be avoided, tainted or drained
        if hearing := self._reports.hearing_changed(budget.left):
            out.append(hearing)
        changed = self._reports.capacity_changed(self.slack.unsaid_by(this.until_ms))
        if changed:
            out.append(changed)
        if caught_up and (revoked := self.slack.decide(now, budget)):
            return [*out, revoked]
        if caught_up and (asks := self.surplus.decide(now, budget, self.cell["cell"].last_by)):
            return [*out, *asks]
        if matching := self._matching.decide(budget):
            out.append(matching)
        wakeup = self.next_wakeup()
        due = caught_up and wakeup is not None and wakeup <= now
        if due and (expired_ms := self.sharing.expired_ms(now)) is not None:
            return [*out, TimerPassed(machine=self.name, due_ms=expired_ms)]
        if ends := [*self.sharing.ends(this.until_ms, budget, self.cell["cell"].last_by)]:
            return [*out, *ends]
        if self.runs.waits.parking and (parks := parked(self.runs)):
            return [*out, parks]
        looked_ms = now
        if self.runs.waits.tasks and (due or not self._quiet):
            events, looked_ms = self._serve(now, caught_up, budget)
            self._quiet = not events and not budget.cut
            out += events
        if due and not out:
            out.append(TimerPassed(machine=self.name, due_ms=looked_ms))
        return out

    def _operate(self, now: int, budget: Budget) -> list[Event]:
        """Hosts that are given up or forgotten, and answers to operators."""
        out = self._liveness.decide(now, budget.left)
        if len(out) < budget.left:
            busy = {event.host_id for event in out if isinstance(event, HostLost)}
            out += self._removals.decide(now, busy, budget.left - len(out))
        out += [] if out else self._avoidance.decide(now, budget.left, self.cell["cell"].passed_ms)
        if not out and (self.conditions.table or self.stages.table):
            out = self._health.decide(now, self.cell["cell"].passed_ms)
            if not out:
                self.conditions.settle()
        out += [] if out else self._taints.decide(budget.left)
        if not out and self._devices.asks:
            out += self._devices.decide(budget.left)
        if not out and self._host_pools.asks:
            out += self._host_pools.decide()
        rows = self.campaigns.rows
        if not out and (self._maintenance.asks or self.stages.table):
            out += self._maintenance.decide(now, budget.left)
        if not out and self._moves.is_at_work:
            out += self._moves.decide(now)
        if not out and (self.windows.asks or self.windows.table):
            out += self.windows.decide(now, budget.left)
        if not out and (rows.asks or rows.going_on):
            out += self.campaigns.decide(now, budget.left)
        budget.spend(len(out))
        return out

    def _serve(self, now: int, caught_up: bool, budget: Budget) -> tuple[list[Event], int]:
        """The decisions about tasks that wait, and the time up to which all deadlines were looked at."""
        last_by, holds = self.cell["cell"].last_by, self.sharing.holds()
        self.windows.looked_ms = now
        room = kept_room(self.hosts, holds)
        assignment = Assignment(self.runs, self.hosts, room, budget, lambda slot: self.sharing.may_ask(slot, now))
        placed = assignment.place()
        out: list[Event] = [placed] if placed else []
        out += [asked(self.runs, self.hosts.ids, request, last_by) for request in assignment.parked]
        out += Reports(self.runs, assignment, budget, last_by).decide(now if caught_up else 0)
        if placed or assignment.parked or budget.cut or not caught_up:
            return out, now
        planned, looked_ms = self.sharing.decide(assignment, holds, room, now, budget, last_by)
        return out + planned, looked_ms

    def _next_of_operators(self) -> int | None:
        """When an operator is to be answered, a drain comes to its deadline, a window opens or closes, a step of a
        campaign is over, or a condition of a host has lasted for long enough.
        """
        avoidance, taints, maintenance, windows = self._avoidance, self._taints, self._maintenance, self.windows
        rows = self.campaigns.rows
        is_asked = bool(avoidance.asks or taints.asks or maintenance.asks or windows.asks or rows.asks)
        is_asked = is_asked or bool(
            self._host_pools.asks or self._devices.asks or self._moves.asks or self._moves.loads
        )
        if not (is_asked or self.stages.table or windows.table or rows.going_on or self.conditions.table):
            return None
        passed_ms = self.cell["cell"].passed_ms
        of_conditions = self._health.next_ms(passed_ms), self.conditions.next_ms(passed_ms)
        of_operators = (
            avoidance.next_ask_ms(),
            taints.next_ask_ms(),
            maintenance.next_ms(),
            self._host_pools.next_ask_ms(),
            self._moves.next_ms(),
            self._devices.next_ask_ms(),
        )
        return earliest(*of_operators, *of_conditions, windows.next_ms(), rows.next_ms())

    def view(self) -> ClusterView:
        """The hosts as the next decision begins with them."""
        return ClusterView(self.hosts, self.runs.shapes, kept_room(self.hosts, self.sharing.holds()))

    def _next_reservation(self) -> int | None:
        return self.sharing.reservations.next_ms(self.cell["cell"].passed_ms)

    def _pool_answered(self, event: PoolAnswered, now: int) -> None:
        before, lent = self.hosts.kinds, self._settings.now.slack
        self._settings.answered(event, now)
        kinds, lends = self._settings.kinds, self._settings.now.slack
        self.hosts.topology = self._settings.now.topology
        if kinds.names != before.names:
            self.runs.shapes.widen(kinds)
            self._restored()
        if (kinds.names, kinds.licences) != (before.names, before.licences):
            self.hosts.know(kinds)
        if lent != lends:
            self.slack.switched(lends, now)
        if self.hosts.pools.pool_answered(event):
            self.hosts.changed()
        self.conditions.restored()

    def _loaded(self, event: HostsLoaded, now: int) -> None:
        self.hosts.loaded(event, now)
        if self.slack.loaded(event, now, self._settings.now):
            self._quiet = False
            self.cell.change("cell").last_by = self._input.cause

    def _passed(self, event: TimerPassed, now: int) -> None:
        self._liveness.passed(event, now)
        row = self.cell.change("cell")
        row.passed_ms = max(row.passed_ms, event.due_ms)
        if self.campaigns.rows.going_on:
            self.campaigns.rows.passed(event.due_ms)
        if self._moves.loads:
            self._moves.passed(event.due_ms, now)

    def _removed(self, event: HostRemoved, now: int) -> None:
        self.runs.homes.given_up(event.host_id)
        self.slack.gone(event.host_id)
        self.surplus.gone(event.host_id)
        self.hosts.remove(event, now)

    def _closed(self, event: HostMaintenanceChanged, now: int) -> None:
        """Gives back the room that is kept on hosts which take no new tasks now."""
        table, barred = self.hosts.table, self.hosts.barred
        self._give_back(
            [host_id for host_id in event.host_ids if host_id in table and barred[table[host_id].number]], now
        )

    def _pooled(self, event: HostsPooled, now: int) -> None:
        """Gives back the room that is kept on hosts which take other tasks now."""
        self._give_back([host_id for host_id in event.host_ids if host_id in self.hosts.table], now)

    def _give_back(self, closed: list[str], now: int) -> None:
        if closed:
            self.runs.homes.given_up(*closed)
            self.sharing.closed(closed, now)

    def _arrived(self, event: GangsAdmitted, now: int) -> None:
        """Learns which tasks come, where hosts have GPUs."""
        if self.hosts.have_cards:
            arrived(event, self.runs, self.hosts)

    def _lost(self, event: HostLost, now: int) -> None:
        self.runs.homes.given_up(event.host_id)
        self.slack.gone(event.host_id)
        self.surplus.gone(event.host_id)
        self.hosts.lose(event, now)
        self._liveness.lost(event, now)
