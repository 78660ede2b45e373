"""Where a shadow begins: at a snapshot, so that the length of the log before it doesn't matter."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from events.acceptance import ROUND, parse
from events.log.memory import MemoryLog
from events.log.port import LogRecord
from events.topics import ALL, rounds_of
from paceline.history.build_protocol import PROTOCOL, Differs, Message, Order, Reached, Span, Stopped
from paceline.history.build_worker import Comparison, start
from paceline.history.watched_fold import WatchedFold
from paceline.moments.order import LogAddress
from processors.cell_machines import machines
from processors.runtime.replay import Replay
from processors.runtime.snapshots import take
from processors.runtime.store import RocksStore
from tests.helpers.past import past

SNAPSHOTS = (0.3, 0.6, 0.9)
"""The parts of the rounds of each machine after which a snapshot was taken."""


class ScannedLog(MemoryLog):
    """The small history, which notes from where on each topic is read."""

    def __init__(self) -> None:
        super().__init__(lambda: 0)
        self.first: dict[str, int] = {}
        for each in ALL:
            there, topic = past().topic(each.name), self.topic(each.name)
            topic.records, topic.end = there.records, there.end

    def scan(self, topic: str, start: int) -> Iterator[LogRecord]:
        self.first[topic] = min(start, self.first.get(topic, start))
        return super().scan(topic, start)


def rounds(machine: str) -> dict[int, int]:
    """The offsets of the rounds of a machine, by number."""
    keys = ((parse(record.key), record.offset) for record in past().scan(rounds_of(machine), 0))
    return {key.round: offset for key, offset in keys if key is not None and key.kind == ROUND}


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("snapshots")
    for name, make in machines().items():
        last = max(rounds(name), default=0)
        with closing(RocksStore(folder / "stores" / name)) as store:
            for part in SNAPSHOTS:
                for _ in Replay(make(), past(), store).rounds(decide=False, last=int(last * part)):
                    pass
                if store.progress() is not None:
                    take(store, str(folder / "kept"), 0, make())
    return str(folder / "kept")


def compared(log: ScannedLog, url: str, name: str, offset: int) -> int:
    """The rounds of a machine that are compared from an offset on; all are alike."""
    said: list[Message] = []
    order = Order(PROTOCOL, LogAddress("nowhere", 0), {name: Span(offset=offset)}, snapshots=url)
    make = machines()[name]
    fold, store = WatchedFold(make(), 0), start(log, order, make())
    if store is not None:
        fold.restore(store)
    log.first.clear()
    Comparison(log, fold, order.machines[name], said.append).turn()
    assert not any(isinstance(each, Stopped | Differs) for each in said)
    last = said[-1]
    assert isinstance(last, Reached)
    assert last.alike == last.compared
    return last.compared


@pytest.mark.parametrize("name", ["lifecycle", "entitlement", "placement"])
@pytest.mark.parametrize("part", [0.2, 0.5, 0.8, 1.0])
def test_it_begins_at_the_newest_snapshot_before_what_it_compares(snapshots: str, name: str, part: float) -> None:
    there = rounds(name)
    number = int(max(there) * part)
    offset = there[number] + 1
    log = ScannedLog()
    assert compared(log, snapshots, name, offset) == max(there) - number
    taken = [round_ for each in SNAPSHOTS if (round_ := int(max(there) * each)) <= number]
    assert log.first[rounds_of(name)] == (there[max(taken)] + 1 if taken else 0)
    without = ScannedLog()
    assert compared(without, "", name, offset) == max(there) - number
    assert without.first[rounds_of(name)] == 0
