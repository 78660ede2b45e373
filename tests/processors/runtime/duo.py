"""The two toys on one log in memory, stepped by hand, and records of a machine's topic as other builds have them."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

import events.rounds
from events.codec import decode, encode
from events.log.memory import MemoryLog
from events.log.port import LogRecord, NewRecord
from events.records.base import Event
from events.records.jobs import JobStopRequested
from events.records.rounds import EpochStarted, RoundCommitted
from events.rounds import key_of, sealed
from processors.runtime.driver import Driver
from processors.runtime.store import MemoryStore
from tests.helpers.toys import CLOSE_AFTER_MS, TOYS
from tests.processors.runtime.world import WorldClock

NEWER = b"\xc3\x01newer\0\0\0"
"""A record in a schema that this build doesn't have."""


TICK_MS = 10
IDLE_TICKS = CLOSE_AFTER_MS // TICK_MS + 2


class Duo:
    """Each toy with its disk; a driver is there once it was started."""

    def __init__(self) -> None:
        self.clock = WorldClock()
        self.log = MemoryLog(self.clock.monotonic_ms)
        self.disks = {name: MemoryStore() for name in TOYS}
        self.drivers: dict[str, Driver] = {}

    def start(self, *names: str) -> Driver:
        """New processes take these toys; returns the last."""
        for name in names:
            self.drivers[name] = Driver(TOYS[name](), self.log, self.disks[name], self.clock, name)
            for _ in self.drivers[name].recover():
                pass
        return self.drivers[names[-1]]

    def ask(self, *balls: str) -> None:
        """Facts."""
        for ball in balls:
            self.put("paceline.jobs", encode(JobStopRequested(job_id="a", command_id=ball)))

    def put(self, topic: str, value: bytes, key: bytes = b"") -> int:
        """A record of anybody's."""
        return self.log.append([NewRecord(topic, key, value)])[0]

    def rest(self) -> None:
        """Lets all drivers do what there is to do now, and what follows from it."""
        idle = 0
        while idle < IDLE_TICKS:
            worked = [driver.run() for driver in self.drivers.values()]
            idle = 0 if any(worked) else idle + 1
            self.clock.ms += TICK_MS

    def rounds(self, name: str) -> list[RoundCommitted]:
        """All rounds in the topic of a toy, of whatever history."""
        events = (decode(record.value) for record in self.log.scan(f"paceline.{name}", 0) if key_of(record))
        return [event for event in events if isinstance(event, RoundCommitted)]

    def rewrite(self, name: str, change: Callable[[RoundCommitted], RoundCommitted]) -> None:
        """Makes the last round of a toy another, with a key that fits."""
        records = self.log.topic(f"paceline.{name}").records
        event = decode(records[-1].value)
        assert isinstance(event, RoundCommitted)
        records[-1] = of(records[-1], change(event))


def of(record: LogRecord, event: EpochStarted | RoundCommitted, prev: bytes = bytes(32)) -> LogRecord:
    """The record with another content."""
    new = sealed(event, prev)
    return record._replace(key=new.key, value=new.value)


def newer(record: NewRecord, patch: pytest.MonkeyPatch) -> NewRecord:
    """The same claim or round, as a newer build writes it in a schema that this build doesn't have."""
    event = decode(record.value)
    assert isinstance(event, EpochStarted | RoundCommitted)
    prev = events.rounds.parse(record.key).prev  # type: ignore[union-attr]
    with patch.context() as other:
        other.setattr(events.rounds, "encode_to_share", lambda event: (NEWER + encode(event), event))
        other.setattr(events.rounds, "build", lambda: "9.1")
        return sealed(event, prev)


def with_decision(event: RoundCommitted, decision: bytes | Event) -> RoundCommitted:
    """The round with one decision more."""
    value = decision if isinstance(decision, bytes) else encode(decision)
    return replace(event, decisions=(*event.decisions, value))
