"""The process of a machine in a trial: it goes step by step, and may end between any two."""

import random
from collections.abc import Callable, Generator

from events.log.port import AppendUnknown, LogUnavailable
from paceline.simulate.faults.injection import Clock, Crashed, Faults, FaultyLog, FaultyStore
from paceline.simulate.world.cell import START_MS
from processors.machine import Machine
from processors.runtime.deciding import Limits
from processors.runtime.driver import Driver
from processors.runtime.stops import Superseded

RETRY_MS = 2000
"""The longest wait, in ms, before a process that finds the log unreachable tries again."""


class Process:
    """One process of a machine with a disk of its own. It runs until it crashes or another has taken its place."""

    def __init__(
        self,
        machine: str,
        name: str,
        make: Callable[[], Machine],
        log: FaultyLog,
        faults: Faults,
        true_clock: Clock,
        seed: int,
    ) -> None:
        """`world`: the time of which its clock tells, `seed`: what its draws follow from."""
        self.machine, self.name = machine, name
        self.clock = Clock(true_clock, START_MS)
        self.asleep_until = 0
        self.driver: Driver | None = None
        self.idle = True
        """Whether its last turn is over and found nothing to do."""
        self._make = make
        self._log = log
        self._faults = faults
        self._true_clock = true_clock
        self._disk = FaultyStore(faults)
        self._draw = random.Random(f"{seed}/{name}")
        self._steps: Generator[str, None, object] | None = None

    def start(self) -> None:
        """Starts on what its disk holds."""
        records, budget = self._draw.choice([1, 20, 2000, 2000]), self._draw.choice([1, 50, 20_000, 20_000])
        limits = Limits() if self._faults.calm else Limits(records=records, budget=budget)
        machine = self._make()
        self.driver = Driver(machine, self._log, self._disk, self.clock, self.name, limits)
        self._steps = self.driver.recover()

    def crash(self) -> None:
        """Ends between two steps; what was not written is gone."""
        self.driver = self._steps = None

    def step(self) -> bool:
        """One step of the loop; False when a turn has found nothing to do."""
        if self._steps is None or self._true_clock.ms < self.asleep_until or self._is_idle():
            self.idle = True
            return False
        self.idle = False
        self._log.held_ms = 0
        try:
            next(self._steps)
            if self._log.held_ms:
                self.asleep_until = self._true_clock.ms + self._log.held_ms
        except StopIteration as end:
            assert self.driver is not None
            self._steps = self.driver.turn()
            self.idle = end.value is False
            return not self.idle
        except (Superseded, Crashed):
            self.crash()
        except (AppendUnknown, LogUnavailable):
            self.crash()
            self.start()
            self.asleep_until = self._true_clock.ms + self._draw.randrange(RETRY_MS)
        return True

    def _is_idle(self) -> bool:
        """Whether another turn would find nothing. While things go wrong it is taken all the same: they may in it."""
        driver = self.driver
        return self.idle and self._faults.calm and driver is not None and driver.idle() and driver.wait_ms() != 0
