"""The English of the code: each folder has no more to mend than it had, and rules of ruff are ignored for a reason."""

import re

import pytest

from tests.helpers import ROOT
from tools.prose import ALLOWANCE, all_findings, allowance, counts, findings, modules


def kinds(source: str) -> list[str]:
    return [finding.kind for finding in findings("a.py", source, frozenset({"machine.py"}))]


def test_no_folder_has_more_to_mend_than_before_and_what_was_mended_stays_so() -> None:
    there = counts(all_findings())
    assert there - allowance() == {}, "mend these, python -m tools.prose FOLDER lists them; CONTRIBUTING.md says how"
    lines = [f"{place} {kind} {count}" for (place, kind), count in sorted(there.items())]
    assert ALLOWANCE.read_text().splitlines() == lines, "there is less to mend now: python -m tools.prose --lower"


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ('"""What a host says."""', "fragment"),
        ('class A:\n    """Of a job."""', "fragment"),
        ('x = 1\n"""How many."""', "fragment"),
        ('def f():\n    """See `g`."""', "fragment"),
        ("found = []", "participle"),
        ("def f(*, kept): ...", "participle"),
        ("# the order of `nowhere.py`", "dangling"),
        ("# nobody waits in vain", "private"),
        ('x = 1\n"""Pause.\n\nfrom events.resources import Amounts\n"""', "code"),
    ],
)
def test_the_prose_check_bites(source: str, kind: str) -> None:
    assert kinds(source) == [kind]


def test_the_prose_check_lets_sentences_pass() -> None:
    source = '"""Reads hosts (`machine.py`).\n\nSee `g` for what follows."""\nruns = x.found = f(held=1)  # import os\n'
    source += "class A(TypedDict):\n    held: int\n"
    assert kinds(source) == []


def test_rules_of_ruff_are_ignored_for_a_reason() -> None:
    ignored = (ROOT / "pyproject.toml").read_text().partition("\nignore = [\n")[2].partition("\n]")[0].splitlines()
    assert ignored, "one rule a line"
    assert [line for line in ignored if not re.fullmatch(r'  "[A-Z]+\d+", +# \w.*', line)] == []
    lines = [(path, line) for path in modules() for line in (ROOT / path).read_text().splitlines()]
    assert [
        place for place in lines if "# no" + "qa" in place[1] and not re.search(r"noqa: [A-Z\d, ]+ - \w", place[1])
    ] == []
