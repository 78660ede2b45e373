"""The log in memory, for tests and simulation: one process, no thread; time comes from the clock that it is given."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from events.log.port import LogRecord, NewRecord, gap


class _Topic:
    __slots__ = ("end", "records", "start")

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.start = 0
        self.end = 0

    def index_of(self, offset: int) -> int:
        """Index of the first record at or after an offset; offsets may have holes."""
        low, high = 0, len(self.records)
        without_holes = high - (self.end - offset)
        if 0 <= without_holes < high and self.records[without_holes].offset == offset:
            return without_holes
        while low < high:
            middle = (low + high) // 2
            if self.records[middle].offset < offset:
                low = middle + 1
            else:
                high = middle
        return low


class MemoryLog:
    """A log that lives as long as this object; `now_ms` gives the append time.

    With a `seed` each poll takes some of the topics that have news, in an order drawn each time, as if they were on
    several brokers; without one it takes all, in the order in which they were named.
    """

    def __init__(self, now_ms: Callable[[], int], cell: int = 0, seed: int | None = None) -> None:
        self.cell = cell
        self.draw = None if seed is None else random.Random(seed)
        self._now_ms = now_ms
        self._topics: dict[str, _Topic] = {}
        self._last_ms = 0

    def topic(self, name: str) -> _Topic:
        """The topic of a name, made when first used."""
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = _Topic()
        return topic

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Implements `Log.append`; never fails."""
        self._last_ms = max(self._last_ms, self._now_ms())
        offsets = []
        for record in records:
            topic = self.topic(record.topic)
            topic.records.append(LogRecord(record.topic, topic.end, self._last_ms, record.key, record.value))
            offsets.append(topic.end)
            topic.end += 1
        return offsets

    def reader(self, positions: Mapping[str, int]) -> "MemoryReader":
        """Implements `Log.reader`."""
        return MemoryReader(self, positions)

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        """Implements `Log.scan`."""
        state = self.topic(topic)
        if not state.start <= start <= state.end:
            raise gap(topic, start, state.start, state.end)
        yield from state.records[state.index_of(start) :]

    def bounds(self, topic: str) -> tuple[int, int]:
        """Implements `Log.bounds`."""
        state = self.topic(topic)
        return state.start, state.end

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Implements `Log.ends`."""
        return {topic: self.topic(topic).end for topic in topics}

    def truncate(self, topic: str, start: int) -> None:
        """Removes the records before an offset, as a broker's retention would."""
        state = self.topic(topic)
        state.records = state.records[state.index_of(start) :]
        state.start = start

    def leave_hole(self, topic: str, offsets: int = 1) -> None:
        """Passes over offsets, as a transaction's markers do."""
        self.topic(topic).end += offsets

    def wait(self, timeout: float) -> None:
        """Returns at once: nothing happens in memory while one waits."""

    def close(self) -> None:
        """Nothing to give back."""


class MemoryReader:
    """Implements `Reader`."""

    def __init__(self, log: MemoryLog, positions: Mapping[str, int]) -> None:
        self._topics = {name: log.topic(name) for name in positions}
        self._positions = dict(positions)
        self._draw = log.draw

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """Implements `Reader.poll`; never waits."""
        out: list[LogRecord] = []
        news = [(name, topic) for name, topic in self._topics.items() if self._positions[name] != topic.end]
        if self._draw is not None and news:
            news = self._draw.sample(news, self._draw.randint(1, len(news)))
        for name, topic in news:
            position = self._positions[name]
            if not topic.start <= position <= topic.end:
                if out:  # what was taken must not be lost; the error comes again
                    return out
                raise gap(name, position, topic.start, topic.end)
            first = topic.index_of(position)
            part = topic.records[first : first + limit - len(out)]
            out += part
            if first + len(part) == len(topic.records):
                self._positions[name] = topic.end
            elif part:
                self._positions[name] = part[-1].offset + 1
        return out

    def news(self) -> bool:
        """Implements `Reader.news`."""
        return any(self._positions[name] != topic.end for name, topic in self._topics.items())

    def ends(self) -> dict[str, int]:
        """Implements `Reader.ends`."""
        return {name: topic.end for name, topic in self._topics.items()}

    def position(self, topic: str) -> int:
        """Implements `Reader.position`."""
        return self._positions[topic]

    def close(self) -> None:
        """Nothing to give back."""
