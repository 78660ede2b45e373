"""Users of a broker that have the rights of the table in `paceline.services.kafka_rights`, and no others."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import Future
from time import monotonic
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from events.log.kafka.connection import DENIED, READERS
from paceline.services.kafka_rights import RIGHTS, Grant, grants
from tests.helpers.broker import Broker
from tests.helpers.broker.security import acl

PREFIX = "paceline-"
ASK_SECONDS = 15
REFUSALS = (*DENIED, KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
RETENTION = ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET)
ANYTHING = (
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)
"""The fields of a filter that lets all ACLs through."""
_ONLY = {"validate_only": True}
_WORDS = {"DescribeConfigs": AclOperation.DESCRIBE_CONFIGS}


def acls(granted: Iterable[Grant]) -> list[AclBinding]:
    """Grants as the client of Kafka has them."""
    return [
        acl(
            grant.user,
            ResourceType[grant.type.upper()],
            name,
            ResourcePatternType[grant.pattern.upper()],
            _WORDS.get(word) or AclOperation[word.upper()],
        )
        for grant in granted
        for name in grant.names
        for word in grant.operations
    ]


def with_users(broker: Broker) -> dict[str, dict[str, str]]:
    """Makes a user for each kind, with its rights; returns the options of its clients by kind."""
    security = broker.security
    assert security is not None
    security.users(broker.address, [PREFIX + kind for kind in RIGHTS])
    security.allow(broker.address, acls(grants(prefix=PREFIX)))
    return {kind: security.scram(user=PREFIX + kind) for kind in RIGHTS}


class User:
    """A user of a broker, that tries what it may do by clients of its own, and not by the parts of Paceline."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = {"log_level": 0, **options}
        self._admin = AdminClient(self._options)

    def reads(self, topics: Set[str]) -> set[str]:
        """Those of some topics, which it sees, whose first record it gets; each has one."""
        consumer = Consumer({**self._options, "group.id": READERS, "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
        answers: dict[str, bool] = {}
        last = monotonic() + ASK_SECONDS
        while answers.keys() != topics:
            assert monotonic() < last, (topics, answers)
            message = consumer.poll(0.1)
            if message is not None and message.topic():
                answers.setdefault(str(message.topic()), _allowed(message.error()))
        consumer.close()
        return {topic for topic, allowed in answers.items() if allowed}

    def writes(self, topics: Iterable[str]) -> set[str]:
        """Those of the topics that take a record from it."""
        answers: dict[str, bool] = {}
        producer = Producer({**self._options, "message.timeout.ms": 1000 * ASK_SECONDS})

        def answered(error: KafkaError | None, message: Message) -> None:
            answers[str(message.topic())] = _allowed(error)

        for topic in topics:
            producer.produce(topic, b"beyond", partition=0, on_delivery=answered)
        producer.flush()
        return {topic for topic, allowed in answers.items() if allowed}

    def sees(self) -> set[str]:
        """The topics that it may describe."""
        return {*self._admin.list_topics(timeout=ASK_SECONDS).topics}

    def may(self, operation: str, topics: Iterable[str]) -> set[str]:
        """Those of the topics on which it may do something that leaves them as they are: by the name of the right."""
        ask: Callable[[], Mapping[Any, Future[Any]]] = {
            "Create": lambda: self._admin.create_topics([NewTopic(topic, 1) for topic in topics]),
            "Alter": lambda: self._admin.create_partitions([NewPartitions(topic, 9) for topic in topics], **_ONLY),
            "Delete": lambda: self._admin.delete_records([TopicPartition(topic, 0, 0) for topic in topics]),
            "DescribeConfigs": lambda: self._admin.describe_configs([_settings(topic) for topic in topics]),
            "AlterConfigs": lambda: self._admin.incremental_alter_configs(
                [_settings(topic, RETENTION) for topic in topics], **_ONLY
            ),
        }[operation]
        answers = ask()
        return {_topic(what) for what, answer in answers.items() if _allowed(_error(answer))}

    def looks_at(self, groups: Sequence[str]) -> set[str]:
        """Those of the groups that it may describe."""
        answers = self._admin.describe_consumer_groups([*groups])
        return {name for name, answer in answers.items() if _allowed(_error(answer))}

    def joins(self, groups: Iterable[str], topic: str) -> set[str]:
        """Those of the groups for which it may tell a position, as members do; whether it may read the topic as well
        is no matter.
        """
        allowed = set()
        for name in groups:
            position = ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 0, 0)])
            [answer] = self._admin.alter_consumer_group_offsets([position]).values()
            error = _error(answer) or answer.result().topic_partitions[0].error
            if _allowed(error) or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                allowed.add(name)
        return allowed

    def begins_transactions(self) -> bool:
        """Whether it may write in transactions."""
        producer = Producer({**self._options, "transactional.id": "paceline"})
        try:
            producer.init_transactions(ASK_SECONDS)
        except KafkaException as error:
            return _allowed(error.args[0])
        return True

    def changes_acls(self) -> bool:
        """Whether it may allow things."""
        anything = acl("anybody", ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, AclOperation.ALL)
        [answer] = self._admin.create_acls([anything]).values()
        return _allowed(_error(answer))


def _error(answer: "Future[Any]") -> KafkaError | None:
    error = answer.exception(ASK_SECONDS)
    return error.args[0] if isinstance(error, KafkaException) else None


def _allowed(error: KafkaError | None) -> bool:
    """Whether a broker has let somebody do something; what may be made and is there already is no refusal."""
    if error is None or error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return True
    assert error.code() in REFUSALS, error
    return False


def _settings(topic: str, *entries: ConfigEntry) -> ConfigResource:
    return ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[*entries] or None)


def _topic(asked: Any) -> str:
    """The topic of a key of answers."""
    return str(getattr(asked, "name", None) or getattr(asked, "topic", asked))
