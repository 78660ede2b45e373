"""The engine: requests for places, and the calls of the kernels.

What it holds is derived: it may be built from hosts and tasks at any time, with the same answers.
"""

from collections.abc import Sequence

import numpy as np

from events.columns import I64
from processors.placement.engine.board import Board
from processors.placement.engine.columns import (
    R_AT,
    R_COUNT,
    R_FROM,
    R_PLACED,
    R_SHAPE,
    R_TO,
    R_WHOLE,
    REQUEST,
    UNDO,
    Ruled,
)
from processors.placement.engine.shapes import Request, Shape


class Engine(Board):
    """A board on which tasks are put."""

    def place(self, requests: Sequence[Request]) -> list[I64]:
        """Places requests in their order: for each the hosts of its tasks, or of the first of them that found one."""
        columns = [(self.number(each.shape), each.tasks, each.whole) for each in requests]
        shapes, tasks, whole = np.array(columns, dtype=np.int64).T
        jobs = [request.job for request in requests]
        ends = np.cumsum([len(job) for job in jobs])
        out, counts = self.place_columns(shapes, tasks, whole, np.concatenate(jobs), ends)
        starts = np.cumsum(tasks) - tasks
        return [out[start : start + count] for start, count in zip(starts.tolist(), counts.tolist(), strict=True)]

    def place_columns(
        self,
        shapes: I64,
        counts: I64,
        whole: I64,
        job: I64 | None = None,
        job_ends: I64 | None = None,
    ) -> tuple[I64, I64]:
        """Places requests given as columns: numbers of shapes, tasks, and 1 for all or none. Returns hosts, those of a
        request after the tasks of the ones before, and how many it has. `job`: hosts and tasks of the jobs, those of
        each request up to its `job_ends`.
        """
        numbers, index = np.unique(shapes, return_inverse=True)
        slots: list[int] = []
        self._in_use = slots
        for number in numbers.tolist():
            slots.append(self.slot(number))
        self._in_use = ()
        requests = np.zeros((len(shapes), REQUEST), dtype=np.int64)
        requests[:, R_SHAPE] = np.array(slots, dtype=np.int64)[index]
        requests[:, R_COUNT], requests[:, R_WHOLE] = counts, whole
        if job is None or job_ends is None:
            job = np.zeros((0, 2), dtype=np.int64)
        else:
            requests[:, R_TO] = job_ends
            requests[1:, R_FROM] = job_ends[:-1]
        requests[:, R_AT] = np.cumsum(counts) - counts
        tasks = int(counts.sum())
        out = np.zeros(tasks, dtype=np.int64)
        self._room_to_undo(tasks)
        self.kernels.place(self.columns, requests, job, out)
        return out, requests[:, R_PLACED]

    def place_ruled(self, shape: Shape, count: int, rules: Ruled) -> I64:
        """Puts tasks of a job one by one, where its rules allow it, and counts them there: a host for each that has
        one. Those of a shape `over` an attribute are spread over its values.
        """
        slot = self.slot(self.number(shape))
        out = np.zeros(count, dtype=np.int64)
        self._room_to_undo(count)
        return out[: self.kernels.place_ruled(self.columns, slot, count, rules, out)]

    def mark(self) -> int:
        """Where a `rollback` goes back to."""
        return int(self.columns.numbers[UNDO])

    def rollback(self, mark: int = 0) -> None:
        """Takes off what was put since."""
        self._weigh()
        self.kernels.undo(self.columns, mark)

    def _room_to_undo(self, tasks: int) -> None:
        c = self.columns
        need = int(c.numbers[UNDO]) + tasks
        if need > len(c.undo):
            more = np.zeros((max(need, 2 * len(c.undo)) - len(c.undo), 3), dtype=np.int64)
            self.columns = c._replace(undo=np.concatenate([c.undo, more]))
