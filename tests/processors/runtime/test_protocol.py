"""The round protocol alone, under seeded faults, and three planted bugs that must be found."""

from collections import Counter

import pytest

from events.acceptance import Acceptance, Chain, RoundKey
from events.codec import decode
from events.log.port import LogFault, LogRecord
from events.records.lifecycle import CommandAnswered
from events.records.rounds import RoundCommitted
from events.rounds import accept, key_of
from processors.machine import Machine
from processors.runtime.driver import Driver
from processors.runtime.fold import HistoryDiffers, Recorded, StoreFault
from processors.runtime.replay import replay
from tests.helpers.drawn import drawn, some
from tests.helpers.toys import TOYS, Left
from tests.processors.runtime.world import World

SEEDS = some(range(50), 12)
PLANTED = some(range(20), 8)
STEPS = 1500


class Broken(Exception):
    """A seed whose history, state or replay isn't what it must be."""


def check(world: World) -> None:
    """Everything that must hold when a world has come to rest."""
    answered: Counter[str] = Counter()
    for process in world.processes[::2]:
        driver = process.driver
        if driver is None or not driver.epoch:
            raise Broken(f"{process.name} did not come to rest")
        machine = driver.machine
        assert isinstance(machine, TOYS[process.machine])
        if machine.tally["all"].out_of_order:
            raise Broken("an answer was seen before its question")
        found = replay(TOYS[process.machine](), world.log)
        if found.difference:
            raise Broken(str(found.difference))
        if found.hash != driver.fold.state.hash:
            raise Broken("live and replayed state differ")
        driver.fold.state.take_changes()
        if driver.fold.state.rehash() != driver.fold.state.hash:
            raise Broken("a row changed and nobody said so")
    left = Left()
    run = replay(left, world.log, lambda record: answered.update(
        event.command_id for event in map(decode, record.decisions) if isinstance(event, CommandAnswered)
    ))  # fmt: skip
    if run.difference or any(count != 1 for count in answered.values()):
        raise Broken("a fact was answered more than once")
    if any(row.stage != 4 for row in left.balls.values()) or len(left.balls) != len(answered):
        raise Broken("a fact was lost on its way")


def run_seed(seed: int, driver: type[Driver] = Driver) -> World:
    world = World(seed, driver)
    world.run(STEPS)
    check(world)
    return world


@drawn
def test_history_holds_under_every_fault() -> None:
    met: Counter[str] = Counter()
    for seed in SEEDS:
        met += run_seed(seed).count
    wanted = {
        "append written twice",
        "append unknown, written",
        "append unknown, lost",
        "append unknown, written later",
    }
    wanted |= {"crash", "pause", "takeover", "superseded"}
    assert wanted <= set(met), f"faults that were never met: {wanted - set(met)}"


def test_same_seed_same_log() -> None:
    first, second = run_seed(7), run_seed(7)
    topics = ("paceline.jobs", "paceline.left", "paceline.right")
    assert [first.log.topic(name).records for name in topics] == [second.log.topic(name).records for name in topics]


class NoReadBack(Driver):
    """Planted bug: believes its round as soon as it is sent."""

    def _read_back(self, offset: int) -> None:
        record = next(r for r in self._log.scan(self.fold.topic, offset) if r.offset == offset)
        key, event = key_of(record), decode(record.value)
        assert key is not None
        assert isinstance(event, RoundCommitted)
        self.fold.own.follow(key, event, offset + 1)

    def _look(self, record: LogRecord, mine: int | None) -> bool:
        return False


def found_in(seeds: list[int], driver: type[Driver] = Driver) -> int:
    found = 0
    for seed in seeds:
        try:
            run_seed(seed, driver)
        except (Broken, HistoryDiffers, StoreFault, LogFault, AssertionError):
            found += 1
    return found


@drawn
def test_planted_no_read_back_is_found() -> None:
    assert found_in(PLANTED, NoReadBack) >= 0.75 * len(PLANTED)


@drawn
def test_planted_no_epoch_check_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(self: Chain, key: RoundKey, machine: str, cell: int) -> Acceptance:
        return Acceptance.ACCEPTED

    monkeypatch.setattr(Chain, "judge", judge)
    assert found_in(PLANTED) >= 0.75 * len(PLANTED)


@drawn
def test_planted_resorted_replay_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Recorded._inputs

    def resorted(self: Recorded, record: RoundCommitted) -> list[LogRecord]:
        return sorted(original(self, record), key=lambda found: (found.topic, found.offset))

    monkeypatch.setattr(Recorded, "_inputs", resorted)
    assert found_in(PLANTED) >= 0.75 * len(PLANTED)


def test_a_foreign_machine_is_not_followed() -> None:
    world = World(3)
    world.run(300)
    machine: Machine = TOYS["right"]()
    driver = Driver(machine, world.log, world.processes[2].disk, world.clock, "x")
    for record in world.log.scan("paceline.left", 0):
        assert accept(record, driver.fold.own, "right", 0).event is None
