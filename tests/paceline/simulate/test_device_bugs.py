"""Bugs that are planted in devices and host pools are found, each in a scenario that holds without it."""

import re
from pathlib import Path

import pytest

from tests.paceline.simulate.device_bugs import PLANTED
from tests.paceline.simulate.stage_bugs import Plant
from tests.paceline.simulate.test_life_bugs import said
from tests.scenarios import test_placement

SCENARIOS = Path(test_placement.__file__).parent


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    found = PLANTED[plant]
    assert re.search(found.says, said(SCENARIOS / f"{found.scenario}.yaml"))
