"""The cell that runs on a data folder: `DATA/cell.json`, written by `paceline up`."""

import json
import os
from pathlib import Path
from typing import NamedTuple

DATA_DEFAULT = Path("~/.paceline")
FILE = "cell.json"
TOKEN_FILE = "token"


class RunningCell(NamedTuple):
    """The process of a cell and the address of its API, HOST:PORT."""

    pid: int
    listen: str

    @property
    def alive(self) -> bool:
        """Whether a process with that number is there."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def data_folder() -> Path:
    """The data folder where nobody names one: PACELINE_DATA, else `DATA_DEFAULT`."""
    return Path(os.environ.get("PACELINE_DATA") or DATA_DEFAULT).expanduser().absolute()


def read(data: Path) -> RunningCell | None:
    """Reads the newest content; None where there is nothing that can be read."""
    try:
        content = json.loads((data / FILE).read_text())
        return RunningCell(int(content["pid"]), str(content["listen"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def token(data: Path) -> str | None:
    """The token that writes need."""
    try:
        return (data / TOKEN_FILE).read_text(errors="replace").strip() or None
    except OSError:
        return None
