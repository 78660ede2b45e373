"""Snapshots: a new owner reads only the tail; what doesn't fit is refused with the reason, and the older one taken."""

import json
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from fsspec.core import url_to_fs

from events.log.embedded import EmbeddedLog
from events.log.memory import MemoryLog
from events.log.object_store import Files
from events.log.port import LogFault, LogUnavailable, NewRecord
from events.topics import rounds_of
from processors.runtime.bootstrap import begin
from processors.runtime.replay import replay
from processors.runtime.snapshots import (
    MANIFEST,
    SnapshotFault,
    StoredSnapshot,
    put,
    restore,
    stage,
    stored,
    take,
    take_from,
    verify,
)
from processors.runtime.store import RocksStore
from tests.helpers.stored_cell import Counting, Toys, throw
from tests.helpers.toys import TOYS, Left

_names = count()


@pytest.fixture(params=["memory", "file", "folder"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return f"memory://snapshots-{next(_names)}"
    return f"file://{tmp_path}/kept/here" if request.param == "file" else str(tmp_path / "kept")


def snapshots(toys: Toys, url: str) -> None:
    for name, store in toys.stores.items():
        take(store, url, toys.log.cell, TOYS[name]())


@pytest.fixture
def two(log: EmbeddedLog, tmp_path: Path) -> "Two":
    """Two snapshots of `left`, an older and a newer one, in a folder; the process that took them is gone."""
    return Two(log, tmp_path)


class Two:
    def __init__(self, log: EmbeddedLog, tmp_path: Path) -> None:
        self.log = log
        self.url = str(tmp_path / "kept")
        self.fresh = tmp_path / "fresh" / "left"
        toys = Toys(log, tmp_path / "first")
        for first in (0, 10):
            throw(log, first, first + 10)
            toys.rest()
            snapshots(toys, self.url)
        toys.close()
        self.new, self.old = (each.manifest for each in stored(self.url, 0, "left"))
        assert self.new is not None
        assert self.old is not None
        self.path = tmp_path / "kept" / "cell-0" / "left" / f"round-{self.new.round:020d}"

    def takes_the_older(self) -> str:
        """Restores; the reason why the newer one was refused."""
        done = restore(self.url, self.log, Left(), self.fresh)
        assert done.manifest == self.old
        store = RocksStore(self.fresh)
        progress = store.progress()
        store.close()
        assert progress is not None
        assert progress.own.round == self.old.round
        assert [each.round for each in verify(self.url, self.log, "left") if each.fault] == [self.new.round]
        (reason,) = done.refused
        assert reason.startswith(f"round {self.new.round} is refused: ")
        return reason


def test_a_new_owner_takes_the_newest_snapshot_and_reads_only_the_tail(
    log: EmbeddedLog, url: str, tmp_path: Path
) -> None:
    toys = Toys(log, tmp_path / "first")
    for first in (0, 100):
        throw(log, first, first + 100)
        toys.rest()
        snapshots(toys, url)
    stood = {topic: log.bounds(topic)[1] for topic in ("paceline.jobs", *map(rounds_of, TOYS))}
    throw(log, 200, 215)
    toys.rest()
    hashes = toys.hashes()
    toys.close()
    counting = Counting(log)
    for name, make in TOYS.items():
        said = begin(counting, make(), tmp_path / "second" / name, url).notice
        assert f"{name} has no store here: the snapshot of round " in said
        assert begin(counting, make(), tmp_path / "second" / name, "nonsense://x") == (counting, "")
    assert counting.read == {rounds_of(name): 1 for name in TOYS}
    again = Toys(counting, tmp_path / "second")
    assert again.hashes() == hashes
    again.rest()
    # Each toy reads the tail of the facts and of the other's rounds twice: folding it, and as the owner from there on.
    tail = {topic: log.bounds(topic)[1] - stood[topic] for topic in stood}
    assert counting.read["paceline.jobs"] == 2 * tail["paceline.jobs"] == 30
    for name in TOYS:
        assert tail[rounds_of(name)] <= counting.read[rounds_of(name)] <= 4 * tail[rounds_of(name)]
        assert counting.read[rounds_of(name)] < stood[rounds_of(name)]
        assert replay(TOYS[name](), log).hash == again.drivers[name].fold.state.hash
    again.close()


def test_a_processor_takes_snapshots_while_it_works(log: EmbeddedLog, url: str, tmp_path: Path) -> None:
    toys = Toys(log, tmp_path / "live")
    rounds = []
    for first in range(0, 60, 20):
        throw(log, first, first + 20)
        toys.turns(2)
        assert toys.closed < first + 20, "it still has work to do"
        folder = stage(toys.stores["left"])
        rounds.append(toys.drivers["left"].fold.own.round)
        toys.turns(2)  # it goes on before the upload has begun
        assert put(folder, url, 0, Left()).round == rounds[-1]
        shutil.rmtree(folder)
    toys.rest()
    assert [each.round for each in verify(url, log, "left") if not each.fault] == rounds[::-1]
    assert sorted(path.name for path in (tmp_path / "live").iterdir()) == ["left", "right"]
    done = restore(url, log, Left(), tmp_path / "restored" / "left")
    assert done.manifest is not None
    store = RocksStore(tmp_path / "restored" / "left")
    progress = store.progress()
    assert progress is not None
    found = replay(Left(), MemoryPrefix(log, done.manifest.position))
    assert (found.hash, progress.own.round) == (progress.hash, rounds[-1])
    store.close()
    toys.close()


class MemoryPrefix(MemoryLog):
    """A log as it was when `left` had written so much."""

    def __init__(self, log: EmbeddedLog, left: int) -> None:
        super().__init__(lambda: 0)
        for topic in ("paceline.jobs", *map(rounds_of, TOYS)):
            records = [each for each in log.scan(topic, 0) if topic != rounds_of("left") or each.offset < left]
            self.topic(topic).records, self.topic(topic).end = records, len(records)


def test_a_store_is_taken_from_its_folder_while_another_process_has_it_open(
    log: EmbeddedLog, url: str, tmp_path: Path
) -> None:
    toys = Toys(log, tmp_path / "live")
    throw(log, 0, 50)
    toys.rest()
    taken = take_from(tmp_path / "live" / "left", url, 0, Left())
    assert (taken.round, taken.state_hash) == (
        toys.drivers["left"].fold.own.round,
        toys.drivers["left"].fold.state.hash.hex(),
    )
    toys.close()
    assert take_from(tmp_path / "live" / "left", url, 0, Left()).round == taken.round
    assert [each.fault for each in verify(url, log, "left")] == [""]
    with pytest.raises(SnapshotFault, match="can't be read"):
        take_from(tmp_path / "live" / "nothing", url, 0, Left())


def test_a_flipped_byte_is_found_in_every_file(two: Two) -> None:
    for file in two.new.files:
        path = two.path / file.hash
        whole = path.read_bytes()
        if whole:
            path.write_bytes(whole[: file.size // 2] + bytes([whole[file.size // 2] ^ 1]) + whole[file.size // 2 + 1 :])
            assert "has another hash than its manifest says" in two.takes_the_older()
            path.write_bytes(whole[:-1])
            assert "has another hash than its manifest says" in two.takes_the_older()
            path.write_bytes(whole)
    assert restore(two.url, two.log, Left(), two.fresh).manifest == two.new


@pytest.mark.parametrize(
    "field", ["round", "epoch", "position", "inputs", "now", "state", "state_hash", "round_hash", "files"]
)
def test_a_manifest_that_was_changed_is_refused(two: Two, field: str) -> None:
    path = two.path / MANIFEST
    fields = json.loads(path.read_text())
    value = fields[field]
    match value:
        case int():
            fields[field] += 1
        case str():
            fields[field] = value.replace(value[0], "f" if value[0] != "f" else "e")
        case dict():
            fields[field]["paceline.jobs"] -= 1
        case list():
            fields[field][0]["size"] += 1
    path.write_text(json.dumps(fields))
    two.takes_the_older()


def test_a_missing_file_is_named(two: Two) -> None:
    gone = max(two.new.files, key=lambda file: file.size)
    (two.path / gone.hash).unlink()
    assert f"its file {gone.name} is missing" in two.takes_the_older()


def test_a_snapshot_whose_upload_did_not_end_does_not_count(two: Two) -> None:
    (two.path / MANIFEST).unlink()
    assert "it was not uploaded to its end" in two.takes_the_older()


def test_a_crash_before_the_manifest_leaves_the_older_one(
    log: EmbeddedLog, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toys = Toys(log, tmp_path / "first")
    throw(log, 0, 10)
    toys.rest()
    older = take(toys.stores["left"], url, 0, Left())
    throw(log, 10, 20)
    toys.rest()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr("events.log.object_store.Files.write", crash)
        with pytest.raises(KeyboardInterrupt):
            take(toys.stores["left"], url, 0, Left())
    newest = next(stored(url, 0, "left"))
    assert (newest.manifest, "not uploaded to its end" in newest.fault) == (None, True)
    assert restore(url, log, Left(), tmp_path / "second" / "left").manifest == older
    again = take(toys.stores["left"], url, 0, Left())
    assert again.round == newest.round
    assert restore(url, log, Left(), tmp_path / "second" / "left").manifest == again
    toys.close()


def changed(two: Two, change: Callable[[str], str]) -> None:
    manifest = two.path / MANIFEST
    text = manifest.read_text()
    assert change(text) != text
    manifest.write_text(change(text))


def test_the_snapshot_of_another_cell_or_machine_is_refused(two: Two) -> None:
    changed(two, lambda text: text.replace('"cell": 0', '"cell": 3'))
    assert "it is of left of cell 3" in two.takes_the_older()
    shutil.rmtree(two.path)
    right = next(stored(two.url, 0, "right"))
    place = right.path.removeprefix(two.url + "/")
    shutil.copytree(Path(two.url) / place, two.path)
    assert "it is of right of cell 0" in two.takes_the_older()


def test_a_newer_format_is_refused_and_so_are_rows_of_another_format(two: Two, tmp_path: Path) -> None:
    changed(two, lambda text: text.replace('"format": 1', '"format": 2'))
    assert "it has format 2, which a newer Paceline reads" in two.takes_the_older()
    newer = type("Newer", (Left,), {"state": 2, "name": "left", "peers": ("right",)})
    done = restore(two.url, two.log, newer(), tmp_path / "other" / "left")
    assert done.manifest is None
    assert "its rows have format 1, which this build, with 2, can't convert" in done.refused[1]
    assert not (tmp_path / "other" / "left").exists()


def test_rows_that_do_not_hash_to_their_round_are_refused(two: Two, tmp_path: Path) -> None:
    """Every file is what the manifest says, but a row was changed before the upload."""
    store = RocksStore(tmp_path / "first" / "left")
    progress, row = store.progress(), next(store.rows())
    assert progress is not None
    store.commit([row._replace(row=b"\x92\x01\x00")], progress)
    with pytest.raises(SnapshotFault, match="don't hash"):
        take(store, two.url, 0, Left())
    honest = "processors.runtime.snapshots.hash_rows"
    with pytest.MonkeyPatch.context() as lied:
        lied.setattr(honest, lambda rows: progress.hash)
        take(store, two.url, 0, Left())
    store.close()
    assert "don't hash to its round" in two.takes_the_older()


def test_a_round_that_is_not_in_the_log_is_refused(two: Two, tmp_path: Path) -> None:
    other = EmbeddedLog(tmp_path / "other log")
    for topic in ("paceline.jobs", *map(rounds_of, TOYS)):
        records = list(two.log.scan(topic, 0))
        if topic == rounds_of("left"):  # its last round was lost, and another was written in its place
            records[-1] = records[-1]._replace(key=b"", value=b"another")
        other.append([NewRecord(topic, each.key, each.value) for each in records])
    two.log = other
    assert f"its round {two.new.round} is not what the log has at paceline.left" in two.takes_the_older()
    other.close()


def test_a_log_that_ends_before_the_snapshot_or_starts_after_what_it_needs_is_named(two: Two, tmp_path: Path) -> None:
    short = EmbeddedLog(tmp_path / "short log")
    for topic in ("paceline.jobs", *map(rounds_of, TOYS)):
        records = [each for each in two.log.scan(topic, 0) if each.offset < two.old.needs()[topic] + 1]
        short.append([NewRecord(topic, each.key, each.value) for each in records])
    whole, two.log = two.log, short
    assert "and the log has 0 to" in two.takes_the_older()
    short.close()
    whole.truncate("paceline.jobs", whole.bounds("paceline.jobs")[1])
    done = restore(two.url, whole, Left(), two.fresh)
    assert done.manifest == two.new
    whole.truncate(rounds_of("left"), whole.bounds(rounds_of("left"))[1])
    done = restore(two.url, whole, Left(), two.fresh)
    assert done.manifest is None
    assert all("it needs offset" in reason for reason in done.refused)


def test_a_store_that_the_log_no_longer_reaches_back_to_gives_way_to_a_snapshot(two: Two, tmp_path: Path) -> None:
    log, behind = two.log, tmp_path / "behind" / "left"
    shutil.rmtree(two.path)
    restore(two.url, log, Left(), behind)
    toys = Toys(log, tmp_path / "first")
    throw(log, 20, 30)
    toys.rest()
    taken = take(toys.stores["left"], two.url, 0, Left())
    toys.close()
    log.truncate("paceline.jobs", taken.inputs["paceline.jobs"])
    said = begin(log, Left(), behind, two.url).notice
    assert said.startswith("the store of left is further behind: the snapshot of ")


def test_without_a_good_snapshot_the_history_is_folded_from_its_start(two: Two, tmp_path: Path) -> None:
    found = begin(two.log, Left(), two.fresh, str(tmp_path / "empty"))
    assert found == (
        two.log,
        f"left has no store here, and {tmp_path / 'empty'} has no good snapshot: it is made from the log",
    )
    assert not two.fresh.exists()


def test_a_place_that_cannot_be_reached_stops_nobody(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = type(url_to_fs("memory://")[0])

    def away(*_: object, **__: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(fs, "ls", away)
    said = begin(two.log, Left(), two.fresh, "memory://away").notice
    assert "no snapshot was taken: memory://away can't be used now: no route to host" in said
    with pytest.raises(LogUnavailable):
        list(verify("memory://away", two.log, "left"))


def test_what_cannot_be_removed_stays_and_the_snapshot_counts(
    log: EmbeddedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(files: Files, path: str) -> None:
        raise LogUnavailable("AccessDenied")

    monkeypatch.setattr(Files, "remove", refuse)
    toys = Toys(log, tmp_path / "first")
    for first in range(0, 50, 10):
        throw(log, first, first + 10)
        toys.rest()
        snapshots(toys, str(tmp_path / "kept"))
    toys.close()
    assert len([each for each in verify(str(tmp_path / "kept"), log, "left") if not each.fault]) == 5


def test_a_bucket_that_is_not_there_is_named_to_who_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError("The specified bucket does not exist")  # what s3fs makes of it

    fs = type(url_to_fs("memory://")[0])
    monkeypatch.setattr(fs, "pipe_file", missing)
    monkeypatch.setattr(fs, "put_file", missing)
    with pytest.raises(LogUnavailable, match="memory://none can't be used now: The specified bucket does not exist"):
        Files("memory://none").write("manifest", b"")
    with pytest.raises(LogUnavailable, match="does not exist"):
        Files("memory://none").put(Path(__file__), "file")


def test_a_place_that_nobody_knows_is_named() -> None:
    with pytest.raises(LogFault, match=r"pip install 'paceline\[s3\]'"):
        stored("gs://bucket/snapshots", 0, "left")  # a store whose driver isn't installed
    with pytest.raises(LogFault, match="Name a folder"):
        stored("nonsense://x", 0, "left")


def test_a_store_without_a_round_gives_no_snapshot(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "left")
    with pytest.raises(SnapshotFault, match="no round yet"):
        take(store, str(tmp_path / "kept"), 0, Left())
    store.close()
    found: list[StoredSnapshot] = list(stored(str(tmp_path / "kept"), 0, "left"))
    assert found == []
