"""The details of a run beside its state: its health, how its process ended, and what that used."""

from collections.abc import Mapping, Sequence
from signal import Signals
from typing import Any

from sqlalchemy import Connection, select

from events.codes import Outcome, RunReport, TaskState
from paceline.client.json_type import Json
from paceline.client.models import ProcessDetails
from projections.views import tables
from projections.views.rows import JobRow

_USED = ("cpu_ms", "memory_kib", "throttled_ms", "read_kib", "written_kib")
_REPORTED = ("reason", "signal", "out_of_memory", *_USED)
EXITED = (Outcome.SUCCEEDED, Outcome.FAILED)
_SIGNALS = frozenset(map(int, Signals))


def run_details(connection: Connection, job: JobRow, runs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Json]:
    """The reports of hosts about runs of a job, named by instance, ascending, and run: of each field the last word."""
    rows, by_run = tables.run_reports.c, dict[tuple[int, int], Json]()
    if not runs:
        return by_run
    query = select(rows.instance, rows.run, rows.state, rows.exit_code, *(rows[name] for name in _REPORTED)).where(
        rows.job_id == job.job_id,
        rows.instance.between(runs[0][0], runs[-1][0]),
        rows.run >= min(run for _, run in runs),
        rows.state != RunReport.PREPARING,
    )
    for instance, run, state, exit_code, *values in connection.execute(query.order_by(rows.offset)):
        details = by_run.setdefault((instance, run), {})
        details.update((name, value) for name, value in zip(_REPORTED, values, strict=True) if value)
        if exit_code >= 0:
            details["exit_code"] = exit_code
        if state == RunReport.UNHEALTHY:
            details["health"] = RunReport.UNHEALTHY.name
    return by_run


def exit_code_of(outcome: int, decided: int, reported: Mapping[str, Any]) -> int | None:
    """The exit code of a run: decided where it ended by itself, else as its host has reported it."""
    code: int | None = decided if outcome in EXITED and decided >= 0 else reported.get("exit_code")
    return code


def task_details(job: JobRow, state: int, reported: Mapping[str, Any]) -> ProcessDetails:
    """The fields of a task that tell of its last run; `said`: what its host has said of it."""
    number = reported.get("signal")
    return {
        "health": _health(job, state, reported),
        "signal": (Signals(number).name.removeprefix("SIG") if number in _SIGNALS else str(number)) if number else None,
        "out_of_memory": bool(reported.get("out_of_memory")),
        "cpu_ms": reported.get("cpu_ms"),
        "memory_kib": reported.get("memory_kib"),
        "throttled_ms": reported.get("throttled_ms"),
        "read_kib": reported.get("read_kib"),
        "written_kib": reported.get("written_kib"),
    }


def _health(job: JobRow, state: int, reported: Mapping[str, Any]) -> str | None:
    """The health of a run with a health check, as far as it is known: lifecycle takes it for available once it is
    healthy.
    """
    if not job.health:
        return None
    if state in (TaskState.ORDERED, TaskState.RUNNING):
        return RunReport.HEALTHY.name if state == TaskState.RUNNING else "UNKNOWN"
    return reported.get("health")
