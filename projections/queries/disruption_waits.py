"""The runs of a job that sla doesn't let go now, by code: with the numbers, and what would free them."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from events.codes import Code, RunCause
from paceline.client.sla_models import SlaWait
from projections.queries.pages import rows_of
from projections.queries.reason import counted, text_of
from projections.record_json import at
from projections.views import tables
from projections.views.maintenance_rows import DeferralRow, DisruptionRow


def waits_of_job(connection: Connection, job_id: str, tasks: int) -> list[SlaWait]:
    """The waits of a job with so many tasks, by code."""
    runs, deferrals = tables.disruptions, tables.deferrals
    query = select(runs).where(runs.c.job_id == job_id, runs.c.run > 0, runs.c.code != "")
    rows = [row for row in rows_of(connection, DisruptionRow, query) if row.judged_run == row.run]
    if not rows:
        return []
    query = select(deferrals).where(deferrals.c.job_id == job_id)
    numbers = {row.code: row for row in rows_of(connection, DeferralRow, query)}
    return [
        _wait(code, [row for row in rows if row.code == code], numbers.get(code), tasks)
        for code in sorted({row.code for row in rows})
    ]


def _wait(code: str, rows: Sequence[DisruptionRow], numbers: DeferralRow | None, tasks: int) -> SlaWait:
    message = text_of(code, counted(len(rows)))
    message += f" ({numbers_text(numbers, tasks)})" if numbers else ""
    first = min(rows, key=lambda row: row.since_s)
    return {
        "code": code,
        "message": message,
        "tasks": len(rows),
        "cause": RunCause(first.why).name if first.why else "",
        "since": at(first.since_s * 1000),
        "until": at(numbers.until_s * 1000) if numbers else None,
    }


def numbers_text(deferral: DeferralRow, instances: int) -> str:
    """The numbers of a verdict in words: `1 of 20 unavailable, 1 may be`."""
    of = f" of the group {deferral.group}" if deferral.group else f" of {instances}"
    text = f"{deferral.unavailable}{of} unavailable, {deferral.max_unavailable} may be"
    if deferral.code == Code.SLA_RATE_REACHED:
        text = f"{deferral.unavailable} in an hour, {deferral.max_unavailable} may be"
    return f"{text}, next at {at(deferral.until_s * 1000)}" if deferral.until_s else text
