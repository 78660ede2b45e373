"""Columns over the tasks of all jobs: the slot of a task is the base of its job plus its instance.

So one numpy operation serves tasks of many jobs, and no object stands for a task.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from events.free_slots import Gaps

Column = NDArray[Any]


class Slots:
    """Numpy columns by name, 0 where nothing was set; each job has a stretch of neighbouring slots."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns: dict[str, Column] = {name: np.zeros(1024, dtype=kind) for name, kind in columns.items()}
        self._stretches: dict[str, tuple[int, int]] = {}
        self._gaps = Gaps()

    def __getitem__(self, column: str) -> Column:
        """The whole column; it is replaced when the slots grow, so it isn't kept."""
        return self._columns[column]

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._stretches

    def take(self, job_id: str, tasks: int) -> None:
        """Gives a job its slots: the first free stretch that is large enough."""
        start = self._gaps.take(tasks)
        self._grow()
        self._stretches[job_id] = (start, tasks)

    def widen(self, job_id: str, tasks: int) -> None:
        """Gives a job that has slots more of them, if it has fewer."""
        start, size = self._stretches[job_id]
        if size >= tasks:
            return
        held = {name: column[start : start + size].copy() for name, column in self._columns.items()}
        self.give_back(job_id)
        self.take(job_id, tasks)
        start, _ = self._stretches[job_id]
        for name, column in self._columns.items():
            column[start : start + size] = held[name]

    def give_back(self, job_id: str) -> None:
        """Frees the slots of a job, if it has any; their columns are 0 again."""
        start, tasks = self._stretches.pop(job_id, (0, 0))
        if not tasks:
            return
        for column in self._columns.values():
            column[start : start + tasks] = 0
        self._gaps.give_back(start, tasks)

    def find(self, job_ids: Sequence[str], job: Column, instance: Column) -> tuple[Column, Column]:
        """The slots of tasks given by index into `job_ids` and instance, and which of them there are (bool)."""
        if not len(job_ids):
            return np.zeros(len(job), dtype=np.int64), np.zeros(len(job), dtype=np.bool_)
        stretches = np.array([self._stretches.get(job_id, (0, 0)) for job_id in job_ids], dtype=np.int64)
        known = (instance >= 0) & (instance < stretches[job, 1])
        return np.where(known, stretches[job, 0] + instance, 0), known

    def owners(self) -> tuple[tuple[str, ...], Column, Column]:
        """Job ids in the order of their slots, with first slot and number of slots of each."""
        ordered = sorted(self._stretches.items(), key=lambda item: item[1])
        starts, sizes = np.array([place for _, place in ordered], dtype=np.int64).reshape(-1, 2).T
        return tuple(job_id for job_id, _ in ordered), starts, sizes

    def dump(self) -> dict[str, Any]:
        """All there is, as plain values."""
        columns = {name: column[: self._gaps.end].tobytes() for name, column in self._columns.items()}
        return {"end": self._gaps.end, "stretches": self._stretches, "free": self._gaps.free, "columns": columns}

    def load(self, dumped: Mapping[str, Any]) -> None:
        """Takes what `dump` gave."""
        self._stretches = {job_id: (start, tasks) for job_id, (start, tasks) in dumped["stretches"].items()}
        self._gaps = Gaps(dumped["end"], ((start, tasks) for start, tasks in dumped["free"]))
        self._grow()
        for name, column in self._columns.items():
            column[: self._gaps.end] = np.frombuffer(dumped["columns"][name], dtype=column.dtype)

    def _grow(self) -> None:
        for name, column in self._columns.items():
            if self._gaps.end > len(column):
                grown = np.zeros(max(self._gaps.end, 2 * len(column)), dtype=column.dtype)
                grown[: len(column)] = column
                self._columns[name] = grown
