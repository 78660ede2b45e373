"""Hosts that match the constraints of each daemon, as far as lifecycle knows: it gives each host one task.

The last offer of a host counts, also while it is silent or returning; one that is lost goes on as it was reported.
"""

import numpy as np
from numpy.typing import NDArray

from events.columns import Names
from events.job_ends import is_over
from events.records.hosts import HostOffered
from events.records.lifecycle import JobAccepted, JobChanged
from events.records.placement import HostRemoved, HostTainted, MatchingHostsChanged
from processors.placement.constraints import request_of
from processors.placement.hosts import Hosts
from processors.placement.rows import CellRow, DaemonRow
from processors.state.budget import Budget
from processors.state.causes import CurrentInput, recorded
from processors.state.record_rows import ConstraintRow, row_of
from processors.state.table import Table, struct_table

Mask = NDArray[np.bool_]


class Matching:
    """Two tables: the constraints of daemons, and the hosts that were said to match, by job and host."""

    def __init__(self, hosts: Hosts, cell: Table[str, CellRow], current: CurrentInput) -> None:
        self.table: Table[str, DaemonRow] = struct_table("daemons", DaemonRow)
        self.said: Table[tuple[str, str], int] = struct_table("matches", int, tuple[str, str])
        self._hosts = hosts
        self._cell = cell
        self._input = current
        self._matches: dict[str, Mask] = {}
        """By job, whether each host was said to match, by its number."""
        self._news = True
        """Whether hosts or daemons have changed since nothing was to be said."""

    def restored(self) -> None:
        """Finds again what is derived."""
        self._matches = {job_id: self._none() for job_id in self.table}
        for job_id, host_id in self.said:
            self._matches[job_id][self._hosts.table[host_id].number] = True
        self._news = True

    def accepted(self, event: JobAccepted, now: int) -> None:
        """A daemon wants a task on each host that matches."""
        if event.kind == "daemon" and event.job_id not in self.table:
            shape = event.shapes[0]
            conditions = tuple(row_of(ConstraintRow, each) for each in shape.constraints)
            tolerations = shape.rules.tolerations if shape.rules is not None else ()
            self.table.put(event.job_id, DaemonRow(conditions, tolerations))
            self._matches[event.job_id] = self._none()
            self._changed()

    def offered(self, event: HostOffered, now: int) -> None:
        """A host may have other attributes."""
        if self.table:
            self._changed()

    def tainted(self, event: HostTainted, now: int) -> None:
        """A host may match that had a taint."""
        if self.table:
            self._changed()

    def job_changed(self, event: JobChanged, now: int) -> None:
        """A daemon has ended."""
        if event.job_id in self.table and is_over(event):
            self.table.remove(event.job_id)
            numbers = np.flatnonzero(self._matches.pop(event.job_id)).tolist()
            for number in numbers:
                self.said.remove((event.job_id, self._hosts.ids[number]))

    def host_removed(self, event: HostRemoved, now: int) -> None:
        """A host is forgotten, as lifecycle hears too; to be called while it still has its number."""
        number = self._hosts.table[event.host_id].number
        for job_id, matches in self._matches.items():
            if number < len(matches) and matches[number]:
                matches[number] = False
                self.said.remove((job_id, event.host_id))

    def matching(self, event: MatchingHostsChanged, now: int) -> None:
        """It was said which hosts match."""
        columns = (column.tolist() for column in (event.job_array, event.host_array, event.matches_array))
        for job, host, matches in zip(*columns, strict=True):
            job_id, host_id = event.job_ids[job], event.host_ids[host]
            self._wide(job_id)[self._hosts.table[host_id].number] = matches == 1
            if matches:
                self.said.put((job_id, host_id), 1)
            else:
                self.said.remove((job_id, host_id))

    def decide(self, budget: Budget) -> MatchingHostsChanged | None:
        """The hosts that match now and didn't, or the other way round, as far as the budget goes."""
        if not self._news:
            return None
        jobs, hosts = Names(), Names()
        rows: list[tuple[int, int, int]] = []
        for job_id, daemon in sorted(self.table.items()):
            reported, constraints = self._wide(job_id), self._hosts.constraints
            open_ = constraints.of(request_of(daemon.conditions, daemon.tolerations)).unmet < 0
            open_ |= reported & (constraints.column(daemon.conditions) < 0)  # a taint keeps away what is new alone
            matches = np.where(self._hosts.counts, open_, reported)
            for number in np.flatnonzero(matches != reported).tolist():
                if not budget.holds(1):
                    break
                budget.spend(1)
                rows.append((jobs[job_id], hosts[self._hosts.ids[number]], int(matches[number])))
        if not rows:
            self._news = budget.cut
            return None
        job, host, matching = zip(*rows, strict=True)
        return MatchingHostsChanged.pack(
            job_ids=jobs.all(),
            host_ids=hosts.all(),
            host_session=[self._hosts.table[host_id].session for host_id in hosts.all()],
            job=job,
            host=host,
            matches=matching,
            cause=recorded(self._cell["cell"].matching_by),
        )

    def _changed(self) -> None:
        self._news = True
        self._cell.change("cell").matching_by = self._input.cause

    def _none(self) -> Mask:
        return np.zeros(len(self._hosts.ids), dtype=np.bool_)

    def _wide(self, job_id: str) -> Mask:
        """The mask of a job, as long as there are hosts; to change."""
        matches, hosts = self._matches[job_id], len(self._hosts.ids)
        if len(matches) != hosts:
            more = np.zeros(max(0, hosts - len(matches)), dtype=np.bool_)
            matches = self._matches[job_id] = np.append(matches[:hosts], more)
        return matches
