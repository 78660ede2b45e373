"""The table of text fields names all of them, and no canary in one of them stays."""

import json
import zlib

import pytest

import schemas
from events.codec import encode
from events.records.jobs import OverridesUploaded
from paceline.history.anonymise.fields import FIELDS
from paceline.history.anonymise.kinds import WORD
from paceline.history.anonymise.walk import Noted, Renamed, rewritten
from tests.paceline.history.anonymise.canaries import CANARY, Canaries, kinds


def texts(schema, found):
    """All fields of all records in a schema that hold texts, or bytes that are no column."""
    if isinstance(schema, list):
        for each in schema:
            texts(each, found)
    elif isinstance(schema, dict) and schema["type"] == "record":
        for field in schema["fields"]:
            if "column" not in field and holds_text(field["type"]):
                found.add((schema["name"], field["name"]))
            texts(field["type"], found)
    elif isinstance(schema, dict):
        for inner in ("items", "values", "type"):
            texts(schema.get(inner), found)


def holds_text(kind):
    if isinstance(kind, list):
        return any(map(holds_text, kind))
    if isinstance(kind, dict):
        if kind["type"] in ("record", "enum"):
            return False
        return kind["type"] == "map" or (
            "column" not in kind and any(holds_text(kind[inner]) for inner in ("items", "type") if inner in kind)
        )
    return kind in ("string", "bytes")


def test_the_table_names_each_text_field_of_each_schema_and_no_other():
    found = set()
    for folder in schemas.FOLDERS:
        for path in schemas.files(folder):
            texts(json.loads(path.read_text()), found)
    named = {(record, field) for record, fields in FIELDS.items() for field in fields}
    lists = {("GangsUnplaced", "groups"), ("PlacementRules", "targets")}  # rewritten with the records inside
    assert found - named == set()
    assert named - found == lists


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_no_canary_in_a_record_of_any_kind_stays(kind):
    canaries = Canaries()
    record, noted = canaries.record(kind), Noted()
    rewritten(record, noted)
    new = rewritten(record, Renamed(noted))
    data = encode(new)
    data += zlib.decompress(new.content) if isinstance(new, OverridesUploaded) else b""
    left = [place for canary, place in canaries.places.items() if canary.encode() in data]
    assert left == []
    assert CANARY.encode() not in data
    assert rewritten(record, Renamed(noted)) == new


def test_a_word_of_paceline_s_own_stays_and_another_does_not():
    noted = Noted()
    noted.of(WORD, "secret")
    assert FIELDS["JobSubmitted"]["kind"](Renamed(noted), "batch", None) == "batch"
    assert FIELDS["JobSubmitted"]["kind"](Renamed(noted), "secret", None) == "word-1"
