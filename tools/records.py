"""Writes `events/records/*.py` from the schemas: `python -m tools.records`, checked by a test.

The `.avsc` files are the source; the Python records are typed, frozen views of them. A field with `"column"` holds
little-endian integers of that type (decision 065); for each the record has a property NAME_array that reads it, and for
all together `pack`, which makes a record of arrays, lists or iterators:

* `"per": "resources"`: a row for each item, with as many values as the record has resources.
* `"empty": 0, "like": "job"`: no bytes stand for that value in each of as many items as the column `job` has. It is
  written so too, but where `"written"` is `"always"`.

What led to a decision stands in its fields of the type `Cause`, one or a list of them; `events/causes.py` reads them
(decision 031):

* `"each": "job"`: the list has a cause for each value of the column `job`, not for the whole decision.
* `"cause_in": "paceline.jobs"`: the number is the offset of the cause in that topic.
* `"newest_unless": ["RightsSet"]`: the causes are only the newest change that the machine knew, but where they are
  records of these kinds.
"""

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import schemas

PRIMITIVES = {"string": "str", "long": "int", "int": "int", "boolean": "bool", "bytes": "bytes", "null": "None"}
ARRAYS = {"int32": "I32", "int64": "I64"}
BYTES = {"int32": 4, "int64": 8}
PACKERS = {"int32": "ints", "int64": "longs"}
LIBRARIES = {"msgspec": "import msgspec", "np": "import numpy as np"}
HELPERS = ("I32", "I64", "INT32", "INT64", "Values", "pack_ints", "pack_longs", "pack_unless")
CAUSES = ("Cause", "Cause | None", "tuple[Cause, ...]")
"""The types of fields that say what led to a decision."""
BASES = ("Event", "InstancesEvent", "ItemsEvent", "RangesEvent")
OUTPUT = schemas.ROOT.parent / "events" / "records"


def annotation(avro: Any) -> str:
    """The Python type of an Avro type."""
    if isinstance(avro, list):
        return " | ".join(annotation(branch) for branch in sorted(avro, key=lambda b: b == "null"))
    if isinstance(avro, dict):
        if avro["type"] == "array":
            return f"tuple[{annotation(avro['items'])}, ...]"
        if avro["type"] == "map":
            return f"dict[str, {annotation(avro['values'])}]"
        return str(avro["name"])
    return PRIMITIVES.get(avro) or avro.removeprefix("paceline.")


def default(field: dict[str, Any]) -> str:
    """The default as Python source, ` = ...`, or nothing."""
    if "default" not in field:
        return ""
    value, avro = field["default"], field["type"]
    if isinstance(value, dict):
        return f" = msgspec.field(default_factory=lambda: {value!r})".replace("'", '"') if value else " = {}"
    if isinstance(value, list):
        return " = ()"
    if avro == "bytes":
        return f" = {value.encode('latin-1')!r}".replace("'", '"')
    return f" = {json.dumps(value)}" if isinstance(value, str) else f" = {value!r}"


def wrap(text: str, indent: int, width: int = 116) -> str:
    """A docstring of one or more lines."""
    pad = " " * indent
    if indent + len(text) + 6 <= width:
        return f'{pad}"""{text}"""\n'
    lines = textwrap.wrap(text, width - indent)
    return f'{pad}"""' + f"\n{pad}".join(lines) + f'\n{pad}"""\n'


def described(field: dict[str, Any]) -> str:
    """The text about a field; of a column also its type."""
    return f"{field['doc']} Column of {field['column']}." if "column" in field else str(field["doc"])


def nested(avro: Any) -> list[dict[str, Any]]:
    """The record definitions inside a type, innermost first."""
    if isinstance(avro, list):
        return [inner_record for branch in avro for inner_record in nested(branch)]
    if not isinstance(avro, dict):
        return []
    if avro["type"] == "record":
        inner = [inner_record for field in avro["fields"] for inner_record in nested(field["type"])]
        return [*inner, avro]
    return nested(avro.get("items", avro.get("values")))


