"""Kafka beyond the contract: a broker that is away, appends of unknown outcome, lost data, topics, the group."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from events.codec import decode
from events.log.kafka import membership as kafka_membership
from events.log.kafka import offsets
from events.log.kafka import reader as kafka_reader
from events.log.kafka import topics as kafka_topics
from events.log.kafka.connection import COMMON, CONSUMER, PRODUCER
from events.log.kafka.kafka_log import KafkaLog
from events.log.kafka.membership import Membership
from events.log.kafka.reader import KafkaReader
from events.log.port import AppendUnknown, LogFault, LogGap, LogRecord, LogUnavailable, NewRecord
from events.records.base import Event
from events.records.lifecycle import CommandAnswered
from events.records.rounds import RoundCommitted
from events.topics import EVERY, HOSTS, SETTINGS, rounds_of
from processors.runtime.driver import Driver
from processors.runtime.replay import replay
from tests.events.log.contract import PATIENCE, meets_gap, new, read, values
from tests.events.log.test_logs import run_until, start, submit
from tests.helpers.broker import Broker
from tests.helpers.ports import kept_address
from tests.helpers.toys import TOYS

SESSION_MS = 6000
"""As by default: a member that isn't given a core for a second or two stays one."""
UNKNOWN_MS = 5000
"""After so long an append is of unknown outcome; less, and a broker that has just come back takes longer."""
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


@contextmanager
def hasty(log: KafkaLog, patience: float = 0.3) -> Iterator[None]:
    """A log that soon gives up waiting for a broker that isn't there."""
    waits = (log, log._appender, log._offsets)
    patient = log._patience
    for each in waits:
        each._patience = patience
    try:
        yield
    finally:
        for each in waits:
            each._patience = patient


def test_a_broker_that_never_was_there_is_named_and_nothing_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "ASK_SECONDS", 0.3)
    said: list[str] = []
    address = kept_address()
    log = KafkaLog(address, on_trouble=said.append, patience=0.2)
    with pytest.raises(LogUnavailable, match=address):
        log.append(new("contract.away", b"0"))
    with pytest.raises(LogUnavailable, match=address):
        log.bounds("contract.away")
    assert said == [f"Kafka at {address} can't be reached: waiting for it."]
    log.close()


class Forgetful:
    """A client that passes over one record, once. After an assignment it tells its old position for a while."""

    def __init__(self, consumer: Any, offset: int) -> None:
        self._consumer, self._offset = consumer, offset
        self._positions: list[TopicPartition] = []

    def consume(self, limit: int, timeout: float) -> list[Any]:
        messages = self._consumer.consume(limit, timeout)
        kept = [each for each in messages if each.offset() != self._offset]
        if len(kept) < len(messages):
            self._offset = -1
        if kept:
            self._positions = []
        return kept

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._positions = self._consumer.position(partitions)
        self._consumer.assign(partitions)

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return self._positions or self._consumer.position(partitions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


def test_a_record_that_a_client_passes_over_is_asked_for_again(broker: Broker, topic: str) -> None:
    log = KafkaLog(broker.address)
    for number in range(9):
        log.append(new(topic, b"%d" % number))
    reader = KafkaReader(log._offsets, {topic: 0})
    reader._consumer = Forgetful(reader._consumer, 4)  # type: ignore[assignment]
    records: list[LogRecord] = []

    def step() -> None:
        records.extend(reader.poll(3, 0.0))
        assert reader.position(topic) == len(records)

    until(lambda: len(records) >= 9, step)
    assert values(records) == [b"%d" % number for number in range(9)]
    assert reader._consumer._offset == -1
    reader.close()
    log.close()


class Refusing:
    """A consumer whose broker has answered with an error once."""

    def __init__(self, consumer: Consumer, code: int) -> None:
        self._consumer = consumer
        self._errors = [KafkaError(code)]

    def consume(self, count: int, timeout: float) -> list[Any]:
        """The error as a message, then what there is."""
        if self._errors:
            error = self._errors.pop()
            return [SimpleNamespace(error=lambda: error, topic=lambda: None)]
        return self._consumer.consume(count, timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN, KafkaError.KAFKA_STORAGE_ERROR])
def test_a_broker_that_fails_is_waited_for(code: int, broker: Broker, topic: str) -> None:
    log = KafkaLog(broker.address)
    log.append(new(topic, b"after"))
    reader = KafkaReader(log._offsets, {topic: 0})
    reader._consumer = Refusing(reader._consumer, code)  # type: ignore[assignment]
    assert values(read(reader, 1)) == [b"after"]
    assert isinstance(log.link.error(KafkaError(code), 0, [topic], "Read"), LogUnavailable)
    reader.close()
    log.close()


