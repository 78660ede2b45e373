"""Rows of lifecycle of 0.3 as it keeps them now (docs/decisions/032)."""

from collections.abc import Iterator

import msgspec

from processors.lifecycle.rows import SuspectRow
from processors.state.conversion import Rows
from processors.state.table import RowChange


def from_0_3(rows: Rows) -> Iterator[RowChange]:
    """Rows of the format 15 of those of 14: what speaks against a host names a run."""
    for row in rows:
        if row.table == "suspects" and row.row is not None:
            row = row._replace(row=msgspec.msgpack.encode(msgspec.msgpack.decode(row.row, type=SuspectRow)))
        yield row
