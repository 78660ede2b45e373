"""Brings a stretch of history to a folder: records as an archive, beside them what the stretch starts from.

`DIR/archive` holds the records, `DIR/start` stores and views, `DIR/history.json` what the stretch is. All that reads a
log reads it there; nobody can go on with it.
"""

import shutil
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import msgspec

from events.log.archive import Archive, Stretch
from events.log.archived import ArchivedLog
from events.log.port import LogFault, LogRecord, NewRecord, gap
from events.structs import known
from events.topics import EVERY, MACHINES
from paceline.client.errors import PacelineError
from paceline.history.history_file import FileRecord, read
from paceline.history.start_state import FOLDER, VIEWS, is_history
from paceline.services.data_folder import prepare
from paceline.services.settings import Settings
from processors.runtime.store import Progress, RocksStore
from processors.state.table import RowChange

ARCHIVE = "archive"
INFO = "history.json"
TOPICS = frozenset(topic.name for topic in EVERY)
STRETCH_RECORDS = 5000
STRETCH_BYTES = 8 * 1024 * 1024


class HistoryInfo(msgspec.Struct, frozen=True):
    """An imported log range: times in milliseconds since 1970, where each topic begins and ends, the build that wrote
    it, and how many records it has.
    """

    cell: int
    from_ms: int
    to_ms: int
    build: str
    topics: dict[str, tuple[int, int]]
    records: int = 0


class EmptyTail:
    """The log behind the archive of a stretch: it begins where the stretch ends, has nothing and takes nothing."""

    def __init__(self, info: HistoryInfo) -> None:
        self.cell = info.cell
        self._ends = {topic: end for topic, (_, end) in info.topics.items()}

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Raises `LogFault`."""
        raise LogFault("This is history: it takes no records.")

    def reader(self, positions: Mapping[str, int]) -> "EmptyTailReader":
        """Implements `Log.reader`."""
        return EmptyTailReader(positions)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """Implements `Log.scan`."""
        end = self._ends.get(topic, 0)
        if start != end:
            raise gap(topic, start, end, end)
        return iter(())

    def bounds(self, topic: str) -> tuple[int, int]:
        """Implements `Log.bounds`."""
        end = self._ends.get(topic, 0)
        return end, end

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Implements `Log.ends`."""
        return {topic: self._ends.get(topic, 0) for topic in topics}

    def wait(self, timeout: float) -> None:
        """Nothing comes."""
        time.sleep(timeout)

    def close(self) -> None:
        """Nothing to give back."""


class EmptyTailReader:
    """Implements `Reader`."""

    def __init__(self, positions: Mapping[str, int]) -> None:
        self._positions = dict(positions)

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """Nothing."""
        time.sleep(timeout)
        return []

    def news(self) -> bool:
        """Implements `Reader.news`."""
        return False

    def ends(self) -> dict[str, int]:
        """Where it was told to read from."""
        return dict(self._positions)

    def position(self, topic: str) -> int:
        """Where it was told to read from."""
        return self._positions[topic]

    def close(self) -> None:
        """Nothing to give back."""


def info(data: Path) -> HistoryInfo:
    """Reads which log range is in a folder. Raises `PacelineError`."""
    try:
        return msgspec.json.decode((data / INFO).read_bytes(), type=known(HistoryInfo))
    except FileNotFoundError as error:
        raise PacelineError(
            f"{data} holds no imported log range. `paceline log import FILE` imports one to an empty folder."
        ) from error
    except (OSError, msgspec.DecodeError) as error:
        raise PacelineError(
            f"{data} holds no whole stretch of history: {error}. Bring it again to an empty folder."
        ) from error


def history_in(settings: Settings) -> HistoryInfo | None:
    """The stretch of history that settings name instead of the log of a cell. Raises `PacelineError`."""
    return info(settings.data) if not settings.kafka and is_history(settings.data) else None


