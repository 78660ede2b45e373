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
PYTHONS = (sys.executable, *OTHERS)
DIGEST = "from tests.paceline.simulate.digest import digest; print(digest(5))"

pytestmark = [
    pytest.mark.outside,
    pytest.mark.skipif(not OTHERS, reason="there is no other version of Python on this machine"),
]


def said(python: str, *words: str) -> str:
    """What Python prints, in this folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [python, *words], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def test_every_python_decides_the_same() -> None:
    words = ("-m", "paceline", "simulate", *TRACE, "--json")
    assert len({json.loads(said(python, *words))["hash"] for python in PYTHONS}) == 1


def test_every_python_has_the_same_trial() -> None:
    assert len({said(python, "-c", DIGEST) for python in PYTHONS}) == 1


def test_every_python_writes_the_same_and_verifies_what_another_wrote(tmp_path: Path) -> None:
    hashes = set()
    for number, (writer, reader) in enumerate(zip(PYTHONS, (*PYTHONS[1:], PYTHONS[0]), strict=True)):
        data = str(tmp_path / str(number))
        wrote = json.loads(said(writer, "-m", "paceline", "simulate", FIRST, "--json", "--data", data))
        hashes.add(wrote["hash"])
        assert f"{wrote['rounds']} rounds replayed" in said(reader, "-m", "paceline", "log", "verify", "--data", data)
    assert len(hashes) == 1
