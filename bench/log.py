"""Measures a log: append a round, read it back, read everything; beside the same bytes without the log port."""

import time
from collections.abc import Callable
from typing import Protocol, cast

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition
from rocksdict import Options as RocksOptions
from rocksdict import Rdict, WriteBatch, WriteOptions

from bench import Options, Result, open_log, per_second, percentile, sized
from events.codec import encode
from events.log.kafka.connection import COMMON, CONSUMER, PRODUCER
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import Log, NewRecord
from events.records.placement import TasksPlaced
from events.records.rounds import RoundCommitted

TOPIC = "paceline.placement"
RAW_TOPIC = "paceline.sla"
FACTS_TOPIC = "paceline.tasks"
RAW_FACTS_TOPIC = "paceline.hosts"
REPEATS = {1: sized(300, 5), 1000: sized(200, 3), 10_000: sized(100, 2)}
"""Rounds of so many decisions, and how often each is measured."""
WARM_UP = sized(20, 1)
FACTS = sized(100_000, 3_000)
FACT = b"f" * 100
BATCH = 1000
POLL = 5000


class Raw(Protocol):
    """The same work with nothing between."""

    def append(self, topic: str, values: list[bytes]) -> None:
        """Durable when it returns."""
        ...

    def next(self) -> bytes:
        """The next record of the topic for rounds."""
        ...

    def read_all(self, topic: str, count: int) -> None:
        """Reads so many records from the start."""
        ...


class RawMemory:
    """A dict of lists."""

    def __init__(self) -> None:
        self._topics: dict[str, list[bytes]] = {}
        self._position = 0

    def append(self, topic: str, values: list[bytes]) -> None:
        """Implements `Raw`."""
        self._topics.setdefault(topic, []).extend(values)

    def next(self) -> bytes:
        """Implements `Raw`."""
        self._position += 1
        return self._topics[RAW_TOPIC][self._position - 1]

    def read_all(self, topic: str, count: int) -> None:
        """Implements `Raw`."""
        assert sum(1 for _ in self._topics[topic]) == count


class RawRocks:
    """One synced write batch; a get; one iterator."""

    def __init__(self, options: Options) -> None:
        rocks = RocksOptions(raw_mode=True)
        rocks.create_if_missing(True)
        self._db = Rdict(str(options.folder / "raw"), rocks)
        self._synced = WriteOptions()
        self._synced.sync = True
        self._ends: dict[str, int] = {}
        self._position = 0

    def append(self, topic: str, values: list[bytes]) -> None:
        """Implements `Raw`."""
        batch = WriteBatch(raw_mode=True)
        end = self._ends.get(topic, 0)
        for offset, value in enumerate(values, end):
            batch.put(self._key(topic, offset), value)
        self._db.write(batch, self._synced)
        self._ends[topic] = end + len(values)

    def next(self) -> bytes:
        """Implements `Raw`."""
        self._position += 1
        return cast(bytes, self._db[self._key(RAW_TOPIC, self._position - 1)])

    def read_all(self, topic: str, count: int) -> None:
        """Implements `Raw`."""
        items = self._db.items(from_key=self._key(topic, 0))
        assert sum(1 for _, _ in zip(range(count), items, strict=False)) == count

    def _key(self, topic: str, offset: int) -> bytes:
        return topic.encode() + offset.to_bytes(8, "big")


class RawKafka:
    """A producer and a consumer with the settings of the log."""

    def __init__(self, bootstrap: str) -> None:
        self._where = {**COMMON, "bootstrap.servers": bootstrap}
        self._producer = Producer({**self._where, **PRODUCER})
        self._consumer = self._reader(RAW_TOPIC)

    def append(self, topic: str, values: list[bytes]) -> None:
        """Implements `Raw`."""
        for value in values:
            self._producer.produce(topic, value, partition=0)
        assert self._producer.flush(30) == 0

    def next(self) -> bytes:
        """Implements `Raw`."""
        while True:
            message = self._consumer.poll(1.0)
            if message is not None and message.error() is None:
                return message.value() or b""

    def read_all(self, topic: str, count: int) -> None:
        """Implements `Raw`."""
        reader = self._reader(topic)
        read = 0
        while read < count:
            first = reader.poll(1.0)
            read += (first is not None) + len(reader.consume(POLL, 0))
        reader.close()

    def _reader(self, topic: str) -> Consumer:
        consumer = Consumer({**self._where, **CONSUMER})
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer


def raw_of(log: Log, kind: str, options: Options) -> Raw:
    """The reference for a kind of log; on Kafka the same broker."""
    if isinstance(log, KafkaLog):
        return RawKafka(log.link.bootstrap)
    return RawRocks(options) if kind == "embedded" else RawMemory()