def open_history(data: Path) -> ArchivedLog:
    """The log of a folder that a stretch of history was brought to."""
    return ArchivedLog(EmptyTail(info(data)), str(data / ARCHIVE))


@contextmanager
def imported_history(file: Path | None, data: Path | None) -> Iterator[Path | None]:
    """The data folder to look at: that of a file of history, for as long as it is looked at; without one `data`."""
    if file is None:
        yield data
        return
    with TemporaryDirectory(prefix="paceline-history-") as folder:
        import_history(file, Path(folder) / "data")
        yield Path(folder) / "data"


def import_history(file: Path, data: Path) -> HistoryInfo:
    """Writes the stretch of a file to a folder that is empty or not there. Raises `PacelineError`."""
    if data.exists() and any(data.iterdir()):
        raise PacelineError(f"{data} isn't empty: name another folder.")
    prepare(data)
    writer = _Writer(data)
    try:
        for part in read(file):
            writer.take(part)
        return writer.finish()
    except BaseException:
        shutil.rmtree(data, ignore_errors=True)
        raise
    finally:
        writer.close()


class _Writer:
    """Takes the parts of a file in their order."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._start = data / FOLDER
        self._start.mkdir()
        self._info: HistoryInfo | None = None
        self._rows: list[RowChange] = []
        self._views: IO[bytes] | None = None
        self._topic = ""
        self._records: list[LogRecord] = []
        self._bytes = self._from = self._count = 0

    def take(self, part: FileRecord) -> None:
        """Writes a part."""
        fields = part.fields
        match part.kind:
            case "Head":
                spans = {_name(each["topic"], TOPICS): (each["start"], each["end"]) for each in fields["topics"]}
                self._info = HistoryInfo(fields["cell"], fields["from_ms"], fields["to_ms"], fields["build"], spans)
                self._archive = Archive(str(self._data / ARCHIVE), self._info.cell)
            case "Row":
                self._rows.append(RowChange(fields["table"], fields["key"], fields["row"]))
            case "Progress":
                store = RocksStore(self._start / _name(fields["machine"], MACHINES))
                store.commit(self._rows, msgspec.msgpack.decode(fields["progress"], type=known(Progress)))
                store.close()
                self._rows = []
            case "Views":
                self._views = self._views or (self._start / VIEWS).open("wb")
                self._views.write(fields["chunk"])
            case "Record":
                self._record(LogRecord(**fields))

    def finish(self) -> HistoryInfo:
        """Writes what the stretch is; without that the folder isn't whole."""
        if self._info is None:
            raise PacelineError("The file has no head.")
        self._flush(last=True)
        result = msgspec.structs.replace(self._info, records=self._count)
        (self._data / INFO).write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")
        return result

    def close(self) -> None:
        """Closes what is open."""
        if self._views is not None:
            self._views.close()

    def _record(self, record: LogRecord) -> None:
        if record.topic != self._topic:
            self._flush(last=True)
            assert self._info is not None
            self._topic, self._from = record.topic, self._info.topics[_name(record.topic, self._info.topics)][0]
        elif len(self._records) >= STRETCH_RECORDS or self._bytes >= STRETCH_BYTES:
            self._flush(last=False)
        self._records.append(record)
        self._bytes += len(record.key) + len(record.value)
        self._count += 1

    def _flush(self, last: bool) -> None:
        """Writes the records at hand; the last stretch of a topic reaches to its end."""
        if not self._records or self._info is None:
            return
        end = self._info.topics[self._topic][1] if last else self._records[-1].offset + 1
        self._archive.write(Stretch(self._topic, self._from, end), self._records)
        self._from, self._records, self._bytes = end, [], 0


def _name(name: str, known_names: Container[str]) -> str:
    """A name in a file that becomes one of a folder. Raises `PacelineError` where it is none, such as `../store`."""
    if name not in known_names:
        raise PacelineError(f"The file names {name[:80]!r}, which is no topic or machine that this Paceline knows.")
    return name
