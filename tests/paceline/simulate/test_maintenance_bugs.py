"""Bugs that are planted in maintenance are found, each in a scenario that holds without it."""

import re

import pytest

from tests.paceline.simulate.maintenance_bugs import PLANTED, Plant
from tests.paceline.simulate.test_life_bugs import said
from tests.scenarios.test_maintenance import SCENARIOS

PATHS = {path.stem: path for path in SCENARIOS}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert re.search(PLANTED[plant].says, said(PATHS[PLANTED[plant].scenario]))
