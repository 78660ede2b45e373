"""The write-ahead log of the views has an end, though somebody is always reading."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Semaphore

import pytest
from sqlalchemy import select

from projections.views import tables, wal
from projections.views.projector import Projector
from projections.views.reader import AttachedViews
from tests.helpers.written_cell import Cell

BATCHES = 50


@pytest.fixture
def fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Folds one more job; returns how long the write-ahead log is then."""
    monkeypatch.setattr(wal, "SIZE_MAX", 64 * 1024)
    monkeypatch.setattr(wal, "REST", 0)
    cell = Cell()
    projector = Projector(cell.log, tmp_path)

    def one_more() -> int:
        cell.accept(f"j{cell.ms}", instances=2000)
        cell.ms += 1
        while projector.step():
            pass
        return (tmp_path / "views.sqlite-wal").stat().st_size

    yield one_more
    projector.close()


def test_it_is_emptied_while_reads_overlap(fold, tmp_path):
    views = AttachedViews(tmp_path / "views.sqlite")
    turns, overlapped, over = (Semaphore(0), Semaphore(0)), Semaphore(0), Event()

    def read(mine: Semaphore, other: Semaphore) -> None:
        while not over.is_set():
            with views.read() as connection:
                connection.execute(select(tables.jobs.c.job_id)).all()
                other.release()
                mine.acquire()  # until the other one has begun
                overlapped.release()

    with ThreadPoolExecutor() as readers:
        ends = [readers.submit(read, *turns), readers.submit(read, *turns[::-1])]
        try:
            assert all(overlapped.acquire(timeout=60) for _ in range(4))
            assert any(fold() == 0 for _ in range(BATCHES))
        finally:
            over.set()
            for turn in turns:
                turn.release()
        for end in ends:
            end.result()


def test_a_long_read_delays_its_end(fold, tmp_path, monkeypatch):
    monkeypatch.setattr(wal, "PATIENCE_MAX_S", 0.01)
    views = AttachedViews(tmp_path / "views.sqlite")
    with views.read() as connection:
        before = connection.execute(select(tables.positions)).all()
        assert all(fold() > 0 for _ in range(5))
        assert connection.execute(select(tables.positions)).all() == before
    sizes = [fold() for _ in range(BATCHES)]
    assert 0 in sizes
