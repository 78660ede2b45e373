"""The resources that a cell knows, and amounts of them as users write them."""

from typing import Any

import msgspec
from sqlalchemy import Connection, select

from events.quantities import write_amounts
from events.records.parts import ResourceKind
from events.resources import Amounts, Kinds
from projections.views import tables
from projections.views.rows import RESOURCES_META

_added = msgspec.json.Decoder(list[ResourceKind])


def kinds_of(connection: Connection) -> Kinds:
    """The kinds of the cell."""
    column = tables.meta.c
    value = connection.execute(select(column.value).where(column.name == RESOURCES_META)).scalar()
    return Kinds(_added.decode(value) if value else ())


def kinds_json(kinds: Kinds) -> list[dict[str, Any]]:
    """Each kind: its name, its unit, and of a licence what the whole cell has."""
    rows = [{"name": name, "unit": unit} for name, unit in kinds.units.items()]
    licences = write_amounts(kinds.licences, kinds.units)
    return [row | ({"amount": licences[row["name"]]} if row["name"] in licences else {}) for row in rows]


def offered_json(offered: Amounts, kinds: Kinds) -> dict[str, Any]:
    """What a host lends to tasks, and the names of what it offers in vain."""
    ignored = [name for name in offered if name in kinds.licences or name not in kinds.units]
    used = {name: amount for name, amount in offered.items() if name not in ignored}
    return {"capacity": write_amounts(used, kinds.units), "ignored_resources": ignored}


def shares_json(share: Amounts, default: int, kinds: Kinds) -> dict[str, int]:
    """The weight of a pool in each resource of the cell, and in those to come."""
    return {name: share.get(name, default) for name in kinds.names} | {"others": default}
