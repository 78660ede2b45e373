"""Causal delivery: the order in which a reader of several topics takes their records (design §6).

A round carries `seen`: how far its writer knew each topic, by reading it or through rounds it had read. It is
delivered only after each topic that this reader reads has been delivered up to there, so nobody sees an answer before
its question, not even by way of a third machine. Among what may come next: topic rank, then offset.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from events.acceptance import Chain, Verdict, digest
from events.codec import CodecError, decode
from events.log import Log, LogRecord
from events.records.base import Event
from events.records.rounds import EpochStarted, RoundCommitted
from events.topics import FACT_BYTES_MAX, RANK, rounds_of

ID_CHARS_MAX = 1024


class Delivered(NamedTuple):
    """A record in its turn: what it holds, and what the acceptance rule says of it where it is of a machine's topic.

    `event` is None for bytes that are no record of that topic; `fault` then says why.
    """

    record: LogRecord
    event: Event | None
    fault: str = ""
    verdict: Verdict = Verdict.ACCEPTED


def in_log(log: Log, topic: str, position: int, hash: bytes) -> bool:
    """Whether the record before `position` is the round of this hash; one that the log has no more is believed."""
    if position <= log.bounds(topic)[0]:
        return True
    record = next(iter(log.scan(topic, position - 1)), None)
    return record is not None and record.offset == position - 1 and digest(record.value) == hash


def read(record: LogRecord, machine: str | None) -> Delivered:
    """Decodes a record and checks that it belongs where it stands. `machine`: whose rounds the topic carries."""
    try:
        event = decode(record.value)
    except CodecError as error:
        return Delivered(record, None, error.code)
    fits = isinstance(event, EpochStarted | RoundCommitted) if machine else event.topic == record.topic
    if not fits:
        return Delivered(record, None, "WRONG_TOPIC")
    if len(record.value) > FACT_BYTES_MAX and _unanswerable(event):
        return Delivered(record, None, "TOO_LARGE")
    return Delivered(record, event)


def _unanswerable(event: Event) -> bool:
    """Whether a fact that is too large could not even be refused: the answer names what may be large in it."""
    return hasattr(event, "command_id") or len(getattr(event, "job_id", "")) > ID_CHARS_MAX


def judge(delivered: Delivered, chain: Chain, machine: str, cell: int) -> Delivered:
    """Applies the acceptance rule to the next record of a machine's topic and takes it into the chain if it passes."""
    event = delivered.event
    if not isinstance(event, EpochStarted | RoundCommitted):
        return delivered
    verdict = chain.judge(event, machine, cell)
    if verdict is Verdict.ACCEPTED:
        chain.follow(event, delivered.record.value, delivered.record.offset + 1)
    return delivered if verdict is delivered.verdict else delivered._replace(verdict=verdict)


class Inbox:
    """Holds records that were read and gives them out in causal order.

    `positions` is how far each topic was delivered, `known` how far it was known at all, `chains` what is known of
    the history of each machine that is read. The caller owns the chains: they are part of its state.
    """

    def __init__(
        self, positions: Mapping[str, int], known: Mapping[str, int], chains: Mapping[str, Chain], cell: int
    ) -> None:
        self.positions = dict(positions)
        self.known = {**known}
        for topic, position in positions.items():
            self.known[topic] = max(self.known.get(topic, 0), position)
        self._chains = chains
        self._cell = cell
        self._waiting: dict[str, deque[LogRecord]] = {
            topic: deque() for topic in sorted(positions, key=lambda name: (RANK.get(name, len(RANK)), name))
        }
        self._machines = {rounds_of(machine): machine for machine in chains}
        self._heads: dict[str, Delivered] = {}

    def add(self, records: Iterable[LogRecord]) -> None:
        """Takes records as they were read, each topic in order."""
        for record in records:
            self._waiting[record.topic].append(record)

    def waiting(self) -> int:
        """Records that were read and not delivered yet."""
        return sum(map(len, self._waiting.values()))

    def deliver(self, limit: int) -> Iterator[Delivered]:
        """Up to `limit` records in causal order; each counts as delivered when the next is asked for.

        A round that is delivered as ACCEPTED has been taken into its chain.
        """
        given = 0
        while given < limit:
            topic = self._next()
            if topic is None:
                return
            queue, machine = self._waiting[topic], self._machines.get(topic)
            while queue and given < limit:
                delivered = self._heads.pop(topic, None) or read(queue[0], machine)
                record = queue.popleft()
                if machine is not None:
                    delivered = judge(delivered, self._chains[machine], machine, self._cell)
                    self._learn(delivered)
                self.positions[topic] = record.offset + 1
                if self.known.get(topic, 0) <= record.offset:
                    self.known[topic] = record.offset + 1
                given += 1
                yield delivered
                if machine is not None:
                    break

    def _next(self) -> str | None:
        """The first topic by rank whose next record may be delivered: a fact at once, a round after what it saw."""
        for topic, queue in self._waiting.items():
            if queue and self._ready(topic, queue[0]):
                return topic
        return None

    def _ready(self, topic: str, record: LogRecord) -> bool:
        machine = self._machines.get(topic)
        if machine is None:
            return True
        head = self._heads.get(topic)
        if head is None:
            head = self._heads[topic] = read(record, machine)
        if not isinstance(head.event, RoundCommitted):
            return True
        for seen in head.event.seen:
            if self.positions.get(seen.topic, seen.position) < seen.position:
                return self._chains[machine].judge(head.event, machine, self._cell) is not Verdict.ACCEPTED
        return True

    def _learn(self, delivered: Delivered) -> None:
        if delivered.verdict is Verdict.ACCEPTED and isinstance(delivered.event, RoundCommitted):
            for seen in delivered.event.seen:
                self.known[seen.topic] = max(self.known.get(seen.topic, 0), seen.position)
