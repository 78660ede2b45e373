"""The table of room that is kept on hosts for units that wait: one row a unit, with its reason and its end.

Two reasons there are: others leave for it by a plan (WAITING_FOR_PREEMPTION, `plans.py`), or hosts are reserved for it
(HOSTS_RESERVED, `reservations.py`). What is kept so is told by `kept.py` alone, and whoever places tasks asks that; so
another reason is another `reason` in these rows. The home of a task whose run ended to go on is no row: it is held by
two columns of the task (`homes.py`), as used room, for thousands at once.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from sortedcontainers import SortedList

from events.codes import Code
from events.ranks import are_entitled
from processors.placement.packing import Mask
from processors.placement.runs import Runs
from processors.state.alternatives import NONE
from processors.state.causes import CauseRow
from processors.state.deadlines import Deadlines
from processors.state.table import Table, struct_table

Task = tuple[str, int]
"""A job, and the first instance of a unit."""
REASONS = (Code.WAITING_FOR_PREEMPTION, Code.HOSTS_RESERVED)
"""Why room is kept for a unit, and so why that waits."""


class RoomRow(msgspec.Struct, array_like=True):
    """The room of a unit: `count` instances at a run.

    Invariant: a host is reserved for one unit only, so that no two hold halves of what both need.
    """

    count: int
    run: int
    hosts: list[str]
    tasks: list[int]
    """The number of its tasks that each host is to hold."""
    shapes: list[int]
    """The index of their shape among those of the unit."""
    reason: str
    until_ms: int
    """When what is kept is given up."""
    by: CauseRow | None = None
    """The PreemptionAsked of a plan."""
    order: int = 0
    """The order that came of a plan; 0: none yet."""
    victims: dict[str, list[int]] = {}
    """The victims that a plan asks for while it has no answer: instances by job."""
    reported: dict[str, int] = {}
    """The amounts that were last reported to be kept by a reservation."""
    over: str = ""
    """Why a reservation is no more, while that isn't said yet."""
    alternative: int = NONE
    """The alternative that its places are for; NONE: the unit has only one request."""
    passed: tuple[str, ...] = ()
    """Why no place was found by those before it."""


class RoomTable:
    """Rows by unit, and by reason what is derived from them."""

    def __init__(self, runs: Runs) -> None:
        self.table: Table[Task, RoomRow] = struct_table("room", RoomRow, Task)
        self.over: Table[Task, RoomRow] = struct_table("room_over", RoomRow, Task)
        """Reservations that are no more, while that isn't said yet."""
        self.on_change: Callable[[Task, str], None] = lambda task, reason: None
        """Called with each unit that has room now or none any more, and the reason of that."""
        self._runs = runs
        self.restored()

    def restored(self) -> None:
        """Finds again what is derived."""
        self.ends: dict[str, Deadlines[Task]] = {}
        """When room is given up."""
        self.by_job: dict[tuple[str, str], SortedList[int]] = {}
        """By reason and job the first instances of the units; empty: no room is kept."""
        for reason in REASONS:
            mine = [(task, row) for task, row in self.table.items() if row.reason == reason]
            self.ends[reason] = Deadlines()
            self.ends[reason].restore((task, row.until_ms) for task, row in mine)
            firsts: dict[str, list[int]] = {}
            for (job_id, first), _ in mine:
                firsts.setdefault(job_id, []).append(first)
            self.by_job.update(((reason, job_id), SortedList(each)) for job_id, each in firsts.items())

    def put(self, task: Task, row: RoomRow) -> None:
        """Room is kept for a unit: it has none yet, or had some for the same reason."""
        had = self.table.get(task)
        assert had is None or had.reason == row.reason, task
        self.table.put(task, row)
        self.ends[row.reason].set(task, row.until_ms)
        if had is None:
            self.by_job.setdefault((row.reason, task[0]), SortedList()).add(task[1])
        self.on_change(task, row.reason)

    def prolong(self, task: Task, until_ms: int) -> RoomRow:
        """The room of a unit is kept until another time; returns its row, to change in place."""
        row = self.table.change(task)
        row.until_ms = until_ms
        self.ends[row.reason].set(task, until_ms)
        return row

    def drop(self, task: Task) -> RoomRow:
        """No room is kept for a unit any more; returns the row that it had."""
        row = self.table[task]
        self.table.remove(task)
        self.ends[row.reason].clear(task)
        key = row.reason, task[0]
        self.by_job[key].remove(task[1])
        if not self.by_job[key]:
            del self.by_job[key]
        self.on_change(task, row.reason)
        return row

    def of(self, task: Task, reason: str) -> RoomRow | None:
        """The row of a unit, if it has room for this reason."""
        row = self.table.get(task)
        return row if row is not None and row.reason == reason else None

    def all(self, reason: str) -> Iterator[tuple[Task, RoomRow]]:
        """The units that have room for a reason, in no order that means anything."""
        return ((task, self.table[task]) for task in self.ends[reason])

    def count(self, reason: str, job_id: str, first: int, count: int) -> int:
        """Counts the units within a range that have room for a reason."""
        mine = self.by_job.get((reason, job_id))
        if mine is None:
            return 0
        if first <= mine[0] and mine[-1] < first + count:
            return len(mine)
        return int(mine.bisect_left(first + count) - mine.bisect_left(first))

    def within(self, reason: str, job_id: str, first: int, count: int) -> list[int]:
        """Their first instances, ascending."""
        mine = self.by_job.get((reason, job_id))
        return list(mine.irange(first, first + count, (True, False))) if mine is not None else []

    def settled(self, reason: str, event: Any) -> list[Task]:
        """The units of the jobs of a record that have room and don't wait for it any more."""
        job_ids: Sequence[str] = event.job_ids if hasattr(event, "job_ids") else (event.job_id,)
        settled: list[Task] = []
        for job_id in dict.fromkeys(job_ids):
            firsts = list(self.by_job.get((reason, job_id), ()))
            if firsts:
                over = ~self._wait(job_id, firsts)
                settled += [(job_id, first) for first in np.array(firsts)[over].tolist()]
        return settled

    def _wait(self, job_id: str, firsts: Sequence[int]) -> Mask:
        """True for the units of a job, by their first instances, that wait for places at the runs of their rows, and
        are entitled to them.
        """
        job, first = self._runs.jobs.get(job_id), np.array(firsts, dtype=np.int64)
        run = np.array([self.table[job_id, each].run for each in firsts], dtype=np.int64)
        there: Mask = first < (job.instances if job is not None else 0)
        slots = first[there] + (job.base if job is not None else 0)
        arena = self._runs.arena
        there[there] = (arena["waiting"][slots] == run[there]) & are_entitled(arena["rank"][slots])
        return there
