"""Rows between the fold and the file."""

import pytest
from msgspec.structs import replace

from projections.views import cache as caches
from projections.views import tables
from projections.views.cache import Cache, Rows
from projections.views.rows import FIXED_OF_JOB, JobRow
from projections.views.transaction import Transaction

ROW = JobRow("a", 7, 7, 1000, "/p", "batch", 1, 0, 0, "requeue", 0, "ann", "{}", "SUBMITTED", digest=b"d")


def test_a_changed_row_is_written_without_what_is_fixed_and_a_row_that_is_put_whole(tmp_path):
    engine = tables.open_engine(tmp_path / "views.sqlite")
    transaction = Transaction(engine)
    jobs = Rows(tables.jobs, JobRow, FIXED_OF_JOB)
    jobs.connection = transaction.connection
    said: list[str] = []
    transaction.connection.set_trace_callback(said.append)

    def flushed(row: JobRow) -> list[str]:
        said.clear()
        with transaction.work():
            jobs.flush()
        transaction.commit()
        fresh = Rows(tables.jobs, JobRow, FIXED_OF_JOB)
        fresh.connection = transaction.connection
        assert fresh.get("a") == row
        return [text.split(" ")[0] for text in said if "jobs" in text and not text.startswith("SELECT")]

    with transaction.work():
        row = jobs.put(replace(ROW))
    assert flushed(row) == ["INSERT"]
    with transaction.work():
        moved = jobs.change("a")
    assert moved is row
    row.state, row.running = "RUNNING", 1
    assert flushed(row) == ["UPDATE"]
    with transaction.work():
        jobs.change("a")
    row.base, row.owner = 512, "bob"
    jobs.put(row)
    jobs.change("a")
    assert flushed(row) == ["INSERT"]
    transaction.close()
    engine.dispose()


def test_tables_of_which_no_row_was_touched_are_not_asked_to_write(tmp_path, monkeypatch: pytest.MonkeyPatch):
    engine = tables.open_engine(tmp_path / "views.sqlite")
    transaction, cache = Transaction(engine), Cache()
    cache.begin(transaction.connection)
    asked: list[Rows] = []
    flush = Rows.flush
    monkeypatch.setattr(Rows, "flush", lambda rows: (asked.append(rows), flush(rows)))
    monkeypatch.setattr(caches, "KEPT_MAX", 2)

    def flushed() -> list[Rows]:
        asked.clear()
        with transaction.work():
            cache.flush()
        return [*asked]

    with transaction.work():
        for name in "abcd":
            cache.jobs.put(replace(ROW, job_id=name, number=ord(name)))
    assert flushed() == [cache.jobs]
    assert flushed() == []
    with transaction.work():
        assert [row.job_id for row in cache.jobs.get_all("abcd") if row is not None] == ["a", "b", "c", "d"]
    assert flushed() == [cache.jobs], "rows that were only read are let go, too"
    with transaction.work():
        cache.jobs.remove("a")
    assert flushed() == [cache.jobs]
    assert len(cache.jobs._rows) <= 2
    with transaction.work():
        cache.explanations.remove_all("a", ())
    assert flushed() == [cache.explanations]
    transaction.close()
    engine.dispose()
