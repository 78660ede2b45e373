"""Columns over the tasks of all jobs: the slot of a task is the base of its job plus its instance.

So one numpy operation serves tasks of many jobs, and no object stands for a task.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from events.arrays.free_slots import FreeSlots, room_to_grow, slots_kept

Column = NDArray[Any]


class Slots:
    """Numpy columns by name, 0 where nothing was set; each job has a stretch of neighbouring slots."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns: dict[str, Column] = {name: np.zeros(1024, dtype=kind) for name, kind in columns.items()}
        self._ranges: dict[str, tuple[int, int, int]] = {}
        """The first slot of each job, its tasks, and its slots, some of which may be spare."""
        self._free_slots = FreeSlots()

    def __getitem__(self, column: str) -> Column:
        """The whole column; it is replaced when the slots grow, so it isn't kept."""
        return self._columns[column]

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._ranges

    def take(self, job_id: str, tasks: int) -> None:
        """Gives a job its slots: the first free stretch that is large enough."""
        self._allocate(job_id, tasks, tasks)

    def size(self, job_id: str) -> int:
        """Counts the tasks of a job; 0 where it isn't known."""
        return self._ranges.get(job_id, (0, 0, 0))[1]

    def slots_of(self, job_id: str) -> Column:
        """The slots of the tasks of a job that has some."""
        start, size, _ = self._ranges[job_id]
        return np.arange(start, start + size)

    def resize(self, job_id: str, tasks: int) -> bool:
        """Gives a job that has slots so many as are wanted; it keeps what its tasks hold. Where the slots behind it are
        taken, it moves, with slots to spare; returns whether it did.
        """
        start, size, capacity = self._ranges[job_id]
        if tasks > capacity and not self._free_slots.extend_range(start + capacity, tasks - capacity):
            old_values = {name: column[start : start + size].copy() for name, column in self._columns.items()}
            self._allocate(job_id, tasks, max(tasks, room_to_grow(capacity)))
            self._free(start, capacity)
            start = self._ranges[job_id][0]
            for name, column in self._columns.items():
                column[start : start + size] = old_values[name]
            return True
        new_capacity = max(tasks, capacity)
        if tasks < size:
            new_capacity = slots_kept(tasks, capacity)
            for column in self._columns.values():
                column[start + tasks : start + size] = 0
            self._free(start + new_capacity, capacity - new_capacity)
        self._grow()
        self._ranges[job_id] = (start, tasks, new_capacity)
        return False

    def give_back(self, job_id: str) -> None:
        """Frees the slots of a job, if it has any; their columns are 0 again."""
        start, _, capacity = self._ranges.pop(job_id, (0, 0, 0))
        self._free(start, capacity)

    def find(self, job_ids: Sequence[str], job: Column, instance: Column) -> tuple[Column, Column]:
        """The slots of tasks given by index into `job_ids` and instance, and which of them there are (bool)."""
        if not len(job_ids):
            return np.zeros(len(job), dtype=np.int64), np.zeros(len(job), dtype=np.bool_)
        stretches = np.array([self._ranges.get(job_id, (0, 0, 0))[:2] for job_id in job_ids], dtype=np.int64)
        exists = (instance >= 0) & (instance < stretches[job, 1])
        return np.where(exists, stretches[job, 0] + instance, 0), exists

    def owners(self) -> tuple[tuple[str, ...], Column, Column]:
        """Job ids in the order of their slots, with first slot and number of tasks of each."""
        ordered = sorted(self._ranges.items(), key=lambda item: item[1])
        starts, sizes = np.array([place[:2] for _, place in ordered], dtype=np.int64).reshape(-1, 2).T
        return tuple(job_id for job_id, _ in ordered), starts, sizes

    def dump(self) -> dict[str, Any]:
        """All there is, as plain values."""
        columns = {name: column[: self._free_slots.end].tobytes() for name, column in self._columns.items()}
        return {
            "end": self._free_slots.end,
            "stretches": self._ranges,
            "free": self._free_slots.free,
            "columns": columns,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes what `dump` gave."""
        self._ranges = {job_id: tuple(place) for job_id, place in state["stretches"].items()}
        self._free_slots = FreeSlots(state["end"], ((start, tasks) for start, tasks in state["free"]))
        self._grow()
        for name, column in self._columns.items():
            column[: self._free_slots.end] = np.frombuffer(state["columns"][name], dtype=column.dtype)

    def _allocate(self, job_id: str, tasks: int, slots: int) -> None:
        start = self._free_slots.take(slots)
        self._grow()
        self._ranges[job_id] = (start, tasks, slots)

    def _free(self, start: int, slots: int) -> None:
        if slots:
            for column in self._columns.values():
                column[start : start + slots] = 0
            self._free_slots.give_back(start, slots)

    def _grow(self) -> None:
        for name, column in self._columns.items():
            if self._free_slots.end > len(column):
                grown = np.zeros(max(self._free_slots.end, 2 * len(column)), dtype=column.dtype)
                grown[: len(column)] = column
                self._columns[name] = grown
