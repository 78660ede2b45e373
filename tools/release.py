"""Keeps the schemas of a release for ever: `python -m tools.release`, before a version is tagged.

`schemas/golden/NAME-FINGERPRINT.avsc` holds each schema that a release reads or writes, with a sample record in its
encoding beside it; `schemas/golden/releases.json` says which release reads which. Readers decode old records by these
files, and the compatibility check compares with all of them, from 0.3.0 on. Before that nothing is kept: records change
freely, and a log is read only by the version that wrote it.

A release is refused where it writes a schema that the one before can't read (decision 032). `STEPS_ALONE`
names the exceptions.
"""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro

import schemas
from events import VERSION
from events.codec import MARKER, fingerprint_of
from schemas.versions import stages, version, written

BINDING_FROM = "0.3.0"
"""The first version whose schemas are kept."""
STEPS_ALONE = ("0.4.0",)
"""Releases that may write what the one before can't read: all parts of a cell are stopped for the step to them."""
INSIDE = schemas.FOLDERS[: schemas.FOLDERS.index("rounds") + 1]
"""The topics that Paceline itself reads."""
RELEASES = "releases.json"


class NotReadable(Exception):
    """The release writes what the one before it can't read."""


def sample(avro: Any, records: dict[str, Any] | None = None) -> Any:
    """A value of a type, none of it empty or default, the same every time."""
    records = {} if records is None else records
    if isinstance(avro, list):
        return sample(avro[-1], records)
    if isinstance(avro, dict):
        if avro["type"] == "array":
            return [sample(avro["items"], records)]
        if avro["type"] == "map":
            return {"key": sample(avro["values"], records)}
        records[f"paceline.{avro['name']}"] = avro
        return {field["name"]: sample(field["type"], records) for field in avro["fields"]}
    if avro in records:
        return sample(records[avro], records)
    return {"string": "sample", "int": 7, "long": 7_000_000_000, "boolean": True, "bytes": b"\1\0\0\0"}[avro]


def keep(release: str, golden: Path) -> None:
    """Keeps the schemas of a release, in place of what was kept of it before. Raises `NotReadable`."""
    index = golden / RELEASES
    releases: dict[str, list[str]] = json.loads(index.read_text()) if index.exists() else {}
    earlier = {name: schemas_of for name, schemas_of in releases.items() if version(name) < version(release)}
    if version(release) < version(BINDING_FROM):
        return
    if earlier and release not in STEPS_ALONE:
        last = max(earlier, key=version)
        faults = [name for name in written_by(release) if name not in earlier[last]]
        if faults:
            raise NotReadable(
                f"{release} writes {', '.join(faults)}, which {last} can't read. Mark what is new in these schemas "
                'with "written_from" of the release after this one, and decide it there.'
            )
    present = (schema for folder in schemas.FOLDERS for schema in _loaded(folder))
    read = {_name(stage): stage for schema in present for stage in stages(schema)}
    before = {stem for stems in earlier.values() for stem in stems}
    for stem in read.keys() - before:  # what an earlier release has written stays to the byte, its texts too
        _write(golden / f"{stem}.avsc", read[stem])
    schemas_of = {**earlier, release: sorted({*read, *before})}
    for path in golden.glob("*.avsc"):
        if path.stem not in schemas_of[release]:
            path.unlink()
            path.with_suffix(".bin").unlink()
    index.write_text(json.dumps(schemas_of, indent=1) + "\n")


def written_by(release: str) -> Iterator[str]:
    """The schemas that a release writes to the topics that Paceline itself reads."""
    schemas_written = (written(schema, release) for folder in INSIDE for schema in _loaded(folder))
    return (_name(schema) for schema in schemas_written if schema is not None)


def _loaded(folder: str) -> Iterator[dict[str, Any]]:
    return (json.loads(path.read_text()) for path in schemas.files(folder))


def _name(schema: dict[str, Any]) -> str:
    return f"{schema['name']}-{fingerprint_of(schema).hex()}"


def _write(target: Path, schema: dict[str, Any]) -> None:
    target.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
    out = io.BytesIO(MARKER + fingerprint_of(schema))
    out.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), sample(schema))
    target.with_suffix(".bin").write_bytes(out.getvalue())


def main() -> None:
    """Keeps the schemas of this version; exit code 1 where it can't be released."""
    try:
        keep(VERSION, schemas.GOLDEN)
    except NotReadable as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
