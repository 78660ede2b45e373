"""The page of a job's fields: made from the schema, each field with its meaning, examples that are valid."""

import re
from typing import Any

import pytest
import yaml

from events.spec.job import JobSpec, json_schema
from tests.helpers import ROOT
from tools.job_examples import ALONE
from tools.job_examples import EXAMPLES as FIELD_EXAMPLES
from tools.jobs_page import EXAMPLES, KINDS, page

SCHEMA = json_schema()
NEEDS: dict[str, dict[str, Any]] = {
    "sim": {"kind": "stateless", "health": {"command": ["true"]}},
    "volumes": {"kind": "stateful"},
    "controller": {"instances": 2},
    "gang": {"instances": 4},
    "within": {"instances": 4, "gang": {"min": 4}},
    "near": {"instances": 4, "gang": {"min": 4}},
    "segments": {"instances": 16, "gang": {"min": 16}, "near": "rack"},
    "sla": {"kind": "stateless", "instances": 3},
    "devices": {"resources": {"gpu": 2}},
    "numa": {"cores": 8},
    "health": {"kind": "stateless", "ports": ["http"]},
    "update": {"kind": "stateless", "instances": 4},
    "on_silence": {"kind": "stateless"},
    "overrides": {"instances": 4},
    **{name: {"image": "app:1"} for name in ("network", "root", "user", "device_files")},
}
"""What a job must have beside a field for its example to be valid."""


def test_the_page_is_what_the_schema_says() -> None:
    assert (ROOT / "docs/jobs.md").read_text() == page(ROOT), "run python -m tools.jobs_page > docs/jobs.md"


@pytest.mark.parametrize("part", [SCHEMA, *SCHEMA["$defs"].values()], ids=lambda part: str(part["title"]))
def test_every_field_has_a_meaning(part: dict[str, Any]) -> None:
    for name, field in part["properties"].items():
        assert field.get("description"), f"{part['title']}.{name}"
        assert not field["description"].startswith("a time with a unit"), f"{part['title']}.{name}"


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_an_example(kind: str) -> None:
    spec = yaml.safe_load((ROOT / EXAMPLES / f"{kind}.yaml").read_text())
    assert JobSpec.model_validate(spec).kind == kind


@pytest.mark.parametrize("name", JobSpec.model_fields)
def test_each_field_has_an_example_that_a_job_may_have(name: str) -> None:
    for text in FIELD_EXAMPLES[name].split(ALONE):
        job = {"pool": "/p", "command": ["true"], **NEEDS.get(name, {}), name: yaml.safe_load(text)}
        assert getattr(JobSpec.model_validate(job), name) is not None


def test_each_field_of_a_part_is_in_an_example() -> None:
    shown = "\n".join(f"{name}: {text}" for name, text in FIELD_EXAMPLES.items())
    fields = {name for part in SCHEMA["$defs"].values() for name in part["properties"]}
    assert {name for name in fields if f"{name}: " not in shown} == set()


def test_what_has_a_unit_is_no_text_and_bounds_are_told() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page(ROOT), re.MULTILINE))
    assert (rows["start_deadline"], rows["max_runtime"], rows["head"]) == ("time", "time", "size")
    assert rows["priority"] == "number, -2,147,483,647 to 2,147,483,647"
    assert rows["device_files"] == "list of text, at most 16"
