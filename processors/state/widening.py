"""Rows with amounts of resources, when the cell knows more kinds of these.

A vector has a number for each kind that the cell knows, in their order; new kinds come last. A row with vectors says
how it is with more of them, and all rows of a machine are widened at once, at the record that adds the kinds.
"""

from typing import Any, Protocol, Self

from events.resources import Kinds
from processors.state.table import Table


class Widening(Protocol):
    """A row with vectors."""

    def widened(self, kinds: Kinds) -> Self:
        """The row as it is when the cell knows more kinds."""
        ...


def widen(kinds: Kinds, *tables: Table[Any, Any]) -> None:
    """Widens all rows of some tables (`Widening`)."""
    for table in tables:
        for key, row in list(table.items()):
            table.put(key, row.widened(kinds))
