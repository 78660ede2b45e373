"""Folds the ledger of waits: for how long the tasks of jobs, pools and owners waited and for what, and what of their
running was kept (decision 124).

Lifecycle says for how long tasks are open, start, run and wait before their next run; what entitlement and placement
say of those that are queued is counted as each of them knows it, at its own times (`tallies.py`). In the rest of the
time in which a task is open nothing was said of it: `projections/queries/waits.py` takes the difference. So each sum
has one owning topic, and no task is looked at by itself but at the end of a run that was lost.
"""

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from events.codes import Code, Counts, Outcome, TaskState
from events.columns import I32, I64, indexed
from projections.views import tables
from projections.views.blocks import Blocks
from projections.views.cache import Cache
from projections.views.ledger_rows import WEEK_MS, begin_of, week_of
from projections.views.named_tasks import COUNTS, NamedTasks
from projections.views.rows import JobRow

OWNERS_MAX = 10_000
"""Owners who are counted by themselves, of those whose jobs are accepted in one week."""
OTHERS = "(others)"
"""The name under which all others are counted."""
OPEN, STARTING, RUNNING = "open", "starting", "running"
"""The names of sums that are no codes: tasks that haven't ended, that were ordered, that run or stop."""
LOST = ("", "lost_to_preemption", "lost_to_hosts", "lost_to_failures")
_PREEMPTION, _HOSTS, _FAILURES, _GANG = 1, 2, 3, 4
LOSS_OF = np.zeros(max(Outcome) + 1, dtype=np.int64)
"""By outcome, the place in `LOST` of what a run did until then; with its gang: of what its gang lost last."""
for _outcome, _loss in (
    (Outcome.PREEMPTED, _PREEMPTION),
    (Outcome.REVOKED, _PREEMPTION),
    (Outcome.RELOCATED, _PREEMPTION),
    (Outcome.LOST, _HOSTS),
    (Outcome.FAILED, _FAILURES),
    (Outcome.WITH_GANG, _GANG),
):
    LOSS_OF[_outcome] = _loss
_SUMS = {
    TaskState.ORDERED: (STARTING, 1),
    TaskState.RUNNING: (RUNNING, 1),
    TaskState.STOPPING: (RUNNING, 1),
    TaskState.SUCCEEDED: (OPEN, -1),
    TaskState.FAILED: (OPEN, -1),
    TaskState.KILLED: (OPEN, -1),
}
"""By state, the sum that a task counts in, or (-1) no longer."""
_BY_STATE = {int(state): sums for state, sums in _SUMS.items()}
_COUNTS = {int(state): name for state, name in COUNTS.items()}


def backoff_code(job: JobRow) -> Code:
    """The code for which tasks of a job wait in lifecycle."""
    if job.held_ms:
        return Code.HELD
    if job.max_running:
        return Code.MAX_RUNNING
    return Code.STARTS_IN_ORDER if job.kind == "stateful" else Code.BACKOFF


def open_tasks(job: JobRow) -> int:
    """The tasks of a job that was accepted that haven't ended, if it isn't over."""
    return job.tasks - job.succeeded - job.failed - job.killed


class Account(msgspec.Struct, array_like=True, frozen=True):
    """Where tasks of a job are counted, by the number of the job: that is known when the job is forgotten."""

    number: int
    pool: str
    counted_for: str


def account_of(job: JobRow) -> Account:
    """Where tasks of a job are counted."""
    return Account(job.number, job.pool, job.counted_for)


