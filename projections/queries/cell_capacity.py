"""The capacity of a cell, as placement said it last."""

import msgspec
from sqlalchemy import Connection, select

from events.resources import Amounts
from projections.views import tables
from projections.views.rows import CAPACITY_META


class Capacity(msgspec.Struct, frozen=True):
    """The capacity of a cell."""

    amounts: Amounts
    hosts: int


def capacity_of(connection: Connection) -> Capacity:
    """The capacity of the cell: its hosts together, and its licences."""
    column = tables.meta.c
    value = connection.execute(select(column.value).where(column.name == CAPACITY_META)).scalar()
    return msgspec.json.decode(value, type=Capacity) if value else Capacity({}, 0)
