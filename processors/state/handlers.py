"""The table of a machine that names the handlers of each kind of record."""

from collections.abc import Callable
from typing import Any

from events.records.base import Event

Handler = Callable[[Any, int], object]
"""Takes a record of one kind and its time in logical milliseconds: that at which a fact was written, or that of the
round of a decision. The position of the record stands in `CurrentInput`.
"""
Handlers = tuple[Handler, ...]
Row = tuple[type[Event], *Handlers]
"""A kind of record, and its handlers in the order in which they are called."""


def handler_table(*rows: Row) -> dict[type[Event], Handlers]:
    """The handlers by kind of record. Raises ValueError where two rows are of one kind: its handlers and their order
    stand in one place.
    """
    table: dict[type[Event], Handlers] = {}
    for kind, *handlers in rows:
        if kind in table:
            raise ValueError(f"{kind.__name__} has two rows of handlers")
        table[kind] = tuple(handlers)
    return table
