"""Checks the holdings of pools at entitlement's positions: limits, reservations, whole gangs, shares."""

from collections import Counter
from collections.abc import Mapping
from functools import reduce
from operator import or_

from events.cell_settings import DEFAULTS, change_of, changed
from events.columns import longs
from events.fairness.certificate import SharedPool, faults
from events.records.entitlement import (
    AdmissionsRanked,
    EntitlementsSet,
    GangsAdmitted,
    PoolAnswered,
    TurnSet,
)
from events.records.lifecycle import JobAccepted
from events.records.placement import CapacityChanged
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved, RebalanceRequested
from events.task_shapes import shape_of
from paceline.simulate.checker.history import History, Round, Violation
from paceline.simulate.checker.items import Task, gangs_of, upwards
from paceline.simulate.checker.units import Units

REBALANCE_FOR_MS = 60_000
"""So long others are moved for a job once an operator has asked for it."""


class Pools:
    """Follows what entitlement takes in and decides."""

    def __init__(self, history: History, cell: int) -> None:
        self.units = Units(self._count)
        self.settings = DEFAULTS
        self.defined: dict[str, PoolDefined] = {}
        self.may_use: dict[str, dict[str, int]] = {}
        """Their entitlements, as they were last said."""
        self.turns: dict[str, TurnSet] = {}
        """The turns that go on, by pool."""
        self.allocated: dict[str, dict[str, int]] = {}
        self.licences: dict[str, int] = {}
        """The amount of each in the whole cell."""
        self._wanted: dict[str, dict[str, int]] = {}
        """The demand of pools, as last published."""
        self.capacity: Mapping[str, int] = {}
        """The amounts that hosts offer together, by resource."""
        self._history = history
        self._cell = cell
        self._non_preemptible: dict[str, dict[str, int]] = {}
        """The holdings of pools with those below them, of work that isn't preemptible."""
        self._grown: set[tuple[str, str]] = set()
        self._room_asked: dict[str, tuple[int, RebalanceRequested]] = {}
        """The jobs for which others are moved at once, when that was decided, and what was asked."""
        self._moved: dict[str, int] = {}
        """The tasks that were moved for each since."""
        self._moved_by_setting: list[tuple[int, int]] = []
        """When how many were moved that nobody asked for."""
        self._non_preemptible_grown: set[tuple[str, str]] = set()
        """Pools, and the resources of which they hold more since the last round."""

    def round(self, round_: Round) -> None:
        """Takes a round of entitlement. Raises `Violation`."""
        for _, _, event, now in round_.inputs:
            self.units.take(event, now)
            if isinstance(event, CapacityChanged):
                self.capacity = event.capacity
        self._grown, self._non_preemptible_grown = set(), set()
        admitted: set[Task] = set()
        for event in round_.decisions:
            match event:
                case PoolAnswered():
                    self._answered(event, round_)
                case GangsAdmitted():
                    admitted |= self.units.admit(event, round_)
                case AdmissionsRanked():
                    self.units.rank(event, round_)
                case EntitlementsSet():
                    self._shares(event, round_)
                case TurnSet() if event.state == "STARTED":
                    self.turns[event.pool] = event
                case TurnSet():
                    self.turns.pop(event.pool, None)
        self._check_gangs(admitted, round_)
        self._check_closed(admitted, round_)
        self._check_limits(round_)

    def is_rebalanced(self, job_id: str, now_ms: int) -> bool:
        """Whether others are moved for a job at once, as an operator has asked."""
        return job_id in self._room_asked and now_ms - self._room_asked[job_id][0] <= REBALANCE_FOR_MS

    def move(self, job_id: str, moves: int, now_ms: int) -> str:
        """Takes the moves for a job for which room was asked; returns why they are too many, else nothing."""
        if not self.is_rebalanced(job_id, now_ms):
            return "nobody has asked for room"
        fact = self._room_asked[job_id][1]
        self._moved[job_id] = self._moved.get(job_id, 0) + moves
        if 0 < fact.max_moves < self._moved[job_id]:
            return f"{self._moved[job_id]} tasks are moved, at most {fact.max_moves} may be"
        if fact.by_setting:
            self._moved_by_setting.append((now_ms, moves))
            lately = sum(count for at_ms, count in self._moved_by_setting if now_ms - at_ms < 3_600_000)
            if lately > self.settings.rebalance_moves_per_hour:
                return (
                    f"{lately} tasks were moved in this hour, the setting is {self.settings.rebalance_moves_per_hour}"
                )
        return ""

    def has_room(self, job_id: str) -> bool:
        """Whether a gang of a job, the largest that it may have, fits into what its pool and those above may hold."""
        job = self.units.jobs[job_id]
        largest = _largest(job)
        if not self.is_firm(job):
            return self.within_limits(job, largest)
        return self.within_limits(job, largest) and all(
            non_preemptible.get(name, 0) + need <= self.defined[path].reservation.get(name, 0)
            for path, non_preemptible in ((path, self._non_preemptible.get(path, {})) for path in upwards(job.pool))
            for name, need in largest.items()
            if path in self.defined
        )

    def within_limits(self, job: JobAccepted, amounts: Mapping[str, int]) -> bool:
        """Whether so much more of a job fits into the limits of its pool and those above."""
        return all(
            self.allocated.get(path, {}).get(name, 0) + need <= self.defined[path].limit[name]
            for path in upwards(job.pool)
            if path in self.defined
            for name, need in amounts.items()
            if name in self.defined[path].limit
        )

    def is_closed(self, path: str) -> bool:
        """Whether a pool, or one above it, admits nothing."""
        return any(each in self.defined and self.defined[each].closed for each in upwards(path))

    def _shared(self) -> dict[str, int]:
        """The amounts that pools share: the capacity of the cell without what daemons hold."""
        daemons = self.units.needs(task for task in self.units.held if self.units.jobs[task[0]].kind == "daemon")
        return {name: max(0, amount - daemons[name]) for name, amount in self.capacity.items()}

    @staticmethod
    def is_firm(job: JobAccepted) -> bool:
        """Whether a job stays within the reservation of its pool."""
        return not job.preemptible and job.kind != "daemon"

    def _count(self, task: Task, sign: int, limits: bool, reservations: bool) -> None:
        job = self.units.jobs[task[0]]
        totals = [(self.allocated, self._grown)] if limits else []
        if reservations and self.is_firm(job):
            totals.append((self._non_preemptible, self._non_preemptible_grown))
        for path in upwards(job.pool):
            for counted, grown in totals:
                amounts = counted.setdefault(path, {})
                for name, need in self.units.need(task).items():
                    amounts[name] = amounts.get(name, 0) + sign * need
                    if amounts[name] < 0:
                        raise Violation(f"pool {path} gave back more {name} than it held, with {task}")
                    if sign > 0 < need:
                        grown.add((path, name))

    def _answered(self, event: PoolAnswered, round_: Round) -> None:
        fact = self._history.fact("paceline.pools", event.pools_offset)
        if event.code == "DONE" and isinstance(fact, PoolDefined) and fact.cell == self._cell:
            self.defined[fact.path] = fact
        elif event.code == "DONE" and isinstance(fact, CellConfigured):
            self.settings = changed(self.settings, change_of(fact))
            self.units.defer_for_ms = self.settings.defer_for_ms
            self.units.hold_for_ms = self.settings.hold_for_ms
            self.licences |= {kind.name: kind.amount for kind in fact.resources if kind.amount is not None}
        elif event.code == "DONE" and isinstance(fact, RebalanceRequested):
            self._room_asked[fact.job_id] = round_.now_ms, fact
            self._moved.pop(fact.job_id, None)
        elif event.code == "DONE" and isinstance(fact, PoolRemoved):
            for by_pool in (self.defined, self.may_use, self._wanted, self.turns):
                by_pool.pop(fact.path, None)

    def _shares(self, event: EntitlementsSet, round_: Round) -> None:
        for column, target in ((event.entitlement, self.may_use), (event.demand, self._wanted)):
            rows = longs(column).reshape(len(event.pools), len(event.resources)).tolist()
            amounts = [dict(zip(event.resources, row, strict=True)) for row in rows]
            target.update(zip(event.pools, amounts, strict=True))
        if event.partial:
            return
        self._check_sums(round_)
        if not self.defined.keys() <= self.may_use.keys():
            return
        leaves = self.defined.keys() - {_parent(path) for path in self.defined}
        pools = {
            path: SharedPool(
                reservation=pool.reservation,
                limit=pool.limit,
                want=self._wanted[path] if path in leaves else {},
                entitlement=self.may_use[path],
                share=pool.share,
                share_default=pool.share_default,
                static=pool.static,
                floor=self.turns[path].floor if path in self.turns else {},
            )
            for path, pool in self.defined.items()
        }
        for fault in faults(pools, self._shared()):
            raise Violation(f"{round_} says entitlements that aren't fair: {fault}")

    def _check_gangs(self, admitted: set[Task], round_: Round) -> None:
        units = self.units
        for gang in gangs_of(admitted, units.gangs):
            missing = [task for task in gang.tasks() if task not in admitted and units.ended.get(task, 0) < gang.run]
            if missing:
                raise Violation(f"{round_} admits a part of a gang: {gang}, not {missing[:3]}")

    def _check_closed(self, admitted: set[Task], round_: Round) -> None:
        for job_id in sorted({task[0] for task in admitted}):
            pool = self.units.jobs[job_id].pool
            if self.is_closed(pool):
                raise Violation(f"{round_} admits {job_id} in {pool}, which is closed")

    def _check_limits(self, round_: Round) -> None:
        for path, name in sorted(self._grown):
            pool = self.defined.get(path)
            if pool is None:
                continue
            limit, reservation = pool.limit.get(name), pool.reservation.get(name, 0)
            if limit is not None and limit < self.allocated[path][name]:
                raise Violation(
                    f"{round_}: pool {path} holds {self.allocated[path][name]} {name}, its limit is {limit}"
                )
            non_preemptible = self._non_preemptible.get(path, {}).get(name, 0)
            if non_preemptible > reservation and (path, name) in self._non_preemptible_grown:
                raise Violation(
                    f"{round_}: {non_preemptible} {name} of {path} aren't preemptible, it reserves {reservation}"
                )
        for name in sorted({name for _, name in self._grown} & self.licences.keys()):
            allocated = sum(amounts.get(name, 0) for path, amounts in self.allocated.items() if _parent(path) == "/")
            if allocated > self.licences[name]:
                raise Violation(f"{round_}: {allocated} of {name} are held, the cell has {self.licences[name]}")

    def _check_sums(self, round_: Round) -> None:
        for path, has in self.may_use.items():
            below = [amount for child, amount in self.may_use.items() if _parent(child) == path]
            for name in dict.fromkeys(name for each in below for name in each):
                if sum(each.get(name, 0) for each in below) > has.get(name, 0):
                    raise Violation(
                        f"{round_}: the pools in {path} may use more {name} than it may: {has.get(name, 0)}"
                    )


def _largest(job: JobAccepted) -> Counter[str]:
    """The needs of the gang of a job, or of the largest of its other tasks."""
    gang: Counter[str] = Counter()
    for instance in range(job.gang_min):
        gang.update(shape_of(job, instance).resources)
    return reduce(or_, (Counter(shape.resources) for shape in job.shapes), gang)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or ("/" if path != "/" else "")
