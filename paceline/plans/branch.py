"""A branch of a cell: its log as it is, and from there on rounds of the real machines, in memory and in simulated time.

Nothing of it reaches the cell. Whoever reads a log can read a branch, so the views of the API tell of it in the same
words as of the cell.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from events.codec import encode
from events.log.memory import MemoryLog
from events.log.port import Log, NewRecord
from events.process.clock import SimulatedClock
from events.records.base import Event
from events.records.placement import HostsAnswered
from events.records.rounds import RoundCommitted
from events.topics import ALL
from paceline.plans.hosts import BranchHosts
from processors.lifecycle.machine import Lifecycle
from processors.runtime.driver import Driver
from processors.runtime.fold import Fold
from processors.runtime.store import MemoryStore

ORDER = ("entitlement", "placement", "lifecycle", "sla")
"""The order in which machines step: one that only reads comes last, so it reads much at once."""
STEPS_MAX = 100_000
"""A moment with more turns of all machines than this never ends: a bug in a machine."""


class Decision(NamedTuple):
    """A decision of the branch, and the simulated time of its round in milliseconds since the branch began."""

    machine: str
    after_ms: int
    event: Event


def hosts_answer(decisions: Iterable[Decision], offset: int) -> HostsAnswered | None:
    """The answer to a fact about hosts, by its offset; None: it has none yet."""
    answers = (each.event for each in decisions if isinstance(each.event, HostsAnswered))
    return next((each for each in answers if each.hosts_offset == offset), None)


def branch_log(log: Log, starts: Mapping[str, int], ends: Mapping[str, int], clock: SimulatedClock) -> MemoryLog:
    """A log in memory that has the records of another from `starts` to `ends`, and goes on from there."""
    branch = MemoryLog(clock.monotonic_ms, log.cell)
    for name, start in starts.items():
        topic = branch.topic(name)
        topic.start, topic.end = start, ends[name]
        if start < topic.end:
            topic.records = list(log.scan(name, start))
            clock.ms = max([clock.ms, *(record.at_ms for record in topic.records[-1:])])
    return branch


class _Seen:
    """The `Observer` of one machine."""

    def __init__(self, branch: "Branch", machine: str) -> None:
        self._branch = branch
        self._machine = machine

    def committed(self, record: RoundCommitted, decisions: list[Event], size: int) -> None:
        """Notes the decisions of a round."""
        self._branch.note(self._machine, decisions)

    def ignored(self, topic: str, cause: str) -> None:
        """A late round of a process that lost its cell."""


class Branch:
    """The machines of a cell on a branch of its log, and hosts that do at once what they are told.

    `folds` are the machines with their state after their last rounds; they belong to the branch from here on.
    `until_s`: when to stop, on the clock of this machine (`time.monotonic`).
    """

    def __init__(self, log: MemoryLog, folds: Mapping[str, Fold], clock: SimulatedClock, until_s: float) -> None:
        self.log = log
        self.starts = log.ends([topic.name for topic in ALL])
        """Where it begins: the ends of the cell's topics."""
        self.begin_ms = clock.ms
        self.decisions: list[Decision] = []
        self.is_cut_short = False
        """Whether time ran out before nothing more was to be decided."""
        self._clock = clock
        self._until_s = until_s
        lifecycle = folds["lifecycle"].machine
        assert isinstance(lifecycle, Lifecycle)
        self._hosts = BranchHosts(lifecycle)
        self._drivers = [self._driver(folds[name]) for name in ORDER]

    @property
    def passed_ms(self) -> int:
        """The simulated time since it began, in milliseconds."""
        return self._clock.ms - self.begin_ms

    def append(self, facts: Iterable[Event], key: bytes = b"user") -> list[int]:
        """Facts of users; returns their offsets."""
        return self.log.append([NewRecord(fact.topic, key, encode(fact)) for fact in facts])

    def note(self, machine: str, decisions: Sequence[Event]) -> None:
        """Takes the decisions of a round."""
        self.decisions += (Decision(machine, self.passed_ms, event) for event in decisions)
        if machine == "lifecycle":
            self._hosts.told(decisions)

    def settle(self) -> None:
        """Runs the machines until nothing is to be decided at this moment."""
        for _ in range(STEPS_MAX):
            if time.monotonic() > self._until_s:
                self.is_cut_short = True
                return
            busy = False
            for driver in self._drivers:
                busy = driver.run() or not driver.idle() or busy
            if reports := self._hosts.reports():
                self.append(reports, b"plan")
            elif not busy and self._next_ms() != self._clock.ms:
                return
        raise AssertionError(f"the machines never come to rest at {self._clock.ms}")

    def advance(self, until_ms: int) -> bool:
        """Lets time pass to the next deadline that comes up to then, in milliseconds since it began, and settles.
        Returns whether there was one.
        """
        at_ms = self._next_ms()
        if self.is_cut_short or at_ms is None or at_ms - self.begin_ms > until_ms:
            return False
        self._clock.ms = max(self._clock.ms, at_ms)
        self.settle()
        return True

    def _driver(self, fold: Fold) -> Driver:
        machine = fold.machine
        driver = Driver(
            machine, self.log, MemoryStore(), self._clock, "plan", observer=_Seen(self, machine.name), fold=fold
        )
        for _ in driver.recover():
            pass
        return driver

    def _next_ms(self) -> int | None:
        """The next moment at which something is to be decided."""
        waits = [driver.wait_ms(recording=False) for driver in self._drivers]
        return min((self._clock.ms + wait for wait in waits if wait is not None), default=None)
