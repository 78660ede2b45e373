"""Tasks as entitlement may know them: who waits, who is admitted and how, who has a place, who is to leave."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from events.cell_settings import DEFAULTS
from events.codes import Outcome
from events.columns import ints
from events.job_ends import is_over
from events.records.base import Event
from events.records.entitlement import AdmissionsRanked, GangsAdmitted, PreemptionsOrdered
from events.records.lifecycle import (
    GangsQueued,
    InstancesChanged,
    JobAccepted,
    JobChanged,
    JobPriorityChanged,
    JobSlaChanged,
    PreemptionAnswered,
    RunsAvailable,
    RunsEnded,
)
from events.records.placement import CapacityChanged, GangsParked, GangsReturned, TasksPlaced
from paceline.simulate.checker.alternatives import Alternatives
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.items import (
    Range,
    Task,
    added,
    flags_of,
    places_of,
    ranges_of,
    ranks_of,
    reshaped,
    runs_of,
    tasks_of,
)

HOUR_MS = 3_600_000


class Held(NamedTuple):
    """A run that is admitted. `entitled`: not borrowed; `due_ms`: since when it is entitled without a place;
    `placed_ms`: since when it has one; 0: it isn't, or has none.
    """

    run: int
    entitled: bool
    due_ms: int = 0
    placed_ms: int = 0


class Units:
    """Follows what entitlement takes in and decides of tasks.

    `count` is told what pools hold more (1) or less (-1), and whether that counts for their limits and for their
    reservations: a parked task holds nothing under limits.
    """

    def __init__(self, count: Callable[[Task, int, bool, bool], None]) -> None:
        self.jobs: dict[str, JobAccepted] = {}
        self.priority: dict[str, int] = {}
        self.ended: dict[Task, int] = {}
        self.queued: dict[Task, int] = {}
        self.queued_ms: dict[Task, int] = {}
        self.bound: dict[Task, int] = {}
        """Runs that placement gave back, and said why, since the only host that they may run on doesn't take them."""
        self.gangs: dict[Task, Range] = {}
        self.held: dict[Task, Held] = {}
        self.leaving: dict[Task, PreemptionsOrdered] = {}
        """Tasks that have a place, and the open order by which they are to leave."""
        self.left: dict[Task, int] = {}
        """The last run of each task that was to be preempted."""
        self.displaced_ms: dict[Task, list[int]] = {}
        """When each task was preempted in the last hour."""
        self.slices: Counter[Task] = Counter()
        self.spared_ms: dict[Task, int] = {}
        """Until when a refusal of sla protects a task."""
        self.defer_for_ms = DEFAULTS.defer_for_ms
        self.hold_for_ms = DEFAULTS.hold_for_ms
        self._overdue_ms: dict[Task, int] = {}
        """From when on a task that is to leave isn't counted on any more."""
        self.parking: dict[Task, int] = {}
        """Runs that are to be parked."""
        self.parked: dict[Task, int] = {}
        """Runs that are: entitled, and they hold nothing under limits."""
        self._count = count
        self._alternatives = Alternatives()

    # What is asked

    def need(self, task: Task) -> Mapping[str, int]:
        """The needs of a task, by resource."""
        return self._alternatives.need(self.jobs[task[0]], task)

    def needs(self, tasks: Iterable[Task]) -> Counter[str]:
        """The sum of the needs of tasks."""
        total: Counter[str] = Counter()
        for task in tasks:
            total.update(self.need(task))
        return total

    def unit(self, task: Task) -> tuple[Task, ...]:
        """The tasks that are admitted, placed and preempted with a task, those that are over aside."""
        gang = self.gangs.get(task)
        if gang is None:
            return (task,)
        return tuple(each for each in gang.tasks() if self.ended.get(each, 0) < gang.run)

    def is_leaving(self, task: Task, now: int) -> bool:
        """Whether a task is to leave and isn't overdue."""
        return task in self.leaving and now < self._overdue_ms[task]

    def placed(self, pool: str, now: int) -> Counter[str]:
        """The amounts of the runs of a pool and those below it that have places and aren't leaving, without those of
        daemons.
        """
        return self.needs(
            task
            for task, admission in self.held.items()
            if admission.placed_ms
            and not self.is_leaving(task, now)
            and _within(self.jobs[task[0]].pool, pool)
            and self.jobs[task[0]].kind != "daemon"
        )

    def displaced(self, task: Task, now: int) -> list[int]:
        """When a task was preempted in the hour before a time."""
        return [at for at in self.displaced_ms.get(task, ()) if at + HOUR_MS > now]

    # What is taken in

    def take(self, event: Event, now: int) -> None:
        """Takes an input of entitlement. Raises `Violation`."""
        match event:
            case JobAccepted():
                self.jobs[event.job_id] = event
                self.priority[event.job_id] = event.priority
                self.ended |= dict.fromkeys(tasks_of(event), event.first_run - 1)
            case InstancesChanged():
                self.ended |= dict.fromkeys(added(self.jobs, event), event.first_run - 1)
            case JobPriorityChanged():
                self.priority[event.job_id] = event.priority
            case JobSlaChanged() if event.job_id in self.jobs:
                self.jobs[event.job_id] = replace(
                    self.jobs[event.job_id], max_unavailable=event.max_unavailable, sla=event.sla
                )
            case GangsQueued():
                self._reshape(event)
                for each, keeps_admission in zip(ranges_of(event), ints(event.admitted).tolist(), strict=True):
                    self._queue(each, keeps_admission, now)
            case TasksPlaced():
                for task, run, *_ in places_of(event):
                    self._place(task, run, now)
                self._take_alternatives(event)
            case CapacityChanged():
                self._offered(event)
            case RunsAvailable():
                pass
            case RunsEnded():
                columns = zip(runs_of(event), ints(event.outcome).tolist(), ints(event.kept).tolist(), strict=True)
                for (task, run), outcome, keeps_admission in columns:
                    self._end(task, run, outcome, keeps_admission, now)
                self._alternatives.ended(event)
            case GangsParked():
                for each in ranges_of(event):
                    self._park(each)
            case GangsReturned():
                for each in ranges_of(event):
                    self._return(each, now)
                    self.bound |= {task: each.run for task in each.tasks() if event.bound}
            case PreemptionAnswered():
                self._answered(event, now)
            case JobChanged() if is_over(event):
                self._final(event)

    def _take_alternatives(self, event: TasksPlaced) -> None:
        """Counts the holdings of tasks again that have taken alternatives."""
        again = [task for task in Alternatives.of(event) if task in self.held]
        for task in again:
            self._count(task, -1, True, True)
        self._alternatives.placed(event)
        for task in again:
            self._count(task, 1, True, True)

    def _offered(self, event: CapacityChanged) -> None:
        """Counts the holdings of tasks again that may take any of several requests: hosts could hold others now."""
        again = [task for task in self.held if self._alternatives.are_any(self.jobs[task[0]], task)]
        for task in again:
            self._count(task, -1, task not in self.parked, True)
        self._alternatives.offered(event)
        for task in again:
            self._count(task, 1, task not in self.parked, True)

    def _reshape(self, event: GangsQueued) -> None:
        """Counts the holdings of tasks again whose needs change."""
        jobs = dict(self.jobs)
        changed = reshaped(jobs, event)
        admitted = [task for each in changed for task in each.tasks() if task in self.held]
        for task in admitted:
            self._count(task, -1, task not in self.parked, True)
        self.jobs |= jobs
        for task in admitted:
            self._count(task, 1, task not in self.parked, True)

    def _queue(self, gangs: Range, keeps_admission: int, now: int) -> None:
        for task in gangs.tasks():
            if keeps_admission and task in self.held:
                self.held[task] = self.held[task]._replace(run=gangs.run)
            else:
                self.queued[task] = gangs.run
            self.queued_ms[task] = now
            if gangs.gang and gangs.size > 1:
                self.gangs[task] = gangs
            else:
                self.gangs.pop(task, None)

    def _place(self, task: Task, run: int, now: int) -> None:
        admission = self.held.get(task)
        if admission is not None and admission.run == run and self.ended.get(task, 0) < run:
            if task in self.parked:
                raise Violation(f"{task} run {run} is parked and gets a place")
            self.parking.pop(task, None)
            self.held[task] = admission._replace(placed_ms=now, due_ms=0)

    def _park(self, gangs: Range) -> None:
        for task in gangs.tasks():
            if self.parking.get(task) == gangs.run:
                self.parked[task] = self.parking.pop(task)
                self._count(task, -1, True, False)

    def _end(self, task: Task, run: int, outcome: int, keeps_admission: int, now: int) -> None:
        self.ended[task] = max(run, self.ended.get(task, 0))
        self.queued.pop(task, None)
        order = self.leaving.pop(task, None)
        if order is not None and outcome == Outcome.PREEMPTED:
            self.displaced_ms[task] = [*self.displaced(task, now), now]
            self.slices[task] += _by_slice(order, task)
        admission = self.held.get(task)
        if (
            keeps_admission and admission is not None and admission.run == run
        ):  # before that run is queued: it may be preempted already
            self.held[task] = Held(run + 1, admission.entitled, now if admission.entitled else 0)
        elif not keeps_admission and admission is not None and admission.run <= run:
            self._release(task)

    def _return(self, gangs: Range, now: int) -> None:
        for task in gangs.tasks():
            admission = self.held.get(task)
            if admission is not None and admission.run == gangs.run and self.ended.get(task, 0) < gangs.run:
                self._release(task)
                self.queued[task] = gangs.run

    def _answered(self, event: PreemptionAnswered, now: int) -> None:
        if event.code == "DEFERRED":
            self.spared_ms |= {task: now + self.defer_for_ms for task, _ in runs_of(event)}
        for task in [task for task, order in self.leaving.items() if order.order == event.number]:
            del self.leaving[task]

    def _final(self, event: JobChanged) -> None:
        holds = [task for task in self.held if task[0] == event.job_id]
        if holds:
            raise Violation(f"{event.job_id} is {event.state}, its pool still holds {holds}")
        for task in tasks_of(self.jobs[event.job_id]):
            for by_task in (self.ended, self.queued, self.queued_ms, self.gangs, self.left, self.displaced_ms):
                by_task.pop(task, None)
            self.slices.pop(task, None)
            self.spared_ms.pop(task, None)

    # What is decided

    def admit(self, event: GangsAdmitted, round_: Round) -> set[Task]:
        """Takes an admission; returns the tasks. Raises `Violation`."""
        tasks = set()
        for gangs, entitled in flags_of(event):
            for task in gangs.tasks():
                if self.queued.pop(task, 0) != gangs.run:
                    raise Violation(f"{round_} admits {task} run {gangs.run}, which isn't queued")
                if task in self.held:
                    run = self.held[task].run
                    raise Violation(f"{round_} admits {task} run {gangs.run}, of which run {run} is admitted")
                self.held[task] = Held(gangs.run, entitled, round_.now_ms if entitled else 0)
                self._count(task, 1, True, True)
                tasks.add(task)
        return tasks

    def rank(self, event: AdmissionsRanked, round_: Round) -> None:
        """Takes a change between entitled and borrowed. Raises `Violation`."""
        for gangs, rank in ranks_of(event):
            for task in gangs.tasks():
                admission, entitled = self.held.get(task), rank > 0
                if self.ended.get(task, 0) >= gangs.run:
                    continue
                if admission is None or admission.run != gangs.run:
                    raise Violation(f"{round_} ranks {task} run {gangs.run}, which isn't admitted")
                if admission.placed_ms and not entitled:
                    raise Violation(f"{round_} makes {task} run {gangs.run} borrowed, which has a place")
                self._rank_parked(task, gangs.run, rank)
                due = round_.now_ms if entitled and not admission.placed_ms else 0
                self.held[task] = admission._replace(
                    entitled=entitled, due_ms=admission.due_ms or due if entitled else 0
                )

    def _rank_parked(self, task: Task, run: int, rank: int) -> None:
        if rank == 2:
            self.parking[task] = run
            return
        self.parking.pop(task, None)
        if self.parked.pop(task, None) is not None:
            self._count(task, 1, True, False)

    def order(self, event: PreemptionsOrdered, now: int) -> None:
        """Takes an order: its runs are leaving."""
        for task, run in runs_of(event):
            self.left[task] = run
            self.leaving[task] = event
            self._overdue_ms[task] = now + self.hold_for_ms

    def _release(self, task: Task) -> None:
        del self.held[task]
        self.leaving.pop(task, None)
        self.parking.pop(task, None)
        self._count(task, -1, self.parked.pop(task, None) is None, True)


def _by_slice(order: PreemptionsOrdered, task: Task) -> int:
    return next(
        int(by) for (each, _), by in zip(runs_of(order), ints(order.slice).tolist(), strict=True) if each == task
    )


def _within(pool: str, above: str) -> bool:
    return above == "/" or pool == above or pool.startswith(f"{above}/")
