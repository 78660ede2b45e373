"""A stretch of history as a branch needs it: what each machine was at its start, the facts in it, and all its runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, takewhile

from events.acceptance import Chain
from events.cell_settings import change_fault, change_of, changed
from events.delivery import Inbox, read_fact
from events.log.port import Log, LogRecord
from events.records.base import Event
from events.records.pools import CellConfigured
from events.resources import Kinds, Unit
from events.rounds import Delivered
from events.topics import ALL, FACTS, HOSTS, JOBS, TASKS, rounds_of
from paceline.client.errors import PacelineError
from paceline.moments.log_cut import CutLog, before, closed, write_time
from paceline.whatif.lengths import KnownLengths
from paceline.whatif.run_table import LIFECYCLE, RunTable
from processors.cell_machines import machines
from processors.entitlement.machine import Entitlement
from processors.runtime.fold import Fold
from processors.runtime.replay import Replay
from processors.runtime.store import MemoryStore

CHUNK = 2000
Stored = Callable[[str], MemoryStore | None]
"""By machine, a store from which it goes on up to the start of a stretch; None: the first record of the log."""


class NothingToCompare(PacelineError):
    """A stretch has nothing that the answer could be about."""

    exit_code = 2


class Unanswered(PacelineError):
    """There is no answer, for a reason that nobody has foreseen."""

    exit_code = 6


class NoHistory(PacelineError):
    """History can't be read."""

    exit_code = 6


@dataclass(frozen=True)
class Stretch:
    """History from one time to another, in milliseconds since 1970."""

    log: Log
    from_ms: int
    to_ms: int
    starts: Mapping[str, int]
    """Where each topic stands at its start: everything before has happened in each branch too."""
    ends: Mapping[str, int]
    """Where each topic stands at its end."""
    stores: Mapping[str, MemoryStore]
    """Each machine after its last round before the start."""
    runs: RunTable
    """All runs that history knows of, those after the stretch too."""
    facts: list[Delivered]
    """The facts within the stretch, in the order of their times."""

    @cached_property
    def lengths(self) -> KnownLengths:
        """All that history tells of lengths."""
        return KnownLengths(self.runs)

    @cached_property
    def entitlement(self) -> Entitlement:
        """Entitlement at the start, to be looked at alone."""
        machine = self.fold("entitlement").machine
        assert isinstance(machine, Entitlement)
        return machine

    def folds(self) -> dict[str, Fold]:
        """The machines at the start, made for a branch that uses them up."""
        return {name: self.fold(name) for name in self.stores}

    def fold(self, name: str) -> Fold:
        """One machine at the start."""
        fold = Fold(machines(self.log.cell)[name](), self.log.cell)
        fold.restore(self.stores[name])
        return fold

    def units(self, first: Iterable[Event] = ()) -> dict[str, Unit]:
        """The units of all kinds that the cell has at the end, by name, if these facts come first."""
        settings = self.entitlement.cell.settings
        for event in chain(first, (fact.event for fact in self.facts)):
            if isinstance(event, CellConfigured) and not change_fault(settings, change := change_of(event)):
                settings = changed(settings, change)
        return Kinds(settings.resources).units

    def base(self) -> Log:
        """The log as it was at the start."""
        return CutLog(self.log, self.starts)

    def cut(self) -> Log:
        """The log as it was at the end."""
        return CutLog(self.log, self.ends)


def read_stretch(log: Log, from_ms: int, to_ms: int, stored: Stored = lambda machine: None) -> Stretch:
    """Reads what stands in a log of a stretch, and folds the machines up to its start. Raises `NothingToCompare`
    where there is nothing of that time, `NoHistory` where history differs before it.
    """
    starts = closed(log, before(log, from_ms))
    ends = before(log, to_ms)
    if all(ends[topic] <= starts[topic] for topic in FACTS):
        raise NothingToCompare(
            f"Nothing was recorded between {write_time(from_ms)} and {write_time(to_ms)}: choose another stretch."
        )
    stores = {name: _folded(log, name, starts, stored(name)) for name in machines(log.cell)}
    return Stretch(
        log, from_ms, to_ms, starts, ends, stores, _runs(log, stored("lifecycle")), list(_facts(log, starts, ends))
    )


def begin_ms(log: Log) -> int:
    """When the first record that a log has was written, in milliseconds since 1970; 0: it has none."""
    firsts = (next(log.scan(topic.name, log.bounds(topic.name)[0]), None) for topic in ALL)
    return min((record.at_ms for record in firsts if record is not None), default=0)


def end_ms(log: Log) -> int:
    """When the last record of a log was written, and a millisecond more, since 1970."""
    spans = {topic.name: log.bounds(topic.name) for topic in ALL}
    last = (record.at_ms for topic, (start, end) in spans.items() for record in log.scan(topic, max(start, end - 1)))
    return max(last, default=0) + 1


def _folded(log: Log, name: str, starts: Mapping[str, int], store: MemoryStore | None) -> MemoryStore:
    """The store of a machine after its last round before the stretch."""
    store = store or MemoryStore()
    topic = rounds_of(name)
    run = Replay(machines(log.cell)[name](), CutLog(log, {topic: starts[topic]}), store)
    for _ in run.rounds(decide=False):
        pass
    if run.result.difference is not None:
        raise NoHistory(f"{run.result.difference.reason.removesuffix('.')}. See `paceline log verify`.")
    return store


def _runs(log: Log, store: MemoryStore | None) -> RunTable:
    """The runs of the whole log, as far back as it reaches. `store`: lifecycle there; None: the first record."""
    table = RunTable()
    progress = store.progress() if store is not None else None
    chain = progress.own if progress is not None else Chain()
    for delivered in _delivered(log, {JOBS.name: chain.inputs.get(JOBS.name, 0), LIFECYCLE: chain.position}, chain):
        table.take(delivered)
    for topic in (TASKS.name, HOSTS.name):  # a fact comes as soon as it is read: orders first
        for record in log.scan(topic, log.bounds(topic)[0]):
            table.take(read_fact(record))
    return table


def _delivered(log: Log, positions: Mapping[str, int], chain: Chain) -> Iterator[Delivered]:
    """The records of some topics from there on, in causal order; `chain`: lifecycle's history there."""
    inbox = Inbox(positions, {}, {"lifecycle": chain}, log.cell)
    reader = log.reader(positions)
    ends = log.ends(positions)
    try:
        while any(reader.position(topic) < end for topic, end in ends.items()):
            inbox.add(reader.poll(CHUNK, 0))
            yield from inbox.deliver(CHUNK)
        yield from inbox.deliver(1 << 60)
    finally:
        reader.close()


def _facts(log: Log, starts: Mapping[str, int], ends: Mapping[str, int]) -> Iterator[Delivered]:
    """The facts within the stretch by time, those of one time by topic."""
    topics = [topic.name for topic in ALL if topic.machine is None]
    records = [record for topic in topics for record in _records(log, topic, starts[topic], ends[topic])]
    records.sort(key=lambda record: record.at_ms)
    return filter(lambda delivered: delivered.event is not None, map(read_fact, records))


def _records(log: Log, topic: str, start: int, end: int) -> Iterator[LogRecord]:
    return takewhile(lambda record: record.offset < end, log.scan(topic, start)) if start < end else iter(())
