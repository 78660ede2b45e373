"""Entitlement: owns the pool tree, the queues and what each pool holds; decides who may go on and who must leave."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from events.codes import Code
from events.job_ends import is_over
from events.records.base import Event
from events.records.entitlement import (
    AdmissionsRanked,
    CreditsSet,
    EntitlementsSet,
    GangsAdmitted,
    GangsHeld,
    HostPoolsWanted,
    PoolAnswered,
    PreemptionRefused,
    PreemptionsOrdered,
    RightsSet,
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
from events.records.placement import (
    CapacityChanged,
    GangsParked,
    GangsReturned,
    HostsReserved,
    PreemptionAsked,
    TasksPlaced,
)
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved, RebalanceRequested
from events.records.rounds import TimerPassed
from events.resources import Kinds
from processors.base import MachineBase
from processors.entitlement.access_rows import KINDS, AccessEvent
from processors.entitlement.admission.admit import Admissions
from processors.entitlement.admission.lend import Lending
from processors.entitlement.admission.turns import Turns
from processors.entitlement.conversion import from_0_3
from processors.entitlement.pools import Pools
from processors.entitlement.preemption.confirm import PreemptionRequests
from processors.entitlement.preemption.limits import Limits, Parking
from processors.entitlement.preemption.rights import Claims, Rights
from processors.entitlement.queues.parts import Consumer, PartKey
from processors.entitlement.records import TaskRecords
from processors.entitlement.reports.pools import Reports
from processors.entitlement.reports.waits import Explanations
from processors.entitlement.rows import (
    CellRow,
    ConfiguredRow,
    DefinedRow,
    PoolEvent,
    RebalanceRow,
    RefusalRow,
    RemovedRow,
    ask_row,
    host_pool_row,
)
from processors.entitlement.state import State
from processors.state.arena import locate_ranges
from processors.state.causes import CurrentInput
from processors.state.conversion import Conversions, with_defaults
from processors.state.deadlines import Deadline
from processors.state.handlers import Handlers
from processors.state.steps import Pass, Step, decide_in_steps
from processors.state.table import Table
from processors.state.widening import widen


class Entitlement(MachineBase):
    """Implements `processors.machine.Machine`."""

    name: ClassVar[str] = "entitlement"
    facts: ClassVar[tuple[str, ...]] = ("paceline.pools",)
    peers: ClassVar[tuple[str, ...]] = ("lifecycle", "placement")
    logic: ClassVar[int] = 19
    state: ClassVar[int] = 11
    conversions: ClassVar[Conversions] = {9: from_0_3, 10: with_defaults({"cell": CellRow})}

    def __init__(self, cell: int = 0) -> None:
        super().__init__(CurrentInput())
        state = self.shared = State()
        self.pools, self.queues, self.usage, self.order = state.pools, state.queues, state.usage, state.order
        self.marks, self.shares, self.holds, self.displacements = (
            state.marks,
            state.shares,
            state.holds,
            state.displacements,
        )
        self.task_records = TaskRecords(state)
        self.commands = Pools(cell, state)
        self.reports = Reports(state)
        self.admissions = Admissions(state)
        self.lending = Lending(state, self.task_records)
        self.turns = Turns(state, self.admissions.heads)
        self.explanations = Explanations(state, self.admissions)
        claims = Claims(state)
        self.rights = Rights(state, claims)
        self.limits = Limits(state, claims)
        self.requests = PreemptionRequests(state, claims, self.limits.runs)
        self.parking = Parking(state, self.limits, self.task_records, self.requests)
        self._set_handlers(
            (PoolDefined, self._asked),
            (PoolRemoved, self._asked),
            (RebalanceRequested, self._asked),
            (CellConfigured, self._asked),
            *((kind, self._asked) for kind in KINDS),
            (JobAccepted, self._accepted),
            (InstancesChanged, self._instances_changed),
            (JobPriorityChanged, self._priority_changed),
            (JobChanged, self._job_changed),
            (GangsQueued, self.task_records.queued),
            (RunsEnded, self.displacements.ended, self.task_records.ended),
            (PreemptionAnswered, self._preemption_answered),
            (GangsReturned, self.task_records.returned),
            (TasksPlaced, self._placed),
            (HostsReserved, self.task_records.reserved),
            (PreemptionAsked, self._preemption_asked),
            (CapacityChanged, self._capacity),
            (PoolAnswered, self._pool_answered),
            (EntitlementsSet, self._set),
            (HostPoolsWanted, self.reports.set_wanted),
            (GangsAdmitted, self._admitted),
            (AdmissionsRanked, self.task_records.ranked, self.requests.close),
            (GangsParked, self.task_records.parked),
            (GangsHeld, self._held),
            (PreemptionsOrdered, self._ordered),
            (PreemptionRefused, self.requests.close),
            (RightsSet, self.rights.set),
            (TurnSet, self.turns.set_turn),
            (CreditsSet, self.turns.set_credits),
            (TimerPassed, self._timer),
        )
        self._steps = self._step_table()
        self._deadlines = self._deadline_table()
        self.lending.idle.restored()

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        """Implements `Machine.tables`."""
        queues, task_records, commands = self.queues, self.task_records, self.commands
        return (
            *(self.pools, self.shared.cells, self.shared.reported),
            *(commands.foreign, commands.asks, commands.done),
            *commands.access.tables,
            *(queues.jobs, queues.shapes.table, queues.arena.table),
            *(task_records.orders, task_records.kept, task_records.backoffs, self.displacements.table),
            *(*self.rights.tables, self.requests.table, self.holds.table, self.lending.steady.table),
            *(self.shared.rebalances.table, self.shared.rebalances.moves),
        )

    @property
    def cell(self) -> CellRow:
        """Capacity and settings."""
        return self.shared.cell

    def _restored(self) -> None:
        self.shared.restored()
        self.queues.restored(Kinds(self.cell.settings.resources), bool(self.cell.host_pools))
        self.task_records.restored()
        self.displacements.restored()
        self.holds.restored()
        self.requests.restored()
        self.commands.restored()
        self._parts_restored()

    def _parts_restored(self) -> None:
        """The queues were restored, or know more kinds."""
        for part in (self.shares, self.lending, self.admissions, self.turns, self.rights, self.limits):
            part.restored()

    def _decide(self, this: Pass) -> list[Event]:
        """A unit of work is a fact answered, a task, a part of a job that is told why it waits, or a pool. The
        decisions of one step are applied before another one looks: the first that has any ends the pass.
        """
        return decide_in_steps(self._steps, this)

    def _deadline_table(self) -> tuple[Deadline, ...]:
        return (
            Deadline("ends of turns, and credits that are full", self.turns.next_ms),
            Deadline("rights", self.rights.next_ms),
            Deadline("orders without an answer", self.task_records.late_ms),
            Deadline("orders under limits", self.limits.next_ms),
            Deadline("claims that are parked", self.parking.next_ms),
            Deadline("loans", self.lending.next_ms),
            Deadline("reports", self.reports.next_ms),
            Deadline("ends of bindings and tokens", self.commands.access.ends.first),
        )

    def _step_table(self) -> tuple[Step, ...]:
        def step(name: str, decide: Callable[[Pass], Sequence[Event]], why_here: str) -> Step:
            return Step(name, decide, why_here, ends=True)

        return (
            step(
                "answers about pools",
                lambda this: self.commands.answers(this.now, this.budget.left) if self.commands.asks else [],
                "all others look at the pools as the answers leave them",
            ),
            step("admission", self._admit, "an entitled unit comes before all that is lent or told"),
            step(
                "turns",
                lambda this: self.turns.decide(this.now),
                "the heads of the queues are known; with a turn a pool is entitled to what else would be lent",
            ),
            step("lending", self.lending.decide, "only what no entitled unit takes is lent"),
            step(
                "parking",
                self.parking.decide,
                "a claim gives way only where nothing could be lent beside it",
            ),
            step(
                "reports of pools that preempt",
                lambda this: self.reports.of_pools(self.requests.pools()),
                "an order follows from entitlements that were reported before it",
            ),
            step(
                "answers to placement",
                self.requests.decide,
                "the plans of placement grow old, and hosts are harder to free than room under a limit",
            ),
            step(
                "room under limits", self.limits.decide, "runs that leave for hosts are counted in, none is taken twice"
            ),
            step("rights", self.rights.decide, "a right counts the runs that were just ordered to leave"),
            step(
                "reasons",
                self.explanations.decide,
                "nothing more is admitted or freed, so that a reason lasts",
            ),
            step("reports to the views", self._report, "they show a state in which all above has been decided"),
            step(
                "time",
                self._pass_time,
                "each deadline that is due has been looked at and led to no decision",
            ),
        )

    def _admit(self, this: Pass) -> list[Event]:
        """Admissions; before all inputs are read nothing else is decided, since it might be for what is over."""
        self._follow()
        out = self.admissions.decide(this)
        this.over = not this.caught_up
        return out

    def _next_wakeup(self) -> int | None:
        self._follow()
        return super()._next_wakeup()

    # What follows from the state.

    def _follow(self) -> None:
        """Finds for whom entitlements have changed enough."""
        pools = self.shares.follow()
        if pools:
            self.marks.mark(Consumer.ADMISSION, pools)
            self.marks.mark(Consumer.DEMOTION, pools)

    def _report(self, this: Pass) -> list[Event]:
        """Credits are looked at as often as the numbers of pools are reported."""
        if not is_due(self.reports.next_ms(), this.now):
            return []
        reports = self.reports
        return self.turns.credits(this.now, this.budget.left) or [*reports.wanted(), reports.report(this.budget.left)]

    def _pass_time(self, this: Pass) -> list[Event]:
        return [TimerPassed(machine=self.name, due_ms=this.now)] if is_due(self.next_wakeup(), this.now) else []

    # What inputs and decisions do.

    def _handle(self, event: Event, now: int, handlers: Handlers) -> None:
        if isinstance(event, JobChanged) and not is_over(event):
            return
        changes, numbers = self.queues.changes, self.usage.numbers
        super()._handle(event, now, handlers)
        if self.queues.changes != changes:
            self.shared.change_cell().note(event, self._input.cause, self.usage.numbers != numbers)
            self.lending.idle.note(now)

    def _asked(self, event: PoolEvent | AccessEvent, now: int) -> None:
        self.commands.asks.put(self._input.offset, ask_row(event))

    def _accepted(self, event: JobAccepted, now: int) -> None:
        self.queues.add(event)

    def _instances_changed(self, event: InstancesChanged, now: int) -> None:
        self.queues.change_instances(event)
        self.displacements.instances_changed(event)
        self.limits.runs.job_changed(event.job_id)

    def _priority_changed(self, event: JobPriorityChanged, now: int) -> None:
        self.queues.change_priority(event.job_id, event.priority)
        self.limits.runs.job_changed(event.job_id)

    def _admitted(self, event: GangsAdmitted, now: int) -> None:
        self.limits.admit(self.task_records.admitted(event, now), now)

    def _job_changed(self, event: JobChanged, now: int) -> None:
        """A job is over."""
        self.queues.drop(event.job_id)
        self.displacements.dropped(event.job_id)
        self.shared.rebalances.drop(event.job_id)
        self.limits.drop(event.job_id)

    def _placed(self, event: TasksPlaced, now: int) -> None:
        self.limits.runs.placed(self.task_records.placed(event, now))

    def _preemption_asked(self, event: PreemptionAsked, now: int) -> None:
        self.requests.add(event, self._input.cause)

    def _ordered(self, event: PreemptionsOrdered, now: int) -> None:
        self.displacements.ordered(event)
        if event.code == Code.REBALANCED:
            self.shared.rebalances.ordered(event.order, event.for_job, len(event.job_array), now)
        until_ms = now + self.cell.settings.hold_for_ms
        self.task_records.ordered(event, until_ms)
        self.requests.close(event, now)
        if not event.host_ids or self.task_records.is_parked(event.for_job, event.for_first):
            self.holds.ordered(event, until_ms)

    def _preemption_answered(self, event: PreemptionAnswered, now: int) -> None:
        self.displacements.answered(event, now, self.cell.settings.defer_for_ms)
        self.task_records.answered(event, now)
        self.holds.answered(event)

    def _capacity(self, event: CapacityChanged, now: int) -> None:
        row, kinds = self.shared.change_cell(), self.queues.kinds
        changed = row.version != event.version
        row.capacity, row.hosts, row.version = kinds.vector(event.capacity), event.hosts, event.version
        row.largest = kinds.vector(event.largest) if event.largest else ()
        host_pools = {each.name: host_pool_row(each) for each in event.host_pools}
        if row.host_pools != host_pools:
            row.host_pools = host_pools
            if bool(host_pools) != self.usage.are_pooled:  # it counts by kinds of jobs from now on, or no more
                self.queues.restored(kinds, bool(host_pools))
                self._parts_restored()
            self.shares.restored()
        self.task_records.ask_again()
        self.queues.changes += 1
        self.queues.recheck("/", retell=False)
        if changed:
            self.queues.release()

    def _pool_answered(self, event: PoolAnswered, now: int) -> None:
        kinds, lend_after = self.queues.kinds, self.cell.settings.lend_after_ms
        fact = self.commands.answered(event)
        if fact is None:
            return
        if isinstance(fact, RebalanceRow):
            self.shared.rebalances.start(fact.job_id, fact.max_moves, fact.by_setting, now)
            self.rights.mark_all()
            return
        self.queues.changes += 1
        path = "/" if isinstance(fact, ConfiguredRow) else fact.path
        if isinstance(fact, DefinedRow):
            self.shares.define(path)
            if self.cell.host_pools:
                self.shares.restored()
        elif isinstance(fact, RemovedRow):
            self.shares.remove(path)
            self.turns.removed(path)
            self.reports.forget(path)
        if self.cell.settings.lend_after_ms != lend_after:
            self.lending.resize(now)
        if self.queues.kinds is not kinds:
            tables = (self.shared.reported, *self.rights.tables, self.task_records.kept, self.lending.steady.table)
            widen(self.queues.kinds, *tables)
            self._parts_restored()
        self.queues.recheck(path, retell=True)
        self.lending.pools_changed()
        self.limits.pools_changed()
        self.rights.mark_all()

    def _set(self, event: EntitlementsSet, now: int) -> None:
        self.reports.set(event, now)
        self.lending.steady.note(event.claimed or self.queues.nothing, now)
        self.rights.mark_reported(event)
        self.marks.mark(Consumer.LENDING, event.pools)

    def _held(self, event: GangsHeld, now: int) -> None:
        refusal = RefusalRow(event.code, event.at)
        slots, _ = locate_ranges(event, self.queues.jobs)
        for job_id, row, key, _ in self.queues.split(slots):
            self.queues.tell(PartKey(job_id, key), refusal)
            self.limits.refuse(PartKey(job_id, key), row, now)
        self.marks.mark(Consumer.REASONS, (event.pool,))

    def _timer(self, event: TimerPassed, now: int) -> None:
        self.shared.change_cell().timer_ms = now
        self.displacements.expire(now)
        self.lending.pass_time(now)
        self.task_records.passed(now)
        self.holds.expire(now)
        self.shared.rebalances.expire(now)
        self.rights.expire(now)
        self.commands.access.expire(now)


def is_due(at: int | None, now: int) -> bool:
    """Whether a time has come; None: it never does."""
    return at is not None and at <= now