def round_of(decisions: int) -> bytes:
    """A round of placement with so many placements, as it stands in the log."""
    items = np.arange(decisions, dtype=np.int32)
    hosts = max(1, decisions // 20)
    placed = TasksPlaced.pack(
        job_ids=("bench",),
        job=np.zeros(decisions, np.int32),
        instance=items,
        run=np.ones(decisions, np.int32),
        host_ids=tuple(f"host-{number}" for number in range(hosts)),
        host_session=np.ones(hosts, np.int64),
        host=items % hosts,
    )
    return encode(
        RoundCommitted(
            cell=0,
            machine="placement",
            epoch=1,
            round=1,
            now=0,
            caught_up=True,
            budget=20_000,
            inputs=(),
            skipped=(),
            inputs_hash=bytes(32),
            start_hash=bytes(32),
            seen=(),
            decisions=(encode(placed),),
            prev_hash=bytes(32),
            logic=1,
            state=1,
        )
    )


def timed(repeats: int, append: Callable[[], None], read_back: Callable[[], None]) -> dict[str, float]:
    """Milliseconds of append alone, and of append and read-back together."""
    appends, both = [], []
    for number in range(WARM_UP + repeats):
        began = time.perf_counter()
        append()
        appended = time.perf_counter()
        read_back()
        done = time.perf_counter()
        if number >= WARM_UP:
            appends.append(1000 * (appended - began))
            both.append(1000 * (done - began))
    return {
        "append_p50_ms": percentile(appends, 0.5),
        "append_p99_ms": percentile(appends, 0.99),
        "append_and_read_back_p50_ms": percentile(both, 0.5),
        "append_and_read_back_p99_ms": percentile(both, 0.99),
    }


def rounds(log: Log, raw: Raw) -> Result:
    """Rounds of each size."""
    figures: dict[str, float] = {}
    references: dict[str, float] = {}
    reader = log.reader({TOPIC: 0})
    for decisions, repeats in REPEATS.items():
        value = round_of(decisions)

        def read_back(expected: bytes = value) -> None:
            while True:
                for record in reader.poll(1000, 1.0):
                    assert record.value == expected
                    return

        def append(value: bytes = value) -> None:
            log.append([NewRecord(TOPIC, b"placement", value)])

        def append_raw(value: bytes = value) -> None:
            raw.append(RAW_TOPIC, [value])

        def next_raw(expected: bytes = value) -> None:
            assert raw.next() == expected

        name = f"round_{decisions}"
        references |= {f"raw_{name}_{key}": each for key, each in timed(repeats, append_raw, next_raw).items()}
        figures |= {f"{name}_{key}": each for key, each in timed(repeats, append, read_back).items()}
        figures[f"{name}_size_bytes"] = len(value)
    reader.close()
    return Result(figures, references)


def facts(log: Log, raw: Raw) -> Result:
    """Small records in batches, written and all read."""
    figures: dict[str, float] = {}
    references: dict[str, float] = {}
    began = time.perf_counter()
    for _ in range(0, FACTS, BATCH):
        raw.append(RAW_FACTS_TOPIC, [FACT] * BATCH)
    references["raw_facts_append_records_per_s"] = per_second(FACTS, began)
    began = time.perf_counter()
    raw.read_all(RAW_FACTS_TOPIC, FACTS)
    references["raw_facts_read_records_per_s"] = per_second(FACTS, began)
    batch = [NewRecord(FACTS_TOPIC, b"key", FACT)] * BATCH
    began = time.perf_counter()
    for _ in range(0, FACTS, BATCH):
        log.append(batch)
    figures["facts_append_records_per_s"] = per_second(FACTS, began)
    began = time.perf_counter()
    assert sum(1 for _ in log.scan(FACTS_TOPIC, 0)) == FACTS
    figures["facts_scan_records_per_s"] = per_second(FACTS, began)
    reader = log.reader({FACTS_TOPIC: 0})
    began, read = time.perf_counter(), 0
    while read < FACTS:
        read += len(reader.poll(POLL, 1.0))
    figures["facts_poll_records_per_s"] = per_second(FACTS, began)
    reader.close()
    return Result(figures, references)


def read_rounds(log: Log, raw: Raw) -> Result:
    """All rounds again, from the start."""
    count = sum(WARM_UP + repeats for repeats in REPEATS.values())
    size = sum((WARM_UP + repeats) * len(round_of(decisions)) for decisions, repeats in REPEATS.items())
    began = time.perf_counter()
    raw.read_all(RAW_TOPIC, count)
    raw_rate = per_second(size, began) / 1e6
    began = time.perf_counter()
    assert sum(len(record.value) for record in log.scan(TOPIC, 0)) == size
    return Result({"rounds_scan_mb_per_s": per_second(size, began) / 1e6}, {"raw_rounds_read_mb_per_s": raw_rate})


def run(log: str, options: Options) -> Result:
    """All parts on one log."""
    with open_log(log, options.folder) as opened:
        raw = raw_of(opened, log, options)
        parts = [part(opened, raw) for part in (rounds, read_rounds, facts)]
    return Result(
        {name: figure for part in parts for name, figure in part.figures.items()},
        {name: figure for part in parts for name, figure in part.references.items()},
    )
