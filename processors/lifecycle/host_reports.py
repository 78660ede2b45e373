"""The reports of hosts about runs, their inventories, and the loss of a host."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from events.arrays.reused_numbers import ReusedNumbers
from events.codes import END_REPORTS, LIVE_REPORTS, LIVE_TASKS, RunReport, TaskState
from events.columns import I32, I64
from events.records.base import Event
from events.records.lifecycle import HostReconciled, RunsStopping
from events.records.parts import Cause
from events.records.placement import HostLost, HostRemoved
from events.records.tasks import HostInventory, RunsReported
from processors.lifecycle.lookups import Mask, among
from processors.lifecycle.rows import HostRow
from processors.lifecycle.run_decisions import orphans
from processors.lifecycle.task_rules import Trait, noted
from processors.lifecycle.task_table import LOST, Note, TaskEvent
from processors.lifecycle.tasks import HELD, Tasks
from processors.state.arena import HasStretch, locate
from processors.state.causes import recorded
from processors.state.steps import Pass
from processors.state.table import Table, struct_table


class Reported(NamedTuple):
    """Reports of runs; columns of equal length. `current`: not of a session of its host that is over."""

    slots: I64
    run: I32
    state: I32
    exit_code: I32
    current: Mask

    def some(self, which: Mask) -> "Reported":
        """Some of them."""
        columns = (self.slots[which], self.run[which], self.state[which], self.exit_code[which])
        return Reported(*columns, self.current[which])


HEALTH = int(Trait.HEALTH)


UNKNOWN = HostRow(number=-1, session=0)
"""Stands for a host that isn't known: nothing runs there."""
NUMBER, SESSION = attrgetter("number"), attrgetter("session")


def _of_hosts(field: Callable[[HostRow], int], rows: Sequence[HostRow]) -> I64:
    return np.fromiter(map(field, rows), np.int64, len(rows))


def _current(event: RunsReported, rows: Sequence[HostRow]) -> Mask:
    """True for reports that aren't of a session that is over: since then the host may have restarted, so what went on
    there counts no more.
    """
    host, sessions = event.host_array, event.host_session_array
    if len(sessions) != len(rows):
        return np.ones(len(host), dtype=np.bool_)
    current: Mask = (sessions >= _of_hosts(SESSION, rows)).take(host, mode="clip")
    return current


