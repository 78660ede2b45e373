"""Branches that are kept: data folders with the stretch of a branch, as of an imported log range."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from events.log.port import Log, LogFault, LogRecord, NewRecord, gap
from paceline.client.errors import InvalidValue
from paceline.history.exporter import Begin, export
from paceline.history.importer import import_history
from paceline.history.start_state import FOLDER, VIEWS, is_history
from paceline.whatif.branch import Branch
from paceline.whatif.files import writing
from paceline.whatif.stretch import Stretch
from processors.cell_machines import machines

SIDES = ("again", "changed")


class JoinedLog:
    """A log as it was at the start of a branch, and from there on the branch."""

    def __init__(self, base: Log, branch: Log, starts: Mapping[str, int]) -> None:
        self.cell = base.cell
        self._base = base
        self._branch = branch
        self._starts = starts

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Raises `LogFault`."""
        raise LogFault("This is a branch of history: it takes no records.")

    def bounds(self, topic: str) -> tuple[int, int]:
        """Implements `Log.bounds`."""
        return self._base.bounds(topic)[0], self._branch.bounds(topic)[1]

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Implements `Log.ends`."""
        return {topic: self.bounds(topic)[1] for topic in topics}

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """Implements `Log.scan`."""
        first, end = self.bounds(topic)
        if not first <= start <= end:
            raise gap(topic, start, first, end)
        parting = self._starts[topic]
        if start < parting:
            yield from takewhile(lambda record: record.offset < parting, self._base.scan(topic, start))
        yield from self._branch.scan(topic, max(start, parting))

    def reader(self, positions: Mapping[str, int]) -> "JoinedReader":
        """Implements `Log.reader`."""
        return JoinedReader(self, positions)

    def wait(self, timeout: float) -> None:
        """Nothing comes."""

    def close(self) -> None:
        """Its parts are those of others."""


class JoinedReader:
    """Implements `Reader`."""

    def __init__(self, log: JoinedLog, positions: Mapping[str, int]) -> None:
        self._positions = dict(positions)
        self._ends = log.ends(positions)
        self._scans = {topic: log.scan(topic, position) for topic, position in positions.items()}

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """Implements `Reader.poll`."""
        records: list[LogRecord] = []
        for topic, scan in self._scans.items():
            part = list(islice(scan, limit - len(records)))
            if part:
                self._positions[topic] = part[-1].offset + 1
            records += part
        return records

    def news(self) -> bool:
        """Implements `Reader.news`."""
        return any(self._positions[topic] < end for topic, end in self._ends.items())

    def ends(self) -> dict[str, int]:
        """Implements `Reader.ends`."""
        return dict(self._ends)

    def position(self, topic: str) -> int:
        """Implements `Reader.position`."""
        return self._positions[topic]

    def close(self) -> None:
        """Nothing to give back."""


def check_room(out: Path) -> None:
    """Raises `InvalidValue` where a branch can't be kept in a folder, as there is something else."""
    for side in SIDES:
        if (out / side).exists() and any((out / side).iterdir()):
            raise InvalidValue(f"{out / side} isn't empty: name another folder with --out")


def keep(stretch: Stretch, branch: Branch, data: Path, folder: Path) -> None:
    """Writes a branch to a folder that is empty or not there. `data`: the folder of the log that it branches from.
    Raises `CantWrite`.
    """
    views = data / FOLDER / VIEWS if is_history(data) else None
    log = JoinedLog(stretch.base(), branch.log, stretch.starts)
    with writing(folder), TemporaryDirectory(prefix="paceline-branch-") as part:
        file = Path(part) / "branch.avro"
        begin = Begin(stretch.stores, stretch.starts, views)
        export(log, machines(log.cell), stretch.from_ms, stretch.to_ms, file, lambda sentence: None, begin)
        import_history(file, folder)
