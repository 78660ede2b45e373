"""The wheel, installed into an empty environment, runs the demo from another folder as a user who isn't root."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.helpers import ROOT

UV = Path(sys.executable).parent / "uv"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user can read; pytest's own is for its user alone."""
    made = Path(tempfile.mkdtemp(prefix="paceline-wheel-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def interpreter() -> str:
    """A Python that other users may run: that of the system where this one lies in somebody's home."""
    home = Path(os.path.realpath(sys.executable))
    open_to_all = all(os.stat(part).st_mode & 0o001 for part in home.parents)
    return str(home) if open_to_all else "/usr/bin/python3"


def run(*command: str, **more: object) -> subprocess.CompletedProcess[str]:
    more = {"umask": 0o022, **more}  # a test before this one may have taken what it makes from others
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return done  # type: ignore[no-any-return]


@pytest.mark.xdist_group("demo")
def test_the_wheel_runs_the_demo_for_somebody_else(folder: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), cwd=ROOT)
    wheel = next((folder / "dist").glob("*.whl"))
    names = ZipFile(wheel).namelist()
    assert "paceline/py.typed" in names, "type checkers look at what is typed"
    assert not [name for name in names if name.startswith(("tools/", "tests/", "bench/"))], "what makes it isn't in it"
    environment = folder / "env"
    run(str(UV), "venv", "-q", "--python", interpreter(), str(environment))
    python = str(environment / "bin" / "python")
    locked = ["-r", str(ROOT / "requirements" / "run.txt"), "--require-hashes"]
    run(str(UV), "pip", "install", "-q", "--link-mode", "copy", "--python", python, *locked)
    run(str(UV), "pip", "install", "-q", "--link-mode", "copy", "--python", python, "--no-deps", str(wheel))
    home = folder / "home"
    home.mkdir()
    user: dict[str, object] = {}
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(home, nobody.pw_uid, nobody.pw_gid)
        user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    variables = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TMPDIR": str(home), "NO_COLOR": "1"}
    command = str(environment / "bin" / "paceline")
    page = (ROOT / "docs" / "install.md").read_text()
    assert f"pip install {wheel.name}\n" in page
    version = run(command, "--version", cwd=home, env=variables, **user).stdout
    assert f"paceline --version\n{version}" in page
    done = run(command, "demo", cwd=home, env=variables, **user)
    assert "all identical, byte for byte" in done.stdout
