"""A cell that fails: when it is tried again, when another process is to have it, and what is said of it."""

import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from events.acceptance import NO_HASH, ROUND, Acceptance, RoundKey
from events.codec import CodecError
from events.log.port import AppendUnknown, LogFault, LogGap, LogRecord, LogUnavailable
from events.process import cell_failures
from events.process.error_text import ErrorCause, cause_of
from events.rounds import BrokenHistory, UnreadableRound
from paceline.services import assigned_cells as cells_module
from paceline.services.cell_thread import Cell
from processors.runtime.fold import HistoryDiffers
from processors.runtime.stops import ForeignRound, RoundTooLarge, StuckTimer, Superseded
from processors.runtime.store import StoreFault, StoreWaits, _fault_of_opening
from projections.views.transaction import ViewsFault
from tests.events.log.contract import PATIENCE
from tests.helpers.told import Told, World, did

BROKEN = HistoryDiffers("round 7 isn't what it was")
HARMED = StoreFault("the store is damaged")
ROUND_7 = RoundKey(ROUND, "placement", 1, 2, 7, NO_HASH, "c3" * 8, "9.1", NO_HASH)
RECORD = LogRecord("paceline.placement", 7, 0, b"", b"")
NEWER = UnreadableRound(ROUND_7, RECORD, "no such schema")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_failures, "RETRY_S", 0.001)
    monkeypatch.setattr(cells_module, "ASK_S", 0.01)


@pytest.fixture
def world() -> World:
    return World()


def metric(cell: int) -> float | None:
    return REGISTRY.get_sample_value("paceline_cell_failed", {"cell": str(cell), "part": "test"})


@pytest.mark.parametrize(
    "error", [LogUnavailable("away"), AppendUnknown("unknown"), StoreWaits("the disk is full"), KeyError("a bug")]
)
def test_a_cell_whose_trouble_may_pass_is_tried_again_until_it_works(world: World, error: Exception) -> None:
    world.given = frozenset((0, 1))
    world.errors[1] = error

    def tried() -> bool:
        return world.status(1).get("tries", 0) >= 3

    def mended() -> bool:
        world.errors.clear()
        return bool(world.status(1).get("ready"))

    world.run(tried, lambda: metric(1) == 1, mended)
    assert metric(1) == 0
    assert [line.partition(": ")[2].partition(":")[0] for line in world.lines if line[0] == "1"] == [
        "stopped",
        "works again",
    ]
    assert world.made.count(0) == 1, "the other cell isn't disturbed"
    assert world.given_up == []


def test_pauses_between_tries_grow_to_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_failures, "RETRY_S", 1.0)
    now = [1000.0]
    met, pauses = cell_failures.Failures(0, "test", lambda: now[0]), []
    for _ in range(9):
        met.failed(LogUnavailable("away"))
        pauses.append(met.pause_s())
        now[0] += met.pause_s() or 0
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    met.recovered()
    now[0] += 30
    met.failed(LogUnavailable("away"))
    assert met.pause_s() == 60, "one that works for a moment is as good as failed"
    met.recovered()
    now[0] += 61
    met.failed(LogUnavailable("away"))
    assert met.pause_s() == 1


@pytest.mark.parametrize("error", [BROKEN, CodecError("UNKNOWN_SCHEMA", "no such schema"), StuckTimer("a bug")])
def test_a_cell_whose_history_cannot_be_gone_on_with_stays_stopped_and_is_not_handed_round(
    world: World, error: Exception
) -> None:
    world.given, world.others = frozenset((0, 1)), {"other"}
    world.errors[1] = error
    world.run(lambda: world.status(1).get("failed"), lambda: world.stepped.count(0) > 50)
    assert world.made.count(1) == 1
    assert world.left == 0
    assert world.given_up == []


def test_a_stopped_cell_says_why_since_when_and_that_it_is_not_tried_again(world: World) -> None:
    world.given = frozenset((0, 1))
    world.errors[1] = BROKEN
    shown: list[dict[str, Any]] = []
    world.run(lambda: world.status(1).get("failed"), did(lambda: shown.append(world.status(1))))
    assert shown[0].pop("since").endswith("Z")
    assert shown == [{"ready": False, "failed": str(BROKEN), "tries": 1, "next_try": None}]


def test_a_process_without_a_cell_that_may_go_on_ends_with_the_reason(world: World) -> None:
    world.given = frozenset((0, 1))
    world.errors |= {0: BROKEN, 1: HARMED}
    world.run(lambda: world.given_up)
    assert world.given_up[0] in (str(BROKEN), str(HARMED))
    assert world.left == 0, "nobody else would take them"


