"""The head of a log, kept elsewhere: what verification can't know from the log alone.

Every round pins what came before it: the round before by its hash, its inputs by another. What no round has covered
yet, the open end of each topic, is pinned by nobody. A head holds a hash over it, so that a log that was cut or changed
there is found by whoever kept the head.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import takewhile
from pathlib import Path

import msgspec

from events.log.port import Log, LogGap, LogRecord
from events.records.parts import Segment
from events.structs import known
from events.topics import ALL
from paceline.client.errors import PacelineError
from processors.runtime.replay import Difference, Mismatch, Replayed

FORMAT = 1


class OpenEnd(msgspec.Struct, frozen=True):
    """The open end of a topic: offsets from `start` to before `end`, and a hash over their records, in hexadecimal."""

    start: int
    end: int
    hash: str


class Head(msgspec.Struct, frozen=True):
    """The head of a cell's log."""

    format: int
    cell: int
    topics: dict[str, OpenEnd]


def ends(log: Log) -> dict[str, int]:
    """Where each topic ends now: to be asked before the log is verified."""
    return log.ends(topic.name for topic in ALL)


def head_of(log: Log, ends: dict[str, int], replayed: Iterable[Replayed]) -> Head:
    """The head of a log whose machines were all verified up to those ends."""
    covered: dict[str, int] = {}
    for each in replayed:
        for topic, position in each.inputs.items():
            covered[topic] = max(covered.get(topic, 0), position)
    spans = {topic: (min(covered.get(topic, 0), end), end) for topic, end in ends.items()}
    return Head(FORMAT, log.cell, {topic: OpenEnd(*span, hash_of(log, topic, *span)) for topic, span in spans.items()})


def write(head: Head, file: Path) -> None:
    """Writes a head to a file."""
    file.write_bytes(msgspec.json.format(msgspec.json.encode(head)) + b"\n")


def read(file: Path) -> Head:
    """The head in a file. Raises `PacelineError`."""
    try:
        head = msgspec.json.decode(file.read_bytes(), type=known(Head))
    except OSError as error:
        raise PacelineError(f"{file}: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise PacelineError(
            f"{file} is no head of a log: {error}. `paceline log verify --save-head` writes one."
        ) from error
    if head.format > FORMAT:
        raise PacelineError(f"{file} has format {head.format}, which a newer Paceline reads.")
    return head


def compare(log: Log, head: Head) -> Difference | None:
    """The first topic that isn't what it was when the head was saved. What came since is not looked at."""
    if head.cell != log.cell:
        raise PacelineError(f"The head is of cell {head.cell}, the log of cell {log.cell}.")
    return next(_differences(log, head), None)


def _differences(log: Log, head: Head) -> Iterator[Difference]:
    ends = log.ends(head.topics)
    for topic, was in head.topics.items():
        end = ends[topic]
        place = Segment(topic=topic, start=min(was.start, end), end=was.end)
        text = ""
        if end < was.end:
            text = f"{topic} was cut: it ends at {end}, and it had {was.end} records when the head was saved"
        else:
            try:
                if hash_of(log, topic, was.start, was.end) != was.hash:
                    text = f"{topic} is not what it was from {was.start} to {was.end} when the head was saved"
            except LogGap as error:
                text = f"the head can't be compared: {error}"
        if text:
            yield Difference("", 0, 0, None, None, text, (place,), Mismatch.LOG)


def hash_of(log: Log, topic: str, start: int, end: int) -> str:
    """The hash over records of a topic, in hexadecimal. Raises `LogGap`."""
    hasher = blake2b(digest_size=32)
    for record in _records(log, topic, start, end):
        head = f"{record.offset}\0{record.at_ms}\0{len(record.key)}\0{len(record.value)}\0"
        hasher.update(head.encode() + record.key + record.value)
    return hasher.hexdigest()


def _records(log: Log, topic: str, start: int, end: int) -> Iterator[LogRecord]:
    return takewhile(lambda record: record.offset < end, log.scan(topic, start)) if start < end else iter(())
