"""The cells that a group of Kafka gives to this process: a thread for each, which steps the part that serves it.

While the group is being made anew all cells are parked: they keep what they know, and one that stays goes on without a
new epoch. A cell that fails stops alone, and says why; the process ends when none is left.
"""

import asyncio
import faulthandler
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from mode import Service

from events.faults import sentence
from events.kafka_membership import Membership
from events.log import LogUnavailable
from paceline.services.common import Say
from projections.health import Health

LOOK_S = 0.1
"""How often the group is asked."""
COMMIT_S = 5.0
"""How often the group is told how far each cell is."""
WAIT_S = 0.5
END_S = 3.0
"""So long cells that are in the middle of something may take to end, and as long again once they are cut off."""
END_MAX_S = 10.0
"""So long the whole process may take to end; what `deploy/` starts is killed after 15."""


class Part(Protocol):
    """What serves one cell; used by one thread."""

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
        """How far it has read each topic; empty while it doesn't know."""
        ...

    def standing(self) -> dict[str, Any]:
        """Where it stands; `ready`: whether it does its work."""
        ...


class Cell:
    """One cell of this process with its thread."""

    def __init__(self, number: int, make: Callable[[int], Part], say: Say) -> None:
        self.failed = ""
        """Why it has stopped, in a sentence."""
        self.part: Part | None = None
        self._number = number
        self._make = make
        self._say = say
        self._ending = threading.Event()
        self._going = threading.Event()
        self._going.set()
        self._thread = threading.Thread(target=self._run, name=f"cell-{number}", daemon=True)
        self._thread.start()

    def park(self) -> None:
        """Stops after the step that runs; nothing is given up."""
        self._going.clear()

    def go_on(self) -> None:
        """Goes on where it was parked."""
        self._going.set()

    def end(self) -> None:
        """Stops after the step that runs and gives everything back; `join` waits for it."""
        self._ending.set()
        self._going.set()

    def join(self, until: float) -> bool:
        """Waits until the thread has ended, or for a moment of the monotonic clock; whether it has ended."""
        self._thread.join(max(0.0, until - time.monotonic()))
        return not self._thread.is_alive()

    def cut(self) -> None:
        """Lets it wait for the log no more."""
        if self.part is not None:
            self.part.cut()

    def standing(self) -> dict[str, Any]:
        """Where it stands, for health pages."""
        if self.failed:
            return {"ready": False, "failed": self.failed}
        if self.part is None:
            return {"ready": False}
        return {**self.part.standing(), **({} if self._going.is_set() else {"parked": True, "ready": False})}

    def _run(self) -> None:
        try:
            self.part = self._make(self._number)
            while not self._ending.is_set():
                self._going.wait()
                if not self.part.step() and not self._ending.is_set():
                    self._rest(self.part)
        except Exception as error:  # whatever it is: this cell stops, the others go on
            self.failed = sentence(error)
            self._say(self._number, f"stopped: {self.failed}", **self._known())
        finally:
            if self.part is not None:
                self.part.close()

    def _rest(self, part: Part) -> None:
        try:
            part.wait(WAIT_S)
        except LogUnavailable:  # the next step meets it, and knows what to do
            self._ending.wait(WAIT_S)

    def _known(self) -> dict[str, Any]:
        """What lines about it carry where it is known."""
        standing = self.part.standing() if self.part is not None else {}
        return {name: standing[name] for name in ("epoch", "round") if name in standing}


class Cells(Service):
    """Keeps a member of a group, and a `Cell` for each cell that the group has given to it."""

    abstract = False

    def __init__(
        self,
        join: Callable[[], Membership],
        make: Callable[[int], Part],
        say: Say,
        give_up: Callable[[str], None],
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._join = join
        self._make = make
        self._say = say
        self._give_up = give_up
        self._cells: dict[int, Cell] = {}
        self._member: Membership | None = None
        self._known = False

    async def on_start(self) -> None:
        """Joins the group and follows it until the service stops."""
        self._member = self._join()
        self.add_future(self._follow(self._member))

    async def on_stop(self) -> None:
        """Ends all cells, each after the step that runs, then leaves the group. A process that can't is ended all the
        same, and says where it hangs: what it leaves behind is what a crash leaves.
        """
        faulthandler.dump_traceback_later(END_MAX_S, exit=True)
        await self._end(list(self._cells))
        if self._member is not None:
            await asyncio.to_thread(self._member.close)

    def health(self) -> Health:
        """See `Health`. A process that waits for cells that others have is ready: it stands by."""
        standing = {number: cell.standing() for number, cell in sorted(self._cells.items())}
        ready = self._known and all(each["ready"] for each in standing.values())
        return Health(self._known, ready, {"cells": standing})

    async def _follow(self, member: Membership) -> None:
        commit_at = 0.0
        try:
            while not self.should_stop:
                await self._assign(member.cells())
                if self._known and asyncio.get_running_loop().time() >= commit_at:
                    commit_at = asyncio.get_running_loop().time() + COMMIT_S
                    member.commit({number: cell.part.positions() for number, cell in self._cells.items() if cell.part})
                failed = [cell.failed for cell in self._cells.values() if cell.failed]
                if failed and len(failed) == len(self._cells):
                    self._give_up(failed[0])
                    return
                await asyncio.sleep(LOOK_S)
        except Exception as fault:  # whatever it is: nobody follows the group any more
            self._give_up(sentence(fault))

    async def _assign(self, given: frozenset[int] | None) -> None:
        if given is None:
            for cell in self._cells.values():
                cell.park()
            return
        if not self._known:
            self._known = True
            self._say(None, f"in the group, with {_named(given)}")
        elif given != self._cells.keys():
            self._say(None, f"the group gives {_named(given)}")
        await self._end([number for number in self._cells if number not in given])
        if self.should_stop:  # meanwhile: all cells have been ended, and none may begin
            return
        for number in sorted(given):
            if number in self._cells:
                self._cells[number].go_on()
            else:
                self._cells[number] = Cell(number, self._make, self._say)

    async def _end(self, numbers: list[int]) -> None:
        ending = [self._cells.pop(number) for number in numbers]
        for cell in ending:
            cell.end()
        if ending:
            await asyncio.to_thread(_join, ending)


def _join(ending: list[Cell]) -> None:
    """Waits until cells have ended; those that take long are cut off, all at once."""
    until = time.monotonic() + END_S
    hanging = [cell for cell in ending if not cell.join(until)]
    for cell in hanging:
        cell.cut()
    until = time.monotonic() + END_S
    for cell in hanging:
        cell.join(until)


def _named(cells: frozenset[int]) -> str:
    return f"cells {', '.join(map(str, sorted(cells)))}" if cells else "no cell yet: others have them"
