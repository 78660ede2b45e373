"""A head of a cell's log as a witness signs it: the last round of each machine, and the open end of each topic.

The rounds pin all that they were decided on (`paceline.history.heads`); what no round has read yet is pinned by the
hashes of the open ends. Each head has the hash of the one before. Its text is the body of a signed note:

    paceline/head 1
    cell 0
    log 5b0e...                                          who it is of: `events.log.port.identity` of its first round
    head 17
    time 2026-11-28T11:35:00.000Z
    before 77aa...                                       hash of the text of head 16
    machine lifecycle 133 135 12 1 90cd...               round, offset behind it, logic, first round decided, hash
    topic paceline.jobs 3 4 1f00...                      offsets of the open end, and its hash
    key witness-2+1a2b3c4d+AQ...                         only where the next heads are signed by this key
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from events.acceptance import NO_HASH, digest
from events.log.port import Log, LogGap, identity
from events.records.parts import Segment
from events.topics import MACHINES, rounds_of
from paceline.client.errors import PacelineError
from paceline.history.heads import OpenEnd, hash_of
from paceline.witness.alarms import Alarm, Finding
from paceline.witness.notes import NoteFault, PublicKey
from processors.runtime.replay import Difference, Mismatch

FORMAT = 1
IDENTITY = rounds_of(MACHINES[0])
"""The topic whose first record names the log."""
_LINE = {
    "cell": re.compile(r"(\d{1,9})"),
    "log": re.compile(r"([0-9a-f]{32})"),
    "head": re.compile(r"(\d{1,12})"),
    "time": re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"),
    "before": re.compile(r"([0-9a-f]{64})"),
    "machine": re.compile(r"([a-z]{1,40}) (\d{1,18}) (\d{1,18}) (\d{1,9}) (\d{1,18}) ([0-9a-f]{64})"),
    "topic": re.compile(r"([a-z.-]{1,80}) (\d{1,18}) (\d{1,18}) ([0-9a-f]{64})"),
    "key": re.compile(r"(\S{1,200})"),
}


class Standing(NamedTuple):
    """Where a machine stands: its last round, the offset behind that, the logic that decided it, the first round that
    the witness has decided itself (0: none), and the hash of the last round.
    """

    round: int = 0
    position: int = 0
    logic: int = 0
    first: int = 0
    hash: bytes = NO_HASH


class SignedHead(NamedTuple):
    """The content of a head. `number` counts from 1; `at_ms` is the witness's time; `before` the hash of the head
    before, zeros for the first; `key`: the key that signs from the next head on, None: it stays.
    """

    cell: int
    log: str
    number: int
    at_ms: int
    before: bytes
    machines: Mapping[str, Standing]
    topics: Mapping[str, OpenEnd]
    key: PublicKey | None = None

    @property
    def time(self) -> str:
        """Its time in RFC 3339."""
        return datetime.fromtimestamp(self.at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"

    @property
    def rounds(self) -> int:
        """The rounds of all machines."""
        return sum(each.round for each in self.machines.values())

    @property
    def hash(self) -> bytes:
        """By which the next head names it."""
        return digest(self.text.encode())

    @property
    def text(self) -> str:
        """The text that is signed."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"paceline/head {FORMAT}"
        yield f"cell {self.cell}"
        yield f"log {self.log}"
        yield f"head {self.number}"
        yield f"time {self.time}"
        yield f"before {self.before.hex()}"
        for name, at in self.machines.items():
            yield f"machine {name} {at.round} {at.position} {at.logic} {at.first} {at.hash.hex()}"
        for name, end in self.topics.items():
            yield f"topic {name} {end.start} {end.end} {end.hash}"
        if self.key is not None:
            yield f"key {self.key}"

    @classmethod
    def parse(cls, text: str) -> "SignedHead":
        """The head in a text; only the very text that `text` makes of it is one. Raises `NoteFault`."""
        title, *lines = text.split("\n")
        if title != f"paceline/head {FORMAT}":
            newer = title.startswith("paceline/head ")
            raise NoteFault("a newer Paceline wrote it" if newer else "it is no head of a log")
        one: dict[str, str] = {}
        machines, topics = dict[str, Standing](), dict[str, OpenEnd]()
        for line in lines[:-1]:
            word, _, rest = line.partition(" ")
            match = _LINE[word].fullmatch(rest) if word in _LINE else None
            if match is None:
                raise NoteFault(f"{line[:80]!r} is no line of a head")
            if word == "machine":
                name, *numbers, hash_ = match.groups()
                round_, position, logic, first = map(int, numbers)
                machines[name] = Standing(round_, position, logic, first, bytes.fromhex(hash_))
            elif word == "topic":
                name, start, end, hash_ = match.groups()
                topics[name] = OpenEnd(int(start), int(end), hash_)
            else:
                one[word] = match[1]
        try:
            at_ms = round(datetime.fromisoformat(one["time"]).timestamp() * 1000)
            key = PublicKey.parse(one["key"]) if "key" in one else None
            numbers_ = int(one["cell"]), one["log"], int(one["head"]), at_ms, bytes.fromhex(one["before"])
            head = cls(*numbers_, machines, topics, key)
        except KeyError as error:
            raise NoteFault(f"it has no line {error.args[0]!r}") from error
        except ValueError as error:
            raise NoteFault(str(error)) from error
        if head.text != text:
            raise NoteFault("its lines are not as a head has them")
        return head


