"""The embedded log beyond the contract: crashes, a full disk, other processes, its memory."""

import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from events.log import embedded, tail_cache
from events.log.embedded import EmbeddedLog
from events.log.port import AppendUnknown, LogFault, LogUnavailable
from tests.events.log.contract import PATIENCE, A, B, new, numbers, read, values
from tests.events.log.writer import BATCH, REFUSED, batch

WRITER = (sys.executable, "-m", "tests.events.log.writer")


def check_whole_batches(log: EmbeddedLog) -> int:
    """The end of A, which must hold a prefix of all batches, each whole, in step with B."""
    start, end = log.bounds(A)
    assert (start, end % BATCH) == (0, 0)
    found = list(log.scan(A, 0))
    assert [record.offset for record in found] == list(range(end))
    for first in range(0, end, BATCH):
        assert values(found[first : first + BATCH]) == [record.value for record in batch(first)[:BATCH]]
    assert values(list(log.scan(B, 0))) == [b"%d" % first for first in range(0, end, BATCH)]
    return end


def test_what_was_acknowledged_survives_kill_9_and_nothing_is_torn(tmp_path: Path) -> None:
    draw = random.Random(1)
    folder = tmp_path / "log"
    acknowledged = -BATCH
    for _ in range(6):
        writer = subprocess.Popen([*WRITER, str(folder)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        for _ in range(draw.randrange(1, 120)):
            acknowledged = int(writer.stdout.readline())
        writer.kill()
        acknowledged = max([acknowledged, *map(int, writer.stdout.read().splitlines())])
        writer.wait()
        log = EmbeddedLog(folder)
        assert check_whole_batches(log) >= acknowledged + BATCH
        log.close()


def test_a_log_cut_at_any_byte_opens_as_a_prefix_of_whole_batches(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    log = EmbeddedLog(folder)
    for first in range(0, 10 * BATCH, BATCH):
        log.append(batch(first))
    shutil.copytree(folder, tmp_path / "as killed")
    log.close()
    written = max((tmp_path / "as killed").glob("*.log"), key=lambda path: path.stat().st_size)
    size = written.stat().st_size
    draw = random.Random(2)
    ends = []
    for cut in sorted([size, 0, *(draw.randrange(size) for _ in range(30))]):
        copy = tmp_path / f"cut at {cut}"
        shutil.copytree(tmp_path / "as killed", copy)
        os.truncate(copy / written.name, cut)
        torn = EmbeddedLog(copy)
        ends.append(check_whole_batches(torn))
        torn.append(batch(ends[-1]))
        check_whole_batches(torn)
        torn.close()
    assert ends == sorted(ends)
    assert (ends[0], ends[-1]) == (0, 10 * BATCH)


def test_the_last_record_torn_at_each_byte_is_there_or_not(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    log = EmbeddedLog(folder)
    log.append(new(A, b"first"))
    written = max(folder.glob("*.log"), key=lambda path: path.stat().st_size)
    begin = written.stat().st_size
    log.append(new(A, b"last"))
    shutil.copytree(folder, tmp_path / "as killed")
    end = written.stat().st_size
    log.close()
    assert begin < end
    for cut in range(begin, end + 1):
        copy = tmp_path / f"cut at {cut}"
        shutil.copytree(tmp_path / "as killed", copy)
        os.truncate(copy / written.name, cut)
        torn = EmbeddedLog(copy)
        assert values(list(torn.scan(A, 0))) == ([b"first", b"last"] if cut == end else [b"first"]), cut
        assert torn.append(new(A, b"next")) == [1 + (cut == end)]
        torn.close()


def test_an_append_is_on_the_disk_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = embedded.options()
    counted.enable_statistics()
    monkeypatch.setattr(embedded, "options", lambda: counted)
    log = EmbeddedLog(tmp_path)

    def syncs() -> int:
        return int(re.search(r"^rocksdb\.wal\.synced COUNT : (\d+)", counted.get_statistics() or "", re.M)[1])  # type: ignore[index]

    for number in range(1, 6):
        log.append([*new(A, b"a", b"b"), *new(B, b"c")])
        assert syncs() == number, "one for the whole batch"
    log.truncate(A, 3)
    assert syncs() == 6
    log.close()


def test_a_log_goes_on_where_it_was_closed(tmp_path: Path) -> None:
    clock = iter([5000, 4000, 3000])
    log = EmbeddedLog(tmp_path, now_ms=lambda: next(clock))
    log.append(new(A, b"0", b"1"))
    log.truncate(A, 1)
    log.close()
    again = EmbeddedLog(tmp_path, now_ms=lambda: next(clock))
    assert again.bounds(A) == (1, 2)
    assert again.append(new(A, b"2")) == [2]
    assert again.append(new(B, b"b")) == [0]
    assert [record.at_ms for record in again.scan(A, 1)] == [5000, 5000]
    again.close()
    with pytest.raises(LogFault, match="closed"):
        again.append(new(A, b"3"))


def test_a_second_process_is_refused_and_told_why(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path)
    open_it = "import pathlib, sys; from events.log.embedded import EmbeddedLog; EmbeddedLog(pathlib.Path(sys.argv[1]))"
    other = subprocess.run([sys.executable, "-c", open_it, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "LogFault" in other.stderr
    assert "in use by another process" in other.stderr
    with pytest.raises(LogFault, match="in use"):
        EmbeddedLog(tmp_path)
    log.append(new(A, b"still mine"))
    log.close()
    assert subprocess.run([sys.executable, "-c", open_it, str(tmp_path)], check=False).returncode == 0


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    EmbeddedLog(tmp_path).close()
    database = Rdict(str(tmp_path), Options(raw_mode=True))
    database[b"\0format"] = b"2"
    database.close()
    for _ in range(2):  # the first refusal must not keep the folder locked
        with pytest.raises(LogFault, match="newer version"):
            EmbeddedLog(tmp_path)
    with pytest.raises(LogFault, match="newer version"):
        EmbeddedLog.open_secondary(tmp_path)


def test_a_folder_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(LogFault, match="can't be made"):
        EmbeddedLog(tmp_path / "file" / "log")


def test_a_full_disk_refuses_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    log = EmbeddedLog(tmp_path, on_trouble=said.append)
    log.append(new(A, b"0"))
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: usage._replace(free=embedded.FREE_BYTES_MIN - 1))
        for _ in range(2):
            with pytest.raises(LogUnavailable, match="make room"):
                log.append(new(A, b"1"))
        with pytest.raises(LogFault, match="make room"):
            EmbeddedLog(tmp_path / "another")
    assert log.append(new(A, b"2")) == [1]
    disk = f"The disk of {tmp_path} has"
    assert said == [f"{disk} less than 64 MiB free: make room there.", f"{disk} room again."]
    assert values(list(log.scan(A, 0))) == [b"0", b"2"]
    log.close()


def test_after_a_failed_write_nothing_more_is_taken_and_the_log_reopens(tmp_path: Path) -> None:
    done = subprocess.run([*WRITER, str(tmp_path), "100000"], capture_output=True, text=True, check=False)
    assert done.returncode == REFUSED, done.stderr
    log = EmbeddedLog(tmp_path)
    assert check_whole_batches(log) >= int(done.stdout.splitlines()[-1]) > 0
    log.close()


class SlowDisk:
    """A database whose disk works until it is let go on; it counts how often."""

    def __init__(self, db: Rdict, error: str = "") -> None:
        self._db, self._error = db, error
        self.goes_on = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)
        self.syncs = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def flush_wal(self, sync: bool) -> None:
        self.syncs += 1
        self.begun.release()
        assert self.goes_on.acquire(timeout=20)
        if self._error:
            raise RuntimeError(self._error)
        self._db.flush_wal(sync)


@pytest.mark.parametrize("error", ["", "the disk is gone"])
def test_what_is_appended_while_the_disk_works_is_synced_together(tmp_path: Path, error: str) -> None:
    log = EmbeddedLog(tmp_path)
    log._db = disk = SlowDisk(log._db, error)  # type: ignore[assignment]
    with ThreadPoolExecutor(9) as threads:
        first = threads.submit(log.append, new(A, b"first"))
        assert disk.begun.acquire(timeout=20)
        others = [threads.submit(log.append, new(A, b"%d" % number)) for number in range(8)]
        while log.written < 9:
            time.sleep(0.001)
        assert log.bounds(A) == (0, 0), "nobody reads what isn't synced"
        disk.goes_on.release(2)
        errors = [each.exception(timeout=20) for each in (first, *others)]
    if error:
        assert {type(each) for each in errors} == {AppendUnknown}
        assert disk.syncs == 1
        with pytest.raises(LogFault, match=error):
            log.append(new(A, b"more"))
        assert log.bounds(A) == (0, 0)
    else:
        assert disk.syncs == 2
        assert sorted(each.result()[0] for each in (first, *others)) == list(range(9))
        assert values(list(log.scan(A, 0)))[0] == b"first"
        assert sorted(values(list(log.scan(A, 0)))[1:]) == numbers(0, 8)
    disk.goes_on.release(2)
    log.close()


def test_another_process_reads_along(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path)
    log.append(new(A, *numbers(0, 3)))
    aside = EmbeddedLog.open_secondary(tmp_path)
    assert aside.bounds(A) == (0, 3)
    reader = aside.reader({A: 0, B: 0})
    assert values(read(reader, 3)) == numbers(0, 3)
    log.append([*new(A, b"3"), *new(B, b"b")])
    assert values(read(reader, 2)) == [b"3", b"b"]
    with pytest.raises(LogFault, match="reading only"):
        aside.append(new(A, b"no"))
    log.truncate(A, 2)
    assert aside.bounds(A) == (2, 4)
    log.close()
    assert values(list(aside.scan(A, 2))) == [b"2", b"3"]
    again = EmbeddedLog(tmp_path)
    again.append(new(A, b"4"))
    assert values(read(reader, 1)) == [b"4"]
    reader.close()
    aside.close()
    again.close()


def test_a_log_is_read_when_no_cell_runs_and_stays_as_it_is(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log")
    log.append(new(A, *numbers(0, 100)))
    log.close()
    before = sorted(path.name for path in (tmp_path / "log").iterdir())
    aside = EmbeddedLog.open_secondary(tmp_path / "log")
    assert values(list(aside.scan(A, 90))) == numbers(90, 100)
    aside.close()
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == before
    with pytest.raises(LogFault, match="There is no log"):
        EmbeddedLog.open_secondary(tmp_path / "none")


def test_readers_that_fall_behind_the_memory_miss_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_cache, "KEPT_BYTES", 2000)
    log = EmbeddedLog(tmp_path)
    slow, fast = log.reader({A: 0}), log.reader({A: 0})
    for number in range(300):
        log.append(new(A, b"%d" % number))
        if number % 7 == 0:
            fast.poll(100, 0)
    assert fast.position(A) == 295
    assert values(read(slow, 300, limit=13)) == numbers(0, 300)
    assert values(read(fast, 5)) == numbers(295, 300)
    log.close()


def test_one_wait_per_thread_ends_with_an_append(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path)
    log.append(new(A, b"0"))
    log.wait(PATIENCE)  # what came before the first wait counts
    ready, woken = threading.Barrier(3), []

    def waits() -> None:
        log.wait(PATIENCE)
        ready.wait()
        log.wait(PATIENCE)
        woken.append(log.bounds(A)[1])

    threads = [threading.Thread(target=waits) for _ in range(2)]
    for thread in threads:
        thread.start()
    ready.wait()
    log.append(new(A, b"1"))
    for thread in threads:
        thread.join(PATIENCE / 2)
    assert woken == [2, 2]
    log.close()
