"""A cell that hangs: what is taken for that and what isn't, and what becomes of it."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from events.log.port import LogUnavailable
from events.process.hang_watch import HANG_S
from paceline.services import assigned_cells as cells_module
from paceline.services import cell_thread as cell_module
from paceline.services.cell_thread import Cell
from processors.runtime.store import StoreFault
from tests.events.log.contract import PATIENCE
from tests.helpers.told import Told, World, did

HARMED = StoreFault("the store is damaged")


class Hanging(Told):
    """A part that hangs in its second step, until it is let go."""

    go = threading.Event()

    def step(self) -> bool:
        super().step()
        if self.world.stepped.count(self.number) > 1 and self.number == 1:
            self.go.wait(PATIENCE)
        return False


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def hanging(world: World) -> Iterator[World]:
    Hanging.go.clear()
    world.make = lambda number: Hanging(world, number)
    yield world
    Hanging.go.set()


def test_a_process_with_a_cell_that_hangs_says_where_and_ends(hanging: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_module, "HANG_S", 0.2)
    hanging.given = frozenset((0, 1))
    hanging.run(lambda: hanging.given_up, did(Hanging.go.set))
    assert "Cell 1 hangs at " in hanging.given_up[0]
    assert "wait" in hanging.given_up[0]


def test_a_cell_that_comes_up_has_more_time_and_a_frozen_process_hangs_nowhere(
    hanging: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging.given = frozenset((1,))
    hanging.run(
        lambda: hanging.stepped.count(1) > 1,
        lambda: hanging.host._hanging(time.monotonic() + 1e6) == "",
        did(Hanging.go.set),
    )
    assert hanging.given_up == []
    assert HANG_S < cell_module.BEGIN_S


class Recovering(Hanging):
    """A part that recovers again in its second step."""

    def recovers(self) -> bool:
        return self.number in self.world.stepped


def stuck(cell: Cell, holds: Callable[[], object]) -> None:
    """Waits until a cell is where it hangs, and has been looked at there."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert cell.hangs(0) == ""


def test_a_cell_that_recovers_again_is_not_taken_for_one_that_hangs(hanging: World) -> None:
    hanging.make = lambda number: Recovering(hanging, number)
    cell = Cell(1, "test", hanging.make, hanging.say)
    stuck(cell, lambda: hanging.stepped.count(1) > 1)
    assert cell.hangs(HANG_S + 1) == ""
    assert "wait" in cell.hangs(cell_module.BEGIN_S)
    Hanging.go.set()
    cell.end()
    assert cell.join(time.monotonic() + PATIENCE)


def test_a_cell_that_is_made_anew_has_as_long_as_at_first(world: World) -> None:
    go = threading.Event()

    def make(number: int) -> Told:
        told = Told(world, number)
        if world.made.count(number) > 1:
            assert go.wait(PATIENCE)
        return told

    cell = Cell(0, "test", make, world.say)
    stuck(cell, lambda: len(world.stepped) > 1)
    world.errors[0] = LogUnavailable("away")
    stuck(cell, lambda: world.made.count(0) > 1)
    assert cell.hangs(HANG_S + 1) == ""
    assert "wait" in cell.hangs(cell_module.BEGIN_S)
    world.errors.clear()
    go.set()
    cell.end()
    assert cell.join(time.monotonic() + PATIENCE)


def test_a_thread_that_hangs_is_seen_while_its_process_is_out_of_the_group(
    hanging: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells_module, "END_S", 0.01)
    hanging.given, hanging.others = frozenset((0, 1)), {"other"}

    def fails() -> bool:
        hanging.errors[0] = HARMED
        return True

    def long() -> bool:
        monkeypatch.setattr(cell_module, "HANG_S", 0.0)
        return True

    hanging.run(
        lambda: hanging.stepped.count(1) > 1,
        fails,
        lambda: hanging.left,
        long,
        lambda: hanging.given_up,
        did(Hanging.go.set),
    )
    assert "Cell 1 hangs at " in hanging.given_up[0]
    assert hanging.joined == 1


def test_a_cell_that_is_given_again_waits_for_what_it_was_before(
    hanging: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells_module, "END_S", 0.01)
    hanging.given = frozenset((0, 1))

    def give(*cells: int) -> Callable[[], bool]:
        return did(lambda: setattr(hanging, "given", frozenset(cells)))

    hanging.run(
        lambda: hanging.stepped.count(1) > 1,
        give(0),
        lambda: hanging.host._leaving,
        give(0, 1),
        lambda: "given it back" in hanging.status(1).get("trouble", ""),
        give(0),
        lambda: 1 not in hanging.host._cells,
        give(0, 1),
        lambda: "given it back" in hanging.status(1).get("trouble", ""),
        lambda: hanging.made.count(1) == 1,
        did(Hanging.go.set),
        lambda: hanging.made.count(1) == 2,
    )
    assert hanging.closed.count(1) >= 1