def columns(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The fields of a record that are columns, by name."""
    return {field["name"]: field for field in schema["fields"] if "column" in field}


def base(schema: dict[str, Any], topic: str | None) -> str:
    """The class that a record extends: by the columns that name tasks."""
    if topic is None:
        return "NestedRecord"
    names = {field["name"] for field in schema["fields"]}
    packed = columns(schema).keys()
    if "job_ids" in names and packed >= {"job", "run"}:
        return "ItemsEvent" if "instance" in packed else "RangesEvent"
    return "InstancesEvent" if packed >= {"first", "count"} else "Event"


def reader(field: dict[str, Any], by_name: dict[str, dict[str, Any]]) -> str:
    """The property that reads a column."""
    name, kind = field["name"], field["column"]
    out = f"\n    @property\n    def {name}_array(self) -> {ARRAYS[kind]}:\n"
    read = f"np.frombuffer(self.{name}, {kind.upper()}, len(self.{name}) // {BYTES[kind]})"
    if "per" in field:
        read += f".reshape(-1, len(self.{field['per']}) or 1)"
    if "empty" not in field:
        return out + f"        return {read}\n"
    like = field["like"]
    filled = f"np.full(len(self.{like}) // {BYTES[by_name[like]['column']]}, {field['empty']}, {kind.upper()})"
    if "per" in field:
        filled += f".reshape(-1, len(self.{field['per']}) or 1)"
    return out + f"        if self.{name}:\n            return {read}\n        return {filled}\n"


def packed(field: dict[str, Any]) -> str:
    """The source of what a builder passes for a field."""
    name, kind = field["name"], field.get("column")
    if kind is None:
        is_mutable = isinstance(field.get("default"), dict)
        return f"{json.dumps(field['default'])} if {name} is None else {name}" if is_mutable else str(name)
    value = f"pack_{PACKERS[kind]}({name})"
    if "empty" in field and field.get("written") != "always":
        value = f"pack_unless({name}, {field['empty']}, {kind.upper()})"
    return f'b"" if {name} is None else {value}' if "default" in field else value


def builder(schema: dict[str, Any]) -> str:
    """The class method that makes a record of the values of its columns."""
    out = "\n    @classmethod\n    def pack(\n        cls,\n        *,\n"
    for field in schema["fields"]:
        is_column = "column" in field
        kind = "Values" if is_column else annotation(field["type"])
        is_optional = "default" in field and (is_column or isinstance(field["default"], dict))
        out += f"        {field['name']}: {kind}{' | None = None' if is_optional else default(field)},\n"
    out += "    ) -> Self:\n        return cls(\n"
    for field in schema["fields"]:
        out += f"            {field['name']}={packed(field)},\n"
    return out + "        )\n"


def cause_fields(schema: dict[str, Any]) -> dict[str, str]:
    """The fields that say what led to a decision; for each the topic of an offset or the column that chooses."""
    out = {}
    for field in schema["fields"]:
        if "cause_in" in field or annotation(field["type"]) in CAUSES:
            out[field["name"]] = field.get("cause_in") or field.get("each", "")
    return out


def class_variables(schema: dict[str, Any]) -> str:
    """The source of what all records of a class have in common."""
    out = ""
    if by_name := columns(schema):
        kinds = ", ".join(f'"{name}": {field["column"].upper()}' for name, field in by_name.items())
        out += f"\n    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {{{kinds}}}\n"
    if carried := cause_fields(schema):
        out += f"\n    cause_fields: ClassVar[Mapping[str, str]] = {json.dumps(carried)}\n"
    for field in schema["fields"]:
        if "newest_unless" in field:
            kinds = "".join(f'"{name}", ' for name in field["newest_unless"])
            out += f"\n    newest_unless: ClassVar[tuple[str, ...] | None] = ({kinds})\n"
    return out


def record(schema: dict[str, Any], topic: str | None) -> str:
    """One class."""
    out = f"class {schema['name']}({base(schema, topic)}, frozen=True{', kw_only=True' if topic else ''}):\n" + wrap(
        schema["doc"], 4
    )
    if topic and topic != "rounds":
        out += f'\n    topic: ClassVar[str] = "paceline.{topic}"\n'
    by_name = columns(schema)
    out += class_variables(schema)
    for field in schema["fields"]:
        line = f"\n    {field['name']}: {annotation(field['type'])}{default(field)}\n"
        out += line + wrap(described(field), 4)
    out += "".join(reader(field, by_name) for field in by_name.values())
    return out + (builder(schema) if by_name else "")


def module(folder: str, shared: dict[str, str]) -> str:
    """The module of one folder."""
    loaded = [json.loads(path.read_text()) for path in schemas.files(folder)]
    used = sorted({part["name"] for schema in loaded for part in nested(schema)[:-1]})
    body = "\n\n".join(record(schema, folder) for schema in loaded)
    head = f'"""The records of `schemas/{folder}`. Written by `python -m tools.records`; do not edit."""\n\n'
    head += "from collections.abc import Mapping\n" if "Mapping[" in body else ""
    typing = [name for name in ("Any", "ClassVar", "Self") if re.search(rf"\b{name}\b", body)]
    head += f"from typing import {', '.join(typing)}\n\n" if typing else ""
    libraries = [line for name, line in LIBRARIES.items() if f"{name}." in body]
    head += "\n".join(libraries) + "\n\n" if libraries else ""
    helpers = [name for name in HELPERS if re.search(rf"\b{name}\b", body)]
    head += f"from events.columns import {', '.join(helpers)}\n" if helpers else ""
    bases = [name for name in BASES if name == "Event" or re.search(rf"\({name},", body)]
    head += f"from events.records.base import {', '.join(bases)}\n" if loaded else ""
    parts = [name for name in used if re.search(rf"\b{name}\b", body) and name in shared]
    head += f"from events.records.parts import {', '.join(parts)}\n" if parts else ""
    names = ", ".join(schema["name"] for schema in loaded)
    registry = f"ALL: tuple[type[Event], ...] = ({names},)\n" if loaded else ""
    return head + "\n\n" + body + ("\n\n" if body else "") + registry


def modules() -> dict[Path, str]:
    """Every module to write, path and text."""
    parts_by_name: dict[str, str] = {}
    for folder in schemas.FOLDERS:
        for path in schemas.files(folder):
            for part in nested(json.loads(path.read_text()))[:-1]:
                text = record(part, None)
                if parts_by_name.setdefault(part["name"], text) != text:
                    raise ValueError(f"{path}: {part['name']} differs from its other definitions")
    head = '"""Records inside records. Written by `python -m tools.records`; do not edit."""\n\n'
    parts = head + "from events.records.base import NestedRecord\n\n\n" + "\n\n".join(parts_by_name.values())
    out = {OUTPUT / "parts.py": parts}
    for folder in schemas.FOLDERS:
        if schemas.files(folder):
            out[OUTPUT / f"{folder.replace('-', '_')}.py"] = module(folder, parts_by_name)
    return out


def main() -> None:
    """Write all modules."""
    for path, text in modules().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
