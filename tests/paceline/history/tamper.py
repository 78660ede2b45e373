"""Changes a record of a small real history at random places and looks whether verification finds it, and where.

    python -m tests.paceline.history.tamper 10000

A change is one of: bytes altered, the time altered, a record dropped (leaving a hole, or the rest moving up), two
records swapped, a round altered and the rounds after it chained anew to fit it. Each is looked for as `paceline log
verify` does, machine after machine, but from the state kept just before the change: what comes before is the same.
What no round has covered is found by the head that was saved before.
"""

import json
import random
import sys
import time
from collections import Counter
from functools import cache
from typing import NamedTuple

import msgspec

from events.acceptance import digest
from events.codec import CodecError, decode
from events.log.memory import MemoryLog
from events.log.port import LogRecord
from events.records.rounds import EpochStarted, RoundCommitted
from events.rounds import sealed
from events.topics import ALL, rounds_of
from paceline.history.heads import Head, compare, ends, head_of
from processors.cell_machines import machines
from processors.runtime.replay import Difference, Replay
from processors.runtime.store import MemoryStore
from tests.helpers.past import changed, past

KINDS = ("altered", "time altered", "dropped", "dropped, rest moved up", "swapped", "re-chained")


class Change(NamedTuple):
    """What was done to which offset of a topic (two where they were swapped), and the log after it."""

    kind: str
    topic: str
    offsets: tuple[int, ...]
    log: MemoryLog


class Kept(NamedTuple):
    """The store of a machine after a round, the offset after it, and where its inputs ended."""

    position: int
    inputs: dict[str, int]
    store: MemoryStore


class Finding(NamedTuple):
    """How a change was found: by deciding again (`rounds`), or by the `head`; empty and None: not at all."""

    by: str
    difference: Difference | None


@cache
def kept() -> dict[str, list[Kept]]:
    """Each machine of the history after each of its rounds; the whole must verify."""
    out = {}
    for name, make in machines().items():
        store = MemoryStore()
        run = Replay(make(), past(), store)
        out[name] = [Kept(0, {}, MemoryStore())]
        for _ in run.rounds():
            progress = store.progress()
            assert progress is not None
            out[name].append(Kept(progress.own.position, progress.own.inputs, store.copy()))
        assert run.result.difference is None, run.result.difference
    return out


@cache
def head() -> Head:
    """The head of the history."""
    replayed = []
    for make in machines().values():
        run = Replay(make(), past())
        list(run.rounds())
        replayed.append(run.result)
    return head_of(past(), ends(past()), replayed)


def change(source: random.Random) -> Change | None:
    """A random change; None where what was drawn changes nothing."""
    log = past()
    kind = source.choice(KINDS)
    topics = [
        topic for topic in ALL if len(log.topic(topic.name).records) > 1 and (kind != "re-chained" or topic.machine)
    ]
    topic = source.choices(topics, [len(log.topic(each.name).records) for each in topics])[0].name
    held = log.topic(topic)
    records, end = list(held.records), held.end
    at = source.randrange(len(records))
    offsets: tuple[int, ...] = (records[at].offset,)
    match kind:
        case "altered":
            records[at] = _altered(records[at], source)
        case "time altered":
            records[at] = records[at]._replace(at_ms=records[at].at_ms + source.choice((-1, 1, 3_600_000)))
        case "dropped":
            del records[at]
        case "dropped, rest moved up":
            del records[at]
            records[at:] = [each._replace(offset=each.offset - 1) for each in records[at:]]
            end -= 1
        case "swapped":
            other = source.randrange(len(records))
            a, b = records[at], records[other]
            if (a.key, a.value) == (b.key, b.value):
                return None
            records[at], records[other] = (a._replace(key=b.key, value=b.value), b._replace(key=a.key, value=a.value))
            offsets = (a.offset, b.offset)
        case "re-chained":
            if not _rechain(records, at, source):
                return None
    return Change(kind, topic, offsets, changed(log, topic, records, end))


def find(found: Change) -> Finding:
    """Looks for a change as `paceline log verify --head` does."""
    first = min(found.offsets)
    for name, make in machines().items():
        own = rounds_of(name)
        read = (*make().facts, *map(rounds_of, make().peers), own)
        if found.topic not in read:
            continue
        start = [
            each
            for each in kept()[name]
            if (each.position if found.topic == own else each.inputs.get(found.topic, 0)) <= first
        ][-1]
        run = Replay(make(), found.log, start.store.copy())
        for _ in run.rounds():
            pass
        if run.result.difference is not None:
            return Finding("rounds", run.result.difference)
    differs = compare(found.log, head())
    return Finding("head" if differs else "", differs)


