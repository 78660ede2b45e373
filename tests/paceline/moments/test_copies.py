"""Views of a moment that begin from a copy of the views."""

import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import NamedTuple

import pytest

from events.log.embedded import EmbeddedLog
from events.log.port import Log
from events.topics import ALL
from paceline.history import make_views
from paceline.moments import copies
from paceline.moments.copier import COMMAND, Copier
from paceline.moments.log_cut import CutLog, before, closed
from paceline.moments.order import LogAddress, Order
from paceline.moments.page_files import heads, size_of
from projections.views import tables
from projections.views.projector import Projector, rebuild
from tests.helpers.drawn import seeds
from tests.helpers.past import SCENARIO, past, played, written
from tests.helpers.written_cell import dump

EVERY = 150


class Kept(NamedTuple):
    """A log in a folder, and views of it that were copied again and again while they were folded."""

    log: Log
    folder: Path

    def order(self, ends: dict[str, int], target: Path) -> Order:
        return Order(LogAddress(str(self.folder), 0), ends, str(target), str(self.folder))

    def ends(self, draw: random.Random) -> dict[str, int]:
        """Where the log ended at some moment."""
        topic = draw.choice([topic.name for topic in ALL if self.log.bounds(topic.name)[1]])
        record = next(self.log.scan(topic, draw.randrange(self.log.bounds(topic)[1])))
        return closed(self.log, before(self.log, record.at_ms + 1))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    folder = tmp_path_factory.mktemp("kept")
    written(past(), folder)
    log = EmbeddedLog.open_secondary(folder / "log")
    work = [0, 0]

    def folded(records: int, size: int) -> None:
        work[0] += records
        work[1] += size

    projector = Projector(log, folder, folded)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("projections.views.projector.RECORDS", 40)
        patch.setattr("projections.views.projector.TOGETHER", 1)
        while projector.step():
            if work[0] >= EVERY:
                copies.copy(folder / "views.sqlite", folder / copies.FOLDER, *work)
                work[:] = [0, 0]
    projector.close()
    yield Kept(log, folder)
    log.close()


@seeds(5, 2)
def test_views_from_a_copy_are_those_of_the_log_alone(kept: Kept, tmp_path: Path, seed: int) -> None:
    ends = kept.ends(random.Random(seed))
    begun: list[int] = []
    make_views.make(kept.log, kept.order(ends, tmp_path / "made.sqlite"), lambda done, of: begun.append(of))
    if copies.nearest(heads(kept.folder / copies.FOLDER), ends) is not None:
        assert begun[0] < sum(ends.values())
    made, fresh = tables.open_made(tmp_path / "made.sqlite"), rebuild(CutLog(kept.log, ends), tmp_path)
    assert dump(made) == dump(fresh)
    made.dispose()
    fresh.dispose()


