"""The cells of a process: how they end, and what is said of one that fails."""

import asyncio
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from events.faults import sentence
from events.log import LogGap
from paceline.services.cells import Cell, Cells
from tests.contracts.log import PATIENCE


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

    def standing(self) -> dict[str, Any]:
        return {"ready": True}


def test_cells_that_hang_are_cut_off_all_at_once() -> None:
    parts: list[Stuck] = []

    def make(number: int) -> Stuck:
        parts.append(Stuck(number))
        return parts[-1]

    async def end() -> None:
        member: Any = None
        host = Cells(lambda: member, make, lambda *_: None, lambda _: None)
        await host._assign(frozenset(range(8)))
        await asyncio.to_thread(lambda: [part.stepping.wait(PATIENCE) for part in parts])
        await host._end(list(range(8)))

    asyncio.run(end())
    assert len(parts) == 8
    assert all(part.closed for part in parts)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (AssertionError(), "this should not happen: AssertionError(). Report it with the log."),
        (KeyError("job-7"), "this should not happen: KeyError('job-7'). Report it with the log."),
        (LogGap("records are missing"), "records are missing"),
        (OSError(28, "No space left on device", "/data/x"), "/data/x: No space left on device."),
    ],
)
def test_a_cell_that_fails_says_why_whatever_it_was(error: Exception, said: str) -> None:
    lines: list[str] = []

    def make(number: int) -> Stuck:
        raise error

    cell = Cell(3, make, lambda _, text: lines.append(text))
    assert cell.join(time.monotonic() + PATIENCE)
    assert sentence(error) == said
    assert cell.standing() == {"ready": False, "failed": said}
    assert lines == [f"stopped: {said}"]
