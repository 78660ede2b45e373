"""The history of a job reads the same however its entries fell into rows of the views."""

import pytest

from projections.queries.entities import history_page
from projections.views import job_records
from projections.views import projector as module
from projections.views.projector import Projector, rebuild
from tests.helpers.story import LogSummary


@pytest.mark.parametrize("seed", range(4))
def test_pages_of_a_history_are_the_same_from_many_small_rows_as_from_few(tmp_path, monkeypatch, seed):
    log = LogSummary(seed, slow=True).cell.log
    (tmp_path / "few").mkdir()
    few = rebuild(log, tmp_path / "few")
    monkeypatch.setattr(module, "RECORDS", 1)
    monkeypatch.setattr(module, "TOGETHER", 1)
    monkeypatch.setattr(job_records, "ENTRIES_MAX", 2)
    monkeypatch.setattr(job_records, "UNWRITTEN_MAX", 1)
    live = Projector(log, tmp_path)
    while live.step():
        pass
    live.close()
    for job_id in (f"j{number}" for number in range(12)):
        wanted = whole(few, job_id, False)
        assert whole(few, job_id, True) == wanted[::-1]
        assert whole(live.views.engine, job_id, False) == wanted
        assert whole(live.views.engine, job_id, True) == wanted[::-1]


def whole(engine, job_id: str, newest: bool) -> list:
    """All entries, by pages of three."""
    found, after = [], None
    with engine.connect() as connection:
        while True:
            page = history_page(connection, job_id, 3, after, newest)
            found += page.items
            after = page.next
            if after is None:
                return found
