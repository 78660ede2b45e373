"""Rewrites a history from one round on, so that every hash in it fits: what a forger with our code can do."""

from collections.abc import Callable

import msgspec

from events.acceptance import Chain
from events.delivery import Inbox
from events.log.memory import MemoryLog
from events.log.port import LogRecord
from events.records.rounds import EpochStarted, RoundCommitted
from events.rounds import Delivered, accept, decode_decisions, sealed
from events.topics import ALL
from processors.cell_machines import machines
from processors.runtime.fold import Fold
from tests.helpers.past import changed


def forge(log: MemoryLog, machine: str, number: int, other: Callable[[RoundCommitted], RoundCommitted]) -> MemoryLog:
    """The history with one round of a machine made another, and in all rounds after it the hashes that follow from
    that: of the round before, of the inputs, of the state.
    """
    folds = {name: Fold(make(), log.cell) for name, make in machines().items()}
    written: dict[str, list[LogRecord]] = {topic.name: [] for topic in ALL}
    inbox = Inbox({topic.name: 0 for topic in ALL}, {}, {name: Chain() for name in folds}, log.cell)
    for topic in ALL:
        inbox.add(log.scan(topic.name, 0))
    for delivered in inbox.deliver(1_000_000):
        record, event = delivered.record, delivered.event
        if isinstance(event, RoundCommitted):
            forged = event.round == number and event.machine == machine
            record = _round(folds[event.machine], record, event, other if forged else None, written)
        elif isinstance(event, EpochStarted):
            fold = folds[event.machine]
            event = msgspec.structs.replace(event, start_hash=fold.state.hash)
            record = _sealed(record, event, fold)
        written[record.topic].append(record)
    out = log
    for topic, records in written.items():
        out = changed(out, topic, records, log.topic(topic).end)
    return out


def _round(
    fold: Fold,
    record: LogRecord,
    event: RoundCommitted,
    other: Callable[[RoundCommitted], RoundCommitted] | None,
    written: dict[str, list[LogRecord]],
) -> LogRecord:
    start_hash = fold.state.hash
    inputs = [each for segment in event.inputs for each in written[segment.topic][segment.start : segment.end]]
    skips = {(skip.topic, skip.offset): skip for skip in event.skipped}
    for each in inputs:
        fold.note(each)
    inputs_hash = fold.inputs_hash()
    for each in inputs:
        fold.take_recorded(each, skips.get((each.topic, each.offset)), Delivered(record, event))
    event = other(event) if other else event
    event = msgspec.structs.replace(event, prev_hash=fold.own.hash, inputs_hash=inputs_hash, start_hash=start_hash)
    record = _sealed(record, event, fold)
    fold.decided(event.now, decode_decisions(event), event.round)
    fold.finish(event)
    return record


def _sealed(record: LogRecord, event: EpochStarted | RoundCommitted, fold: Fold) -> LogRecord:
    """The record with another content, and its key with it; the fold has taken it."""
    new = sealed(event, fold.own.hash)
    record = record._replace(key=new.key, value=new.value)
    accept(record, fold.own, fold.machine.name, fold.cell)
    return record
