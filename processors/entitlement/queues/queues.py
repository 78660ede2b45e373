"""The jobs and tasks of the cell, by parts: records change them here only, and what pools hold and who waits follows.

`Queues` keeps the rows of jobs and the columns of tasks. Each change of a column goes through `update`, which adds what
it changes to the counts of parts, to the usage of pools and to the order of their queues.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from events.codes import Code
from events.columns import FEW, I32, I64, counted, distinct
from events.host_pools import kind_number
from events.instance_changes import instance_change
from events.ranks import are_entitled
from events.records.lifecycle import InstancesChanged, JobAccepted
from events.resources import STANDARD_KINDS, Kinds, Vector, add, scale
from events.work_classes import REVOCABLES, class_of, pooled
from processors.entitlement.queues.comeback import Comeback
from processors.entitlement.queues.demands import LastingBounds, shapes_asked
from processors.entitlement.queues.order import (
    IN_BORROWED,
    IN_CLAIMS,
    IN_REFUSED,
    IN_WAITING,
    QueueOrder,
    Standing,
    bits,
)
from processors.entitlement.queues.parts import COLUMNS, CONTROLLER, GANG, ROLES, SINGLE, Consumer, Form, PartKey, by
from processors.entitlement.queues.usage import (
    CLAIMS,
    WAITS,
    Transition,
    Usages,
    count_seconds,
    delta_of,
    states_of,
    states_of_few,
    transitions,
    transitions_of_few,
)
from processors.entitlement.rows import JobRow, PartRow, RefusalRow
from processors.state.arena import REMOVED, Arena, Slots
from processors.state.marks import Marks
from processors.state.sequence import SequenceNumbers
from processors.state.shapes import Shape, Shapes
from processors.state.table import Table, struct_table

OF_ADMISSION = ("held", "leaving", "rank", "placed", "due_s", "placed_s", "number")
"""The columns that are 0 where a task isn't admitted."""
NO_SLOTS = np.zeros(0, dtype=np.int64)
Alike = tuple[str, int, bool, bool, bool, int, int, int]
"""Tasks whose changes are one sum: pool, priority, preemptible, daemon, service, key of the part, states."""


