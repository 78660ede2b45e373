"""Admissions: which tasks may be placed, and at which rank they wait for a place (columns in `runs.py`).

Whoever is admitted waits; who has a place, or was returned, waits no more.
"""

from typing import NamedTuple

import numpy as np

from events.bounds import INT_MAX
from events.columns import I32, I64, distinct, indexed
from events.ranks import Rank, ranks_of
from events.records.entitlement import AdmissionsRanked, GangsAdmitted
from events.records.lifecycle import GangsQueued
from events.records.placement import GangsParked, GangsReturned, GangsUnplaced
from events.strategies import PACK
from processors.placement.packing import Mask
from processors.placement.rows import BOUND, GANG, CellRow, JobRow, bound_as
from processors.placement.waits import Waits
from processors.state.arena import Arena, locate_ranges
from processors.state.cell_settings import CellSettings
from processors.state.seconds import Wait, second
from processors.state.table import Table

COMES_BACK = -INT_MAX - 1
"""The bit that is set in the number of an admission whose task comes back: it is below all others."""

Ranges = GangsAdmitted | AdmissionsRanked | GangsQueued | GangsReturned | GangsParked


class NamedRuns(NamedTuple):
    """The runs that ranges name: slots, each with the index of its range, of its job, and its run; and of each range
    its start and kind.
    """

    slots: I64
    range: I64
    job: I32
    run: I32
    starts: I64
    gang: Mask