def log_id(log: Log) -> str:
    """Names a log by the first record of its first machine; empty: there is none, or the log begins later."""
    if log.bounds(IDENTITY)[0]:
        return ""
    first = next(iter(log.scan(IDENTITY, 0)), None)
    return "" if first is None else identity(first)


def check(log: Log, head: SignedHead) -> Finding | None:
    """Compares a log with a head of it: rounds by their places, open ends by their hashes. What came since is not
    looked at. None: the log holds what the head says. Raises `PacelineError` where it is of another cell.
    """
    if head.cell != log.cell:
        raise PacelineError(f"The heads are of cell {head.cell}, the log of cell {log.cell}.")
    return next(_findings(log, head), None)


def not_compared(log: Log, head: SignedHead) -> list[str]:
    """The topics of which `check` can't compare what a head says, since the log begins later in them."""
    needed = {topic: end.start for topic, end in head.topics.items() if end.start < end.end}
    for machine, at in head.machines.items():
        if at.round:
            own = rounds_of(machine)
            needed[own] = min(needed.get(own, at.position), at.position - 1)
    return [topic for topic, offset in needed.items() if log.bounds(topic)[0] > offset]


def _findings(log: Log, head: SignedHead) -> Iterator[Finding]:
    name = log_id(log)
    if name and name != head.log:
        text = (
            f"this is not the log of head {head.number}, {head.log}: it began otherwise, and is {name}. If it is that "
            "of another cell, name the right one (--data)"
        )
        yield _finding(head, Alarm.FORKED, text)
    ends = log.ends(head.topics)
    for machine, at in head.machines.items():
        if at.round:
            yield from _round(log, head, machine, at)
    for topic, open_end in head.topics.items():
        end = ends[topic]
        place = Segment(topic=topic, start=min(open_end.start, end), end=open_end.end)
        machine = topic.removeprefix("paceline.")
        number = head.machines[machine].round if machine in head.machines else 0
        of = (machine if number else "", number)
        if end < open_end.end:
            text = f"{topic} was cut: it ends at {end}, and it had {open_end.end} records at head {head.number}"
            yield _finding(head, Alarm.CUT, text, place, of=of)
            continue
        try:
            if hash_of(log, topic, open_end.start, open_end.end) != open_end.hash:
                span = f"from {open_end.start} to {open_end.end}"
                text = f"{topic} is not what it was {span} at head {head.number}"
                yield _finding(head, Alarm.TAMPERED, text, place, of=of)
        except LogGap as gap:
            if log.bounds(topic)[0] <= open_end.start:
                yield _finding(head, Alarm.CUT, str(gap), place, of=of)


def _round(log: Log, head: SignedHead, machine: str, at: Standing) -> Iterator[Finding]:
    topic, offset, of = rounds_of(machine), at.position - 1, (machine, at.round)
    start, end = log.bounds(topic)
    if offset < start:  # its archive would have it
        return
    place = Segment(topic=topic, start=min(offset, end), end=at.position)
    if offset >= end:
        text = f"{topic} was cut: it ends at {end}, and round {at.round} was at {offset} at head {head.number}"
        yield _finding(head, Alarm.CUT, text, place, of=of)
        return
    record = next(iter(log.scan(topic, offset)), None)
    if record is None or record.offset != offset or digest(record.value) != at.hash:
        text = f"{topic}:{offset} is not the round that head {head.number} has there"
        yield _finding(head, Alarm.FORKED, text, place, of=of)


def _finding(head: SignedHead, alarm: Alarm, text: str, *places: Segment, of: tuple[str, int] = ("", 0)) -> Finding:
    return Finding(alarm, Difference(*of, 0, None, None, text, places, Mismatch.LOG), head.number)
