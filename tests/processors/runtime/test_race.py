"""Two processes that nobody keeps apart claim one machine of one cell, on a real Kafka."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from events.codec import encode
from events.log.kafka.kafka_log import KafkaLog
from events.log.port import NewRecord
from events.process.clock import SystemClock
from events.records.pools import PoolDefined
from events.topics import EVERY, SETTINGS
from processors.cell_machines import machines
from processors.runtime.driver import Driver
from processors.runtime.replay import replay
from processors.runtime.stops import Superseded
from processors.runtime.store import MemoryStore
from tests.events.log.contract import PATIENCE
from tests.helpers.broker import Broker

MACHINE = "entitlement"
POLL_S = 0.05


def works(driver: Driver, done: Callable[[], bool]) -> None:
    """Lets a driver work until that holds; for a while at most."""
    deadline = time.monotonic() + PATIENCE
    while not done() and time.monotonic() < deadline:
        driver.run()
        driver.wait(POLL_S)


def test_one_epoch_is_claimed_by_two_and_one_of_them_has_it(broker: Broker, tmp_path: Path) -> None:
    broker.make_topics([topic.name for topic in EVERY], 1, SETTINGS)
    logs = [KafkaLog(broker.address) for _ in range(2)]
    pool = PoolDefined(path="/p", command_id="p")
    logs[0].append([NewRecord(pool.topic, b"/p", encode(pool))])
    make = machines(0)[MACHINE]
    first, second = (
        Driver(make(), log, MemoryStore(), SystemClock(), name) for log, name in zip(logs, "ab", strict=True)
    )
    ways = [driver.recover() for driver in (first, second)]
    assert [next(way) for way in ways] == ["folded"] * 2, "neither knows of the other"
    assert [next(way) for way in ways] == ["claimed"] * 2
    assert next(ways[0]) == "owned"
    with pytest.raises(Superseded, match="took entitlement of cell 0 first"):
        next(ways[1])
    assert (first.epoch, second.epoch) == (1, 0)
    works(first, lambda: first.fold.own.round > 0)
    late = Driver(make(), logs[1], MemoryStore(), SystemClock(), "b")
    for _ in late.recover():
        pass
    assert late.epoch == 2, "asked again it takes the cell as anybody may"
    with pytest.raises(Superseded, match="b has taken entitlement"):
        works(first, lambda: False)
    found = replay(make(), logs[0])
    assert (found.difference, found.hash) == (None, late.fold.state.hash)
    for driver, log in zip((first, late), logs, strict=True):
        driver.close()
        log.close()
