"""Makes an environment for each other version of Python that is on this machine and that Paceline runs on.

python -m tests.helpers.pythons FOLDER
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.helpers import ROOT

UV = Path(sys.executable).with_name("uv")
VERSIONS = (11, 12, 13)
"""Minor versions that all packages of the lock have wheels for."""
ASKS = "import sys; print(sys.version_info.releaselevel, sys.version_info.minor)"


def found() -> dict[int, Path]:
    """An interpreter for each minor version but this one: from the search path, or installed beside this one."""
    beside = [*Path(sys.base_prefix).parent.glob("*/bin")]
    folders = [*map(Path, os.environ.get("PATH", "").split(os.pathsep)), *sorted(beside)]
    pythons: dict[int, Path] = {}
    wanted = {*VERSIONS} - {sys.version_info.minor}
    for path in [each for folder in folders for each in sorted(folder.glob("python3.*"))]:
        if re.fullmatch(r"python3\.\d+", path.name) and int(path.suffix[1:]) in wanted - {*pythons}:
            answer = subprocess.run([path, "-c", ASKS], capture_output=True, text=True, check=False)
            if answer.stdout == f"final {path.suffix[1:]}\n":
                pythons[int(path.suffix[1:])] = path
    return pythons


def main(folder: Path) -> None:
    """The environments, with the packages that Paceline runs on."""
    for minor, python in sorted(found().items()):
        environment = folder / f"3.{minor}"
        subprocess.run([UV, "venv", "--quiet", "--clear", "--python", python, environment], check=True)
        packages = ["--require-hashes", "--requirement", ROOT / "requirements" / "run.txt"]
        subprocess.run([UV, "pip", "install", "--quiet", "--python", environment, *packages], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
