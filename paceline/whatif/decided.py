"""The decisions of a stretch that figures of jobs don't show: who preempts whom, the answers to facts, and the numbers
of pools over time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.acceptance import Chain
from events.delivery import Inbox
from events.log.port import Log
from events.records.base import Event
from events.records.entitlement import EntitlementsSet, PoolAnswered, PreemptionsOrdered
from events.records.lifecycle import CommandAnswered, JobAccepted, JobRejected
from events.records.placement import HostAnswered, HostsAnswered
from events.records.rounds import RoundCommitted
from events.topics import HOSTS, JOBS, POOLS, rounds_of
from paceline.whatif.stretch import Stretch

MACHINES = ("entitlement", "placement", "lifecycle")
TOPICS = tuple(map(rounds_of, MACHINES))
RECORDS = 2000
POINTS = 200
"""The parts of a stretch in which numbers of pools are means."""
MEANINGS = ("entitlement", "allocation", "demand")
ACCEPTED = "ACCEPTED"
FactAt = tuple[str, int]
"""Topic and offset of a fact."""


class Answer(NamedTuple):
    """The answer to a fact: a code, and a sentence."""

    code: str
    message: str


class PoolSeries:
    """Numbers of pools, of equal parts of a stretch the means over time, by pool and resource."""

    def __init__(self, from_ms: int, to_ms: int) -> None:
        self.values: dict[tuple[str, str], NDArray[np.float64]] = {}
        """The rows of a pool and a resource, one for each meaning, in the units of the machines."""
        self._span = from_ms, to_ms
        self._now: dict[str, tuple[int, dict[str, tuple[float, ...]]]] = {}
        """By pool since when it has which numbers, by resource."""

    def set(self, pool: str, numbers: dict[str, tuple[float, ...]], at_ms: int) -> None:
        """A pool has these numbers from a time on."""
        self._pass(pool, at_ms)
        self._now[pool] = (at_ms, numbers)

    def finish(self) -> None:
        """The stretch is over."""
        for pool in self._now:
            self._pass(pool, self._span[1])

    def _pass(self, pool: str, at_ms: int) -> None:
        since_ms, numbers = self._now.get(pool, (at_ms, {}))
        from_ms, to_ms = self._span
        step = (to_ms - from_ms) / POINTS
        start, end = ((min(max(each, from_ms), to_ms) - from_ms) / step for each in (since_ms, at_ms))
        if start >= end:
            return
        first, last = int(start), min(int(end), POINTS - 1)
        parts = np.ones(last - first + 1)
        parts[0] -= start - first
        parts[-1] -= last + 1 - end
        for resource, each in numbers.items():
            if any(each):
                rows = self.values.get((pool, resource))
                if rows is None:
                    rows = self.values[pool, resource] = np.zeros((len(MEANINGS), POINTS))
                rows[:, first : last + 1] += np.outer(each, parts)


class Decided:
    """Folds the decisions of one course of events."""

    def __init__(self, stretch: Stretch) -> None:
        self.preemptions: Counter[tuple[str, str]] = Counter()
        """Runs that were ordered to leave, by their pool and the pool that they left for."""
        self.answers: dict[FactAt, Answer] = {}
        """Answers by the fact. Repeats of an answer are left out."""
        self.series = PoolSeries(stretch.from_ms, stretch.to_ms)
        machine = stretch.entitlement
        names = machine.queues.kinds.names
        for pool, row in machine.shared.reported.items():
            columns = (getattr(row, meaning) for meaning in MEANINGS)
            self._pool(pool, names, zip(*columns, strict=True), stretch.from_ms)

    def take(self, event: Event, now: int) -> None:
        """The next decision, of a round at a logical time."""
        match event:
            case EntitlementsSet():
                columns = (getattr(event, f"{meaning}_array") for meaning in MEANINGS)
                by_pool = np.stack([*columns], axis=-1).tolist() if event.pools else []
                for pool, rows in zip(event.pools, by_pool, strict=True):
                    self._pool(pool, event.resources, rows, now)
            case PreemptionsOrdered():
                for at in event.from_pool_array.tolist():
                    self.preemptions[event.from_pools[at], event.for_pool] += 1
            case JobAccepted():
                self.answers.setdefault((JOBS.name, event.jobs_offset), Answer(ACCEPTED, ""))
            case JobRejected() | CommandAnswered():
                self.answers.setdefault((JOBS.name, event.jobs_offset), Answer(event.code, event.message))
            case PoolAnswered():
                self.answers.setdefault((POOLS.name, event.pools_offset), Answer(event.code, event.message))
            case HostAnswered() | HostsAnswered():
                self.answers.setdefault((HOSTS.name, event.hosts_offset), Answer(event.code, event.message))

    def _pool(self, pool: str, names: Iterable[str], rows: Iterable[Iterable[float]], at_ms: int) -> None:
        if pool != "/":
            self.series.set(pool, {name: tuple(row) for name, row in zip(names, rows, strict=False)}, at_ms)


class DecisionReader:
    """A `Component` that has a `Decided` take all decisions of a branch."""

    def __init__(self, log: Log, positions: Mapping[str, int], chains: Mapping[str, Chain], decided: Decided) -> None:
        """`positions`, `chains`: where it begins, and the history of each machine there."""
        self.decided = decided
        mine = {topic: positions[topic] for topic in TOPICS}
        self._inbox = Inbox(mine, {}, {name: deepcopy(chains[name]) for name in MACHINES}, log.cell)
        self._reader = log.reader(mine)

    def step(self) -> bool:
        """Implements `Component.step`."""
        records = self._reader.poll(RECORDS, 0)
        self._inbox.add(records)
        for delivered in self._inbox.deliver(RECORDS):
            if isinstance(delivered.event, RoundCommitted):
                for decision in delivered.decisions():
                    self.decided.take(decision, delivered.event.now)
        return bool(records)

    def wait_ms(self) -> int | None:
        """Implements `Component.wait_ms`."""
        return None

    def close(self) -> None:
        """Implements `Component.close`."""
        self._reader.close()


def decided_in(stretch: Stretch) -> Decided:
    """The decisions of history itself."""
    decided = Decided(stretch)
    chains = {name: stretch.fold(name).own for name in MACHINES}
    reader = DecisionReader(stretch.cut(), stretch.starts, chains, decided)
    while reader.step():
        pass
    reader.close()
    decided.series.finish()
    return decided
