"""The gateway's fold on disk: a file that may be deleted at any time."""

from pathlib import Path
from typing import Any

import msgspec

from events.log.port import LogFault
from events.process.whole_files import write_whole

FORMAT = 11


def save(path: Path, state: dict[str, Any]) -> None:
    """Puts the file in place whole. Raises `LogFault` where the disk doesn't take it."""
    try:
        write_whole(path, msgspec.msgpack.encode({"format": FORMAT, **state}))
    except OSError as error:
        raise LogFault(
            f"The gateway's {path} can't be written: {error.strerror}. Make room, or let it write there, "
            "then start again."
        ) from error


def load(path: Path, cell: int, gateway: str) -> dict[str, Any] | None:
    """Reads what `save` wrote; None where there is nothing of this format, cell and gateway: then the log is folded
    from its start.
    """
    try:
        state: dict[str, Any] = msgspec.msgpack.decode(path.read_bytes(), strict=False)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    expected = {"format": FORMAT, "cell": cell, "gateway": gateway}
    return state if all(state.get(name) == value for name, value in expected.items()) else None