def test_work_goes_on_by_itself_when_the_broker_is_back(broker: Broker, topic: str) -> None:
    said: list[str] = []
    log = KafkaLog(broker.address, on_trouble=said.append)
    reader = log.reader({topic: 0})
    log.append(new(topic, b"before"))
    assert values(read(reader, 1)) == [b"before"]
    broker.kill()
    until(lambda: len(said) == 1, lambda: reader.poll(10, 0.05))
    with hasty(log), pytest.raises(LogUnavailable):
        log.append(new(topic, b"refused"))
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


@pytest.fixture
def lost() -> dict[str, Any]:
    """Settings of clients that know no broker: so they are left by an answer that names none, for ever."""
    return {**COMMON, "bootstrap.servers": kept_address()}


def test_questions_that_are_not_answered_are_put_by_a_new_client(
    broker: Broker, topic: str, lost: dict[str, Any]
) -> None:
    log = KafkaLog(broker.address)
    log._offsets._client = Consumer({**CONSUMER, **lost})
    with hasty(log), pytest.raises(LogUnavailable):
        log.bounds(topic)
    assert log.bounds(topic) == (0, 0)
    log.close()


def test_answers_that_come_late_do_no_harm_to_the_process(broker: Broker) -> None:
    topics = [f"contract.late-{number}" for number in range(10)]
    broker.make_topics(topics, 1, SETTINGS)
    command = [sys.executable, "-m", "tests.events.log.kafka.late_answers", broker.address, *topics]
    asking = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(timeout=60) for process in asking] == [0, 0, 0]


def test_a_reader_that_hears_nothing_of_what_is_there_reads_by_a_new_client(
    broker: Broker, topic: str, lost: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_reader, "SILENCE_SECONDS", 0.3)
    log = KafkaLog(broker.address)
    log.append(new(topic, b"0", b"1"))
    reader = KafkaReader(log._offsets, {topic: 0})
    assert values(read(reader, 2)) == [b"0", b"1"]
    reader._consumer = Consumer({**CONSUMER, **lost})
    reader.assign({topic: 2})
    log.append(new(topic, b"2"))
    assert values(read(reader, 1)) == [b"2"]
    reader.close()
    log.close()


def test_appends_that_a_client_can_send_nowhere_are_sent_by_a_new_one(
    broker: Broker, topic: str, lost: dict[str, Any]
) -> None:
    log = KafkaLog(broker.address)
    log._appender._producer = Producer({**PRODUCER, **lost})
    with hasty(log), pytest.raises(LogUnavailable):
        log.append(new(topic, b"0"))
    until(lambda: log.bounds(topic)[1] == 1, lambda: appended(log, topic, b"0"))
    log.close()


def appended(log: KafkaLog, topic: str, value: bytes) -> bool:
    try:
        log.append(new(topic, value))
    except LogUnavailable:
        return False
    except AppendUnknown:
        return value in values(list(log.scan(topic, 0)))
    return True


def test_an_append_that_was_sent_and_not_answered_is_unknown(broker: Broker, topic: str) -> None:
    log = KafkaLog(broker.address, extra={"message.timeout.ms": UNKNOWN_MS}, on_trouble=lambda _: None)
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


class Cut(KafkaLog):
    """Its broker goes at the moment when the next append is sent."""

    cut: Callable[[], None] | None = None

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        if self.cut is not None:
            cut, self.cut = self.cut, None
            cut()
        return super().append(records)


@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_a_round_of_unknown_outcome_is_settled_by_what_the_log_holds(broker: Broker, tmp_path: Path, how: str) -> None:
    broker.make_topics(["paceline.jobs", *map(rounds_of, TOYS)], 1, SETTINGS)
    log = Cut(broker.address, extra={"message.timeout.ms": UNKNOWN_MS}, on_trouble=lambda _: None)
    left, right = (start(log, name, tmp_path, "first") for name in TOYS)
    submit(log, 0, 10)
    run_until([left, right], 10)
    submit(log, 10, 20)
    log.cut = broker.pause if how == "frozen" else broker.kill
    with pytest.raises(AppendUnknown):
        until(lambda: False, left.run)
    left.close()
    if how == "frozen":
        broker.resume()
    else:
        broker.start()
    again = started_when_it_answers(log, tmp_path)
    run_until([again, right], 20)
    for driver in (again, right):
        found = replay(TOYS[driver.machine.name](), log)
        assert (found.difference, found.hash) == (None, driver.fold.state.hash)
        driver.close()
    answered = [decision for decision in decisions(log, "left") if isinstance(decision, CommandAnswered)]
    assert len(answered) == len({each.command_id for each in answered}) == 20
    log.close()


