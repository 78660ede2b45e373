"""Brings the rounds of one machine of one cell into the topics of the fan-out: none left out, at most the last twice.

Where it stands follows from the log: the rounds by the acceptance rule, what was published by the ends of the topics
of the fan-out, whose messages name their rounds. A round is published whole before the next, so what is there is a
beginning without gaps, and after a crash only its last round may be incomplete: that one is published again. A file
saves reading the rounds from the start; it may be deleted at any time.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec
from prometheus_client import Counter, Gauge

from events.acceptance import Chain
from events.codec import CodecError, decode
from events.log.port import Log, LogFault, LogGap, LogRecord, gap
from events.process.whole_files import write_whole
from events.records.rounds import RoundCommitted
from events.rounds import accept
from events.structs import known
from events.topics import rounds_of
from projections.fanout.unfold import OUTPUTS, Message, OutputMessage, unfold

FORMAT = 1
TAIL = 100
"""Messages looked at first at the end of a topic."""
IGNORED = Counter(
    "paceline_fanout_ignored_total", "Records of rounds topics ignored, by cause.", ("cell", "machine", "cause")
)
ROUND = Gauge("paceline_fanout_round", "The last round published.", ("cell", "machine"))


class FollowerState(msgspec.Struct):
    """The contents of the file: all rounds up to `chain.round` are published, the rounds topic is read up to
    `position`; `ends` are the ends of the fan-out's topics after that.
    """

    format: int
    position: int
    chain: Chain
    ends: dict[str, int]


class Follower:
    """Publishes the rounds of one machine, record by record as they stand in its topic. After an error it is of no use;
    a new one starts from the log. For one thread at a time.
    """

    def __init__(
        self, log: Log, machine: str, publish: Callable[[Iterable[OutputMessage]], None], path: Path, reached: int = 0
    ) -> None:
        """`reached`: the position of the one before it, which the log must have. Raises `LogError`; `LogGap`: the log
        doesn't have what comes next.
        """
        self.topic = rounds_of(machine)
        self.machine = machine
        self._log = log
        self._publish = publish
        self._path = path
        self._outputs = [record.topic for record in OUTPUTS[machine]]
        self._labels = (str(log.cell), machine)
        start, self._end = log.bounds(self.topic)
        state = self._load()
        known_to = max(state.position if state else 0, reached)
        if known_to > self._end:
            raise gap(self.topic, known_to, start, self._end)
        if state is not None and self._lacks(state.ends):
            state = None
        self.chain = state.chain if state else Chain()
        """The rounds that were read."""
        self.position = state.position if state else 0
        if self.position < start:
            raise gap(self.topic, self.position, start, self._end)
        self._saved = self.position
        floors = state.ends if state else {}
        self._last = max(self._last_round(topic, floors.get(topic, 0)) for topic in self._outputs)
        self._from = max(self.chain.round + 1, self._last)

    def take(self, record: LogRecord) -> None:
        """Publishes the next record, if it is a round and not published yet; what was taken is passed over. Raises
        `LogError`.
        """
        if record.offset < self.position:
            return
        delivered = accept(record, self.chain, self.machine, self._log.cell)
        event = delivered.event
        if event is None:
            IGNORED.labels(*self._labels, delivered.verdict.value).inc()
        elif isinstance(event, RoundCommitted) and event.round >= self._from:
            self._publish(unfold(event, record.offset))
            ROUND.labels(*self._labels).set(event.round)
        self.position = record.offset + 1

    def reach(self, position: int) -> None:
        """No record is left before `position`. Raises `LogGap` where what was published is not in the log any more."""
        self.position = max(self.position, position)
        if self.position >= self._end and self.chain.round < self._last:
            raise LogGap(
                f"{self.topic} of cell {self._log.cell} ends at round {self.chain.round}, but round {self._last} was "
                "published: records are missing. Restore the log from its archive."
            )

    def save(self) -> None:
        """Writes the file, if there is something new to keep. Raises `LogError`."""
        if self.position != self._saved:
            ends = self._log.ends(self._outputs)
            self._write(msgspec.msgpack.encode(FollowerState(FORMAT, self.position, self.chain, ends)))
            self._saved = self.position

    def _write(self, value: bytes) -> None:
        try:
            write_whole(self._path, value)
        except OSError as error:
            raise LogFault(f"can't write {self._path}: {error}") from error

    def _load(self) -> FollowerState | None:
        """Reads the file, if it is there and of this format."""
        try:
            state = msgspec.msgpack.decode(self._path.read_bytes(), type=known(FollowerState))
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return state if state.format == FORMAT else None

    def _lacks(self, ends: Mapping[str, int]) -> bool:
        """Whether messages are missing that had been published."""
        return any(end < ends.get(topic, 0) for topic, end in self._log.ends(self._outputs).items())

    def _last_round(self, topic: str, floor: int) -> int:
        """The highest round of this machine among the last messages of a topic from `floor` on; 0: none. A process
        that was frozen in a round sends the rest of it late, so looking ends only where a second round is met.
        """
        start, end = self._log.bounds(topic)
        start, step = max(start, floor), TAIL
        while start < end:
            begin = max(start, end - step)
            rounds = {self._round_of(record) for record in self._log.scan(topic, begin)} - {0}
            if len(rounds) > 1 or begin == start:
                return max(rounds, default=0)
            step *= 10
        return 0

    def _round_of(self, record: LogRecord) -> int:
        """The round that a message is of; 0 where it is another machine's, or a stranger's."""
        try:
            event = decode(record.value)
        except CodecError:
            return 0
        if not isinstance(event, Message) or (event.machine, event.cell) != (self.machine, self._log.cell):
            return 0
        return event.round
