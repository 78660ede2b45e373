"""Jobs that wait and hold: their counts, the order in which each pool serves them, and what their pools hold.

The tasks of a job that are alike for admission are a part of it: those of one shape; its gang, whole; its controller.
A unit is what is admitted at once: the gang, the controller, or one task of another part.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from events.columns import I64, counted, distinct
from events.instance_changes import instance_change
from events.records.lifecycle import InstancesChanged, JobAccepted
from events.resources import STANDARD_KINDS, Kinds, Vector, add, scale
from processors.entitlement.holdings import Holdings
from processors.entitlement.lines import CONTROLLERS, FIRM, Form, Lines, Part, Refused
from processors.entitlement.rows import ENTITLED, PARKED, JobRow, PartRow
from processors.state.arena import REMOVED, Arena, Slots
from processors.state.sequence import SequenceNumbers
from processors.state.shapes import Shapes, shapes_of
from processors.state.table import Table, struct_table

NO_SLOTS = np.zeros(0, dtype=np.int64)
COLUMNS = ("shape", "queued", "held", "ended", "leaving", "entitled", "placed", "due_s", "placed_s", "number", "parked")
OF_ADMISSION = ("held", "leaving", "entitled", "placed", "due_s", "placed_s", "number", "parked")
"""The columns that are 0 where a task isn't admitted."""

SINGLE, GANG, CONTROLLER = range(3)
"""What the tasks of a part are to each other; with the shape it makes the key of the part."""
ROLES = 4

WAITS, IS_ENTITLED, IS_BORROWED, HAS_PLACE, LEAVES, IS_PARKED = (1 << bit for bit in range(6))
"""The state of a task in bits."""
STATES = 64


