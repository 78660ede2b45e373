"""The overview: is the cell deciding, is anybody stuck, and do its plots add up."""

from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams
from starlette.testclient import TestClient

from bench._large_cell import LargeCell, Size
from events.codes import Code, RunCause
from paceline.client.cell_models import CellSeries
from projections.api.app import create_app
from projections.lateness import FACT_WITHIN_MS
from projections.queries.log_time import newest_ms
from projections.queries.series import cell_series
from projections.queries.series_points import times_of
from projections.ui import colours, overview_plots
from projections.ui.app import add_ui
from projections.ui.format import linked
from projections.ui.overview_plots import total
from projections.ui.pages import overview
from projections.ui.scene import Contexts, opened
from projections.views.projector import Projector
from tests.helpers import ROOT
from tests.helpers.written_cell import admitted, held, unplaced
from tests.projections.conftest import LISTEN, TOKEN, Api
from tests.projections.queries.test_last_failure import fail


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contexts]:
    """A cell with 200 jobs in 12 pools."""
    folder = tmp_path_factory.mktemp("large")
    cell = LargeCell(folder, Size(jobs=200, tasks=2000, hosts=50, pools=12))
    cell.write()
    projector = Projector(cell.log, folder)
    while projector.step():
        pass
    app = create_app(projector.views, cell.log, token=TOKEN, listen=LISTEN, cell_info=dict)
    yield {0: app.state.context}
    cell.log.close()


def load(contexts: Contexts, query: str = "", after_ms: int = 0) -> dict[str, Any]:
    with opened(contexts, {}, QueryParams(query), 0) as scene:
        newest = newest_ms(scene.first().connection)
        return overview.load(scene._replace(now_ms=newest + after_ms))


def test_the_plots_of_waiting_and_of_states_add_up(contexts: Contexts) -> None:
    plots = load(contexts)["plots"]
    waiting = total([each["values"] for each in plots["waiting"]["series"]])
    states = {each["name"]: each["values"] for each in plots["tasks"]["series"]}
    assert waiting == total([states["queued"], states["backoff"], states["held"]])
    assert any(waiting)


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_pools_take_no_more_than_there_is(contexts: Contexts, resource: str) -> None:
    *pools, capacity = load(contexts, f"resource={resource}")["plots"]["pools"]["series"]
    assert capacity["name"] == "capacity"
    used = total([each["values"] for each in pools])
    assert all((part or 0) <= (whole or 0) for part, whole in zip(used, capacity["values"], strict=True))


def test_the_largest_reasons_are_told_apart(contexts: Contexts) -> None:
    with opened(contexts, {}, QueryParams(), 0) as scene:
        connection = scene.first().connection
        newest = newest_ms(connection)
        times = times_of(connection, newest - 3_600_000, newest)
        day = cell_series(connection, times)
    sizes = {"BOUND_HOST_BUSY": 1600, "NO_HOSTS": 900, "NEVER_FITS": 1} | {f"RARE_{number}": 2 for number in range(9)}
    crowded: CellSeries = {**day, "waiting": {code: [size] * len(times.times) for code, size in sizes.items()}}
    series = overview_plots.waiting(times, crowded)["series"]
    names = [each["name"] for each in series]
    assert {"BOUND_HOST_BUSY", "NO_HOSTS"} <= set(names)
    assert "NEVER_FITS" not in names, "it is among the others, which are larger"
    assert (len(series), names[0]) == (9, "other reasons")
    assert len({each["colour"] for each in series}) == 9


def test_reasons_of_their_own_have_colours_of_their_own() -> None:
    told_apart = [colour for code, colour in colours.REASONS.items() if code != Code.RUN_FAILED]
    assert len(set(told_apart)) == len(told_apart)
    assert {Code.NO_HOSTS, Code.CRASH_LOOP} <= colours.REASONS.keys()
    sheet = (ROOT / "projections" / "ui" / "static" / "paceline.css").read_text()
    assert all(f".r-{colour} " in sheet for colour in told_apart)


def test_a_resource_that_no_host_has_is_not_shown(contexts: Contexts) -> None:
    assert load(contexts, "resource=<b>")["resource"] in load(contexts)["resources"]


def test_the_oldest_waiting_jobs_come_first(contexts: Contexts) -> None:
    waits = [each["waits_ms"] for each in load(contexts)["oldest"]]
    assert waits == sorted(waits, reverse=True)
    assert waits


