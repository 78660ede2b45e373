"""A reader whose inputs come unevenly: what may be applied next may lie behind more than it likes to hold."""

from collections.abc import Mapping

from events.log.memory import MemoryLog, MemoryReader
from processors.runtime.deciding import Limits
from processors.runtime.driver import Driver
from processors.runtime.replay import replay
from processors.runtime.store import MemoryStore
from tests.helpers.toys import Right
from tests.processors.runtime.world import World, WorldClock


class RoundsFirst(MemoryLog):
    """Gives the rounds of the other machine before the facts that they answer."""

    def reader(self, positions: Mapping[str, int]) -> MemoryReader:
        return super().reader({topic: positions[topic] for topic in sorted(positions, key="paceline.jobs".__eq__)})


def test_a_driver_reads_on_when_all_it_holds_waits_for_what_it_has_not_read() -> None:
    world = World(11)
    world.run(800)
    log = RoundsFirst(WorldClock().monotonic_ms)
    for topic in ("paceline.jobs", "paceline.left"):
        log.topic(topic).records = world.log.topic(topic).records
        log.topic(topic).end = world.log.topic(topic).end
    assert log.bounds("paceline.left")[1] > 20
    driver = Driver(Right(), log, MemoryStore(), WorldClock(), "late", Limits(records=3))
    for _ in driver.recover():
        pass
    for _ in range(2000):
        driver.run()
    assert driver.lag() == {"paceline.jobs": 0, "paceline.left": 0}
    assert replay(Right(), log).hash == driver.fold.state.hash
