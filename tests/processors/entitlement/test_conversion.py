"""Rows of 0.3 are gone on with: converted they are those that the machine has now."""

from random import Random

import msgspec
import numpy as np

from events.codes import Code
from events.ranks import Rank
from processors.entitlement.conversion import from_0_3
from processors.entitlement.queues.parts import COLUMNS
from processors.entitlement.rows import RefusalRow
from processors.state.table import RowChange
from tests.helpers.drawn import seeds
from tests.processors.restored.histories import KINDS


def as_in_0_3(row: RowChange, hold_for_ms: int) -> RowChange:
    """A row as 0.3 had it: with two columns for the rank of a task, and what a part was told as a text."""
    assert row.row is not None
    if row.table == "tasks":
        names = ("owner", *COLUMNS)
        columns = dict(zip(names, np.frombuffer(row.row, dtype="<i4").reshape(len(names), -1), strict=True))
        rank = columns["rank"]
        columns["rank"] = np.where(rank > Rank.BORROWED, Rank.ENTITLED, rank)
        parked = (rank == Rank.PARKING) + 2 * (rank == Rank.PARKED)
        return row._replace(row=np.stack([*columns.values(), parked]).astype("<i4").tobytes())
    if row.table == "jobs":
        job = msgspec.msgpack.decode(row.row)
        for part in job[9].values():
            part[8] = " ".join(part[8]) if part[8] else ""
        return row._replace(row=msgspec.msgpack.encode(job))
    if row.table == "orders":
        order = msgspec.msgpack.decode(row.row)
        order[6] -= hold_for_ms
        return row._replace(row=msgspec.msgpack.encode(order))
    return row


@seeds(12, 3)
def test_rows_of_0_3_are_gone_on_with(seed: int) -> None:
    history = KINDS["entitlement"](Random(seed))
    history.play(60)
    machine = history.world.machine
    machine.queues.arena.set("rank", np.arange(2), np.array((Rank.PARKING, Rank.PARKED)))
    for row in list(machine.queues.jobs.values())[:1]:
        next(iter(row.parts.values())).refusal = RefusalRow(Code.LIMIT_REACHED, "/a b")
    rows = []
    for table in machine.tables:
        for key in list(table):
            table.change(key)
        rows += table.take_changes()[0]
    assert list(from_0_3(as_in_0_3(row, machine.cell.settings.hold_for_ms) for row in rows)) == rows
