"""The rows of views as they are compared: the same for the same log, whatever the transactions that wrote them."""

from typing import Any

from sqlalchemy import Connection, Table, select

from projections.views import tables
from projections.views.job_records import JobEntry, entries_in

HISTORY = ("job_id", *JobEntry._fields)
"""Columns of the histories of jobs that are compared: entries, however they fall into rows."""


def rows_of(connection: Connection, table: Table) -> list[tuple[Any, ...]]:
    """The rows of a table, in no order."""
    if table is not tables.history:
        return [tuple(row) for row in connection.execute(select(table))]
    query = select(tables.history.c.job_id, tables.history.c.entries)
    return [(job_id, *entry) for job_id, data in connection.execute(query) for entry in entries_in(data)]
