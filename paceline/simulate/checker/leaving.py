"""Checks runs that leave hosts for maintenance: why, in which order, and that they keep their admissions."""

from typing import NamedTuple

from events.codes import Outcome, RunCause, Stage, TaskState
from events.columns import ints
from events.job_ends import is_over
from events.records.base import Event
from events.records.lifecycle import (
    JobAccepted,
    JobChanged,
    JobHeld,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
    UpdateStarted,
)
from events.records.placement import HostMaintenanceChanged, HostRemoved, HostTainted
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.items import Task, places_of, runs_of
from paceline.simulate.checker.stages import DRAINS, Goal, goals_of

KEEPS = (RunCause.DRAIN, RunCause.EVICT)
"""The causes that leave a task its admission, unless it is of a gang."""
LOSES = (RunCause.PREEMPT, RunCause.GANG)
BOUND = ("stateful", "daemon")


class _Live(NamedTuple):
    run: int
    host_id: str


class Leaving:
    """Follows lifecycle."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobAccepted] = {}
        self._changed: set[str] = set()
        """Jobs that were updated or held: their tasks may lose their admissions for it."""
        self._goals: dict[str, Goal] = {}
        self._tainted: set[str] = set()
        """Hosts with a taint that lets runs leave."""
        self._live: dict[Task, _Live] = {}
        """The runs that are ordered and not over."""
        self._on: dict[str, set[Task]] = {}
        """By host."""
        self._ended_now: dict[Task, _Live] = {}
        """The runs that this round has ended: what it lets leave it may have decided before."""

    def round(self, round_: Round) -> None:
        """Takes a round of lifecycle. Raises `Violation`."""
        for _, _, event, _ in round_.inputs:
            match event:
                case HostMaintenanceChanged():
                    self._goals |= goals_of(event)
                case HostTainted():
                    (self._tainted.add if event.evicts else self._tainted.discard)(event.host_id)
                case HostRemoved():
                    self._goals.pop(event.host_id, None)
                    self._tainted.discard(event.host_id)
        self._ended_now.clear()
        for event in round_.decisions:
            self._decided(event, round_)

    def _decided(self, event: Event, round_: Round) -> None:
        match event:
            case JobAccepted():
                self._jobs[event.job_id] = event
                self._changed.discard(event.job_id)
            case JobChanged() if is_over(event):
                self._jobs.pop(event.job_id, None)
            case UpdateStarted() | JobHeld():
                self._changed.add(event.job_id)
            case RunsOrdered():
                for task, run, host_id, _, _ in places_of(event):
                    self._order(task, run, host_id, round_)
            case RunsStopping():
                runs = runs_of(event)
                columns = zip(runs, _column(event.why, len(runs)), _column(event.kill, len(runs)), strict=True)
                for (task, run), why, kill in columns:
                    if not kill and task[0] in self._jobs and self._live.get(task, _Live(0, "")).run == run:
                        self._leave(task, why, round_)
            case RunsEnded():
                self._ended(event, round_)

    def _order(self, task: Task, run: int, host_id: str, round_: Round) -> None:
        stage, job = self._stage(host_id), self._jobs[task[0]]
        never = stage in (Stage.DRAINED, Stage.CHECKING) or (stage in DRAINS and job.kind == "stateless")
        if never:
            raise Violation(f"{round_} orders {task} run {run} on {host_id}, which is {Stage(stage).name}")
        self._live[task] = _Live(run, host_id)
        self._on.setdefault(host_id, set()).add(task)

    def _leave(self, task: Task, why: int, round_: Round) -> None:
        """A run is told to stop."""
        if why not in (RunCause.DRAIN, RunCause.EVICT):
            return
        job, host_id = self._jobs[task[0]], self._live[task].host_id
        there = (self._live.get(each) or self._ended_now.get(each) for each in self._gang_of(task))
        hosts = {each.host_id for each in there if each} | {host_id}
        stages = {self._stage(each) for each in hosts}
        stage = Stage(self._stage(host_id)).name
        what = f"{round_} lets {task} leave {host_id}, which is {stage}, for {RunCause(why).name}"
        if why == RunCause.EVICT:
            if Stage.FORCING not in stages:
                raise Violation(what)
            return
        if self._tainted & hosts:
            return
        if not stages & {*DRAINS}:
            raise Violation(what)
        if job.kind == "batch" and not job.preemptible:
            raise Violation(f"{what}, and it isn't preemptible")
        if job.kind == "batch" and stages & {*DRAINS} == {Stage.DRAINING}:
            raise Violation(f"{what}, and it is a batch task")
        others = [each for each in self._on.get(host_id, ()) if self._kind(each) not in BOUND]
        if job.kind in BOUND and others:
            raise Violation(f"{what}, and {others[:3]} are there, which aren't bound to it")

    def _ended(self, event: RunsEnded, round_: Round) -> None:
        runs = runs_of(event)
        columns = zip(
            runs,
            ints(event.outcome).tolist(),
            _column(event.why, len(runs)),
            ints(event.kept).tolist(),
            _column(event.next, len(runs), TaskState.BACKOFF),
            strict=True,
        )
        for (task, run), outcome, why, keeps, next_ in columns:
            live = self._live.get(task)
            if live is not None and live.run == run:
                self._ended_now[task] = self._live.pop(task)
                self._on[live.host_id].discard(task)
            if keeps and why in LOSES:
                raise Violation(f"{round_} ends {task} run {run} for {why}, and it keeps its admission")
            firm = self._gang_of(task) or task[0] in self._changed or next_ != TaskState.BACKOFF
            if outcome == Outcome.RELOCATED and not firm and why in KEEPS and not keeps:
                raise Violation(
                    f"{round_} ends {task} run {run} for {RunCause(why).name}, and it isn't admitted any more"
                )

    def _gang_of(self, task: Task) -> list[Task]:
        """The tasks of its gang; none where it is a gang of its own."""
        job = self._jobs.get(task[0])
        return [(task[0], each) for each in range(job.gang_min)] if job is not None and task[1] < job.gang_min else []

    def _kind(self, task: Task) -> str:
        return self._jobs[task[0]].kind if task[0] in self._jobs else ""

    def _stage(self, host_id: str) -> int:
        return self._goals.get(host_id, Goal()).stage


def _column(values: bytes, size: int, default: int = 0) -> list[int]:
    """A column that may be empty."""
    return ints(values).tolist() or [int(default)] * size
