"""The data folder: its format, and the token of the cells that are kept there."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import IO

from events.hashed_names import KEY_BYTES, KEY_FILE, NameHashes
from events.process.file_locks import hold
from paceline.client.bearer import unfit
from paceline.client.cell_file import STARTING_FILE
from paceline.client.errors import PacelineError

FORMAT = 2
TOKEN = "token"
CELL = "cell"


_given = -1
"""The umask that this process was started with; -1: it still has it."""


class CannotStart(PacelineError):
    """A process can't start, or can't go on; the message says why and what to do."""


def given_umask() -> int:
    """The umask that this process was started with: that of tasks, whose files are for whom their user wants."""
    if _given >= 0:
        return _given
    os.umask(umask := os.umask(0o077))
    return umask


def prepare(data: Path) -> str:
    """Makes the data folder, checks its format, and returns the token that writes need.

    Nobody else may read what stands there: what this process makes from now on is for its user alone, wherever it is.
    """
    global _given
    before = os.umask(0o077)
    _given = before if _given < 0 else _given
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    format_file = data / "format"
    if format_file.exists() or all(each.name == STARTING_FILE for each in data.iterdir()):
        with contextlib.suppress(OSError):  # it belongs to another user, as a mounted volume may
            data.chmod(data.stat().st_mode & 0o700)
    if not format_file.exists():
        part = data / f"format.{os.getpid()}"
        part.write_text(f"{FORMAT}\n")
        part.replace(format_file)
    elif not (text := format_file.read_text().strip()).isdigit():
        raise CannotStart(f"{format_file} says {text[:40]!r}, not a number: {data} is no data folder of Paceline")
    elif int(text) > FORMAT:
        raise CannotStart(f"{data} is of a newer version of Paceline (format {text}); use that one")
    elif int(text) < FORMAT:
        raise CannotStart(
            f"{data} is of an earlier version of Paceline (format {text}), whose log this one can't read; choose "
            "another folder, or use the version that wrote it"
        )
    return _token(data / TOKEN)


def recorded_cell(data: Path) -> int | None:
    """The number of the cell that a data folder is of; None: none has run on it."""
    file = data / CELL
    return int(text) if file.exists() and (text := file.read_text().strip()).isdigit() else None


def keep_cell(data: Path, cell: int) -> None:
    """Remembers which cell a data folder is of. Raises `CannotStart` where it is another's."""
    if not (data / CELL).exists():
        (data / CELL).write_text("0\n" if (data / "store").exists() else f"{cell}\n")
    check_cell(data, cell)


def check_cell(data: Path, cell: int) -> None:
    """Raises `CannotStart` where a data folder is of another cell than this."""
    recorded = (data / CELL).read_text().strip()
    if recorded != str(cell):
        raise CannotStart(f"{data} is the data folder of cell {recorded}, not {cell}: choose another with --data")


def agent_folder(data: Path, chosen_folder: Path | None) -> Path:
    """The folder of the agent of this machine: the one that was named, or one beside the data folder. Tasks work below
    it, so it isn't below the token. It is absolute: what makes containers works in a folder of its own. Raises
    `CannotStart`.
    """
    folder = (chosen_folder or data.with_name(f"{data.name}-agent")).absolute()
    above = next((each for each in folder.parents if _has_token(each)), None)
    if above is not None:
        raise CannotStart(
            f"{folder} is inside of {above}, where the token of the cell is: tasks would work below it. "
            f"Choose a folder of the agent outside of {above}."
        )
    return folder


def _has_token(folder: Path) -> bool:
    """Whether it is a data folder with a token; one that nobody may look into has none for tasks either."""
    return os.path.exists(folder / "format") and os.path.exists(folder / TOKEN)


def lock(data: Path) -> IO[str]:
    """Holds a data folder for this process as long as the file is open. Raises `CannotStart` where another has it."""
    try:
        return hold(data / "lock")
    except BlockingIOError as error:
        raise CannotStart(
            f"{data} is in use by another `paceline up`. Stop that one, or choose another folder with --data."
        ) from error


def name_hashes(data: Path) -> NameHashes:
    """The hashes of names and addresses, by the key of a data folder, made if need be. Raises `CannotStart`."""
    return _hashes(data / KEY_FILE, _secret(data / KEY_FILE))


def kept_hashes(data: Path) -> NameHashes | None:
    """The same by a key that is there; None: there is none. Raises `CannotStart`."""
    try:
        return _hashes(data / KEY_FILE, (data / KEY_FILE).read_text(errors="replace").strip())
    except OSError:
        return None


def _hashes(path: Path, text: str) -> NameHashes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < KEY_BYTES:
        raise CannotStart(f"{path} holds no key of names: restore it from a backup")
    return NameHashes(key)


def _token(path: Path) -> str:
    """The token of a data folder."""
    return fit(_secret(path), f"the token in {path}")


def _secret(path: Path) -> str:
    """The secret in a file, which is made if it isn't there; several processes may start on a folder at once."""
    if not path.exists():
        part = path.with_name(f"{path.name}.{os.getpid()}")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
        with contextlib.suppress(FileExistsError):
            os.link(part, path)
        part.unlink()
    return path.read_text(errors="replace").strip()


def fit(token: str, what: str) -> str:
    """The token, which can stand in a header of HTTP. Raises `CannotStart` where it can't."""
    if why := unfit(token):
        raise CannotStart(f"{what} can't be used: {why}. Choose another.")
    return token