def started_when_it_answers(log: KafkaLog, folder: Path) -> Driver:
    """The second process of `left`: a broker that has come back has no leaders for a moment."""
    end = monotonic() + PATIENCE
    while True:
        try:
            return start(log, "left", folder, "second")
        except LogUnavailable:
            assert monotonic() < end, "no leader came"


def decisions(log: KafkaLog, machine: str) -> list[Event]:
    """What the accepted rounds of a machine decided."""
    rounds: list[RoundCommitted] = []
    replay(TOYS[machine](), log, rounds.append)
    return [decode(each) for found in rounds for each in found.decisions]


def test_a_reader_that_runs_meets_a_broker_that_lost_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_reader, "SILENCE_SECONDS", 0.5)
    with Broker(tmp_path / "kafka") as broker:
        broker.make_topics(["contract.a", "contract.b"], 1, SETTINGS)
        log = KafkaLog(broker.address, on_trouble=lambda _: None)
        readers = [log.reader({"contract.a": 0}), log.reader({"contract.b": 0})]
        for name, reader in zip(("contract.a", "contract.b"), readers, strict=True):
            log.append(new(name, b"0", b"1"))
            assert values(read(reader, 2)) == [b"0", b"1"]
        broker.kill()
        broker.lose_data()
        broker.start()
        broker.make_topics(["contract.a"], 1, SETTINGS)
        with pytest.raises(LogGap, match=r"contract\.a ends at 0, but offset 2 is needed"):
            until(lambda: False, lambda: readers[0].poll(10, 0.05))
        with pytest.raises(LogFault, match=r"no partition 0 of contract\.b. If it had, restore it"):
            until(lambda: False, lambda: readers[1].poll(10, 0.05))
        for reader in readers:
            reader.close()
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
    broker.remove_topics([topic.name for topic in EVERY])
    assert kafka_topics.check(broker.address, 1) == [
        f"Topic {topic.name} is missing. Make it with `paceline log topics --create`." for topic in EVERY
    ]
    assert sorted(kafka_topics.create(broker.address, 1)) == sorted(topic.name for topic in EVERY)
    assert kafka_topics.create(broker.address, 1) == []
    assert kafka_topics.check(broker.address, 1) == []
    entry = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "paceline.jobs", incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()
    until(lambda: kafka_topics.check(broker.address, 1) != [])  # the controller has taken it, the broker soon will
    (said,) = kafka_topics.check(broker.address, 1)
    assert said.startswith("Topic paceline.jobs has retention.ms=3600000, -1 is wanted.")
    assert "--add-config retention.ms=-1" in said
    more = kafka_topics.check(broker.address, 2)
    assert sum("has 1 partitions, 2 are wanted" in line for line in more) == len(EVERY)
    assert sorted(kafka_topics.add_cells(broker.address, 2)) == sorted(topic.name for topic in EVERY)
    assert kafka_topics.add_cells(broker.address, 2) == []
    assert kafka_topics.cells(broker.address) == 2
    assert kafka_topics.check(broker.address, 2) == [said]


def test_a_cell_that_some_topic_lacks_is_named_with_its_fix(broker: Broker) -> None:
    """It would have no owner: a process is given a cell by the partitions of all topics that it reads."""
    broker.make_topics([topic.name for topic in EVERY], 2, SETTINGS)
    assert kafka_topics.check(broker.address, 1) == []
    admin = AdminClient({"bootstrap.servers": broker.address})
    for done in admin.create_partitions([NewPartitions(HOSTS.name, 3)]).values():
        done.result()
    until(lambda: len(kafka_topics.check(broker.address, 1)) == len(EVERY) - 1)
    assert (
        "Topic paceline.jobs has 2 partitions, 3 are wanted, as paceline.hosts has. Add them with `paceline log topics "
        "--create --partitions 3`."
    ) in kafka_topics.check(broker.address, 1)
    kafka_topics.add_cells(broker.address, 3)
    assert kafka_topics.check(broker.address, 1) == []


def test_a_broker_that_is_away_when_topics_are_asked_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_topics, "REACH_SECONDS", 0.3)
    address = kept_address()
    with pytest.raises(LogUnavailable, match=address):
        kafka_topics.check(address, 1)