def covered(found: Change) -> bool:
    """Whether a round of another machine, or of a topic's own, pins what was changed."""
    return min(found.offsets) < head().topics[found.topic].start


def placed(found: Change, difference: Difference) -> bool:
    """Whether the places that are said have a record that was changed."""
    last = found.log.topic(found.topic).end if found.kind == "re-chained" else 0
    offsets = {*found.offsets, *range(found.offsets[0], last)}
    return any(
        place.topic == found.topic and place.start <= offset < place.end
        for place in difference.places
        for offset in offsets
    )


def _altered(record: LogRecord, source: random.Random) -> LogRecord:
    """The record with one byte of key or value changed, put in or taken out."""
    name = "key" if record.key and source.random() < 0.2 else "value"
    data = bytearray(getattr(record, name))
    at = source.randrange(len(data))
    how = source.randrange(3)
    if how == 0:
        data[at] ^= source.randrange(1, 256)
    elif how == 1:
        data.insert(at, source.randrange(256))
    else:
        del data[at]
    return record._replace(**{name: bytes(data)})


def _rechain(records: list[LogRecord], at: int, source: random.Random) -> bool:
    """Changes what a round says and lets all rounds after it follow from that; whether there was a round to change."""
    event = decode(records[at].value)
    if not isinstance(event, RoundCommitted):
        return False
    other = _other(event, source)
    if other is None:
        return False
    records[at] = _sealed(records[at], other, b"")
    before = digest(records[at].value)
    for later in range(at + 1, len(records)):
        event = decode(records[later].value)
        if isinstance(event, RoundCommitted):
            records[later] = _sealed(records[later], msgspec.structs.replace(event, prev_hash=before), b"")
            before = digest(records[later].value)
        else:
            assert isinstance(event, EpochStarted)
            records[later] = _sealed(records[later], event, before)
    return True


def _sealed(record: LogRecord, event: EpochStarted | RoundCommitted, prev: bytes) -> LogRecord:
    new = sealed(event, prev)
    return record._replace(key=new.key, value=new.value)


def _other(event: RoundCommitted, source: random.Random) -> RoundCommitted | None:
    """The round, saying something else."""
    what = source.randrange(6)
    if what == 0:
        return msgspec.structs.replace(event, now=event.now + source.choice((-1, 1, 60_000)))
    if what == 1:
        return msgspec.structs.replace(event, caught_up=not event.caught_up)
    if what == 2:
        return msgspec.structs.replace(event, budget=event.budget - 1)
    if what == 3 and event.seen:
        seen = [msgspec.structs.replace(each, position=each.position + 1) for each in event.seen]
        return msgspec.structs.replace(event, seen=tuple(seen))
    if what == 4 and event.decisions:
        return msgspec.structs.replace(event, decisions=event.decisions[:-1])
    if event.decisions:
        drawn = source.randrange(len(event.decisions))
        data = bytearray(event.decisions[drawn])
        data[source.randrange(10, len(data))] ^= 1 << source.randrange(8)
        try:
            decode(bytes(data))
        except CodecError:
            return None
        decisions = (*event.decisions[:drawn], bytes(data), *event.decisions[drawn + 1 :])
        return msgspec.structs.replace(event, decisions=decisions)
    return None


def run(count: int, seed: int = 0) -> dict[str, object]:
    """Changes so many places and counts what became of them. Raises `AssertionError` for one that isn't found."""
    source = random.Random(seed)
    by: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    topics: Counter[str] = Counter()
    while sum(kinds.values()) < count:
        observers = change(source)
        if observers is None:
            continue
        told = f"{observers.kind} {observers.topic}:{observers.offsets}"
        found = find(observers)
        assert found.difference is not None, f"not found: {told}"
        assert found.by == "rounds" or not covered(observers), f"only the head found it: {told}"
        assert placed(observers, found.difference), f"{told} was said to be at {found.difference}"
        by[found.by] += 1
        kinds[observers.kind] += 1
        topics[observers.topic] += 1
    return {
        "places": count,
        "found_by_rounds": by["rounds"],
        "found_by_head": by["head"],
        "kinds": dict(sorted(kinds.items())),
        "topics": dict(sorted(topics.items())),
        "records": sum(len(past().topic(topic.name).records) for topic in ALL),
    }


if __name__ == "__main__":
    began = time.perf_counter()
    result = run(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
    sys.stdout.write(json.dumps({**result, "seconds": round(time.perf_counter() - began, 1)}) + "\n")
