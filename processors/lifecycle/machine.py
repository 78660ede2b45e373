"""Lifecycle: owns jobs, tasks and runs; decides what becomes of them (design §4).

What it holds of a task are columns (`tasks.py`); what it does about many tasks at once stands in `verdicts.py`, answers
to users in `answers.py`, what hosts report in `hosts.py`. Here inputs are told apart and decisions applied.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from events.codes import Code, TaskState
from events.columns import I64, ints, longs
from events.records.base import Event
from events.records.entitlement import PoolAnswered, PreemptionsOrdered
from events.records.jobs import JobStopRequested, JobSubmitted
from events.records.lifecycle import (
    CommandAnswered,
    DisruptionAsked,
    GangsQueued,
    HostReconciled,
    InstancesChanged,
    JobAccepted,
    JobChanged,
    JobRejected,
    JobsForgotten,
    PreemptionDeferred,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
)
from events.records.placement import HostLost, HostRemoved, TasksPlaced
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from events.records.tasks import HostInventory, RunsReported
from events.resources import Kinds
from processors.lifecycle.commands import POOL_WAIT_MS, Answers, ask_row
from processors.lifecycle.host_reports import Hosts
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.rows import AskRow, PoolFactRow, PoolRow, SubmittedRow
from processors.lifecycle.run_decisions import Lookup, verdicts
from processors.lifecycle.tasks import (
    LIVE,
    PLACED,
    WAITING,
    Ask,
    Tasks,
    Trait,
    among,
)
from processors.machine import Decided, Fact, Input, PeerRound
from processors.state.arena import locate, locate_ranges
from processors.state.cell_settings import CellSettings, SettingsRow
from processors.state.conversion import Conversions
from processors.state.table import Table, struct_table

DOUBLINGS_MAX = 22
"""Of the wait before a task of a service runs again: times `MS_MAX` that is within 64 bits."""


class Lifecycle:
    """See `processors.machine.Machine`."""

    name: ClassVar[str] = "lifecycle"
    facts: ClassVar[tuple[str, ...]] = ("paceline.jobs", "paceline.pools", "paceline.tasks")
    peers: ClassVar[tuple[str, ...]] = ("entitlement", "placement", "sla")
    logic: ClassVar[int] = 12
    state: ClassVar[int] = 9
    conversions: ClassVar[Conversions] = {}

    def __init__(self, cell: int = 0) -> None:
        self.cell = cell
        self.pools: Table[str, PoolRow] = struct_table("pools", PoolRow)
        self.foreign: Table[str, int] = struct_table("foreign", int)
        """The pools of other cells: the cell of each."""
        self.pool_facts: Table[int, PoolFactRow] = struct_table("pool_facts", PoolFactRow, int)
        self.asks: Table[int, AskRow] = struct_table("asks", AskRow, int)
        self.ports: Table[tuple[str, int], list[int]] = struct_table("ports", list[int], tuple[str, int])
        self._settings = CellSettings()
        self.tasks = Tasks()
        self._jobs = Jobs(self.tasks, self.pools)
        self.jobs = self._jobs.table
        self.ended = self._jobs.ended
        self.stretch = self._jobs.stretch
        self.hosts = Hosts(self.tasks, self.stretch)
        self._lookup = Lookup(
            job_id=self._jobs.at.__getitem__,
            host=self.hosts.named,
            has_ports=lambda job_id: self.jobs[job_id].ports > 0,
            ports=lambda job_id, instance: self.ports.get((job_id, instance)),
        )
        self._on: dict[type[Event], Callable[[Any, int], None]] = {
            RunsReported: self.hosts.reported,
            HostInventory: self.hosts.inventory,
            HostLost: self.hosts.lost,
            HostRemoved: self.hosts.removed,
            TasksPlaced: self._placed,
            PreemptionsOrdered: self._preempted,
            DisruptionAllowed: self._allowed,
            DisruptionDeferred: self._deferred,
            PoolAnswered: self._pool_answered,
            JobAccepted: self._accepted,
            JobRejected: self._answered,
            CommandAnswered: self._answered,
            GangsQueued: self._queued,
            RunsOrdered: self._ordered,
            RunsAvailable: self._available,
            RunsStopping: self._stopping,
            RunsEnded: self._ended,
            DisruptionAsked: lambda event, now: self._move_ask(event, (Ask.PREEMPT,), Ask.ASKED),
            PreemptionDeferred: lambda event, now: self._move_ask(event, (Ask.DEFERRED,), Ask.WAITING),
            HostReconciled: self.hosts.reconciled,
            JobChanged: self._jobs.changed,
            InstancesChanged: self._jobs.change_instances,
            JobsForgotten: self._jobs.forgotten,
        }

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        """See `Machine.tables`."""
        return (
            self.jobs,
            self.pools,
            self.foreign,
            self.pool_facts,
            self.asks,
            self.ended.table,
            self.ended.floors,
            self.ports,
            self._settings.pending,
            self._settings.kept,
            self.hosts.table,
            self.tasks.arena.table,
        )

    @property
    def settings(self) -> SettingsRow:
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
        row, ended = self.jobs.get(job_id), self.ended.get(job_id)
        if row is not None:
            return row.state
        return None if ended is None else ended.state

    def restored(self) -> None:
        """See `Machine.restored`."""
        self.tasks.restored()
        self.hosts.restored()
        self._settings.restored()
        self._jobs.restored()

    def apply(self, record: Input) -> None:
        """See `Machine.apply`."""
        match record:
            case Fact(_, offset, at_ms, event, value):
                self._fact(offset, at_ms, event, value)
            case PeerRound(_, _, now, decisions):
                for decision in decisions:
                    self._apply(decision, now)
            case Decided(now, decision):
                self._apply(decision, now)
                self.tasks.settle()

    def decide(self, now: int, caught_up: bool, budget: int) -> list[Event]:
        """See `Machine.decide`; a unit of work is a fact answered, a run, a job, or a host that was reconciled."""
        answers = Answers(self, now, caught_up)
        out = list(answers.all(budget))
        if any(isinstance(each, CommandAnswered) and each.code == Code.DONE for each in out):
            return out  # a stop comes first: whether a run that is over keeps its admission depends on it
        slots = self.tasks.attention()
        due = self.tasks.due(now) if caught_up else slots[:0]
        if len(due):
            slots = np.union1d(slots, due)
        left = budget - answers.given
        if len(slots) and left > 0:
            out += verdicts(self.tasks.arena, slots[:left], self._lookup)
        left -= len(slots)
        if left > 0:  # what an inventory ended is said no later than its answer
            said, left = self.hosts.decide(left)
            out += said
        for decide in (self._jobs.gang_decisions, self._jobs.changes):
            said = decide(max(0, left))
            out += said
            left -= len(said)
        if caught_up and left > 0:
            out += self._jobs.forgettable(now, self.settings, left)
        return out

    def next_wakeup(self) -> int | None:
        """See `Machine.next_wakeup`."""
        times = [self.tasks.next_due_ms()]
        if not len(self.pool_facts) and not self.settings_pending:  # else an answer comes, and all is looked at again
            times += [ask.at_ms + POOL_WAIT_MS for ask in list(self.asks.values())[:1]]
        times.append(self.ended.next_due_ms(self.settings.forget_after_ms, self.settings.ended_jobs_max))
        return min((time for time in times if time is not None), default=None)

    # What inputs say.

    def _apply(self, event: Event, now: int) -> None:
        handler = self._on.get(type(event))
        if handler:
            handler(event, now)

    def _fact(self, offset: int, at_ms: int, event: Event, value: bytes) -> None:
        match event:
            case JobSubmitted() | JobStopRequested():
                self.asks.put(offset, ask_row(at_ms, event, value))
            case PoolDefined(path=path):
                row = PoolFactRow(path, False, event.open_jobs_max, event.open_tasks_max, event.cell)
                self.pool_facts.put(offset, row)
            case PoolRemoved(path=path):
                self.pool_facts.put(offset, PoolFactRow(path, True))
            case CellConfigured():
                self._settings.asked(offset, event)
            case _:
                self._apply(event, at_ms)

    def _pool_answered(self, answer: PoolAnswered, now: int) -> None:
        self._settings.answered(answer)
        fact = self.pool_facts.get(answer.pools_offset)
        if fact is None:
            return
        self.pool_facts.remove(answer.pools_offset)
        if answer.code != Code.DONE:
            return
        parent = fact.path.rpartition("/")[0]
        row = self.pools.get(fact.path)
        if fact.removed:
            if row is not None:
                self.pools.remove(fact.path)
                self._count_child(parent, -1)
            elif fact.path in self.foreign:
                self.foreign.remove(fact.path)
            return
        if fact.cell != self.cell:
            self.foreign.put(fact.path, fact.cell)
            return
        if row is None:
            self.pools.put(fact.path, PoolRow(fact.open_jobs_max, fact.open_tasks_max))
            self._count_child(parent, 1)
            return
        row = self.pools.change(fact.path)
        row.open_jobs_max, row.open_tasks_max = fact.open_jobs_max, fact.open_tasks_max

    def _count_child(self, parent: str, by: int) -> None:
        if parent in self.pools:
            self.pools.change(parent).children += by

    def _placed(self, event: TasksPlaced, now: int) -> None:
        slots, known = locate(event.job_ids, event.job, event.instance, self.stretch)
        arena = self.tasks.arena
        known[known] = (arena["run"][slots[known]] == ints(event.run)[known]) & (
            arena["state"][slots[known]] == TaskState.QUEUED
        )
        sessions = longs(event.host_session).tolist()
        numbers = [
            self.hosts.number(host_id, session) for host_id, session in zip(event.host_ids, sessions, strict=True)
        ]
        taken = slots[known]
        self.tasks.place(taken, np.array(numbers, dtype=np.int64)[ints(event.host)[known]])
        self._jobs.move(taken, PLACED)
        if event.ports:
            self._note_ports(event, known)

    def _note_ports(self, event: TasksPlaced, known: np.ndarray[Any, Any]) -> None:
        counts = ints(event.port_count).tolist()
        if not counts:  # of a release that didn't say; a job of it may have ended by now
            counts = [row.ports if (row := self.jobs.get(job_id)) else 0 for job_id in event.job_ids]
        ports, at = ints(event.ports).tolist(), 0
        for index, instance, wanted in zip(ints(event.job), ints(event.instance), known, strict=True):
            count = counts[index]
            if count and wanted:
                self.ports.put((event.job_ids[index], int(instance)), ports[at : at + count])
            at += count

    def _preempted(self, event: PreemptionsOrdered, now: int) -> None:
        slots = self._current(event, (*LIVE, *WAITING))
        slots = slots[self.tasks.arena["ask"][slots] == Ask.NONE]
        self.tasks.note("ask", slots, Ask.PREEMPT)

    def _allowed(self, event: DisruptionAllowed, now: int) -> None:
        self._move_ask(event, (Ask.ASKED, Ask.DEFERRED, Ask.WAITING), Ask.ALLOWED)

    def _deferred(self, event: DisruptionDeferred, now: int) -> None:
        stretch = self.stretch(event.job_id)
        if stretch and 0 <= event.instance < stretch[1]:
            slots = np.array([stretch[0] + event.instance])
            arena = self.tasks.arena
            if arena["run"][slots[0]] == event.run and arena["ask"][slots[0]] == Ask.ASKED:
                self.tasks.note("ask", slots, Ask.DEFERRED)

    def _move_ask(self, event: Any, old: Sequence[int], new: Ask) -> None:
        slots = self._current(event, LIVE)
        slots = slots[among(self.tasks.arena["ask"][slots], old)]
        self.tasks.note("ask", slots, new)

    def _current(self, event: Any, states: Sequence[int]) -> I64:
        """The slots of a record's runs that are the present runs of their tasks, in one of the states."""
        slots, known = locate(event.job_ids, event.job, event.instance, self.stretch)
        run = ints(event.run)
        if len(run) != len(slots):
            return np.zeros(0, dtype=np.int64)
        arena = self.tasks.arena
        slots, run = slots[known], run[known]
        found: I64 = slots[(arena["run"][slots] == run) & among(arena["state"][slots], states)]
        return found

    # What decisions do.

    def _answered(self, event: JobRejected | CommandAnswered, now: int) -> None:
        if event.jobs_offset in self.asks:
            self.asks.remove(event.jobs_offset)
        if isinstance(event, CommandAnswered) and event.code == Code.DONE and event.job_id in self.jobs:
            self._jobs.stop(event.job_id)

    def _accepted(self, event: JobAccepted, now: int) -> None:
        ask = self.asks[event.jobs_offset]
        assert isinstance(ask.fact, SubmittedRow)
        self.asks.remove(event.jobs_offset)
        self._jobs.add(event, ask.fact.retries_max, ask.spec_hash)

    def _queued(self, event: GangsQueued, now: int) -> None:
        slots, index = locate_ranges(event.job_ids, event.job, event.first, event.count, self.stretch)
        arena = self.tasks.arena
        arena.set("run", slots, ints(event.run)[index])
        arena.set("due", slots, 0)
        for gang in np.flatnonzero(ints(event.gang)).tolist():
            self._jobs.gang_queued(event.job_ids[ints(event.job)[gang]], slots[index == gang])
        self._jobs.move(slots, TaskState.QUEUED)

    def _ordered(self, event: RunsOrdered, now: int) -> None:
        self._jobs.move(self._current(event, (PLACED,)), TaskState.ORDERED)

    def _available(self, event: RunsAvailable, now: int) -> None:
        slots = self._current(event, (TaskState.ORDERED,))
        report = self.tasks.arena["report"][slots]
        self.tasks.arena.set("report", slots, np.where(report == 1, 0, report))
        self._jobs.move(slots, TaskState.RUNNING)

    def _stopping(self, event: RunsStopping, now: int) -> None:
        self.hosts.stopping(event)
        slots, known = locate(event.job_ids, event.job, event.instance, self.stretch)
        arena = self.tasks.arena
        known[known] = arena["run"][slots[known]] == ints(event.run)[known]
        known[known] = among(arena["state"][slots[known]], (TaskState.ORDERED, TaskState.RUNNING))
        taken = slots[known]
        arena.set("cause", taken, ints(event.cause)[known])
        self._jobs.move(taken, TaskState.STOPPING)

    def _ended(self, event: RunsEnded, now: int) -> None:
        slots, known = locate(event.job_ids, event.job, event.instance, self.stretch)
        slots = slots[known]
        outcome, kept = ints(event.outcome)[known], ints(event.kept)[known]
        self._jobs.gang_failures(slots, outcome)
        before = self.tasks.arena["state"][slots].copy()
        state = self.tasks.end(slots, outcome, kept, self._backoff(slots), now)
        self._jobs.count(slots, before, state)
        if len(self.ports):
            self._drop_ports(slots)

    def _backoff(self, slots: I64) -> I64:
        """How long stateless tasks wait before they run again: doubling with each end, up to a bound."""
        failures = np.minimum(self.tasks.arena["failures"][slots].astype(np.int64), DOUBLINGS_MAX)
        wait = np.minimum(self.settings.restart_backoff_ms << failures, self.settings.restart_backoff_max_ms)
        return np.where(self.tasks.arena["traits"][slots] & Trait.STATELESS != 0, wait, 0)

    def _drop_ports(self, slots: I64) -> None:
        owner = self.tasks.arena["owner"]
        for slot in slots.tolist():
            base = int(owner[slot]) - 1
            key = (self._jobs.at[base], slot - base)
            if key in self.ports:
                self.ports.remove(key)
