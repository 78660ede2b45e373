"""Rows of entitlement of 0.3 in a later format (docs/decisions/032)."""

from collections.abc import Iterator

import msgspec
import numpy as np

from events.cell_settings import DEFAULTS
from events.ranks import Rank
from processors.entitlement.queues.parts import COLUMNS
from processors.entitlement.rows import AskRow, CellRow, PoolRow
from processors.state.conversion import Rows, with_defaults
from processors.state.shapes import shape_of_0_3
from processors.state.table import RowChange

_WAS = (
    "owner",
    "shape",
    "queued",
    "held",
    "ended",
    "leaving",
    "entitled",
    "placed",
    "due_s",
    "placed_s",
    "number",
    "parked",
)
_PARKED = np.array((Rank.WAITING, Rank.PARKING, Rank.PARKED), dtype="<i4")
"""By the column `parked`; one that had 0 there was what `entitled` says, with the numbers of `Rank`."""
_PARTS, _REFUSAL = 9, 8
"""Where a row of a job has its parts, and a part what it was told."""
_SINCE = 6
"""Where a row of an order had the time of it, and has when its runs are late."""


_defaults = with_defaults({"pools": PoolRow, "cell": CellRow, "asks": AskRow})


def from_0_3(rows: Rows) -> Iterator[RowChange]:
    """Rows of the format 10 of those of 9: a task has one rank, a part has what it was told as code and pool, a pool
    what its revocable work may hold, the cell its host pools, and an order when its runs are late. The cell comes
    before orders.
    """
    hold_for_ms = DEFAULTS.hold_for_ms
    for row in _defaults(rows):
        if row.row is not None and row.table == "shapes":
            row = row._replace(row=shape_of_0_3(row.row))
        elif row.row is not None and row.table == "tasks":
            row = row._replace(row=_tasks(row.row))
        elif row.row is not None and row.table == "jobs":
            row = row._replace(row=_job(row.row))
        elif row.row is not None and row.table == "cell":
            hold_for_ms = msgspec.msgpack.decode(row.row, type=CellRow).settings.hold_for_ms
        elif row.row is not None and row.table == "orders":
            order = msgspec.msgpack.decode(row.row)
            order[_SINCE] += hold_for_ms
            row = row._replace(row=msgspec.msgpack.encode(order))
        yield row


def _tasks(row: bytes) -> bytes:
    columns = dict(zip(_WAS, np.frombuffer(row, dtype="<i4").reshape(len(_WAS), -1), strict=True))
    parked = columns["parked"]
    columns["rank"] = np.where(parked > 0, _PARKED[parked], columns["entitled"])
    return np.stack([columns[name] for name in ("owner", *COLUMNS)]).astype("<i4").tobytes()


def _job(row: bytes) -> bytes:
    job = msgspec.msgpack.decode(row, strict=False)
    for part in job[_PARTS].values():
        code, _, at = part[_REFUSAL].partition(" ")
        part[_REFUSAL] = [code, at] if code else None
    return msgspec.msgpack.encode(job)
