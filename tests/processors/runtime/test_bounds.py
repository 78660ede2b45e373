"""What a driver does at its bounds: a machine that is woken for nothing, inputs that interleave for long."""

import pytest

from events.codec import decode, encode
from events.log.memory import MemoryLog
from events.log.port import NewRecord
from events.records.jobs import JobStopRequested
from events.records.pools import PoolRemoved
from events.records.rounds import RoundCommitted
from processors.machine import Machine
from processors.runtime.deciding import Limits
from processors.runtime.driver import Driver
from processors.runtime.fold import PARTS_MAX
from processors.runtime.replay import replay
from processors.runtime.stops import StuckTimer
from processors.runtime.store import MemoryStore
from tests.helpers.toys import Left
from tests.processors.runtime.world import WorldClock

ROUND_BYTES = 8192


class Wakeful(Left):
    """Asks to be woken and never has anything to decide."""

    def next_wakeup(self):
        return 0

    def decide(self, now, caught_up, budget):
        return []


class Silent(Left):
    """Reads two topics and never decides."""

    facts = ("paceline.jobs", "paceline.pools")

    def apply(self, input):
        pass

    def decide(self, now, caught_up, budget):
        return []

    def next_wakeup(self):
        return None


def driver(machine: Machine, log: MemoryLog, limits: Limits | None = None) -> Driver:
    made = Driver(machine, log, MemoryStore(), WorldClock(), "owner", limits)
    for _ in made.recover():
        pass
    return made


def test_a_machine_that_is_woken_for_nothing_is_a_bug_that_is_told() -> None:
    stuck = driver(Wakeful(), MemoryLog(WorldClock().monotonic_ms))
    with pytest.raises(StuckTimer, match="asked to be woken at 0 and decided nothing"):
        stuck.run()


def test_inputs_that_interleave_force_a_round_without_decisions() -> None:
    log = MemoryLog(WorldClock().monotonic_ms)
    silent = driver(Silent(), log)
    stop, removed = JobStopRequested(job_id="a", command_id="1"), PoolRemoved(path="/p", command_id="1")
    for _ in range(PARTS_MAX):
        for fact in (stop, removed):
            log.append([NewRecord(fact.topic, b"a", encode(fact))])
            silent.run()
    rounds = [event for r in log.scan("paceline.left", 0) if isinstance(event := decode(r.value), RoundCommitted)]
    assert [(len(each.inputs), each.decisions) for each in rounds] == [(PARTS_MAX, ())] * 2
    assert replay(Silent(), log).difference is None


def test_rounds_of_few_bytes_take_all_that_nobody_can_read() -> None:
    log = MemoryLog(WorldClock().monotonic_ms)
    silent = driver(Silent(), log, Limits(round_bytes=ROUND_BYTES))
    log.append([NewRecord("paceline.jobs", b"a", b"no record")] * PARTS_MAX)
    while silent.run():
        pass
    rounds = [r for r in log.scan("paceline.left", 0) if isinstance(decode(r.value), RoundCommitted)]
    assert rounds
    assert max(len(each.value) for each in rounds) <= ROUND_BYTES
    assert replay(Silent(), log).difference is None
