"""The parts of jobs as they change: what waits and is admitted, and what follows from that for their pools."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from events.columns import FEW, I32, I64, counted, distinct
from events.instance_changes import instance_change
from events.ranks import are_entitled
from events.records.lifecycle import InstancesChanged, JobAccepted
from events.resources import Kinds, Vector, add, scale
from processors.entitlement.queues.order import QueueOrder, Refused
from processors.entitlement.queues.parts import CONTROLLER, GANG, ROLES, PartKey, Parts, by
from processors.entitlement.queues.usage import (
    BITS_OF_RANK,
    CLAIMS,
    HAS_PLACE,
    LEAVES,
    STATES,
    WAITS,
    Numbers,
    Passed,
    Usages,
    apart,
    passage_of,
)
from processors.entitlement.rows import JobRow, PartRow
from processors.state.arena import Slots
from processors.state.sequence import SequenceNumbers
from processors.state.shapes import Shape, shapes_of

OF_ADMISSION = ("held", "leaving", "rank", "placed", "due_s", "placed_s", "number")
"""The columns that are 0 where a task isn't admitted."""
_BITS = np.array(BITS_OF_RANK, dtype=np.int64)
Alike = tuple[str, int, bool, bool, int, int, int]
"""Tasks whose passages are summed as one: pool, priority, preemptible, daemon, key of the part, state before and after.
"""


