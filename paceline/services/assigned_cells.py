"""The cells that a group of Kafka gives to this process: a thread for each, which steps the part that serves it.

While the group rebalances all cells are parked: they keep what they know, and one that stays goes on without a new
epoch. A cell that fails stops alone, says why, and is tried again (see `events.process.error_text.ErrorCause`). Where
another process would fare better, this one leaves the group for a while. The process ends when a cell hangs, and when
none is left that may go on.
"""

import asyncio
import faulthandler
import time
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from mode import Service

from events.log.kafka.membership import Membership
from events.log.port import LogError
from events.process.error_text import sentence
from events.process.health import Health
from paceline.services.cell_thread import Cell, CellComponent
from paceline.services.startup import Say

CHECK_SECONDS = 0.1
"""Seconds between two questions to the group."""
COMMIT_S = 5.0
"""Seconds between two commits of each cell's position to the group."""
ASK_S = 5.0
"""Seconds between two questions for the other members, while a cell had better be another's."""
AWAY_S, AWAY_MAX_S = 60.0, 600.0
"""So long this process stays out of the group, the first time and at most: each time twice as long."""
END_S = 3.0
"""So long cells that are in the middle of something may take to end, and as long again once they are cut off."""
END_MAX_S = 10.0
"""So long the whole process may take to end; what `deploy/` starts is killed after 15."""


class ProcessKind(NamedTuple):
    """The kind of a process: its name, a function that makes its membership, one that names the other members of its
    group (raises `LogError`), one that makes what serves a cell.
    """

    name: str
    join: Callable[[], Membership]
    others: Callable[[], Collection[str]]
    make: Callable[[int], CellComponent]


