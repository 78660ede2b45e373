"""Jobs by their parts, and what a unit of a part is.

The tasks of a job that are alike for admission are a part of it: those of one shape; its gang, whole; its controller.
A unit is what is admitted at once: the gang, the controller, or one task of another part.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from events.columns import I32, I64, Names, counted, distinct
from events.resources import STANDARD_KINDS, Kinds, Vector, add, scale
from processors.entitlement.rows import JobRow
from processors.state.arena import REMOVED, Arena
from processors.state.shapes import Shapes
from processors.state.table import Table, struct_table

NO_SLOTS = np.zeros(0, dtype=np.int64)
COLUMNS = ("shape", "queued", "held", "ended", "leaving", "rank", "placed", "due_s", "placed_s", "number")

SINGLE, GANG, CONTROLLER = range(3)
"""What the tasks of a part are to each other; with the shape it makes the key of the part."""
ROLES = 4


class PartKey(NamedTuple):
    """A part of a job."""

    job_id: str
    key: int
    """Shape and role (`ROLES`)."""


class Unit(NamedTuple):
    """What is admitted at once, of one run: a gang whole, or a single task."""

    job_id: str
    first: int
    """The first instance."""
    size: int
    """The number of its tasks, which are neighbours."""
    run: int


Form = tuple[int, int, int]
"""Units that are alike for hosts: shape, size, and, where that doesn't say it all, the job."""

FIRM, CONTROLLERS = 2, 1
"""A class of work is a sum of these, or"""
DAEMONS = 4
CLASSES = 5


