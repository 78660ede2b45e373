"""Lifecycle: owns jobs, tasks and runs; decides what becomes of them (decisions 003 and 028).

The life of a task is a table (`task_table.py`). What the machine holds of tasks are columns (`tasks.py`), what it
decides about many at once stands in `run_decisions.py`, answers to users in `commands.py`, what hosts report in
`host_reports.py`, orders to preempt in `preemption_orders.py`. This module is the dispatch: which record goes to which
part, in which order the parts decide, and by which deadlines the machine wakes.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from events.cell_settings import Settings
from events.codes import Code
from events.instance_changes import instance_change
from events.records.base import Event
from events.records.entitlement import PoolAnswered, PreemptionsOrdered
from events.records.jobs import OverridesUploaded
from events.records.lifecycle import (
    CommandAnswered,
    HostReconciled,
    HostSuspected,
    InstancesChanged,
    InstancesWanted,
    JobAccepted,
    JobChanged,
    JobHeld,
    JobPriorityChanged,
    JobRejected,
    JobReopened,
    JobsForgotten,
    JobSlaChanged,
    OverridesDropped,
    PreemptionAnswered,
    SlaGroupSet,
)
from events.records.placement import (
    HostHearingChanged,
    HostLost,
    HostMaintenanceChanged,
    HostRemoved,
    HostTainted,
    MatchingHostsChanged,
    RevocationAsked,
)
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from events.records.rounds import TimerPassed
from events.records.sla import SurplusSet
from events.records.tasks import HostInventory, RunsReported
from events.resources import Kinds
from processors.base import MachineBase
from processors.lifecycle.commands import JOB_FACTS, CommandAnswers, JobFact, ask_row, last_wait_ms
from processors.lifecycle.conversion import from_0_3
from processors.lifecycle.daemons import DAEMON, Daemons
from processors.lifecycle.failures import Failures
from processors.lifecycle.gates import Gates
from processors.lifecycle.goals import Goals
from processors.lifecycle.hearing import HostHearing
from processors.lifecycle.host_reports import Hosts
from processors.lifecycle.host_stages import HostStages
from processors.lifecycle.instance_commands import InstanceCommands
from processors.lifecycle.job_sla import sla_changed
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.override_chunks import OverrideChunks
from processors.lifecycle.pools import Pools
from processors.lifecycle.preemption_orders import PreemptionOrders
from processors.lifecycle.rows import ActionRow, AskRow, ReopenRow, SubmittedRow
from processors.lifecycle.run_decisions import RunLookup, queued
from processors.lifecycle.run_effects import RunEffects
from processors.lifecycle.run_step import RunStep
from processors.lifecycle.sla_groups import SlaGroups
from processors.lifecycle.stateful import STATEFUL, Stateful
from processors.lifecycle.surplus import SurplusInstances
from processors.lifecycle.suspects import Suspects
from processors.lifecycle.task_ports import TaskPorts
from processors.lifecycle.task_table import TaskEvent
from processors.lifecycle.tasks import Tasks
from processors.lifecycle.updates.canary import Canaries
from processors.lifecycle.updates.commands import UpdateCommands
from processors.lifecycle.updates.decisions import UpdateDecisions
from processors.lifecycle.updates.updates import Updates
from processors.lifecycle.verdicts import PresentRuns, Verdicts
from processors.lifecycle.volumes import Volumes
from processors.state.causes import CurrentInput
from processors.state.cell_settings import CellSettings
from processors.state.conversion import Conversions
from processors.state.deadlines import Deadline
from processors.state.handlers import Handlers, Row
from processors.state.steps import Pass, Step, decide_in_steps
from processors.state.table import Table, struct_table


class Lifecycle(MachineBase):
    """Implements `processors.machine.Machine`."""

    name: ClassVar[str] = "lifecycle"
    facts: ClassVar[tuple[str, ...]] = ("paceline.jobs", "paceline.pools", "paceline.tasks")
    peers: ClassVar[tuple[str, ...]] = ("entitlement", "placement", "sla")
    logic: ClassVar[int] = 20
    state: ClassVar[int] = 15
    conversions: ClassVar[Conversions] = {14: from_0_3}

    def __init__(self, cell: int = 0) -> None:
        super().__init__(CurrentInput())
        self.cell = cell
        self._pools = Pools(cell, self._input)
        self.pools = self._pools.table
        self.foreign = self._pools.foreign
        self.pool_facts = self._pools.facts
        self.asks: Table[int, AskRow] = struct_table("asks", AskRow, int)
        self._settings = CellSettings()
        self.tasks = Tasks(self._input)
        self._jobs = Jobs(self.tasks, self.pools)
        self.jobs = self._jobs.table
        self.ended = self._jobs.ended
        self.stretch = self._jobs.stretch
        self.ports = TaskPorts(self._jobs.task_at)
        self.hosts = Hosts(self.tasks, self._jobs.table)
        self._runs = PresentRuns(self.tasks, self._jobs.table)
        self.orders = PreemptionOrders(self.tasks, self._runs.of, self._jobs.most_leaving)
        self.chunks = OverrideChunks()
        self.sla_groups = SlaGroups()
        self.updates = Updates(self.tasks, self._jobs, self.asks, self.chunks.whole_of, self.hosts.id_of)
        self._stateful = Stateful(self.tasks, self._jobs)
        self.daemons = Daemons(self.tasks, self._jobs, self.hosts, self.updates)
        self._surplus = SurplusInstances(self.tasks, self._jobs, self.updates)
        self._update_decisions = UpdateDecisions(self.updates, self.tasks, self._jobs, self.hosts.named)
        self.commands = UpdateCommands(self.updates, self._update_decisions)
        allowed, deferred = (self.orders.allowed,), (self.orders.deferred, self.updates.deferred)
        verdicts = Verdicts(self.tasks, self._runs, self.hosts.number_of, allowed, deferred)
        self._stages = HostStages(self.tasks, self._jobs, self.hosts, self.updates)
        self.goals = Goals(self.tasks, self._jobs, self._stateful, self.updates)
        self.instance_commands = InstanceCommands(self._jobs, self.tasks)
        self.volumes = Volumes(self.tasks, self._jobs, self.hosts)
        self._gates = Gates(self.tasks, self._jobs)
        self._canaries = Canaries(self.updates, self.tasks, self._jobs)
        self.failures = Failures(self.tasks, self._jobs, self.hosts, lambda: self.settings, self._canaries.proof_ms)
        self.suspects = Suspects(self.tasks, self._jobs, self.hosts, self.pools)
        self._hearing = HostHearing(self.tasks, self.hosts, self.updates.host_changed)
        self._lookup = RunLookup(
            job_id=self._jobs.at.__getitem__,
            host=self.hosts.named,
            lost_by=self.hosts.lost_by,
            leaving_by=self._jobs.leaving_by,
            drained_by=self._stages.led_by,
            has_ports=lambda job_id: self.jobs[job_id].ports > 0,
            ports=self.ports.of,
            devices=self.ports.device_columns,
            new_shapes=self.updates.new_shapes,
            end_rules=self.failures,
            backoff=self.failures.backoff,
        )
        effects = RunEffects(
            self.tasks,
            self._jobs,
            self._runs,
            self.hosts,
            self.orders,
            self.updates,
            self._stateful,
            self.failures,
            self.suspects,
            self._stages,
            self.ports,
        )
        self._steps = self._step_table()
        self._deadlines = self._deadline_table()
        updates = self.updates
        self._set_handlers(
            *(*self._of_inputs(), *self._of_jobs()),
            *(*updates.rows, *updates.place_waits.rows, *effects.rows, *verdicts.rows),
        )

    def _of_inputs(self) -> Sequence[Row]:
        """Handlers of facts, and of what the other machines decide."""
        return (
            *((kind, self._asked) for kind in JOB_FACTS),
            (OverridesUploaded, self.chunks.uploaded),
            (PoolDefined, self._pools.fact),
            (PoolRemoved, self._pools.fact),
            (CellConfigured, lambda event, now: self._settings.asked(self._input.offset, event)),
            (RunsReported, self.hosts.reported),
            (HostInventory, self.hosts.inventory),
            (PoolAnswered, self._settings.answered, self._pool_answered),
            (PreemptionsOrdered, self.orders.ordered),
            (RevocationAsked, self._revoked),
            (HostLost, self.hosts.lost, self.updates.image_waits.left),
            (HostRemoved, self._host_removed, self.updates.image_waits.left),
            (HostHearingChanged, self._hearing.said),
            (HostMaintenanceChanged, self._stages.said),
            (HostTainted, self._stages.tainted),
            (TimerPassed, self._stages.passed),
            (MatchingHostsChanged, self.daemons.matching),
            (SurplusSet, self._surplus.said),
        )

    def _of_jobs(self) -> Sequence[Row]:
        """Handlers of decisions about jobs and hosts."""
        return (
            (JobAccepted, self._accepted),
            (JobRejected, self._answered),
            (CommandAnswered, self._answered),
            (JobChanged, self._changed),
            (JobHeld, self.goals.held),
            (JobReopened, self._jobs.reopened),
            (JobPriorityChanged, self._jobs.priority_changed),
            (JobSlaChanged, self._sla_changed, self._surplus.sla_changed),
            (SlaGroupSet, self.sla_groups.said),
            (JobsForgotten, self._jobs.forgotten),
            (OverridesDropped, self.chunks.dropped),
            (InstancesWanted, self.goals.wanted),
            (InstancesChanged, self._instances_changed),
            (PreemptionAnswered, self.orders.answered),
            (HostReconciled, self.hosts.reconciled),
            (HostSuspected, self.suspects.said),
        )

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        """Implements `Machine.tables`."""
        return (
            *(self.jobs, self.pools, self.foreign, self.pool_facts, self.asks, self.chunks.table),
            *self.ended.tables,
            *self.ports.tables,
            self.failures.unstarted,
            self.suspects.table,
            self._settings.pending,
            self._settings.kept,
            self.sla_groups.table,
            self.hosts.table,
            self._stages.tolerations,
            self.daemons.table,
            self.orders.table,
            *self.updates.tables,
            self.tasks.arena.table,
            self.tasks.arena.rare,
        )

    @property
    def settings(self) -> Settings:
        """The settings of the cell."""
        return self._settings.now

    @property
    def settings_pending(self) -> bool:
        """Whether settings wait for their answer."""
        return len(self._settings.pending) > 0

    @property
    def kinds(self) -> Kinds:
        """The resources that the cell knows."""
        return self._settings.kinds

    @property
    def open_tasks(self) -> int:
        """The tasks of all jobs that haven't ended."""
        return self._jobs.open_tasks

    def state_of(self, job_id: str) -> str | None:
        """The state of a job; None where it was not accepted, or is forgotten."""
        row = self.jobs.get(job_id) or self.ended.get(job_id)
        return None if row is None else row.state

    def _restored(self) -> None:
        self.tasks.restored()
        self.chunks.restored()
        self.hosts.restored()
        self.suspects.restored()
        self._settings.restored()
        self._jobs.restored()
        self.daemons.restored()
        self._gates.restored()
        self.orders.restored()
        self.updates.restored()
        self._stages.restored()
        self._surplus.restored()

    def _handle_own(self, event: Event, now: int, handlers: Handlers) -> None:
        self._handle(event, now, handlers)
        self.tasks.settle()

    def _decide(self, this: Pass) -> list[Event]:
        """A unit of work is a fact answered, a run, a job, or a host that was reconciled."""
        return decide_in_steps(self._steps, this)

    def _deadline_table(self) -> tuple[Deadline, ...]:
        return (
            Deadline("back-offs, and runs that take too long", self.tasks.next_due_ms),
            Deadline("gangs that are queued again", self._jobs.gangs.next_due_ms),
            Deadline("gated tasks", self._gates.next_due_ms),
            Deadline("jobs of unknown pools", self._next_ask),
            Deadline("updates", self._update_decisions.next_due_ms),
            Deadline("overrides that are dropped", self.chunks.next_due_ms),
            Deadline("jobs that are forgotten", self._next_forgotten),
            Deadline("tolerations that end", self._stages.ends.first),
        )

    def _step_table(self) -> tuple[Step, ...]:
        runs = RunStep(self.tasks, self._jobs, self._lookup)
        return (
            Step(
                "answers to facts",
                self._answer,
                "a stop decides whether a run that is over keeps its admission; at most half of the budget, so that "
                "many commands don't delay what hosts report",
            ),
            Step("runs", runs.decide, "of the jobs of which no command was answered; after an answer nothing else"),
            Step(
                "inventories of hosts",
                self.hosts.decide,
                "runs that an inventory ended are said no later than its answer",
            ),
            Step("preemption orders", partial(self.orders.decide, self._lookup), "the last run of an order is over"),
            Step("suspected hosts", self.suspects.decide, "the ends that speak against a host are said"),
            Step("gated tasks", self._queue_gated, "runs that are over make room under `max_running`"),
            Step(
                "instances of daemons",
                self.daemons.decide,
                "the state of a job, which follows, depends on the instances that it has",
                ends=True,
            ),
            Step("surplus instances", self._surplus.decide, "as those of daemons", ends=True),
            Step("gangs", self._jobs.gangs.decide, "all members are over and said to be"),
            Step(
                "updates and jobs",
                self._decide_jobs,
                "an update looks when nothing else happens to its instances; a job changes when its update has not",
            ),
            Step("tolerations that end", self._time_tolerations, "what was said of the runs before counts"),
            Step("forgotten jobs", self._forget, "a job is over before it is forgotten"),
            Step("forgotten overrides", self.chunks.decide, "they may go at any time"),
        )

    def _time_tolerations(self, this: Pass) -> list[Event]:
        return [TimerPassed(machine=self.name, due_ms=this.now)] if self._stages.ends.due(this.until_ms) else []

    def _answer(self, this: Pass) -> list[Event]:
        if not self.asks:
            return []
        answers = CommandAnswers(self, this.now, this.caught_up)
        out = list(answers.all(max(1, this.budget.left // 2)))
        this.budget.spend(answers.answered)
        return out

    def _queue_gated(self, this: Pass) -> list[Event]:
        slots = self._gates.open(this.until_ms, this.budget.left)
        if not len(slots):
            return []
        this.budget.spend(len(slots))
        return queued(self.tasks.arena, slots, self._lookup)

    def _decide_jobs(self, this: Pass) -> list[Event]:
        updates = [] if this.out else self._update_decisions.all(this.now, this.caught_up, this.budget.whole)
        if updates:
            return updates
        changes = self._jobs.changes(this.budget.left)
        if not changes:
            return []
        this.budget.spend(len(changes))
        return [*self._update_decisions.with_jobs(changes), *self._jobs.deleted(changes)]

    def _forget(self, this: Pass) -> list[Event]:
        return self._jobs.forgettable(this.now, self.settings, this.budget.left) if this.caught_up else []

    def _next_ask(self) -> int | None:
        """When a job whose pool isn't known is refused; while facts about pools wait for answers, these come first."""
        if len(self.pool_facts) or self.settings_pending or not self.asks:
            return None
        return last_wait_ms(next(iter(self.asks.values())).at_ms)

    def _next_forgotten(self) -> int | None:
        return self.ended.next_due_ms(self.settings.forget_after_ms, self.settings.ended_jobs_max)

    # What inputs say.

    def _asked(self, event: JobFact, now: int) -> None:
        self.asks.put(self._input.offset, ask_row(now, event, self._input.value))

    def _pool_answered(self, answer: PoolAnswered, now: int) -> None:
        self._pools.answered(answer, self._jobs)

    # What decisions do.

    def _answered(self, event: JobRejected | CommandAnswered, now: int) -> None:
        ask = self.asks.get(event.jobs_offset)
        if ask is None:
            return
        self.asks.remove(event.jobs_offset)
        if isinstance(event, CommandAnswered) and event.code == Code.DONE and event.job_id in self.jobs:
            deletes = isinstance(ask.fact, ActionRow) and ask.fact.action == "delete"
            self._jobs.command_done(event.job_id, event.command_id, deletes)

    def _accepted(self, event: JobAccepted, now: int) -> None:
        ask = self.asks[event.jobs_offset]
        job = ask.fact.spec if isinstance(ask.fact, ReopenRow) else ask.fact
        assert isinstance(job, SubmittedRow)
        if isinstance(ask.fact, ReopenRow):
            self.ended.reopen(event.job_id)
        self.asks.remove(event.jobs_offset)
        self._jobs.add(event, self.chunks.whole_of(job), ask.spec_hash)
        for shape in event.shapes:
            if shape.rules is not None:
                self._stages.job_has(event.job_id, shape.rules)
        self.updates.accepted(event.job_id, job, ask.spec_hash)
        if event.kind == STATEFUL:
            self._stateful.accepted(event)

    def _changed(self, event: JobChanged, now: int) -> None:
        self._jobs.changed(event, now)
        if event.job_id not in self.jobs:
            self.updates.dropped(event.job_id)
            self.daemons.dropped(event.job_id)
            self._stages.job_dropped(event.job_id)

    def _host_removed(self, event: HostRemoved, now: int) -> None:
        self.daemons.host_removed(event)
        row = self.hosts.table.get(event.host_id)
        if row is not None and row.session <= event.session:
            self._stateful.host_removed(row.number)
            self.suspects.host_removed(event.host_id)
            self._stages.host_removed(row.number)
        self.hosts.removed(event, now)

    def _revoked(self, event: RevocationAsked, now: int) -> None:
        self.tasks.record_event(TaskEvent.REVOKE, self._runs.of(event))

    def _sla_changed(self, event: JobSlaChanged, now: int) -> None:
        self.orders.allowed(sla_changed(self.jobs, self.tasks, event))

    def _instances_changed(self, event: InstancesChanged, now: int) -> None:
        base = self.jobs[event.job_id].base
        self._jobs.change_instances(event)
        for shape in event.shapes:
            if shape.rules is not None:
                self._stages.job_has(event.job_id, shape.rules)
        row = self.jobs[event.job_id]
        if row.base != base:
            self.orders.moved(row.base, row.instances)
        self._stateful.wait_their_turn(row.base + instance_change(event).added)
        self._surplus.instances_changed(event)
        if row.kind == DAEMON:
            self.daemons.instances_changed(event)
        self.updates.touch(event.job_id)  # it may wait for one to leave that it adds again
