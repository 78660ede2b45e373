"""Whether what must move from hosts has room elsewhere: it is put on a copy of the view (decision 089)."""

from collections.abc import Callable, Sequence

import numpy as np

from events.columns import indexed
from processors.placement.campaigns.rows import PlanRow
from processors.placement.cluster_view import ClusterView
from processors.placement.hosts import Hosts
from processors.placement.rows import JobRow
from processors.placement.runs import Runs


class RoomElsewhere:
    """One account for all campaigns: hosts that drain come first, whoever drains them."""

    def __init__(self, runs: Runs, hosts: Hosts, view: Callable[[], ClusterView]) -> None:
        self._runs = runs
        self._hosts = hosts
        self._make = view

    def missing(self, draining: Sequence[int], numbers: Sequence[int], moves_batch: bool) -> str:
        """The first job of which a task on `numbers` finds no room, once what still leaves the hosts `draining` has
        some; empty: all have room. `moves_batch`: preemptible batch tasks leave as well.
        """
        view = self._make()
        view.free[:, numbers] = 0
        view.epoch += 1
        self._put(view, draining, False)
        return self._put(view, numbers, moves_batch)

    def _put(self, view: ClusterView, numbers: Sequence[int], moves_batch: bool) -> str:
        """Puts what leaves hosts on the view; returns the first job of which a task finds no room."""
        if not len(numbers):
            return ""
        arena, lacking = self._runs.arena, ""
        there = np.isin(arena["host"], np.array(numbers) + 1) & (arena["placed"] > 0)
        for job_id, slots in self._runs.waits.by_job(np.flatnonzero(there)):
            row = self._runs.jobs[job_id]
            if not _moves(row, moves_batch):
                continue
            shapes, index = indexed(arena["shape"][slots])
            for at, number in enumerate(shapes.tolist()):
                count = int((index == at).sum())
                if self._place(view, number, row, count) < count:
                    lacking = lacking or job_id
        return lacking

    def _place(self, view: ClusterView, number: int, row: JobRow, count: int) -> int:
        shape = view.shape(number, row)
        level = np.zeros(len(view.hosts.ids), dtype=np.int64) if shape.spread else None
        return len(view.each(shape, count, level))


def moves(row: JobRow, plan: PlanRow) -> bool:
    """Whether tasks of a job are started elsewhere when a host is emptied by a plan."""
    return _moves(row, plan.drain.batch == "move")


def _moves(row: JobRow, moves_batch: bool) -> bool:
    """Batch tasks end by themselves unless the plan moves them; those that stay on their hosts come back there."""
    if row.stays:
        return False
    return row.service or (moves_batch and row.preemptible)
