"""Decisions of some kinds, from the accepted rounds of a machine."""

from collections.abc import Iterator

from events.acceptance import Chain
from events.codec import decode_once, writer_schema
from events.log.port import Log
from events.records.base import Event
from events.records.rounds import RoundCommitted
from events.rounds import accept, key_of
from events.topics import rounds_of


def decisions(log: Log, machine: str, kind: type[Event]) -> Iterator[Event]:
    """The decisions of a kind, in their order. Of a log whose beginning was cut, from the first round that it has.
    Raises `LogError`, `CodecError`.
    """
    topic = rounds_of(machine)
    start, chain = log.bounds(topic)[0], Chain()
    for record in log.scan(topic, start):
        key = key_of(record) if start and not chain.epoch else None
        if key is not None:  # what stood before is gone: the first that is there is believed
            chain = Chain(key.epoch, key.round - 1, key.prev)
        round_ = accept(record, chain, machine, log.cell).event
        for encoded in round_.decisions if isinstance(round_, RoundCommitted) else ():
            if writer_schema(encoded)["name"].rpartition(".")[2] == kind.__name__:
                yield decode_once(encoded)
