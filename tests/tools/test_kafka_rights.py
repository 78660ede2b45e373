"""The table of rights on Kafka in docs/security.md is that of the code."""

from events.topics import FANOUT
from paceline.services.kafka_rights import RIGHTS, operations
from tools.kafka_rights import PAGE, put, table


def test_the_page_has_the_rights_of_the_code() -> None:
    assert PAGE.read_text() == put(table()), "python -m tools.kafka_rights"


def test_the_topics_of_the_fan_out_are_one_column() -> None:
    for kind, rights in RIGHTS.items():
        assert len({operations(rights, topic.name) for topic in FANOUT}) == 1, kind