class Parts:
    """The tables of jobs and shapes and the columns of their tasks, and what can be read from them alone.

    Columns: `shape` the number of the task's shape, `queued` the run that waits for admission, negative while it isn't
    tried, since the only host that it may run on takes it not, `held` the run that is
    admitted, `ended` the highest run that is over, `leaving` the order by which the run is to leave (negative: it
    should have by now), `rank` by what right it is admitted (`Rank`), `placed` the run that has a place, `due_s` the
    second since when it is entitled without a place, `placed_s` that since when it has a place, `number` that of the
    admission; 0 where there is none.
    """

    def __init__(self) -> None:
        self.jobs: Table[str, JobRow] = struct_table("jobs", JobRow)
        self.shapes = Shapes()
        self.arena = Arena("tasks", COLUMNS)
        self.kinds: Kinds = STANDARD_KINDS
        self.nothing: Vector = (0,) * len(self.kinds)
        self.at: dict[int, str] = {}
        """By their bases, the jobs."""

    def stretch(self, job_id: str) -> tuple[int, int]:
        """Base and size of a job in the arena, none where it is unknown."""
        row = self.jobs.get(job_id)
        return (row.base, row.instances) if row else (0, 0)

    def split(self, slots: I64) -> Iterator[tuple[str, JobRow, int, I64]]:
        """Tasks by their parts: job, row, key of the part, slots."""
        for base, mine in by(slots, self.arena["owner"][slots].astype(np.int64) - 1):
            job_id = self.at[base]
            row = self.jobs[job_id]
            for key, part in self._split(row, mine):
                yield job_id, row, key, part

    def part_of(self, row: JobRow, instance: int) -> int:
        """The key of the part to which a task of a job belongs."""
        return next(self._split(row, np.array((row.base + instance,))))[0]

    def present(self, row: JobRow) -> I64:
        """The tasks that a job has: those that weren't removed."""
        return np.flatnonzero(self.arena["ended"][row.base : row.base + row.instances] != REMOVED) + row.base

    def gang(self, row: JobRow) -> I64:
        """The members of the gang of a job."""
        return np.arange(row.base, row.base + row.gang_min)

    def slots(self, row: JobRow, key: int, column: str, value: int = 0) -> I64:
        """The tasks of a part for which a column has a value, or, with 0, any but 0; ascending."""
        stretch = self.arena[column][row.base : row.base + row.instances]
        wanted = stretch == value if value else stretch > 0 if column == "queued" else stretch
        found = np.flatnonzero(wanted) + row.base
        return found if len(row.parts) == 1 else dict(self._split(row, found)).get(key, NO_SLOTS)

    def claim_slots(self, row: JobRow, key: int) -> I64:
        """The tasks of a part that are entitled and have no place; ascending."""
        slots = self.slots(row, key, "due_s")
        claims: I64 = slots[self.arena["placed"][slots] == 0]
        return claims

    def need(self, key: int) -> Vector:
        """What a task of a part needs; of a gang with several shapes its first one."""
        return self.shapes[key // ROLES].need

    def unit_need(self, row: JobRow, key: int) -> Vector:
        """What a unit of a part needs."""
        return self.shapes[key // ROLES].need if key % ROLES != GANG else self.asked(row, self.gang(row))

    def task_needs(self, row: JobRow, key: int) -> list[Vector]:
        """What the tasks of a unit of a part need, each need once."""
        if key % ROLES != GANG:
            return [self.need(key)]
        shapes = distinct(self.arena["shape"][row.base : row.base + row.gang_min])
        return [self.shapes[shape].need for shape in shapes.tolist()]

    def asked(self, row: JobRow, slots: I64) -> Vector:
        """What tasks of a job need together."""
        total = self.nothing
        shapes, counts = counted(self.arena["shape"][slots])
        for shape, tasks in zip(shapes.tolist(), counts.tolist(), strict=True):
            total = add(total, self.shapes[shape].need, tasks)
        return total

    def form(self, row: JobRow, key: int) -> Form:
        """What units are alike for hosts: shape and size; of a gang with several shapes it is its own."""
        shape, role = divmod(key, ROLES)
        if role != GANG:
            return (shape, 1, 0)
        mixed = bool((self.arena["shape"][row.base : row.base + row.gang_min] != shape).any())
        return (shape, row.gang_min, row.number if mixed else 0)

    def form_need(self, form: Form, row: JobRow) -> Vector:
        """What a unit of a form needs; `row`: a job with such."""
        shape, size, mixed = form
        return self.asked(row, self.gang(row)) if mixed else scale(self.shapes[shape].need, size)

    def backoff_key(self, row: JobRow, key: int) -> int:
        """The key of units of a part among those of their pool that back off: shape and size."""
        shape, size, _ = self.form(row, key)
        return shape << 32 | size

    def waiting_units(self, row: JobRow, key: int) -> int:
        """How many units of a part wait that is ready."""
        return 1 if key % ROLES == GANG else row.parts[key].queued

    def kind(self, row: JobRow, key: int) -> int:
        """The class of a part: `DAEMONS`, or a sum of `FIRM` and `CONTROLLERS`."""
        if row.daemon:
            return DAEMONS
        return FIRM * (not row.preemptible) + CONTROLLERS * (key % ROLES == CONTROLLER)

    def is_ready(self, row: JobRow, key: int) -> bool:
        """Whether units of a part wait; a gang doesn't while members of it are still ending."""
        part = row.parts[key]
        if not part.queued or part.returned:
            return False
        if key % ROLES != GANG:
            return True
        runs = self.arena["queued"][row.base : row.base + row.gang_min]
        return part.queued == row.gang_min and bool((runs == runs[0]).all())

    def _keys(self, row: JobRow, slots: I64) -> I64:
        """The key of the part of each task."""
        shape, instance = self.arena["shape"][slots].astype(np.int64), slots - row.base
        if row.gang_min:
            gang = int(self.arena["shape"][row.base]) * ROLES + GANG
            return np.where(instance < row.gang_min, gang, shape * ROLES + SINGLE)
        return shape * ROLES + np.where(row.controller & (instance == 0), CONTROLLER, SINGLE)

    def _split(self, row: JobRow, slots: Any) -> Iterator[tuple[int, Any]]:
        if len(row.parts) == 1:
            if len(slots):
                yield next(iter(row.parts)), slots
            return
        many = np.asarray(slots, dtype=np.int64)
        yield from by(many, self._keys(row, many))


def by(slots: I64, groups: I64) -> Iterator[tuple[int, I64]]:
    """Slots by their groups, ascending; within a group as they stood."""
    numbers = distinct(groups)
    if len(numbers) == 1:
        yield int(numbers[0]), slots
        return
    order = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[order], numbers, side="right").tolist()
    start = 0
    for number, end in zip(numbers.tolist(), ends, strict=True):
        yield number, slots[order[start:end]]
        start = end


def stretches(slots: I64, run: I64, part: I64) -> tuple[I64, I64]:
    """Where neighbouring slots of equal run within a part begin, and how many they are."""
    if len(slots) == 1:
        return np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    breaks = np.ones(len(slots), dtype=np.bool_)
    breaks[1:] = (np.diff(slots) != 1) | (np.diff(run) != 0) | (np.diff(part) != 0)
    first = np.flatnonzero(breaks)
    return first, np.diff(np.append(first, len(slots)))


def range_columns(
    units: Sequence[tuple[str, int, bool, I64]], runs: I32, alike: Sequence[int]
) -> tuple[dict[str, object], I64]:
    """The columns of a record about ranges of tasks, and for each range the place of its unit.

    Each unit has its job, the first slot of that, whether it is a gang, and the slots of its tasks; `runs` are those of
    all slots. Ranges that meet are one where their units have the same number in `alike`.
    """
    names = Names()
    jobs = [names[job_id] for job_id, *_ in units]
    sizes = [len(slots) for *_, slots in units]
    every = np.concatenate([slots for *_, slots in units])
    run = runs[every].astype(np.int64)
    first, count = stretches(every, run, np.repeat(alike, sizes))
    unit = np.repeat(np.arange(len(sizes)), sizes)[first]
    columns = {
        "job_ids": names.all(),
        "job": np.array(jobs)[unit],
        "first": every[first] - np.array([base for _, base, *_ in units])[unit],
        "count": count,
        "run": run[first],
        "gang": np.array([is_gang for _, _, is_gang, _ in units])[unit],
    }
    return columns, unit
