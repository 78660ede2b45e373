"""Jobs that wait and hold: their counts, the order in which each pool serves them, and who waits for a time.

The tasks of a job that have one shape are a part of it: they are alike for admission, and wait, stand aside and are
told so together. A gang belongs, whole, to the part of its first member.
"""

import heapq
from collections import Counter
from collections.abc import Iterator

import numpy as np
from sortedcontainers import SortedList

from events.columns import I32, I64, counted, distinct
from events.instance_changes import instance_change
from events.records.lifecycle import InstancesChanged, JobAccepted
from events.resources import STANDARD_KINDS, Kinds, Vector, add, scale
from processors.entitlement.rows import JobRow, PartRow
from processors.state.arena import Arena
from processors.state.sequence import SequenceNumbers
from processors.state.shapes import MIXED, Shapes, shapes_of
from processors.state.table import Table, struct_table

Part = tuple[str, int]
"""A job, and the shape of a part of it."""
Place = tuple[int, int, int, Part]
"""Where a part stands in its pool: priority descending, then order of acceptance, then its first instance."""
NO_SLOTS = np.zeros(0, dtype=np.int64)


class Queues:
    """The tables of jobs and shapes, the columns of their tasks, and what is derived from them.

    Columns: `shape` the number of the task's shape, `queued` the run that waits for admission, `held` the run that
    holds, `ended` the highest run that is over, `leaving` the run that was asked to leave, `since` the number of the
    admission; 0 where there is none.
    """

    def __init__(self) -> None:
        self.jobs: Table[str, JobRow] = struct_table("jobs", JobRow)
        self.shapes = Shapes()
        self.arena = Arena("tasks", ("shape", "queued", "held", "ended", "leaving", "since"))
        self.kinds = STANDARD_KINDS
        self.nothing: Vector = (0,) * len(self.kinds)
        self.at: dict[int, str] = {}
        self.order: dict[str, SortedList[Place]] = {}
        """Per pool the parts in line that are preemptible."""
        self.non_preemptible_order: dict[str, SortedList[Place]] = {}
        """Per pool the parts in line that are not."""
        self.waiting: dict[str, Vector] = {}
        """What the parts in `order` ask together."""
        self.non_preemptible_waiting: dict[str, Vector] = {}
        self.allocation: dict[str, Vector] = {}
        self.non_preemptible: dict[str, Vector] = {}
        """The part of the allocation that isn't preemptible."""
        self.open_jobs: Counter[str] = Counter()
        self.changes = 0
        """Grows with each change of demand or allocation."""
        self.unexplained: dict[Part, None] = {}
        """The parts aside that were not told so."""
        self._later: list[tuple[int, int, int, Part]] = []
        self._for_change: dict[Part, None] = {}
        self._numbers = SequenceNumbers(lambda: (row.number for row in self.jobs.values()))

    def restored(self, kinds: Kinds) -> None:
        """Finds again what is derived; `kinds`: those that the cell knows."""
        self.kinds, self.nothing = kinds, (0,) * len(kinds)
        self.arena.restored()
        self.shapes.restored()
        self.at = {row.base: job_id for job_id, row in self.jobs.items()}
        lines = (self.order, self.non_preemptible_order, self.waiting, self.non_preemptible_waiting)
        held = (self.allocation, self.non_preemptible)
        for derived in (*lines, *held, self.open_jobs, self.unexplained, self._for_change):
            derived.clear()
        self._later = []
        self._numbers.restored()
        for job_id in sorted(self.jobs, key=lambda each: self.jobs[each].number):
            row = self.jobs[job_id]
            self.open_jobs[row.pool] += 1
            for shape, part in row.parts.items():
                self._account(row.pool, row.preemptible, *self._amount(row, shape, "held", part.held))
                if part.aside:
                    self._stand_aside((job_id, shape), part)
                elif part.queued:
                    self._stand((job_id, shape), row)
                    self._wait(row.pool, row.preemptible, *self._amount(row, shape, "queued", part.queued))
        self.changes += 1

    def widen(self, kinds: Kinds) -> None:
        """The cell knows more kinds."""
        self.shapes.widen(kinds)
        self.restored(kinds)

    def in_line(self) -> list[str]:
        """The pools with work that waits for its turn."""
        lines = (self.order, self.non_preemptible_order)
        return sorted({pool: None for line in lines for pool, jobs in line.items() if jobs})

    def stretch(self, job_id: str) -> tuple[int, int] | None:
        """Base and size of a job in the arena."""
        row = self.jobs.get(job_id)
        return (row.base, row.instances) if row else None

    def add(self, event: JobAccepted) -> None:
        """A job was accepted."""
        shapes = shapes_of(event, self.kinds.vector)
        if not shapes:
            return
        base = self.arena.take(event.instances)
        tasks = self.shapes.take_job(self.arena, base, event, shapes)
        row = JobRow(
            self._numbers.take(),
            base,
            event.instances,
            event.pool,
            event.priority,
            event.preemptible,
            event.gang_min if event.gang_min > 1 else 0,
            self._parts(base, event.instances, tasks),
        )
        self.jobs.put(event.job_id, row)
        self.arena.fill("ended", row.base, row.instances, event.first_run - 1)
        self.at[row.base] = event.job_id
        self.open_jobs[event.pool] += 1

    def change_instances(self, event: InstancesChanged) -> None:
        """Instances of a job were added or removed; those that are removed neither wait nor hold any more."""
        shapes = shapes_of(event, self.kinds.vector)
        if event.job_id not in self.jobs or len(shapes) < len(event.shapes):
            return
        row, arena = self.jobs.change(event.job_id), self.arena
        added, gone, _ = instance_change(event)
        removed = row.base + gone
        self.count_slots(removed[arena["queued"][removed] > 0], -1, 0)
        self.count_slots(removed[arena["held"][removed] > 0], 0, -1)
        for column in ("queued", "held", "leaving", "since"):
            arena.set(column, removed, 0)
        del self.at[row.base]
        row.base, more = self.shapes.change_job(arena, row.base, row.instances, event, shapes)
        row.instances = event.instances
        self.at[row.base] = event.job_id
        numbers = arena["shape"][row.base + added]
        for shape, tasks in more.items():
            if shape not in row.parts:
                row.parts[shape] = PartRow(int(added[numbers == shape].min()), 0)
            row.parts[shape].tasks += tasks
            if not row.parts[shape].tasks:
                del row.parts[shape]

    def drop(self, job_id: str) -> None:
        """A job has ended and leaves the state; what others still say of it is void."""
        row = self.jobs.get(job_id)
        if row is None:
            return
        if any(part.queued or part.held for part in row.parts.values()):
            stretch = slice(row.base, row.base + row.instances)
            self.count_slots(np.flatnonzero(self.arena["queued"][stretch]) + row.base, -1, 0)
            self.count_slots(np.flatnonzero(self.arena["held"][stretch]) + row.base, 0, -1)
        self.open_jobs[row.pool] -= 1
        self.shapes.give_back_job({shape: part.tasks for shape, part in row.parts.items()})
        self.arena.give_back(row.base, row.instances)
        self.jobs.remove(job_id)
        self._numbers.give_back(row.number)
        del self.at[row.base]

    def count_slots(self, slots: I64, queued: int, held: int) -> None:
        """Tasks began (1) or ceased (-1) to wait, or to hold; the columns say so already."""
        if not len(slots):
            return
        sums: dict[tuple[str, bool, bool, Vector], int] = {}
        bases, times = counted(self.arena["owner"][slots] - 1)
        for base, tasks in zip(bases.tolist(), times.tolist(), strict=True):
            job_id = self.at[base]
            row = self.jobs.change(job_id)
            shape = row.shape
            if shape != MIXED:
                parts = [(shape, tasks, self.need(shape), tasks)]
            else:
                mine = self.split(row, slots[self.arena["owner"][slots] == base + 1])
                parts = [(number, len(part), self.asks(row, part), 1) for number, part in mine]
            for shape, count, need, often in parts:
                waited = self._count((job_id, shape), row, count * queued, count * held)
                for waits, by in ((True, waited), (False, held)):
                    if by:
                        key = (row.pool, row.preemptible, waits, need)
                        sums[key] = sums.get(key, 0) + by * often
        for (pool, preemptible, waits, need), count in sums.items():
            (self._wait if waits else self._account)(pool, preemptible, need, count)
        self.changes += 1

    def split(self, row: JobRow, slots: I64) -> Iterator[tuple[int, I64]]:
        """Slots of a job by its parts, as the shapes of these."""
        if row.shape != MIXED:
            yield row.shape, slots
            return
        column = self.arena["shape"]
        shapes = np.where(slots < row.base + row.gang_min, column[row.base], column[slots])
        for shape in distinct(shapes).tolist():
            yield shape, slots[shapes == shape]

    def part_of(self, row: JobRow, instance: int) -> int:
        """The part to which a task of a job belongs, as its shape."""
        if row.shape != MIXED:
            return row.shape
        return int(self.arena["shape"][row.base + (0 if instance < row.gang_min else instance)])

    def need(self, shape: int) -> Vector:
        """What a task of a shape needs."""
        return self.shapes[shape].need

    def asks(self, row: JobRow, slots: I64) -> Vector:
        """What tasks of a job need together."""
        if row.shape != MIXED:
            return scale(self.need(row.shape), len(slots))
        total = self.nothing
        shapes, counts = counted(self.arena["shape"][slots])
        for shape, tasks in zip(shapes.tolist(), counts.tolist(), strict=True):
            total = add(total, self.need(shape), tasks)
        return total

    def put_aside(self, part: Part, code: str, not_before_ms: int) -> None:
        """A part with work that waits stands aside until a time, or, with 0, until hosts or pools change."""
        row = self.jobs.change(part[0])
        what = row.parts[part[1]]
        if what.aside:
            self._forget_aside(part, what)
        else:
            need, tasks = self._amount(row, part[1], "queued", what.queued)
            self._wait(row.pool, row.preemptible, need, -tasks)
            self._leave(part, row)
        what.not_before_ms, what.for_change, what.returned = not_before_ms, not not_before_ms, code
        self._stand_aside(part, what)
        self.changes += 1

    def release_due(self, now: int) -> None:
        """Parts whose time has come stand in line again."""
        while self._later and self._later[0][0] <= now:
            due, *_, part = heapq.heappop(self._later)
            if self._is_later(due, part):
                self._release(part)

    def release_for_change(self) -> None:
        """Hosts or pools have changed: what waited for that stands in line again."""
        for part in list(self._for_change):
            self._release(part)

    def next_due_ms(self) -> int | None:
        """When the first time comes."""
        while self._later and not self._is_later(self._later[0][0], self._later[0][-1]):
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None

    def next_unexplained(self, most: int) -> list[Part]:
        """The parts aside that were not told so, at most `most`, in the order of acceptance."""
        return heapq.nsmallest(most, self.unexplained, key=self._age)

    def slots(self, row: JobRow, shape: int, column: str) -> I64:
        """The tasks of a part for which a column isn't 0, ascending."""
        found = np.flatnonzero(self.arena[column][row.base : row.base + row.instances]) + row.base
        return found if row.shape != MIXED else dict(self.split(row, found)).get(shape, NO_SLOTS)

    def queued_slots(self, row: JobRow, shape: int) -> I64:
        """The tasks of a part that wait."""
        if row.instances == 1:
            return np.array((row.base,)) if row.parts[shape].queued else NO_SLOTS
        return self.slots(row, shape, "queued")

    def units(self, row: JobRow, shape: int) -> tuple[I64, I64]:
        """The gang of a part, where all of it waits, and its other tasks that wait. Members of a gang whose others are
        still ending are left out.
        """
        slots = self.queued_slots(row, shape)
        if not row.gang_min:
            return NO_SLOTS, slots
        end = row.base + row.gang_min
        members = int(np.searchsorted(slots, end))
        gang, alone = slots[:members], slots[members:]
        runs = self.arena["queued"][row.base : end]
        whole = members == row.gang_min and bool((runs == runs[0]).all())
        return (gang if whole else NO_SLOTS), alone

    def _parts(self, base: int, instances: int, tasks: dict[int, int]) -> dict[int, PartRow]:
        """The parts of a job that is new, by their shapes, in the order of their first instances."""
        if len(tasks) == 1:
            return {shape: PartRow(0, count) for shape, count in tasks.items()}
        shapes, first = np.unique(self.arena["shape"][base : base + instances], return_index=True)
        parts = sorted(zip(first.tolist(), shapes.tolist(), strict=True))
        return {shape: PartRow(at, tasks[shape]) for at, shape in parts}

    def _amount(self, row: JobRow, shape: int, column: str, tasks: int) -> tuple[Vector, int]:
        """What the tasks of a part for which a column isn't 0 need together, as a need and how often; `tasks`: how many
        they are.
        """
        if row.shape != MIXED or not tasks:
            return self.need(shape), tasks
        return self.asks(row, self.slots(row, shape, column)), 1

    def _age(self, part: Part) -> tuple[int, int]:
        row = self.jobs[part[0]]
        return row.number, row.parts[part[1]].first

    def _is_later(self, due: int, part: Part) -> bool:
        row = self.jobs.get(part[0])
        return row is not None and part[1] in row.parts and row.parts[part[1]].not_before_ms == due

    def _count(self, part: Part, row: JobRow, queued: int, held: int) -> int:
        """Tasks of a part began or ceased to wait or to hold. Returns 1 where they are in line now and weren't, -1
        where they were and aren't any more, else 0.
        """
        what = row.parts[part[1]]
        what.held += held
        if not queued:
            return 0
        had, what.queued = what.queued, what.queued + queued
        if what.aside:
            if not what.queued:
                self._forget_aside(part, what)
            return 0
        if not had:
            self._stand(part, row)
        if not what.queued:
            self._leave(part, row)
        return 1 if queued > 0 else -1

    def _account(self, pool: str, preemptible: bool, need: Vector, tasks: int) -> None:
        self.allocation[pool] = add(self.allocation.get(pool, self.nothing), need, tasks)
        if not preemptible:
            self.non_preemptible[pool] = add(self.non_preemptible.get(pool, self.nothing), need, tasks)

    def _wait(self, pool: str, preemptible: bool, need: Vector, tasks: int) -> None:
        waiting = self.waiting if preemptible else self.non_preemptible_waiting
        waiting[pool] = add(waiting.get(pool, self.nothing), need, tasks)

    def _stand(self, part: Part, row: JobRow) -> None:
        order = self.order if row.preemptible else self.non_preemptible_order
        if row.pool not in order:
            order[row.pool] = SortedList()
        order[row.pool].add(place(part, row))

    def _leave(self, part: Part, row: JobRow) -> None:
        (self.order if row.preemptible else self.non_preemptible_order)[row.pool].remove(place(part, row))
        row.parts[part[1]].reported_code = ""

    def _stand_aside(self, part: Part, what: PartRow) -> None:
        if what.not_before_ms:
            heapq.heappush(self._later, (what.not_before_ms, *self._age(part), part))
        else:
            self._for_change[part] = None
        if what.reported_code != what.returned:
            self.unexplained[part] = None

    def _forget_aside(self, part: Part, what: PartRow) -> None:
        self._for_change.pop(part, None)
        self.unexplained.pop(part, None)
        what.not_before_ms, what.for_change, what.returned, what.reported_code = 0, False, "", ""

    def _release(self, part: Part) -> None:
        row = self.jobs.change(part[0])
        self._forget_aside(part, row.parts[part[1]])
        self._stand(part, row)
        self._wait(row.pool, row.preemptible, *self._amount(row, part[1], "queued", row.parts[part[1]].queued))
        self.changes += 1


def place(part: Part, row: JobRow) -> Place:
    """Where a part stands in its pool."""
    return (-row.priority, row.number, row.parts[part[1]].first, part)


def stretches(slots: I64, run: I32, part: I64) -> tuple[I64, I64]:
    """Where neighbouring slots of equal run within a part begin, and how many they are."""
    breaks = np.ones(len(slots), dtype=np.bool_)
    breaks[1:] = (np.diff(slots) != 1) | (np.diff(run) != 0) | (np.diff(part) != 0)
    first = np.flatnonzero(breaks)
    return first, np.diff(np.append(first, len(slots)))
