"""Room that 0.3 kept for units is kept on."""

from typing import Any

import msgspec

from events.codes import Code
from processors.placement.conversion import from_0_3
from processors.placement.room.table import RoomRow
from processors.state.table import RowChange
from tests.processors.placement.sharing import Giver, Shared, Taker, asks

PLACES = [1, 1, ["h"], [1], [0]]
KEY = msgspec.msgpack.encode(("a", 0))


def made_of(**tables: list[Any]) -> dict[tuple[str, bytes], RoomRow]:
    """The rows that come of these of 0.3."""
    old = [RowChange(table, KEY, msgspec.msgpack.encode(fields)) for table, fields in tables.items()]
    decode = msgspec.msgpack.Decoder(RoomRow).decode
    return {(row.table, row.key): decode(row.row) for row in from_0_3(old) if row.row is not None}


def test_a_plan_goes_on_as_it_was() -> None:
    world = Shared()
    world.host("h", cpu=1000)
    world.run("soft")
    world.run("a", pool="/a")
    assert asks(world.right(Taker("a", pool="/a"), Giver("/p")))
    (now,) = world.machine.sharing.room.table.values()
    was = [now.count, now.run, now.hosts, now.tasks, now.shapes, now.by, now.until_ms, now.order, now.victims]
    assert made_of(plans=was) == {("room", KEY): now}
    assert now.victims == {"soft": [0]}


def test_a_reservation_goes_on_unless_it_is_over() -> None:
    reserved = made_of(reservations=[*PLACES, 9000, {"cpu": 500}, ""])
    assert reserved == {
        ("room", KEY): RoomRow(*PLACES, Code.HOSTS_RESERVED, 9000, reported={"cpu": 500})  # type: ignore[arg-type]
    }
    assert made_of(reservations=[*PLACES, 9000, {}, Code.PLACED]).keys() == {("room_over", KEY)}


def test_a_reservation_ends_where_others_leave_for_its_unit() -> None:
    both = made_of(reservations=[*PLACES, 9000, {}, ""], plans=[*PLACES, None, 9000, 7, {}])
    assert both["room", KEY].order == 7
    assert both["room_over", KEY].over == Code.WITHDRAWN
