"""A cell of the fan-out that fails: it is tried again by its looks, and holds up nobody meanwhile."""

from pathlib import Path

import pytest

from events.log.port import LogGap
from events.process import cell_failures
from projections.fanout.cells import Cell

FULL = OSError(28, "No space left on device", "/data/x")


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def cell(tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> Cell:
    monkeypatch.setattr(cell_failures, "RETRY_S", 0.0)
    return Cell("127.0.0.1:9", 0, tmp_path, {}, lambda _, text, **known: lines.append(text))


def test_a_cell_that_has_failed_is_tried_again_by_its_looks_alone(cell: Cell, lines: list[str]) -> None:
    tried: list[str] = []

    def look() -> None:
        tried.append("look")
        if len(tried) < 4:
            raise FULL

    cell._try(look, again=True)
    assert cell.status()["failed"] == "/data/x: No space left on device."
    cell._try(lambda: tried.append("take"))
    assert tried == ["look"], "records that come meanwhile wait in the log"
    while cell.failures.current:
        cell._try(look, again=True)
    cell._try(lambda: tried.append("take"))
    assert tried == ["look"] * 4 + ["take"]
    assert lines == ["stopped: /data/x: No space left on device.", "works again"]
    cell.end().result()


def test_the_end_of_a_cell_gives_its_log_back_whatever_else_fails(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    def fail() -> None:
        raise FULL

    monkeypatch.setattr(cell, "_forget", fail)
    monkeypatch.setattr(cell._log, "close", lambda: closed.append(True))
    with pytest.raises(OSError, match="No space"):
        cell.end().result()
    assert closed == [True]


def test_records_that_are_missing_stop_it_until_they_are_back(cell: Cell) -> None:
    def gap() -> None:
        raise LogGap("records are missing")

    cell._try(gap, again=True)
    assert cell.failures.current is not None
    assert not cell.failures.current.cause.passes, "a process with such cells alone ends"
    cell._try(lambda: None, again=True)
    assert cell.failures.current is None
    cell.end().result()
