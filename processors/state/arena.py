"""Task state as columns: int32 arrays over the tasks of all jobs, kept as rows of 512 tasks (decisions 004 and 027).

A job takes a stretch of neighbouring slots; the slot of a task is the base of its job plus its instance. So one numpy
operation serves tasks of many jobs, and a row is hashed and stored once however many of its tasks changed. Where a job
goes depends on nothing but what is taken: the first gap that is large enough, so a restored arena goes on alike.

A job that grows keeps its base while the slots behind it are free, else it moves, with slots to spare. Spare slots are
owned like the others and otherwise 0, so the owners tell how many a job has.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from events.arrays.free_slots import FreeSlots, room_to_grow, slots_kept
from events.bounds import INT_MAX
from events.columns import FEW, I32, I64, distinct, once, spread
from events.instance_changes import instance_change
from events.records.base import ItemsEvent, RangesEvent
from events.records.lifecycle import InstancesChanged
from processors.state.table import Table

BLOCK = 512
"""Tasks in a row: hashing one of six columns takes about 12 µs; smaller rows cost more per task, larger per change."""

REMOVED = INT_MAX
"""In a column `ended`, the highest run of a task that is over: it was removed, and all its runs are over."""

Slots = I32 | I64


class Arena:
    """Columns of int32 by name, 0 where nothing was set. The column `owner` is the base of the job plus 1, 0: free.
    Columns that are 0 for nearly all tasks are `rare`: they have a table of their own, with rows where one isn't 0.
    """

    def __init__(self, name: str, columns: tuple[str, ...], rare: tuple[str, ...] = ()) -> None:
        self._index = {column: at for at, column in enumerate(("owner", *columns, *rare))}
        self._width = len(self._index)
        self._common = 1 + len(columns)
        self._picks: dict[tuple[str, ...], Callable[[list[int]], tuple[int, ...]]] = {}
        """Functions that pick several columns out of all."""
        self._matrix = np.zeros((self._width, BLOCK), dtype=np.int32)
        self._gaps = FreeSlots()
        self.table: Table[int, I32] = Table(name, np.ndarray.tobytes, self._unpack, int)
        self.table.columns = tuple(self._index)[: self._common]
        self.rare: Table[int, I32] = Table(f"{name}_rare", np.ndarray.tobytes, self._unpack_rare, int)
        self.rare.columns = rare
        self.has_rare = False
        """Whether a rare column isn't 0 somewhere."""

    def __getitem__(self, column: str) -> I32:
        """The whole column, to look at; it is replaced when the arena grows, so it isn't kept."""
        row: I32 = self._matrix[self._index[column]]
        return row

    def rows(self, slots: Slots, *columns: str) -> list[tuple[int, ...]]:
        """Two columns or more of the task at each slot, to look at: the way for few."""
        pick = self._picks.get(columns)
        if pick is None:
            pick = self._picks[columns] = itemgetter(*(self._index[column] for column in columns))
        matrix = self._matrix
        return [pick(matrix[:, slot].tolist()) for slot in slots.tolist()]

    def take(self, tasks: int, **columns: int) -> int:
        """Takes a stretch of slots, sets columns over all of it, and returns its base."""
        start = self._gaps.take(tasks)
        self._grow()
        end, matrix = start + tasks, self._matrix
        matrix[0, start:end] = start + 1
        for column, value in columns.items():
            if value:  # slots that were taken are 0
                matrix[self._index[column], start:end] = value
        self._mark_blocks(range(start // BLOCK, (end - 1) // BLOCK + 1))
        return start

    def resize(self, base: int, tasks: int, size: int) -> int:
        """Gives the stretch of a job with `tasks` in use so many as are wanted; returns its base, another one where it
        moved. Columns of tasks that are new, or were there, are 0.
        """
        capacity = self.capacity(base, tasks)
        if size > capacity and not self._gaps.extend_range(base + capacity, size - capacity):
            return self._move(base, tasks, max(size, room_to_grow(capacity)))
        if size > capacity:
            self._grow()
            self.fill("owner", base + capacity, size - capacity, base + 1)
        elif size < tasks:
            self._matrix[1:, base + size : base + tasks] = 0
            self._mark(np.arange(base + size, base + tasks))
            if self.has_rare:
                self._settle(_range(base + size, tasks - size))
            new_capacity = slots_kept(size, capacity)
            self._free(base + new_capacity, capacity - new_capacity)
        return base

    def capacity(self, base: int, tasks: int) -> int:
        """The number of slots of a job of which `tasks` are in use."""
        owner, step = self._matrix[0], 1
        end = base + max(1, tasks)
        while step:  # longer steps while they stay within the stretch, then shorter ones, to its end
            if end + step <= len(owner) and owner[end + step - 1] == base + 1:
                end, step = end + step, 2 * step
            else:
                step //= 2
        return end - base

    def give_back(self, base: int, tasks: int) -> None:
        """Frees the stretch of a job with `tasks` in use; its columns are 0 again."""
        assert self._matrix[0, base] == base + 1, "a stretch that nobody owns was given back"
        self._free(base, self.capacity(base, tasks))

    def fill(self, column: str, start: int, count: int, value: int) -> None:
        """Sets a column over a stretch."""
        assert self._index[column] < self._common, column
        self._matrix[self._index[column], start : start + count] = value
        self._mark_blocks(range(start // BLOCK, (start + count - 1) // BLOCK + 1))

    def set(self, column: str, slots: Slots, values: Slots | int) -> None:
        """Sets a column at slots; the last of equal slots wins."""
        self._matrix[self._index[column]][slots] = values
        if self._index[column] < self._common:
            self._mark(slots)
        elif len(slots):
            self._settle(_blocks(slots))

    def put(self, slots: Slots, **columns: Slots | int) -> None:
        """Sets several columns at slots, as `set`; rare ones or others."""
        last = -1
        for column, values in columns.items():
            last = self._index[column]
            self._matrix[last][slots] = values
        if last < self._common:
            self._mark(slots)
        elif len(slots):
            self._settle(_blocks(slots))

    def restored(self) -> None:
        """Puts the loaded rows together."""
        blocks = max(self.table, default=-1) + 1
        matrix = np.zeros((self._width, max(1, blocks) * BLOCK), dtype=np.int32)
        for number, row in self.table.items():
            matrix[: self._common, number * BLOCK : (number + 1) * BLOCK] = row
        for number, row in self.rare.items():
            matrix[self._common :, number * BLOCK : (number + 1) * BLOCK] = row
        self._matrix = matrix
        self._point()
        self.has_rare = len(self.rare) > 0
        owned = np.flatnonzero(self["owner"])
        end = int(owned[-1]) + 1 if len(owned) else 0
        self._gaps = FreeSlots(end, _gaps(self["owner"], end))

    def _unpack(self, row: bytes) -> I32:
        return np.frombuffer(row, dtype="<i4").reshape(self._common, BLOCK).copy()

    def _unpack_rare(self, row: bytes) -> I32:
        return np.frombuffer(row, dtype="<i4").reshape(self._width - self._common, BLOCK).copy()

    def _move(self, base: int, tasks: int, capacity: int) -> int:
        start = self.take(capacity)
        self._matrix[1:, start : start + tasks] = self._matrix[1:, base : base + tasks]
        if self.has_rare:
            self._settle(_range(start, tasks))
        self.give_back(base, tasks)
        return start

    def _free(self, start: int, size: int) -> None:
        if size:
            self._matrix[:, start : start + size] = 0
            self._mark_blocks(range(start // BLOCK, (start + size - 1) // BLOCK + 1))
            if self.has_rare:
                self._settle(_range(start, size))
            self._gaps.give_back(start, size)

    def _grow(self) -> None:
        have = self._matrix.shape[1]
        if self._gaps.end <= have:
            return
        matrix = np.zeros((self._width, max(2 * have, -(-self._gaps.end // BLOCK) * BLOCK)), dtype=np.int32)
        matrix[:, :have] = self._matrix
        self._matrix = matrix
        self._point()

    def _point(self) -> None:
        """Lets the rows be views of the columns again."""
        for number in self.table:
            self.table.replace(number, self._view(number))
        for number in self.rare:
            self.rare.replace(number, self._rare_view(number))

    def _view(self, number: int) -> I32:
        return self._matrix[: self._common, number * BLOCK : (number + 1) * BLOCK]

    def _rare_view(self, number: int) -> I32:
        return self._matrix[self._common :, number * BLOCK : (number + 1) * BLOCK]

    def _settle(self, numbers: Iterable[int]) -> None:
        """Rare columns of rows have changed: there is a row where one of them isn't 0."""
        rare = self.rare
        for number in numbers:
            if self._rare_view(number).any():
                if number in rare:
                    rare.change(number)
                else:
                    rare.put(number, self._rare_view(number))
            elif number in rare:
                rare.remove(number)
        self.has_rare = len(rare) > 0

    def _mark(self, slots: Slots) -> None:
        if not len(slots):
            return
        ends = slots.tolist() if len(slots) <= FEW else (int(slots.min()), int(slots.max()))
        first, last = min(ends) // BLOCK, max(ends) // BLOCK
        self._mark_blocks((first,) if first == last else _blocks(slots))

    def _mark_blocks(self, numbers: Iterable[int]) -> None:
        table = self.table
        for number in numbers:
            if number in table:
                table.change(number)
            else:
                table.put(number, self._view(number))


def _range(start: int, count: int) -> range:
    """The rows of a stretch of slots."""
    return range(start // BLOCK, (start + count - 1) // BLOCK + 1)


def _blocks(slots: Slots) -> list[int]:
    """The rows of slots; most often these ascend, then nothing is sorted."""
    numbers = slots // BLOCK
    ascends = bool((numbers[1:] >= numbers[:-1]).all())
    blocks: list[int] = (once(numbers) if ascends else distinct(numbers)).tolist()
    return blocks


class HasStretch(Protocol):
    """The row of a job that has slots in an arena."""

    @property
    def base(self) -> int:
        """The first of them stands here."""
        ...

    @property
    def instances(self) -> int:
        """So many of them are in use."""
        ...


def _stretches(job_ids: Sequence[str], jobs: Mapping[str, HasStretch]) -> list[tuple[int, int]]:
    """Base and size of each job, none where it is unknown."""
    return [(row.base, row.instances) if row is not None else (0, 0) for row in map(jobs.get, job_ids)]


def locate(event: ItemsEvent, jobs: Mapping[str, HasStretch]) -> tuple[I64, NDArray[np.bool_]]:
    """The slots of the tasks that a record names, and which of them there are.

    Nothing is found in columns that don't fit together: a record from outside may hold anything.
    """
    stretches = _stretches(event.job_ids, jobs)
    which, instances = event.job_array, event.instance_array
    if len(which) != len(instances) or not stretches:
        return np.zeros(len(instances), dtype=np.int64), np.zeros(len(instances), dtype=np.bool_)
    if len(stretches) == 1:
        base, size = stretches[0]
        slots = instances.astype(np.int64) + base
        return slots, (which == 0) & (instances >= 0) & (instances < size)
    bases = np.array([base for base, _ in stretches], dtype=np.int64)
    sizes = np.array([size for _, size in stretches], dtype=np.int64)
    is_valid = (which >= 0) & (which < len(stretches))
    index = np.where(is_valid, which, 0)
    return bases[index] + instances, is_valid & (instances >= 0) & (instances < sizes[index])


def locate_ranges(event: RangesEvent, jobs: Mapping[str, HasStretch]) -> tuple[I64, I64]:
    """The slots of the ranges of a record, one after another, and for each slot the index of its range.

    Ranges that aren't within a known job are left out.
    """
    job_ids, stretches = event.job_ids, _stretches(event.job_ids, jobs) or [(0, 0)]
    which, first, count = event.job_array, event.first_array, event.count_array
    if len(which) == len(first) == len(count) == 1:  # most often there is one range, which costs little this way
        at, begin, times = (int(column[0]) for column in (which, first, count))
        base, size = stretches[at] if 0 <= at < len(job_ids) else (0, 0)
        times = times if begin >= 0 and 0 < times <= size - begin else 0
        return np.arange(base + begin, base + begin + times), np.zeros(times, dtype=np.int64)
    bases, sizes = np.array(stretches, dtype=np.int64).T
    firsts, counts = first.astype(np.int64), count.astype(np.int64)
    is_valid = (which >= 0) & (which < len(job_ids)) & (firsts >= 0) & (counts > 0)
    which = np.where(is_valid, which, 0)
    within = np.where(is_valid & (firsts + counts <= sizes[which]), counts, 0)
    return spread(bases[which] + firsts, within), np.repeat(np.arange(len(within)), within)


def change_instances(arena: Arena, base: int, tasks: int, event: InstancesChanged) -> int:
    """Gives a job of an arena with a column `ended` the instances of a record; returns its base, another one where it
    moved. All runs of those that are removed are over, and of those that are added the runs of before: what others
    still say of them is void. Whatever removed instances held, the caller has released.
    """
    added, removed, _ = instance_change(event)
    start = arena.resize(base, tasks, event.instances)
    removed_slots = np.append(removed[removed < event.instances], np.arange(tasks, event.instances))
    arena.set("ended", start + removed_slots, REMOVED)
    arena.set("ended", start + added, event.first_run - 1)
    return start


def _gaps(owner: I32, end: int) -> list[tuple[int, int]]:
    """The free stretches below `end` as (start, size)."""
    free = np.concatenate(([0], (owner[:end] == 0).astype(np.int8), [0]))
    edges = np.flatnonzero(np.diff(free))
    return [(int(start), int(stop - start)) for start, stop in edges.reshape(-1, 2)]
