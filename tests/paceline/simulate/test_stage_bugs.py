"""Bugs that are planted in how hosts are drained, and in windows, are found, each in a scenario that holds without
it.
"""

import re

import pytest

from tests.paceline.simulate import stage_bugs, window_bugs
from tests.paceline.simulate.stage_bugs import Plant
from tests.paceline.simulate.test_life_bugs import said
from tests.scenarios.test_maintenance import SCENARIOS

PLANTED = {**stage_bugs.PLANTED, **window_bugs.PLANTED}
PATHS = {path.stem: path for path in SCENARIOS}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    found = PLANTED[plant]
    assert re.search(found.says, said(PATHS[found.scenario]))
