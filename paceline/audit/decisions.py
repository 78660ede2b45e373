"""Decisions of some kinds, from the accepted rounds of a machine."""

from collections.abc import Iterator

from events.acceptance import Acceptance, Chain
from events.codec import decode_once, writer_schema
from events.log.port import Log
from events.records.base import Event
from events.records.rounds import RoundCommitted
from events.rounds import key_of
from events.topics import rounds_of


def decisions(log: Log, machine: str, kind: type[Event]) -> Iterator[Event]:
    """The decisions of a kind, in their order. Of a log whose beginning was cut, from the first round that it has.
    Raises `LogError`, `CodecError`.
    """
    topic = rounds_of(machine)
    start, chain = log.bounds(topic)[0], Chain()
    for record in log.scan(topic, start):
        key = key_of(record)
        if key is None:
            continue
        if start and not chain.epoch:  # what stood before is gone: the first that is there is believed
            chain = Chain(key.epoch, key.round - 1, key.prev)
        if chain.judge(key, machine, log.cell) is not Acceptance.ACCEPTED:
            continue
        event = decode_once(record.value)
        round_ = event if isinstance(event, RoundCommitted) else None
        chain.follow(key, round_, record.offset + 1)
        for encoded in round_.decisions if round_ is not None else ():
            if writer_schema(encoded)["name"].rpartition(".")[2] == kind.__name__:
                yield decode_once(encoded)
