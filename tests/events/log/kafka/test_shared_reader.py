"""What the readers of a process share: nothing missed, nothing twice, nothing early."""

import threading
from collections.abc import Iterator
from time import monotonic

import pytest

from events.log import tail_cache
from events.log.kafka.kafka_log import KafkaLog
from events.log.kafka.reader import KafkaReader
from events.log.kafka.shared_reader import SharedReader, SharedTail
from events.log.port import LogFault, LogRecord, Reader
from events.topics import SETTINGS
from tests.events.log.contract import PATIENCE, new, numbers, read, values
from tests.helpers.broker import Broker

A, B = "contract.shared.a", "contract.shared.b"


@pytest.fixture
def log(broker: Broker) -> Iterator[KafkaLog]:
    """A log with two empty topics."""
    broker.make_topics([A, B], 1, SETTINGS)
    log = KafkaLog(broker.address, shared=True)
    yield log
    log.close()


def joined(log: KafkaLog, *topics: str) -> SharedReader:
    """A reader at the end of the topics that shares."""
    reader = log.reader({topic: log.bounds(topic)[1] for topic in topics})
    assert isinstance(reader, SharedReader)
    joins(log, reader)
    return reader


def joins(log: KafkaLog, reader: SharedReader) -> None:
    """Polls until the reader shares; nothing may come."""
    end = monotonic() + PATIENCE
    while not shared(log).has(reader):
        assert monotonic() < end, "it never joined"
        assert reader.poll(1, 0.05) == []


def shared(log: KafkaLog) -> SharedTail:
    assert log._shared is not None
    return log._shared


def deaf(self: KafkaReader, limit: int, timeout: float) -> list[LogRecord]:
    return []


def test_own_records_are_there_before_the_client_has_read_them_and_are_the_same(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = [joined(log, A), joined(log, A, B)]
    with monkeypatch.context() as unread:
        unread.setattr(KafkaReader, "poll", deaf)
        log.append([*new(A, b"0", b"1"), *new(B, b"2")])
        got = [reader.poll(10, 0) for reader in readers]
    assert got == [[*log.scan(A, 0)], [*log.scan(A, 0), *log.scan(B, 0)]]
    assert [reader.poll(10, 0.5) for reader in readers] == [[], []]
    assert (readers[1].position(A), readers[1].position(B)) == (2, 1)
    for reader in readers:
        reader.close()


def test_own_records_behind_those_of_others_wait_for_these(
    log: KafkaLog, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, other = joined(log, A), KafkaLog(broker.address)
    with monkeypatch.context() as unread:
        unread.setattr(KafkaReader, "poll", deaf)
        log.append(new(A, b"0"))
        other.append(new(A, b"1"))
        log.append(new(A, b"2"))
        assert values(reader.poll(10, 0)) == [b"0"]
        assert reader.poll(10, 0.1) == []
    assert values(read(reader, 2)) == [b"1", b"2"]
    reader.close()
    other.close()


def test_who_falls_behind_what_is_kept_reads_by_himself_and_joins_again(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_cache, "KEPT_BYTES", 2000)
    slow, fast = joined(log, A), joined(log, A)
    for number in range(100):
        log.append(new(A, b"%d" % number))
        fast.poll(10, 0)
    assert fast.position(A) == 100
    assert values(read(slow, 100, limit=13)) == numbers(0, 100)
    assert shared(log).has(fast)
    joins(log, slow)
    slow.close()
    log.append([record for number in range(100) for record in new(A, b"%d" % number)])
    assert len(read(fast, 100, limit=13)) == 100
    joins(log, fast)
    fast.close()


def test_an_error_lets_all_go_and_they_read_on_by_themselves(log: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = [joined(log, A), joined(log, B)]
    log.append([*new(A, b"0"), *new(B, b"1")])

    def fails(self: KafkaReader, limit: int, timeout: float) -> list[LogRecord]:
        raise LogFault("no more")

    with monkeypatch.context() as broken:
        broken.setattr(KafkaReader, "poll", fails)
        assert values(readers[0].poll(10, 0)) == [b"0"]
        for reader in readers[::-1]:
            with pytest.raises(LogFault, match="no more"):
                read(reader, 2)
    log.append(new(A, b"2"))
    assert values(read(readers[0], 1)) == [b"2"]
    for reader in readers:
        reader.close()


def test_the_last_to_leave_shuts_the_door_and_others_may_come(log: KafkaLog) -> None:
    joined(log, A).close()
    assert shared(log).empty()
    log.append(new(A, b"0"))
    reader = joined(log, A, B)
    log.append(new(B, b"1"))
    assert values(read(reader, 1)) == [b"1"]
    reader.close()


def test_readers_in_threads_get_all_in_order_whoever_appends(log: KafkaLog, broker: Broker) -> None:
    other = KafkaLog(broker.address)
    got: dict[int, list[LogRecord]] = {}
    count = 300

    def follow(number: int, reader: Reader) -> None:
        got[number] = read(reader, 2 * count, limit=1 + 7 * number)

    def write(log: KafkaLog) -> None:
        for number in range(count // 2):
            log.append([*new(A, b"%d" % number), *new(B, b"%d" % number)])

    threads = [threading.Thread(target=follow, args=(number, log.reader({A: 0, B: 0}))) for number in range(3)]
    threads += [threading.Thread(target=write, args=(writer,)) for writer in (log, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for topic in (A, B):
        stands = list(log.scan(topic, 0))
        assert len(stands) == count
        for records in got.values():
            assert [record for record in records if record.topic == topic] == stands
    other.close()
