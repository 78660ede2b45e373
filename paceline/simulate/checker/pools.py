"""What must hold at entitlement's positions: limits, reservations, whose runs may be asked to leave, shares."""

from collections import Counter
from functools import reduce
from operator import or_

from events.columns import ints, longs
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, GangsAdmitted, PoolAnswered, PreemptionsOrdered
from events.records.lifecycle import GangsQueued, JobAccepted, JobChanged, RunsEnded
from events.records.placement import GangsReturned
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from events.task_shapes import shape_of
from paceline.simulate.checker.history import History, Round, Violation
from paceline.simulate.checker.items import FINAL, Range, Task, gangs_of, ranges_of, runs_of, tasks_of


class Pools:
    """Follows what entitlement takes in and decides."""

    def __init__(self, history: History, cell: int) -> None:
        self._history = history
        self._cell = cell
        self._pools: dict[str, PoolDefined] = {}
        self._jobs: dict[str, JobAccepted] = {}
        self._ended: dict[Task, int] = {}
        self._queued: dict[Task, int] = {}
        self._gangs: dict[Task, Range] = {}
        self._held: dict[Task, int] = {}
        self._preempted: dict[Task, int] = {}
        """The last run of each task that was asked to leave."""
        self._allocated: dict[str, dict[str, int]] = {}
        self._non_preemptible: dict[str, dict[str, int]] = {}
        """What pools hold, with what is below them: all of it, and what isn't preemptible."""
        self._licences: dict[str, int] = {}
        """What the whole cell has of each."""
        self._may_use: dict[str, dict[str, int]] = {}
        self._grown: set[tuple[str, str]] = set()
        self._non_preemptible_grown: set[tuple[str, str]] = set()
        """Pools, and the resources of which they hold more since the last round."""

    def round(self, round_: Round) -> None:
        """Takes a round of entitlement. Raises `Violation`."""
        for _, _, event in round_.inputs:
            self._take(event)
        self._grown, self._non_preemptible_grown = set(), set()
        admitted: set[Task] = set()
        asked: set[Task] = set()
        for event in round_.decisions:
            match event:
                case PoolAnswered():
                    self._answered(event)
                case GangsAdmitted():
                    for each in ranges_of(event):
                        admitted |= self._admit(each, round_)
                case PreemptionsOrdered():
                    asked |= self._preempt(event, round_)
                case EntitlementsSet():
                    self._shares(event)
        for gang in gangs_of(admitted, self._gangs):
            if missing := [
                task for task in gang.tasks() if task not in admitted and self._ended.get(task, 0) < gang.run
            ]:
                raise Violation(f"{round_} admits a part of a gang: {gang}, not {missing[:3]}")
        for gang in gangs_of(asked, self._gangs):
            if stays := [task for task in gang.tasks() if self._preempted.get(task, 0) < self._held.get(task, 0)]:
                raise Violation(f"{round_} preempts a part of a gang: {gang}, not {stays[:3]}")
        self._check_limits(round_)

    def has_room(self, job_id: str) -> bool:
        """Whether a gang of a job, the largest that it may have, fits into what its pool and those above may hold."""
        job = self._jobs[job_id]
        for path in _upwards(job.pool):
            pool = self._pools.get(path)
            if pool is None:
                continue
            held, non_preemptible = self._allocated.get(path, {}), self._non_preemptible.get(path, {})
            for name, asked in _largest(job).items():
                if name in pool.limit and pool.limit[name] < held.get(name, 0) + asked:
                    return False
                if not job.preemptible and pool.reservation.get(name, 0) < non_preemptible.get(name, 0) + asked:
                    return False
        return True

    def _take(self, event: Event) -> None:
        match event:
            case JobAccepted():
                self._jobs[event.job_id] = event
                self._ended |= dict.fromkeys(tasks_of(event), event.first_run - 1)
            case GangsQueued():
                kept = ints(event.admitted).tolist()
                for each, flag in zip(ranges_of(event), kept, strict=True):
                    self._queue(each, flag)
            case RunsEnded():
                keeps = ints(event.kept).tolist()
                for (task, run), keep in zip(runs_of(event), keeps, strict=True):
                    self._ended[task] = max(run, self._ended.get(task, 0))
                    self._queued.pop(task, None)
                    if keep and self._held.get(task) == run:
                        self._held[task] = run + 1  # before that run is queued: it may be asked to leave already
                    elif not keep and self._held.get(task, run + 1) <= run:
                        self._release(task)
            case GangsReturned():
                for each in ranges_of(event):
                    for task in each.tasks():
                        if self._held.get(task) == each.run and self._ended.get(task, 0) < each.run:
                            self._release(task)
                            self._queued[task] = each.run
            case JobChanged() if event.state in FINAL:
                holds = [task for task in self._held if task[0] == event.job_id]
                if holds:
                    raise Violation(f"{event.job_id} is {event.state}, its pool still holds {holds}")
                for task in tasks_of(self._jobs[event.job_id]):
                    for held in (self._ended, self._queued, self._gangs, self._preempted):
                        held.pop(task, None)

    def _queue(self, gangs: Range, kept: bool) -> None:
        for task in gangs.tasks():
            if kept and task in self._held:
                self._held[task] = gangs.run
            else:
                self._queued[task] = gangs.run
            if gangs.gang:
                self._gangs[task] = gangs
            else:
                self._gangs.pop(task, None)

    def _admit(self, gangs: Range, round_: Round) -> set[Task]:
        for task in gangs.tasks():
            if self._queued.pop(task, 0) != gangs.run:
                raise Violation(f"{round_} admits {task} run {gangs.run}, which isn't queued")
            if task in self._held:
                raise Violation(f"{round_} admits {task} run {gangs.run}, of which run {self._held[task]} is admitted")
            self._held[task] = gangs.run
            self._count(task, 1)
        return set(gangs.tasks())

    def _release(self, task: Task) -> None:
        del self._held[task]
        self._count(task, -1)

    def _count(self, task: Task, sign: int) -> None:
        job = self._jobs[task[0]]
        for path in _upwards(job.pool):
            held = ((self._allocated, self._grown), (self._non_preemptible, self._non_preemptible_grown))
            for counted, grown in held[:1] if job.preemptible else held:
                amounts = counted.setdefault(path, {})
                for name, need in shape_of(job, task[1]).resources.items():
                    amounts[name] = amounts.get(name, 0) + sign * need
                    if amounts[name] < 0:
                        raise Violation(f"pool {path} gave back more {name} than it held, with {task}")
                    if sign > 0 < need:
                        grown.add((path, name))

    def _answered(self, event: PoolAnswered) -> None:
        fact = self._history.fact("paceline.pools", event.pools_offset)
        if event.code == "DONE" and isinstance(fact, PoolDefined) and fact.cell == self._cell:
            self._pools[fact.path] = fact
        elif event.code == "DONE" and isinstance(fact, CellConfigured):
            self._licences |= {kind.name: kind.amount for kind in fact.resources if kind.amount is not None}
        elif event.code == "DONE" and isinstance(fact, PoolRemoved):
            self._pools.pop(fact.path, None)
            self._may_use.pop(fact.path, None)

    def _preempt(self, event: PreemptionsOrdered, round_: Round) -> set[Task]:
        runs = dict(runs_of(event))
        pools = [event.from_pools[at] for at in ints(event.from_pool).tolist()]
        for (task, run), from_pool in zip(runs.items(), pools, strict=True):
            job = self._jobs[task[0]]
            if not job.preemptible:
                raise Violation(f"{round_} preempts {task} run {run}, which isn't preemptible")
            if self._held.get(task) != run:
                raise Violation(f"{round_} preempts {task} run {run}, which holds nothing")
            if from_pool != job.pool:
                raise Violation(f"{round_} preempts {task} of {job.pool} from {from_pool} for {event.for_pool}")
        self._preempted |= runs
        return {*runs}

    def _shares(self, event: EntitlementsSet) -> None:
        rows = longs(event.entitlement).reshape(len(event.pools), len(event.resources)).tolist()
        named = [dict(zip(event.resources, row, strict=True)) for row in rows]
        self._may_use.update(zip(event.pools, named, strict=True))

    def _check_limits(self, round_: Round) -> None:
        for path, name in sorted(self._grown):
            pool = self._pools.get(path)
            if pool is None:
                continue
            limit, reservation = pool.limit.get(name), pool.reservation.get(name, 0)
            if limit is not None and limit < self._allocated[path][name]:
                raise Violation(
                    f"{round_}: pool {path} holds {self._allocated[path][name]} {name}, its limit is {limit}"
                )
            non_preemptible = self._non_preemptible.get(path, {}).get(name, 0)
            if non_preemptible > reservation and (path, name) in self._non_preemptible_grown:
                raise Violation(
                    f"{round_}: {non_preemptible} {name} of {path} aren't preemptible, it reserves {reservation}"
                )
        for name in sorted({name for _, name in self._grown} & self._licences.keys()):
            held = sum(amounts.get(name, 0) for path, amounts in self._allocated.items() if _parent(path) == "/")
            if held > self._licences[name]:
                raise Violation(f"{round_}: {held} of {name} are held, the cell has {self._licences[name]}")
        for path, has in self._may_use.items():
            below = [amount for child, amount in self._may_use.items() if _parent(child) == path]
            for name in dict.fromkeys(name for each in below for name in each):
                if sum(each.get(name, 0) for each in below) > has.get(name, 0):
                    raise Violation(
                        f"{round_}: the pools in {path} may use more {name} than it may: {has.get(name, 0)}"
                    )


def _largest(job: JobAccepted) -> Counter[str]:
    """What the gang of a job asks, or the largest of its other tasks."""
    gang: Counter[str] = Counter()
    for instance in range(job.gang_min):
        gang.update(shape_of(job, instance).resources)
    return reduce(or_, (Counter(shape.resources) for shape in job.shapes), gang)


def _upwards(path: str) -> list[str]:
    parts = path.split("/")[1:]
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or ("/" if path != "/" else "")
