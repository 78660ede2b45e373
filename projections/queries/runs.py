"""The runs of a task as the API shows them."""

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from events.codes import LIVE_TASKS, Outcome, RunCause, TaskState
from paceline.client.models import Run
from projections.queries.devices import NO_DEVICES, task_devices
from projections.queries.end_reasons import ended_by, stops_of
from projections.queries.pages import rows_of
from projections.queries.run_details import exit_code_of, run_details, task_details
from projections.queries.tasks import TASK_PLACES, columns_of, host_names, winners
from projections.record_json import at
from projections.views import tables
from projections.views.rows import JobRow
from projections.views.run_rows import PastRunRow

ENDED = "ENDED"
"""The state of a run that is over."""


def task_runs(connection: Connection, job: JobRow, instance: int) -> list[Run]:
    """The runs of a task that are kept, the newest first: those that a host was told of."""
    past_runs = tables.past_runs
    query = (
        select(past_runs)
        .where(past_runs.c.job_id == job.job_id, past_runs.c.instance == instance)
        .order_by(past_runs.c.run.desc())
    )
    rows: list[PastRunRow] = rows_of(connection, PastRunRow, query)
    state, present = _present(connection, job, instance)
    rows = [*present, *rows]
    details = run_details(connection, job, [(instance, row.run) for row in rows])
    names = host_names(connection, {row.host for row in rows})
    preempted = any(row.outcome == Outcome.PREEMPTED for row in rows)
    won = winners(connection, job) if preempted else {}
    stops = stops_of(connection, [job]).get(job.job_id, ()) if any(row.why == RunCause.STOP for row in rows) else ()
    of_present = [(instance, each.run) for each in present]
    devices = task_devices(connection, job.job_id, of_present).get(instance, NO_DEVICES)
    out: list[Run] = []
    for row in rows:
        winner = won.get((instance, row.run)) if row.outcome == Outcome.PREEMPTED else None
        reported, live = (
            details.get((instance, row.run), {}),
            bool(present) and row is present[0] and state in LIVE_TASKS,
        )
        task_state = state if live else TaskState.NONE
        out.append(
            {
                "run": row.run,
                "state": TaskState(state).name if live else ENDED,
                "version": row.version,
                "host_id": names.get(row.host),
                "outcome": Outcome(row.outcome).name if row.outcome else None,
                "exit_code": exit_code_of(row.outcome, row.exit_code, reported),
                "cause": RunCause(row.why).name if row.why else None,
                "reason": reported.get("reason") or winner or ended_by(job, stops, instance, row.why, row.ended_s),
                **task_details(job, task_state, reported),
                "ordered_at": at(row.ordered_s * 1000),
                "started_at": at(row.started_s * 1000),
                "ended_at": at(row.ended_s * 1000),
                **(devices if present and row is present[0] else NO_DEVICES),
            }
        )
    return out


def _present(connection: Connection, job: JobRow, instance: int) -> tuple[int, list[PastRunRow]]:
    """The state of a task, and its last run if it is the one that the columns are about: a run that waits for a host
    has none yet.
    """
    if job.base < 0 or instance >= job.instances:
        return TaskState.NONE, []
    column = columns_of(connection, job, np.array([instance]))[:, 0].tolist()
    values = {name: column[place] for name, place in TASK_PLACES.items()}
    fields = [field.name for field in msgspec.structs.fields(PastRunRow)][2:]
    row = PastRunRow(job.job_id, instance, *(values[name] for name in fields))
    return values["state"], [row] if row.host else []
