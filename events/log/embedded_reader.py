"""Reads an embedded log forward."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

from events.log.embedded_rows import TopicState
from events.log.port import LogRecord
from events.log.tail_cache import in_shares


class ReadLog(Protocol):
    """The part of an embedded log that its readers use."""

    follows: bool
    """Whether another process writes it."""
    version: int
    """Changes when there may be more to read."""
    written: int
    """Changes when there may be more to read for who reads ahead."""

    def known(self, name: str) -> TopicState:
        """The state of a topic, kept up to date."""
        ...

    def ends(self, topics: Iterable[str], ahead: bool = False) -> dict[str, int]:
        """Per topic the offset after its last record."""
        ...

    def take(self, topic: str, position: int, limit: int, ahead: bool = False) -> list[LogRecord]:
        """Up to `limit` records of one topic from a position."""
        ...

    def refresh(self) -> None:
        """Brings a log that another process writes up to what that has written."""

    def wait_until(self, come: Callable[[], bool], timeout: float) -> bool:
        """Waits until `come` holds, at most `timeout` seconds."""
        ...


class EmbeddedReader:
    """Implements `Reader`; `ahead`: it reads what isn't synced too."""

    def __init__(self, log: ReadLog, positions: Mapping[str, int], ahead: bool) -> None:
        self._log = log
        self._ahead = ahead
        self._take = partial(log.take, ahead=ahead)
        self._positions = dict(positions)
        self._topics = [(name, log.known(name)) for name in positions]
        self._version = -1
        """That of the log in which all was read."""

    def poll(self, limit: int, timeout: float) -> list[LogRecord]:
        """Implements `Reader.poll`."""
        if self._log.follows:
            self._log.refresh()
        if not self._come() and not (timeout > 0 and self._log.wait_until(self._come, timeout)):
            return []
        positions = self._positions
        ends = ((name, topic.newest.end if self._ahead else topic.end) for name, topic in self._topics)
        news = {name: end for name, end in ends if end != positions[name]}
        return in_shares(positions, news, limit, self._take)

    def news(self) -> bool:
        """Implements `Reader.news`."""
        return self._log.follows or (
            self._version != (self._log.written if self._ahead else self._log.version) and self._come()
        )

    def ends(self) -> dict[str, int]:
        """Implements `Reader.ends`."""
        return self._log.ends(self._positions, self._ahead)

    def position(self, topic: str) -> int:
        """Implements `Reader.position`."""
        return self._positions[topic]

    def close(self) -> None:
        """Nothing to give back."""

    def _come(self) -> bool:
        positions, ahead = self._positions, self._ahead
        version = self._log.written if ahead else self._log.version
        if version == self._version:  # nothing was appended since nothing was there
            return False
        for name, topic in self._topics:
            if positions[name] != (topic.newest.end if ahead else topic.end):
                return True
        self._version = version
        return False
