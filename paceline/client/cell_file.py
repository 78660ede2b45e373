"""The cell that runs on a data folder: `DATA/cell.json`, written by `paceline up`."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

DATA_DEFAULT = Path("~/.paceline")
FILE = "cell.json"
TOKEN_FILE = "token"
STARTING_FILE = "starting"
"""Holds the number of a process that will run the cell of the folder, from its first moment to its `cell.json`."""
STARTING_S = 30.0
"""Longest wait for a cell that is starting, in seconds."""
POLL_S = 0.05


class RunningCell(NamedTuple):
    """The process of a cell and the address of its API: HOST:PORT, or a URL where it speaks TLS; then `tls_cert` is
    the file of its certificate.
    """

    pid: int
    listen: str
    tls_cert: Path | None = None

    @property
    def alive(self) -> bool:
        """Whether a process with that number is there."""
        return _alive(self.pid)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def token_of_run() -> str | None:
    """The token of the run that this process is part of, as its host keeps it; None: it has none."""
    if not (file := os.environ.get("PACELINE_TOKEN_FILE")):
        return None
    try:
        return Path(file).read_text().strip()
    except OSError:
        return None


def data_folder() -> Path:
    """The data folder where nobody names one: PACELINE_DATA, else `DATA_DEFAULT`."""
    return Path(os.environ.get("PACELINE_DATA") or DATA_DEFAULT).expanduser().absolute()


def read(data: Path) -> RunningCell | None:
    """Reads the newest content; None where there is nothing that can be read."""
    try:
        content = json.loads((data / FILE).read_text())
        pid, listen = int(content["pid"]), str(content["listen"])
        cert = content.get("tls_cert")
        return RunningCell(pid, listen, Path(cert) if cert else None)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def await_started(data: Path) -> RunningCell | None:
    """Reads the cell of a folder, and waits for one that is starting, at most `STARTING_S`."""
    deadline = time.monotonic() + STARTING_S
    while ((running := read(data)) is None or not running.alive) and _starting(data) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return running


@contextmanager
def announced(data: Path) -> Iterator[None]:
    """Says while it lasts that this process is starting a cell on the folder, unless another is."""
    mark = None if _starting(data) else data / STARTING_FILE
    if mark is not None:
        with suppress(OSError):  # whoever starts it will tell
            data.mkdir(parents=True, exist_ok=True, mode=0o700)
            mark.write_text(str(os.getpid()))
    try:
        yield
    finally:
        if mark is not None:
            with suppress(OSError):
                mark.unlink(missing_ok=True)


def _starting(data: Path) -> bool:
    try:
        return _alive(int((data / STARTING_FILE).read_text()))
    except (OSError, ValueError):
        return False


def token(data: Path) -> str | None:
    """The token that writes need."""
    try:
        return (data / TOKEN_FILE).read_text(errors="replace").strip() or None
    except OSError:
        return None