class Cells(Service):
    """Keeps a member of a group, and a `Cell` for each cell that the group has given to it. `give_up` is told why the
    process must end.
    """

    abstract = False

    def __init__(self, kind: ProcessKind, say: Say, give_up: Callable[[str], None], **options: Any) -> None:
        super().__init__(**options)
        self._kind = kind
        self._say = say
        self._give_up = give_up
        self._cells: dict[int, Cell] = {}
        self._leaving: list[Cell] = []
        """Cells that were ended, and whose threads have not."""
        self._member: Membership | None = None
        self._joined = False
        self._checked_at = time.monotonic()
        self._commit_at = self._ask_at = 0.0
        self._left_reason = ""
        """Why it has left the group for a while."""
        self._away_seconds = AWAY_S

    async def on_start(self) -> None:
        """Joins the group and follows it until the service stops."""
        self._member = self._kind.join()
        self.add_future(self._follow_group())

    async def on_stop(self) -> None:
        """Ends all cells, each after the step that runs, then leaves the group. A process that can't is ended all the
        same, and says where it hangs: what it leaves behind is what a crash leaves.
        """
        faulthandler.dump_traceback_later(END_MAX_S, exit=True)
        try:
            await self._end(list(self._cells))
        finally:
            await self._leave()

    def health(self) -> Health:
        """Implements `Health`. A process that waits for cells that others have is ready: it stands by."""
        cells = dict(self._cells)  # threads of the health endpoints ask, while cells come and go
        status = {number: cell.status() for number, cell in sorted(cells.items())}
        serves = self._joined and not self._left_reason and not self.should_stop
        ready = serves and all(each["ready"] for each in status.values())
        return Health(
            self._joined, ready, {"cells": status, **({"failed": self._left_reason} if self._left_reason else {})}
        )

    async def _follow_group(self) -> None:
        try:
            while not self.should_stop:
                if await self._check():
                    return
                await asyncio.sleep(CHECK_SECONDS)
        except Exception as fault:  # whatever it is: nobody follows the group any more
            self._give_up(sentence(fault))

    async def _check(self) -> bool:
        """Looks at all threads, and follows the group while it is in it; True: the process has been given up."""
        if fault := self._hanging(time.monotonic()):
            self._give_up(fault)
            return True
        if self._member is None:
            return False
        await self._assign(self._member.cells())
        now = time.monotonic()
        if self._joined and now >= self._commit_at:
            self._commit_at = now + COMMIT_S
            parts = {number: cell.part for number, cell in self._cells.items()}
            self._member.commit({number: part.positions() for number, part in parts.items() if part})
        if await self._hand_over(now):
            return False
        failures = [cell.failures.current for cell in self._cells.values()]
        stopped = [each for each in failures if each is not None and not each.cause.passes]
        if stopped and len(stopped) == len(failures):
            self._give_up(stopped[0].text)
            return True
        return False

    def _hanging(self, now: float) -> str:
        """The sentence about a cell that hangs; empty: none. The traces of all threads are printed on stderr then."""
        passed = min(now - self._checked_at, 10 * CHECK_SECONDS)  # a process that was frozen meanwhile hung nowhere
        self._checked_at = now
        self._leaving = [cell for cell in self._leaving if not cell.ended]
        for cell in (*self._cells.values(), *self._leaving):
            if where := cell.hangs(passed):
                faulthandler.dump_traceback(2)  # stderr
                return f"Cell {cell.number} hangs at {where}: this process ends, so that another has its cells."
        return ""

    async def _hand_over(self, now: float) -> bool:
        """Leaves the group where a cell would fare better elsewhere, and somebody is there to take it. The group gives
        no cell to another alone: all of this process's go.
        """
        failures = {number: cell.failures.current for number, cell in sorted(self._cells.items())}
        failed = {
            number: each.text
            for number, each in failures.items()
            if each is not None and (at := each.hands_over_at) is not None and at <= now
        }
        if not failed:
            if self._cells and not any(failures.values()):
                self._away_seconds = AWAY_S
            return False
        if now < self._ask_at or not (others := await self._others()):
            return False
        number, text = next(iter(failed.items()))
        self._left_reason = (
            f"left the group for {self._away_seconds:.0f} s, so that others have its cells: cell {number}: {text}"
        )
        self._say(None, f"{self._left_reason} (in the group: {', '.join(sorted(others))})")
        await self._end(list(self._cells))
        await self._leave()
        self.add_future(self._rejoin())
        return True

    async def _rejoin(self) -> None:
        """Joins again after a while, at once where nobody else is left."""
        until, self._away_seconds = time.monotonic() + self._away_seconds, min(AWAY_MAX_S, 2 * self._away_seconds)
        while time.monotonic() < until and not self.should_stop:
            await self.sleep(ASK_S)
            if not await self._others():
                break
        if not self.should_stop:
            self._left_reason, self._ask_at = "", 0.0
            self._member = self._kind.join()

    async def _others(self) -> Collection[str]:
        """The other members of the group, as far as they are known."""
        self._ask_at = time.monotonic() + ASK_S
        try:
            return await asyncio.to_thread(self._kind.others)
        except LogError:
            return ()

    async def _assign(self, cells: frozenset[int] | None) -> None:
        if cells is None:
            for cell in self._cells.values():
                cell.park()
            return
        if not self._joined:
            self._joined = True
            self._say(None, f"in the group, with {_cells_text(cells)}")
        elif cells != self._cells.keys():
            self._say(None, f"the group gives {_cells_text(cells)}")
        await self._end([number for number in self._cells if number not in cells])
        if self.should_stop:  # meanwhile: all cells have been ended, and none may begin
            return
        for number in sorted(cells):
            if number in self._cells:
                self._cells[number].resume()
            else:
                previous = [cell for cell in self._leaving if cell.number == number]
                self._cells[number] = Cell(number, self._kind.name, self._kind.make, self._say, previous)

    async def _end(self, numbers: list[int]) -> None:
        ending = [self._cells.pop(number) for number in numbers]
        for cell in ending:
            cell.end()
        if ending:
            await asyncio.to_thread(_join, ending)
        self._leaving += [cell for cell in ending if not cell.ended]

    async def _leave(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            await asyncio.to_thread(member.close)


def _join(ending: list[Cell]) -> None:
    """Waits until cells have ended; those that take long are cut off, all at once."""
    until = time.monotonic() + END_S
    hanging = [cell for cell in ending if not cell.join(until)]
    for cell in hanging:
        cell.cut()
    until = time.monotonic() + END_S
    for cell in hanging:
        cell.join(until)


def _cells_text(cells: frozenset[int]) -> str:
    return f"cells {', '.join(map(str, sorted(cells)))}" if cells else "no cell yet: others have them"
