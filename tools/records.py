"""Writes `events/records/*.py` from the schemas: `python -m tools.records`, checked by a test.

The `.avsc` files are the source; the Python records are typed, frozen views of them.
"""

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import schemas

PRIMITIVES = {"string": "str", "long": "int", "int": "int", "boolean": "bool", "bytes": "bytes", "null": "None"}
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


def record(schema: dict[str, Any], topic: str | None) -> str:
    """One class."""
    out = (
        f"class {schema['name']}({'Event' if topic else 'NestedRecord'}, "
        f"frozen=True{', kw_only=True' if topic else ''}):\n" + wrap(schema["doc"], 4)
    )
    if topic and topic != "rounds":
        out += f'\n    topic: ClassVar[str] = "paceline.{topic}"\n'
    for field in schema["fields"]:
        line = f"\n    {field['name']}: {annotation(field['type'])}{default(field)}\n"
        out += line + wrap(field["doc"], 4)
    return out


def module(folder: str, shared: dict[str, str]) -> str:
    """The module of one folder."""
    loaded = [json.loads(path.read_text()) for path in schemas.files(folder)]
    used = sorted({part["name"] for schema in loaded for part in nested(schema)[:-1]})
    body = "\n\n".join(record(schema, folder) for schema in loaded)
    head = f'"""The records of `schemas/{folder}`. Written by `python -m tools.records`; do not edit."""\n\n'
    has_topic = folder != "rounds" and bool(loaded)
    head += "from typing import ClassVar\n\n" if has_topic else ""
    head += "import msgspec\n\n" if "msgspec." in body else ""
    head += "from events.records.base import Event\n" if loaded else ""
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