def test_every_figure_leads_somewhere_and_has_its_line(contexts: Contexts) -> None:
    figures = load(contexts)["figures"]
    assert [each.name for each in figures[:3]] == ["Waiting tasks", "Longest wait", "Running tasks"]
    assert all(each.page.startswith("/") for each in figures)


def test_a_machine_that_leaves_facts_waiting_does_not_decide(tmp_path: Path) -> None:
    api = Api(tmp_path)
    api.pool()
    late = {each.machine for each in load({0: api.app.state.context}, after_ms=FACT_WITHIN_MS)["lags"].late}
    assert "lifecycle" not in late
    job = {"job_id": "a", "pool": "/p", "command": ["true"], "resources": {"cpu": 1}}
    assert api.client.post("/v1/jobs", json=job).status_code == 202
    api.fold()
    for after_ms, expected in ((0, set()), (10 * 365 * 86_400_000, {"lifecycle"})):
        lags = load({0: api.app.state.context}, after_ms=after_ms)["lags"]
        assert {each.machine for each in lags.late} == expected
    api.close()


@pytest.mark.parametrize(
    ("code", "actor", "stuck"),
    [
        ("NEVER_FITS", "you", True),
        ("LIMIT_REACHED", "you", True),  # it asks for more than the limit
        ("LIMIT_REACHED", "pool owner", False),
        ("POOL_CLOSED", "pool owner", True),
        ("NO_HOST_FITS", "nobody, wait", False),
    ],
)
def test_stuck_is_what_goes_on_only_when_somebody_acts(code: str, actor: str, stuck: bool) -> None:
    assert overview._needs_somebody({"code": code, "actor": actor}) == stuck


def test_a_service_that_fails_again_and_again_is_stuck_with_its_last_failure_in_the_hosts_words(tmp_path: Path) -> None:
    api = Api(tmp_path)
    add_ui(api.app, {0: api.app.state.context}, TOKEN)
    api.cell.host()
    api.cell.accept("a", kind="stateless")
    fail(api, 1, "sleeep: No such file or directory", RunCause.CANNOT_START)
    api.fold()
    shown = TestClient(api.app, f"http://{LISTEN}").get("/ui/").text
    assert "A job is stuck until somebody acts." in shown
    assert "fails again and again: task 0: sleeep: No such file or directory" in shown
    api.close()


def test_a_young_job_that_fits_nowhere_is_stuck_however_many_wait_longer(tmp_path: Path) -> None:
    api = Api(tmp_path)
    add_ui(api.app, {0: api.app.state.context}, TOKEN)
    for number in range(overview.OLDEST + 1):
        api.cell.accept(f"old-{number}")
        api.cell.decide("entitlement", held(f"old-{number}", (0,), "BEHIND_IN_QUEUE"))
    api.cell.accept("closed")
    api.cell.decide("entitlement", held("closed", (0,), "POOL_CLOSED"))
    api.cell.accept("giant")
    api.cell.decide("entitlement", admitted("giant", (0,)))
    api.cell.decide("placement", unplaced("giant", "NEVER_FITS", 1))
    api.fold()
    shown = unescape(TestClient(api.app, f"http://{LISTEN}").get("/ui/").text)
    assert "2 jobs are stuck until somebody acts" in shown
    verdict = shown.split("jobs are stuck until somebody acts")[1].split("</p>")[0]
    assert ("giant" in verdict, "closed" in verdict, "old-0" in verdict) == (True, True, False)
    api.close()


def test_an_empty_cell_says_what_to_do_first(tmp_path: Path) -> None:
    api = Api(tmp_path)
    add_ui(api.app, {0: api.app.state.context}, TOKEN)
    shown = TestClient(api.app, f"http://{LISTEN}").get("/ui/").text
    assert "paceline job submit" in shown
    assert "paceline agent" in shown
    assert shown.index("paceline pool apply") < shown.index("paceline job submit")
    api.close()


@given(names=st.lists(st.text("ab/-.", min_size=1, max_size=5), max_size=3), text=st.text("ab/-. <&", max_size=40))
def test_links_change_no_letter_of_a_sentence(names: list[str], text: str) -> None:
    pieces = list(linked(text, [("job", name) for name in names]))
    assert "".join(piece for piece, _ in pieces) == text
    assert {piece for piece, page in pieces if page} <= set(names)


def test_a_sentence_names_each_thing_once() -> None:
    assert list(linked("Job failed failed, task 0", [("job", "failed")])) == [
        ("Job ", ""),
        ("failed", "/jobs/failed"),
        (" failed, task 0", ""),
    ]
