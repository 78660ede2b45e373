"""The schemas: documented, the source of the Python records, and FULL_TRANSITIVE from 0.3.0 on."""

import json
import subprocess
import sys
import typing
from pathlib import Path

import msgspec
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import parse

import schemas
from events import VERSION
from events.codec import decode, encode
from events.records import BY_NAME
from tools.records import modules, nested
from tools.release import RELEASES, sample, written_by

FILES = [path for folder in schemas.FOLDERS for path in schemas.files(folder)]
FLAGS = ("out_of_memory", "at_a_time")
GOLDEN = sorted(schemas.GOLDEN.glob("*.avsc"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_record_and_field_is_documented_and_quantities_name_their_unit(path: Path) -> None:
    for record in nested(json.loads(path.read_text())):
        assert record["doc"].endswith("."), record["name"]
        for field in record["fields"]:
            assert field["doc"].strip(), (record["name"], field["name"])
            assert field["name"] in FLAGS or not field["name"].endswith(("_time", "_memory", "_cpu", "timeout")), (
                "the unit is missing"
            )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_python_records_have_the_fields_of_their_schemas(path: Path) -> None:
    schema = json.loads(path.read_text())
    record = BY_NAME[schema["name"]]
    assert [field["name"] for field in schema["fields"]] == [field.name for field in msgspec.structs.fields(record)]
    value = msgspec.convert(sample(schema), record)
    assert decode(encode(value)) == value
    assert typing.get_type_hints(record)


def test_python_records_are_what_the_generator_writes(tmp_path: Path) -> None:
    for path, text in modules().items():
        copy = tmp_path / path.name
        copy.write_text(text)
        subprocess.run([sys.executable, "-m", "ruff", "format", "-q", "--line-length=120", str(copy)], check=True)
        assert copy.read_text() == path.read_text(), f"{path.name}: run python -m tools.records"


def test_the_schemas_of_a_release_are_kept_and_those_of_the_next_one_free_to_change() -> None:
    if f"## {VERSION} (unreleased)" in (schemas.ROOT.parent / "CHANGELOG.md").read_text():
        return
    kept = json.loads((schemas.GOLDEN / RELEASES).read_text())[VERSION]
    assert set(written_by(VERSION)) <= set(kept), "run python -m tools.release"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_bytes_of_every_version_are_readable(path: Path) -> None:
    event = decode(path.with_suffix(".bin").read_bytes())
    assert type(event).__name__ == json.loads(path.read_text())["name"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_schemas_are_compatible_both_ways_with_every_version(path: Path) -> None:
    old = parse(path.read_text())
    new = parse(next(file for file in FILES if file.stem == old.name).read_text())
    check = ReaderWriterCompatibilityChecker()
    for reader, writer in ((new, old), (old, new)):
        assert check.get_compatibility(reader, writer).compatibility == SchemaCompatibilityType.compatible


def test_the_compatibility_check_bites() -> None:
    schema = json.loads(FILES[0].read_text())
    changed = {**schema, "fields": [*schema["fields"], {"name": "added", "type": "string"}]}
    result = ReaderWriterCompatibilityChecker().get_compatibility(parse(json.dumps(changed)), parse(json.dumps(schema)))
    assert result.compatibility == SchemaCompatibilityType.incompatible


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_who_wrote_a_fact_stands_at_its_end_so_that_the_rest_can_be_compared_without_it(path: Path) -> None:
    names = [field["name"] for field in json.loads(path.read_text())["fields"]]
    assert "actor" not in names[:-1]
    if path.parent.name in ("jobs", "pools") or path.stem.endswith(("Requested", "LossConfirmed")):
        assert names[-1] == "actor", "each fact of a user says who wrote it"
