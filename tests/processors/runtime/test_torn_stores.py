"""The store of a machine on a real disk: torn at any byte, of another log, of rows in another format."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from events.log.embedded import EmbeddedLog
from events.log.port import LogGap
from processors.runtime.driver import Driver
from processors.runtime.replay import replay
from processors.runtime.store import Progress, RocksStore
from processors.state.table import Table, hash_rows, struct_table
from tests.helpers.stored_cell import Ticking, Toys, throw
from tests.helpers.toys import Ball, Left, Tally

EARLIER = 1
"""So many of the last commits are cut at each of their bytes."""


def work(log: EmbeddedLog, folder: Path, first: int, end: int) -> None:
    """A cell of toys takes some balls and stops."""
    toys = Toys(log, folder)
    throw(log, first, end)
    toys.rest()
    toys.close()


def goes_on(log: EmbeddedLog, folder: Path, machine: Left | None = None) -> bytes:
    """The state of a processor that comes back to the store in a folder."""
    driver = Driver(machine or Left(), log, RocksStore(folder), Ticking(), "again")
    try:
        for _ in driver.recover():
            pass
        return driver.fold.state.hash
    finally:
        driver.close()


def test_a_store_torn_at_any_byte_is_of_one_round_and_never_between(log: EmbeddedLog, tmp_path: Path) -> None:
    toys = Toys(log, tmp_path / "store", records=2)
    throw(log, 0, 5)
    kept = toys.stores["left"]
    written = tmp_path / "store" / "left"
    ends: list[tuple[int, Progress]] = []
    for _ in range(1000):
        if toys.drivers["left"].run() and (progress := kept.progress()) and progress not in [each for _, each in ends]:
            ends.append((max(path.stat().st_size for path in written.glob("*.log")), progress))
        toys.drivers["right"].run()
        if toys.closed == 5:
            break
    shutil.copytree(written, tmp_path / "as killed")
    toys.close()
    tail = max((tmp_path / "as killed").glob("*.log"), key=lambda path: path.stat().st_size)
    assert tail.stat().st_size == ends[-1][0]
    ends = ends[-EARLIER - 1 :]
    seen = set()
    for cut in range(ends[0][0], ends[-1][0] + 1):
        torn = tmp_path / "torn"
        shutil.copytree(tmp_path / "as killed", torn)
        os.truncate(torn / tail.name, cut)
        store = RocksStore(torn)
        progress = store.progress()
        assert progress == next(each for end, each in reversed(ends) if end <= cut), cut
        assert hash_rows(store.rows()) == progress.hash, cut
        store.close()
        seen.add(progress.own.round)
        shutil.rmtree(torn)
    assert len(seen) == EARLIER + 1


def test_after_the_last_rounds_were_torn_off_the_processor_stands_where_it_stood(
    log: EmbeddedLog, tmp_path: Path
) -> None:
    work(log, tmp_path / "store", 0, 10)
    shutil.copytree(tmp_path / "store" / "left", tmp_path / "older")
    work(log, tmp_path / "store", 10, 20)
    assert goes_on(log, tmp_path / "older") == replay(Left(), log).hash == goes_on(log, tmp_path / "store" / "left")


@pytest.mark.parametrize(("mine", "its"), [(10, 30), (30, 10)])
def test_the_store_of_another_cell_is_refused_and_nothing_is_claimed(
    log: EmbeddedLog, tmp_path: Path, mine: int, its: int
) -> None:
    work(log, tmp_path / "store", 0, mine)
    other = EmbeddedLog(tmp_path / "other log", now_ms=lambda: 1_700_000_000_500)
    work(other, tmp_path / "other", 0, its)
    before = other.bounds("paceline.left")
    said = "is of another log: its round 3 is not at" if mine < its else "records are missing"
    with pytest.raises(Exception, match=said):
        goes_on(other, tmp_path / "store" / "left")
    assert other.bounds("paceline.left") == before
    other.close()


class Newer(Left):
    """Has a table of another name, and one more, so that rows of the other format are none of its own."""

    state = 2

    def __init__(self) -> None:
        super().__init__()
        self.balls = struct_table("thrown", Ball)
        self.more: Table[str, Tally] = struct_table("more", Tally)
        self.more.put("all", Tally())

    @property
    def tables(self) -> Sequence[Table[Any, Any]]:
        return (*super().tables, self.more)


def test_rows_of_another_format_are_made_anew_from_the_log(log: EmbeddedLog, tmp_path: Path) -> None:
    work(log, tmp_path / "store", 0, 10)
    older = goes_on(log, tmp_path / "store" / "left")
    newer = goes_on(log, tmp_path / "store" / "left", Newer())
    assert newer == goes_on(log, tmp_path / "store" / "left", Newer()) != older, "of its own store this time"
    assert older == goes_on(log, tmp_path / "store" / "left"), "and back again"
    assert older == goes_on(log, tmp_path / "store" / "left")


def test_rows_of_another_format_stay_until_they_can_be_made_anew(log: EmbeddedLog, tmp_path: Path) -> None:
    work(log, tmp_path / "store", 0, 10)
    log.truncate("paceline.left", 2)
    with pytest.raises(LogGap):
        goes_on(log, tmp_path / "store" / "left", Newer())
    goes_on(log, tmp_path / "store" / "left")
