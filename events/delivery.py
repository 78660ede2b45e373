"""Causal delivery: the order in which a reader of several topics takes their records (docs/architecture.md).

A round carries `seen`: how far its writer knew each topic, by reading it or through rounds it had read. It is
delivered only after each topic that this reader reads has been delivered up to there, so nobody sees an answer before
its question, not even by way of a third machine. Among what may come next: topic rank, then offset.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from events.acceptance import Chain
from events.codec import CodecError, decode
from events.host_offers import host_fault
from events.log.port import LogRecord
from events.records.base import Event
from events.records.rounds import RoundCommitted
from events.rounds import Delivered, follow, judge
from events.topics import FACT_BYTES_MAX, RANK, rounds_of

ID_CHARS_MAX = 1024


def read_fact(record: LogRecord) -> Delivered:
    """Decodes a record in a topic of facts and checks that it belongs there."""
    try:
        event = decode(record.value)
    except CodecError as error:
        return Delivered(record, None, error.code)
    if event.topic != record.topic:
        return Delivered(record, None, "WRONG_TOPIC")
    if len(record.value) > FACT_BYTES_MAX and _unanswerable(event):
        return Delivered(record, None, "TOO_LARGE")
    if fault := host_fault(event):
        return Delivered(record, None, fault)
    return Delivered(record, event)


def _unanswerable(event: Event) -> bool:
    """Whether a fact that is too large could not even be refused: the answer names what may be large in it."""
    return hasattr(event, "command_id") or len(getattr(event, "job_id", "")) > ID_CHARS_MAX


class Inbox:
    """Holds records that were read and gives them out in causal order.

    `positions` is how far each topic was delivered, `known` how far it was known at all, `chains` what is known of
    the history of each machine that is read. The caller owns the chains: they are part of its state.
    """

    def __init__(
        self, positions: Mapping[str, int], known_positions: Mapping[str, int], chains: Mapping[str, Chain], cell: int
    ) -> None:
        self.positions = dict(positions)
        self.known = {**known_positions}
        for topic, position in positions.items():
            self.known[topic] = max(self.known.get(topic, 0), position)
        self._chains = chains
        self._cell = cell
        self._queues: dict[str, deque[LogRecord]] = {
            topic: deque() for topic in sorted(positions, key=lambda name: (RANK.get(name, len(RANK)), name))
        }
        self.waiting = 0
        """Records that were read and not delivered yet."""
        self._machines = {rounds_of(machine): machine for machine in chains}
        self._heads: dict[str, Delivered] = {}

    def add(self, records: Iterable[LogRecord]) -> None:
        """Takes records as they were read, each topic in order."""
        for record in records:
            self._queues[record.topic].append(record)
            self.waiting += 1

    def deliver(self, limit: int) -> Iterator[Delivered]:
        """Up to `limit` records in causal order; each counts as delivered when the next is asked for.

        A round that is delivered as ACCEPTED has been taken into its chain. Raises `RoundFault` where the next record
        is of a history that can't be read on, and again whenever it is asked.
        """
        count = 0
        while count < limit:
            topic = self._next()
            if topic is None:
                return
            queue, machine = self._queues[topic], self._machines.get(topic)
            while queue and count < limit:
                delivered = read_fact(queue[0]) if machine is None else self._judged(topic, machine)
                record = queue.popleft()
                self.waiting -= 1
                if machine is not None:
                    del self._heads[topic]
                    follow(delivered, self._chains[machine])
                    self._learn(delivered)
                self.positions[topic] = record.offset + 1
                if self.known.get(topic, 0) <= record.offset:
                    self.known[topic] = record.offset + 1
                count += 1
                yield delivered
                if machine is not None:
                    break

    def _next(self) -> str | None:
        """The first topic by rank whose next record may be delivered: a fact at once, a round after what it saw."""
        for topic, queue in self._queues.items():
            if queue and self._ready(topic):
                return topic
        return None

    def _ready(self, topic: str) -> bool:
        machine = self._machines.get(topic)
        if machine is None:
            return True
        event, positions = self._judged(topic, machine).event, self.positions
        if isinstance(event, RoundCommitted):
            for each in event.seen:
                if positions.get(each.topic, each.position) < each.position:
                    return False
        return True

    def _judged(self, topic: str, machine: str) -> Delivered:
        """The next record of a machine's topic: its chain stays as it is until that is delivered."""
        head = self._heads.get(topic)
        if head is None:
            head = self._heads[topic] = judge(self._queues[topic][0], self._chains[machine], machine, self._cell)
        return head

    def _learn(self, delivered: Delivered) -> None:
        if isinstance(delivered.event, RoundCommitted):
            positions = self.known
            for seen in delivered.event.seen:
                if positions.get(seen.topic, -1) < seen.position:
                    positions[seen.topic] = seen.position
