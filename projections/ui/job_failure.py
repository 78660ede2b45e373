"""The last failure of a job for its page: which attempt it was, how it ended, and when it is tried again."""

from sqlalchemy import Connection

from events.codes import TaskState
from projections.queries import tasks as task_queries
from projections.queries.last_failure import last_failure, words_of
from projections.queries.runs import task_runs
from projections.ui.format import lasts, ms_of
from projections.ui.page_values import PageValues
from projections.views.job_states import OVER
from projections.views.rows import JobRow

RECOVERED_MS = 3_600_000
"""A task that has run for so long again has got over its failure."""


def failure_shown(connection: Connection, row: JobRow, now_ms: int) -> PageValues | None:
    """The last failure; None: there was none, or the task has got over it."""
    failure = last_failure(connection, row)
    if failure is None or not (failure.attempts or row.state in OVER):
        return None
    task = task_queries.task(connection, row, failure.instance)
    state = task["state"] if task else ""
    since_ms = ms_of(task["since"]) if task else 0
    if (state == TaskState.RUNNING.name and now_ms - since_ms > RECOVERED_MS) or state == TaskState.SUCCEEDED.name:
        return None
    following = "not tried again" if row.state in OVER else f"it is {state.lower()}"
    if failure.waits:
        following = f"in {lasts(failure.due_ms - now_ms)}" if failure.due_ms > now_ms else "at once"
    elif state == TaskState.RUNNING.name:
        following = f"runs again for {lasts(now_ms - since_ms)}"
    runs = task_runs(connection, row, failure.instance)
    ended = next((run["ended_at"] for run in runs if run["run"] == row.failed_run), None)
    return {
        "instance": failure.instance,
        "run": row.failed_run,
        "text": words_of(failure),
        "age": f"{lasts(now_ms - ms_of(ended))} ago" if ended else "",
        "ended_at": ended,
        "attempts": failure.attempts,
        "next": following,
        "again": state == TaskState.RUNNING.name,
    }