class Ledger:
    """The sums of a cell."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._sums = cache.waits
        self._week = self._begin = self._end = 0
        """The week of the newest times of lifecycle."""
        self._owners: set[str] = set()

    def restore(self, connection: Connection) -> None:
        """Finds the owners of the newest week again."""
        for week, owner in connection.execute(select(tables.week_owners)):
            self._week, self._begin, self._end = week, begin_of(week), begin_of(week + 1)
            self._owners.add(owner)

    def moved(self, now: int, moves: Iterable[tuple[JobRow, int, int]]) -> None:
        """Jobs have each so many more tasks of a state: counts them there, and their time."""
        weeks, week = self._sums.weeks, self._week if self._begin <= now < self._end else self._come_to(now)
        passed = now - self._begin
        for job, state, more in moves:
            name = _COUNTS.get(state)
            if name is None:
                continue
            setattr(job, name, getattr(job, name) + more)
            if name == "queued":
                job.waits_ms = (job.waits_ms or now) if job.queued and not job.ended_ms else 0
                continue
            if job.ended_ms:
                continue
            if state == TaskState.BACKOFF:
                self.add(job, backoff_code(job), more, now)
                continue
            key, sign = _BY_STATE[state]
            more *= sign
            since = now - job.submitted_ms
            if key == RUNNING:
                job.running_sum -= more * since
            elif key == OPEN:
                job.open_sum -= more * since
            else:
                job.starting_sum -= more * since
            place = week, job.pool, job.counted_for, key
            sums = weeks.get(place)
            if sums is None:
                weeks[place] = [more, -more * passed]
            else:
                sums[0] += more
                sums[1] -= more * passed

    def add(self, job: JobRow, code: str, tasks: int, at_ms: int) -> None:
        """So many more tasks of a job wait for a code."""
        self._add_to_job(job, code, tasks, at_ms)
        self._add_to_week(job, code, tasks, at_ms)

    def said(
        self, job_id: str, account: Account, fewer: Mapping[str, int], more: Mapping[str, int], at_ms: int
    ) -> None:
        """A machine says so: tasks of a job that waited for codes no longer do, and wait for others."""
        job = self._cache.jobs.get(job_id) if fewer or more else None
        for code in {**fewer, **more}:
            if change := more.get(code, 0) - fewer.get(code, 0):
                if job is not None and job.number == account.number:
                    self._add_to_job(job, code, change, at_ms)
                self._add_to_week(account, code, change, at_ms)

    def accepted(self, job: JobRow, now: int) -> None:
        """A job is accepted, all of whose tasks are open since it was submitted."""
        if not self._begin <= now < self._end:
            self._come_to(now)
        job.counted_for = job.owner if job.owner in self._owners else self._new_owner(job.owner)
        place = self._week, job.pool, job.counted_for, OPEN
        since = job.submitted_ms - self._begin
        if since >= 0 and (sums := self._sums.weeks.get(place)) is not None:
            sums[0] += job.instances
            sums[1] -= job.instances * since
        else:
            self._add_to_week(job, OPEN, job.instances, job.submitted_ms)

    def resized(self, job: JobRow, more: int, now: int) -> None:
        """A job has so many more tasks."""
        if more and not job.ended_ms:
            self._open(job, more, now)

    def held(self, job: JobRow, hold: bool, now: int) -> None:
        """A job is held from now on, or released: its tasks that wait do so for another reason."""
        before = backoff_code(job)
        job.held_ms = now if hold else 0
        self.renamed(job, before, now)

    def renamed(self, job: JobRow, before: Code, now: int) -> None:
        """A job has changed, whose tasks that wait in lifecycle did so for this code."""
        after = backoff_code(job)
        if after != before and job.backoff and not job.ended_ms:
            self.add(job, before, -job.backoff, now)
            self.add(job, after, job.backoff, now)

    def over(self, job: JobRow, now: int, again: int = -1) -> None:
        """A job that isn't over is, whatever the states of its tasks; `again` 1: one that was is open again."""
        since = now - job.submitted_ms
        if tasks := job.instances - job.removed - job.succeeded - job.failed - job.killed:
            self._open(job, again * tasks, now)
        if job.ordered:
            job.starting_sum -= again * job.ordered * since
            self._add_to_week(job, STARTING, again * job.ordered, now)
        if running := job.running + job.stopping_tasks:
            job.running_sum -= again * running * since
            self._add_to_week(job, RUNNING, again * running, now)
        if job.backoff:
            self.add(job, backoff_code(job), again * job.backoff, now)

    def begun(self, now: int, tasks: Blocks, places: I64) -> None:
        """Runs begin."""
        tasks["part_ms"][places] = now % 1000

    def ended(self, now: int, live: NamedTasks, outcome: I32, counts_as: I32) -> None:
        """Live runs end, of which the columns still tell how they stood: what they did may be lost."""
        loss = LOSS_OF[outcome]
        if not loss.any():
            return
        loss = np.where((loss == _FAILURES) & (counts_as == Counts.HOST), _HOSTS, loss)
        tasks, places = self._cache.tasks, live.places
        ran = tasks["state"][places] != TaskState.ORDERED
        started_s = tasks["started_s"][places]
        since_s = np.where(started_s > 0, started_s, tasks["state_s"][places])
        begun = since_s.astype(np.int64) * 1000 + tasks["part_ms"][places]
        for at, kind in zip(*(column.tolist() for column in (live.job, loss)), strict=True):
            if kind and kind != _GANG:
                live.jobs[at].last_loss = kind
        last = np.array([job.last_loss or _FAILURES for job in live.jobs], dtype=np.int64)
        loss = np.where(loss == _GANG, last[live.job], loss)
        is_open = np.array([not job.ended_ms for job in live.jobs])
        lost = np.flatnonzero((loss > 0) & ran & (begun < now) & is_open[live.job])
        keys, key = indexed(live.job[lost] * len(LOST) + loss[lost])
        for number, each in enumerate(keys.tolist()):
            self._lose(live.jobs[each // len(LOST)], LOST[each % len(LOST)], begun[lost[key == number]], now)

    def _lose(self, job: JobRow, name: str, begun: I64, end: int) -> None:
        """Runs of a job that began then are lost."""
        self._sums.jobs.setdefault((job.job_id, name), [0, 0])[1] += int((end - begun).sum())
        for week in range(week_of(int(begun.min())), week_of(end) + 1):
            first = begin_of(week)
            ms = np.maximum(0, min(end, first + WEEK_MS) - np.maximum(begun, first))
            self._sums.weeks.setdefault((week, job.pool, job.counted_for, name), [0, 0])[1] += int(ms.sum())

    def _open(self, job: JobRow, tasks: int, at_ms: int) -> None:
        job.open_sum -= tasks * (at_ms - job.submitted_ms)
        self._add_to_week(job, OPEN, tasks, at_ms)

    def _add_to_job(self, job: JobRow, code: str, tasks: int, at_ms: int) -> None:
        sums = self._sums.jobs.setdefault((job.job_id, code), [0, 0])
        sums[0] += tasks
        sums[1] -= tasks * (at_ms - job.submitted_ms)

    def _add_to_week(self, of: "JobRow | Account", code: str, tasks: int, at_ms: int) -> None:
        week = week_of(at_ms)
        sums = self._sums.weeks.setdefault((week, of.pool, of.counted_for, code), [0, 0])
        sums[0] += tasks
        sums[1] -= tasks * (at_ms - begin_of(week))

    def _new_owner(self, owner: str) -> str:
        """The name under which the jobs are counted of an owner who had none in this week."""
        if len(self._owners) >= OWNERS_MAX:
            return OTHERS
        self._owners.add(owner)
        self._cache.week_owners.add(self._week, owner)
        return owner

    def _come_to(self, now: int) -> int:
        """A week begins: all owners may be counted by themselves again."""
        self._week = week_of(now)
        self._begin, self._end = begin_of(self._week), begin_of(self._week + 1)
        if self._owners:
            self._cache.week_owners.delete("week <> ?", [(self._week,)])
            self._owners = set()
        return self._week
