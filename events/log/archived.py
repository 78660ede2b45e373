"""A log with its archive in front: one history from the first archived record on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from events.log.archive import Archive, Stretch
from events.log.port import Log, LogError, LogGap, LogRecord, NewRecord, Reader, gap


class Archived(NamedTuple):
    """Archived records of a topic, and the offset where they end and the log goes on."""

    records: Iterator[LogRecord]
    end: int


class ArchivedLog:
    """Reads what the log no longer has from its archive at a URL, and the log after it; appends go to the log. Without
    need the archive isn't looked at, so it may be away. As thread-safe as the log.
    """

    def __init__(self, log: Log, url: str) -> None:
        self.cell = log.cell
        self._log = log
        self._archive = Archive(url, log.cell)
        self._held: dict[str, list[Stretch]] = {}

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Implements `Log.append`."""
        return self._log.append(records)

    def reader(self, positions: Mapping[str, int]) -> "ArchivedReader":
        """Implements `Log.reader`."""
        return ArchivedReader(self, self._log, positions)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """Implements `Log.scan`. Raises `ArchiveFault` where the archive is damaged."""
        position, (first, end) = start, self._log.bounds(topic)
        if start > end:
            raise gap(topic, start, first, end)
        while position < end:
            archived = self.archived(topic, position) if position < first else None
            try:
                for record in archived.records if archived else self._log.scan(topic, position):
                    if record.offset >= end:
                        return
                    yield record
                    position = record.offset + 1
                position = archived.end if archived else end
                first = self._log.bounds(topic)[0]
            except LogGap:
                first = self._log.bounds(topic)[0]
                if position >= first:
                    raise  # else it was removed while it was read, and goes on in the archive

    def bounds(self, topic: str) -> tuple[int, int]:
        """Implements `Log.bounds`; the archive is looked at only where the log doesn't begin at 0."""
        start, end = self._log.bounds(topic)
        archived = self._stretches(topic, start) if start else []
        return (min(start, archived[0].start) if archived and archived[-1].end >= start else start), end

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Implements `Log.ends`."""
        return self._log.ends(topics)

    def wait(self, timeout: float) -> None:
        """Implements `Log.wait`."""
        self._log.wait(timeout)

    def close(self) -> None:
        """Implements `Log.close`."""
        self._log.close()

    def archived(self, topic: str, position: int) -> Archived:
        """The archived records of a topic from a position on that is before the log. Raises `LogGap` where it isn't
        there, or the archive doesn't reach to the log.
        """
        start, end = self._log.bounds(topic)
        archived = [stretch for stretch in self._stretches(topic, start) if position < stretch.end]
        if not archived or position < archived[0].start or archived[-1].end < start:
            raise gap(topic, position, self.bounds(topic)[0], end)
        return Archived(self._read(archived, position), archived[-1].end)

    def _stretches(self, topic: str, start: int) -> list[Stretch]:
        """The archived stretches; looked up again when the log starts after those that were known."""
        archived = self._held.get(topic, [])
        if not archived or archived[-1].end < start:
            archived = self._held[topic] = self._archive.stretches(topic)
        return archived

    def _read(self, archived: list[Stretch], start: int) -> Iterator[LogRecord]:
        for stretch in archived:
            yield from (record for record in self._archive.read(stretch) if record.offset >= start)
            start = stretch.end


class ArchivedReader:
    """Implements `Reader`. Topics whose position is before the log are read from the archive, a share of each; the
    others from the log.
    """

    def __init__(self, log: ArchivedLog, inner: Log, positions: Mapping[str, int]) -> None:
        self._log = log
        self._inner = inner
        self._topics = tuple(positions)
        self._positions = dict(positions)
        """Where those topics continue that the live reader doesn't have."""
        self._archived: dict[str, Archived] = {}
        self._live: Reader | None = None
        self._live_topics: list[str] = []

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """Implements `Reader.poll`. Raises `ArchiveFault` where the archive is damaged."""
        out = self._poll_archived(limit)
        while not out and self._arranged_anew():
            out = self._poll_archived(limit)
        if self._live is None or len(out) == limit:
            return out
        try:
            return out + self._live.poll(limit - len(out), 0 if out or self._archived else timeout)
        except LogError as error:
            if out:  # what was taken must not be lost; the error comes again
                return out
            if not isinstance(error, LogGap):
                raise
            self._arrange()
            if self._archived:  # what was removed while it was read goes on in the archive
                return []
            raise

    def news(self) -> bool:
        """Implements `Reader.news`."""
        return bool(self._archived) or self._live is None or self._live.news()

    def ends(self) -> dict[str, int]:
        """Implements `Reader.ends`."""
        reader = self._live  # a thread that polls may rearrange topics meanwhile
        live = reader.ends() if reader is not None else {}
        rest = [topic for topic in self._topics if topic not in live]
        return {**live, **(self._inner.ends(rest) if rest else {})}

    def position(self, topic: str) -> int:
        """Implements `Reader.position`."""
        if topic in self._positions or self._live is None:
            return self._positions[topic]
        return self._live.position(topic)

    def close(self) -> None:
        """Implements `Reader.close`."""
        if self._live is not None:
            self._live.close()

    def _poll_archived(self, limit: int) -> list[LogRecord]:
        out: list[LogRecord] = []
        share = max(1, limit // max(1, len(self._archived)))
        for topic, (records, end) in list(self._archived.items()):
            if len(out) == limit:
                break
            try:
                part = list(islice(records, min(share, limit - len(out))))
            except LogError:
                del self._archived[topic]  # an iterator that has failed would end here
                if out:
                    break
                raise
            out += part
            if part:
                self._positions[topic] = part[-1].offset + 1
            else:
                self._positions[topic] = end
                del self._archived[topic]
        return out

    def _arranged_anew(self) -> bool:
        """Whether some topics had to be arranged, since where they were read has ended."""
        if self._positions.keys() == self._archived.keys():
            return False
        self._arrange()
        return True

    def _arrange(self) -> None:
        """Decides for each topic where it is read on. Raises `LogGap` where nobody has its position."""
        if self._live is not None:
            self._positions |= {topic: self._live.position(topic) for topic in self._live_topics}
            self._live.close()
            self._live = None
        rest = {}
        for topic, position in self._positions.items():
            if topic in self._archived:
                continue
            if position < self._inner.bounds(topic)[0]:
                self._archived[topic] = self._log.archived(topic, position)
            else:
                rest[topic] = position
        self._live_topics = list(rest)
        self._live = self._inner.reader(rest) if rest else None
        for topic in rest:
            del self._positions[topic]
