"""Checks at lifecycle's positions: one live run of a task, one outcome of a run, one end of a job."""

from collections.abc import Callable
from hashlib import blake2b

from msgspec.structs import replace

from events.codes import LIVE_REPORTS, RunCause, RunReport
from events.columns import ints
from events.instance_changes import instance_change
from events.records.base import Event
from events.records.entitlement import GangsHeld
from events.records.lifecycle import (
    DisruptionWithdrawn,
    InstancesChanged,
    JobAccepted,
    JobChanged,
    JobHeld,
    JobRejected,
    JobsForgotten,
    JobSlaChanged,
    RunsEnded,
    RunsOrdered,
    RunsStopping,
)
from events.records.placement import GangsReturned, GangsUnplaced, HostLost, HostRemoved, TasksPlaced
from events.records.sla import DisruptionAllowed
from events.records.tasks import HostInventory, RunsReported
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.items import FINAL, Task, added, is_guarded, places_of, runs_of, tasks_of

SUCCEEDED = 1
PREEMPTED = 4
PLANNED = (RunCause.UPDATE, RunCause.DRAIN)
"""Why runs are stopped that an SLA may hold back, beside preemption."""
UNASKED = (1, 2)
"""Outcomes, succeeded and failed, of runs that ended unasked."""
UNMET = (
    "NO_SUCH_POOL",
    "NEVER_FITS",
    "CONSTRAINT_MISMATCH",
    "HOSTS_TAINTED",
    "HOSTS_EXCLUSIVE",
    "OUTSIDE_HOST_POOLS",
    "HOST_POOLS_TOO_SMALL",
    "NO_DEVICES_FIT",
    "NO_HOSTS",
    "HOSTS_IN_MAINTENANCE",
    "BOUND_HOST_IN_MAINTENANCE",
)
"""Reasons for which a job may wait though nothing runs."""
FULL = ("LIMIT_REACHED", "RESERVATION_REACHED")
"""The same, where its pool has no room for it."""