class Hosts:
    """The hosts by id, their numbers in the columns, and what they say."""

    def __init__(self, tasks: Tasks, jobs: Mapping[str, HasStretch]) -> None:
        self.table: Table[str, HostRow] = struct_table("hosts", HostRow)
        self._tasks = tasks
        self._jobs = jobs
        self.survived: Callable[[I64], None] = lambda slots: None
        """Told of the tasks whose runs are still there though they were killed."""
        self._places = ReusedNumbers()
        self._inventories: dict[str, None] = {}

    def restored(self) -> None:
        """Finds numbers and unanswered inventories again."""
        self._places.restored({host_id: row.number - 1 for host_id, row in self.table.items()})
        self._tasks.hosts_restored()
        for row in self.table.values():
            self.derive(row)
        self._inventories = {host_id: None for host_id, row in self.table.items() if row.inventory}

    def number(self, host_id: str, session: int) -> int:
        """The number of a host, from 1; given when it is first seen."""
        row = self.table.get(host_id)
        if row is None:
            row = self.table.put(host_id, HostRow(self._places.take(host_id) + 1, session))
        return row.number

    def number_of(self, host_id: str) -> int:
        """The number of a host; 0: it isn't known."""
        row = self.table.get(host_id)
        return 0 if row is None else row.number

    def named(self, number: int) -> tuple[str, int]:
        """Id and session of a number."""
        host_id = self._places.ids[number - 1]
        return host_id, self.table[host_id].session

    def id_of(self, number: int) -> str:
        """The id of a number."""
        return self._places.ids[number - 1]

    def derive(self, row: HostRow) -> None:
        """Brings up to the row what tasks know of their hosts."""
        self._tasks.host_is(row.number, HELD if row.silent or row.lost else row.heard_s, row.lost)

    def lost_by(self, number: int) -> Cause | None:
        """The cause by which the last runs were lost on a host."""
        return recorded(self.table[self._places.ids[number - 1]].lost_by)

    def reported(self, event: RunsReported, now: int) -> None:
        """Notes what runs are reported to be; reports of other than the present runs, or by other hosts than theirs,
        are void.
        """
        slots, exists = locate(event, self._jobs)
        run, reported, exit_code = event.run_array, event.state_array, event.exit_code_array
        if not len(slots) == len(run) == len(reported) == len(exit_code):
            return
        rows = [self.table.get(host_id, UNKNOWN) for host_id in event.host_ids]
        numbers = _of_hosts(NUMBER, rows)
        host = event.host_array
        if len(host) != len(run) or not numbers.size:
            return
        exists &= self._tasks.arena["host"].take(slots, mode="clip") == numbers.take(host, mode="clip")
        reports = Reported(slots, run, reported, exit_code, _current(event, rows))
        self._note(reports if exists.all() else reports.some(exists))

    def _note(self, reports: Reported) -> I64:
        """Notes reports and returns the slots whose present runs they are about."""
        slots, run, reported, exit_code, current = reports
        arena = self._tasks.arena
        state = arena["state"][slots]
        live = (arena["run"][slots] == run) & among(state, LIVE_TASKS)
        before = arena["report"][slots]
        over = among(reported, END_REPORTS)
        if not over.all():
            goes_on = live & current & (before <= RunReport.STARTED)
            checked = arena["traits"][slots] & HEALTH != 0
            ready = goes_on & noted(TaskEvent.STARTED, Note.READY, state) & (before == 0)
            ready &= reported == np.where(checked, RunReport.HEALTHY, RunReport.STARTED)
            self._tasks.note("report", slots[ready], RunReport.STARTED)
            unhealthy = goes_on & checked & (reported == RunReport.UNHEALTHY)
            if unhealthy.any():
                self._tasks.record_event(TaskEvent.UNHEALTHY, slots[unhealthy])
            survived = goes_on & (reported == RunReport.SURVIVED) & (state == TaskState.STOPPING)
            if survived.any():
                self.survived(slots[survived])
        if over.any():
            ended = live & over & noted(TaskEvent.ENDED, Note.REPORT, state) & (before <= RunReport.STARTED)
            self._tasks.note("report", slots[ended], reported[ended])
            arena.set("exit", slots[ended], exit_code[ended])
        present: I64 = slots[live]
        return present

    def lost(self, event: HostLost, now: int) -> None:
        """Ends what ran on a host that is given up."""
        row = self.table.get(event.host_id)
        if row is not None and row.session <= event.session:
            self._lose(TaskEvent.HOST_LOST, event.host_id, self._runs_on(row.number))

    def _lose(self, event: TaskEvent, host_id: str, slots: I64) -> int:
        """Notes that runs on a host are no more, and by what; returns how many."""
        lost = self._tasks.lose(event, slots, LOST)
        if len(lost):
            self.table.change(host_id).lost_by = self._tasks.input.cause
        return len(lost)

    def _runs_on(self, number: int) -> I64:
        return self._tasks.by_host.of(np.array([number - 1]))

    def removed(self, event: HostRemoved, now: int) -> None:
        """A host is forgotten: nothing is there, as placement knows, and its number is free for another. One that has
        connected since then stays.
        """
        row = self.table.get(event.host_id)
        if row is not None and row.session <= event.session:
            self._places.give_back(row.number - 1)
            self.table.remove(event.host_id)
            self._tasks.host_is(row.number, 0, False)
            self._inventories.pop(event.host_id, None)

    def inventory(self, event: HostInventory, now: int) -> None:
        """Compares what a host has with what it should have.

        A run that was ordered and is not there yet may still be on its way, and so may the stop of one that is
        stopping: the agent answers both. One that was running is lost. A host says this once in a session: what is in
        the log again, since nobody knew whether it was written, misses runs that have started since.
        """
        known_as = self.table.get(event.host_id)
        if known_as is not None and event.session <= known_as.session:
            return
        slots, exists = locate(event, self._jobs)
        run, reported, exit_code = event.run_array, event.state_array, event.exit_code_array
        if not len(slots) == len(run) == len(reported) == len(exit_code):
            return
        number = self.number(event.host_id, event.session)
        row = self.table.change(event.host_id)
        arena = self._tasks.arena
        expected = exists.copy()
        expected[exists] = (
            (arena["run"][slots[exists]] == run[exists])
            & among(arena["state"][slots[exists]], LIVE_TASKS)
            & (arena["host"][slots[exists]] == number)
        )
        reports = Reported(slots, run, reported, exit_code, np.ones(len(slots), dtype=np.bool_))
        present = self._note(reports.some(expected))
        missing = np.setdiff1d(self._runs_on(number), present)
        row.session = event.session
        row.inventory, row.inventory_by = True, self._tasks.input.cause
        row.stopped = 0
        goes_on = among(reported, LIVE_REPORTS)
        row.running = int((expected & goes_on).sum())
        row.ended = int((expected & ~goes_on).sum())
        row.ended += self._lose(TaskEvent.MISSING, event.host_id, missing)
        unexpected = np.flatnonzero(~expected & goes_on)
        jobs, instances = event.job_array, event.instance_array
        row.orphans = [
            (event.job_ids[jobs[at]], int(instances[at]), int(run[at]))
            for at in unexpected.tolist()
            if 0 <= jobs[at] < len(event.job_ids)
        ]
        self._inventories[event.host_id] = None

    def decide(self, this: Pass) -> list[Event]:
        """Answers inventories, once all runs that nobody wants were told to stop; a unit is a run or an answer."""
        out: list[Event] = []
        budget = this.budget
        for host_id in sorted(self._inventories, key=lambda host_id: self.table[host_id].number):
            row = self.table[host_id]
            now = row.orphans[: budget.left]
            if now:
                out.append(orphans(now, host_id))
                budget.spend(len(now))
            if not budget.left:
                break
            stopped = row.stopped + len(now)
            out.append(
                HostReconciled(
                    host_id=host_id,
                    session=row.session,
                    kept=row.running,
                    ended=row.ended,
                    stopped=stopped,
                    cause=recorded(row.inventory_by),
                )
            )
            budget.spend(1)
        return out

    def stopping(self, event: RunsStopping) -> None:
        """Runs were told to stop, among them such that nobody wants."""
        for number, host_id in enumerate(event.host_ids):
            if host_id in self._inventories and self.table[host_id].orphans:
                row = self.table.change(host_id)
                items = zip(*(column.tolist() for column in event.items()), strict=True)
                stopped = {
                    (event.job_ids[job], instance, run)
                    for (job, instance, run), host in zip(items, event.host_array.tolist(), strict=True)
                    if host == number
                }
                had, row.orphans = len(row.orphans), [each for each in row.orphans if each not in stopped]
                row.stopped += had - len(row.orphans)

    def told(self, event: RunsStopping, slots: I64, present: Mask) -> I64:
        """The tasks that a stop names whose present runs are where it is sent; runs elsewhere nobody wants."""
        rows = (self.table.get(host_id) for host_id in event.host_ids)
        numbers = np.array([row.number if row is not None else 0 for row in rows], dtype=np.int64)
        here = self._tasks.arena["host"][slots[present]] == numbers[event.host_array[present]]
        told_slots: I64 = slots[present][here]
        return told_slots

    def reconciled(self, event: HostReconciled, now: int) -> None:
        """An inventory is answered."""
        row = self.table.change(event.host_id)
        row.inventory, row.inventory_by = False, None
        self._inventories.pop(event.host_id, None)
