"""The ledger of waits: task-milliseconds by reason code, of a job and of pools and owners (decision 124)."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, func, select

from events.codes import Code
from events.pool_paths import ROOT
from paceline.client.waits_models import JobLedger, WaitGroup, WaitLedger, WaitSums
from projections.record_json import at
from projections.views import tables
from projections.views.job_states import REJECTED
from projections.views.ledger import LOST, OPEN, OTHERS, RUNNING, STARTING, open_tasks
from projections.views.ledger_rows import STANDING, WEEK_MS, begin_of, week_of
from projections.views.rows import JobRow

Sums = Mapping[str, int]
"""Task-milliseconds by the names of sums and by codes."""
_OF_LIFECYCLE = (Code.HELD, Code.MAX_RUNNING, Code.STARTS_IN_ORDER, Code.BACKOFF)


def job_ledger(connection: Connection, job: JobRow, now_ms: int) -> JobLedger:
    """The ledger of a job until its end, or now."""
    until_ms = max(job.submitted_ms, job.ended_ms or now_ms)
    passed, sums = until_ms - job.submitted_ms, Counter[str]()
    if job.base >= 0:
        of = tables.job_waits.c
        for code, tasks, ms in connection.execute(select(of.code, of.tasks, of.ms).where(of.job_id == job.job_id)):
            sums[code] = ms + tasks * passed
        counts = {OPEN: open_tasks(job), STARTING: job.ordered, RUNNING: job.running + job.stopping_tasks}
        so_far = {OPEN: job.open_sum, STARTING: job.starting_sum, RUNNING: job.running_sum}
        for name, tasks in counts.items():
            sums[name] = so_far[name] + (0 if job.ended_ms else tasks * passed)
    elif job.state != REJECTED:
        sums[OPEN] = job.tasks * passed
    return {"job_id": job.job_id, "until": at(until_ms), **sums_of(sums)}


def pool_waits(
    connection: Connection, by: str, since_ms: int, now_ms: int, pool: str, owner: str | None, size: int
) -> WaitLedger:
    """The ledgers of weeks from that of a time on, summed by pool, owner or week, at most so many: weeks in their
    order, others from the longest wait on. `pool`: of it and those below it, `owner`: of this one; None: of all.
    """
    first, last = week_of(since_ms), max(week_of(since_ms), week_of(now_ms))
    by_key = _sums(connection, by, (first, last), now_ms, pool, owner)
    total = Counter[str]()
    for sums in by_key.values():
        total.update(sums)
    groups = [_group(by, key, sums) for key, sums in by_key.items()]
    groups = [each for each in groups if each["waiting_ms"] or each["running_ms"]]
    groups.sort(key=lambda each: (each["week"] or "", -each["waiting_ms"], each["pool"] or each["owner"] or ""))
    return {
        "since": _time(begin_of(first)),
        "until": _time(now_ms),
        "total": sums_of(total),
        "groups": groups[:size],
        "more": len(groups) > size,
    }


def _sums(
    connection: Connection, by: str, weeks: tuple[int, int], now_ms: int, pool: str, owner: str | None
) -> dict[Any, Counter[str]]:
    """The sums of weeks, by what is asked for."""
    of = tables.week_waits.c
    key: Any = of[by] if by in ("pool", "owner") else of.week
    query = select(of.week, of.code, key, func.sum(of.tasks), func.sum(of.ms))
    query = query.where((of.week == STANDING) | (of.week >= weeks[0]))
    if pool != ROOT:
        query = query.where((of.pool == pool) | of.pool.startswith(f"{pool}/", autoescape=True))
    if owner is not None:
        query = query.where(of.owner == owner)
    standing, changes = Counter[tuple[Any, str]](), dict[tuple[Any, str], dict[int, tuple[int, int]]]()
    for week, code, name, tasks, ms in connection.execute(query.group_by(of.week, of.code, key)):
        place = (None if by == "week" else name, code)
        if week == STANDING:
            standing[place] += tasks
        else:
            changes.setdefault(place, {})[week] = tasks, ms
    out: dict[Any, Counter[str]] = defaultdict(Counter)
    for name, code in {**standing, **changes}:
        in_weeks = changes.get((name, code), {})
        tasks = standing[name, code] - sum(more for more, _ in in_weeks.values())
        for week in range(weeks[0], weeks[1] + 1):
            more, ms = in_weeks.get(week, (0, 0))
            tasks += more
            value = ms + tasks * max(0, min(now_ms - begin_of(week), WEEK_MS))
            if value:
                out[week if by == "week" else name][code] += value
    return out


def sums_of(sums: Sums) -> WaitSums:
    """Sums as the API shows them. The time that tasks are open and no reason is for is the rest.

    Entitlement and placement read a little later than lifecycle decides that a task waits no longer: what they have
    counted beyond all that was waited is taken from the longest wait.
    """
    running = max(0, sums.get(RUNNING, 0))
    lost = [max(0, sums.get(name, 0)) for name in LOST[1:]]
    waiting_ms = max(0, sums.get(OPEN, 0) - running)
    names = {OPEN, STARTING, RUNNING, *LOST}
    waits = Counter({code: ms for code, ms in sums.items() if code not in names and ms > 0})
    if (starting := sums.get(STARTING, 0)) > 0:
        waits[Code.STARTING] += starting
    rest = waiting_ms - waits.total()
    if rest > 0:
        waits[Code.NOT_YET_EVALUATED] += rest
    certain = (*_OF_LIFECYCLE, Code.STARTING)
    for code, ms in sorted(waits.items(), key=lambda each: (each[0] in certain, -each[1])):
        cut = min(ms, max(0, -rest))
        waits[code], rest = ms - cut, rest + cut
    order = sorted((code for code in waits if waits[code]), key=lambda code: (-waits[code], code))
    return {
        "waiting_ms": waiting_ms,
        "running_ms": running,
        "waiting": [{"code": code, "task_ms": waits[code]} for code in order],
        "running": {
            "kept_ms": max(0, running - sum(lost)),
            "lost_to_preemption_ms": lost[0],
            "lost_to_hosts_ms": lost[1],
            "lost_to_failures_ms": lost[2],
        },
    }


def _group(by: str, key: Any, sums: Sums) -> WaitGroup:
    return {
        "pool": key if by == "pool" else None,
        "owner": key if by == "owner" and key != OTHERS else None,
        "others": by == "owner" and key == OTHERS,
        "week": _time(begin_of(key))[:10] if by == "week" else None,
        **sums_of(sums),
    }


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