@pytest.fixture
def group(broker: Broker) -> str:
    """A group of its own; the topics that members ask for are there, of one cell."""
    broker.make_topics([topic.name for topic in EVERY], 1, SETTINGS)
    return f"cells-{next(_names)}"


def join(broker: Broker, group: str, name: str) -> Membership:
    return Membership(broker.address, group, name, session_timeout_ms=SESSION_MS)


def is_owner(member: Membership) -> bool:
    return member.cells() == {0}


def test_a_second_process_waits_until_the_first_has_gone(broker: Broker, group: str) -> None:
    first = join(broker, group, "one")
    until(lambda: is_owner(first))
    second = join(broker, group, "two")
    for _ in range(200):
        assert not is_owner(second)
        if not is_owner(first):  # a join makes the group share anew
            until(lambda: is_owner(first), lambda: is_owner(second))
    first.close()
    until(lambda: is_owner(second))
    second.close()


def test_a_member_that_gets_no_cells_for_long_joins_by_a_new_client(
    broker: Broker, group: str, lost: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_membership, "REJOIN_SECONDS", 3.0)
    member = join(broker, group, "one")
    member._consumer.close()
    member._consumer = Consumer({**lost, "group.id": group})
    until(lambda: is_owner(member))
    member.close()


MEMBER = """
import sys
import time
from events.log.kafka.membership import Membership
from events.log.kafka.reader import KafkaReader
member = Membership(sys.argv[1], sys.argv[2], "one", session_timeout_ms=int(sys.argv[3]))
while member.cells() != {0}:
    time.sleep(0.01)
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
    until(lambda: is_owner(second))
    second.close()


def test_a_killed_process_that_starts_again_has_its_cell(
    broker: Broker, group: str, request: pytest.FixtureRequest
) -> None:
    killed_owner(broker, group, request.config.rootpath)
    again = join(broker, group, "one")
    until(lambda: is_owner(again))
    again.close()


class Lingering:
    """A client that doesn't come back from its end."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.ending, self.ended = threading.Event(), threading.Event()

    def close(self) -> None:
        self.ending.set()
        self.ended.wait()
        self._consumer.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


def test_a_member_leaves_without_a_client_that_lingers(broker: Broker, group: str) -> None:
    first, second = join(broker, group, "one"), join(broker, group, "two")
    until(lambda: is_owner(first) or is_owner(second), lambda: (is_owner(first), is_owner(second)))
    left, stays = (first, second) if is_owner(first) else (second, first)
    left._consumer = lingering = Lingering(left._consumer)  # type: ignore[assignment]
    left.close()
    assert lingering.ending.is_set()
    until(lambda: is_owner(stays))
    lingering.ended.set()
    stays.close()


def test_cells_are_shared_and_lags_can_be_looked_at(broker: Broker) -> None:
    kafka_topics.create(broker.address, 1)
    broker.make_topics(["cells.a", "cells.b"], 4, SETTINGS)
    group = f"cells-{next(_names)}"
    members = [Membership(broker.address, group, name, ("cells.a", "cells.b"), SESSION_MS) for name in ("one", "two")]
    shares: list[list[int]] = []

    def shared() -> bool:
        shares[:] = [sorted(each.cells() or ()) for each in members]
        return [len(each) for each in shares] == [2, 2]

    def commit() -> None:
        for member in members:
            member.commit({cell: {"cells.a": 0, "cells.b": 0} for cell in range(4)})

    until(shared)
    assert sorted(shares[0] + shares[1]) == [0, 1, 2, 3]
    asked = [TopicPartition("cells.a", cell) for cell in range(4)]
    reader = Consumer({"bootstrap.servers": broker.address, "group.id": group})
    until(lambda: {each.offset for each in reader.committed(asked, timeout=30)} == {0}, commit)
    reader.close()
    for member in members:
        member.close()


def test_a_member_that_was_shut_out_once_joins_again(broker: Broker, group: str) -> None:
    first = join(broker, group, "one")
    until(lambda: is_owner(first))
    second = join(broker, group, "one")
    until(lambda: is_owner(second))
    until(lambda: not is_owner(first))
    until(lambda: is_owner(first))  # the second is not asked any more, as one that is gone
    first.close()
    second.close()


def test_two_processes_of_one_name_are_told(broker: Broker, group: str) -> None:
    first, second = join(broker, group, "one"), join(broker, group, "one")
    with pytest.raises(LogFault, match=r"as one.*Stop the other process of that name"):
        until(lambda: False, lambda: (is_owner(first), is_owner(second)))
    second.close()
    first.close()
