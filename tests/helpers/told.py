"""A process whose group, and whose parts, do as they are told."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from paceline.services.assigned_cells import Cells, ProcessKind
from tests.events.log.contract import PATIENCE


class Told:
    """A part that fails with what it is told to, in its steps."""

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.number = world, number
        world.made.append(number)

    def step(self) -> bool:
        self.world.stepped.append(self.number)
        if (error := self.world.errors.get(self.number)) is not None:
            raise error
        return False

    def wait(self, seconds: float) -> None:
        time.sleep(0.001)

    def cut(self) -> None:
        pass

    def close(self) -> None:
        self.world.closed.append(self.number)

    def positions(self) -> Mapping[str, int]:
        return {}

    def recovers(self) -> bool:
        return False

    def status(self) -> dict[str, Any]:
        return {"ready": True}


class World:
    """A process whose group does as it is told."""

    def __init__(self) -> None:
        self.errors: dict[int, Exception] = {}
        self.made: list[int] = []
        self.stepped: list[int] = []
        self.closed: list[int] = []
        self.given: frozenset[int] = frozenset()
        self.others: set[str] = set()
        self.joined = self.left = 0
        self.lines: list[str] = []
        self.given_up: list[str] = []
        self.make: Callable[[int], Any] = lambda number: Told(self, number)
        member: Any = self
        self.host = Cells(
            ProcessKind("test", lambda: self._join(member), lambda: self.others, lambda n: self.make(n)),
            self.say,
            self.given_up.append,
        )

    def _join(self, member: Any) -> Any:
        self.joined += 1
        return member

    def say(self, cell: int | None, text: str, **_: Any) -> None:
        self.lines.append(text if cell is None else f"{cell}: {text}")

    def cells(self) -> frozenset[int]:
        return self.given

    def commit(self, positions: Any) -> None:
        pass

    def close(self) -> None:
        self.left += 1

    def run(self, *holds: Callable[[], Any]) -> None:
        """Follows the group until each of the conditions has held, one after the other."""

        async def follow() -> None:
            self.host._member = self.host._kind.join()
            deadline = time.monotonic() + PATIENCE
            for each in holds:
                while not each():
                    assert time.monotonic() < deadline, self.lines
                    await self.host._check()
                    await asyncio.sleep(0.001)
            self.host._stopped.set()
            await self.host._end(list(self.host._cells))

        asyncio.run(follow())

    def status(self, number: int) -> dict[str, Any]:
        cell = self.host._cells.get(number)
        return cell.status() if cell else {}


def did(what: Callable[[], object]) -> Callable[[], bool]:
    """A condition that holds once something was done."""

    def holds() -> bool:
        what()
        return True

    return holds