class Queues:
    """The tables of jobs and shapes and the columns of tasks, with what follows from them: usage and order.

    Columns: `shape` the number of the task's shape, `queued` the run that waits for admission, negative while it isn't
    tried, since the only host that it may run on takes it not, `held` the run that is admitted, `ended` the highest run
    that is over, `leaving` the order by which the run is to leave (negative: it should have by now), `rank` by what
    right it is admitted (`Rank`), `placed` the run that has a place, `due_s` the second since when it is entitled
    without a place, `placed_s` that since when it has a place, `number` that of the admission; 0 where there is none.
    """

    def __init__(self, usage: Usages, order: QueueOrder, marks: Marks[Consumer, str], bounds: LastingBounds) -> None:
        self.jobs: Table[str, JobRow] = struct_table("jobs", JobRow)
        self.shapes = Shapes()
        self.arena = Arena("tasks", COLUMNS)
        self.kinds: Kinds = STANDARD_KINDS
        self.nothing: Vector = (0,) * len(self.kinds)
        self.at: dict[int, str] = {}
        """By their bases, the jobs."""
        self._usage = usage
        self._order = order
        self._marks = marks
        self.bounds = bounds
        self.open_jobs: Counter[str] = Counter()
        self.changes = 0
        """Grows with each change of demand or allocation."""
        self.aside: dict[PartKey, None] = {}
        """Parts that placement gave back for good; they claim nothing until hosts change."""
        self.comeback = Comeback(self.arena)
        self.bound: dict[str, None] = {}
        """Jobs with tasks whose hosts, the only ones that they may run on, don't take them."""
        self._numbers = SequenceNumbers(lambda: (row.number for row in self.jobs.values()))

    def restored(self, kinds: Kinds, are_pooled: bool) -> None:
        """Finds again what is derived; `kinds`: those that the cell knows, `are_pooled`: whether it has host pools."""
        self.kinds, self.nothing, self._usage.are_pooled = kinds, (0,) * len(kinds), are_pooled
        self.arena.restored()
        self.shapes.restored()
        self.at.clear()
        self.at.update((row.base, job_id) for job_id, row in self.jobs.items())
        self._usage.clear(self.nothing)
        self._order.clear()
        self._marks.clear()
        self.aside.clear()
        self.open_jobs.clear()
        self._numbers.restored()
        for job_id, row in self.jobs.items():
            self.open_jobs[row.pool] += 1
            for key, part in row.parts.items():
                part.queued = part.entitled = part.borrowed = part.claims = part.loans = 0
                if part.returned:
                    self.aside[PartKey(job_id, key)] = None
        arena = self.arena
        self.bound = {self.at[each - 1]: None for each in distinct(arena["owner"][arena["queued"] < 0]).tolist()}
        slots = np.flatnonzero((arena["queued"] > 0) | (arena["held"] > 0))
        back = self.comeback.among(np.flatnonzero(arena["number"] < 0))
        self.comeback.parts = {PartKey(job_id, key): False for job_id, _, key, _ in self.split(back)}
        none = np.zeros(len(slots), dtype=np.int64)
        self._count(transitions(arena, slots, none, none), rows_as_they_are=True)

    def widen(self, kinds: Kinds) -> None:
        """The cell knows more kinds."""
        self.shapes.widen(kinds)
        self.restored(kinds, self._usage.are_pooled)

    # Jobs.

    def add(self, event: JobAccepted) -> None:
        """A job was accepted."""
        gang = event.gang_min if event.gang_min > 1 else 0
        shapes = shapes_asked(event, gang, self.kinds.vector, self.bounds)
        if not shapes:
            return
        base = self.arena.take(event.instances, ended=event.first_run - 1) if event.instances else self.arena.take(1)
        self.shapes.take_job(self.arena, base, event, shapes)
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
            event.kind == "daemon",
        )
        if event.shape or gang or row.controller:
            self._add_tasks(row, np.arange(base, base + event.instances))
        elif event.instances:
            row.parts[int(self.arena["shape"][base]) * ROLES] = PartRow(0, event.instances)
        self.jobs.put(event.job_id, row)
        self.at[row.base] = event.job_id
        self.open_jobs[event.pool] += 1

    def change_instances(self, event: InstancesChanged) -> None:
        """Instances of a job were added or removed; those that are removed neither wait nor hold any more."""
        job = self.jobs.get(event.job_id)
        shapes = shapes_asked(event, job.gang_min, self.kinds.vector, self.bounds) if job is not None else []
        if job is None or len(shapes) < len(event.shapes):
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
        self._drop_empty_parts(event.job_id, row)

    def reshape(self, job_id: str, slots: I64, index: I64, shapes: Sequence[Shape]) -> None:
        """Tasks of a job ask something else, whatever they wait for or hold; `index`: for each task which shape."""
        row = self.jobs.change(job_id)
        moving = slots
        if row.gang_min and (slots < row.base + row.gang_min).any():  # the gang is a part by its first member's shape
            moving = np.union1d(slots, self.gang(row))
        columns = self._take_out(moving)
        for key, mine in self._split(row, moving):
            row.parts[key].tasks -= len(mine)
        self.shapes.change_tasks(self.arena, slots, index, shapes)
        self._add_tasks(row, moving)
        self._drop_empty_parts(job_id, row)
        self.update(moving, **columns)

    def change_priority(self, job_id: str, priority: int) -> None:
        """A job has another priority: what of it waits stands elsewhere."""
        row = self.jobs.get(job_id)
        if row is None or row.priority == priority:
            return
        row = self.jobs.change(job_id)
        parts = [PartKey(job_id, key) for key in row.parts]
        for part in filter(self._order.standing.__contains__, parts):
            self._leave(row, self._order.standing[part])
        if row.preemptible and row.parts:
            revocable = self.is_revocable(next(iter(row.parts)))
            entitled = are_entitled(self.arena["rank"][row.base : row.base + row.instances])
            amount = self.total_need(row, np.flatnonzero(entitled) + row.base)
            for usage in self._usage.to_change(row.pool, row.kind):
                usage.add_entitled(row.priority, scale(amount, -1), revocable)
                usage.add_entitled(priority, amount, revocable)
        row.priority = priority
        for part in parts:
            self._review(part, row)
        self._marks.touch(row.pool)
        self.changes += 1

    def drop(self, job_id: str) -> None:
        """A job has ended and leaves the state; what others still say of it is void."""
        row = self.jobs.get(job_id)
        if row is None:
            return
        if [part for part in row.parts.values() if part.queued or part.held]:
            stretch = slice(row.base, row.base + row.instances)
            busy = (self.arena["queued"][stretch] > 0) | (self.arena["held"][stretch] > 0)
            self.update(np.flatnonzero(busy) + row.base, queued=0, **dict.fromkeys(OF_ADMISSION, 0))
        self.open_jobs[row.pool] -= 1
        for shape, tasks in self._shapes(row):
            self.shapes.give_back(shape, tasks)
        self.arena.give_back(row.base, row.instances)
        self.jobs.remove(job_id)
        self._numbers.give_back(row.number)
        for key in row.parts:
            self.aside.pop(PartKey(job_id, key), None)
            self.comeback.parts.pop(PartKey(job_id, key), None)
        del self.at[row.base]

    def _shapes(self, row: JobRow) -> list[tuple[int, int]]:
        """The shapes of a job, and how many of its tasks have which."""
        if len(row.parts) == 1:
            ((key, part),) = row.parts.items()
            if key % ROLES != GANG:
                return [(key // ROLES, part.tasks)]
        shapes, counts = counted(self.arena["shape"][self.present(row)])
        return list(zip(shapes.tolist(), counts.tolist(), strict=True))

    # Tasks.

    def update(self, slots: I64, **columns: Slots | int) -> None:
        """Sets columns of tasks, each named once, and counts what that changes."""
        if not len(slots):
            return
        arena = self.arena
        if len(slots) <= FEW:
            before = states_of_few(arena, slots)
            arena.put(slots, **columns)
            owners = arena["owner"][slots].tolist()
            self._count(transitions_of_few(owners, slots.tolist(), *before, *states_of_few(arena, slots)))
            return
        states, since = states_of(arena, slots), arena["due_s"][slots]
        arena.put(slots, **columns)
        self._count(transitions(arena, slots, states, since))

    def _take_out(self, slots: I64) -> dict[str, I32]:
        """Lets tasks wait for nothing and hold nothing; returns their columns, with which `update` puts them back."""
        columns = {column: self.arena[column][slots] for column in ("queued", *OF_ADMISSION)}
        self.update(slots, **dict.fromkeys(columns, 0))
        return columns

    def _drop_empty_parts(self, job_id: str, row: JobRow) -> None:
        for key in [key for key, part in row.parts.items() if not part.tasks]:
            self.aside.pop(PartKey(job_id, key), None)
            del row.parts[key]

    def _add_tasks(self, row: JobRow, slots: I64) -> None:
        """Tasks came to a job."""
        parts = [(int(mine[0]) - row.base, key, len(mine)) for key, mine in by(slots, self._keys(row, slots))]
        for first, key, tasks in sorted(parts):
            if key not in row.parts:
                row.parts[key] = PartRow(first, 0)
            row.parts[key].tasks += tasks

    def _count(self, changed: list[Transition], rows_as_they_are: bool = False) -> None:
        """Adds up the transitions of tasks; the columns have them already."""
        if not changed:
            return
        sums: dict[str, dict[str, Vector]] = {}
        alike: dict[Alike, int] = {}
        claimed: dict[tuple[str, int], dict[int, int]] = {}
        for owner, was, is_, slots, since, due_s in changed:
            job_id = self.at[owner - 1]
            row = self.jobs[job_id] if rows_as_they_are else self.jobs.change(job_id)
            for key, part in self._split(row, slots) if len(row.parts) > 1 else ((next(iter(row.parts)), slots),):
                if not rows_as_they_are and is_ & WAITS:
                    row.parts[key].refusal = None
                self._pass(PartKey(job_id, key), row, len(part), (was, is_))
                kind = (row.pool, row.priority, row.preemptible, row.daemon, row.service, key, was, is_)
                if key % ROLES == GANG:
                    self._add(kind, self.total_need(row, np.asarray(part)), sums)
                else:
                    alike[kind] = alike.get(kind, 0) + len(part)
                if not row.parts[key].queued:
                    row.parts[key].refusal = None
            if row.daemon:
                continue
            if CLAIMS[was]:
                count_seconds(claimed.setdefault((row.pool, -1), {}), since)
            if CLAIMS[is_]:
                count_seconds(claimed.setdefault((row.pool, 1), {}), due_s)
        for kind, count in alike.items():
            self._add(kind, scale(self.shapes[kind[5] // ROLES].need, count), sums)
        for (pool, sign), claiming in claimed.items():
            usage = self._usage.change(pool)
            for since_s, tasks in claiming.items():
                usage.add_claims(since_s, sign * tasks)
        for pool, amounts in sums.items():
            self._usage.add(pool, amounts)
            if "placed" in amounts:  # those of the pools above are sums of these
                assert min(self._usage.change(pool).placed) >= 0, pool
            self._marks.touch(pool)
            if amounts.keys() & {"allocation", "placed"}:
                self._usage.numbers += 1
            if "allocation" in amounts:
                self._marks.happen(self._usage.levels(pool))
            if "daemons" in amounts:  # what there is to share is another amount, for all pools
                for other in self._order.below("/"):
                    self._marks.touch(other)
        self.changes += 1

    def _pass(self, part: PartKey, row: JobRow, count: int, states: tuple[int, int]) -> None:
        """So many tasks of a part went from one state to another."""
        what = row.parts[part.key]
        delta = delta_of(*states, row.preemptible, part.key % ROLES == CONTROLLER, row.daemon, False)
        what.queued = queued = what.queued + count * delta.queued
        what.entitled = entitled = what.entitled + count * delta.entitled
        what.borrowed = borrowed = what.borrowed + count * delta.borrowed
        what.claims = claims = what.claims + count * delta.claims
        what.loans = loans = what.loans + count * delta.loans
        assert queued >= 0, part
        assert 0 <= claims <= entitled, part
        assert 0 <= loans <= borrowed, part
        self._review(part, row)

    def _add(self, kind: Alike, amount: Vector, sums: dict[str, dict[str, Vector]]) -> None:
        """Tasks that hold, or wait for, so much together went from one state to another."""
        pool, priority, preemptible, daemon, service, key, was, is_ = kind
        mine, revocable = sums.setdefault(pool, {}), self.is_revocable(key)
        delta = delta_of(was, is_, preemptible, key % ROLES == CONTROLLER, daemon, revocable)
        for name, sign in delta.sums:
            mine[name] = add(mine.get(name, self.nothing), amount, sign)
        if self._usage.are_pooled and not daemon:
            self._usage.add_of_kind(pool, kind_number(service, preemptible), amount, delta.sums)
        if delta.entitled and preemptible:
            kind_ = kind_number(service, preemptible) if self._usage.are_pooled else 0
            for usage in self._usage.to_change(pool, kind_):
                usage.add_entitled(priority, scale(amount, delta.entitled), revocable)

    # Places in the queues.

    def tell(self, part: PartKey, refusal: RefusalRow | None) -> None:
        """A part was told why it waits; None: it is to be told again."""
        row = self.jobs.change(part.job_id)
        row.parts[part.key].refusal = refusal
        standing = self._order.standing.get(part)
        if standing is not None:
            self._note_told(part, row, standing)

    def put_aside(self, part: PartKey, code: str) -> None:
        """Placement gave a part back for good: what waits of it isn't tried again before hosts change."""
        row = self.jobs.change(part.job_id)
        row.parts[part.key].returned, row.parts[part.key].refusal = code, None
        self.aside[part] = None
        self._review(part, row)
        self._marks.touch(row.pool)
        self.changes += 1

    def release(self) -> None:
        """Hosts have changed: what placement gave back for good is tried again."""
        for part in list(self.aside):
            row = self.jobs.change(part.job_id)
            row.parts[part.key].returned, row.parts[part.key].refusal = "", None
            self._review(part, row)
            self._marks.touch(row.pool)
        self.aside.clear()
        for job_id in sorted(self.bound):
            base, size = self.stretch(job_id)
            slots = base + np.flatnonzero(self.arena["queued"][base : base + size] < 0)
            self.update(slots, queued=-self.arena["queued"][slots])
        self.bound.clear()

    def recheck(self, path: str, retell: bool) -> None:
        """Hosts, or a pool with all below it, have changed: other parts may be refused for good now. With `retell`
        those that still are will be told so again.
        """
        for pool in self._order.below(path):
            queue = self._order[pool]
            queue.verdicts.clear()
            for places in queue.refused.values() if retell else ():
                for *_, part in places:
                    self.tell(part, None)
            for forms in (queue.forms, queue.refused):
                for places in list(forms.values()):
                    for *_, part in list(places) if self._verdict_differs(places[0][-1]) else ():
                        row = self.jobs.change(part.job_id)
                        row.parts[part.key].refusal = None
                        self._leave(row, self._order.standing[part])
                        self._review(part, row)
            self._marks.touch(pool)

    def _review(self, part: PartKey, row: JobRow) -> None:
        """The counts of a part have changed: it stands where it belongs."""
        counts = row.parts[part.key]
        ready = counts.queued > 0 and self.is_ready(row, part.key)
        standing = self._order.standing.get(part)
        if (
            part in self.comeback.parts
            and self.comeback.turned(part, self._tasks(row, part.key))
            and standing is not None
        ):
            self._leave(row, standing)
            standing = None
        if not (ready or counts.borrowed or counts.claims or (counts.returned and counts.queued)):
            if standing is not None:
                self._leave(row, standing)
            return
        if standing is None:
            standing = self._enter(part, row)
        refused = ready and self._verdict(part, row, standing)
        states = IN_REFUSED if refused else IN_WAITING if ready else 0
        states |= (counts.borrowed > 0) * IN_BORROWED | (counts.claims > 0) * IN_CLAIMS
        self._order.place(standing, states)
        self._note_told(part, row, standing)
        demand = self.nothing
        if states & IN_WAITING:
            demand = scale(self.unit_need(row, part.key), self.waiting_units(row, part.key))
        if demand != standing.demand:
            self._set_demand(row, standing, demand)

    def _enter(self, part: PartKey, row: JobRow) -> Standing:
        line = self.kind(row, part.key), bits(self.unit_need(row, part.key))
        is_back = bool(self.comeback.parts) and self.comeback.has(part)
        place = (-row.precedence, not is_back, row.number, row.parts[part.key].first, part)
        return self._order.enter(row.pool, place, line, self.form(row, part.key), self.nothing)

    def _leave(self, row: JobRow, standing: Standing) -> None:
        """A part stands nowhere, for now."""
        self._order.leave(standing)
        if standing.demand != self.nothing:
            self._set_demand(row, standing, self.nothing)

    def _verdict_differs(self, part: PartKey) -> bool:
        standing = self._order.standing[part]
        return self._verdict(part, self.jobs[part.job_id], standing) != (standing.states & IN_REFUSED > 0)

    def _verdict(self, part: PartKey, row: JobRow, standing: Standing) -> bool:
        """Whether units of a part can't be admitted before hosts or pools change."""
        verdicts, group = standing.queue.verdicts, (standing.kind, standing.form)
        verdict = verdicts.get(group)
        if verdict is None:
            need, tasks = self.unit_need(row, part.key), self.task_needs(row, part.key)
            verdict = verdicts[group] = self.bounds.is_refused(row.pool, standing.kind, need, tasks)
        return verdict

    def _note_told(self, part: PartKey, row: JobRow, standing: Standing) -> None:
        counts, states = row.parts[part.key], standing.states
        refusal = counts.refusal
        waits = states & (IN_WAITING | IN_REFUSED) > 0 or (counts.returned != "" and counts.queued > 0)
        is_told = states & IN_WAITING > 0 and refusal is not None and refusal.code != Code.BEHIND_IN_QUEUE
        is_untold = waits and refusal is None
        if is_told != standing.told or is_untold != standing.untold:
            self._order.tell(standing, is_told, is_untold)

    def _set_demand(self, row: JobRow, standing: Standing, demand: Vector) -> None:
        """A part demands so much for its units that wait."""
        if row.daemon:
            return
        self._usage.numbers += 1
        regular = "waiting" if row.preemptible else "firm_waiting"
        name = "revocable_waiting" if standing.kind & REVOCABLES else regular
        for usage in self._usage.to_change(row.pool, row.kind if self._usage.are_pooled else 0):
            usage.change_waiting(name, standing.demand, demand)
        standing.demand = demand

    # Parts and their needs.

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

    def _tasks(self, row: JobRow, key: int) -> I64:
        """All tasks of a part, ascending."""
        slots = np.arange(row.base, row.base + row.instances)
        return slots if len(row.parts) == 1 else dict(self._split(row, slots)).get(key, NO_SLOTS)

    def slots(self, row: JobRow, key: int, column: str, value: int = 0) -> I64:
        """The tasks of a part for which a column has a value, or, with 0, any but 0; ascending."""
        stretch = self.arena[column][row.base : row.base + row.instances]
        matches = stretch == value if value else stretch > 0 if column == "queued" else stretch
        slots = np.flatnonzero(matches) + row.base
        return slots if len(row.parts) == 1 else dict(self._split(row, slots)).get(key, NO_SLOTS)

    def claim_slots(self, row: JobRow, key: int) -> I64:
        """The tasks of a part that are entitled and have no place; ascending."""
        slots = self.slots(row, key, "due_s")
        claims: I64 = slots[self.arena["placed"][slots] == 0]
        return claims

    def need(self, key: int) -> Vector:
        """The need of a task of a part; of a gang with several shapes that of its first one."""
        return self.shapes[key // ROLES].need

    def unit_need(self, row: JobRow, key: int) -> Vector:
        """The need of a unit of a part."""
        return self.shapes[key // ROLES].need if key % ROLES != GANG else self.total_need(row, self.gang(row))

    def task_needs(self, row: JobRow, key: int) -> list[Vector]:
        """The needs of the tasks of a unit of a part, each need once."""
        if key % ROLES != GANG:
            return [self.need(key)]
        shapes = distinct(self.arena["shape"][row.base : row.base + row.gang_min])
        return [self.shapes[shape].need for shape in shapes.tolist()]

    def total_need(self, row: JobRow, slots: I64) -> Vector:
        """The amount that tasks of a job need together."""
        if len(slots) == 1:
            return self.shapes[int(self.arena["shape"][slots[0]])].need
        total = self.nothing
        shapes, counts = counted(self.arena["shape"][slots])
        for shape, tasks in zip(shapes.tolist(), counts.tolist(), strict=True):
            total = add(total, self.shapes[shape].need, tasks)
        return total

    def form(self, row: JobRow, key: int) -> Form:
        """The form of units that are alike for hosts: shape and size; a gang with several shapes has its own."""
        shape, role = divmod(key, ROLES)
        if role != GANG:
            return (shape, 1, 0)
        mixed = bool((self.arena["shape"][row.base : row.base + row.gang_min] != shape).any())
        return (shape, row.gang_min, row.number if mixed else 0)

    def form_need(self, form: Form, row: JobRow) -> Vector:
        """The need of a unit of a form; `row`: a job with such."""
        shape, size, mixed = form
        return self.total_need(row, self.gang(row)) if mixed else scale(self.shapes[shape].need, size)

    def backoff_key(self, row: JobRow, key: int) -> int:
        """The key of units of a part among those of their pool that back off: shape and size."""
        shape, size, _ = self.form(row, key)
        return shape << 32 | size

    def waiting_units(self, row: JobRow, key: int) -> int:
        """The number of units that wait of a part that is ready."""
        return 1 if key % ROLES == GANG else row.parts[key].queued

    def kind(self, row: JobRow, key: int) -> int:
        """The class of a part."""
        kind = class_of(not row.preemptible, key % ROLES == CONTROLLER, row.daemon, self.is_revocable(key))
        return pooled(kind, row.service) if self._usage.are_pooled else kind

    def is_revocable(self, key: int) -> bool:
        """Whether tasks of a part run on slack; then all of their job do."""
        return self.kinds.revocable >= 0 and self.kinds.is_revocable(self.shapes[key // ROLES].need)

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
