"""Runs that have a place and may be preempted, by pool and in the order in which they would go: the lowest priority
first, batch before services, controllers last, and of these who has run least. So many are found without a look at all.

It is derived and only saves work: what has left or changed since is found out when a stretch is looked at.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sortedcontainers import SortedDict

from events.columns import I64, distinct
from processors.entitlement.queues.parts import CONTROLLER, ROLES, by
from processors.entitlement.queues.queues import Queues
from processors.entitlement.rows import JobRow

SLACK = 1024
"""So many slots of a lane may be out of date before it is cleared up, beside as many as it had the last time."""


class LaneKey(NamedTuple):
    """Runs with an equal one are alike in whether they go first."""

    priority: int
    service: bool
    controller: bool


class Lane:
    """Runs of a pool that are alike in that, by the second since when they have a place, the latest first."""

    __slots__ = ("kept", "runs", "stored")

    def __init__(self) -> None:
        self.runs: SortedDict[int, list[I64]] = SortedDict()
        self.stored = 0
        self.kept = 0


class PlacedRuns:
    """The lanes of all pools."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._pools: dict[str, SortedDict[LaneKey, Lane]] = {}
        self._built = False

    def forget(self) -> None:
        """They are built when they are asked for next; a cell in which nobody asks keeps none."""
        self._pools.clear()
        self._built = False

    def build(self) -> None:
        """Finds all of them, if they aren't known."""
        if not self._built:
            self._built = True
            self.placed(np.flatnonzero(self._queues.arena["placed"]))

    def job_changed(self, job_id: str) -> None:
        """A job has another priority, or other slots."""
        row = self._queues.jobs.get(job_id)
        if row is not None and self._built:
            stretch = self._queues.arena["placed"][row.base : row.base + row.instances]
            self.placed(np.flatnonzero(stretch) + row.base)

    def placed(self, slots: I64) -> None:
        """Runs have a place, or are to be found in another lane."""
        if not self._built:
            return
        for _, row, key, mine in self._queues.split(slots):
            if not row.preemptible:
                continue
            lanes = self._pools.get(row.pool)
            if lanes is None:
                lanes = self._pools[row.pool] = SortedDict()
            name = _lane(row, key)
            lane = lanes.get(name)
            if lane is None:
                lane = lanes[name] = Lane()
            for since, part in by(mine, self._queues.arena["placed_s"][mine].astype(np.int64)):
                lane.runs.setdefault(-since, []).append(part)
            lane.stored += len(mine)
            if lane.stored > 2 * lane.kept + SLACK:
                self._clear_up(row.pool, name, lane)

    def pools(self) -> list[str]:
        """The pools that had such runs."""
        return list(self._pools)

    def lanes(self, pool: str) -> list[LaneKey]:
        """The lanes of a pool, in the order in which their runs go."""
        return list(self._pools.get(pool, ()))

    def stretches(self, pool: str, lane: LaneKey) -> Iterator[tuple[int, I64]]:
        """The runs of a lane that aren't leaving: who has run least first, those of one second together, ascending."""
        runs = self._pools[pool][lane].runs
        for since in list(runs):
            slots = self._current(pool, lane, -since, runs[since])
            if len(slots):
                yield -since, slots[self._queues.arena["leaving"][slots] == 0]

    def _current(self, pool: str, lane: LaneKey, since: int, parts: list[I64]) -> I64:
        """The runs that are in a lane since a second, as the columns are now."""
        arena = self._queues.arena
        slots = distinct(np.concatenate(parts)) if len(parts) > 1 else parts[0]
        slots = slots[slots < len(arena["placed"])]
        slots = slots[(arena["placed"][slots] > 0) & (arena["placed_s"][slots] == since)]
        runs = [
            mine
            for _, row, key, mine in self._queues.split(slots)
            if row.preemptible and row.pool == pool and _lane(row, key) == lane
        ]
        return np.sort(np.concatenate(runs)) if runs else slots[:0]

    def _clear_up(self, pool: str, name: LaneKey, lane: Lane) -> None:
        lane.kept = 0
        for since in list(lane.runs):
            slots = self._current(pool, name, -since, lane.runs[since])
            if len(slots):
                lane.runs[since] = [slots]
                lane.kept += len(slots)
            else:
                del lane.runs[since]
        lane.stored = lane.kept


def _lane(row: JobRow, key: int) -> LaneKey:
    return LaneKey(row.priority, row.service, key % ROLES == CONTROLLER)
