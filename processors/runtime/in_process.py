"""The in-process host: all machines of a cell, and whatever else must step, in one thread on any log.

Everything that steps is a `Component`; the host steps each in turn and sleeps when none has anything to do.
"""

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from typing import Protocol

from events.log.port import AppendUnknown, Log, LogUnavailable
from events.process.clock import SystemClock
from processors.machine import Machine
from processors.runtime import kernel_cache
from processors.runtime.deciding import Limits
from processors.runtime.driver import Driver
from processors.runtime.metrics import Metrics
from processors.runtime.stops import Superseded
from processors.runtime.store import Store

IDLE_MS = 10
"""Longest sleep of a host that only the log wakes: HTTP handlers hand work over without a record there."""
BACKGROUND_S = 0.03
RETRY_MS = 1000
LOOK_MS = 100
"""Milliseconds between two looks of a processor without its cell whether it may take it."""
TELL_S = 1.0
"""So often a processor tells what it has noted, and writes the rounds that wait for its store."""
UNSTORED = 32
"""So many rounds may wait for the store: lone ones are written together."""


class Component(Protocol):
    """Something that steps: bounded work at a time, in one thread."""

    def step(self) -> bool:
        """Does some work; True: call again soon."""
        ...

    def wait_ms(self) -> int | None:
        """Milliseconds that it may sleep while nothing is appended to the log; None: for ever."""
        ...

    def close(self) -> None:
        """Stops cleanly."""
        ...


class Ownership(Protocol):
    """Says whether this process may take the machines of its cell."""

    def is_owner(self) -> bool:
        """Whether the cell is assigned to this process now."""
        ...


class LockOwnership:
    """The ownership of who holds the lock of the log's folder."""

    def is_owner(self) -> bool:
        """Yes."""
        return True


class Processor:
    """A machine with its driver: recovers it, steps it, and recovers it again when an append's outcome is unknown."""

    def __init__(
        self,
        machine: Callable[[], Machine],
        log: Log,
        store: Callable[[], Store],
        claimant: str,
        ownership: Ownership | None = None,
        say: Callable[[str], None] = lambda text: None,
        limits: Limits | None = None,
    ) -> None:
        self._machine = machine
        self._log = log
        self._store = store
        self._claimant = claimant
        self._ownership = ownership or LockOwnership()
        self._say = say
        self._limits = limits or Limits(unstored=UNSTORED)
        self._clock = SystemClock()
        self._retry_at = 0
        self._reported = self.trouble = ""
        self._told_at = 0.0
        self.name = machine().name
        self._metrics = Metrics(log.cell, self.name)
        self.driver: Driver | None = None
        self._recovery: Generator[str, None, None] | None = None

    @property
    def decides(self) -> bool:
        """Whether it has its machine: recovered, and nobody else took it yet."""
        return self.driver is not None and self._recovery is None

    def step(self) -> bool:
        """Implements `Component.step`."""
        if self.driver is None and not self._begin():
            return False
        if self._recovery is not None:
            return self._recover(self._recovery)
        assert self.driver is not None
        if self.driver.rests():
            if time.perf_counter() - self._told_at >= TELL_S:
                self._tell(self.driver)
            return False
        try:
            more = self._turn(self.driver)
        except Superseded as lost:
            self._drop(f"{lost}; this process waits until the cell is its own again", RETRY_MS * 5)
            return False
        except (AppendUnknown, LogUnavailable) as trouble:
            self._drop(f"{self.name} recovers from the log: {trouble}", RETRY_MS)
            return False
        if more:
            self._reported = ""
        return more

    def wait_ms(self) -> int | None:
        """Implements `Component.wait_ms`."""
        if self.driver is None or self._recovery is not None:
            return max(0 if self._ownership.is_owner() else LOOK_MS, self._retry_at - self._clock.monotonic_ms())
        return self.driver.wait_ms()

    def wait(self, seconds: float) -> None:
        """Returns when there is something to do, at the latest after `seconds`; for a host with a thread for each."""
        if self.driver is not None and self._recovery is None:
            self.driver.wait(seconds)
        else:
            time.sleep(min(seconds, max(0, self._retry_at - self._clock.monotonic_ms()) / 1000 or LOOK_MS / 1000))

    def close(self) -> None:
        """Implements `Component.close`."""
        recovery, self._recovery = self._recovery, None
        driver, self.driver = self.driver, None
        if recovery is not None:
            recovery.close()
        if driver is not None:
            self._metrics.tell(0, {})
            driver.close()

    def _turn(self, driver: Driver) -> bool:
        turn, before, steps = driver.turn(), time.perf_counter(), self._metrics.steps
        while True:
            try:
                step = next(turn)
            except StopIteration as end:
                more = bool(end.value)
                break
            after = time.perf_counter()
            steps[step].append(after - before)
            before = after
        if before - self._told_at >= TELL_S:
            self._tell(driver)
        return more

    def _tell(self, driver: Driver) -> None:
        """Tells the metrics what was noted, and writes the store."""
        self._told_at = time.perf_counter()
        self._metrics.tell(driver.epoch, driver.lag())
        driver.write_store()
        kernel_cache.watch(driver.machine)

    def _begin(self) -> bool:
        """Begins to recover, where and when it may."""
        if self._clock.monotonic_ms() < self._retry_at or not self._ownership.is_owner():
            return False
        self.driver = Driver(
            self._machine(), self._log, self._store(), self._clock, self._claimant, self._limits, self._metrics
        )
        self._recovery = self.driver.recover()
        return True

    def _recover(self, recovery: Generator[str, None, None]) -> bool:
        """Goes on recovering for a stretch. A cell that was lost meanwhile is not taken from who has it now."""
        if not self._ownership.is_owner():
            self._drop(f"{self.name} could not be taken: the cell was given to another process", RETRY_MS)
            return False
        try:
            next(recovery)
        except StopIteration:
            self._recovery, self.trouble = None, ""
        except (Superseded, AppendUnknown, LogUnavailable) as trouble:
            self._drop(f"{self.name} could not be taken: {trouble}", RETRY_MS)
            return False
        return True

    def _drop(self, why: str, wait_ms: int) -> None:
        if why != self._reported:  # it is tried again and again
            self._say(why)
        self._reported = self.trouble = why
        self.close()
        self._retry_at = self._clock.monotonic_ms() + wait_ms


