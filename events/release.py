"""Keeps the schemas of a release for ever: `python -m events.release`, before a version is tagged.

Each schema that isn't there yet goes to `schemas/golden/NAME-FINGERPRINT.avsc`, with a sample record in its encoding
beside it. Readers decode old records by these files, and the compatibility check compares with all of them.
"""

import io
import json
from typing import Any

import fastavro

import schemas
from events.codec import MARKER, fingerprint_of


def sample(avro: Any, named: dict[str, Any] | None = None) -> Any:
    """A value of a type, none of it empty or default, the same every time."""
    named = {} if named is None else named
    if isinstance(avro, list):
        return sample(avro[-1], named)
    if isinstance(avro, dict):
        if avro["type"] == "array":
            return [sample(avro["items"], named)]
        if avro["type"] == "map":
            return {"key": sample(avro["values"], named)}
        named[f"paceline.{avro['name']}"] = avro
        return {field["name"]: sample(field["type"], named) for field in avro["fields"]}
    if avro in named:
        return sample(named[avro], named)
    return {"string": "sample", "int": 7, "long": 7_000_000_000, "boolean": True, "bytes": b"\1\0\0\0"}[avro]


def main() -> None:
    """Writes what isn't there yet."""
    for folder in schemas.FOLDERS:
        for path in schemas.files(folder):
            schema = json.loads(path.read_text())
            fingerprint = fingerprint_of(schema)
            target = schemas.GOLDEN / f"{path.stem}-{fingerprint.hex()}.avsc"
            if target.exists():
                continue
            target.write_text(path.read_text())
            out = io.BytesIO(MARKER + fingerprint)
            out.seek(0, io.SEEK_END)
            fastavro.schemaless_writer(out, fastavro.parse_schema(schema), sample(schema))
            target.with_suffix(".bin").write_bytes(out.getvalue())


if __name__ == "__main__":
    main()