class Queues(Parts):
    """The parts of jobs, changed here only, and what is derived from them: what pools hold, and who stands where."""

    def __init__(self, refused: Refused) -> None:
        super().__init__()
        self.usage = Usages(self.nothing)
        self.order = QueueOrder(self, self.usage, refused)
        self.open_jobs: Counter[str] = Counter()
        self.changes = 0
        """Grows with each change of demand or allocation."""
        self.bound: dict[str, None] = {}
        """Jobs with tasks whose hosts, the only ones that they may run on, don't take them."""
        self._numbers = SequenceNumbers(lambda: (row.number for row in self.jobs.values()))

    def restored(self, kinds: Kinds) -> None:
        """Finds again what is derived; `kinds`: those that the cell knows."""
        self.kinds, self.nothing = kinds, (0,) * len(kinds)
        self.arena.restored()
        self.shapes.restored()
        self.at = {row.base: job_id for job_id, row in self.jobs.items()}
        self.usage.clear(self.nothing)
        self.order.clear()
        self.open_jobs.clear()
        self._numbers.restored()
        for job_id, row in self.jobs.items():
            self.open_jobs[row.pool] += 1
            for key, part in row.parts.items():
                part.queued = part.entitled = part.borrowed = part.claims = part.loans = 0
                if part.returned:
                    self.order.aside[PartKey(job_id, key)] = None
        arena = self.arena
        self.bound = {self.at[each - 1]: None for each in distinct(arena["owner"][arena["queued"] < 0]).tolist()}
        slots = np.flatnonzero((arena["queued"] > 0) | (arena["held"] > 0))
        none = np.zeros(len(slots), dtype=np.int64)
        self._count(self._passed(slots, none, none), rows_as_they_are=True)

    def widen(self, kinds: Kinds) -> None:
        """The cell knows more kinds."""
        self.shapes.widen(kinds)
        self.restored(kinds)

    # Jobs.

    def add(self, event: JobAccepted) -> None:
        """A job was accepted."""
        shapes = shapes_of(event, self.kinds.vector)
        if not shapes:
            return
        base = self.arena.take(event.instances, ended=event.first_run - 1) if event.instances else self.arena.take(1)
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
        self._drop_empty_parts(event.job_id, row)

    def reshape(self, job_id: str, slots: I64, index: I64, shapes: Sequence[Shape]) -> None:
        """Tasks of a job ask something else, whatever they wait for or hold; `index`: for each task which shape."""
        row = self.jobs.change(job_id)
        moving = slots
        if row.gang_min and (slots < row.base + row.gang_min).any():  # the gang is a part by its first member's shape
            moving = np.union1d(slots, self.gang(row))
        had = self._take_out(moving)
        for key, mine in self._split(row, moving):
            row.parts[key].tasks -= len(mine)
        self.shapes.change_tasks(self.arena, slots, index, shapes)
        self._add_tasks(row, moving)
        self._drop_empty_parts(job_id, row)
        self.update(moving, **had)

    def change_priority(self, job_id: str, priority: int) -> None:
        """A job has another priority: what of it waits stands elsewhere."""
        row = self.jobs.get(job_id)
        if row is None or row.priority == priority:
            return
        row = self.jobs.change(job_id)
        parts = [PartKey(job_id, key) for key in row.parts]
        for part in parts:
            self.order.leave(part, row)
        if row.preemptible:
            entitled = are_entitled(self.arena["rank"][row.base : row.base + row.instances])
            amount = self.asked(row, np.flatnonzero(entitled) + row.base)
            holding = self.usage.leaf(row.pool)
            holding.add_entitled(row.priority, scale(amount, -1))
            holding.add_entitled(priority, amount)
        row.priority = priority
        for part in parts:
            self.order.review(part, row)
        self.order.marks.touch(row.pool)
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
            self.order.aside.pop(PartKey(job_id, key), None)
        del self.at[row.base]

    def _shapes(self, row: JobRow) -> list[tuple[int, int]]:
        """The shapes of a job, and how many of its tasks have which."""
        if len(row.parts) == 1:
            ((key, part),) = row.parts.items()
            if key % ROLES != GANG:
                return [(key // ROLES, part.tasks)]
        shapes, counts = counted(self.arena["shape"][self.present(row)])
        return list(zip(shapes.tolist(), counts.tolist(), strict=True))

    def put_aside(self, part: PartKey, code: str) -> None:
        """What waits of a part isn't tried again before hosts change."""
        row = self.jobs.change(part.job_id)
        row.parts[part.key].returned, row.parts[part.key].refusal = code, None
        self.order.aside[part] = None
        self.order.review(part, row)
        self.order.marks.touch(row.pool)
        self.changes += 1

    def release(self) -> None:
        """Hosts have changed: what placement gave back for good is tried again."""
        self.order.release()
        for job_id in sorted(self.bound):
            base, size = self.stretch(job_id)
            slots = base + np.flatnonzero(self.arena["queued"][base : base + size] < 0)
            self.update(slots, queued=-self.arena["queued"][slots])
        self.bound.clear()

    # Tasks.

    def states(self, slots: I64) -> I64:
        """The state of each task in bits."""
        arena = self.arena
        states: I64 = _BITS[arena["rank"][slots]]
        states += arena["queued"][slots] > 0
        states += (arena["placed"][slots] > 0) * np.int64(HAS_PLACE)
        states += (arena["leaving"][slots] > 0) * np.int64(LEAVES)
        return states

    def update(self, slots: I64, **columns: Slots | int) -> None:
        """Sets columns of tasks, each named once, and counts what that changes."""
        if not len(slots):
            return
        if len(slots) <= FEW:
            before = self._told(slots)
            self.arena.put(slots, **columns)
            self._count(apart(self.arena["owner"][slots].tolist(), slots.tolist(), *before, *self._told(slots)))
            return
        states, since = self.states(slots), self.arena["due_s"][slots]
        self.arena.put(slots, **columns)
        self._count(self._passed(slots, states, since))

    def _told(self, slots: I64) -> tuple[list[int], list[int]]:
        """The states of few tasks, and since when they are entitled without a place."""
        rows = self.arena.rows(slots, "rank", "queued", "placed", "leaving", "due_s")
        states = [
            BITS_OF_RANK[rank] | (queued > 0) | (placed > 0) * HAS_PLACE | (leaving > 0) * LEAVES
            for rank, queued, placed, leaving, _ in rows
        ]
        due_s = [row[-1] for row in rows]
        return states, due_s

    def _passed(self, slots: I64, before: I64, since: Slots) -> Iterator[Passed]:
        """What has passed of many tasks, from the states that they were in; the columns say to which."""
        after, due_s, owners = self.states(slots), self.arena["due_s"][slots], self.arena["owner"][slots]
        changed = (before != after) | (since != due_s)
        told = tuple(each[changed] for each in (owners, slots, before, since, after, due_s))
        groups = (told[0].astype(np.int64) * STATES + told[2]) * STATES + told[4]
        if 2 * len(distinct(groups)) > len(groups):
            yield from apart(*(each.tolist() for each in told))
            return
        for group, at in by(np.arange(len(groups)), groups) if len(groups) else ():
            owner, was, is_ = group // (STATES * STATES), group // STATES % STATES, group % STATES
            yield Passed(owner, was, is_, told[1][at], told[3][at], told[5][at])

    def _take_out(self, slots: I64) -> dict[str, I32]:
        """Lets tasks wait for nothing and hold nothing; returns their columns, with which `update` puts them back."""
        had = {column: self.arena[column][slots] for column in ("queued", *OF_ADMISSION)}
        self.update(slots, **dict.fromkeys(had, 0))
        return had

    def _drop_empty_parts(self, job_id: str, row: JobRow) -> None:
        for key in [key for key, part in row.parts.items() if not part.tasks]:
            self.order.aside.pop(PartKey(job_id, key), None)
            del row.parts[key]

    def _add_tasks(self, row: JobRow, slots: I64) -> None:
        """Tasks came to a job."""
        parts = [(int(mine[0]) - row.base, key, len(mine)) for key, mine in by(slots, self._keys(row, slots))]
        for first, key, tasks in sorted(parts):
            if key not in row.parts:
                row.parts[key] = PartRow(first, 0)
            row.parts[key].tasks += tasks

    def _count(self, passed: Iterator[Passed], rows_as_they_are: bool = False) -> None:
        """Tasks passed from states to others; the columns say so already."""
        sums: dict[str, dict[str, Vector]] = {}
        alike: dict[Alike, int] = {}
        claimed: dict[tuple[str, int], Counter[int]] = {}
        any_passed = False
        for owner, was, is_, slots, since, due_s in passed:
            any_passed, job_id = True, self.at[owner - 1]
            row = self.jobs[job_id] if rows_as_they_are else self.jobs.change(job_id)
            for key, part in self._split(row, slots) if len(row.parts) > 1 else ((next(iter(row.parts)), slots),):
                if not rows_as_they_are and is_ & WAITS:
                    row.parts[key].refusal = None
                self._pass(PartKey(job_id, key), row, len(part), (was, is_))
                kind = (row.pool, row.priority, row.preemptible, row.daemon, key, was, is_)
                if key % ROLES == GANG:
                    self._add(kind, self.asked(row, np.asarray(part)), sums)
                else:
                    alike[kind] = alike.get(kind, 0) + len(part)
                if not row.parts[key].queued:
                    row.parts[key].refusal = None
            if row.daemon:
                continue
            if CLAIMS[was]:
                self._claim(claimed.setdefault((row.pool, -1), Counter()), since)
            if CLAIMS[is_]:
                self._claim(claimed.setdefault((row.pool, 1), Counter()), due_s)
        if not any_passed:
            return
        for kind, count in alike.items():
            self._add(kind, scale(self.need(kind[4]), count), sums)
        for (pool, sign), claiming in claimed.items():
            holding = self.usage.leaf(pool)
            for since_s, tasks in claiming.items():
                holding.add_claims(since_s, sign * tasks)
        for pool, amounts in sums.items():
            self.usage.add(pool, amounts)
            if "placed" in amounts:  # those of the pools above are sums of these
                assert min(self.usage.leaf(pool).placed) >= 0, pool
            self.order.marks.touch(pool)
            if amounts.keys() & {"allocation", "placed"}:
                self.usage.numbers += 1
            if "allocation" in amounts:
                self.order.marks.happen(self.usage.levels(pool))
            if "daemons" in amounts:  # what there is to share is another amount, for all pools
                for other in self.order.below("/"):
                    self.order.marks.touch(other)
        self.changes += 1

    def _claim(self, claimed: Counter[int], since: Numbers) -> None:
        """Tasks are entitled without a place, each since a second, or not any more: counted by that."""
        if len(since) == 1:
            claimed[int(since[0])] += 1
            return
        seconds, counts = counted(np.asarray(since, dtype=np.int64))
        claimed.update(dict(zip(seconds.tolist(), counts.tolist(), strict=True)))

    def _pass(self, part: PartKey, row: JobRow, count: int, states: tuple[int, int]) -> None:
        """So many tasks of a part passed from a state to another."""
        what = row.parts[part.key]
        passage = passage_of(*states, row.preemptible, part.key % ROLES == CONTROLLER, row.daemon)
        what.queued += count * passage.queued
        what.entitled += count * passage.entitled
        what.borrowed += count * passage.borrowed
        what.claims += count * passage.claims
        what.loans += count * passage.loans
        assert what.queued >= 0, part
        assert 0 <= what.claims <= what.entitled, part
        assert 0 <= what.loans <= what.borrowed, part
        self.order.review(part, row)

    def _add(self, kind: Alike, amount: Vector, sums: dict[str, dict[str, Vector]]) -> None:
        """Tasks that hold, or wait for, so much together passed from a state to another."""
        pool, priority, preemptible, daemon, key, was, is_ = kind
        passage, mine = passage_of(was, is_, preemptible, key % ROLES == CONTROLLER, daemon), sums.setdefault(pool, {})
        for name, sign in passage.sums:
            mine[name] = add(mine.get(name, self.nothing), amount, sign)
        if passage.entitled and preemptible:
            self.usage.leaf(pool).add_entitled(priority, scale(amount, passage.entitled))
