"""Who runs a cell, as Kafka's consumer group sees it: a process joins before it claims (design §7).

The group spreads cells over processes and fails them over. The epoch in the log makes a takeover safe,
not this.
"""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from events.kafka import COMMON
from events.kafka_link import Link, say_on_stderr
from events.log import LogFault
from events.topics import ALL

LEAVE_SECONDS = 2.0
FACTS = tuple(topic.name for topic in ALL if topic.machine is None)


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
        extra: Mapping[str, str | int | bool] | None = None,
        on_trouble: Callable[[str], None] = say_on_stderr,
    ) -> None:
        self._instance_id = instance_id
        self._topics = list(topics)
        self._assigned: set[tuple[str, int]] | None = None
        self._out = False
        self._consumer = Consumer(
            {
                **COMMON,
                "bootstrap.servers": bootstrap,
                "error_cb": Link(bootstrap, on_trouble).on_error,
                "group.id": group,
                "group.instance.id": instance_id,
                "partition.assignment.strategy": "range",
                "session.timeout.ms": session_timeout_ms,
                "heartbeat.interval.ms": session_timeout_ms // 3,
                "enable.auto.commit": False,
                **(extra or {}),
            }
        )
        self._consumer.subscribe(self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke)

    def cells(self) -> frozenset[int] | None:
        """The cells that are ours now; None while the group is being made or made anew. Ask every second or so, at
        least every 5 minutes: this is what keeps the membership going. Raises `LogFault` where another process has
        joined under our instance id.
        """
        message = self._consumer.poll(0)
        error = None if message is None else message.error()
        if error is not None and error.code() == KafkaError._FATAL:
            self._out = True
            raise LogFault(
                f"This process is out of the group as {self._instance_id}: {error.str()}. Stop the other process "
                "of that name."
            )
        if self._assigned is None:
            return None
        named = {cell for _, cell in self._assigned}
        return frozenset(cell for cell in named if all((topic, cell) in self._assigned for topic in self._topics))

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
        if not self._out:
            self._consumer.unsubscribe()  # a static member that only closes stays until its session times out
        last = monotonic() + LEAVE_SECONDS
        while self._assigned and not self._out and monotonic() < last:
            self._consumer.poll(0.05)
        self._consumer.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign(partitions)
        consumer.pause(partitions)  # reading is the log's matter
        self._assigned = {(partition.topic, partition.partition) for partition in partitions}

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._assigned = None
        consumer.unassign()
