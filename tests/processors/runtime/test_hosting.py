"""A machine that is hosted: snapshots while it works, and what it begins from where its store is gone."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from events.log.archive import archive, remove
from events.log.embedded import EmbeddedLog
from events.log.port import LogUnavailable
from events.topics import rounds_of
from processors.runtime.bootstrap import begin
from processors.runtime.snapshots import KEPT_SNAPSHOTS, SnapshotFault, stored, verify
from processors.runtime.snapshotter import Snapshotter
from processors.runtime.store import RocksStore
from tests.helpers.stored_cell import JOBS, Toys, throw
from tests.helpers.toys import TOYS, Left

EVERY = 30


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "kept")


class Kept:
    """Both toys at work, with a keeper for `left`."""

    def __init__(self, log: EmbeddedLog, url: str, folder: Path) -> None:
        self.said: list[str] = []
        self.toys = Toys(log, folder)
        self.keeper = Snapshotter(url, 0, Left(), EVERY, self.said.append)

    def look(self) -> None:
        self.keeper.check(self.toys.stores["left"], self.toys.drivers["left"].fold.own)

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < deadline, self.said
            self.look()
            time.sleep(0.005)

    def work(self, first: int, end: int) -> int:
        """Takes facts, then waits for the snapshot that is due; its round."""
        throw(self.toys.log, first, end)
        self.toys.rest()
        before, own = self.keeper.round, self.toys.drivers["left"].fold.own
        self.until(lambda: self.keeper.round > before)
        assert self.keeper.round == own.round
        return own.round

    def idle(self) -> bool:
        return self.keeper._thread is None or not self.keeper._thread.is_alive()


def rounds(url: str) -> list[int]:
    return [each.round for each in stored(url, 0, "left")]


def test_a_machine_at_work_keeps_its_last_few_snapshots(log: EmbeddedLog, url: str, tmp_path: Path) -> None:
    kept = Kept(log, url, tmp_path / "live")
    made = [kept.work(first, first + EVERY) for first in range(0, 5 * EVERY, EVERY)]
    assert rounds(url) == made[-1 : -KEPT_SNAPSHOTS - 1 : -1]
    assert [each.fault for each in verify(url, log, "left")] == [""] * KEPT_SNAPSHOTS
    assert kept.said == []
    kept.until(kept.idle)
    assert sorted(path.name for path in (tmp_path / "live").iterdir()) == ["left", "right"]
    kept.toys.close()


def test_a_store_that_has_no_round_yet_is_no_trouble(log: EmbeddedLog, url: str, tmp_path: Path) -> None:
    kept = Kept(log, url, tmp_path / "live")
    kept.toys.rest()
    (tmp_path / "new").mkdir()
    store = RocksStore(tmp_path / "new" / "left")
    own = msgspec.structs.replace(kept.toys.drivers["left"].fold.own, position=EVERY)
    for _ in range(3):
        kept.keeper.check(store, own)
        kept.until(kept.idle)
    store.close()
    kept.work(0, EVERY)
    assert kept.said == []
    kept.toys.close()


def test_none_is_taken_before_enough_has_happened_not_even_after_a_restart(
    log: EmbeddedLog, url: str, tmp_path: Path
) -> None:
    kept = Kept(log, url, tmp_path / "live")
    first = kept.work(0, EVERY)
    kept.toys.close()
    again = Kept(log, url, tmp_path / "live")
    throw(log, EVERY, EVERY + 1)
    again.toys.rest()
    again.until(lambda: again.keeper.round == first)
    for _ in range(100):
        again.look()
        assert again.idle()
    assert rounds(url) == [first]
    again.work(EVERY + 1, 2 * EVERY)
    assert len(rounds(url)) == 2
    again.toys.close()


def test_a_place_that_cannot_be_reached_is_said_and_the_machine_goes_on(
    log: EmbeddedLog, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("processors.runtime.snapshotter.RETRY_S", 0.01)
    kept = Kept(log, url, tmp_path / "live")
    put = "events.log.object_store.Files.put"
    with monkeypatch.context() as away:
        away.setattr(put, lambda *_: (_ for _ in ()).throw(LogUnavailable("no route to host")))
        throw(log, 0, EVERY)
        kept.toys.rest()
        kept.until(lambda: len(kept.said) > 1)
    assert set(kept.said) == {"no snapshot could be taken: no route to host"}
    kept.work(EVERY, 2 * EVERY)
    kept.toys.close()


def test_a_store_that_is_closed_meanwhile_gives_no_snapshot_and_no_harm(
    log: EmbeddedLog, url: str, tmp_path: Path
) -> None:
    kept = Kept(log, url, tmp_path / "live")
    kept.work(0, EVERY)
    throw(log, EVERY, 2 * EVERY)
    kept.toys.rest()
    kept.until(kept.idle)
    kept.toys.close()
    kept.until(lambda: bool(kept.said))
    assert "can't be written" in kept.said[0]
    assert len(rounds(url)) == 1


class Cut:
    """The log of `left` begins where its one snapshot needs it; its store is gone."""

    def __init__(self, log: EmbeddedLog, tmp_path: Path) -> None:
        self.log, self.snapshots, self.archive = log, str(tmp_path / "kept"), str(tmp_path / "archive")
        self.folder = tmp_path / "second" / "left"
        kept = Kept(log, self.snapshots, tmp_path / "first")
        self.round = kept.work(0, EVERY)
        throw(log, EVERY, EVERY + 5)
        kept.toys.rest()
        self.hash = kept.toys.hashes()["left"]
        kept.toys.close()
        manifest = next(stored(self.snapshots, 0, "left")).manifest
        assert manifest is not None
        for topic, position in manifest.needs().items():
            archive(log, self.archive, topic, position)
            remove(log, self.archive, topic, position)
        assert log.bounds(JOBS)[0] == EVERY

    def spoil(self) -> None:
        """A bit of the snapshot rots."""
        files = [path for path in Path(self.snapshots).rglob("*") if path.is_file() and path.suffix != ".json"]
        largest = max(files, key=lambda path: path.stat().st_size)
        data = largest.read_bytes()
        largest.write_bytes(bytes([data[0] ^ 1]) + data[1:])


@pytest.fixture
def cut(log: EmbeddedLog, tmp_path: Path) -> Cut:
    return Cut(log, tmp_path)


def test_where_the_log_was_cut_the_snapshot_is_enough(cut: Cut) -> None:
    found = begin(cut.log, Left(), cut.folder, cut.snapshots)
    assert found == (
        cut.log,
        f"left has no store here: the snapshot of round {cut.round} in {cut.snapshots} was taken",
    )


def test_where_no_snapshot_is_good_the_archive_is_read(cut: Cut, tmp_path: Path) -> None:
    cut.spoil()
    found = begin(cut.log, Left(), cut.folder, cut.snapshots, cut.archive)
    assert f"round {cut.round} is refused: its file" in found.notice
    assert f"it is made from the archive in {cut.archive} and the log" in found.notice
    # `right` reads as far back as `left` does
    toys = Toys(found.log, tmp_path / "second")
    assert toys.hashes()["left"] == cut.hash
    toys.close()


def test_where_nobody_reaches_back_all_that_is_missing_is_said(cut: Cut, tmp_path: Path) -> None:
    cut.spoil()
    with pytest.raises(SnapshotFault) as fault:
        begin(cut.log, Left(), cut.folder, cut.snapshots)
    said = str(fault.value)
    assert said.startswith(f"{JOBS} starts at {EVERY}, offset 0 is needed, and left has no store here, and ")
    assert f"round {cut.round} is refused: its file" in said
    assert "PACELINE_ARCHIVE" in said
    with pytest.raises(SnapshotFault, match=f"with its archive in {tmp_path}/none, and left has no store here"):
        begin(cut.log, Left(), cut.folder, "", str(tmp_path / "none"))
    with pytest.raises(SnapshotFault, match="no snapshot location is set"):
        begin(cut.log, Left(), cut.folder)
    assert not cut.folder.exists()


def test_where_the_place_of_the_needed_snapshot_is_away_it_is_waited_for(
    cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as away:
        away.setattr("events.log.object_store.Files.names", lambda *_: (_ for _ in ()).throw(LogUnavailable("away")))
        with pytest.raises(LogUnavailable):
            begin(cut.log, Left(), cut.folder, cut.snapshots)
    assert "was taken" in begin(cut.log, Left(), cut.folder, cut.snapshots).notice


def test_a_store_that_is_behind_the_log_goes_on_from_the_archive(cut: Cut, tmp_path: Path) -> None:
    begin(cut.log, Left(), cut.folder, cut.snapshots)
    for topic in (JOBS, *map(rounds_of, TOYS)):
        end = cut.log.bounds(topic)[1]
        archive(cut.log, cut.archive, topic, end)
        remove(cut.log, cut.archive, topic, end)
    shutil.rmtree(cut.snapshots)
    found = begin(cut.log, Left(), cut.folder, cut.snapshots, cut.archive)
    assert found.notice.startswith("the store of left is further behind, and ")
    toys = Toys(found.log, tmp_path / "second")
    assert toys.hashes()["left"] == cut.hash
    toys.close()
