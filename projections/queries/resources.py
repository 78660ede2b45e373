"""The resources that a cell knows, and amounts of them as users write them."""

from collections.abc import Sequence
from functools import lru_cache

import msgspec
from sqlalchemy import Connection

from events.cell_settings import DEFAULTS, Settings
from events.codes import Code
from events.quantities import write_amounts
from events.resources import Amounts, Kinds, Unit
from paceline.client.cell_models import Resource
from paceline.client.host_models import HostOffer, IgnoredResource
from projections.views.reader import rows_as_text
from projections.views.rows import SETTINGS_META

_settings = msgspec.json.Decoder(Settings)
_SETTINGS = "SELECT value FROM meta WHERE name = ?"


def settings_of(connection: Connection) -> Settings:
    """The settings of the cell."""
    return next((_settings_in(value) for (value,) in rows_as_text(connection, _SETTINGS, (SETTINGS_META,))), DEFAULTS)


def kinds_of(connection: Connection) -> Kinds:
    """The kinds of the cell."""
    return _kinds(settings_of(connection).resources)


_kinds = lru_cache(16)(Kinds)


@lru_cache(16)
def _settings_in(value: str) -> Settings:
    return _settings.decode(value) if value else DEFAULTS


def kinds_json(kinds: Kinds) -> list[Resource]:
    """The kinds of resources of a cell, and of a licence the amount in the whole cell."""
    licences = write_amounts(kinds.licences, kinds.units)
    rows: list[Resource] = []
    for name, unit in kinds.units.items():
        row: Resource = {"name": name, "unit": unit}
        if name in licences:
            row["amount"] = licences[name]
        rows.append(row)
    return rows


def offered_json(offered: Amounts, sizes: Sequence[str], kinds: Kinds) -> HostOffer:
    """The amounts that a host lends to tasks, and the ignored ones, each with the reason; `sizes`: of what it offers
    that is in MiB, beside memory and disk.
    """
    ignored = kinds.ignored(offered, sizes)
    used = {name: amount for name, amount in offered.items() if name not in ignored}
    why: list[IgnoredResource] = [
        {"name": name, "code": str(code), "message": _ignored_text(code, kinds.units.get(name))}
        for name, code in ignored.items()
    ]
    return {"capacity": write_amounts(used, kinds.units), "ignored_resources": why}


def _ignored_text(code: Code, unit: Unit | None) -> str:
    """Tells why an offer is ignored, and what would change it; `unit`: that of the cell."""
    match code:
        case Code.UNKNOWN_RESOURCE:
            return "the cell doesn't know it; `paceline cell set --resource` defines it"
        case Code.LICENCE:
            return "the cell has it as a licence, which no host offers"
    form = "a size, such as 2GiB" if unit is Unit.MIB else "a number, such as 2"
    return f"the cell counts it otherwise; the host must offer {form}"


def shares_json(share: Amounts, default: int, kinds: Kinds) -> dict[str, int]:
    """The weight of a pool in each resource of the cell, and in those to come."""
    return {name: share.get(name, default) for name in kinds.names} | {"others": default}
