"""The page of a job's fields: made from the schema, each field with its meaning, examples that are valid."""

from typing import Any

import pytest
import yaml

from events.spec.job import JobSpec, json_schema
from tests.helpers import ROOT
from tools.jobs_page import EXAMPLES, KINDS, page

SCHEMA = json_schema()


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
