"""One cell of a process: a thread that steps the part that serves it, and what becomes of one that fails or hangs."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from events.log.port import LogUnavailable
from events.process.cell_failures import Failures
from events.process.hang_watch import HANG_S, HangDetector, place
from paceline.services.startup import Say

LOOK_S = 0.1
WAIT_S = 0.5
BEGIN_S = 1800.0
"""So long a cell may take for a step while it recovers: snapshots are fetched, and stores are read, in one."""


class CellComponent(Protocol):
    """A component that serves one cell; used by one thread."""

    def step(self) -> bool:
        """Does some work; True: there may be more at once."""
        ...

    def wait(self, seconds: float) -> None:
        """Returns when there is something to do, at the latest after `seconds`."""
        ...

    def close(self) -> None:
        """Gives back what it holds."""
        ...

    def cut(self) -> None:
        """Called from another thread: nothing waits for the log any more. What it does ends as if that were away."""
        ...

    def positions(self) -> Mapping[str, int]:
        """The position up to which it has read each topic; empty while it doesn't know."""
        ...

    def recovers(self) -> bool:
        """Whether its next step may read all that it keeps, which takes long."""
        ...

    def status(self) -> dict[str, Any]:
        """Where it stands; `ready`: whether it does its work."""
        ...


class Cell:
    """One cell of this process with its thread. A failed cell is created again after a pause, unless every process
    would fail alike. `kind`: of the process, for the metric; `before`: the same cell as this process had it before,
    whose threads may still hold what this one needs.
    """

    def __init__(
        self, number: int, kind: str, make: Callable[[int], CellComponent], say: Say, previous: "Sequence[Cell]" = ()
    ) -> None:
        self.number = number
        self.failures = Failures(number, kind)
        self.part: CellComponent | None = None
        self._make = make
        self._say = say
        self._previous = previous
        self._recovers = True
        """Whether what it does now may take long: it is being made, or its part recovers."""
        self._steps = 0
        self._hang_detector = HangDetector()
        self._in_step = False
        """Whether it is in the middle of something that must come to an end."""
        self._ending = threading.Event()
        self._running = threading.Event()
        self._running.set()
        self._thread = threading.Thread(target=self._run, name=f"cell-{number}", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether its thread has ended."""
        return not self._thread.is_alive()

    def park(self) -> None:
        """Stops after the step that runs; nothing is given up."""
        self._running.clear()

    def resume(self) -> None:
        """Goes on where it was parked."""
        self._running.set()

    def end(self) -> None:
        """Stops after the step that runs and gives everything back; `join` waits for it."""
        self._ending.set()
        self._running.set()

    def join(self, until: float) -> bool:
        """Waits until the thread has ended, or for a moment of the monotonic clock; whether it has ended."""
        self._thread.join(max(0.0, until - time.monotonic()))
        return self.ended

    def cut(self) -> None:
        """Lets it wait for the log no more."""
        if (part := self.part) is not None:
            part.cut()

    def hangs(self, passed_s: float) -> str:
        """Where it hangs, empty: it doesn't. To be asked again and again; `passed_s`: time since it was asked last that
        this process could work in.
        """
        if not self._in_step:
            self._hang_detector = HangDetector()
        most_s = BEGIN_S if self._recovers else HANG_S
        return place(self._thread) if self._hang_detector.hangs(self._steps, passed_s, most_s) else ""

    def status(self) -> dict[str, Any]:
        """Where it stands, for health pages."""
        part, failed = self.part, self.failures.body()
        if self._waits_for_previous():
            return {"ready": False, "trouble": "it was given to this process before, which has not given it back yet"}
        if failed or part is None:
            return {"ready": False, **failed}
        return {**part.status(), **({} if self._running.is_set() else {"parked": True, "ready": False})}

    def _run(self) -> None:
        while self._waits_for_previous() and not self._ending.is_set():
            self._ending.wait(LOOK_S)
        while not self._ending.is_set():
            try:
                self._serve()
            except Exception as error:  # whatever it is: this cell stops, the others go on
                if not self._ending.is_set() and self.failures.failed(error):
                    self._note(f"stopped: {self.failures.text}")
            finally:
                self._close()
            self._ending.wait(self.failures.pause_s())

    def _waits_for_previous(self) -> bool:
        return not all(each.ended for each in self._previous)

    def _serve(self) -> None:
        self._recovers = self._in_step = True
        self.part = part = self._make(self.number)
        while True:
            self._in_step = False
            self._running.wait()  # the end lets it pass too: then nothing is stepped any more
            if self._ending.is_set():
                return
            self._recovers, self._in_step = part.recovers(), True
            more = part.step()
            self._steps += 1
            if self.failures.current and part.status().get("ready") and self.failures.recovered():
                self._note("works again")
            if not more and not self._ending.is_set():
                self._wait(part)
            self._steps += 1

    def _wait(self, part: CellComponent) -> None:
        try:
            part.wait(WAIT_S)
        except LogUnavailable:  # the next step meets it, and knows what to do
            self._ending.wait(WAIT_S)

    def _close(self) -> None:
        self._in_step = True
        try:
            if self.part is not None:
                self.part.close()
        except Exception as error:  # the store may be held still: the next try says so
            self._note(f"could not be closed: {error}")
        finally:
            self.part = None
            self._in_step = False
            self._steps += 1

    def _note(self, text: str) -> None:
        """Writes a line with what is known of it."""
        status = self.part.status() if self.part is not None else {}
        self._say(self.number, text, **{name: status[name] for name in ("machine", "epoch", "round") if name in status})
