"""Suspected hosts: tasks of several jobs fail there at once and none goes well, or the host itself reports that a run
is still there after its stop deadline and a kill. Placement avoids them for a time.

Four rules tell the fault of a host from those of jobs. A job counts at most `OF_A_JOB` times for a host, so it takes
several jobs. One that fails at once on `HOSTS_MAX` hosts counts for none. A run on the host that has gone well since
the first failure takes all back. Where all are of one pool of several, work of that pool must go well elsewhere.
"""

import numpy as np

from events.bounds import INT_MAX
from events.codes import Code, Outcome, RunCause
from events.columns import I32, I64, distinct
from events.records.base import Event
from events.records.lifecycle import HostSuspected
from processors.lifecycle.causes import CODE_OF
from processors.lifecycle.failures import HOSTS_MAX
from processors.lifecycle.host_reports import Hosts
from processors.lifecycle.jobs import Jobs
from processors.lifecycle.lookups import Mask, among
from processors.lifecycle.rows import PoolRow, SuspectRow
from processors.lifecycle.task_rules import OWN_ENDS
from processors.lifecycle.tasks import Tasks
from processors.state.causes import recorded
from processors.state.seconds import elapsed, milliseconds, second
from processors.state.steps import Pass
from processors.state.table import Table, struct_table

AT_ONCE_MS = 10_000
"""A run that was available for so long hasn't failed at once."""
UP_MS = 2_000
WITHIN_S = 1_800
FAILURES = 5
"""So many failures within `WITHIN_S` make a host suspected."""
OF_A_JOB = 2
"""The most failures of one job that count for a host: it takes several jobs."""
KEPT = 16
"""So many failures of a host are kept, the newest."""
NO_RUN = ("", 0, 0)