@pytest.mark.parametrize("error", [HARMED, NEWER])
def test_a_cell_that_another_process_can_go_on_with_is_handed_over(world: World, error: Exception) -> None:
    world.given, world.others = frozenset((0, 1)), {"other"}
    world.errors[1] = error
    world.run(lambda: world.left)
    assert world.closed.count(0) == 1, "the group gives no cell to another alone"
    assert str(error) in world.host.health().detail["failed"]
    assert not world.host.health().ready
    assert any("left the group for 60 s" in line and "other" in line for line in world.lines)
    assert metric(1) == 1
    assert world.given_up == []


def test_who_left_the_group_comes_back_when_nobody_else_is_left(world: World) -> None:
    world.given, world.others = frozenset((0, 1)), {"other"}
    world.errors[1] = HARMED

    def alone() -> bool:
        world.others.clear()
        return world.joined == 2

    world.run(lambda: world.left, alone, lambda: world.status(0).get("ready"))
    assert world.left == 1


@pytest.mark.parametrize("error", [HARMED, NEWER])
def test_a_process_that_is_alone_tries_again_what_it_keeps(world: World, error: Exception) -> None:
    """Its operator removes the damaged store, say, which is then made anew."""
    world.given = frozenset((0, 1))
    world.errors[1] = error
    world.run(
        lambda: world.status(1).get("tries", 0) > 2, did(world.errors.clear), lambda: world.status(1).get("ready")
    )
    assert world.given_up == []


def test_a_process_that_lacks_something_waits_a_while_before_others_have_its_cells(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.given, world.others = frozenset((0, 1)), {"other"}
    world.errors[1] = StoreWaits("the disk is full")

    def late() -> bool:
        monkeypatch.setattr(cell_failures, "SHORTAGE_S", 0.0)
        return bool(world.left)

    world.run(lambda: world.status(1).get("tries", 0) > 2, lambda: world.left == 0, late)


def test_after_its_end_a_parked_cell_takes_no_step(world: World) -> None:
    cell = Cell(0, "test", world.make, world.say)
    deadline = time.monotonic() + PATIENCE
    while not world.stepped:
        assert time.monotonic() < deadline
    cell.park()
    before = -1
    while before != (before := len(world.stepped)):  # the step that runs
        time.sleep(0.02)
    cell.end()
    assert cell.join(time.monotonic() + PATIENCE)
    assert len(world.stepped) == before
    assert world.closed == [0]


def test_a_cell_that_cannot_be_closed_says_so_and_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Told) -> None:
        raise OSError(5, "Input/output error", "/data/x")

    monkeypatch.setattr(Told, "close", fail)
    world.given = frozenset((0,))
    world.errors[0] = LogUnavailable("away")
    world.run(
        lambda: world.status(0).get("tries", 0) > 2, did(world.errors.clear), lambda: world.status(0).get("ready")
    )
    assert any("could not be closed" in line for line in world.lines)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (LogUnavailable("x"), ErrorCause.LOG),
        (AppendUnknown("x"), ErrorCause.LOG),
        (LogFault("no right to read"), ErrorCause.LOG),
        (Superseded("x"), ErrorCause.LOG),
        (
            _fault_of_opening(
                Path("x"), Exception("IO error: While lock file: /x/LOCK: Resource temporarily unavailable")
            ),
            ErrorCause.SHORTAGE,
        ),
        (_fault_of_opening(Path("x"), Exception("IO error: No space left on device")), ErrorCause.SHORTAGE),
        (_fault_of_opening(Path("x"), Exception("Corruption: block checksum mismatch")), ErrorCause.LOCAL),
        (ViewsFault("x"), ErrorCause.SHORTAGE),
        (OSError(28, "No space left on device"), ErrorCause.SHORTAGE),
        (OSError(24, "Too many open files"), ErrorCause.SHORTAGE),
        (OSError(5, "Input/output error"), ErrorCause.LOCAL),
        (ConnectionRefusedError(111, "refused"), ErrorCause.UNKNOWN),
        (MemoryError(), ErrorCause.LOCAL),
        (LogGap("x"), ErrorCause.LOCAL),
        (NEWER, ErrorCause.LOCAL),
        (BrokenHistory(ROUND_7, RECORD, Acceptance.DAMAGED), ErrorCause.HISTORY),
        (HistoryDiffers("x"), ErrorCause.HISTORY),
        (ForeignRound("x"), ErrorCause.HISTORY),
        (CodecError("UNKNOWN_SCHEMA", "x"), ErrorCause.HISTORY),
        (StuckTimer("x"), ErrorCause.HISTORY),
        (RoundTooLarge("x"), ErrorCause.HISTORY),
        (ZeroDivisionError(), ErrorCause.UNKNOWN),
    ],
)
def test_whose_the_cause_of_an_error_is(error: Exception, cause: ErrorCause) -> None:
    assert cause_of(error) is cause
