"""Rows of lifecycle of 0.3 as it keeps them now (decision 032)."""

from collections.abc import Iterator

from processors.lifecycle.rows import AskRow, HostRow, JobRow, SuspectRow
from processors.lifecycle.updates.rows import UpdateRow, VersionRow
from processors.state.arena import BLOCK
from processors.state.conversion import Rows, with_defaults
from processors.state.table import RowChange

_NEW_COLUMNS = bytes(3 * BLOCK * 4)
"""`since` and `asked`: when a planned end was first asked for, and as what, nobody kept. And `surplus`, of which there
was none.
"""
_with_defaults = with_defaults(
    {
        "asks": AskRow,
        "hosts": HostRow,
        "jobs": JobRow,
        "suspects": SuspectRow,
        "updates": UpdateRow,
        "versions": dict[int, VersionRow],
    }
)


def from_0_3(rows: Rows) -> Iterator[RowChange]:
    """Rows of the format 15 of those of 14: what speaks against a host names a run, hosts may be silent, lost or in
    maintenance, instances are to find a place in time, an SLA says more than a number, and asks have an age.
    """
    for row in _with_defaults(rows):
        yield row._replace(row=row.row + _NEW_COLUMNS) if row.table == "tasks" and row.row is not None else row