class Queues:
    """The tables of jobs and shapes, the columns of their tasks, and what is derived from them.

    Columns: `shape` the number of the task's shape, `queued` the run that waits for admission, `held` the run that is
    admitted, `ended` the highest run that is over, `leaving` the order by which the run is to leave, `entitled`
    whether it is entitled (1) or borrowed (2), `placed` the run that has a place, `due_s` the second since when it is
    entitled without a place, `placed_s` that since when it has a place, `number` that of the admission, `parked` 1 if
    it is to hold nothing under limits, 2 if it holds nothing; 0 where there is none.
    """

    def __init__(self, refused: Refused) -> None:
        self.jobs: Table[str, JobRow] = struct_table("jobs", JobRow)
        self.shapes = Shapes()
        self.arena = Arena("tasks", COLUMNS)
        self.kinds = STANDARD_KINDS
        self.nothing: Vector = (0,) * len(self.kinds)
        self.at: dict[int, str] = {}
        self.holdings = Holdings(self.nothing)
        self.lines = Lines(self, refused)
        self.open_jobs: Counter[str] = Counter()
        self.changes = 0
        """Grows with each change of demand or allocation."""
        self.numbers = 0
        """The same, but for changes that leave the sums of all pools as they were."""
        self._numbers = SequenceNumbers(lambda: (row.number for row in self.jobs.values()))

    def restored(self, kinds: Kinds) -> None:
        """Finds again what is derived; `kinds`: those that the cell knows."""
        self.kinds, self.nothing = kinds, (0,) * len(kinds)
        self.arena.restored()
        self.shapes.restored()
        self.at = {row.base: job_id for job_id, row in self.jobs.items()}
        self.holdings.clear(self.nothing)
        self.lines.clear()
        self.open_jobs.clear()
        self._numbers.restored()
        for job_id, row in self.jobs.items():
            self.open_jobs[row.pool] += 1
            for key, part in row.parts.items():
                part.queued = part.entitled = part.borrowed = part.claims = part.loans = 0
                if part.returned:
                    self.lines.aside[job_id, key] = None
        arena = self.arena
        slots = np.flatnonzero((arena["queued"] > 0) | (arena["held"] > 0))
        none = np.zeros(len(slots), dtype=np.int64)
        self._count(slots, none, self.states(slots), none, rows_as_they_are=True)

    def widen(self, kinds: Kinds) -> None:
        """The cell knows more kinds."""
        self.shapes.widen(kinds)
        self.restored(kinds)

    def stretch(self, job_id: str) -> tuple[int, int] | None:
        """Base and size of a job in the arena."""
        row = self.jobs.get(job_id)
        return (row.base, row.instances) if row else None

    # Jobs.

    def add(self, event: JobAccepted) -> None:
        """A job was accepted."""
        shapes = shapes_of(event, self.kinds.vector)
        if not shapes:
            return
        base = self.arena.take(event.instances)
        self.shapes.take_job(self.arena, base, event, shapes)
        gang = event.gang_min if event.gang_min > 1 else 0
        row = JobRow(
            self._numbers.take(),
            base,
            event.instances,
            event.pool,
            event.priority,
            event.preemptible,
            event.controller and not gang,
            event.kind != "batch",
            gang,
            {},
        )
        self._add_tasks(row, np.arange(base, base + event.instances), whole=not event.shape)
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
        change = instance_change(event)
        removed = row.base + change.removed
        self.update(removed, queued=0, **dict.fromkeys(OF_ADMISSION, 0))
        for key, slots in self._split(row, removed):
            row.parts[key].tasks -= len(slots)
        del self.at[row.base]
        row.base, _ = self.shapes.change_job(arena, row.base, row.instances, event, shapes)
        row.instances = event.instances
        self.at[row.base] = event.job_id
        self._add_tasks(row, row.base + change.added)
        for key in [key for key, part in row.parts.items() if not part.tasks]:
            self.lines.aside.pop((event.job_id, key), None)
            del row.parts[key]

    def change_priority(self, job_id: str, priority: int) -> None:
        """A job has another priority: what of it waits stands elsewhere."""
        row = self.jobs.get(job_id)
        if row is None or row.priority == priority:
            return
        row = self.jobs.change(job_id)
        parts = [(job_id, key) for key in row.parts]
        for part in parts:
            self.lines.leave(part, row)
        if row.preemptible:
            entitled = self.arena["entitled"][row.base : row.base + row.instances] == ENTITLED
            amount = self.asked(row, np.flatnonzero(entitled) + row.base)
            holding = self.holdings.leaf(row.pool)
            holding.add_entitled(row.priority, scale(amount, -1))
            holding.add_entitled(priority, amount)
        row.priority = priority
        for part in parts:
            self.lines.review(part, row)
        self.lines.touch(row.pool)
        self.changes += 1

    def drop(self, job_id: str) -> None:
        """A job has ended and leaves the state; what others still say of it is void."""
        row = self.jobs.get(job_id)
        if row is None:
            return
        if any(part.queued or part.held for part in row.parts.values()):
            stretch = slice(row.base, row.base + row.instances)
            busy = (self.arena["queued"][stretch] > 0) | (self.arena["held"][stretch] > 0)
            self.update(np.flatnonzero(busy) + row.base, queued=0, **dict.fromkeys(OF_ADMISSION, 0))
        self.open_jobs[row.pool] -= 1
        shapes, counts = counted(self.arena["shape"][self.present(row)])
        tasks = dict(zip(shapes.tolist(), counts.tolist(), strict=True))
        self.shapes.give_back_job(tasks)
        self.arena.give_back(row.base, row.instances)
        self.jobs.remove(job_id)
        self._numbers.give_back(row.number)
        for key in row.parts:
            self.lines.aside.pop((job_id, key), None)
        del self.at[row.base]

    def put_aside(self, part: Part, code: str) -> None:
        """What waits of a part isn't tried again before hosts change."""
        row = self.jobs.change(part[0])
        row.parts[part[1]].returned, row.parts[part[1]].reported = code, ""
        self.lines.aside[part] = None
        self.lines.review(part, row)
        self.lines.touch(row.pool)
        self.changes += 1

    # Tasks.

    def states(self, slots: I64) -> I64:
        """The state of each task in bits."""
        arena = self.arena
        entitled = arena["entitled"][slots].astype(np.int64)
        states: I64 = entitled * IS_ENTITLED  # ENTITLED and BORROWED are the two bits
        states += arena["queued"][slots] > 0
        states += (arena["placed"][slots] > 0) * np.int64(HAS_PLACE)
        states += (arena["parked"][slots] == PARKED) * np.int64(IS_PARKED)
        states += (arena["leaving"][slots] > 0) * np.int64(LEAVES)
        return states

    def update(self, slots: I64, **columns: Slots | int) -> None:
        """Sets columns of tasks, each named once, and counts what that changes."""
        if not len(slots):
            return
        before, since = self.states(slots), self.arena["due_s"][slots]
        self.arena.put(slots, **columns)
        self._count(slots, before, self.states(slots), since)

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

    def need(self, key: int) -> Vector:
        """What a task of a part needs; of a gang with several shapes its first one."""
        return self.shapes[key // ROLES].need

    def unit_need(self, row: JobRow, key: int) -> Vector:
        """What a unit of a part needs."""
        return self.need(key) if key % ROLES != GANG else self.asked(row, self.gang(row))

    def task_needs(self, row: JobRow, key: int) -> list[Vector]:
        """What the tasks of a unit of a part need, each need once."""
        if key % ROLES != GANG:
            return [self.need(key)]
        shapes = distinct(self.arena["shape"][row.base : row.base + row.gang_min])
        return [self.shapes[shape].need for shape in shapes.tolist()]

    def form(self, row: JobRow, key: int) -> Form:
        """What units are alike for hosts: shape and size; of a gang with several shapes it is its own."""
        shape, role = divmod(key, ROLES)
        if role != GANG:
            return (shape, 1, 0)
        mixed = bool((self.arena["shape"][row.base : row.base + row.gang_min] != shape).any())
        return (shape, row.gang_min, row.number if mixed else 0)

    def backoff_key(self, row: JobRow, key: int) -> int:
        """The key of units of a part among those of their pool that back off: shape and size."""
        shape, size, _ = self.form(row, key)
        return shape << 32 | size

    def gang(self, row: JobRow) -> I64:
        """The members of the gang of a job."""
        return np.arange(row.base, row.base + row.gang_min)

    def present(self, row: JobRow) -> I64:
        """The tasks that a job has: those that weren't removed."""
        return np.flatnonzero(self.arena["ended"][row.base : row.base + row.instances] != REMOVED) + row.base

    def asked(self, row: JobRow, slots: I64) -> Vector:
        """What tasks of a job need together."""
        total = self.nothing
        shapes, counts = counted(self.arena["shape"][slots])
        for shape, tasks in zip(shapes.tolist(), counts.tolist(), strict=True):
            total = add(total, self.shapes[shape].need, tasks)
        return total

    def slots(self, row: JobRow, key: int, column: str, value: int = 0) -> I64:
        """The tasks of a part for which a column has a value, or, with 0, any but 0; ascending."""
        stretch = self.arena[column][row.base : row.base + row.instances]
        found = np.flatnonzero(stretch == value if value else stretch) + row.base
        return found if len(row.parts) == 1 else dict(self._split(row, found)).get(key, NO_SLOTS)

    def claim_slots(self, row: JobRow, key: int) -> I64:
        """The tasks of a part that are entitled and have no place; ascending."""
        slots = self.slots(row, key, "due_s")
        claims: I64 = slots[self.arena["placed"][slots] == 0]
        return claims

    def waiting_units(self, row: JobRow, key: int) -> int:
        """How many units of a part wait that is ready."""
        return 1 if key % ROLES == GANG else row.parts[key].queued

    def kind(self, row: JobRow, key: int) -> int:
        """The class of a part: a sum of `FIRM` and `CONTROLLERS`."""
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

    def _split(self, row: JobRow, slots: I64) -> Iterator[tuple[int, I64]]:
        if len(row.parts) == 1:
            if len(slots):
                yield next(iter(row.parts)), slots
            return
        yield from by(slots, self._keys(row, slots))

    def _add_tasks(self, row: JobRow, slots: I64, whole: bool = False) -> None:
        """Tasks came to a job; `whole`: all of one shape, the first ones of it."""
        if whole and not row.gang_min and not row.controller:
            row.parts[int(self.arena["shape"][row.base]) * ROLES] = PartRow(0, len(slots))
            return
        parts = [(int(mine[0]) - row.base, key, len(mine)) for key, mine in by(slots, self._keys(row, slots))]
        for first, key, tasks in sorted(parts):
            if key not in row.parts:
                row.parts[key] = PartRow(first, 0)
            row.parts[key].tasks += tasks

    def _count(self, slots: I64, before: I64, after: I64, since: Slots, rows_as_they_are: bool = False) -> None:
        """Tasks passed from states to others; the columns say so already. `since`: what `due_s` was."""
        changed = (before != after) | (since != self.arena["due_s"][slots])
        slots, since, passed = slots[changed], since[changed], (before * STATES + after)[changed]
        if not len(slots):
            return
        sums: dict[str, dict[str, Vector]] = {}
        owners = self.arena["owner"][slots].astype(np.int64) - 1
        for group, at in by(np.arange(len(slots)), owners * (STATES * STATES) + passed):
            base, passage = divmod(group, STATES * STATES)
            job_id, was, is_ = self.at[base], *divmod(passage, STATES)
            row = self.jobs[job_id] if rows_as_they_are else self.jobs.change(job_id)
            for key, part in self._split(row, slots[at]):
                if not rows_as_they_are and is_ & WAITS:
                    row.parts[key].reported = ""
                self._pass((job_id, key), row, part, (was, is_), sums.setdefault(row.pool, {}))
                if not row.parts[key].queued:
                    row.parts[key].reported = ""
            holding = self.holdings.leaf(row.pool)
            if claims(was):
                holding.add_claims(since[at], -1)
            if claims(is_):
                holding.add_claims(self.arena["due_s"][slots[at]], 1)
        for pool, amounts in sums.items():
            self.holdings.add(pool, amounts)
            self.lines.touch(pool)
            if "allocation" in amounts:
                self.numbers += 1
                self.lines.changed_at(self.holdings.levels(pool))
        self.changes += 1

    def _pass(self, part: Part, row: JobRow, slots: I64, states: tuple[int, int], sums: dict[str, Vector]) -> None:
        """Tasks of a part passed from a state to another."""
        count, key, what = len(slots), part[1], row.parts[part[1]]
        if key % ROLES == GANG:
            amount = self.asked(row, slots)
        else:
            amount = tuple([count * each for each in self.need(key)])
        passage = passage_of(*states, row.preemptible, key % ROLES == CONTROLLER)
        what.queued += count * passage.queued
        what.entitled += count * passage.entitled
        what.borrowed += count * passage.borrowed
        what.claims += count * passage.claims
        what.loans += count * passage.loans
        for name, sign in passage.sums:
            have = sums.get(name, self.nothing)
            sums[name] = tuple([each + sign * more for each, more in zip(have, amount, strict=True)])
        if passage.entitled and row.preemptible:
            self.holdings.leaf(row.pool).add_entitled(row.priority, scale(amount, passage.entitled))
        self.lines.review(part, row)


class Passage(NamedTuple):
    """What one task adds to counts and sums when it passes from a state to another."""

    queued: int
    entitled: int
    borrowed: int
    claims: int
    loans: int
    sums: tuple[tuple[str, int], ...]


@cache
def passage_of(before: int, after: int, preemptible: bool, controller: bool) -> Passage:
    """The passage of a task of a class between two states."""

    def more(is_counted: Callable[[int], bool]) -> int:
        return is_counted(after) - is_counted(before)

    def holds(state: int) -> bool:
        return state & (IS_ENTITLED | IS_BORROWED) > 0

    sums = {
        "allocation": more(lambda state: holds(state) and not state & IS_PARKED),
        "parked": more(lambda state: state & IS_PARKED > 0),
        "firm": 0 if preemptible else more(holds),
        "controllers": more(holds) if controller else 0,
        "placed": more(lambda state: state & HAS_PLACE > 0),
        "leaving": more(lambda state: state & HAS_PLACE > 0 and state & LEAVES > 0),
        "claims": more(claims),
        "loans": more(loans),
    }
    return Passage(
        more(lambda state: state & WAITS > 0),
        more(lambda state: state & IS_ENTITLED > 0),
        more(lambda state: state & IS_BORROWED > 0),
        sums["claims"],
        sums["loans"],
        tuple((name, sign) for name, sign in sums.items() if sign),
    )


def claims(state: int) -> bool:
    """Whether a task in a state is entitled and has no place."""
    return state & (IS_ENTITLED | HAS_PLACE) == IS_ENTITLED


def loans(state: int) -> bool:
    """Whether a task in a state is borrowed and has no place."""
    return state & (IS_BORROWED | HAS_PLACE) == IS_BORROWED


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
    breaks = np.ones(len(slots), dtype=np.bool_)
    breaks[1:] = (np.diff(slots) != 1) | (np.diff(run) != 0) | (np.diff(part) != 0)
    first = np.flatnonzero(breaks)
    return first, np.diff(np.append(first, len(slots)))