class Suspects:
    """A row for each host where runs have failed at once, or that is to be reported."""

    def __init__(self, tasks: Tasks, jobs: Jobs, hosts: Hosts, pools: Table[str, PoolRow]) -> None:
        self.table: Table[str, SuspectRow] = struct_table("suspects", SuspectRow)
        self._tasks = tasks
        self._jobs = jobs
        self._hosts = hosts
        self._pools = pools
        hosts.survived = self.survived
        self._failing: dict[str, dict[str, None]] = {}
        """On which hosts each job has failed at once."""
        self._unsaid: dict[str, None] = {}

    def restored(self) -> None:
        """Finds again where jobs have failed, and what is to be reported."""
        self._failing.clear()
        for host_id, row in self.table.items():
            self._index(host_id, row)
        self._unsaid = {host_id: None for host_id, row in self.table.items() if row.code}

    def ended(self, slots: I64, outcome: I32, now: int) -> None:
        """Runs of these slots are over; their columns are still those of the runs."""
        arena = self._tasks.arena
        host, ready = arena["host"][slots], arena["ready"][slots]
        brief = (ready == 0) | (ready > elapsed(now - AT_ONCE_MS))
        if len(self.table):
            well = (host > 0) & ((outcome == Outcome.SUCCEEDED) | ~brief)
            for number in distinct(host[well]).tolist():
                since = ready[well & (host == number)]
                self._went_well(self._hosts.named(number)[0], INT_MAX if (since == 0).any() else int(since.max()))
        failed = (host > 0) & brief & (outcome == Outcome.FAILED)
        failed[failed] = self._by_itself(slots[failed])
        if not failed.any():
            return
        pairs = np.stack([host[failed], arena["owner"][slots[failed]] - 1])
        different, counts = np.unique(pairs, axis=1, return_counts=True)
        for (number, base), count in zip(different.T.tolist(), counts.tolist(), strict=True):
            self._failed(self._hosts.named(number)[0], self._jobs.at[base], min(count, OF_A_JOB), second(now))
        for number in distinct(host[failed]).tolist():
            self._judge(number, int(slots[failed & (host == number)][-1]), now)

    def _by_itself(self, slots: I64) -> Mask:
        """True for runs that ended, or didn't start, without having been told to."""
        own: Mask = among(self._tasks.arena["report"][slots], OWN_ENDS)
        late: Mask = CODE_OF.take(self._tasks.arena["causes"][slots]) == RunCause.START_LATE
        return own | late

    def survived(self, slots: I64) -> None:
        """Runs of these slots are still there though they were killed, as their hosts say."""
        arena = self._tasks.arena
        host = arena["host"][slots]
        for number in distinct(host[host > 0]).tolist():
            runs = slots[host == number]
            jobs = len(distinct(arena["owner"][runs]))
            self._suspect(self._hosts.named(number)[0], Code.STOP_NOT_OBEYED, int(runs[-1]), len(runs), jobs)

    def decide(self, this: Pass) -> list[Event]:
        """The hosts to report; a unit is a host."""
        if not self._unsaid:
            return []
        host_ids = sorted(self._unsaid)[: this.budget.left]
        this.budget.spend(len(host_ids))
        return [self._suspected(host_id, self.table[host_id]) for host_id in host_ids]

    def _suspected(self, host_id: str, row: SuspectRow) -> HostSuspected:
        return HostSuspected(
            host_id=host_id,
            code=row.code,
            runs=row.runs,
            jobs=row.jobs,
            job_id=row.last[0],
            instance=row.last[1],
            run=row.last[2],
            within_ms=row.within_ms,
            cause=recorded(row.by),
        )

    def said(self, event: HostSuspected, now: int) -> None:
        """A host is reported. What failed there counts for it no more; of the jobs it is still known."""
        row = self.table.change(event.host_id) if event.host_id in self.table else SuspectRow()  # 0.3 suspected more
        row.code, row.runs, row.jobs, row.within_ms, row.by, row.last = "", 0, 0, 0, None, NO_RUN
        row.reported_s = second(now)
        self._unsaid.pop(event.host_id, None)
        self._forget_if_empty(event.host_id, row)

    def host_removed(self, host_id: str) -> None:
        """A host is forgotten."""
        if host_id in self.table:
            self._set(host_id, [])
            self.table.remove(host_id)
            self._unsaid.pop(host_id, None)

    def _went_well(self, host_id: str, available: int) -> None:
        """A run on a host, available since then, has gone on for some time, or has succeeded."""
        row = self.table.get(host_id)
        if row is not None and row.failed and available >= row.failed[0][1]:
            self._set(host_id, [])
            self._forget_if_empty(host_id, row)

    def _failed(self, host_id: str, job_id: str, count: int, at: int) -> None:
        """So many runs of a job have failed at once on a host."""
        if host_id not in self.table:
            self.table.put(host_id, SuspectRow())
        row = self.table[host_id]
        recent = [each for each in row.failed if each[1] > at - WITHIN_S]
        mine = ([each for each in recent if each[0] == job_id] + [(job_id, at)] * count)[-OF_A_JOB:]
        self._set(host_id, ([each for each in recent if each[0] != job_id] + mine)[-KEPT:])

    def _judge(self, number: int, slot: int, now: int) -> None:
        """Whether what has failed on a host, the run of a slot last, makes it suspected."""
        host_id = self._hosts.named(number)[0]
        row = self.table[host_id]
        counting = [
            (job_id, at) for job_id, at in row.failed if at > row.reported_s and len(self._failing[job_id]) < HOSTS_MAX
        ]
        if len(counting) < FAILURES:
            return
        first = min(at for _, at in counting)
        ready = self._tasks.arena["ready"][self._tasks.by_host.of(np.array([number - 1]))]
        if ((ready >= first) & (ready <= elapsed(now - AT_ONCE_MS))).any():
            self._set(host_id, [])
            self._forget_if_empty(host_id, row)
            return
        jobs = {job_id: None for job_id, _ in counting}
        if self._may_be_the_pool([*jobs], number, now):
            return
        within_ms = max(0, now - milliseconds(first))
        self._suspect(host_id, Code.FAILS_AT_ONCE, slot, len(counting), len(jobs), within_ms)

    def _may_be_the_pool(self, job_ids: list[str], number: int, now: int) -> bool:
        """Whether what fails on a host may be the fault of one team: the jobs are all of one pool of several, and no
        work of that pool goes well on another host now: no run there has gone on for `AT_ONCE_MS`, nor for `UP_MS`
        one of a job that has failed at once nowhere.
        """
        pools = {self._jobs.table[job_id].pool for job_id in job_ids if job_id in self._jobs.table}
        if len(pools) != 1 or sum(not row.children for row in self._pools.values()) < 2:
            return False
        arena, (pool,) = self._tasks.arena, pools
        for job_id in self._jobs.of_pool[pool]:
            row, went_ms = self._jobs.table[job_id], AT_ONCE_MS if job_id in self._failing else UP_MS
            tasks = slice(row.base, row.base + row.instances)
            ready, host = arena["ready"][tasks], arena["host"][tasks]
            if ((host > 0) & (host != number) & (ready > 0) & (ready <= elapsed(now - went_ms))).any():
                return False
        return True

    def _suspect(self, host_id: str, code: Code, slot: int, runs: int, jobs: int, within_ms: int = 0) -> None:
        row = self.table.change(host_id) if host_id in self.table else self.table.put(host_id, SuspectRow())
        row.code, row.runs, row.jobs, row.within_ms = code, runs, jobs, within_ms
        row.last = (*self._jobs.task_at(slot), int(self._tasks.arena["run"][slot]))
        row.by = self._tasks.input.cause
        self._unsaid[host_id] = None

    def _set(self, host_id: str, failed: list[tuple[str, int]]) -> None:
        """Sets the failures at once of a host."""
        row = self.table.change(host_id)
        for job_id in dict(row.failed):
            self._failing[job_id].pop(host_id, None)
            if not self._failing[job_id]:
                del self._failing[job_id]
        row.failed = failed
        self._index(host_id, row)

    def _index(self, host_id: str, row: SuspectRow) -> None:
        for job_id, _ in row.failed:
            self._failing.setdefault(job_id, {})[host_id] = None

    def _forget_if_empty(self, host_id: str, row: SuspectRow) -> None:
        if not row.failed and not row.code and host_id in self.table:
            self.table.remove(host_id)
