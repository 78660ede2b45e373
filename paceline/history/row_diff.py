"""Rows that two states differ in, for people: the fields that differ, or of a row of columns the slots that do."""

from typing import Any

import msgspec

from paceline.client.json_type import Json
from paceline.client.operation_models import RowChange
from processors.machine import Machine
from processors.runtime.divergence import RowDifference
from processors.state.table import Table


def row_body(row: RowDifference, machine: Machine) -> RowChange:
    """As JSON has it. `machine`: of the kind whose row it is; its own rows are not looked at."""
    table = next((table for table in machine.tables if table.name == row.table), None)
    old, new = (_side(table, row.key, packed) for packed in (row.recorded, row.decided))
    names = [name for name in {**(old or {}), **(new or {})} if (old or {}).get(name) != (new or {}).get(name)]
    recorded, decided = (side and {name: side[name] for name in names if name in side} for side in (old, new))
    key = table.read(row.key, row.recorded or row.decided or b"")[0] if table is not None else row.key.hex()
    return {"table": row.table, "key": key, "recorded": recorded, "decided": decided}


def _side(table: Table[Any, Any] | None, key: bytes, packed: bytes | None) -> Json | None:
    """The fields of a row, by name; None: there is no row."""
    if packed is None:
        return None
    if table is None:
        return {"bytes": packed.hex()}
    row = table.read(key, packed)[1]
    if table.columns:
        lines = zip(table.columns, row.tolist(), strict=True)
        return {f"{name}[{slot}]": value for name, line in lines for slot, value in enumerate(line)}
    fields = getattr(row, "__struct_fields__", None)
    return {name: _plain(getattr(row, name)) for name in fields} if fields else {"row": _plain(row)}


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else msgspec.to_builtins(value)
