"""Consumer groups on Kafka: members, the cells they have, the positions that they committed."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from events.log.kafka.connection import Options
from events.log.kafka.topics import asked

ASK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Group:
    """A group: `members` are the cells of each by its name, `read` the offsets told per topic and cell."""

    state: str = "NONE"
    members: Mapping[str, frozenset[int]] = field(default_factory=dict)
    read: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def of(self, cell: int) -> str:
        """The member that has a cell; empty: nobody."""
        return next((name for name, cells in sorted(self.members.items()) if cell in cells), "")


def groups(bootstrap: str, is_wanted: Callable[[str], bool], extra: Options | None = None) -> dict[str, Group]:
    """The groups whose names are wanted, by name. Raises `LogUnavailable`, `LogFault`."""
    with asked(bootstrap, extra, on="the groups `paceline.*`") as admin:
        listed = admin.list_consumer_groups(request_timeout=ASK_SECONDS).result()
        names = sorted(each.group_id for each in listed.valid if is_wanted(each.group_id))
        described = admin.describe_consumer_groups(names, request_timeout=ASK_SECONDS) if names else {}
        return {name: _group(future, _read(admin, name)) for name, future in described.items()}


def others_in(bootstrap: str, name: str, own: str, extra: Options | None = None) -> set[str]:
    """The members of a group but for one. Raises `LogUnavailable`, `LogFault`."""
    return set(groups(bootstrap, name.__eq__, extra).get(name, Group()).members) - {own}


def _group(described: "Future[Any]", read: Mapping[tuple[str, int], int]) -> Group:
    description = described.result()
    members = {
        each.group_instance_id or each.client_id: frozenset(one.partition for one in each.assignment.topic_partitions)
        for each in description.members
    }
    return Group(description.state.name, members, read)


def _read(admin: AdminClient, name: str) -> dict[tuple[str, int], int]:
    asked_ = [ConsumerGroupTopicPartitions(name)]
    try:
        offsets: Sequence[Any] = admin.list_consumer_group_offsets(asked_, request_timeout=ASK_SECONDS)[name].result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return {}
        raise
    partitions = getattr(offsets, "topic_partitions", None) or ()
    return {(each.topic, each.partition): each.offset for each in partitions if each.offset >= 0}
