"""Columns: their types stand in the schemas, which changes nothing on the wire; records read and build them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schemas
from events.codec import decode, encode, fingerprint_of
from events.columns import ranges_in, spread
from events.records import BY_NAME
from events.records.base import Event, ItemsEvent, RangesEvent
from events.records.entitlement import EntitlementsSet, GangsHeld
from events.records.jobs import JobActionRequested
from events.records.lifecycle import RunsEnded, RunsOrdered
from projections.record_json import HASHES, PACKED
from tests.schemas.test_schemas import FILES, GOLDEN
from tools.release import RELEASES

RECORDS = [path for path in FILES if BY_NAME[path.stem].columns]
COLUMN = {"column", "per", "empty", "like", "written"}


def test_all_bytes_are_columns_with_a_type_or_hashes_or_packed_records() -> None:
    for path in FILES:
        schema = json.loads(path.read_text())
        fields = {field["name"]: field for field in schema["fields"]}
        for name, field in fields.items():
            place = (path.name, name)
            assert ("column" in field) == (field["type"] == "bytes" and name not in HASHES | PACKED), place
            assert field.get("column", "int32") in ("int32", "int64"), place
            assert ("empty" in field) == ("like" in field), place
            assert "column" not in field or "column" in fields[field.get("like", name)], place
            assert not field.keys() & COLUMN or "column" in field, place
            assert "ittle-endian" not in field["doc"], place


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_type_of_a_column_leaves_every_fingerprint_of_a_release_as_it_is(path: Path) -> None:
    old = json.loads(path.read_text())
    new = json.loads(next(file for file in FILES if file.stem == old["name"]).read_text())
    print_ = path.stem.rsplit("-", 1)[1]
    assert fingerprint_of(old).hex() == print_
    assert any(path.stem in of_one for of_one in json.loads((schemas.GOLDEN / RELEASES).read_text()).values())
    names = [field["name"] for field in old["fields"]]
    types = {field["name"]: field["type"] for field in old["fields"]}
    kept = [{**field, "type": types[field["name"]]} for field in new["fields"] if field["name"] in types]
    assert [field["name"] for field in kept] == names
    assert fingerprint_of({**new, "fields": kept}).hex() == print_


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_reads_what_it_is_built_of(path: Path) -> None:
    record, schema = BY_NAME[path.stem], json.loads(path.read_text())
    values = {field["name"]: _values(field) for field in schema["fields"] if "column" in field}
    rest = {field["name"]: ("a", "b") for field in schema["fields"] if field["name"] in ("job_ids", "resources")}
    for name in values:
        built = _pack(record, {name: values[name]}, rest)
        assert getattr(built, name) == np.array(values[name], record.columns[name]).tobytes()
        array = getattr(built, f"{name}_array")
        assert array.dtype == record.columns[name]
        assert array.ravel().tolist() == values[name]
        torn = _changed(built, name, getattr(built, name) + b"\1")
        assert getattr(torn, f"{name}_array").ravel().tolist() == values[name]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_no_bytes_stand_for_a_value_that_all_have(path: Path) -> None:
    record, schema = BY_NAME[path.stem], json.loads(path.read_text())
    for field in (each for each in schema["fields"] if "empty" in each):
        alike = [field["empty"]] * 4
        rest = {"resources": ("a", "b")} if field.get("per") else {}
        built = _pack(record, {field["like"]: [1, 2, 3, 4], field["name"]: alike}, rest)
        assert bool(getattr(built, field["name"])) == (field.get("written") == "always")
        assert getattr(built, f"{field['name']}_array").ravel().tolist() == alike
        empty = _changed(built, field["name"], b"")
        assert getattr(empty, f"{field['name']}_array").ravel().tolist() == alike


def test_items_and_ranges_name_runs() -> None:
    runs: dict[str, Any] = {"job_ids": ("a", "b"), "job": [1, 0], "run": [3, 4]}
    ordered = RunsOrdered.pack(**runs, instance=[7, 8], host_ids=("h",), host_session=[1], host=[0, 0])
    held = _pack(GangsHeld, {"job": [1, 0], "first": [5, 0], "count": [2, 1], "run": [3, 4], "gang": [0, 0]}, {})
    assert isinstance(ordered, ItemsEvent)
    assert isinstance(held, RangesEvent)
    assert [column.tolist() for column in ordered.items()] == [[1, 0], [7, 8], [3, 4]]
    assert [column.tolist() for column in held.items()] == [[1, 1, 0], [5, 6, 0], [3, 3, 4]]
    assert (ordered.sizes().tolist(), held.sizes().tolist()) == ([1, 1], [2, 1])
    asked = _pack(JobActionRequested, {"first": [1, 6], "count": [2, 1]}, {})
    assert asked.named_instances().tolist() == [1, 2, 6]


def test_amounts_are_rows_of_resources() -> None:
    amounts = {name: [1, 2, 3, 4] for name in ("entitlement", "demand", "allocation", "placed")}
    built = _pack(EntitlementsSet, amounts, {"pools": ("p", "q"), "resources": ("cpu", "gpu")})
    assert built.placed_array.tolist() == [[1, 2], [3, 4]]
    assert built.daemons_array.tolist() == [[0, 0], [0, 0]]


def test_a_built_record_is_what_decoding_gives() -> None:
    values: dict[str, Any] = {name: [1] for name in ("job", "instance", "run", "outcome", "exit_code", "kept")}
    ended = RunsEnded.pack(job_ids=("a",), **values, next=np.array([5]), why=[2], cause=[-1])
    assert ended.next != b""
    assert ended.cause == b""
    assert decode(encode(ended)) == ended


def _values(field: dict[str, Any]) -> list[int]:
    return [field.get("empty", 0) + 1, 2**62 if field["column"] == "int64" else 2**31 - 1, 3, -4]


def _pack(record: Any, values: dict[str, Any], rest: dict[str, Any]) -> Any:
    """The record with these columns; others are empty."""
    schema = json.loads(next(path for path in FILES if path.stem == record.__name__).read_text())
    needed = [field for field in schema["fields"] if "default" not in field]
    fields = {field["name"]: () if "column" in field else rest.get(field["name"], ()) for field in needed}
    return record.pack(**{**fields, **rest, **values})


def _changed(record: Event, name: str, value: bytes) -> Any:
    fields = {each: getattr(record, each) for each in record.__struct_fields__}
    return type(record)(**{**fields, name: value})


def test_ranges_of_instances_are_the_opposite_of_their_members() -> None:
    members = np.array([0, 1, 2, 5, 7, 8])
    first, count = ranges_in(members)
    assert (first.tolist(), count.tolist()) == ([0, 5, 7], [3, 1, 2])
    assert spread(first, count).tolist() == members.tolist()
    assert [len(column) for column in ranges_in(members[:0])] == [0, 0]
