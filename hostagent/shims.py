"""Runs that an agent of 0.3 has started: each is kept by a shim of its own, until it ends."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from hostagent import private_files
from hostagent.run_record import is_held


def wake_shim(folder: Path) -> None:
    """Lets the shim that lives there look for its stop file at once. It looks by itself too, some time later."""
    _signal_shim(folder, signal.SIGTERM)


def kill_shim(folder: Path) -> None:
    """Kills the shim that lives there."""
    _signal_shim(folder, signal.SIGKILL)


def _signal_shim(folder: Path, number: int) -> None:
    """Signals a shim, if it can be told which process that is: what a file names is signalled only where it has this
    lock open.
    """
    with suppress(OSError, ValueError, OverflowError):
        pid = int(private_files.read_file(folder / "shim.pid"))
        process = os.pidfd_open(pid)  # the number may go to another process while this looks
        try:
            lock = os.lstat(folder / "lock")
            if is_held(folder) and any(_is(f"/proc/{pid}/fd/{name}", lock) for name in os.listdir(f"/proc/{pid}/fd")):
                signal.pidfd_send_signal(process, number)
        finally:
            os.close(process)


def _is(path: str, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), status)
    except OSError:  # closed meanwhile
        return False
