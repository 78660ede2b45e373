"""The ledger of waits in the API's answers: for how long tasks waited, for what, and what became of their running.

All sums are of task-milliseconds: two tasks that wait for a second have waited for 2,000.
"""

from typing import TypedDict


class Wait(TypedDict):
    """The time for which tasks waited for a reason code."""

    code: str
    task_ms: int


class RunningTime(TypedDict):
    """The running of tasks: what went on or came to its end, and what ended before its time by a preemption or a move,
    with its host, or by a failure of its own.
    """

    kept_ms: int
    lost_to_preemption_ms: int
    lost_to_hosts_ms: int
    lost_to_failures_ms: int


class WaitSums(TypedDict):
    """The waiting and the running of tasks, which together are all the time from submission to end. `waiting` has the
    codes in the order of their time, the longest first.
    """

    waiting_ms: int
    running_ms: int
    waiting: list[Wait]
    running: RunningTime


class JobLedger(WaitSums):
    """Those of a job until a time."""

    job_id: str
    until: str | None


class WaitGroup(WaitSums):
    """Those of a pool, an owner or a week, which begins on this day; what isn't summed by is None. `others`: it is the
    sum of owners beyond the 10,000 of a week that are counted by themselves.
    """

    pool: str | None
    owner: str | None
    others: bool
    week: str | None


class WaitLedger(TypedDict):
    """Sums of weeks (Monday to Sunday, UTC) from a Monday, `since`, until now, `until`. `total`: of all groups; `more`:
    there are groups that aren't among them.
    """

    since: str
    until: str
    total: WaitSums
    groups: list[WaitGroup]
    more: bool
