"""The tasks of all jobs as columns, and what is to be done about them.

What happens to a task is noted in its columns, as `task_table.py` says; they and the time are all that `decide` looks
at. `attention` lists the slots with something to decide: derived, and found again by a scan after a restart.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.arrays.runs_by_host import RunsByHost
from events.bounds import INT_MAX
from events.codes import Counts, RunReport, Stage, TaskState
from events.columns import I32, I64, distinct
from processors.lifecycle.asks import ASKED_FOR, PLANNED
from processors.lifecycle.lookups import Mask, among
from processors.lifecycle.task_rules import Trait, decided, noted, verdicts_after
from processors.lifecycle.task_table import CAUSE_OF, GANG_WAIT, Note, TaskEvent
from processors.state.arena import Arena
from processors.state.calendar import Calendar
from processors.state.causes import CurrentInput
from processors.state.seconds import elapsed, milliseconds, second, seconds


class Ends(NamedTuple):
    """The columns of RunsEnded that applying it needs."""

    next: I32
    keeps: I32
    counts_as: I32
    failures: I32
    wait_ms: I32


COLUMNS = (
    "state",
    "run",
    "host",
    "failures",
    "host_failures",
    "traits",
    "goal",
    "causes",
    "verdict",
    "order",
    "report",
    "exit",
    "due",
    "ready",
    "admitted",
    "version",
    "target",
    "step",
    "pin",
)
RARE = ("since", "asked", "surplus")
"""`causes` why the present run shall end, `verdict` what sla said of that, `order` the number of the preemption order
that it is in, `report` what was reported of it, `due` the second of its deadline: when its back-off has passed, or has
run for as long as it may, `ready` the second since when it is available, or, while it is queued, lacks a place
(`updates/place_waits.py`), `failures` how often it has failed and
`host_failures` how often its hosts have, `admitted` 1 where its next run keeps the admission. `version` is that of the
present run, `target` that of the next one, `step` how far the update of the job is with it (`updates/steps.py`). `pin`
is the number of the only host that the task may run on; below 0, that of one that couldn't start it, which its next run
avoids. `since` is the second since when the present run is to end by plan, `asked` what sla was asked about it last
(`asks.py`), `surplus` the serial of an instance that is more than its job wants (`surplus.py`).
"""

NO_SLOTS = np.zeros(0, dtype=np.int64)
HELD = INT_MAX
"""In the column `due`: it waits for something else than a time."""


class Tasks:
    """The columns, and the derived lists over them."""

    def __init__(self, current: CurrentInput) -> None:
        self.arena = Arena("tasks", COLUMNS, RARE)
        self.input = current
        """The input that is being applied; shared by all that note things about tasks."""
        self._heard: I64 = np.zeros(1, dtype=np.int64)
        """By number of the host, since when it is heard again; HELD while it is silent or lost, 0: it always was."""
        self._lost: Mask = np.zeros(1, dtype=np.bool_)
        self._stages: I64 = np.zeros(1, dtype=np.int64)
        """By number of the host the stage of its maintenance."""
        self.by_host = RunsByHost(lambda slots: self.arena["host"][slots] - 1)
        self._touched: list[I64] = []
        self._attention: I64 = np.zeros(0, dtype=np.int64)
        self._stale = False
        self._deadlines = Calendar(self.arena, "due", self._passes)

    def restored(self) -> None:
        """Finds what needs attention again."""
        self.arena.restored()
        self.by_host.restored(np.flatnonzero(self.arena["host"]))
        self._touched = [np.flatnonzero(self.arena["owner"])]
        self._deadlines.clear()
        self._note_deadlines(np.flatnonzero(self.arena["due"]))

    def place(self, slots: I64, hosts: I64) -> None:
        """Tasks have a host; `hosts` are their numbers, from 1."""
        self.arena.put(slots, host=hosts, ready=0)
        self.by_host.add(slots)

    def hosts_restored(self) -> None:
        """All hosts are heard, unless `host_is` says something else."""
        self._heard, self._lost = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)
        self._stages = np.zeros(1, dtype=np.int64)

    def host_is(self, number: int, since_s: int, lost: bool) -> None:
        """The host of a number is heard since that second, 0: as ever, HELD: it is silent; it may be lost besides.
        Deadlines of its runs that don't pass in a silence do so again after it.
        """
        if number >= len(self._heard):
            if not since_s and not lost:
                return
            self._heard = np.concatenate([self._heard, np.zeros(number, dtype=np.int64)])
            self._lost = np.concatenate([self._lost, np.zeros(number, dtype=np.bool_)])
        silent = self._heard[number] == HELD
        self._heard[number], self._lost[number] = since_s, lost
        if silent and since_s < HELD:
            there = self.by_host.of(np.array([number - 1]))
            self._note_deadlines(there)

    def heard_since(self, hosts: I64 | I32) -> I64:
        """Since when hosts are heard again, by their numbers; HELD: they are silent or lost, 0: they always were
        heard.
        """
        since_s: I64 = np.where(hosts < len(self._heard), self._heard.take(hosts, mode="clip"), 0)
        return since_s

    def stage_is(self, number: int, stage: int) -> None:
        """The host of a number has a stage of maintenance."""
        if number >= len(self._stages):
            self._stages = np.concatenate([self._stages, np.zeros(number, dtype=np.int64)])
        self._stages[number] = stage

    def stages(self, hosts: I64 | I32) -> I64:
        """The stages of hosts, by their numbers; of what has no host UP."""
        stages: I64 = np.where(hosts < len(self._stages), self._stages.take(hosts, mode="clip"), Stage.UP)
        return stages

    def is_lost(self, hosts: I64 | I32) -> Mask:
        """True for hosts that are lost, by their numbers."""
        mask: Mask = (hosts < len(self._lost)) & self._lost.take(hosts, mode="clip")
        return mask

    def resize(self, base: int, tasks: int, size: int) -> int:
        """Gives a job with `tasks` so many as are wanted; returns its base, another one where it moved."""
        start = self.arena.resize(base, tasks, size)
        if start != base:
            slots = np.arange(start, start + tasks)
            self.touch(slots)
            self.by_host.add(slots)
            self._note_deadlines(slots)
        return start

    def touch(self, slots: I64) -> None:
        """Something about these tasks changed: look at them when deciding."""
        if len(slots):
            self._touched.append(slots)

    def note(self, column: str, slots: I64, values: I64 | NDArray[np.int32] | int) -> None:
        """Sets a column and touches."""
        self.arena.set(column, slots, values)
        self.touch(slots)

    def record_event(self, event: TaskEvent, slots: I64) -> I64:
        """Notes what a happening causes, or that its cause no longer holds; returns the slots where that counts."""
        if not len(slots):
            return slots
        state, causes, cause = self.arena["state"][slots], self.arena["causes"][slots], int(CAUSE_OF[event])
        caused, withdrawn = noted(event, Note.CAUSE, state), noted(event, Note.WITHDRAWN, state)
        counts = caused | withdrawn
        counting: I64 = slots[counts]
        after = np.where(caused, causes | cause, causes & ~cause)[counts]
        self.note("causes", counting, after)
        if cause & PLANNED:
            since = self.arena["since"][counting]
            since = np.where(ASKED_FOR.take(after) == 0, 0, np.where(since == 0, second(self.input.now), since))
            self.arena.set("since", counting, since)
        return counting

    def record_verdict(self, event: TaskEvent, slots: I64) -> I64:
        """Notes the verdict of sla; returns the slots where that counts."""
        verdict = self.arena["verdict"][slots]
        after = verdicts_after(event, verdict)
        counts: I64 = slots[noted(event, Note.VERDICT, self.arena["state"][slots]) & (after != verdict)]
        self.note("verdict", counts, verdicts_after(event, self.arena["verdict"][counts]))
        return counts

    def lose(self, event: TaskEvent, slots: I64, report: int) -> I64:
        """Notes that the runs on a host are no more; returns the slots where that counts."""
        lost = noted(event, Note.REPORT, self.arena["state"][slots])
        counts: I64 = slots[lost & (self.arena["report"][slots] <= RunReport.STARTED)]
        self.note("report", counts, report)
        return counts

    def attention(self) -> I64:
        """The slots with something to decide, ascending, but for deadlines."""
        if self._touched or (self._stale and len(self._attention)):
            slots = distinct(np.concatenate([self._attention, *self._touched]))
            self._attention = slots[self._needs(slots)]
            self._touched = []
        self._stale = False
        return self._attention

    def settle(self) -> None:
        """Looks again at what had attention, after decisions were applied."""
        self._stale = True

    def due(self, now: int) -> tuple[I64, I64]:
        """The slots whose back-off has passed at `now`, and those of runs that have taken longer than they may."""
        slots = self._deadlines.due(elapsed(now))
        if not len(slots):
            return NO_SLOTS, NO_SLOTS
        waits = self.arena["state"][slots] == TaskState.BACKOFF
        return slots[waits], slots[~waits]

    def next_due_ms(self) -> int | None:
        """When the next deadline passes. What doesn't pass is forgotten until it may: `host_is` and `Jobs.gate_changed`
        note it again.
        """
        at = self._deadlines.after()
        return None if at is None else milliseconds(at)

    def _passes(self, slots: I64) -> Mask:
        """Whether the deadlines of tasks pass: not those of gated ones (`gates.py`), nor while their host is silent."""
        gated: Mask = self.arena["state"][slots] == TaskState.BACKOFF
        gated &= self.arena["traits"][slots] & Trait.GATED != 0
        passes: Mask = ~(gated | self._unheard(slots))
        return passes

    def _unheard(self, slots: I64) -> Mask:
        """True for tasks whose hosts are silent, so that nobody knows how far they are."""
        waits: Mask = among(self.arena["state"][slots], (TaskState.ORDERED, TaskState.STOPPING))
        waits &= self.heard_since(self.arena["host"][slots]) == HELD
        return waits

    def wait(self, slots: I64, due: NDArray[np.int32] | I64) -> None:
        """Gives tasks deadlines, in seconds; 0: none any more."""
        self.arena.set("due", slots, due)
        self._note_deadlines(slots)

    def _note_deadlines(self, slots: I64) -> None:
        due = self.arena["due"][slots]
        later = slots[(due > 0) & (due < HELD)]
        if len(later):
            self._deadlines.note(later)

    def _needs(self, slots: I64) -> Mask:
        needs: Mask = decided(self.arena, slots, self.arena["due"][slots] > 0) > 0
        return needs

    def end(self, slots: I64, ends: Ends, now: int) -> I64:
        """Applies ends of the present runs of distinct slots; returns the new states."""
        arena = self.arena
        member = arena["traits"][slots] & Trait.GANG != 0
        state = np.where((ends.next == TaskState.BACKOFF) & member, GANG_WAIT, ends.next).astype(np.int64)
        due = np.where((ends.wait_ms > 0) & ~member, seconds(now + ends.wait_ms.astype(np.int64)), 0)
        arena.set("state", slots, state)
        arena.set("run", slots, arena["run"][slots] + (ends.next == TaskState.BACKOFF))
        for column, fault in (("failures", Counts.TASK), ("host_failures", Counts.HOST)):
            counted = ends.counts_as == fault
            arena.set(column, slots[counted], ends.failures[counted])
        arena.set("admitted", slots, np.where(state == TaskState.BACKOFF, ends.keeps, 0))
        arena.put(slots, host=0, causes=0, verdict=0, order=0, report=0, exit=0, ready=0)
        if arena.has_rare:
            arena.put(slots, since=0, asked=0)
        self.wait(slots, due)
        self.touch(slots)
        return state