def test_there_are_copies_all_along_and_each_is_whole(kept: Kept, tmp_path: Path) -> None:
    found = heads(kept.folder / copies.FOLDER)
    assert len(found) > 3
    for head in found:
        assert copies.begin_from(kept.folder / copies.FOLDER, head.positions, tmp_path / "copy")
        with closing(sqlite3.connect(tmp_path / "copy")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert dict(connection.execute("SELECT topic, position FROM positions")) == head.positions


def test_copies_of_another_log_or_format_are_not_used(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    written(played({**SCENARIO, "seed": 6}), other)
    shutil.copytree(kept.folder / copies.FOLDER, other / copies.FOLDER)
    with closing(EmbeddedLog.open_secondary(other / "log")) as log:
        ends = log.ends(topic.name for topic in ALL)
        order = Order(LogAddress(str(other), 0), ends, str(tmp_path / "made.sqlite"), str(other))
        begun: list[int] = []
        make_views.make(log, order, lambda done, of: begun.append(of))
        assert begun[0] < begun[-1] == sum(ends.values())
        made, fresh = tables.open_made(tmp_path / "made.sqlite"), rebuild(log, tmp_path)
        assert dump(made) == dump(fresh)
        made.dispose()
        fresh.dispose()
    monkeypatch.setattr(copies, "FORMAT", "of a later version")
    assert copies.nearest(heads(kept.folder / copies.FOLDER), ends) is None


def test_views_that_are_made_anew_are_copied_once_they_are_further(kept: Kept, tmp_path: Path) -> None:
    shutil.copytree(kept.folder / copies.FOLDER, tmp_path / copies.FOLDER)
    found = heads(tmp_path / copies.FOLDER)
    rebuild(CutLog(kept.log, found[2].positions), tmp_path).dispose()
    assert copies.copy(tmp_path / "views.sqlite", tmp_path / copies.FOLDER, 1, 1) is None
    assert heads(tmp_path / copies.FOLDER) == found


def test_copies_of_an_earlier_format_are_removed(kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(kept.folder / copies.FOLDER, tmp_path / copies.FOLDER)
    shutil.copyfile(kept.folder / "views.sqlite", tmp_path / "views.sqlite")
    monkeypatch.setattr(copies, "FORMAT", "of a later version")
    made = copies.copy(tmp_path / "views.sqlite", tmp_path / copies.FOLDER, 1, 1)
    assert made is not None
    assert heads(tmp_path / copies.FOLDER) == [made]
    assert len(made.numbers) == made.pages


def test_copies_keep_within_their_room(kept: Kept, tmp_path: Path) -> None:
    folder = tmp_path / copies.FOLDER
    shutil.copytree(kept.folder / copies.FOLDER, folder)
    newest = heads(folder)[-1]
    room = sum(size_of(folder, head) for head in heads(folder)) * 3 // 4
    copies.thin_out(folder, room)
    left = heads(folder)
    assert sum(size_of(folder, head) for head in left) <= room
    assert left[-1].number == newest.number
    assert len(left) > 1
    for head in left:
        assert copies.begin_from(folder, head.positions, tmp_path / "copy")


class Folder:
    """A folder of views with something that copies them, and a clock that only the test moves."""

    def __init__(self, kept: Kept, folder: Path, command: list[str]) -> None:
        shutil.copyfile(kept.folder / "views.sqlite", folder / "views.sqlite")
        self.folder, self.now, self.trouble = folder, 0.0, list[str]()
        self.copier = Copier(folder, 100, self.trouble.append, command, lambda: self.now)

    def until_done(self) -> None:
        deadline = time.monotonic() + 30
        while self.copier._process is not None:
            self.copier.folded(0, 0)
            Event().wait(0.01)
            assert time.monotonic() < deadline


def test_a_copy_is_made_after_so_many_records_where_large_ones_count_more(kept: Kept, tmp_path: Path) -> None:
    made = Folder(kept, tmp_path, COMMAND)
    made.copier.folded(99, 0)
    assert made.copier._process is None
    made.copier.folded(0, 100)
    made.until_done()
    [head] = heads(tmp_path / copies.FOLDER)
    assert (head.work, head.log_bytes, made.trouble) == (100, 100, [])


def test_a_copy_that_is_killed_is_told_of_and_made_later(kept: Kept, tmp_path: Path) -> None:
    made = Folder(kept, tmp_path, [sys.executable, "-c", "import sys; sys.stdin.read()"])
    made.copier.folded(100, 500)
    assert made.copier._process is not None
    os.kill(made.copier._process.pid, signal.SIGKILL)
    made.until_done()
    assert "were not copied: exit code -9; it is tried again" in made.trouble[0]
    made.copier._command = COMMAND
    made.copier.folded(1, 0)
    assert made.copier._process is None
    made.now += 61
    made.copier.folded(0, 0)
    made.until_done()
    [head] = heads(tmp_path / copies.FOLDER)
    assert (head.work, head.log_bytes) == (106, 500)
