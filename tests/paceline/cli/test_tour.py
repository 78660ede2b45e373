"""Pages whose commands are run as they stand: each in one shell, its output compared with what the page shows."""

import doctest
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.helpers.shell import told


def commands(page: str) -> list[tuple[str, str]]:
    """The commands of a page and the output that it shows for each."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(), re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            lines = part.splitlines(keepends=True)
            size = next((at + 1 for at, line in enumerate(lines) if line == "JOB\n"), 1) if "<<" in lines[0] else 1
            found.append(("".join(lines[:size]), "".join(lines[size:])))
    return found


@pytest.mark.outside
@pytest.mark.parametrize("page", ["docs/tour.md", "docs/updates.md"])
def test_the_tour_is_true(page: str, tmp_path: Path):
    tour = commands(page)
    assert len(tour) >= 12
    data = tmp_path / "data"
    environment = {
        **os.environ,
        "PACELINE_DATA": str(data),
        "PACELINE_UP__LISTEN": "127.0.0.1:0",
        "NO_COLOR": "1",
        "COLUMNS": "200",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for name in ("examples", ".venv"):
        (tmp_path / name).symlink_to(ROOT / name if name == "examples" else Path(sys.executable).parents[1])
    shell = subprocess.Popen(
        ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    )
    assert shell.stdin is not None
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    try:
        for command, shown in tour:
            said = told(shell, command)
            if command.startswith("sleep "):  # what it waits for may take longer
                deadline = time.monotonic() + 60
                while not checker.check_output(shown, said, flags) and time.monotonic() < deadline:
                    said = told(shell, command)
            assert checker.check_output(shown, said, flags), f"$ {command}{said}\nthe page shows:\n{shown}"
            if command.rstrip().endswith("&"):
                deadline = time.monotonic() + 60
                while not (data / "cell.json").exists():
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
    finally:
        down = [sys.executable, "-m", "paceline", "down", "--stop-runs", "--data", str(data)]
        subprocess.run(down, env=environment, cwd=ROOT)
        shell.stdin.close()
        shell.wait(timeout=10)
