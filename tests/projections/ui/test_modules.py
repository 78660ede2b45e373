"""The modules of the pages have types, and the check of them bites."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers import ROOT

pytestmark = pytest.mark.outside  # tsc comes from npm
HERE = Path(__file__).parent
STATIC = ROOT / "projections" / "ui" / "static"
MODULES = sorted(STATIC.glob("*.js"))
TSC = ROOT / ".npm" / "node_modules" / ".bin" / "tsc"


def check(project: Path) -> str:
    """What tsc finds."""
    done = subprocess.run([TSC, "--project", project], capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def test_every_type_is_right() -> None:
    assert check(HERE / "tsconfig.json") == ""


def test_the_check_bites(tmp_path: Path) -> None:
    settings = json.loads((HERE / "tsconfig.json").read_text())
    settings["include"] = ["*.js", "*.d.ts"]
    (tmp_path / "tsconfig.json").write_text(json.dumps(settings))
    shutil.copy(HERE / "globals.d.ts", tmp_path)
    (tmp_path / "a.js").write_text('/** @type {number} */\nconst a = document.querySelector("a").href;\n')
    assert {"TS2322", "TS2531"} <= set(check(tmp_path).replace(":", " ").split())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_an_editor_checks_each_module_too(path: Path) -> None:
    assert path.read_text().startswith("// @ts-check\n")
