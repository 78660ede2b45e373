"""Searches a history for the first round after which something that is expected holds, or fails."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from events.acceptance import Chain
from events.delivery import Inbox
from events.log.port import Log
from events.records.rounds import RoundCommitted
from events.rounds import Delivered, follow
from events.topics import ALL, rounds_of
from paceline.client.errors import PacelineError
from paceline.moments.log_cut import CutLog
from paceline.simulate.scenario.assertions import Assertion, CellState, Observation
from paceline.simulate.world.log_summary import HostSnapshot, LogSummary
from processors.machine import Machine
from processors.runtime.fold import Fold, HistoryDiffers, Recorded
from processors.runtime.store import MemoryStore

RECORDS = 1000
WAIT_S = 0.1


class FirstRound(NamedTuple):
    """The first round after which it is otherwise: where it stands, when it was appended and its logical time, both in
    milliseconds since 1970, and what was seen before and after it.
    """

    machine: str
    round: int
    topic: str
    offset: int
    at_ms: int
    now: int
    before: Observation
    after: Observation


class HistorySearch:
    """Folds all machines of a history together, round by round in causal order."""

    def __init__(
        self, log: Log, machines: Mapping[str, Callable[[], Machine]], starts: Mapping[str, MemoryStore] | None = None
    ) -> None:
        self._log = log
        self._folds = {name: Fold(make(), log.cell) for name, make in machines.items()}
        for name, store in (starts or {}).items():
            self._folds[name].restore(store)
        self._recorded = {name: Recorded(log, fold) for name, fold in self._folds.items()}
        self._log_summary = LogSummary(keep=True)
        self._facts: defaultdict[str, deque[Delivered]] = defaultdict(deque)
        """Those that no round has had among its inputs yet, by topic."""
        self.cell_state = CellState(
            {name: fold.machine for name, fold in self._folds.items()}, self._log_summary.observed
        )
        for host_id, row in self.cell_state.placement.hosts.table.items():
            self._log_summary.hosts[host_id] = HostSnapshot(host_id, frozenset(row.attributes.items()))

    def absent(self, references: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """The pairs of kind and name in an expectation that don't exist now."""
        return [(kind, name) for kind, name in references if not self._exists(kind, name)]

    def _exists(self, kind: str, name: str) -> bool:
        cell_state = self.cell_state
        match kind:
            case "job":
                return cell_state.lifecycle.state_of(name) is not None
            case "pool":
                return name in cell_state.entitlement.pools
            case "host":
                return name in cell_state.placement.hosts.table
        attribute, _, value = name.partition("=")
        return any(row.attributes.get(attribute) == value for row in cell_state.placement.hosts.table.values())

    def rounds(self, until: Mapping[str, int]) -> Iterator[tuple[Delivered, RoundCommitted]]:
        """Each accepted round once it was folded, up to those ends of topics; the story is told up to it, of facts
        those that rounds up to it were decided on. Raises `PacelineError` where a round doesn't fit its inputs.
        """
        positions = {topic.name: self._log.bounds(topic.name)[0] for topic in ALL}
        chains = {name: Chain() for name in self._folds}
        for name, fold in self._folds.items():
            own_topic = rounds_of(name)
            positions[own_topic] = max(positions[own_topic], fold.own.position)
            chains[name] = Chain(
                fold.own.epoch, fold.own.round, fold.own.hash, fold.own.position, dict(fold.own.inputs)
            )
        inbox = Inbox(positions, {}, chains, self._log.cell)
        reader = CutLog(self._log, until).reader(positions)
        ends = {topic: until[topic] for topic in positions}
        try:
            while inbox.waiting or any(reader.position(topic) < end for topic, end in ends.items()):
                inbox.add(reader.poll(RECORDS, WAIT_S))
                count = 0
                for delivered in inbox.deliver(RECORDS):
                    count += 1
                    event = delivered.event
                    if not isinstance(event, RoundCommitted):
                        self._facts[delivered.record.topic].append(delivered)
                    else:
                        self._fold(delivered, event)
                        self._summarise(delivered, event)
                        yield delivered, event
                if not count and all(reader.position(topic) >= end for topic, end in ends.items()):
                    return
        finally:
            reader.close()

    def _summarise(self, delivered: Delivered, event: RoundCommitted) -> None:
        """The story of a round: facts among its inputs that no other had yet, then what it decided."""
        for segment in event.inputs:
            facts = self._facts[segment.topic]
            while facts and facts[0].record.offset < segment.end:
                self._log_summary.take(facts.popleft())
        self._log_summary.take(delivered)

    def _fold(self, delivered: Delivered, event: RoundCommitted) -> None:
        fold = self._folds[event.machine]
        follow(delivered, fold.own)
        try:
            self._recorded[event.machine].finish(delivered)
        except HistoryDiffers as differs:
            raise PacelineError(f"{differs}. See `paceline log verify`.") from differs


def find_first(
    search: HistorySearch, expected: Assertion, must_hold: bool | None, until: Mapping[str, int], since_ms: int = 0
) -> FirstRound | None:
    """The first round after which it holds (`wanted`), fails (not `wanted`), or, None, is otherwise than before the
    first. Rounds appended before `since_ms` are passed over. None: there is no such round. Raises `PacelineError` where
    there isn't because something that it names was never there, too.
    """
    before = expected.evaluate(search.cell_state)
    absent = search.absent([(kind, name) for kind, names in expected.names.items() for name in names])
    for delivered, event in search.rounds(until):
        absent = search.absent(absent)
        record = delivered.record
        after = expected.evaluate(search.cell_state)
        if record.at_ms >= since_ms and after.holds is not before.holds and must_hold in (None, after.holds):
            position = (event.machine, event.round, record.topic, record.offset, record.at_ms, event.now)
            return FirstRound(*position, before, after)
        before = after
    if absent:
        raise PacelineError(f"In all of this history there is no {' '.join(absent[0])}.")
    return None