class Host:
    """Steps components in the thread that calls `run`.

    `background` (the views) steps when nothing else is to be done, but often enough: many records at once cost it much
    less than one by one. `longest_ms`: how long it may sleep where nobody has a deadline. `impatient`: somebody outside
    waits for it, so it steps after each component that did something. `settle`: makes durable what components have
    appended; it is told whether they have nothing else to do. The last component tells others of it.
    """

    def __init__(
        self,
        log: Log,
        components: Sequence[Component],
        background: Component,
        longest_ms: int = IDLE_MS,
        impatient: Component | None = None,
        settle: Callable[[bool], bool] = lambda idle: False,
    ) -> None:
        self._log = log
        self._longest_ms = longest_ms
        self._components = components
        self._background = background
        self._impatient = impatient
        self._settle = settle
        self._background_at = 0.0

    def run(self, stop: threading.Event) -> None:
        """Steps until `stop` is set, then closes the components, the last first."""
        everything = [*self._components, self._background]
        try:
            while not stop.is_set():
                if not self.step():
                    waits = [wait for wait in (each.wait_ms() for each in everything) if wait is not None]
                    self._log.wait(min([self._longest_ms, *waits]) / 1000)
        finally:
            with ExitStack() as closing:  # one that can't be closed keeps no other from it
                for component in everything:
                    closing.callback(component.close)

    def step(self) -> bool:
        """Steps each component once, in order; True where one of them may have more to do."""
        busy = False
        for component in self._components[:-1]:
            works = component.step()
            if works:
                self._settle(False)
                if self._impatient is not None:
                    self._impatient.step()
            busy = works or busy
        due = not busy or time.monotonic() >= self._background_at
        self._settle(due)  # what is durable is read by the last one, and doesn't wait for the background
        busy = self._components[-1].step() or busy
        if due or not busy:
            busy = self._background.step() or busy
            self._background_at = time.monotonic() + BACKGROUND_S
        return busy
