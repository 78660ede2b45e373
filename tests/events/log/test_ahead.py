"""Who reads ahead of the disk, and who doesn't."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from events.log.ahead import BEHIND_S, AheadLog
from events.log.embedded import EmbeddedLog
from events.log.port import AppendUnknown, LogFault
from tests.events.log.contract import A, B, LogContract, Subject, new, numbers, read, values
from tests.events.log.test_embedded import SlowDisk


class TestAhead(LogContract):
    """All but durability, which comes with `settle`."""

    @pytest.fixture
    def subject(self, tmp_path: Path) -> Iterator[Subject]:
        log = EmbeddedLog(tmp_path / "log")
        ahead = AheadLog(log)

        def truncate(topic: str, start: int) -> None:
            ahead.sync()
            log.truncate(topic, start)

        yield Subject(ahead, truncate)
        log.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    log = EmbeddedLog(tmp_path / "log")
    yield log
    log.close()


def test_nobody_else_reads_what_the_disk_does_not_have(log: EmbeddedLog) -> None:
    log.append(new(A, b"0"))
    ahead = AheadLog(log)
    mine, theirs = ahead.reader({A: 0, B: 0}), log.reader({A: 0, B: 0})
    assert ahead.append([*new(A, b"1"), *new(B, b"b")]) == [1, 0]
    assert ahead.append(new(A, b"2")) == [2]
    mark = ahead.mark()
    assert sorted(values(read(mine, 4))) == [b"0", b"1", b"2", b"b"]
    assert values(read(theirs, 1)) == [b"0"]
    assert (theirs.poll(10, 0), theirs.news(), log.bounds(A), log.bounds(B)) == ([], False, (0, 1), (0, 0))
    assert (ahead.ends([A]), mine.ends(), theirs.ends()) == ({A: 3}, {A: 3, B: 1}, {A: 1, B: 0})
    assert not ahead.is_durable(mark)
    assert ahead.settle(idle=True)
    assert ahead.is_durable(mark)
    assert not ahead.settle(idle=True), "there is nothing left to do"
    assert values(read(theirs, 3)) in ([b"1", b"2", b"b"], [b"b", b"1", b"2"])
    assert not mine.news()


def test_another_process_reads_what_a_loss_of_power_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: dict[str, int] = {}

    def fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        lengths[path.name] = path.stat().st_size

    log = EmbeddedLog(tmp_path / "log")
    log.append(new(A, b"0"))
    ahead = AheadLog(log)
    ahead.append(new(A, b"1"))
    monkeypatch.setattr(os, "fsync", fsync)
    aside = EmbeddedLog.open_secondary(tmp_path / "log")
    for end in (2, 3):
        assert aside.bounds(A) == (0, end)
        shutil.copytree(tmp_path / "log", copy := tmp_path / f"lost-{end}")
        for path in copy.glob("*.log"):
            with path.open("r+b") as file:
                file.truncate(lengths.get(path.name, 0))
        left = EmbeddedLog(copy)
        assert values(list(left.scan(A, 0))) == numbers(0, end)
        left.close()
        ahead.append(new(A, b"%d" % end))
    aside.close()
    log.close()


def test_who_is_woken_by_a_sync_finds_it_done(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = AheadLog(log)
    found: list[bool] = []
    monkeypatch.setattr(log._news, "notify_all", lambda: found.append(ahead.is_durable(1)))
    log.append(new(A, b"0"))
    assert found == [True]


def test_another_append_makes_all_before_it_durable(log: EmbeddedLog) -> None:
    ahead = AheadLog(log)
    ahead.append(new(A, b"0"))
    mark = ahead.mark()
    assert log.append(new(A, b"1")) == [1]
    assert ahead.is_durable(mark)
    assert values(list(log.scan(A, 0))) == [b"0", b"1"]


def test_the_disk_is_never_far_behind(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr("events.log.ahead.time.monotonic", lambda: now_s)
    ahead = AheadLog(log)
    ahead.append(new(A, b"0"))
    now_s += BEHIND_S / 2
    ahead.append(new(A, b"1"))
    assert not ahead.settle(idle=False), "more is to be done, which may share a sync"
    now_s += BEHIND_S
    assert ahead.settle(idle=False)
    assert log.bounds(A) == (0, 2)


def test_records_that_left_the_memory_are_read_ahead(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("events.log.tail_cache.KEPT_BYTES", 1)
    ahead = AheadLog(log)
    reader = ahead.reader({A: 0})
    for number in range(20):
        ahead.append(new(A, b"%d" % number))
    assert values(read(reader, 20, limit=3)) == numbers(0, 20)
    assert log.reader({A: 0}).poll(10, 0) == []


def test_after_a_failed_sync_nothing_more_is_taken(log: EmbeddedLog) -> None:
    db = log._db
    log._db = disk = SlowDisk(db, "the disk is gone")  # type: ignore[assignment]
    disk.goes_on.release()
    ahead = AheadLog(log)
    ahead.append(new(A, b"0"))
    with pytest.raises(AppendUnknown, match="the disk is gone"):
        ahead.settle(idle=True)
    with pytest.raises(LogFault, match="the disk is gone"):
        ahead.append(new(A, b"1"))
    assert log.bounds(A) == (0, 0)
    log._db = db
