"""What every store of a machine promises."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from events.acceptance import Chain
from processors.runtime.store import MemoryStore, Progress, RocksStore, Store, StoreFault
from processors.state.table import RowChange

Open = Callable[[], Store]


def at(number: int) -> Progress:
    own = Chain(epoch=1, round=number, hash=bytes([number]) * 32, position=number + 1, inputs={"paceline.jobs": number})
    return Progress(own, {"paceline.jobs": number, "paceline.hosts": 7}, 1000 + number, 1, bytes([number]) * 32)


def rows(store: Store) -> dict[tuple[str, bytes], bytes | None]:
    return {(table, key): row for table, key, row in store.rows()}


@pytest.fixture(params=["memory", "rocks"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the same store each time, as a process that starts again does."""
    if request.param == "rocks":
        return lambda: RocksStore(tmp_path / "store" / "placement")
    held = MemoryStore()
    return lambda: held


def test_a_new_store_holds_nothing(open_store: Open) -> None:
    store = open_store()
    assert store.progress() is None
    assert rows(store) == {}
    store.close()


def test_what_was_written_is_read_at_once_and_by_the_next_opener(open_store: Open) -> None:
    written = {("jobs", b"\xa1a"): b"row", ("jobs", b"\0\0"): b"", ("tasks", b"\xa1a"): bytes(range(256)) * 100}
    store = open_store()
    store.commit([RowChange(table, key, row) for (table, key), row in written.items()], at(1))
    assert rows(store) == written
    assert store.progress() == at(1)
    store.close()
    again = open_store()
    assert rows(again) == written
    assert again.progress() == at(1)
    again.close()


def test_later_rows_replace_earlier_ones_and_none_removes(open_store: Open) -> None:
    store = open_store()
    store.commit([RowChange("jobs", b"a", b"1"), RowChange("jobs", b"b", b"1"), RowChange("hosts", b"a", b"1")], at(1))
    store.commit(
        [RowChange("jobs", b"a", b"2"), RowChange("jobs", b"b", None), RowChange("jobs", b"never", None)], at(2)
    )
    assert rows(store) == {("jobs", b"a"): b"2", ("hosts", b"a"): b"1"}
    assert store.progress() == at(2)
    store.close()


def test_a_round_without_changes_moves_the_standing(open_store: Open) -> None:
    store = open_store()
    store.commit([RowChange("jobs", b"a", b"1")], at(1))
    store.commit([], at(2))
    assert store.progress() == at(2)
    assert rows(store) == {("jobs", b"a"): b"1"}
    store.close()


def test_rows_of_another_format_replace_all_that_is_there(open_store: Open) -> None:
    store = open_store()
    store.commit([RowChange("jobs", b"a", b"1"), RowChange("hosts", b"\xff\xff", b"1")], at(1))
    store.replace([RowChange("jobs", b"b", b"2")], at(2))
    assert rows(store) == {("jobs", b"b"): b"2"}
    assert store.progress() == at(2)
    store.close()


def test_a_standing_that_was_read_may_be_changed_without_changing_the_store(open_store: Open) -> None:
    store = open_store()
    store.commit([], at(1))
    progress = store.progress()
    assert progress is not None
    progress.own.inputs["paceline.jobs"] = 99
    assert store.progress() == at(1)
    store.close()


WRITER = """
import sys
from pathlib import Path
from tests.processors.runtime.test_store import at
from processors.runtime.store import RocksStore
from processors.state.table import RowChange
store = RocksStore(Path(sys.argv[1]))
for number in range(1, 200):
    store.commit([RowChange("jobs", b"%d" % key, bytes([number]) * 500) for key in range(200)], at(number))
    print(number, flush=True)
"""


def test_rows_and_standing_of_a_killed_process_are_of_one_round(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "s")], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    for _ in range(20):
        writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    store = RocksStore(tmp_path / "s")
    progress = store.progress()
    assert progress is not None
    assert progress.own.round >= 20
    assert set(rows(store).values()) == {bytes([progress.own.round]) * 500}
    assert progress == at(progress.own.round)
    store.close()


def test_a_second_opener_is_refused(tmp_path: Path) -> None:
    first = RocksStore(tmp_path / "s")
    with pytest.raises(StoreFault, match="in use"):
        RocksStore(tmp_path / "s")
    first.close()
    RocksStore(tmp_path / "s").close()


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    RocksStore(folder).close()
    database = Rdict(str(folder), Options(raw_mode=True))
    database[b"\0format"] = b"2"
    database.close()
    for _ in range(2):  # the first refusal must not keep the folder locked
        with pytest.raises(StoreFault, match="newer"):
            RocksStore(folder)


def test_a_folder_that_is_a_file_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("no database")
    with pytest.raises(StoreFault, match="can't be opened"):
        RocksStore(tmp_path / "s")
