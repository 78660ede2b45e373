"""The machines of a cell as its log has them: from stores, from snapshots, from the start of the log."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from events.records.pools import PoolDefined
from hostagent.fleet import SimHost
from paceline.plans.follower import Follower, starts_of
from processors.cell_machines import machines
from processors.runtime.snapshots import take
from processors.runtime.store import RocksStore
from tests.helpers.stored_cell import Counting
from tests.paceline.plans.cells import PlannedCell


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[PlannedCell]:
    """A cell with a job, whose stores of that time are copied to `stores` and kept as snapshots; then one more job."""
    cell = PlannedCell(tmp_path, [SimHost(3, {"cpu": 4_000, "memory": 16_384})])
    cell.append(PoolDefined(path="/p", command_id="p"))
    cell.run(1000)
    for number in range(20):
        cell.submit(f"early-{number}", "/p", resources={"cpu": 100})
        cell.run(1000)
    for name, make in machines().items():
        memory = cell.stores[name]
        store, progress = RocksStore(tmp_path / "stores" / name), memory.progress()
        if progress is not None:
            store.commit(list(memory.rows()), progress)
            take(store, str(tmp_path / "snapshots"), 0, make())
        store.close()
    cell.submit("late", "/p", instances=2, resources={"cpu": 100})
    cell.run(1000)
    yield cell
    cell.close()


def followed(cell: PlannedCell, *stores: Path, snapshots: str = "") -> dict[str, int]:
    """Checks a follower against the machines of the cell; returns how many records of each topic it has read."""
    log = Counting(cell.log)
    follower = Follower(log, stores, snapshots)
    follower.follow(log)
    for name, fold in follower.folds.items():
        progress = cell.stores[name].progress()
        assert fold.state.hash == (progress.hash if progress else fold.state.hash), name
    assert starts_of(follower.folds.values(), cell.ends()).keys() == cell.ends().keys()
    return log.read


def test_a_follower_without_anything_reads_the_whole_log(cell: PlannedCell) -> None:
    assert followed(cell)["paceline.lifecycle"] >= cell.ends()["paceline.lifecycle"]


def test_a_follower_begins_where_the_stores_stand(cell: PlannedCell, tmp_path: Path) -> None:
    assert followed(cell, tmp_path / "stores")["paceline.lifecycle"] < cell.ends()["paceline.lifecycle"] // 4


def test_a_follower_without_stores_begins_from_snapshots(cell: PlannedCell, tmp_path: Path) -> None:
    read = followed(cell, tmp_path / "nowhere", snapshots=str(tmp_path / "snapshots"))
    assert read["paceline.lifecycle"] < cell.ends()["paceline.lifecycle"] // 4


def test_a_store_that_is_damaged_or_of_another_log_is_passed_over(cell: PlannedCell, tmp_path: Path) -> None:
    other = PlannedCell(tmp_path / "other", [SimHost(1, {"cpu": 1_000})])
    for name in machines():
        shutil.rmtree(tmp_path / "stores" / name)
        store, progress = RocksStore(tmp_path / "stores" / name), other.stores[name].progress()
        if progress is not None:
            store.commit(list(other.stores[name].rows()), progress)
        store.close()
    other.close()
    followed(cell, tmp_path / "stores")
    (tmp_path / "stores" / "placement" / "CURRENT").write_text("nonsense")
    followed(cell, tmp_path / "stores")
