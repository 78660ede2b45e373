"""The records of `schemas/quarantine`. Written by `python -m tools.records`; do not edit."""

from typing import ClassVar

from events.records.base import Event


class RecordQuarantined(Event, frozen=True, kw_only=True):
    """A record that a machine could not decode and skipped. Each machine that reads its topic says so once, so a
    reader who wants each record once takes one per key. Key: TOPIC:OFFSET of the record.
    """

    topic: ClassVar[str] = "paceline.quarantine"

    event_id: str
    """CELL/MACHINE/ROUND/INDEX/ITEM, here and in the header paceline-event-id; the same for a repeat and for no other
    event.
    """

    cell: int
    """The cell."""

    machine: str
    """The machine that skipped it."""

    round: int
    """Number of the round, growing."""

    index: int
    """Place of the decision in its round, from 0; -1: an input of the round."""

    item: int
    """Place among the inputs that the round skipped, from 0; -1: the decision itself could not be read by the fan-out,
    and the record is its round.
    """

    at_ms: int
    """Logical time of the round in milliseconds since 1970."""

    record_topic: str
    """The topic of the record."""

    record_offset: int
    """Its offset."""

    reason: str
    """A stable code: why it could not be decoded."""

    digest: str
    """BLAKE2b-256 of its bytes, in hexadecimal."""


ALL: tuple[type[Event], ...] = (RecordQuarantined,)
