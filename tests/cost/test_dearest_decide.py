"""One decide is bounded, whatever the state is: by calls of own functions, not by time."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cost import dearest_decides

CALLS_MAX = 1_000_000
GROWTH_MAX = 1.5
"""So many times the calls for each task that is asked for, on four times as many hosts."""


def counted(hosts: int, folder: Path) -> dict[str, Any]:
    """What each machine's dearest decide takes in a cell of so many hosts."""
    command = [sys.executable, "-m", dearest_decides.__name__, str(hosts), str(folder / f"{hosts}.yaml")]
    found = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "0"}
    )
    body: dict[str, Any] = json.loads(found.stdout)
    return body


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("cells")
    return [counted(hosts, folder) for hosts in (250, 1000)]


@pytest.mark.parametrize("machine", ["lifecycle", "entitlement", "placement", "sla"])
def test_the_dearest_decide_of_a_full_cell_is_bounded(cells: list[dict[str, Any]], machine: str) -> None:
    small, large = ((cell["calls"][machine], cell["tasks"]) for cell in cells)
    assert max(small[0], large[0]) <= CALLS_MAX
    assert large[0] / large[1] <= GROWTH_MAX * small[0] / small[1], (small, large)
