"""Checks tasks that belong to hosts: those of stateful jobs, and those of daemons."""

from events.instance_changes import instance_change
from events.job_ends import is_over
from events.records.lifecycle import InstancesChanged, JobAccepted, JobChanged, RunsOrdered
from events.records.placement import HostRemoved, TasksPlaced
from paceline.simulate.checker.asked import allows, unmet
from paceline.simulate.checker.history import Round, Violation
from paceline.simulate.checker.hosts import Hosts
from paceline.simulate.checker.items import Task, places_of

SOON_MS = 120_000
"""So long a daemon may lack a task for a host that matches, or have one for a host that doesn't."""


class Bound:
    """Follows lifecycle and placement. `hosts` has taken each round of placement but the present one."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._jobs: dict[str, JobAccepted] = {}
        """Stateful jobs and daemons that aren't over."""
        self._homes: dict[Task, str] = {}
        """The hosts that tasks belong to."""
        self._odd_since: dict[tuple[str, str], int] = {}
        """By daemon and host, since when it has no task for it though it should, or the other way round."""

    def round(self, round_: Round) -> None:
        """Takes a round of lifecycle or placement. Raises `Violation`."""
        for event in round_.decisions:
            match event:
                case JobAccepted() if event.kind in ("stateful", "daemon"):
                    self._jobs[event.job_id] = event
                case JobChanged() if is_over(event):
                    self._jobs.pop(event.job_id, None)
                    self._homes = {task: host for task, host in self._homes.items() if task[0] != event.job_id}
                case InstancesChanged() if event.job_id in self._jobs:
                    self._instances(event, round_)
                case RunsOrdered():
                    for task, _, host_id, _, _ in places_of(event):
                        if task[0] in self._jobs and self._jobs[task[0]].kind == "stateful":
                            self._homes[task] = host_id
                case TasksPlaced():
                    for task, run, host_id, _, _ in places_of(event):
                        self._place(task, run, host_id, round_)
                case HostRemoved():
                    self._homes = {
                        task: host for task, host in self._homes.items() if not self._free(task, host, event)
                    }

    def host_of(self, task: Task) -> str | None:
        """The host that a task belongs to; None: it belongs to none."""
        return self._homes.get(task)

    def at_rest(self, now: int) -> None:
        """Looks at a moment. Raises `Violation` where daemons haven't one task for each host that matches."""
        odd: dict[tuple[str, str], int] = {}
        for job_id, job in self._jobs.items():
            if job.kind != "daemon":
                continue
            there = {host for task, host in self._homes.items() if task[0] == job_id}
            for host_id, host in self._hosts.hosts.items():
                if host.offer is None or host.lost:
                    continue  # as it was
                matches = allows(job.shapes[0], host)
                if not matches and not unmet(job.shapes[0], host, bound=True):
                    continue  # a taint keeps away what is new alone
                if matches != (host_id in there):
                    odd[job_id, host_id] = since = self._odd_since.get((job_id, host_id), now)
                    if now - since > SOON_MS:
                        what = "has no task for" if matches else "has a task for"
                        raise Violation(f"at {now}, daemon {job_id} {what} {host_id} since {now - since} ms")
        self._odd_since = odd

    def _free(self, task: Task, host_id: str, event: HostRemoved) -> bool:
        """Whether a stateful task belongs to no host any more; a task of a daemon is to be removed."""
        return host_id == event.host_id and task[0] in self._jobs and self._jobs[task[0]].kind == "stateful"

    def _instances(self, event: InstancesChanged, round_: Round) -> None:
        change = instance_change(event)
        for instance in change.removed.tolist():
            self._homes.pop((event.job_id, instance), None)
        if self._jobs[event.job_id].kind != "daemon":
            return
        for host_id, instance in zip(event.host_ids, change.added.tolist(), strict=True):
            if host_id in {host for task, host in self._homes.items() if task[0] == event.job_id}:
                raise Violation(f"{round_} gives {event.job_id} a second task for {host_id}")
            self._homes[event.job_id, instance] = host_id

    def _place(self, task: Task, run: int, host_id: str, round_: Round) -> None:
        home = self._homes.get(task)
        if home is not None and home != host_id and home in self._hosts.hosts:
            raise Violation(f"{round_} places {task} run {run} on {host_id}, it belongs to {home}")
