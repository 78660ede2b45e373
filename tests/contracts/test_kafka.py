"""Kafka beyond the contract: a broker that is away, appends of unknown outcome, lost data, topics, the group."""

import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from events import kafka, kafka_topics
from events.kafka import KafkaLog
from events.kafka_membership import Membership
from events.log import AppendUnknown, LogFault, LogUnavailable
from events.topics import ALL, SETTINGS
from tests.broker import Broker, free_ports
from tests.contracts.log import PATIENCE, meets_gap, new, read, values

SESSION_MS = 1000
_names = count()


@pytest.fixture
def topic(broker: Broker) -> str:
    """An empty topic with one partition."""
    name = "contract.away"
    broker.make_topics([name], 1, SETTINGS)
    return name


def until(come: Callable[[], bool], step: Callable[[], object] = lambda: None) -> None:
    """Repeats a step until something holds."""
    end = monotonic() + PATIENCE
    while not come():
        assert monotonic() < end, "it never came"
        step()


def test_a_broker_that_never_was_there_is_named_and_nothing_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "ASK_SECONDS", 0.3)
    said: list[str] = []
    address = f"127.0.0.1:{free_ports(1)[0]}"
    log = KafkaLog(address, on_trouble=said.append, patience=0.2)
    with pytest.raises(LogUnavailable, match=address):
        log.append(new("contract.away", b"0"))
    with pytest.raises(LogUnavailable, match=address):
        log.bounds("contract.away")
    assert said == [f"Kafka at {address} can't be reached: waiting for it."]
    log.close()


