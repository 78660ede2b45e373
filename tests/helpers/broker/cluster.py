"""Three real brokers on this machine as one cluster: each is broker and controller, every partition has three copies.

with Cluster(folder) as cluster:
    KafkaLog(cluster.address, cell=0)
    cluster[cluster.leader("paceline.jobs", 0)].kill()
"""

from collections.abc import Mapping
from pathlib import Path
from time import monotonic

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, PartitionMetadata  # type: ignore[attr-defined]

from tests.helpers.broker import READY_SECONDS, Broker, BrokerFailed
from tests.helpers.ports import kept_port

HEAP = "256m"
ASK_SECONDS = 2
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "4000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "200",
}


class Cluster:
    """Brokers by their number, from 1."""

    def __init__(self, folder: Path, brokers: int = 3, settings: Mapping[str, str] | None = None) -> None:
        controllers = {node: kept_port() for node in range(1, brokers + 1)}
        self._brokers = {
            node: Broker(
                folder / str(node), {**SETTINGS, **(settings or {})}, node=node, controllers=controllers, heap=HEAP
            )
            for node in controllers
        }
        self._admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0, "socket.timeout.ms": 1000})

    @property
    def address(self) -> str:
        """What clients take as `bootstrap.servers`: all of them."""
        return ",".join(broker.address for broker in self._brokers.values())

    def __getitem__(self, node: int) -> Broker:
        return self._brokers[node]

    def nodes(self) -> list[int]:
        """The numbers."""
        return list(self._brokers)

    def start(self) -> "Cluster":
        """Starts those that don't run and waits until each knows all. Raises `BrokerFailed`."""
        try:
            for broker in self._brokers.values():
                if not broker.runs:
                    broker.launch()
            for broker in self._brokers.values():
                broker.wait_ready(len(self._brokers))
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """Ends all at once."""
        for broker in self._brokers.values():
            broker.kill()

    def leader(self, topic: str, cell: int) -> int:
        """The number of the broker that leads a partition, or -1."""
        return int(self._partition(topic, cell).leader)

    def controller(self) -> int:
        """The number of the active controller, as the nodes that run have noted."""
        return max(broker.controller() for broker in self._brokers.values() if broker.runs)[1]

    def __enter__(self) -> "Cluster":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _partition(self, topic: str, cell: int) -> PartitionMetadata:
        end = monotonic() + READY_SECONDS
        while True:  # a client that asks a frozen broker asks another one the next time
            try:
                return self._admin.list_topics(topic, timeout=ASK_SECONDS).topics[topic].partitions[cell]
            except (KafkaException, KeyError) as error:
                if monotonic() > end:
                    raise BrokerFailed(f"nobody knows {topic}") from error
