"""A log on which news take a while: each reader sees the records of a topic so much later than they were appended."""

from collections.abc import Iterator, Mapping

from events.log.port import Log, LogRecord
from events.process.clock import Clock


class DelayedLog:
    """The view of one process on a log in virtual time. `delays_ms`: by topic; topics that aren't named are seen at
    once.
    """

    def __init__(self, log: Log, clock: Clock, delays_ms: Mapping[str, int]) -> None:
        self.cell = log.cell
        self.append, self.scan, self.bounds, self.ends = log.append, log.scan, log.bounds, log.ends
        self.wait, self.close = log.wait, log.close
        self._log = log
        self._clock = clock
        self._delays_ms = delays_ms
        self._readers: list[DelayedReader] = []

    def reader(self, positions: Mapping[str, int]) -> "DelayedReader":
        """Implements `Log.reader`."""
        reader = DelayedReader(self._log, positions, self._clock, self._delays_ms)
        self._readers.append(reader)
        return reader

    def wait_ms(self) -> int | None:
        """In how many milliseconds something more is seen; None: nothing is on its way."""
        return min((wait for each in self._readers if (wait := each.wait_ms()) is not None), default=None)


class DelayedReader:
    """Implements `Reader`."""

    def __init__(self, log: Log, positions: Mapping[str, int], clock: Clock, delays_ms: Mapping[str, int]) -> None:
        self._log = log
        self._positions = dict(positions)
        self._clock = clock
        self._delays_ms = delays_ms

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """Implements `Reader.poll`; never waits."""
        out: list[LogRecord] = []
        for topic in self._positions:
            for record in self._seen(topic):
                if len(out) == limit:
                    return out
                out.append(record)
                self._positions[topic] = record.offset + 1
        return out

    def news(self) -> bool:
        """Implements `Reader.news`."""
        return True

    def ends(self) -> dict[str, int]:
        """Implements `Reader.ends`: the ends of what is seen."""
        return {
            topic: max((record.offset + 1 for record in self._seen(topic)), default=position)
            for topic, position in self._positions.items()
        }

    def position(self, topic: str) -> int:
        """Implements `Reader.position`."""
        return self._positions[topic]

    def close(self) -> None:
        """Nothing to give back."""

    def wait_ms(self) -> int | None:
        """In how many milliseconds it sees more; 0: there is something to poll."""
        now, waits = self._clock.monotonic_ms(), []
        for topic, position in self._positions.items():
            first = next(self._log.scan(topic, position), None)
            if first is not None:
                waits.append(max(0, first.at_ms + self._delays_ms.get(topic, 0) - now))
        return min(waits, default=None)

    def _seen(self, topic: str) -> Iterator[LogRecord]:
        now = self._clock.monotonic_ms() - self._delays_ms.get(topic, 0)
        for record in self._log.scan(topic, self._positions[topic]):
            if record.at_ms > now:
                return
            yield record
