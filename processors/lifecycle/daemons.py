"""Daemons: one instance for each host that matches, as placement says; its number is the host's while that is known.

What placement says is noted in a row per job and host. An instance whose host no longer matches gets a cause to end,
and leaves the job as one that an update removes does.
"""

import msgspec
import numpy as np

from events.codes import ENDED_TASKS
from events.instance_changes import instance_change
from events.records.base import Event
from events.records.lifecycle import GangsQueued, InstancesChanged
from events.records.placement import HostRemoved, MatchingHostsChanged
from processors.lifecycle.causes import Goal
from processors.lifecycle.host_reports import Hosts
from processors.lifecycle.instance_ranges import stretches
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.lookups import among
from processors.lifecycle.task_table import TaskEvent
from processors.lifecycle.tasks import Tasks
from processors.lifecycle.updates.updates import Updates
from processors.lifecycle.updates.versions import task_shape
from processors.state.causes import CauseRow, recorded
from processors.state.steps import Pass
from processors.state.table import Table, struct_table

DAEMON = "daemon"
Pair = tuple[str, str]
"""A job and a host."""


class DaemonHostRow(msgspec.Struct, array_like=True):
    """A host that matches a daemon, or did. `instance` is its number there, -1 while it has none."""

    instance: int = -1
    matches: bool = True
    there: bool = False
    """Whether the job has the instance."""
    exists: bool = True
    """Whether the cell knows the host."""
    matched_by: CauseRow | None = None
    """Since when it matches, if it does."""


