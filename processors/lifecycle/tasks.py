"""The tasks of all jobs as columns, and what is to be done about them.

What an input says about a task is noted in its columns (`report`, `ask`); `due` and the notes are all that `decide`
looks at. `attention` lists the slots with something to decide: derived, and found again by a scan after a restart.
"""

import heapq
from collections.abc import Iterable
from enum import IntFlag
from functools import cache

import numpy as np
from numpy.typing import NDArray

from events.bounds import RUN_MAX
from events.codes import Number, Outcome, RunReport, TaskState
from events.columns import I64, distinct
from events.runs_by_host import RunsByHost
from processors.state.arena import Arena
from processors.state.seconds import milliseconds, seconds

PLACED = 9
"""Has a host; the order is still to be given. Seen by nobody else, counted as queued."""
GANG_WAIT = 10
"""Its run is over and it waits for the other members of its gang."""
STATES = 11
LOST = 6
"""A note like `RunReport`: its host is gone, or doesn't know it."""


class Ask(Number):
    """What else is wanted of a task."""

    NONE = 0
    PREEMPT = 1
    ASKED = 2
    """sla was asked."""
    ALLOWED = 3
    DEFERRED = 4
    """sla said not now; that is still to be told."""
    WAITING = 5
    """sla said not now, and that was told."""
    GANG = 6
    STOP = 7


class Trait(IntFlag):
    """What a task has from its job; the retries stand above."""

    STATELESS = 1
    GANG = 2
    SLA = 4
    GANG_FINAL = 8


RETRIES_SHIFT = 4
CODES_MAX = 256

COLUMNS = ("state", "run", "host", "failures", "traits", "ask", "cause", "report", "exit", "due", "admitted")

Mask = NDArray[np.bool_]


def among(values: NDArray[np.int32] | I64, wanted: Iterable[int]) -> Mask:
    """Which of a machine's codes (states, outcomes, asks) are among a few wanted."""
    found: Mask = _table(tuple(wanted)).take(values, mode="clip")
    return found


@cache
def _table(wanted: tuple[int, ...]) -> Mask:
    table = np.zeros(CODES_MAX, dtype=np.bool_)
    table[list(wanted)] = True
    return table


LIVE = (TaskState.ORDERED, TaskState.RUNNING, TaskState.STOPPING)
WAITING = (TaskState.QUEUED, TaskState.BACKOFF, PLACED)
ENDED = (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.KILLED)


def _needed() -> NDArray[np.bool_]:
    """Whether there is something to decide, by state, report and ask; what a wait adds stands in `Tasks`."""
    state, report, ask = np.indices((STATES, LOST + 1, len(Ask)), dtype=np.int32)
    live = among(state, (TaskState.ORDERED, TaskState.RUNNING))
    waiting = among(state, WAITING)
    needs = (report > RunReport.STARTED) | ((report == RunReport.STARTED) & (state == TaskState.ORDERED))
    needs |= state == PLACED
    needs |= (live | waiting) & among(ask, (Ask.PREEMPT, Ask.ALLOWED, Ask.GANG, Ask.STOP))
    needs |= (state == GANG_WAIT) & (ask == Ask.STOP)
    return np.asarray(needs | (ask == Ask.DEFERRED))


_NEEDS = _needed()
BACKOFF = int(TaskState.BACKOFF)


