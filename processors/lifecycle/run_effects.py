"""Effects of decisions about runs on the tasks, and the parts that are informed of them."""

import numpy as np

from events.codes import Outcome, Overdue, RunReport, TaskState
from events.columns import I64
from events.records.base import Event
from events.records.lifecycle import GangsQueued, RunsAvailable, RunsEnded, RunsOrdered, RunsOverdue, RunsStopping
from events.records.placement import TasksPlaced
from processors.lifecycle.failures import Failures
from processors.lifecycle.host_reports import Hosts
from processors.lifecycle.host_stages import HostStages
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.lookups import among
from processors.lifecycle.preemption_orders import PreemptionOrders
from processors.lifecycle.run_decisions import deadline_of
from processors.lifecycle.stateful import Stateful
from processors.lifecycle.suspects import Suspects
from processors.lifecycle.task_ports import TaskPorts
from processors.lifecycle.task_rules import Trait, moves, noted
from processors.lifecycle.task_table import PLACED, Note, TaskEvent
from processors.lifecycle.tasks import Ends, Tasks
from processors.lifecycle.updates.updates import Updates
from processors.lifecycle.verdicts import PresentRuns
from processors.state.arena import locate, locate_ranges
from processors.state.handlers import Row
from processors.state.seconds import second


class RunEffects:
    """Applies decisions about runs; `rows`: those of the table of handlers."""

    def __init__(
        self,
        tasks: Tasks,
        jobs: Jobs,
        runs: PresentRuns,
        hosts: Hosts,
        orders: PreemptionOrders,
        updates: Updates,
        stateful: Stateful,
        failures: Failures,
        suspects: Suspects,
        stages: HostStages,
        ports: TaskPorts,
    ) -> None:
        self._tasks = tasks
        self._jobs = jobs
        self._runs = runs
        self._hosts = hosts
        self._orders = orders
        self._updates = updates
        self._stateful = stateful
        self._failures = failures
        self._suspects = suspects
        self._stages = stages
        self._ports = ports
        self.rows: tuple[Row, ...] = (
            (GangsQueued, self._queued),
            (TasksPlaced, self._placed),
            (RunsOrdered, self._ordered),
            (RunsAvailable, self._available),
            (RunsOverdue, self._overdue),
            (RunsStopping, self._stopping),
            (RunsEnded, self._ended),
        )

    def _queued(self, event: GangsQueued, now: int) -> None:
        slots, index = locate_ranges(event, self._jobs.table)
        arena = self._tasks.arena
        arena.set("run", slots, event.run_array[index])
        arena.set("due", slots, 0)
        if event.avoid:
            arena.set("pin", slots[arena["pin"][slots] < 0], 0)
        self._updates.queued(slots)
        if event.timed:
            self._updates.place_waits.queued(event, slots, index, now)
        for gang in np.flatnonzero(event.gang_array).tolist():
            self._jobs.gangs.queued(event.job_ids[event.job_array[gang]])
        self._jobs.move(slots, moves(GangsQueued)[1])

    def _placed(self, event: TasksPlaced, now: int) -> None:
        slots, present = self._runs.named(event)
        arena = self._tasks.arena
        present[present] = noted(TaskEvent.PLACED, Note.HOST, arena["state"][slots[present]])
        hosts = zip(event.host_ids, event.host_session_array.tolist(), strict=True)
        numbers = np.array([self._hosts.number(*each) for each in hosts], dtype=np.int64)
        slots = slots[present]
        self._tasks.place(slots, numbers[event.host_array[present]])
        self._jobs.move(slots, PLACED)
        self._ports.placed(event, present)
        if self._stages.drains:
            self._stages.placed(slots)

    def _ordered(self, event: RunsOrdered, now: int) -> None:
        slots = self._move(event)
        self._begin(slots)
        self._stateful.ordered(slots)
        if self._stages.drains:
            self._stages.ordered(slots)
        self._tasks.wait(slots, self._jobs.deadlines(slots, now, lambda row: row.start_deadline_ms))

    def _begin(self, slots: I64) -> None:
        """Runs are ordered, of some tasks of batch jobs the first one."""
        traits = self._tasks.arena["traits"][slots]
        fresh = traits & (Trait.STATELESS | Trait.BEGUN) == 0
        if fresh.any():
            self._tasks.arena.set("traits", slots[fresh], traits[fresh] | int(Trait.BEGUN))

    def _available(self, event: RunsAvailable, now: int) -> None:
        slots = self._move(event)
        report = self._tasks.arena["report"][slots]
        self._tasks.arena.set("report", slots, np.where(report == RunReport.STARTED, 0, report))
        self._tasks.arena.set("ready", slots, second(now))
        self._stateful.up_or_over(slots)
        self._tasks.wait(slots, self._jobs.deadlines(slots, now, lambda row: row.max_runtime_ms))

    def _stopping(self, event: RunsStopping, now: int) -> None:
        self._hosts.stopping(event)
        slots = self._take(self._hosts.told(event, *self._runs.named(event)), RunsStopping)
        self._tasks.wait(slots, self._jobs.deadlines(slots, now, lambda row: row.stop_deadline_ms))
        self._orders.stopping(slots)

    def _overdue(self, event: RunsOverdue, now: int) -> None:
        """Runs that went on by another decision of the same round have another deadline since."""
        slots, present = self._runs.named(event)
        slots, what = slots[present], event.what_array[present]
        late = deadline_of(self._tasks.arena["state"][slots]) == what
        self._tasks.note("due", slots[late], 0)
        limit = self._jobs.gangs.with_members(slots[what == Overdue.RUN_LIMIT])
        self._tasks.record_event(TaskEvent.RUN_LIMIT, limit)
        self._tasks.record_event(TaskEvent.START_LATE, slots[late & (what == Overdue.START)])

    def _move(self, event: RunsOrdered | RunsAvailable) -> I64:
        """Takes the tasks that a decision names to its next state, as the table has it."""
        return self._take(self._runs.of(event), type(event))

    def _take(self, slots: I64, decision: type[Event]) -> I64:
        states, following = moves(decision)
        in_states: I64 = slots[among(self._tasks.arena["state"][slots], states)]
        self._jobs.move(in_states, following)
        return in_states

    def _ended(self, event: RunsEnded, now: int) -> None:
        slots, exists = locate(event, self._jobs.table)
        slots = slots[exists]
        following = (event.next_array, event.kept_array, event.counts_as_array, event.failures_array)
        ends = Ends(*(column[exists] for column in (*following, event.wait_ms_array)))
        outcome = event.outcome_array[exists]
        hopeless = self._failures.hopeless(slots)
        self._jobs.gangs.count_failures(slots, outcome, ends.counts_as, ends.wait_ms, hopeless, now)
        self._orders.ended(slots)
        self._failures.ended(slots, ends.next)
        self._suspects.ended(slots, outcome, now)
        hosts = self._stages.leaving(slots) if self._stages.drains else {}
        before = self._tasks.arena["state"][slots].copy()
        state = self._tasks.end(slots, ends, now)
        self._jobs.count(slots, before, state)
        self._jobs.controllers_over(slots, state)
        self._stateful.wait_their_turn(slots[(state == TaskState.BACKOFF) & (outcome == Outcome.STOPPED)])
        self._stateful.up_or_over(slots)
        self._ports.ended(slots)
        if hosts:
            self._stages.left(hosts)
