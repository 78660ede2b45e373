"""Bugs that are planted in sharing are found, each in a small cell in which all holds without it."""

import re
from pathlib import Path

import pytest

from paceline.simulate.checker import Violation
from tests.paceline.simulate import planted_cells
from tests.paceline.simulate.sharing_bugs import PLANTED, Plant
from tests.scenarios.test_sharing import failures

CELLS = {name: text for name, text in vars(planted_cells).items() if name.isupper()}


def said(cell: str, folder: Path) -> str:
    """What is wrong in a cell; empty: nothing is."""
    path = folder / "cell.yaml"
    path.write_text(cell)
    try:
        return "; ".join(failures(path))
    except Violation as violation:
        return str(violation)


@pytest.mark.parametrize("cell", CELLS)
def test_all_holds_without_a_bug(cell: str, tmp_path: Path) -> None:
    assert said(CELLS[cell], tmp_path) == ""


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    found = PLANTED[plant]
    assert re.search(found.says, said(found.cell, tmp_path))