class Daemons:
    """A table, and what follows from it."""

    def __init__(self, tasks: Tasks, jobs: Jobs, hosts: Hosts, updates: Updates) -> None:
        self.table: Table[Pair, DaemonHostRow] = struct_table("daemons", DaemonHostRow, Pair)
        self._tasks = tasks
        self._jobs = jobs
        self._hosts = hosts
        self._updates = updates
        self._of_job: dict[str, dict[str, None]] = {}
        self._host_at: dict[tuple[str, int], str] = {}
        """The host of each instance that has a number."""
        self._lacking: dict[str, dict[str, None]] = {}
        """By job, the hosts that are to get an instance."""

    def restored(self) -> None:
        """Finds again what is derived."""
        for derived in (self._of_job, self._host_at, self._lacking):
            derived.clear()
        for (job_id, host_id), row in self.table.items():
            self._of_job.setdefault(job_id, {})[host_id] = None
            if row.instance >= 0:
                self._host_at[job_id, row.instance] = host_id
            self._review((job_id, host_id))

    # What inputs say.

    def dropped(self, job_id: str) -> None:
        """A job has ended."""
        for host_id in self._of_job.pop(job_id, ()):
            self._host_at.pop((job_id, self.table[job_id, host_id].instance), None)
            self.table.remove((job_id, host_id))
        self._lacking.pop(job_id, None)

    def matching(self, event: MatchingHostsChanged, now: int) -> None:
        """Hosts match from now on, or no longer."""
        sessions = event.host_session_array.tolist()
        columns = (column.tolist() for column in (event.job_array, event.host_array, event.matches_array))
        for job, host, matches in zip(*columns, strict=True):
            pair = event.job_ids[job], event.host_ids[host]
            if pair[0] not in self._jobs.table:
                continue
            if matches:
                self._match(pair, sessions[host])
            elif pair in self.table:
                self._leave(pair, exists=True)

    def host_removed(self, event: HostRemoved) -> None:
        """A host is forgotten; to be called while it still has its number."""
        for pair in [(job_id, event.host_id) for job_id in self._of_job]:
            if pair in self.table:
                self._leave(pair, exists=False)

    def instances_changed(self, event: InstancesChanged) -> None:
        """Instances of a daemon were added, each for the host that is named with it, or removed."""
        job, change = self._jobs.table[event.job_id], instance_change(event)
        for host_id, instance in zip(event.host_ids, change.added.tolist(), strict=True):
            row = self.table.change((event.job_id, host_id))
            row.instance, row.there = instance, True
            self._host_at[event.job_id, instance] = host_id
            pin = self._hosts.table[host_id].number
            self._tasks.arena.put(np.array([job.base + instance]), pin=pin, target=job.version)
            self._review((event.job_id, host_id))
        for instance in change.removed.tolist():
            pair = event.job_id, self._host_at[event.job_id, instance]
            self.table.change(pair).there = False
            self._review(pair)

    # What is decided.

    def decide(self, this: Pass) -> list[Event]:
        """Instances that are added, as many as the budget has units. They end the pass, so none is spent."""
        out, limit = list[Event](), this.budget.left
        for job_id in sorted(self._lacking, key=lambda job_id: self._jobs.table[job_id].number):
            host_ids = sorted(self._lacking[job_id])[: max(0, limit)]
            limit -= len(host_ids)
            if host_ids:
                out += self._added(job_id, host_ids)
        return out

    def _added(self, job_id: str, host_ids: list[str]) -> list[Event]:
        """An instance for each of these hosts: the number that it had, or the lowest that is free. While the job is
        held it waits for its first run.
        """
        job, host_of = self._jobs.table[job_id], dict[int, str]()
        used = {self.table[job_id, host_id].instance for host_id in self._of_job[job_id]}
        lowest = 0
        for host_id in host_ids:
            instance = self.table[job_id, host_id].instance
            while instance < 0:
                instance = lowest if lowest not in used else -1
                lowest += 1
            host_of[instance] = host_id
        added = np.array(sorted(host_of))
        first, count = stretches(added)
        ones, zeros = np.ones_like(added), np.zeros_like(added)
        of_hosts = tuple(host_of[instance] for instance in added.tolist())
        matched_by = [row for host_id in host_ids if (row := self.table[job_id, host_id].matched_by)]
        changed = InstancesChanged.pack(
            job_id=job_id,
            first=added[first],
            count=count,
            wanted=ones[first],
            shape=zeros[first],
            shapes=(task_shape(self._updates.version(job_id).asks[0]),),
            instances=max(job.instances, int(added[-1]) + 1),
            first_run=job.run_floor + 1,
            host_ids=of_hosts,
            cause=recorded(max(matched_by, key=lambda row: (row.at, row.index), default=None)),
            waits=job.on_hold,
        )
        if job.on_hold:
            return [changed]
        queued = GangsQueued.pack(
            job_ids=(job_id,),
            job=zeros,
            first=added,
            count=ones,
            run=ones * (job.run_floor + 1),
            gang=zeros,
            admitted=zeros,
            timed=True,
            host_ids=of_hosts,
            pin=range(len(added)),
        )
        return [changed, queued]

    # How.

    def _match(self, pair: Pair, session: int) -> None:
        self._hosts.number(pair[1], session)
        self._of_job.setdefault(pair[0], {})[pair[1]] = None
        row = self.table.change(pair) if pair in self.table else self.table.put(pair, DaemonHostRow())
        row.matches = row.exists = True
        row.matched_by = self._tasks.input.cause
        self._review(pair)

    def _leave(self, pair: Pair, exists: bool) -> None:
        """The instance of a host is to end and to leave."""
        row = self.table.change(pair)
        row.matches, row.exists = False, exists
        if row.there:
            slot = np.array([self._jobs.table[pair[0]].base + row.instance])
            over = among(self._tasks.arena["state"][slot], ENDED_TASKS)
            noted = self._tasks.record_event(TaskEvent.REMOVE, slot[~over])
            self._tasks.arena.set("goal", np.append(noted, slot[over]), Goal.REMOVE)
            self._updates.leave(pair[0])
        self._review(pair)

    def _review(self, pair: Pair) -> None:
        """Something about a host of a daemon has changed."""
        row, (job_id, host_id) = self.table[pair], pair
        lacking = self._lacking.setdefault(job_id, {})
        lacking.pop(host_id, None)
        if row.matches and not row.there:
            lacking[host_id] = None
        elif not (row.matches or row.there or row.exists):
            self.table.remove(pair)
            self._host_at.pop((job_id, row.instance), None)
            del self._of_job[job_id][host_id]
        if not lacking:
            del self._lacking[job_id]
