"""Logical time follows the log, whatever the clock of a process does."""

from events.codec import encode
from events.log.memory import MemoryLog
from events.log.port import NewRecord
from events.records.jobs import JobStopRequested
from processors.runtime.driver import Driver
from processors.runtime.store import MemoryStore
from tests.helpers.toys import Left
from tests.processors.runtime.world import WorldClock

HOUR_MS = 3_600_000


def test_the_time_that_a_clock_has_jumped_is_made_up_for() -> None:
    world, own, store = WorldClock(), WorldClock(), MemoryStore()
    log = MemoryLog(world.monotonic_ms)

    def started() -> Driver:
        driver = Driver(Left(), log, store, own, "one")
        for _ in driver.recover():
            pass
        return driver

    def decide_at(driver: Driver, ms: int) -> int:
        fact = JobStopRequested(job_id="a", command_id=str(world.ms))
        log.append([NewRecord(fact.topic, b"", encode(fact))])
        world.ms += ms
        own.ms += ms
        while driver.run():
            pass
        return driver.fold.now - world.ms

    driver = started()
    assert decide_at(driver, 1000) <= 0
    own.ms += HOUR_MS
    assert decide_at(driver, 1000) == HOUR_MS, "a wrong clock is believed once"
    assert decide_at(driver, 60_000) == HOUR_MS - 60_000, "then time stands until the log has caught up"
    driver = started()
    assert decide_at(driver, 60_000) == HOUR_MS - 120_000, "after a restart too"
    assert decide_at(driver, HOUR_MS) <= 0
