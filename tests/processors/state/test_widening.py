"""All rows with amounts are widened at once, and each by itself says how."""

import msgspec

from events.records.parts import ResourceKind
from events.resources import Kinds, Vector
from processors.state.table import struct_table
from processors.state.widening import widen


class Row(msgspec.Struct, frozen=True, array_like=True):
    name: str
    amount: Vector

    def widened(self, kinds: Kinds) -> "Row":
        return Row(self.name, kinds.widened(self.amount))


def test_rows_have_a_number_for_each_kind_and_are_said_to_have_changed() -> None:
    table, other = struct_table("one", Row), struct_table("other", Row)
    for each in (table, other):
        each.put("a", Row("x", (1, 2, 3, 4)))
        each.take_changes()
    widen(Kinds([ResourceKind("fpga")]), table, other)
    assert (table["a"], other["a"]) == (Row("x", (1, 2, 3, 4, 0)),) * 2
    assert [each.table for each in table.take_changes()[0]] == ["one"]
