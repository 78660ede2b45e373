"""A release with another format of rows goes on from the newest rows that it can convert: on a made-up pair of toys."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from events.log.embedded import EmbeddedLog
from processors.runtime.bootstrap import begin
from processors.runtime.driver import Driver
from processors.runtime.replay import replay
from processors.runtime.snapshots import SnapshotFault, stored, take
from processors.runtime.store import RocksStore
from processors.state.conversion import Conversions
from processors.state.table import RowChange, Table
from tests.helpers.stored_cell import JOBS, Counting, Ticking, Toys, throw
from tests.helpers.toys import TOYS, Ball, Left


def counted(rows: Iterable[RowChange]) -> Iterator[RowChange]:
    """Rows of the format 2 of those of 1: balls count from 11, not from 1."""
    for row in rows:
        if row.table == "balls" and row.row is not None:
            row = row._replace(row=pack(msgspec.msgpack.decode(row.row, type=Ball)))
        yield row


def pack(ball: Ball) -> bytes:
    """A row of the format 2."""
    return msgspec.msgpack.encode(Ball(ball.stage + 10, ball.due_ms))


def unpack(row: bytes) -> Ball:
    """What a row of the format 2 holds."""
    ball = msgspec.msgpack.decode(row, type=Ball)
    return Ball(ball.stage - 10, ball.due_ms)


class Next(Left):
    """The release after `Left`: another format, and a function that converts to it."""

    state = 2
    conversions: ClassVar[Conversions] = {1: counted}

    def __init__(self) -> None:
        super().__init__()
        self.balls: Table[str, Ball] = Table("balls", pack, unpack)


class Third(Next):
    """The release after that: nobody wrote a function for its format."""

    state = 3
    conversions: ClassVar[Conversions] = {1: counted}


class Forgetful(Next):
    """A release whose function doesn't do what a fold does."""

    conversions: ClassVar[Conversions] = {1: lambda rows: list(counted(rows))[:-1]}


def run(machine: Left, log: Counting | EmbeddedLog, folder: Path) -> bytes:
    """A process takes the machine with the store in a folder, and ends; the state hash that it came to."""
    driver = Driver(machine, log, RocksStore(folder), Ticking(), "next")
    for _ in driver.recover():
        pass
    driver.close()
    return driver.fold.state.hash


@pytest.fixture
def taken(log: EmbeddedLog, tmp_path: Path) -> EmbeddedLog:
    """A history of both toys, of which a snapshot was taken before its last part."""
    toys = Toys(log, tmp_path / "first")
    throw(log, 0, 100)
    toys.rest()
    for name, store in toys.stores.items():
        take(store, str(tmp_path / "kept"), log.cell, TOYS[name]())
    throw(log, 100, 110)
    toys.rest()
    toys.close()
    return log


def test_the_store_of_the_last_release_is_converted_and_not_folded_anew(taken: EmbeddedLog, tmp_path: Path) -> None:
    counting, folder = Counting(taken), tmp_path / "first" / "left"
    assert begin(counting, Next(), folder).notice == ""
    hash_ = run(Next(), counting, folder)
    assert counting.read.get(JOBS, 0) == 0, "no fact was read again"
    assert replay(Next(), taken).hash == hash_, "it is what a fold of the whole log comes to"
    assert run(Next(), counting, folder) == hash_, "it is converted once"


def test_a_new_owner_converts_the_newest_snapshot_and_reads_only_the_tail(taken: EmbeddedLog, tmp_path: Path) -> None:
    counting, folder = Counting(taken), tmp_path / "second" / "left"
    said = begin(counting, Next(), folder, str(tmp_path / "kept")).notice
    newest = next(stored(str(tmp_path / "kept"), 0, "left"))
    assert f"the snapshot of round {newest.round}" in said
    hash_ = run(Next(), counting, folder)
    assert counting.read[JOBS] == 10, "the facts that came after the snapshot"
    assert replay(Next(), taken).hash == hash_


def test_a_history_whose_start_is_gone_is_gone_on_with_by_a_release_that_converts(
    taken: EmbeddedLog, tmp_path: Path
) -> None:
    folder, kept = tmp_path / "second" / "left", str(tmp_path / "kept")
    newest = next(stored(kept, 0, "left")).manifest
    assert newest is not None
    hash_ = replay(Next(), taken).hash
    for topic, start in newest.needs().items():
        taken.truncate(topic, start)
    begin(taken, Next(), folder, kept)
    assert run(Next(), taken, folder) == hash_
    with pytest.raises(SnapshotFault, match="which this build, with 3, can't convert"):
        begin(taken, Third(), tmp_path / "third" / "left", kept)


def test_without_a_function_the_log_is_folded_from_its_start(taken: EmbeddedLog, tmp_path: Path) -> None:
    counting, folder = Counting(taken), tmp_path / "first" / "left"
    hash_ = run(Third(), counting, folder)
    assert counting.read[JOBS] == 110
    assert replay(Third(), taken).hash == hash_


def test_going_back_to_the_last_release_folds_anew(taken: EmbeddedLog, tmp_path: Path) -> None:
    counting, folder = Counting(taken), tmp_path / "first" / "left"
    run(Next(), counting, folder)
    hash_ = run(Left(), counting, folder)
    assert counting.read[JOBS] == 110
    assert replay(Left(), taken).hash == hash_


def test_a_conversion_that_is_no_fold_is_found_by_replay(taken: EmbeddedLog, tmp_path: Path) -> None:
    run(Forgetful(), taken, tmp_path / "first" / "left")
    found = replay(Next(), taken).difference
    assert found is not None
    assert "was of another state" in found.reason
