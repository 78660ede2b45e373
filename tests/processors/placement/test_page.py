"""docs/placement.md shows what a cell does, and names what there is."""

import re

from events.codes import Code
from tests.helpers import ROOT
from tests.processors.placement.pictures import PAGE, rendered

CODE = re.compile(r"`([A-Z][A-Z_]{4,})`")


def test_the_pictures_are_those_of_a_run() -> None:
    assert PAGE.read_text() == rendered(), "placement decides otherwise: python -m tests.processors.placement.pictures"


def test_codes_on_the_page_are_explained() -> None:
    codes = set(CODE.findall(PAGE.read_text()))
    assert codes <= {each.value for each in Code}
    explained = (ROOT / "docs" / "reasons.md").read_text()
    assert {code for code in codes if f"| `{code}` |" not in explained} == set()
