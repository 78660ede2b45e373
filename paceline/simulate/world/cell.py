"""A whole cell in virtual time, in one thread: the four machines, a gateway and simulated hosts on any log.

    clock = VirtualClock()
    cell = Cell(SimLog(MemoryLog(clock.monotonic_ms), clock), clock)
    cell.append(PoolDefined(...))
    cell.quiet()              # until nothing has anything to do at this moment
    clock.ms = cell.next_ms() # the next moment at which something has

The clock jumps from one moment to the next at which anything is due; nothing happens in between. Every part of a cell
is a `SimulatedComponent`: it is stepped after a record was appended to a topic that it reads, when it reported that it
may have more to do, and at the time that it waits for. So an idle host, machine or gateway costs nothing. A lost
component isn't stepped; it is created again when it is healed.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Protocol

from events.codec import encode
from events.log.port import Log, NewRecord
from events.process.clock import Clock, SimulatedClock
from events.records.base import Event
from events.topics import HOSTS, JOBS, MACHINES, VIEWED, rounds_of
from hostagent.fleet import Fleet
from hostagent.gateway.component import Gateway
from paceline.simulate.world.delayed_log import DelayedLog
from processors.cell_machines import machines
from processors.lifecycle.machine import Lifecycle
from processors.machine import Machine
from processors.runtime import kernel_cache
from processors.runtime.driver import Driver
from processors.runtime.fold import Fold
from processors.runtime.in_process import Component
from processors.runtime.store import MemoryStore, Store

START_MS = 1_700_000_000_000
"""When virtual time begins: 2023-11-14T22:13:20Z."""
STEPS_MAX = 10_000_000
"""A moment with more steps than this never ends: a bug in a machine."""
ORDER = ("entitlement", "placement", "lifecycle", "gateway", "hosts", "sla")
"""The order of steps where several components have work. A component that only reads comes last, so it reads much at
once.
"""
USER = b"user"


class VirtualClock(SimulatedClock):
    """The time of a simulation."""

    def __init__(self, ms: int = START_MS) -> None:
        super().__init__(ms)


class Truncatable(Log, Protocol):
    """A log whose beginning may be dropped."""

    def truncate(self, topic: str, start: int) -> None:
        """Removes the records before an offset."""
        ...


class SimLog:
    """A log that tells who reads a topic of each append, counts the records and hashes them in their order."""

    def __init__(self, log: Truncatable, clock: Clock) -> None:
        self.cell = log.cell
        self.appended = 0
        self.readers: dict[str, list[SimulatedComponent]] = {topic.name: [] for topic in VIEWED}
        self._log = log
        self._clock = clock
        self._hash = blake2b(digest_size=32)
        self.scan, self.bounds, self.ends, self.reader = log.scan, log.bounds, log.ends, log.reader
        self.wait, self.close, self.truncate = log.wait, log.close, log.truncate

    def append(self, records: Sequence[NewRecord]) -> list[int]:
        """Implements `Log.append`."""
        offsets = self._log.append(records)
        at_ms = self._clock.monotonic_ms()
        for record, offset in zip(records, offsets, strict=True):
            head = f"{record.topic}:{offset}@{at_ms}:{len(record.key)}:{len(record.value)}:".encode()
            self._hash.update(head + record.key + record.value)
            for part in self.readers[record.topic]:
                part.runnable = True
        self.appended += len(records)
        return offsets

    def hash(self) -> str:
        """BLAKE2b-256 of all records so far: topic, offset, time, key and value of each."""
        return self._hash.hexdigest()


class SimulatedComponent:
    """Something of a cell that steps. `component` None: lost."""

    def __init__(self, name: str, component: Component | None) -> None:
        self.name = name
        self.component = component
        self.runnable = True
        """Whether it was given something to do since it last had nothing to do."""

    def due_ms(self, recording: bool = True) -> int | None:
        """In how many milliseconds it wants to be stepped; None: when something was appended. Not `recording`: leaving
        out rounds that only record what was applied.
        """
        if isinstance(self.component, MachineProcess):
            return self.component.wait_ms(recording)
        return self.component.wait_ms() if self.component is not None else None


class MachineProcess:
    """A machine's process as a component."""

    def __init__(self, driver: Driver, log: DelayedLog | None) -> None:
        """`log`: that of the driver, where news take a while."""
        self.driver = driver
        self._log = log

    def step(self) -> bool:
        """Implements `Component.step`."""
        kernel_cache.use_kept(self.driver.machine)
        return self.driver.run() and not self.driver.idle()

    def wait_ms(self, recording: bool = True) -> int | None:
        """Implements `Component.wait_ms` and `SimulatedComponent.due_ms`."""
        deadline = self.driver.wait_ms(recording)
        coming = self._log.wait_ms() if self._log is not None else None
        if coming is None or deadline is None:
            return coming if deadline is None else deadline
        # what it has read may wait for what is on its way, and deadlines with it
        return min(coming, deadline) if self.driver.idle() else coming

    def close(self) -> None:
        """Implements `Component.close`."""
        self.driver.close()