def test_work_goes_on_by_itself_when_the_broker_is_back(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    log = KafkaLog(broker.address, on_trouble=said.append, patience=0.2)
    reader = log.reader({topic: 0})
    log.append(new(topic, b"before"))
    assert values(read(reader, 1)) == [b"before"]
    broker.kill()
    until(lambda: len(said) == 1, lambda: reader.poll(10, 0.05))
    with pytest.raises(LogUnavailable):
        log.append(new(topic, b"refused"))
    with monkeypatch.context() as hurry:
        hurry.setattr(kafka, "ASK_SECONDS", 0.3)
        with pytest.raises(LogUnavailable):
            reader.ends()
    broker.start()
    until(lambda: len(said) == 2, lambda: appended(log, topic, b"after"))
    assert said == [
        f"Kafka at {broker.address} can't be reached: waiting for it.",
        f"Kafka at {broker.address} answers again.",
    ]
    assert values(read(reader, 1)) == [b"after"]
    assert values(list(log.scan(topic, 0))) == [b"before", b"after"]
    reader.close()
    log.close()


def appended(log: KafkaLog, topic: str, value: bytes) -> bool:
    try:
        log.append(new(topic, value))
    except LogUnavailable:
        return False
    return True


def test_an_append_that_was_sent_and_not_answered_is_unknown(broker: Broker, topic: str) -> None:
    log = KafkaLog(broker.address, extra={"message.timeout.ms": 1500}, on_trouble=lambda _: None)
    log.append(new(topic, b"before"))
    broker.pause()
    try:
        with pytest.raises(AppendUnknown):
            log.append(new(topic, b"unknown"))
    finally:
        broker.resume()
    until(lambda: appended(log, topic, b"after"))
    assert values(list(log.scan(topic, 0))) in ([b"before", b"after"], [b"before", b"unknown", b"after"])
    log.close()


def test_a_topic_that_lost_its_records_is_a_gap(broker: Broker, topic: str) -> None:
    log = KafkaLog(broker.address)
    log.append(new(topic, *[b"%d" % number for number in range(10)]))
    broker.make_topics([topic], 1, SETTINGS)
    again = KafkaLog(broker.address)
    again.append(new(topic, b"0"))
    reader = again.reader({topic: 10})
    assert "ends at 1" in meets_gap(reader)
    reader.close()
    again.close()
    log.close()


def test_a_missing_topic_is_named(broker: Broker) -> None:
    log = KafkaLog(broker.address, cell=3)
    for asks in (lambda: log.bounds("contract.none"), lambda: log.append(new("contract.none", b"0"))):
        with pytest.raises(LogFault, match=r"no partition 3 of contract\.none.*paceline log topics --create"):
            asks()
    log.close()


def test_topics_are_made_checked_and_said_with_their_fix(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    broker.remove_topics([topic.name for topic in ALL])
    assert kafka_topics.check(broker.address, 1) == [
        f"Topic {topic.name} is missing. Make it with `paceline log topics --create`." for topic in ALL
    ]
    assert sorted(kafka_topics.create(broker.address, 1)) == sorted(topic.name for topic in ALL)
    assert kafka_topics.create(broker.address, 1) == []
    assert kafka_topics.check(broker.address, 1) == []
    entry = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "paceline.jobs", incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()
    (said,) = kafka_topics.check(broker.address, 1)
    assert said.startswith("Topic paceline.jobs has retention.ms=3600000, -1 is wanted.")
    assert "--add-config retention.ms=-1" in said
    more = kafka_topics.check(broker.address, 2)
    assert sum("has 1 partitions, 2 are wanted" in line for line in more) == len(ALL)


def test_a_broker_that_is_away_when_topics_are_asked_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_topics, "ASK_SECONDS", 0.3)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(LogUnavailable, match=address):
        kafka_topics.check(address, 1)


@pytest.fixture
def group(broker: Broker) -> str:
    """A group of its own; the topics that members ask for are there."""
    kafka_topics.create(broker.address, 1)
    return f"cells-{next(_names)}"


def join(broker: Broker, group: str, name: str) -> Membership:
    return Membership(broker.address, group, name, session_timeout_ms=SESSION_MS)


def owns(member: Membership) -> bool:
    return member.cells() == {0}


def test_a_second_process_waits_until_the_first_has_gone(broker: Broker, group: str) -> None:
    first = join(broker, group, "one")
    until(lambda: owns(first))
    second = join(broker, group, "two")
    for _ in range(200):
        assert not owns(second)
        if not owns(first):  # a join makes the group share anew
            until(lambda: owns(first), lambda: owns(second))
    first.close()
    until(lambda: owns(second))
    second.close()


MEMBER = """
import sys
from events.kafka_membership import Membership
member = Membership(sys.argv[1], sys.argv[2], "one", session_timeout_ms=int(sys.argv[3]))
while member.cells() != {0}:
    pass
print("owns", flush=True)
sys.stdin.read()
"""


def killed_owner(broker: Broker, group: str, folder: Path) -> None:
    """A process that joined as "one", owned the cell and was killed."""
    command = [sys.executable, "-c", MEMBER, broker.address, group, str(SESSION_MS)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)
    assert process.stdout is not None
    assert process.stdout.readline() == b"owns\n"
    process.kill()
    process.wait()


def test_the_cell_of_a_killed_process_passes_on(broker: Broker, group: str, request: pytest.FixtureRequest) -> None:
    killed_owner(broker, group, request.config.rootpath)
    second = join(broker, group, "two")
    until(lambda: owns(second))
    second.close()


def test_a_killed_process_that_starts_again_has_its_cell(
    broker: Broker, group: str, request: pytest.FixtureRequest
) -> None:
    killed_owner(broker, group, request.config.rootpath)
    again = join(broker, group, "one")
    until(lambda: owns(again))
    again.close()


def test_cells_are_shared_and_lags_can_be_looked_at(broker: Broker) -> None:
    kafka_topics.create(broker.address, 1)
    broker.make_topics(["cells.a", "cells.b"], 4, SETTINGS)
    group = f"cells-{next(_names)}"
    members = [
        Membership(broker.address, group, name, ("cells.a", "cells.b"), SESSION_MS) for name in ("one", "two")
    ]
    until(lambda: sorted(cell for each in members for cell in each.cells() or ()) == [0, 1, 2, 3])
    assert [len(each.cells() or ()) for each in members] == [2, 2]
    for member in members:
        member.commit({cell: {"cells.a": 0, "cells.b": 0} for cell in range(4)})
    asked = [TopicPartition("cells.a", cell) for cell in range(4)]
    reader = Consumer({"bootstrap.servers": broker.address, "group.id": group})
    until(lambda: {each.offset for each in reader.committed(asked, timeout=5)} == {0})
    reader.close()
    for member in members:
        member.close()


def test_two_processes_of_one_name_are_told(broker: Broker, group: str) -> None:
    first = join(broker, group, "one")
    until(lambda: owns(first))
    second = join(broker, group, "one")
    until(lambda: owns(second))
    with pytest.raises(LogFault, match="as one"):
        until(lambda: False, lambda: owns(first))
    second.close()
    first.close()
