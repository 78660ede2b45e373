"""The topics on Kafka: made as `events.topics` says, and checked against it."""

from collections.abc import Collection, Mapping
from time import monotonic, sleep

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from events.kafka import COMMON, RETRY_SECONDS
from events.log import LogError, LogFault, LogUnavailable
from events.topics import ALL, SETTINGS

ASK_SECONDS = 15.0


def create(
    bootstrap: str, partitions: int, replication: int = 1, extra: Mapping[str, str | int | bool] | None = None
) -> list[str]:
    """Makes the topics that aren't there, one partition per cell; returns their names. What is there stays as it is:
    ask `check`. Raises `LogUnavailable`, `LogFault` where the broker refuses.
    """
    admin = _admin(bootstrap, extra)
    wanted = [NewTopic(topic.name, partitions, replication, config=SETTINGS) for topic in ALL]
    made = []
    for name, future in admin.create_topics(wanted, request_timeout=ASK_SECONDS).items():
        try:
            future.result()
            made.append(name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise _error(bootstrap, error) from error
    _wait_for_leaders(admin, bootstrap, made)
    return made


def check(bootstrap: str, partitions: int, extra: Mapping[str, str | int | bool] | None = None) -> list[str]:
    """What differs from `events.topics`, one sentence each with the fix; empty if all is well. More partitions than
    asked for are other cells' and no difference. Raises `LogUnavailable`, `LogFault`.
    """
    admin = _admin(bootstrap, extra)
    try:
        found = admin.list_topics(timeout=ASK_SECONDS).topics
        there = [topic.name for topic in ALL if topic.name in found]
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in there]
        asked = admin.describe_configs(resources, request_timeout=ASK_SECONDS) if resources else {}
        settings = {resource.name: future.result() for resource, future in asked.items()}
    except KafkaException as error:
        raise _error(bootstrap, error) from error
    out = []
    for topic in ALL:
        if topic.name not in found:
            out.append(f"Topic {topic.name} is missing. Make it with `paceline log topics --create`.")
            continue
        count = len(found[topic.name].partitions)
        if count < partitions:
            out.append(
                f"Topic {topic.name} has {count} partitions, {partitions} are wanted. Add them with `kafka-topics.sh "
                f"--bootstrap-server {bootstrap} --alter --topic {topic.name} --partitions {partitions}`."
            )
        for setting, wanted in SETTINGS.items():
            value = settings[topic.name][setting].value
            if value != wanted:
                out.append(
                    f"Topic {topic.name} has {setting}={value}, {wanted} is wanted. Set it with `kafka-configs.sh "
                    f"--bootstrap-server {bootstrap} --alter --entity-type topics --entity-name {topic.name} "
                    f"--add-config {setting}={wanted}`."
                )
    return out


def _wait_for_leaders(admin: AdminClient, bootstrap: str, names: Collection[str]) -> None:
    """Returns when every partition has a leader: before that nothing can be asked of it."""
    last = monotonic() + ASK_SECONDS
    while names:
        try:
            found = admin.list_topics(timeout=ASK_SECONDS).topics
        except KafkaException as error:
            raise _error(bootstrap, error) from error
        partitions = [each for name in names if name in found for each in found[name].partitions.values()]
        if all(name in found for name in names) and all(each.leader >= 0 for each in partitions):
            return
        if monotonic() > last:
            raise LogUnavailable(f"Kafka at {bootstrap} has made the topics and no leader for them yet. Try again.")
        sleep(RETRY_SECONDS)


def _admin(bootstrap: str, extra: Mapping[str, str | int | bool] | None) -> AdminClient:
    return AdminClient({**COMMON, "bootstrap.servers": bootstrap, **(extra or {})})


def _error(bootstrap: str, error: KafkaException) -> LogError:
    cause = error.args[0]
    if cause.code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN):
        return LogUnavailable(f"Kafka at {bootstrap} can't be reached. Start it; it is tried again.")
    return LogFault(f"Kafka at {bootstrap} refuses: {cause.str()}.")