def _unchanged(store: Store) -> Store:
    """A disk in memory: every process of a machine opens the same."""
    return store


class SimulatedCell(Protocol):
    """A cell as users, hosts and injected failures act on it."""

    @property
    def log(self) -> Log:
        """Its log."""
        ...

    @property
    def clock(self) -> Clock:
        """Its time."""
        ...

    @property
    def gateway(self) -> Gateway:
        """The gateway that serves now."""
        ...

    def append(self, event: Event, key: bytes = USER) -> object:
        """A user's or an operator's fact."""
        ...

    def add_fleet(self, name: str, make: Callable[[Gateway], Fleet]) -> SimulatedComponent:
        """Simulated hosts that connect to the gateway."""
        ...

    def lose(self, name: str) -> None:
        """The process of a machine or the gateway is gone at once."""
        ...

    def heal(self, name: str) -> None:
        """A new process takes its place."""
        ...


def _rank(part: SimulatedComponent) -> int:
    name = part.name.split()[0]
    return ORDER.index(name) if name in ORDER else len(ORDER)


class Cell:
    """The parts of a cell. `stores` are the disks of the machines' processes, which outlive them."""

    def __init__(
        self,
        log: SimLog,
        clock: VirtualClock,
        stores: Mapping[str, Callable[[], Store]] | None = None,
        watches: bool = True,
        delays_ms: Mapping[str, Mapping[str, int]] | None = None,
        folds: Mapping[str, Fold] | None = None,
    ) -> None:
        """`watches`: whether the gateway writes beats and notices silence. `delays_ms`: how much later than it was
        appended a machine sees what is in a topic. `folds`: the machines with the state that they go on from, in a cell
        whose hosts talk through the log alone: it has no gateway.
        """
        self.log = log
        self.clock = clock
        self.parts: dict[str, SimulatedComponent] = {}
        self._ranked: list[SimulatedComponent] = []
        self.machines: dict[str, Machine] = {}
        """The state of each machine, of its last process where it is lost."""
        self.fleets: list[SimulatedComponent] = []
        self._make = machines(log.cell)
        self._stores = stores or {name: partial(_unchanged, MemoryStore()) for name in MACHINES}
        self._watches = watches
        self._delays_ms = delays_ms or {}
        self._next_ms: int | None = None
        self._folds = folds or {}
        self._gateway: Gateway | None = None
        for name in MACHINES:
            contract = self._make[name]()
            self._add(SimulatedComponent(name, None), [*contract.facts, *map(rounds_of, contract.peers)])
            self.heal(name)
        if folds is None:
            self._add(SimulatedComponent("gateway", None), [JOBS.name, HOSTS.name, rounds_of("lifecycle")])
            self.heal("gateway")

    # What it is made of

    def add(self, name: str, component: Component, topics: Sequence[str] = ()) -> SimulatedComponent:
        """One part more, stepped after those that are there; `topics`: appends that concern it."""
        return self._add(SimulatedComponent(name, component), topics)

    def add_fleet(self, name: str, make: Callable[[Gateway], Fleet]) -> SimulatedComponent:
        """Simulated hosts that connect to the gateway. They live as long as they are stepped."""
        part = self._add(SimulatedComponent(name, make(self.gateway)), ())
        self.fleets.append(part)
        return part

    @property
    def gateway(self) -> Gateway:
        """The gateway; while it is lost, one that nobody steps."""
        assert self._gateway is not None
        return self._gateway

    @property
    def lifecycle(self) -> Lifecycle:
        """The state of jobs and tasks."""
        machine = self.machines["lifecycle"]
        assert isinstance(machine, Lifecycle)
        return machine

    def running(self) -> int:
        """Runs that go on, on all simulated hosts."""
        return sum(part.component.running() for part in self.fleets if isinstance(part.component, Fleet))

    def lose(self, name: str) -> None:
        """A part's process is gone at once: what it had not written is lost with it."""
        self.parts[name].component = None

    def heal(self, name: str) -> None:
        """A new process takes the place of a machine, from its store and the log, or of the gateway, from the log."""
        part = self.parts[name]
        part.runnable = True
        if name == "gateway":
            self._gateway = part.component = Gateway(self.log, None, self.clock, "gateway-0", self._watches)
            for fleet in self.fleets:
                if isinstance(fleet.component, Fleet):
                    fleet.component.move(self._gateway)
            return
        fold = self._folds.get(name)
        self.machines[name] = fold.machine if fold is not None else self._make[name]()
        delays_ms = self._delays_ms.get(name)
        delayed = DelayedLog(self.log, self.clock, delays_ms) if delays_ms else None
        driver = Driver(
            self.machines[name], delayed or self.log, self._stores[name](), self.clock, f"{name}-0", fold=fold
        )
        for _ in driver.recover():
            pass
        part.component = MachineProcess(driver, delayed)

    def _add(self, part: SimulatedComponent, topics: Sequence[str]) -> SimulatedComponent:
        self.parts[part.name] = part
        self._ranked = sorted(self.parts.values(), key=_rank)
        for topic in topics:
            self.log.readers[topic].append(part)
        return part

    # What happens

    def append(self, event: Event, key: bytes = USER) -> int:
        """A user's or an operator's fact; returns its offset."""
        return self.log.append([NewRecord(event.topic, key, encode(event))])[0]

    def run_until_quiet(self) -> None:
        """Steps parts until none has anything to do at this moment."""
        if self._next_ms is not None and self._next_ms <= self.clock.ms:
            self._stir_parts_due()
        for _ in range(STEPS_MAX):
            part = next((part for part in self._ranked if part.runnable and part.component is not None), None)
            if part is not None:
                self._step(part)
            elif not self._stir_parts_due():
                return
        raise AssertionError(f"the cell never comes to rest at {self.clock.ms}")

    def read_all(self) -> None:
        """Has every part read to the end, also what it is not woken for, as the gateway is not for placement."""
        for part in self.parts.values():
            part.runnable = True
        self.run_until_quiet()

    def next_ms(self) -> int | None:
        """After `quiet`: the next moment at which a part has something to do; None: never, unless something is
        appended.
        """
        return self._next_ms

    def next_but_beats_ms(self) -> int | None:
        """The same without the gateway, which beats for ever, and the rounds that record it. With all hosts there,
        nothing else comes of that.
        """
        away = any(part.component is None for part in self.fleets)
        waits = [part.due_ms(recording=False) for part in self.parts.values() if away or part.name != "gateway"]
        return min((self.clock.ms + wait for wait in waits if wait is not None), default=None)

    def _stir_parts_due(self) -> bool:
        """Stirs the parts that are due; returns whether any is, and notes when the next will be."""
        waits: list[int] = []
        for part in self.parts.values():
            wait = part.due_ms()
            if wait is not None:
                waits.append(wait)
                part.runnable = part.runnable or wait == 0
        self._next_ms = self.clock.ms + min(waits) if waits else None
        return 0 in waits

    def close(self) -> None:
        """Ends all parts and gives back the log."""
        for part in reversed(self.parts.values()):
            if part.component is not None:
                part.component.close()
        self.log.close()

    def _step(self, part: SimulatedComponent) -> None:
        component = part.component
        assert component is not None
        part.runnable = False
        if isinstance(component, Gateway):
            self._stir_readers()
        part.runnable = component.step() or part.runnable
        if isinstance(component, Gateway | Fleet):
            self._hand_over()

    def _stir_readers(self) -> None:
        """Hosts that live are heard: they say so oftener than anybody looks."""
        for part in self.fleets:
            if isinstance(part.component, Fleet):
                part.component.heard_ms = self.clock.ms

    def _hand_over(self) -> None:
        """Gateway and hosts talk by calls, of which the log knows nothing."""
        gateway = self.parts["gateway"]
        gateway.runnable = gateway.runnable or gateway.due_ms() == 0
        for part in self.fleets:
            part.runnable = part.runnable or part.due_ms() == 0
