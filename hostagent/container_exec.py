"""Commands inside containers, by crun: as the program of the container runs, with its user, environment and filters."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostagent import private_files
from hostagent.containers import INIT
from hostagent.keeper.container import BUNDLE, NAME, PATH, STATE

ENVIRONMENT = {"PATH": PATH}
"""That of crun itself."""


def entering(
    folder: Path, file: str, command: Sequence[str], terminal: bool = False, size: tuple[int, int] = (0, 0)
) -> list[str]:
    """The words that run a command in the container of a run. `folder`: that of its record; `file`: a name there for
    what crun is told; `size`: rows and columns of a terminal. Raises `OSError`, `ValueError`.
    """
    bundle = json.loads(private_files.read_file(folder / BUNDLE / "config.json"))
    process: dict[str, Any] = bundle["process"]
    # an init of its own says 127 for a program that isn't there, as shells do
    process |= {"args": [INIT, "-s", "-g", "--", *command], "terminal": terminal}
    if terminal:
        process["env"].append("TERM=xterm-256color")
        if all(size):
            process["consoleSize"] = {"height": size[0], "width": size[1]}
    private_files.write(str(folder / file), json.dumps(process))
    return ["crun", "--cgroup-manager=disabled", f"--root={folder / STATE}", "exec", f"--process={folder / file}", NAME]
