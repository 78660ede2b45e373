"""The number of tasks of a job that are over by each stop of a user."""

from collections.abc import Sequence

import numpy as np
from sqlalchemy import Connection

from events.codes import RunCause, TaskState
from projections.queries.end_reasons import Stopped, stopped_by
from projections.queries.tasks import TASK_PLACES, columns_of
from projections.views.rows import JobRow
from projections.views.run_rows import StopRow


def counted_stops(connection: Connection, job: JobRow, stops: Sequence[StopRow]) -> list[Stopped]:
    """The stops by which tasks are over, the last first. `stops`: all of the job, the last first."""
    if len(stops) <= 1:
        return [Stopped(stop, job.stopped) for stop in stops]
    columns = columns_of(connection, job, np.arange(job.instances))
    state, why, ended_s = (columns[TASK_PLACES[name]] for name in ("state", "why", "ended_s"))
    rest = np.flatnonzero((state == TaskState.KILLED) & (why == RunCause.STOP)).astype(np.int64)
    out = []
    for stop in stops:
        mine = stopped_by(stop, rest, ended_s[rest].astype(np.int64))
        if mine.any():
            out.append(Stopped(stop, int(np.count_nonzero(mine))))
        rest = rest[~mine]
    return out
