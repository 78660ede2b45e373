"""The cells of a process: how they end, and what is said of one that fails."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from events.log.port import LogGap, LogUnavailable
from events.process.error_text import sentence
from paceline.services.assigned_cells import Cells, ProcessKind
from paceline.services.cell_thread import Cell
from tests.events.log.contract import PATIENCE

REPORT = "Report it with the log and what `paceline debug bundle` writes."


class Stuck:
    """A part that hangs in a step until all are cut off."""

    all_cut = threading.Barrier(8)

    def __init__(self, number: int) -> None:
        self.stepping = threading.Event()
        self.cut_off = threading.Event()
        self.closed = False

    def step(self) -> bool:
        self.stepping.set()
        assert self.cut_off.wait(PATIENCE)
        self.all_cut.wait(PATIENCE)
        return False

    def wait(self, seconds: float) -> None:
        time.sleep(0.01)

    def cut(self) -> None:
        self.cut_off.set()

    def close(self) -> None:
        self.closed = True

    def positions(self) -> Mapping[str, int]:
        return {}

    def recovers(self) -> bool:
        return False

    def status(self) -> dict[str, Any]:
        return {"ready": True}


def until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def process(make: Callable[[int], Stuck]) -> Cells:
    """The cells of a process that is told by hand what its group gives."""
    member: Any = None
    return Cells(ProcessKind("test", lambda: member, set, make), lambda *_: None, lambda _: None)


def test_cells_that_hang_are_cut_off_all_at_once() -> None:
    parts: list[Stuck] = []

    def make(number: int) -> Stuck:
        parts.append(Stuck(number))
        return parts[-1]

    async def end() -> None:
        host = process(make)
        await host._assign(frozenset(range(8)))
        await asyncio.to_thread(lambda: [part.stepping.wait(PATIENCE) for part in parts])
        await host._end(list(range(8)))

    asyncio.run(end())
    assert len(parts) == 8
    assert all(part.closed for part in parts)


def test_a_process_that_ends_is_not_ready() -> None:
    async def ready() -> tuple[bool, bool]:
        host = process(Stuck)
        await host._assign(frozenset())
        before = host.health().ready
        host._stopped.set()
        return before, host.health().ready

    assert asyncio.run(ready()) == (True, False)


class Resting(Stuck):
    """A part whose log is away while it waits, once."""

    def step(self) -> bool:
        if self.cut_off.is_set():
            self.stepping.set()
        return False

    def wait(self, seconds: float) -> None:
        if not self.cut_off.is_set():
            self.cut_off.set()
            raise LogUnavailable("no answer")
        time.sleep(0.01)


def test_a_cell_whose_log_is_away_while_it_waits_goes_on() -> None:
    part = Resting(0)
    cell = Cell(0, "test", lambda _: part, lambda *_: None)
    assert part.stepping.wait(PATIENCE)
    assert cell.failures.current is None
    cell.end()
    assert cell.join(time.monotonic() + PATIENCE)


class Slow(Stuck):
    """A part whose steps take until they are told to end, and are counted."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.steps = 0

    def step(self) -> bool:
        self.stepping.set()
        assert self.cut_off.wait(PATIENCE)
        self.steps += 1
        return False


def test_a_group_made_anew_in_the_middle_of_a_step() -> None:
    """The cell that stays goes on as it was; the one that goes is given back when its step has ended, not before."""
    parts: dict[int, Slow] = {}

    def make(number: int) -> Slow:
        assert number not in parts, "a cell that stays is not made again"
        parts[number] = Slow(number)
        return parts[number]

    async def go() -> None:
        host = process(make)
        await host._assign(frozenset((0, 1)))
        await asyncio.to_thread(lambda: [part.stepping.wait(PATIENCE) for part in parts.values()])
        await host._assign(None)
        assert all(each["parked"] for each in host.health().detail["cells"].values())
        going = asyncio.ensure_future(host._assign(frozenset((0,))))
        await asyncio.sleep(0.1)
        assert not parts[1].closed
        assert not going.done()
        for part in parts.values():
            part.cut_off.set()
        await going
        assert (parts[1].closed, parts[1].steps) == (True, 1)
        deadline = time.monotonic() + PATIENCE
        while parts[0].steps < 3:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        assert not parts[0].closed
        await host._end([0])

    asyncio.run(go())


def test_no_cell_begins_while_the_process_ends() -> None:
    """The group has taken a cell, whose step lasts, and the others are ended meanwhile."""
    made: list[Slow] = []

    def make(number: int) -> Slow:
        made.append(Slow(number))
        return made[-1]

    async def go() -> None:
        host = process(make)
        await host._assign(frozenset((0, 1)))
        await asyncio.to_thread(lambda: [part.stepping.wait(PATIENCE) for part in made])
        taking = asyncio.ensure_future(host._assign(frozenset((0,))))
        await asyncio.sleep(0.1)
        host._stopped.set()
        ending = asyncio.ensure_future(host._end(list(host._cells)))
        await asyncio.sleep(0.1)
        for part in made:
            part.cut_off.set()
        await asyncio.gather(taking, ending)
        assert host._cells == {}

    asyncio.run(go())
    assert len(made) == 2


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            AssertionError(),
            f"this should not happen: AssertionError(). {REPORT}",
        ),
        (
            KeyError("job-7"),
            f"this should not happen: KeyError('job-7'). {REPORT}",
        ),
        (LogGap("records are missing"), "records are missing"),
        (OSError(28, "No space left on device", "/data/x"), "/data/x: No space left on device."),
    ],
)
def test_a_cell_that_fails_says_why_whatever_it_was(error: Exception, said: str) -> None:
    lines: list[str] = []

    def make(number: int) -> Stuck:
        raise error

    cell = Cell(3, "test", make, lambda _, text: lines.append(text))
    until(lambda: lines)
    assert sentence(error) == said
    status = cell.status()
    assert (status["ready"], status["failed"], status["tries"]) == (False, said, 1)
    assert status["since"] < status["next_try"]
    assert lines == [f"stopped: {said}"]
    cell.end()
    assert cell.join(time.monotonic() + PATIENCE)


def test_whatever_ends_the_membership_is_the_reason_that_the_process_gives() -> None:
    class Member:
        def cells(self) -> frozenset[int]:
            raise RuntimeError("no such group")

    told: list[str] = []
    member: Any = Member()

    async def follow() -> None:
        host = Cells(ProcessKind("test", lambda: member, set, Stuck), lambda *_: None, told.append)
        host._member = member
        await host._follow_group()

    asyncio.run(follow())
    assert ["no such group" in text for text in told] == [True]