class Tasks:
    """The columns, and the derived lists over them."""

    def __init__(self) -> None:
        self.arena = Arena("tasks", COLUMNS)
        self.by_host = RunsByHost(lambda slots: self.arena["host"][slots] - 1)
        self._touched: list[I64] = []
        self._attention: I64 = np.zeros(0, dtype=np.int64)
        self._stale = False
        self._due: dict[int, list[I64]] = {}
        self._due_heap: list[int] = []

    def restored(self) -> None:
        """Finds what needs attention again."""
        self.arena.restored()
        self.by_host.restored(np.flatnonzero(self.arena["host"]))
        self._touched = [np.flatnonzero(self.arena["owner"])]
        self._due.clear()
        self._due_heap.clear()
        waiting = np.flatnonzero((self.arena["state"] == TaskState.BACKOFF) & (self.arena["due"] > 0))
        self._wait(waiting, self.arena["due"][waiting])

    def place(self, slots: I64, hosts: I64) -> None:
        """Tasks have a host; `hosts` are their numbers, from 1."""
        self.arena.set("host", slots, hosts)
        self.by_host.add(slots)

    def resize(self, base: int, tasks: int, wanted: int) -> int:
        """Gives a job with `tasks` so many as are wanted; returns its base, another one where it moved."""
        start = self.arena.resize(base, tasks, wanted)
        if start != base:
            slots = np.arange(start, start + tasks)
            self.touch(slots)
            self.by_host.add(slots)
            later = slots[self.arena["due"][slots] > 0]
            self._wait(later, self.arena["due"][later])
        return start

    def touch(self, slots: I64) -> None:
        """Something about these tasks changed: look at them when deciding."""
        if len(slots):
            self._touched.append(slots)

    def note(self, column: str, slots: I64, values: I64 | NDArray[np.int32] | int) -> None:
        """Sets a column and touches."""
        self.arena.set(column, slots, values)
        self.touch(slots)

    def attention(self) -> I64:
        """The slots with something to decide, ascending, but for deadlines."""
        if self._touched or self._stale:
            slots = distinct(np.concatenate([self._attention, *self._touched]))
            self._attention = slots[self._needs(slots)]
            self._touched = []
            self._stale = False
        return self._attention

    def settle(self) -> None:
        """Looks again at what had attention, after decisions were applied."""
        self._stale = True

    def due(self, now: int) -> I64:
        """The slots whose wait is over at `now`."""
        if not self._due_heap or milliseconds(self._due_heap[0]) > now:
            return np.zeros(0, dtype=np.int64)
        return np.concatenate([self._still_due(at) for at in sorted(self._due) if milliseconds(at) <= now])

    def next_due_ms(self) -> int | None:
        """When the next wait is over."""
        while self._due_heap:
            at = self._due_heap[0]
            if len(self._still_due(at)):
                return milliseconds(at)
            heapq.heappop(self._due_heap)
            self._due.pop(at, None)
        return None

    def _still_due(self, at: int) -> I64:
        slots = distinct(np.concatenate(self._due[at])) if at in self._due else np.zeros(0, dtype=np.int64)
        waits: Mask = (self.arena["state"][slots] == TaskState.BACKOFF) & (self.arena["due"][slots] == at)
        still: I64 = slots[waits]
        return still

    def _wait(self, slots: I64, due: NDArray[np.int32] | I64) -> None:
        for at in distinct(due).tolist():
            if at not in self._due:
                heapq.heappush(self._due_heap, at)
            self._due.setdefault(at, []).append(slots[due == at])

    def _needs(self, slots: I64) -> Mask:
        arena = self.arena
        state = arena["state"][slots]
        needs: Mask = _NEEDS[state, np.minimum(arena["report"][slots], LOST), arena["ask"][slots]]
        needs |= (state == BACKOFF) & (arena["due"][slots] == 0)
        return needs

    def end(self, slots: I64, outcome: NDArray[np.int32], kept: NDArray[np.int32], wait_ms: I64, now: int) -> I64:
        """Applies ends of the present runs of distinct slots; returns the new states.

        `wait_ms` is the wait before the next run of a task whose admission is kept.
        """
        arena = self.arena
        traits, stop = arena["traits"][slots], arena["ask"][slots] == Ask.STOP
        again = ~stop
        gang = (traits & Trait.GANG != 0) & again
        stateless = (traits & Trait.STATELESS != 0) & again
        failures = arena["failures"][slots]
        retry = again & (failures < (traits >> RETRIES_SHIFT)) & (outcome == Outcome.FAILED)
        pushed = again & among(outcome, (Outcome.PREEMPTED, Outcome.LOST))
        own_end = among(outcome, (Outcome.SUCCEEDED, Outcome.FAILED))

        state = np.full(len(slots), TaskState.KILLED, dtype=np.int64)
        state[outcome == Outcome.SUCCEEDED] = TaskState.SUCCEEDED
        state[outcome == Outcome.FAILED] = TaskState.FAILED
        state[retry | pushed | (stateless & own_end)] = TaskState.BACKOFF
        state[gang & (outcome != Outcome.SUCCEEDED)] = GANG_WAIT
        final = gang & (traits & Trait.GANG_FINAL != 0) & (outcome != Outcome.SUCCEEDED)
        state[final] = TaskState.FAILED
        last = arena["run"][slots] >= RUN_MAX
        state[last & (state == TaskState.BACKOFF)] = TaskState.FAILED

        next_run = among(state, (TaskState.BACKOFF, GANG_WAIT))
        backoff = state == TaskState.BACKOFF
        wait_s = np.where(wait_ms > 0, seconds(now + wait_ms), 0)
        due = np.where(backoff & (kept == 1), wait_s, 0)
        arena.set("state", slots, state)
        arena.set("run", slots, arena["run"][slots] + next_run)
        arena.set("failures", slots, failures + (own_end & ((outcome == Outcome.FAILED) | stateless)))
        arena.set("admitted", slots, np.where(backoff, kept, 0))
        arena.set("due", slots, due)
        for column in ("host", "cause", "report", "exit"):
            arena.set(column, slots, 0)
        arena.set("ask", slots, np.where(stop, int(Ask.STOP), int(Ask.NONE)))
        later = np.flatnonzero(due)
        self._wait(slots[later], due[later])
        self.touch(slots)
        return state