class Runs:
    """Follows what lifecycle takes in and decides."""

    def __init__(self) -> None:
        self.answered: set[str] = set()
        """Jobs that were accepted or rejected."""
        self.ended_unasked = 0
        """Runs that have ended by themselves."""
        self._jobs: dict[str, JobAccepted] = {}
        self._final: dict[str, str] = {}
        self._kept: set[str] = set()
        """Jobs that have ended and may be started."""
        self._held: set[str] = set()
        """Jobs that a user holds."""
        self._by_digest: dict[bytes, str] = {}
        """The jobs of `_final`, by what stands for their ids when they are forgotten."""
        self._highest: dict[str, int] = {}
        """The highest run of each job that is forgotten."""
        self._placed: dict[Task, tuple[int, str, list[int]]] = {}
        self._ordered: set[tuple[Task, int, str]] = set()
        self._live: dict[Task, tuple[int, str]] = {}
        self._ended: dict[Task, int] = {}
        self._tasks: dict[str, int] = {}
        """The number of instances of each job."""
        self._allowed: set[tuple[Task, int]] = set()
        self._held_back: dict[str, str] = {}
        self._unplaced: dict[str, str] = {}
        """The last reason of each waiting job that placement gave, since it last placed a task."""
        self._reported_running: dict[Task, dict[str, int]] = {}
        """By the word of agents: on which hosts runs of a task go on."""
        self._reported_ended: set[tuple[Task, int]] = set()
        """Runs whose end an agent has reported: a report of their start that comes after that is late."""
        self._missing: set[tuple[Task, int]] = set()
        """Runs that went on at a host and are missing from a later inventory of it: a report of their start is late."""
        self._stopping: dict[Task, int] = {}
        """The last run of each task that was told to stop."""
        self._broken_gangs: list[Task] = []
        """Members of gangs whose run ended before its time in the last round."""

    def round(self, round_: Round) -> None:
        """Takes a round of lifecycle. Raises `Violation`."""
        for _, _, event, _ in round_.inputs:
            self._take(event, round_)
        broken, self._broken_gangs = self._broken_gangs, []
        for event in round_.decisions:
            self._decided(event, round_)
        for task in broken:
            self._check_gang_ends(task, round_)

    def take_reasons(self, round_: Round) -> None:
        """Takes the reasons of a round of another machine, which lifecycle may not have taken in yet."""
        for event in round_.decisions:
            match event:
                case GangsHeld():
                    self._held_back |= dict.fromkeys(event.job_ids, event.code)
                case GangsUnplaced():
                    self._unplaced[event.job_id] = event.code
                case GangsReturned():
                    self._unplaced |= dict.fromkeys(event.job_ids, event.code)

    def open_jobs(self) -> list[str]:
        """Accepted jobs without an outcome, those aside that were stopped and may be started."""
        return [job_id for job_id in self._jobs if job_id not in self._final and job_id not in self._kept]

    def live(self) -> bool:
        """Whether anything runs."""
        return bool(self._live)

    def stalled(self, has_room: Callable[[str], bool]) -> None:
        """For a cell in which nothing has run for long. Raises `Violation` where a job waits for what is there; `room`:
        whether its pool has room for a job.
        """
        for job_id in self.open_jobs():
            if job_id in self._held:
                continue
            why = [each[job_id] for each in (self._unplaced, self._held_back) if job_id in each]
            if {*why} & {*UNMET}:
                continue
            full = {*why} & {*FULL}
            if full and not has_room(job_id):
                continue
            there = ", and there is room" if full else ""
            raise Violation(f"nothing runs, and {job_id} waits for {' and '.join(why) or 'nothing'}{there}")

    def settled(self) -> None:
        """For a cell that has nothing left to do. Raises `Violation` where an accepted job has no outcome."""
        if self.open_jobs() or self._live:
            raise Violation(f"the cell is at rest: {self.open_jobs()[:3]} have no outcome, {[*self._live][:3]} run")

    def _take(self, event: Event, round_: Round) -> None:
        match event:
            case TasksPlaced():
                for task, run, host_id, _, ports in places_of(event):
                    self._placed[task] = (run, host_id, ports)
            case DisruptionAllowed():
                self._allowed.update(runs_of(event))
            case RunsReported():
                hosts, states = ints(event.host).tolist(), ints(event.state).tolist()
                for (task, run), host, state in zip(runs_of(event), hosts, states, strict=True):
                    self._reported(task, run, event.host_ids[host], state, round_)
            case HostInventory():
                reported = [*runs_of(event)]
                there = {*reported}
                for task, running in self._reported_running.items():
                    run = running.pop(event.host_id, 0)
                    if run and (task, run) not in there:
                        self._missing.add((task, run))
                for (task, run), state in zip(reported, ints(event.state).tolist(), strict=True):
                    self._reported(task, run, event.host_id, state, round_)
            case HostLost() | HostRemoved():
                for running in self._reported_running.values():
                    running.pop(event.host_id, None)

    def _reported(self, task: Task, run: int, host_id: str, state: int, round_: Round) -> None:
        running = self._reported_running.setdefault(task, {})
        if state not in LIVE_REPORTS:
            self._reported_ended.add((task, run))
        over = self.is_over(task, run)  # and may be stopped by whoever finds it
        if state == RunReport.STOPPED and not over and run > self._stopping.get(task, 0):
            raise Violation(f"{round_} hears that {task} run {run} was stopped, which nobody has told to")
        if state in LIVE_REPORTS:
            if (task, run, host_id) not in self._ordered:
                raise Violation(f"{round_} hears that {task} run {run} goes on at {host_id}, which nobody has ordered")
            if (task, run) in self._reported_ended or (task, run) in self._missing or self.is_over(task, run):
                return  # late, or of a host that was given up and is back
            running[host_id] = run
            if len({*running.values()}) > 1:
                raise Violation(f"{round_} hears that two runs of {task} go on: {running}")
        elif running.get(host_id) == run:
            del running[host_id]

    def _decided(self, event: Event, round_: Round) -> None:
        match event:
            case JobAccepted():
                self._there_again(event, round_)
                if event.job_id in self._jobs:
                    raise Violation(f"{round_} accepts {event.job_id} for the second time")
                if event.first_run <= (highest := self._highest.get(event.job_id, 0)):
                    raise Violation(f"{round_} begins {event.job_id} with {event.first_run} after run {highest}")
                self._jobs[event.job_id] = event
                self._ended |= dict.fromkeys(tasks_of(event), event.first_run - 1)
                self._tasks[event.job_id] = event.instances
                self.answered.add(event.job_id)
            case InstancesChanged():
                self._ended |= dict.fromkeys(more := added(self._jobs, event), event.first_run - 1)
                self._tasks[event.job_id] += len(more) - len(instance_change(event).removed)
            case JobSlaChanged():
                self._jobs[event.job_id] = replace(
                    self._jobs[event.job_id], max_unavailable=event.max_unavailable, sla=event.sla
                )
            case DisruptionWithdrawn():
                self._allowed.difference_update(runs_of(event))
            case JobHeld():
                (self._held.add if event.held else self._held.discard)(event.job_id)
            case JobRejected():
                self.answered.add(event.job_id)
            case RunsOrdered():
                for task, run, host_id, _, ports in places_of(event):
                    self._order(task, run, host_id, ports, round_)
            case RunsStopping():
                runs = runs_of(event)
                whys = ints(event.why).tolist() or [0] * len(runs)
                for (task, run), cause, why in zip(runs, ints(event.cause).tolist(), whys, strict=True):
                    self._stop(task, run, cause == PREEMPTED or why in PLANNED, round_)
            case RunsEnded():
                for (task, run), outcome in zip(runs_of(event), ints(event.outcome).tolist(), strict=True):
                    self._end(task, run, outcome, round_)
            case JobChanged():
                self._changed(event, round_)
            case JobsForgotten():
                digests = [event.digests[at : at + 16] for at in range(0, len(event.digests), 16)]
                self._forget({*event.job_ids, *(self._by_digest.get(each, each.hex()) for each in digests)}, round_)

    def _there_again(self, event: JobAccepted, round_: Round) -> None:
        """A job that has ended and isn't forgotten may be accepted again, with runs above all that it had."""
        if self._final.pop(event.job_id, None) is not None:
            del self._jobs[event.job_id]
            highest = max((run for task, run in self._ended.items() if task[0] == event.job_id), default=0)
            if event.first_run <= highest:
                raise Violation(f"{round_} begins {event.job_id} again with {event.first_run} after run {highest}")

    def _order(self, task: Task, run: int, host_id: str, ports: list[int], round_: Round) -> None:
        if self._placed.get(task) != (run, host_id, ports):
            raise Violation(f"{round_} orders {task} run {run} on {host_id}; placed was {self._placed.get(task)}")
        if task in self._live:
            raise Violation(f"{round_} orders {task} run {run} while run {self._live[task]} is live")
        if self.is_over(task, run):
            raise Violation(f"{round_} orders {task} run {run}, which is over")
        for other in self._gang_of(task):
            if self._live.get(other, (run, ""))[0] != run:
                raise Violation(f"{round_} orders {task} run {run} of a gang of which {self._live[other]} is live")
        self._live[task] = (run, host_id)
        self._ordered.add((task, run, host_id))
        self._unplaced.pop(task[0], None)

    def _stop(self, task: Task, run: int, planned: bool, round_: Round) -> None:
        self._stopping[task] = max(run, self._stopping.get(task, 0))
        if self.is_over(task, run):  # a host came back with what was given up
            return
        if self._live.get(task, (0, ""))[0] != run:
            raise Violation(f"{round_} stops {task} run {run}, which isn't live")
        job = self._jobs[task[0]]
        if planned and is_guarded(job) and (task, run) not in self._allowed:
            raise Violation(f"{round_} disturbs {task} run {run} without a verdict of sla")

    def is_over(self, task: Task, run: int) -> bool:
        """Whether a run is over, as lifecycle has decided."""
        return task[0] in self._final or task[0] not in self._jobs or run <= self._ended.get(task, 0)

    def _end(self, task: Task, run: int, outcome: int, round_: Round) -> None:
        if run <= self._ended.get(task, 0):
            raise Violation(f"{round_} ends {task} run {run} for the second time")
        if outcome in UNASKED and (task, run) not in self._reported_ended:
            raise Violation(f"{round_} ends {task} run {run} by itself, which no host has said")
        self._ended[task] = run
        self.ended_unasked += outcome in UNASKED
        if task in self._live and self._live[task][0] == run:
            del self._live[task]
        if outcome != SUCCEEDED and self._gang_of(task):
            self._broken_gangs.append(task)

    def _gang_of(self, task: Task) -> list[Task]:
        """The tasks of its gang; none where it is a gang of its own."""
        job_id, instance = task
        members = self._jobs[job_id].gang_min
        return [(job_id, each) for each in range(members)] if instance < members else []

    def _check_gang_ends(self, task: Task, round_: Round) -> None:
        """A round after a run of a gang has ended before its time, all its others are over or told to stop."""
        run = self._ended.get(task, 0)
        open_ = task[0] in self._jobs and task[0] not in self._final
        for other in self._gang_of(task) if open_ else ():
            lives = self._live.get(other, (0, ""))[0]
            if 0 < lives <= run and self._stopping.get(other, 0) < lives:
                raise Violation(f"{round_} leaves {other} run {lives} of a gang of which {task} has ended")

    def _changed(self, event: JobChanged, round_: Round) -> None:
        if event.job_id in self._final:
            raise Violation(f"{round_}: {event.job_id} is {event.state} after {self._final[event.job_id]}")
        self._kept.discard(event.job_id)
        if event.state not in FINAL:
            return
        if event.kept:
            self._kept.add(event.job_id)
        else:
            self._final[event.job_id] = event.state
            self._by_digest[blake2b(event.job_id.encode(), digest_size=32).digest()[:16]] = event.job_id
        counted = event.succeeded + event.failed + event.killed
        if counted != (tasks := self._tasks[event.job_id]):
            raise Violation(f"{round_}: {event.job_id} is {event.state} with {counted} of {tasks} outcomes")
        if any(task[0] == event.job_id for task in self._live):
            raise Violation(f"{round_}: {event.job_id} is {event.state} and has live runs")

    def _forget(self, job_ids: set[str], round_: Round) -> None:
        if early := job_ids - self._final.keys():
            raise Violation(f"{round_} forgets {sorted(early)[:3]}, which have no outcome")
        self._held -= job_ids
        for job_id in job_ids:
            self._highest[job_id] = max((run for task, run in self._ended.items() if task[0] == job_id), default=0)
            for take_reasons in (self._jobs, self._final, self._held_back, self._unplaced):
                take_reasons.pop(job_id, None)
        self._reported_ended = {each for each in self._reported_ended if each[0][0] not in job_ids}
        self._missing = {each for each in self._missing if each[0][0] not in job_ids}
        for by_task in (self._placed, self._live, self._ended, self._reported_running, self._stopping):
            for task in [task for task in by_task if task[0] in job_ids]:
                del by_task[task]
