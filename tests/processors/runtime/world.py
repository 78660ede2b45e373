"""A world of toy processes under seeded faults: crashes between any two steps, pauses with late appends, appends
written twice or acknowledged never, takeovers from older stores. Everything follows from one integer.
"""

import random
from collections import Counter
from collections.abc import Generator, Sequence

from events.codec import encode
from events.log.memory import MemoryLog
from events.log.port import AppendUnknown, NewRecord
from events.records.jobs import JobStopRequested
from processors.runtime.deciding import Limits
from processors.runtime.driver import Driver
from processors.runtime.stops import Superseded
from processors.runtime.store import MemoryStore
from tests.helpers.toys import TOYS


class WorldClock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def monotonic_ms(self) -> int:
        return self.ms


class FaultyLog(MemoryLog):
    """Appends may be written twice, or reported as unknown, written or not, or written later."""

    def __init__(self, world: "World") -> None:
        super().__init__(world.clock.monotonic_ms, seed=world.random.randrange(1 << 32))
        self.world = world
        self.late: list[NewRecord] = []

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        world = self.world
        if not world.calm and records[0].topic != "paceline.jobs":
            draw = world.random.random()
            if draw < 0.02:
                world.count["append written twice"] += 1
                first = super().append(records)
                super().append(records)
                return first
            if draw < 0.04:
                world.count["append unknown, written"] += 1
                super().append(records)
                raise AppendUnknown("written")
            if draw < 0.06:
                world.count["append unknown, lost"] += 1
                raise AppendUnknown("lost")
            if draw < 0.08:
                world.count["append unknown, written later"] += 1
                self.late += records
                raise AppendUnknown("late")
        return super().append(records)

    def flush_late(self) -> None:
        if self.late:
            super().append([self.late.pop(0)])


class Process:
    """One process with a disk of its own; it runs a driver until it crashes or is superseded."""

    def __init__(self, world: "World", machine: str, name: str) -> None:
        self.world, self.machine, self.name = world, machine, name
        self.disk = MemoryStore()
        self.driver: Driver | None = None
        self.steps: Generator[str, None, object] | None = None
        self.asleep_until = 0

    def start(self) -> None:
        limits = Limits(records=self.world.random.choice([1, 3, 50]), budget=self.world.random.choice([1, 4, 100]))
        machine = TOYS[self.machine]()
        self.driver = self.world.driver(machine, self.world.log, self.disk, self.world.clock, self.name, limits)
        self.steps = self.driver.recover()

    def crash(self) -> None:
        self.driver = self.steps = None

    def step(self) -> None:
        if self.driver is None or self.steps is None:
            return
        try:
            next(self.steps)
        except StopIteration:
            self.steps = self.driver.turn()
        except Superseded:
            self.world.count["superseded"] += 1
            self.crash()
        except AppendUnknown:
            self.crash()
            self.start()


class World:
    """Two processes for each of the two toys; whoever is started takes the cell from the other."""

    def __init__(self, seed: int, driver: type[Driver] = Driver) -> None:
        self.random = random.Random(seed)
        self.driver = driver
        self.clock = WorldClock()
        self.count: Counter[str] = Counter()
        self.calm = False
        self.log = FaultyLog(self)
        self.processes = [Process(self, machine, f"{machine}-{n}") for machine in TOYS for n in (1, 2)]
        self.facts = 0

    def fact(self) -> None:
        ball = f"ball-{self.facts if self.random.random() < 0.9 else self.random.randrange(self.facts + 1)}"
        self.facts += 1
        event = JobStopRequested(job_id="toy", command_id=ball)
        self.log.append([NewRecord("paceline.jobs", b"", encode(event))])

    def run(self, steps: int) -> None:
        """Lets everything go wrong for so many steps, then lets one process of each machine come to rest."""
        for process in self.processes[::2]:
            process.start()
        for _ in range(steps):
            self._step()
        self.calm = True
        while self.log.late:
            self.log.flush_late()
        self._settle()

    def _step(self) -> None:
        self.clock.ms += self.random.choice([0, 0, 1, 5])
        process = self.random.choice(self.processes)
        draw = self.random.random()
        if draw < 0.05:
            self.fact()
        elif draw < 0.06:
            self.count["crash"] += process.driver is not None
            process.crash()
        elif draw < 0.07 and process.driver is not None:
            self.count["pause"] += 1
            process.asleep_until = self.clock.ms + self.random.randrange(300)
        elif draw < 0.08 and process.driver is None:
            self.count["takeover"] += 1
            process.start()
        elif draw < 0.09:
            self.log.flush_late()
        elif process.asleep_until <= self.clock.ms:
            for _ in range(self.random.choice([1, 5, 20])):
                process.step()

    def _settle(self) -> None:
        for process in self.processes:
            process.crash()
        final = self.processes[::2]
        for process in final:
            process.start()
        for _ in range(400 + 12 * self.facts):
            self.clock.ms += 10
            for process in final:
                process.step()
                process.step()
