"""Rows of 0.3 are gone on with: converted they are those that the machine has now."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import msgspec
import numpy as np

from events.codes import Code
from events.ranks import Rank
from events.records.pools import PoolDefined, RoleBound
from processors.entitlement.machine import Entitlement
from processors.entitlement.queues.parts import COLUMNS
from processors.entitlement.rows import RefusalRow
from processors.runtime.driver import Driver
from processors.runtime.replay import replay
from processors.runtime.store import RocksStore
from processors.state.conversion import Conversions, conversion
from processors.state.table import RowChange, Table
from tests.helpers.drawn import seeds
from tests.helpers.stored_cell import Counting, Ticking
from tests.helpers.written_cell import Cell
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
    converted = conversion(machine.conversions, 9, machine.state)
    assert converted is not None
    assert list(converted(as_in_0_3(row, machine.cell.settings.hold_for_ms) for row in rows)) == rows


class Before(Entitlement):
    """Entitlement as it was before it kept who may what."""

    state: ClassVar[int] = 10
    conversions: ClassVar[Conversions] = {}

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        return [table for table in super().tables if table.name not in ("bindings", "tokens", "lockdowns")]


def test_a_store_from_before_roles_is_gone_on_with(tmp_path: Path) -> None:
    cell = Cell(machines=("lifecycle", "placement", "sla"))
    for number, path in enumerate(("/maps", "/ads")):
        cell.fact(PoolDefined(path=path, command_id=f"p{number}"))

    def run(machine: Entitlement, log: Counting) -> bytes:
        driver = Driver(machine, log, RocksStore(tmp_path), Ticking(), "next")
        for _ in driver.recover():
            pass
        while driver.run():
            pass
        driver.close()
        return driver.fold.state.hash

    run(Before(), Counting(cell.log))
    cell.fact(RoleBound(command_id="b", binding_id="b", subject="ann", role="viewer", pool="/maps"))
    counting, machine = Counting(cell.log), Entitlement()
    hash_ = run(machine, counting)
    assert counting.read["paceline.pools"] == 1, "the facts of before weren't read again"
    assert [*machine.commands.access.bindings] == ["b"]
    assert run(Entitlement(), Counting(cell.log)) == hash_
    again = replay(Entitlement(), cell.log)
    assert (again.difference, again.hash) == (None, hash_)
