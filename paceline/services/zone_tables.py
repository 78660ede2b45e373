"""Windows whose tables of time zones end soon: machines have none of their own, so that windows must be set again."""

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from sqlalchemy import Connection, select

from events.codec import decode
from events.records.hosts import MaintenanceWindowSet
from events.records.parts import SlaPolicy
from paceline.services.kept_views import kept_views
from projections.record_json import at
from projections.views import tables

SOON_S = 365 * 86_400


def ending(data: Path, only: int | None = None) -> list[str]:
    """A sentence for each window of hosts or of a job of a data folder whose table ends within a year, or has ended;
    where views are kept there, those of one cell alone or of all.
    """
    return [sentence for connection in kept_views(data, only) for sentence in _of(connection)]


def _of(connection: Connection) -> Iterator[str]:
    soon_s = int(time.time()) + SOON_S
    for window_id, until_s in _of_hosts(connection):
        if 0 < until_s < soon_s:
            yield (
                f"The cell knows the time zone of maintenance window {window_id} until {at(until_s * 1000)}. "
                "Set it again: `paceline maintenance window set FILE`."
            )
    for job_id, until_s in _of_jobs(connection):
        if 0 < until_s < soon_s:
            yield (
                f"The cell knows the time zone of a window of job {job_id} until {at(until_s * 1000)}. "
                "Update the job: `paceline job update FILE`."
            )


def _of_hosts(connection: Connection) -> Iterator[tuple[str, int]]:
    rows = tables.maintenance_windows.c
    for window_id, value in connection.execute(select(rows.window_id, rows.fact).order_by(rows.window_id)):
        fact = decode(value)
        assert isinstance(fact, MaintenanceWindowSet)
        yield window_id, fact.zone.until_s


def _of_jobs(connection: Connection) -> Iterator[tuple[str, int]]:
    rows = tables.slas.c
    query = select(rows.job_id, rows.policy).where(rows.policy.contains('"until_s"')).order_by(rows.job_id)
    for job_id, text in connection.execute(query):
        windows = msgspec.json.decode(text, type=SlaPolicy).windows
        yield job_id, min((each.zone.until_s for each in windows if each.zone.until_s), default=0)
