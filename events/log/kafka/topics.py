"""The topics on Kafka: made as `events.topics` says, and checked against it."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from time import monotonic, sleep

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    PartitionMetadata,
    ResourceType,
    TopicMetadata,
)

from events.log.kafka.connection import AWAY, DENIED, Link, Options
from events.log.port import LogFault, LogUnavailable
from events.topics import EVERY, JOBS, settings

REACH_SECONDS = 5.0
"""So long a broker that doesn't answer is waited for."""
ASK_SECONDS = 15.0
RETRY_SECONDS = 0.05


def create(bootstrap: str, partitions: int, replication: int = 1, extra: Options | None = None) -> list[str]:
    """Makes the topics that aren't there, one partition per cell; returns their names. What is there stays as it is:
    ask `check`. Raises `LogUnavailable`, `LogFault` where the broker refuses.
    """
    names = []
    with asked(bootstrap, extra, "Create") as admin:
        new_topics = [NewTopic(topic.name, partitions, replication, config=settings(replication)) for topic in EVERY]
        for name, future in admin.create_topics(new_topics, request_timeout=ASK_SECONDS).items():
            try:
                future.result()
                names.append(name)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        _wait_for_leaders(admin, bootstrap, names)
    return names


def add_cells(bootstrap: str, partitions: int, extra: Options | None = None) -> list[str]:
    """Adds partitions to the topics that have fewer, a cell each; returns the names of those topics. Raises
    `LogUnavailable`, `LogFault`.
    """
    with asked(bootstrap, extra, "Alter") as admin:
        topics_there = admin.list_topics(timeout=ASK_SECONDS).topics
        fewer = [topic.name for topic in EVERY if 0 < len(_partitions(topics_there, topic.name)) < partitions]
        if fewer:
            new_partitions = [NewPartitions(name, partitions) for name in fewer]
            for future in admin.create_partitions(new_partitions, request_timeout=ASK_SECONDS).values():
                future.result()
            _wait_for_leaders(admin, bootstrap, fewer, partitions)
    return fewer


def copies(bootstrap: str, extra: Options | None = None) -> list[str]:
    """Partitions without a leader or with too few copies in sync, one sentence per topic with what to do. Raises
    `LogUnavailable`, `LogFault`.
    """
    with asked(bootstrap, extra) as admin:
        topics_there = admin.list_topics(timeout=ASK_SECONDS).topics
    out = []
    for topic in EVERY:
        lacking = {
            number: sorted(set(each.replicas) - set(each.isrs)) or each.replicas
            for number, each in sorted(_partitions(topics_there, topic.name).items())
            if each.leader < 0 or len(each.isrs) < len(each.replicas)
        }
        if lacking:
            cells_ = ", ".join(map(str, lacking))
            brokers = ", ".join(map(str, sorted({node for nodes in lacking.values() for node in nodes})))
            out.append(f"Topic {topic.name} lacks copies of cell {cells_}: start broker {brokers}.")
    return out


def check(bootstrap: str, partitions: int, extra: Options | None = None) -> list[str]:
    """Lists the differences from `events.topics`, one sentence each with the fix; empty if all is well. More partitions
    than asked for are other cells' and no difference, where all topics have them: a cell that some topic lacks has no
    owner. Raises `LogUnavailable`, `LogFault`.
    """
    with asked(bootstrap, extra, "DescribeConfigs") as admin:
        topics_there = admin.list_topics(timeout=ASK_SECONDS).topics
        there = [topic.name for topic in EVERY if topic.name in topics_there]
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in there]
        futures = admin.describe_configs(resources, request_timeout=ASK_SECONDS) if resources else {}
        configs = {resource.name: future.result() for resource, future in futures.items()}
    if not there and "security.protocol" in (extra or {}):
        return [
            f"Kafka at {bootstrap} shows none of the topics to this user. Make them with `paceline log topics "
            "--create`, or give the user the right to describe them, with `kafka-acls.sh`."
        ]
    unseen = ", or this user may not describe it" if "security.protocol" in (extra or {}) else ""
    counts = {name: len(topics_there[name].partitions) for name in there}
    widest = max(there, key=counts.__getitem__, default="")
    expected, why = partitions, ""
    if counts.get(widest, 0) > partitions:
        expected, why = counts[widest], f", as {widest} has"
    out = []
    for topic in EVERY:
        if topic.name not in topics_there:
            out.append(f"Topic {topic.name} is missing{unseen}. Make it with `paceline log topics --create`.")
            continue
        if counts[topic.name] < expected:
            out.append(
                f"Topic {topic.name} has {counts[topic.name]} partitions, {expected} are wanted{why}. Add them with "
                f"`paceline log topics --create --partitions {expected}`."
            )
        replication = max((len(each.replicas) for each in topics_there[topic.name].partitions.values()), default=1)
        for setting, right in settings(replication).items():
            value = configs[topic.name][setting].value
            if value != right:
                out.append(
                    f"Topic {topic.name} has {setting}={value}, {right} is wanted. Set it with `kafka-configs.sh "
                    f"--bootstrap-server {bootstrap} --alter --entity-type topics --entity-name {topic.name} "
                    f"--add-config {setting}={right}`."
                )
    return out


def cells(bootstrap: str, extra: Options | None = None) -> int:
    """Counts the cells: partitions of the topic of jobs. Raises `LogUnavailable`, `LogFault`."""
    with asked(bootstrap, extra) as admin:
        return len(_partitions(admin.list_topics(timeout=ASK_SECONDS).topics, JOBS.name))


def _partitions(topics_there: dict[str, TopicMetadata], name: str) -> dict[int, PartitionMetadata]:
    return topics_there[name].partitions if name in topics_there else {}


def _wait_for_leaders(admin: AdminClient, bootstrap: str, names: Collection[str], partitions: int = 1) -> None:
    """Returns when every partition has a leader: before that nothing can be asked of it."""
    last = monotonic() + ASK_SECONDS
    while names:
        topics_there = admin.list_topics(timeout=ASK_SECONDS).topics
        there = [_partitions(topics_there, name) for name in names]
        if all(len(each) >= partitions and all(one.leader >= 0 for one in each.values()) for each in there):
            return
        if monotonic() > last:
            raise LogUnavailable(f"Kafka at {bootstrap} has made the topics and no leader for them yet. Try again.")
        sleep(RETRY_SECONDS)


@contextmanager
def asked(
    bootstrap: str, extra: Options | None, right: str = "Describe", on: str = "the topics `paceline.*`"
) -> Iterator[AdminClient]:
    """A client to ask, once the broker is known to answer; its failures become the log's errors. `right`: what asking
    takes, and `on` what.
    """
    link = Link(bootstrap, lambda _: None, extra)
    admin = link.client(AdminClient, {})
    last = monotonic() + REACH_SECONDS
    while True:
        try:
            admin.list_topics(timeout=min(1.0, REACH_SECONDS))
            break
        except KafkaException as error:
            admin.poll(0)  # what it has to say of the cause
            if link.refused or monotonic() > last:
                raise link.failure() from error
    try:
        yield admin
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() in AWAY:
            raise link.failure() from error
        if cause.code() in DENIED:
            raise link.denied(cause, right, [on]) from error
        raise LogFault(f"Kafka at {bootstrap} refuses: {cause.str()}.") from error
