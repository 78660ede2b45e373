"""The ledger of waits on the pages of a job and of a pool: the bars say what the API says."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import pytest

from events.codes import Outcome
from events.records.lifecycle import RunsAvailable
from projections.ui import app, wait_bars
from tests.helpers.written_cell import ended, held, runs
from tests.projections.ui.views import Pages, pages, text_of

DAY_MS = 86_400_000


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[Pages]:
    with pages(tmp_path) as held_pages:
        yield held_pages


def busy(ui: Pages) -> None:
    """A job of three tasks: two wait for nine days, one was preempted after an hour."""
    ui.cell.host("h1")
    ui.cell.accept("web", instances=3)
    ui.cell.run("web", (0,))
    ui.cell.decide("lifecycle", RunsAvailable(**runs("web", (0,))))
    ui.cell.decide("entitlement", held("web", (1, 2)))
    ui.cell.ms += 3_600_000
    ui.cell.decide("lifecycle", ended("web", (0,), Outcome.PREEMPTED))
    ui.cell.ms += 9 * DAY_MS
    ui.cell.changed("KILLED", "web")
    ui.fold()


def test_a_job_shows_what_its_tasks_waited_for_and_what_was_lost(ui):
    busy(ui)
    card = text_of(ui.page("/jobs/web"), "live_ledger")
    assert "LIMIT_REACHED 18 d" in card
    assert "BACKOFF 9 d" in card
    assert "ran, lost to preemption 1 h" in card


def test_a_job_without_time_shows_no_bar(ui):
    ui.cell.accept("new")
    ui.cell.changed("KILLED", "new")
    ui.fold()
    assert text_of(ui.page("/jobs/new"), "live_ledger").strip() == ""


def test_a_pool_shows_a_bar_for_each_week_on_one_scale(ui):
    ui.pool("/p")
    busy(ui)
    with ui.app.state.context.views.read() as connection:
        bars = wait_bars.of_pool(connection, "/p", ui.cell.ms)
    assert [bar.title for bar in bars] == [
        "2023-11-13 to 2023-11-19",
        f"2023-11-20 until {datetime.fromtimestamp(ui.cell.ms / 1000, UTC):%Y-%m-%d %H:%M}",
    ]
    widths = [sum(part.percent for part in bar.parts) for bar in bars]
    assert max(widths) == pytest.approx(100, abs=0.1)
    assert wait_bars.keys(bars)["LIMIT_REACHED"] == "s5"
    with patch.object(app.time, "time", lambda: ui.cell.ms / 1000):
        page = ui.page("/pools/p")
    assert [bar.text in page for bar in bars] == [True, True]
    assert all(bar.title in page for bar in bars)
