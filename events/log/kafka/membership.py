"""Membership in Kafka's consumer group of a cell's processes: a process joins before it claims (decision 008).

The group spreads cells over processes and fails them over. The epoch in the log makes a takeover safe,
not this.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from events.log.kafka.connection import DENIED, Link, Options, say_on_stderr
from events.log.port import LogFault
from events.topics import ALL

LEAVE_SECONDS = 2.0
CLOSE_SECONDS = 1.5
"""So long a client may take to end; while the broker is away one may never."""
WITHOUT_SECONDS = 10.0
"""No member has cells while a group rebalances. A rebalance that takes longer is logged."""
REJOIN_SECONDS = 30.0
"""Without cells for so long, it joins with a new client: see `events.log.kafka.connection`."""
HEARTBEAT_MS = 500
"""Members learn of a rebalance with a heartbeat: so much later at most."""
NEW_CELLS_MS = 30_000
"""Cells that are added to a running group are given out within this time."""
FENCES_MAX = 3
"""Shut out so often in a row, by another of the same name: there is another."""
FACTS = tuple(topic.name for topic in ALL if topic.machine is None)
_FENCED = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()


class Wait:
    """Says once that a group has given out no cells for `WITHOUT_SECONDS`, and once that it does again."""

    def __init__(self, bootstrap: str, group: str, say: Callable[[str], None]) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._say = say
        self._since = monotonic()
        self._reported = False

    def assigned(self) -> None:
        """The group counts on this process."""
        self._since = monotonic()
        if self._reported:
            self._reported = False
            self._say(f"Kafka at {self._bootstrap} gives out cells of group {self._group} again.")

    def unassigned(self) -> None:
        """The group doesn't, or not yet."""
        if not self._reported and monotonic() > self._since + WITHOUT_SECONDS:
            self._reported = True
            self._say(
                f"Kafka at {self._bootstrap} gives out no cells of group {self._group}: waiting. Are enough of its "
                "brokers there?"
            )


class Membership:
    """A member of a group that asks for the cells of some topics, which have one partition per cell. `instance_id`
    names the process over restarts: one that comes back within the session timeout has its cells at once.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        instance_id: str,
        topics: Sequence[str] = FACTS,
        session_timeout_ms: int = 6000,
        extra: Options | None = None,
        on_trouble: Callable[[str], None] = say_on_stderr,
    ) -> None:
        self._group = group
        self._instance_id = instance_id
        self._topics = list(topics)
        self._session_ms = session_timeout_ms
        self._assigned: set[tuple[str, int]] | None = None
        self._wait = Wait(bootstrap, group, on_trouble)
        self._joined_at = 0.0
        self._out = False
        self._link = Link(bootstrap, on_trouble, extra)
        self._consumer = self._join()
        self._fences = 0
        self._fenced_at = 0.0

    def cells(self) -> frozenset[int] | None:
        """The cells that are ours now; None while the group is formed or rebalances. Ask every second or so, at
        least every 5 minutes: this is what keeps the membership going. Raises `LogFault` where another process has
        joined under our instance id, or security is in the way.
        """
        message = self._consumer.poll(0)
        self._link.look()
        if message is not None and (error := message.error()) is not None:
            self._take(error)
        if self._assigned is None:
            if not self._link.away:  # which is said of the broker as a whole
                self._wait.unassigned()
            if monotonic() > self._joined_at + REJOIN_SECONDS:
                self._rejoin()
            return None
        self._wait.assigned()
        self._joined_at = monotonic()
        assigned_cells = {cell for _, cell in self._assigned}
        return frozenset(
            cell for cell in assigned_cells if all((topic, cell) in self._assigned for topic in self._topics)
        )

    def commit(self, positions: Mapping[int, Mapping[str, int]]) -> None:
        """Tells the group how far each cell has read each topic, for those who look at its lag; nothing starts from
        there. What can't be told now is told the next time.
        """
        assigned = self._assigned or set()
        offsets = [
            TopicPartition(topic, cell, position)
            for cell, topics in positions.items()
            for topic, position in topics.items()
            if (topic, cell) in assigned
        ]
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException:
            return

    def close(self) -> None:
        """Leaves the group, so that another has the cells at once."""
        try:
            if not self._out:
                self._consumer.unsubscribe()  # a static member that only closes stays until its session times out
        except KafkaException as error:
            if error.args[0].code() != KafkaError._FATAL:
                raise
            self._out = True  # another has its name, and it hadn't heard of that yet
        last = monotonic() + LEAVE_SECONDS
        while self._assigned and not self._out and monotonic() < last:
            self._consumer.poll(0.05)
        self._close()

    def _close(self) -> None:
        self._consumer.poll(0.05)  # cells that are still to be given out: told in the close, they hold it up for ever
        closing = threading.Thread(target=self._consumer.close, daemon=True)  # (librdkafka's issue 4884)
        closing.start()
        closing.join(CLOSE_SECONDS)

    def _join(self) -> Consumer:
        own = {
            "group.id": self._group,
            "group.instance.id": self._instance_id,
            "partition.assignment.strategy": "range",
            "session.timeout.ms": self._session_ms,
            "heartbeat.interval.ms": min(self._session_ms // 3, HEARTBEAT_MS),
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": NEW_CELLS_MS,
        }
        consumer = self._link.client(Consumer, own)
        self._joined_at = monotonic()
        consumer.subscribe(self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke)
        return consumer

    def _rejoin(self) -> None:
        self._close()
        self._assigned = None
        self._consumer = self._join()

    def _take(self, error: KafkaError) -> None:
        if error.code() in DENIED:
            if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise self._link.denied(error, "Read", [f"group {self._group}"])
            raise self._link.denied(error, "Read", self._topics)
        if error.code() != KafkaError._FATAL:
            return
        in_a_row = monotonic() - self._fenced_at < 2 * self._session_ms / 1000
        self._fences = self._fences + 1 if in_a_row else 1
        if _FENCED not in error.str() or self._fences >= FENCES_MAX:
            self._out = True
            raise LogFault(
                f"This process is out of the group as {self._instance_id}: {error.str()}. Stop the other process "
                "of that name."
            )
        # Once in a while a member shuts out itself: its question is asked again when a coordinator dies that heard it.
        self._fenced_at = monotonic()
        self._rejoin()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign(partitions)
        consumer.pause(partitions)  # reading is the log's matter
        if consumer is not self._consumer:  # but one that is still being closed
            return
        self._link.found()
        self._assigned = {(partition.topic, partition.partition) for partition in partitions}

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if consumer is self._consumer:
            self._assigned = None
        consumer.unassign()
