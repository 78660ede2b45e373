"""Whether the topics of the fan-out say all that was decided: for tests, after whatever was done to the processes.

`whole` reads the rounds of a cell from the log and the topics of the fan-out as a stranger does. Call it once the
fan-out has caught up, as `caught_up` tells from its /readyz.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from events.acceptance import Chain
from events.codec import decode
from events.log.kafka.connection import CONSUMER
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import Log, LogRecord
from events.records.rounds import RoundCommitted
from events.rounds import accept
from events.topics import FANOUT, MACHINES, rounds_of
from projections.fanout.publisher import ID_HEADER
from projections.fanout.unfold import OutputMessage, unfold

PATIENCE_S = 120.0
READ_RECORDS = 10_000


class Found(NamedTuple):
    """A message as it stands in a topic of the fan-out."""

    key: str
    event_id: str
    value: bytes


def whole(bootstrap: str, cell: int, starts: int | None = None) -> dict[str, int]:
    """Asserts that each decision of a cell is published, under its key, with its id and content, each machine's in
    the order decided, and nothing else; repeats aside.

    With `starts` also that these are explained by so many starts of a process (a new life, a takeover, a broker that
    came back): each repeats the round that was then the last, whole or in part, and nothing older.

    Returns how many `messages` were decided, how many are `repeated`, of how many `rounds_repeated`, and how many of
    those were `late`, after a message of a newer round.
    """
    log = KafkaLog(bootstrap, cell)
    try:
        wanted = expected(log)
    finally:
        log.close()
    counted = Counter({"messages": 0, "repeated": 0, "rounds_repeated": 0, "late": 0})
    found = published(bootstrap, cell)
    for machine, outs in wanted.items():
        repeats: Counter[int] = Counter()
        for topic in FANOUT:
            decided = {out.event_id: out for out in outs if out.topic == topic.name}
            mine = [each for each in found[topic.name] if each.event_id.split("/")[1] == machine]
            counted["messages"] += len(decided)
            again = _compared(f"{topic.name} of cell {cell}", decided, mine)
            counted["repeated"] += sum(again.values())
            counted["late"] += _late(decided, mine)
            for event_id, times in again.items():
                round_ = decided[event_id].event.round
                repeats[round_] = max(repeats[round_], times)
        counted["rounds_repeated"] += len(repeats)
        if starts is not None:
            assert repeats.total() < max(starts, 1), f"{starts} starts don't explain these repeats: {dict(repeats)}"
    assert starts is None or not counted["late"], f"{counted['late']} messages came again after newer ones"
    return dict(counted)


def _compared(where: str, decided: Mapping[str, OutputMessage], found: list[Found]) -> Counter[str]:
    """How often each message came again. Raises where one is missing, strange, changed or before its time."""
    times = Counter(each.event_id for each in found)
    missing, strange = decided.keys() - times.keys(), times.keys() - decided.keys()
    assert not missing, f"{where} lacks {len(missing)} of {len(decided)} messages, {sorted(missing)[:5]} among them"
    assert not strange, f"{where} has messages of nothing decided: {sorted(strange)[:5]}"
    for each in found:
        out = decided[each.event_id]
        assert (each.key, decode(each.value)) == (out.key, out.event), f"{where} has another {each.event_id}: {each}"
    first = list(dict.fromkeys(each.event_id for each in found))
    assert first == list(decided), f"{where} is out of order"
    return Counter({event_id: count - 1 for event_id, count in times.items() if count > 1})


def _late(decided: Mapping[str, OutputMessage], found: list[Found]) -> int:
    """Messages after one of a newer round."""
    newest = late = 0
    for each in found:
        round_ = decided[each.event_id].event.round
        late += round_ < newest
        newest = max(newest, round_)
    return late


def caught_up(health: Mapping[str, Any] | None, cells: int = 1) -> bool:
    """Whether a fan-out that says this on /readyz serves so many cells and has published all that was decided."""
    if not health or not health.get("ready") or len(health["cells"]) < cells:
        return False
    return all(
        each["position"] == each["end"] for cell in health["cells"].values() for each in cell["machines"].values()
    )


def rounds(log: Log, machine: str) -> Iterator[tuple[LogRecord, RoundCommitted]]:
    """The accepted rounds of a machine."""
    chain = Chain()
    for record in log.scan(rounds_of(machine), 0):
        delivered = accept(record, chain, machine, log.cell)
        if isinstance(delivered.event, RoundCommitted):
            yield record, delivered.event


def expected(log: Log) -> dict[str, list[OutputMessage]]:
    """The messages that the rounds of a cell ask for, by machine."""
    return {
        machine: [out for record, round_ in rounds(log, machine) for out in unfold(round_, record.offset)]
        for machine in MACHINES
    }


def published(bootstrap: str, cell: int) -> dict[str, list[Found]]:
    """What stands in the topics of the fan-out in one cell."""
    found: dict[str, list[Found]] = {topic.name: [] for topic in FANOUT}
    consumer = Consumer({**CONSUMER, "bootstrap.servers": bootstrap})
    asked = [TopicPartition(name, cell) for name in found]
    bounds = {each.topic: consumer.get_watermark_offsets(each, timeout=PATIENCE_S) for each in asked}
    consumer.assign([TopicPartition(name, cell, start) for name, (start, _) in bounds.items()])
    left = sum(end - start for start, end in bounds.values())
    deadline = time.monotonic() + PATIENCE_S
    while left > 0:
        assert time.monotonic() < deadline, f"{left} messages of the fan-out can't be read"
        messages = consumer.consume(min(left, READ_RECORDS), 0.02)
        if messages:  # there may be a million
            deadline = time.monotonic() + PATIENCE_S
        for message in messages:
            assert message.error() is None, message.error()
            event_id = dict(message.headers() or ())[ID_HEADER]
            assert isinstance(event_id, bytes)
            key, value = message.key() or b"", message.value() or b""
            found[str(message.topic())].append(Found(key.decode(), event_id.decode(), value))
            left -= 1
    consumer.close()
    return found
