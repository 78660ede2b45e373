"""Bugs that are planted in the life of jobs are found, each in a scenario that holds without it."""

import re
from pathlib import Path

import pytest

from paceline.simulate.checker import Violation
from tests.paceline.simulate.life_bugs import PLANTED, Plant
from tests.scenarios.test_lifecycle import SCENARIOS
from tests.scenarios.test_sharing import failures

PATHS = {path.stem: path for path in SCENARIOS}


def said(path: Path) -> str:
    """What is wrong in a scenario."""
    try:
        return "; ".join(failures(path))
    except Violation as violation:
        return str(violation)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    found = PLANTED[plant]
    assert re.search(found.says, said(PATHS[found.scenario]))
