"""Who runs a cell, as Kafka's consumer group sees it: a process joins before it claims (design §7).

The group spreads cells over processes and fails them over. The epoch in the log makes a takeover safe,
not this.
"""

from collections.abc import Callable, Mapping
from time import monotonic

from confluent_kafka import Consumer, KafkaError, TopicPartition

from events.kafka import COMMON
from events.kafka_link import Link, say_on_stderr
from events.log import LogFault
from events.topics import ALL

LEAVE_SECONDS = 2.0


class Membership:
    """A member of a group that asks for the cells of all topics of facts. `instance_id` names the process over
    restarts: one that comes back within the session timeout has its cells at once.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        cell: int,
        instance_id: str,
        session_timeout_ms: int = 6000,
        extra: Mapping[str, str | int | bool] | None = None,
        on_trouble: Callable[[str], None] = say_on_stderr,
    ) -> None:
        self._cell = cell
        self._instance_id = instance_id
        self._topics = [topic.name for topic in ALL if topic.machine is None]
        self._assigned: set[tuple[str, int]] = set()
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

    def owns(self) -> bool:
        """Whether the cell is ours now. Ask every second or so, at least every 5 minutes: this is what keeps the
        membership going. Raises `LogFault` where another process has joined under our instance id.
        """
        message = self._consumer.poll(0)
        error = None if message is None else message.error()
        if error is not None and error.code() == KafkaError._FATAL:
            self._out = True
            raise LogFault(
                f"This process is out of the group as {self._instance_id}: {error.str()}. Stop the other process "
                "of that name."
            )
        return all((topic, self._cell) in self._assigned for topic in self._topics)

    def close(self) -> None:
        """Leaves the group, so that another has the cell at once."""
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
        self._assigned = set()
        consumer.unassign()
