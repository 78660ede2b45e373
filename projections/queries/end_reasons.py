"""Why tasks are over that didn't end by themselves, in words."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from events.codes import Code, RunCause
from events.columns import I64, ints, spread
from events.quantities import write_ms
from events.reasons import YOU
from projections.queries.reason import Reason, Remedy, counted, of_code
from projections.record_json import at
from projections.views import tables
from projections.views.rows import JobRow
from projections.views.run_rows import StopRow
from projections.views.updates import STOPS_KEPT

FAILED_BY = {
    RunCause.HEALTH: "failed its health check",
    RunCause.START_LATE: "wasn't ready in time",
}
"""The words for runs that the cell ends as failed."""
_ENDED_BY = {
    **FAILED_BY,
    RunCause.REMOVE: "the instance was removed",
    RunCause.JOB_END: "the controller of the job was over",
    RunCause.GANG: "a member of its gang ended before its time",
    RunCause.HOLD: "the job was held",
    RunCause.DRAIN: "its host was drained",
    RunCause.EVICT: "the drain of its host was forced",
    RunCause.REVOKED: "its host needed for others what it had lent",
}


class Stopped(NamedTuple):
    """A stop by a user, and how many tasks are over by it."""

    stop: StopRow
    tasks: int


def stops_of(connection: Connection, rows: Sequence[JobRow]) -> dict[str, list[StopRow]]:
    """The stops of jobs, or of instances of them, by users, the last stop first; of each job the newest ones."""
    last = {row.job_id: row.stops for row in rows if row.stops}
    stops: dict[str, list[StopRow]] = {}
    if last:
        query = select(tables.stops).where(tables.stops.c.job_id.in_(list(last)))
        for values in connection.execute(query):
            row = StopRow(*values)
            stops.setdefault(row.job_id, []).append(row)
        for job_id, mine in stops.items():
            mine.sort(key=lambda row: (last[job_id] - row.place) % STOPS_KEPT)
    return stops


def ended_by(job: JobRow, stops: Sequence[StopRow], instance: int, why: int, ended_s: int) -> str | None:
    """The cause of the end of a run that the cell or a user ended, as a sentence; None: it ended by itself, or for
    other work.
    """
    if why == RunCause.RUN_LIMIT:
        return f"ran for as long as it may{_max_runtime(job)}"
    if why != RunCause.STOP:
        return _ENDED_BY.get(RunCause(why))
    at, end = np.array([instance]), np.array([ended_s])
    said = next((stop.reason for stop in stops if stopped_by(stop, at, end).any()), "")
    return f"stopped by a user{': ' * bool(said)}{said}"


def stopped_by(stop: StopRow, instances: I64, ended_s: I64) -> NDArray[np.bool_]:
    """Tells which of some instances, whose runs were over at a second, a stop may have ended: the newest such did."""
    found = ended_s >= stop.at_ms // 1000
    return found & np.isin(instances, spread(ints(stop.first), ints(stop.count))) if stop.first else found


def of_killed(job: JobRow, stops: Sequence[Stopped]) -> Iterator[Reason]:
    """Why tasks of a job are killed: they wait for nothing. `stops`: those by which some are, the last first."""
    if job.overran:
        reason = _over(Code.RUN_LIMIT, job, job.overran)
        yield reason._replace(text=reason.text + _max_runtime(job), remedy=Remedy(YOU, _longer(job)))
    if job.stopped:
        reason = _over(Code.STOPPED, job, job.stopped)
        when = [f"at {at(stop.at_ms)}{': ' * bool(stop.reason)}{stop.reason}" for stop, _ in stops]
        if len(when) == 1:
            reason = reason._replace(text=f"{reason.text} {when[0]}")
        elif when:
            each = "; ".join(f"{count} {each}" for (_, count), each in zip(stops, when, strict=True))
            reason = reason._replace(text=f"{reason.text}: {each}")
        yield reason._replace(since_ms=stops[0].stop.at_ms) if stops else reason
    rest = job.killed - job.overran - job.stopped
    if rest > 0 and job.controller:
        yield _over(Code.CONTROLLER_OVER, job, rest)


def _over(code: Code, job: JobRow, count: int) -> Reason:
    some = f"{count} of {job.tasks} {'tasks' if job.kind == 'batch' else 'instances'}"
    return of_code(code, "lifecycle", {**counted(count), "some": some, "job_id": job.job_id}, job.ended_ms)


def _longer(job: JobRow) -> str:
    if job.kind != "batch":
        return "update the job to a longer max_runtime"
    return f"change max_runtime in the file, then {resubmit(job)}"


def resubmit(job: JobRow) -> str:
    """The way to change a batch job, which takes no updates."""
    over = "" if job.ended_ms else "when the job has ended "
    return f"{over}`paceline job delete {job.job_id}` and submit it again"


def _max_runtime(job: JobRow) -> str:
    return f" (max_runtime {write_ms(job.max_runtime_ms)})" if job.max_runtime_ms else ""
