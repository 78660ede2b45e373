"""Witnessing costs what verifying costs: calls of functions are counted, which the load of the machine can't change."""

import sys
from types import FrameType
from typing import Any

from events.log.memory import MemoryLog
from paceline.history.verify import verify
from paceline.witness import witness as module
from processors.cell_machines import machines
from tests.helpers.past import past
from tests.paceline.witness.world import World, caught_up, grow, times

ALLOWED = 1.1


class Calls:
    """Counts the functions that are called within."""

    count = 0

    def __enter__(self) -> "Calls":
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, arg: Any) -> None:
        self.count += event in ("call", "c_call")


def verifying() -> int:
    """The calls that verifying the small history takes, once all is there that is made once in a process."""
    verify(past(), machines())
    with Calls() as calls:
        verify(past(), machines())
    return calls.count


def test_witnessing_a_log_costs_a_tenth_more_than_verifying_it_at_most(world: World) -> None:
    allowed = verifying() * ALLOWED
    with Calls() as calls:
        world.follow(past())
    assert world.heads.numbers() == [1]
    assert calls.count < allowed


def test_following_a_log_as_it_grows_costs_a_tenth_more_at_most(world: World) -> None:
    """A hundred looks, at each of which a few rounds have come, and a head after every twentieth."""
    allowed, log, calls = verifying() * ALLOWED, MemoryLog(lambda: 0), Calls()
    witness = world.witness(log)
    for number, at_ms in enumerate(times()[:: len(times()) // 100]):
        grow(log, past(), at_ms)
        with calls:
            witness.step()
        if number % 20 == 19:
            world.now_ms += module.EVERY_MS
    grow(log, past())
    with calls:
        caught_up(witness)
        witness.sign()
    witness.close()
    assert len(world.heads.numbers()) > 5
    assert world.heads.read(world.heads.numbers()[-1]).head.rounds == 625
    assert calls.count < allowed