class Admissions:
    """Keeps up what waits."""

    def __init__(
        self,
        jobs: Table[str, JobRow],
        arena: Arena,
        waits: Waits,
        cell: Table[str, CellRow],
        settings: CellSettings,
    ) -> None:
        self._jobs = jobs
        self._arena = arena
        self._waits = waits
        self._cell = cell
        self._settings = settings

    def patience_over(self, now: int) -> I64:
        """The slots of borrowed work that has waited for a place as long as it may, ascending."""
        return self._waits.calendars[Rank.BORROWED].until(self._patience.since_s(now))

    def next_due_ms(self) -> int | None:
        """When the next patience ends."""
        first = self._waits.calendars[Rank.BORROWED].after()
        return None if first is None else self._patience.over_ms(first)

    @property
    def _patience(self) -> Wait:
        """The time that borrowed work waits for a place."""
        return Wait(self._settings.now.placement_patience_ms)

    def admitted(self, event: GangsAdmitted, now: int) -> None:
        """Gangs may be placed."""
        runs = self._named(event)
        self._wait(event, runs, ranks_of(event)[runs.range], now)
        self._know_strategies(event)

    def _know_strategies(self, event: GangsAdmitted) -> None:
        """Notes the strategies of the pools of jobs."""
        of_job = dict(zip(event.job_array.tolist(), event.strategy_array.tolist(), strict=False))
        for at, job_id in enumerate(event.job_ids):
            row, strategy = self._jobs.get(job_id), of_job.get(at, PACK)
            if row is not None and row.strategy != strategy:
                self._jobs.change(job_id).strategy = strategy

    def queued(self, event: GangsQueued, now: int) -> None:
        """Gangs whose admission was kept may be placed: they are what they were."""
        runs = self._named(event, event.admitted_array == 1)
        ranks = self._arena["rank"][runs.slots]
        self._wait(event, runs, np.where(ranks > 0, ranks, Rank.ENTITLED), now)

    def ranked(self, event: AdmissionsRanked, now: int) -> None:
        """Admitted gangs are entitled from now on, or borrowed, or to be parked where they still wait. Of those that
        were returned it is void.
        """
        runs = self._named(event)
        arena, slots = self._arena, runs.slots
        rank = ranks_of(event)[runs.range]
        good = (arena["rank"][slots] > 0) & (arena["rank"][slots] != rank)
        good &= (rank != Rank.PARKING) | ((arena["waiting"][slots] > 0) & (arena["rank"][slots] == Rank.ENTITLED))
        slots, rank = slots[good], rank[good]
        waiting = distinct(slots[arena["waiting"][slots] > 0])
        self._waits.remove(waiting)
        arena.set("rank", slots, rank)
        arena.set("since", waiting, second(now))
        self._waits.add(waiting)

    def parked(self, event: GangsParked, now: int) -> None:
        """Those that were to be parked are."""
        slots = self._named(event).slots
        slots = distinct(slots[self._arena["rank"][slots] == Rank.PARKING])
        self._waits.remove(slots)
        self._arena.set("rank", slots, Rank.PARKED)
        self._waits.add(slots)

    def unplaced(self, event: GangsUnplaced, now: int) -> None:
        """It was said why a job's tasks wait."""
        row = self._jobs.change(event.job_id)
        slot = row.base + event.instance
        shape = GANG if event.size > 1 else int(self._arena["shape"][slot])
        row.reported[bound_as(event.code) if self._arena["pin"][slot] > 0 else shape] = event.code

    def returned(self, event: GangsReturned, now: int) -> None:
        """Gangs went back to their pools. Once admitted again, it is said again why they wait."""
        slots = distinct(self._named(event).slots)
        self.stop(slots)
        self.withdraw(slots)
        for job_id, part in self._waits.by_job(slots):
            row = self._jobs[job_id]
            shapes = (GANG, *distinct(self._arena["shape"][part]).tolist())
            for over in [over for over in row.reported if over in shapes or over <= BOUND]:
                self._jobs.change(job_id).reported.pop(over)

    def stop(self, slots: I64) -> None:
        """Tasks need no place now, or have one. Those that don't wait may be among them."""
        slots = slots[self._arena["waiting"][slots] > 0]
        if not len(slots):
            return
        for job_id in self._waits.remove(slots):
            if self._jobs[job_id].reported:
                self._jobs.change(job_id).reported = {}
        self._arena.put(slots, waiting=0, since=0)

    def withdraw(self, slots: I64) -> None:
        """Tasks aren't admitted any more, if they were."""
        slots = slots[self._arena["rank"][slots] > 0]
        self._arena.put(slots, rank=0, admission=0)

    def come_back(self, slots: I64, lost: Mask) -> None:
        """Tasks keep their admission, and don't wait yet. Instances of services that were lost with their hosts come
        before all others of their rank, as long as they have no place.
        """
        admission = self._arena["admission"]
        others = slots[~lost & (admission[slots] < 0)]
        if len(others):
            self._arena.set("admission", others, admission[others] & INT_MAX)
        for job_id, part in self._waits.by_job(slots[lost]) if lost.any() else ():
            if self._jobs[job_id].service:
                self._arena.set("admission", part, admission[part] | COMES_BACK)

    def _wait(self, event: GangsAdmitted | GangsQueued, runs: NamedRuns, rank: I32, now: int) -> None:
        arena, slots, run = self._arena, runs.slots, runs.run
        good = (run > arena["ended"][slots]) & (arena["placed"][slots] == 0) & (arena["waiting"][slots] == 0)
        if runs.gang.any():  # a gang of which a run is over is void as a whole: lifecycle ends the others too
            whole = np.logical_and.reduceat(good, runs.starts) | ~runs.gang
            good &= np.repeat(whole, np.diff(np.append(runs.starts, len(slots))))
            self._know_gangs(event, runs)
        waiting = slots[good]
        numbers = self._numbers(event, runs.range[good], waiting)
        arena.put(waiting, admission=numbers, rank=rank[good], waiting=run[good], since=second(now))
        self._waits.add(distinct(waiting))

    def _know_gangs(self, event: GangsAdmitted | GangsQueued, runs: NamedRuns) -> None:
        """Notes the gang of a job: the instances that are admitted together."""
        for start in runs.starts[runs.gang].tolist():
            at = int(runs.range[start])
            if event.count_array[at] < 2:
                continue
            first, count = int(event.first_array[at]), int(event.count_array[at])
            row = self._jobs[event.job_ids[int(runs.job[start])]]
            if (row.gang_first, row.gang) != (first, count):
                row = self._jobs.change(event.job_ids[int(runs.job[start])])
                row.gang_first, row.gang = first, count

    def _numbers(self, event: GangsAdmitted | GangsQueued, ranges: I64, slots: I64) -> I64:
        """The numbers of admissions: one more for each range; a kept admission has the one it had."""
        cell = self._cell.change("cell")
        more = len(event.job_array)
        if cell.admissions > INT_MAX - more:
            self._renumber()
        fresh = cell.admissions + 1 + ranges
        cell.admissions += more
        if isinstance(event, GangsAdmitted):
            return fresh
        had = self._arena["admission"][slots]
        return np.where(had != 0, had, fresh)

    def _renumber(self) -> None:
        """Numbers the admissions again from 1, in their order: the numbers have grown as far as a column goes."""
        slots = np.flatnonzero(self._arena["admission"])
        numbers, index = indexed(self._arena["admission"][slots])
        self._arena.set("admission", slots, index + 1)
        self._cell.change("cell").admissions = len(numbers)
        self._waits.restored()

    def _named(self, event: Ranges, which: Mask | None = None) -> NamedRuns:
        """The runs that the ranges name, as far as they exist; `which`: only those of these ranges."""
        slots, index = locate_ranges(event, self._jobs)
        if which is not None:
            slots, index = slots[which[index]], index[which[index]]
        starts = np.flatnonzero(np.diff(index, prepend=-1))
        return NamedRuns(
            slots, index, event.job_array[index], event.run_array[index], starts, event.gang_array[index[starts]] == 1
        )
