"""The engine: requests for places, and the calls of the kernels.

What it holds is derived: it may be built from hosts and tasks at any time, with the same answers.
"""

from collections.abc import Sequence

import numpy as np

from events.columns import I64, distinct
from processors.placement.engine.board import Board
from processors.placement.engine.columns import (
    FAR,
    NONE,
    R_AT,
    R_COUNT,
    R_DESIRED,
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
        placed: list[I64] = []
        simple: list[Request] = []
        for request in requests:
            if request.within or request.shape.over:
                placed += self._simple(simple)
                placed.append(self._within(request) if request.within else self._grouped(request))
                simple = []
            else:
                simple.append(request)
        return placed + self._simple(simple)

    def _simple(self, requests: Sequence[Request]) -> list[I64]:
        if not requests:
            return []
        columns = [(self.number(each.shape), each.tasks, each.whole, each.desired) for each in requests]
        shapes, tasks, whole, desired = np.array(columns, dtype=np.int64).T
        jobs = [request.job for request in requests]
        ends = np.cumsum([len(job) for job in jobs])
        out, counts = self.place_columns(shapes, tasks, whole, np.concatenate(jobs), ends, desired)
        starts = np.cumsum(tasks) - tasks
        return [out[start : start + count] for start, count in zip(starts.tolist(), counts.tolist(), strict=True)]

    def place_columns(
        self,
        shapes: I64,
        counts: I64,
        whole: I64,
        job: I64 | None = None,
        job_ends: I64 | None = None,
        desired: I64 | None = None,
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
        requests[:, R_DESIRED] = -1 if desired is None else desired
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

    def _grouped(self, request: Request, only: int = -1) -> I64:
        """Places tasks spread over groups, or in one group only."""
        slot = self.slot(self.number(request.shape))
        c = self.columns
        values = self.attributes.values[request.shape.over]
        groups = np.zeros((5, len(values)), dtype=np.int64)
        groups[1], groups[2] = 1, FAR
        if only >= 0:
            groups[2] = 0
            groups[2, only] = FAR
        else:
            where = c.groups[self._groups[request.shape.over], request.job[:, 0]]
            np.add.at(groups[0], where, request.job[:, 1])
            if request.targets:
                self._targets(request, groups)
        out = np.zeros(request.tasks, dtype=np.int64)
        self._room_to_undo(request.tasks)
        mark = self.mark()
        skew = request.shape.skew if only < 0 else 0
        count = self.kernels.place_grouped(self.columns, slot, request.tasks, skew, groups, request.job, out)
        if request.whole and count < request.tasks:
            self.rollback(mark)
            count = 0
        return out[:count]

    def place_ruled(self, shape: Shape, count: int, rules: Ruled) -> I64:
        """Puts tasks of a job one by one, where its rules allow it, and counts them there: a host for each that has
        one. Those of a shape `over` an attribute are spread over its values.
        """
        slot = self.slot(self.number(shape))
        out = np.zeros(count, dtype=np.int64)
        self._room_to_undo(count)
        return out[: self.kernels.place_ruled(self.columns, slot, count, rules, out)]

    def _targets(self, request: Request, groups: I64) -> None:
        """The share of each group, and how many tasks it may have where targets aren't wishes."""
        values = self.attributes.values[request.shape.over]
        targets = dict(request.targets)
        there: list[int] = distinct(self.columns.groups[self._groups[request.shape.over], : self.hosts]).tolist()
        others = max(1, sum(group > 0 and values[group] not in targets for group in there))
        rest = max(0, 100 - sum(targets.values()))
        for group in range(len(values)):
            value = values[group]
            share = targets[value] * others if value in targets else rest if value is not None else 0
            groups[1, group] = share
            if request.total:
                groups[2, group] = -(-request.total * share // (100 * others))

    def _within(self, request: Request) -> I64:
        """Places all tasks on hosts of one value, the one with the best host first that holds them."""
        shape = request.shape._replace(over=request.within, skew=0)
        slot = self.slot(self.number(shape))
        groups = np.zeros((2, len(self.attributes.values[request.within])), dtype=np.int64)
        level = self.columns.level
        np.add.at(level, request.job[:, 0], request.job[:, 1])
        self.kernels.group_room(self.columns, slot, request.tasks, groups)
        level[request.job[:, 0]] = 0
        order = [group for group in np.argsort(groups[0], kind="stable").tolist() if groups[0, group] != NONE]
        absent = [group for group in order if group == 0]
        for group in [group for group in order if group] + absent:
            if groups[1, group] >= request.tasks:
                hosts = self._grouped(request._replace(shape=shape, whole=True, targets=()), group)
                if len(hosts):
                    return hosts
        return np.zeros(0, dtype=np.int64)

    def take_off(self, shape: Shape, host: int, count: int = 1) -> None:
        """Tasks have left a host."""
        self.kernels.put(self.columns, self.slot(self.number(shape)), host, -count)

    def put(self, shape: Shape, host: int, count: int = 1) -> None:
        """Tasks are on a host, whether or not it is open to them."""
        self.kernels.put(self.columns, self.slot(self.number(shape)), host, count)

    def mark(self) -> int:
        """Where a `rollback` goes back to."""
        return int(self.columns.numbers[UNDO])

    def rollback(self, mark: int = 0) -> None:
        """Takes off what was put since."""
        self._weigh()
        self.kernels.undo(self.columns, mark)

    def reasons(self, request: Request) -> I64:
        """The first reason why each host isn't open to a task of a request (`columns.OPEN` and what follows)."""
        slot = self.slot(self.number(request.shape))
        out = np.zeros(self.hosts, dtype=np.int64)
        level = self.columns.level
        np.add.at(level, request.job[:, 0], request.job[:, 1])
        self.kernels.reasons(self.columns, slot, self.hosts, out)
        level[request.job[:, 0]] = 0
        return out

    def _room_to_undo(self, tasks: int) -> None:
        c = self.columns
        need = int(c.numbers[UNDO]) + tasks
        if need > len(c.undo):
            more = np.zeros((max(need, 2 * len(c.undo)) - len(c.undo), 3), dtype=np.int64)
            self.columns = c._replace(undo=np.concatenate([c.undo, more]))
