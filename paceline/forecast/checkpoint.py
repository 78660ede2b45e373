"""All that forecasts are made from, in a file that may be deleted at any time: the log has it too."""

from pathlib import Path

import msgspec

from events.acceptance import Chain
from events.log.port import LogFault
from events.process.whole_files import write_whole
from events.structs import known
from paceline.forecast.book import BookState
from paceline.forecast.forecaster import Forecast, ForecasterState

FORMAT = 2


class Checkpoint(msgspec.Struct):
    """The state of a forecaster, folded up to `positions`. `first`, `newest`: forecasts that aren't scored, by job."""

    format: int
    cell: int
    positions: dict[str, int]
    known_positions: dict[str, int]
    chains: dict[str, Chain]
    book: BookState
    forecaster: ForecasterState
    first: dict[str, Forecast]
    newest: dict[str, Forecast]


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Puts the file in place whole. Raises `LogFault` where the disk doesn't take it."""
    try:
        write_whole(path, msgspec.msgpack.encode(checkpoint))
    except OSError as error:
        raise LogFault(
            f"The forecaster's {path} can't be written: {error.strerror}. Make room, or let it write there, "
            "then start again."
        ) from error


def load(path: Path, cell: int) -> Checkpoint | None:
    """Reads what `save` wrote; None where there is nothing of this format and cell."""
    try:
        checkpoint = msgspec.msgpack.decode(path.read_bytes(), type=known(Checkpoint), strict=False)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return checkpoint if (checkpoint.format, checkpoint.cell) == (FORMAT, cell) else None
