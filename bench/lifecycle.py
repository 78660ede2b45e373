"""Lifecycle: a million tasks, the changes that hosts report, the machine back from its store, many overrides, an
update.

This machine alone on one core, without log and driver; what hosts and other machines say is in memory.
"""

import json
import subprocess
import sys

from bench import Options, Result
from bench._lifecycle import PARTS

TIMEOUT_S = 900


def run(log: str, options: Options) -> Result:
    """No log is written, whichever is asked for. Each part is a process of its own; some go on from what one left."""
    figures: dict[str, float] = {}
    references: dict[str, float] = {}
    for part, folder in zip(PARTS, ("one", "one", "many", "submit", "update"), strict=True):
        command = [sys.executable, "-m", "bench._lifecycle", part, str(options.folder / folder)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
        printed = json.loads(done.stdout)
        figures |= printed["figures"]
        references |= printed["references"]
    return Result(figures, references)
