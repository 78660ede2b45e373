"""The same scenario, trace and trial give the same log on every version of Python, and each verifies what another
wrote.

`make test` makes an environment for each other version that is on the machine (`tests/helpers/pythons.py`).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.paceline.simulate.test_determinism import FIRST, TRACE

OTHERS = sorted(str(path) for path in (ROOT / ".pythons").glob("*/bin/python"))
DIGEST = "from tests.paceline.simulate.digest import digest; print(digest(5))"

pytestmark = pytest.mark.skipif(not OTHERS, reason="there is no other version of Python on this machine")


def said(python: str, *words: str) -> str:
    """What Python prints, in this folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [python, *words], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


@pytest.mark.parametrize("words", [(FIRST,), TRACE], ids=["scenario", "trace"])
def test_every_python_decides_the_same(words: tuple[str, ...]) -> None:
    hashes = {
        json.loads(said(python, "-m", "paceline", "simulate", *words, "--json"))["hash"]
        for python in (sys.executable, *OTHERS)
    }
    assert len(hashes) == 1


def test_every_python_has_the_same_trial() -> None:
    assert len({said(python, "-c", DIGEST) for python in (sys.executable, *OTHERS)}) == 1


def test_every_python_verifies_what_another_wrote(tmp_path: Path) -> None:
    pythons = (sys.executable, *OTHERS)
    for number, (writer, reader) in enumerate(zip(pythons, (*pythons[1:], pythons[0]), strict=True)):
        data = str(tmp_path / str(number))
        rounds = json.loads(said(writer, "-m", "paceline", "simulate", FIRST, "--json", "--data", data))["rounds"]
        assert f"{rounds} rounds replayed" in said(reader, "-m", "paceline", "log", "verify", "--data", data)
