"""What plots show of a cell: steps of log time, the same live and rebuilt, kept as long as they are said to be."""

import random

import pytest
from sqlalchemy import Connection

from events.codes import Outcome, TaskState
from events.columns import pack_longs
from events.records.entitlement import EntitlementsSet, PoolAnswered
from events.records.hosts import HostConnected, HostSilent
from events.records.lifecycle import JobHeld, RunsAvailable
from events.records.placement import HostAvoided, HostLost, HostRemoved
from events.records.pools import CellConfigured, PoolDefined, PoolRemoved
from projections.host_states import HostState
from projections.queries.entities import host_state
from projections.queries.host_list import HostFilter, host_rows
from projections.queries.marks import marks
from projections.queries.series import cell_series, pool_series
from projections.queries.series_points import Points, Times, times_of
from projections.record_json import at as time_of
from projections.ui.colours import HOSTS
from projections.views.projector import Projector, rebuild
from projections.views.series_steps import FINEST
from projections.views.series_table import DAY, HOUR, MINUTE
from tests.helpers.written_cell import Cell, admitted, dump, ended, held, ordered, placed, preempted, runs, unplaced

SECOND_MS = 1000
START = 1_700_000_000_000


@pytest.fixture
def cell() -> Cell:
    return Cell()


class Folded:
    """The views of a cell, read as they are at its end."""

    def __init__(self, cell: Cell, folder) -> None:
        self.projector = Projector(cell.log, folder)
        while self.projector.step():
            pass

    def __enter__(self) -> Connection:
        self.connection = self.projector.views.engine.connect()
        return self.connection

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        self.projector.close()


def test_tasks_are_shown_by_state_at_the_end_of_each_step(cell, tmp_path):
    cell.host()
    cell.accept("a", instances=3)
    cell.ms += 20 * SECOND_MS
    cell.run("a", (0, 1))
    cell.ms += 10 * SECOND_MS
    cell.decide("lifecycle", RunsAvailable(**runs("a", (0, 1))))
    cell.ms += 10 * SECOND_MS
    cell.decide("lifecycle", ended("a", (0,), Outcome.SUCCEEDED))
    with Folded(cell, tmp_path) as views:
        found = cell_series(views, times_of(views, START - 10_000, START + 50_000))
    assert (found["times"][0], found["step_ms"], len(found["times"])) == (time_of(START - 10_000), 10_000, 6)
    assert found["tasks"]["queued"] == [None, 3, 3, 1, 1, 1]
    assert found["tasks"]["ordered"] == [None, 0, 0, 2, 0, 0]
    assert found["tasks"]["running"] == [None, 0, 0, 0, 2, 1]
    assert found["ended"]["succeeded"] == [0, 0, 0, 0, 0, 1]
    assert found["oldest_wait_ms"] == [None, 10_000, 20_000, 30_000, 40_000, 50_000]
    assert found["events"]["paceline.jobs"] == [0, 1, 0, 0, 0, 0]


def test_rounds_decisions_and_lag_are_counted_for_each_machine(cell, tmp_path):
    cell.accept("a")
    with Folded(cell, tmp_path) as views:
        found = cell_series(views, times_of(views, START, START + 20_000))["machines"]
    assert (found["lifecycle"]["rounds"], found["lifecycle"]["decisions"]) == ([1, 0], [2, 0])
    assert (found["lifecycle"]["lag_ms"], found["sla"]["lag_ms"]) == ([0, None], [None, None])


def test_old_steps_are_coarse_and_new_ones_fine(cell, tmp_path):
    for _ in range(3 * 24):
        cell.accept(f"j{cell.ms}")
        cell.ms += HOUR * SECOND_MS
    with Folded(cell, tmp_path) as views:
        new = cell_series(views, times_of(views, cell.ms - HOUR * SECOND_MS, cell.ms))
        old = cell_series(views, times_of(views, START, START + HOUR * SECOND_MS, 3_600))
        count = views.exec_driver_sql("SELECT min(step) FROM series WHERE step_s = 10 AND topic = 4").scalar_one()
    assert new["tasks"]["queued"][0] == 3 * 24
    assert (new["step_ms"], old["step_ms"]) == (10_000, 300_000)
    assert cell.ms // 1000 - count < DAY + 3 * HOUR


def test_waiting_tasks_are_shown_by_the_reason_that_was_said_last(cell, tmp_path):
    cell.host()
    cell.accept("a", instances=10)
    cell.decide("entitlement", held("a", tuple(range(10)), "LIMIT_REACHED"))
    cell.ms += 10 * SECOND_MS
    cell.decide("entitlement", held("a", (3, 4), "BEHIND_IN_QUEUE"), admitted("a", (0, 1, 2), 1))
    cell.ms += 10 * SECOND_MS
    cell.decide("placement", unplaced("a", "NO_HOST_FITS", 2))
    cell.ms += 10 * SECOND_MS
    cell.decide("placement", placed("a", (0,), 1, "h1"))
    cell.decide("lifecycle", ordered("a", (0,), 1, "h1"), ended("a", (8, 9), Outcome.STOPPED))
    cell.decide("entitlement")
    with Folded(cell, tmp_path) as views:
        found = cell_series(views, times_of(views, START, START + 40_000))
    assert found["waiting"] == {
        "LIMIT_REACHED": [10, 5, 5, 3],
        "BEHIND_IN_QUEUE": [0, 2, 2, 2],
        "NO_HOST_FITS": [0, 0, 2, 1],
        "NOT_YET_EVALUATED": [0, 3, 1, 1],
        "BACKOFF": [0, 0, 0, 0],
        "HELD": [0, 0, 0, 0],
    }
    assert found["tasks"]["queued"] == [10, 10, 10, 7]


def test_tasks_of_a_held_job_are_not_in_backoff(cell, tmp_path):
    for job_id in ("a", "b", "c"):
        cell.accept(job_id, instances=3)
        cell.run(job_id, (0, 1, 2))
        cell.decide("lifecycle", ended(job_id, (0,), Outcome.FAILED, exit_code=1, following=TaskState.BACKOFF))
    cell.ms += 10 * SECOND_MS
    cell.decide("lifecycle", JobHeld(job_id="a", held=True), JobHeld(job_id="a", held=True))
    cell.ms += 10 * SECOND_MS
    cell.decide("lifecycle", ended("a", (1,), Outcome.FAILED, exit_code=1, following=TaskState.BACKOFF))
    cell.decide("lifecycle", JobHeld(job_id="b", held=True))
    cell.ms += 10 * SECOND_MS
    cell.decide("lifecycle", JobHeld(job_id="a", held=False))
    cell.changed("KILLED", "b")
    with Folded(cell, tmp_path) as views:
        found = cell_series(views, times_of(views, START, START + 40_000))
    assert found["waiting"]["HELD"] == [0, 1, 3, 0]
    assert found["waiting"]["BACKOFF"] == [3, 2, 1, 3]
    assert found["tasks"]["backoff"] == [3, 3, 4, 3]


def test_a_machine_is_not_said_to_know_what_it_has_not_read(cell, tmp_path):
    cell.accept("a", instances=3)
    cell.decide("entitlement", held("a", (0, 1, 2), "LIMIT_REACHED"))
    cell.ms += 10 * SECOND_MS
    cell.decide("lifecycle", ended("a", (0, 1, 2), Outcome.STOPPED))
    cell.ms += 10 * SECOND_MS
    cell.decide("entitlement")
    with Folded(cell, tmp_path) as views:
        found = cell_series(views, times_of(views, START, START + 30_000))
    assert found["waiting"]["LIMIT_REACHED"] == [3, 3, 0]


class NothingRead(random.Random):
    """What a machine has read that hears of the others late."""

    def randint(self, a, b):
        return a


def test_what_machines_say_of_one_task_counts_the_same_whichever_is_folded_first(cell, tmp_path):
    cell.accept("a", instances=3)
    cell.ms += 20 * SECOND_MS
    cell.decide("entitlement", held("a", (0, 1, 2), "LIMIT_REACHED"))
    live = Projector(cell.log, tmp_path)
    live.fold_whole()
    cell.slow = NothingRead()
    cell.ms -= 10 * SECOND_MS
    cell.decide("lifecycle", ended("a", (0, 1), Outcome.STOPPED))
    live.fold_whole()
    (tmp_path / "again").mkdir()
    again = rebuild(cell.log, tmp_path / "again")
    assert dump(live.views.engine) == dump(again)
    with again.connect() as views:
        assert cell_series(views, times_of(views, START, START + 30_000))["waiting"]["LIMIT_REACHED"] == [0, 0, 3]
    live.close()


def test_hosts_are_shown_by_state(cell, tmp_path):
    for name in ("h1", "h2", "h3"):
        cell.host(name)
    cell.decide("placement")
    cell.ms += 10 * SECOND_MS
    cell.fact(HostSilent(host_id="h2", session=1))
    cell.decide("placement", HostAvoided(host_id="h1", code="FAILS_AT_ONCE", until_ms=1))
    cell.ms += 10 * SECOND_MS
    cell.decide("placement", HostLost(host_id="h2", session=1, code="SILENT", silent_ms=9))
    cell.ms += 10 * SECOND_MS
    cell.host("h2", session=2)
    cell.decide("placement", HostRemoved(host_id="h3", session=1, code="ASKED", left_ms=1))
    with Folded(cell, tmp_path) as views:
        found = cell_series(views, times_of(views, START, START + 40_000))["hosts"]
    assert {state: values for state, values in found.items() if any(values)} == {
        "up": [3, 1, 1, 1],
        "suspected": [0, 1, 1, 1],
        "silent": [0, 1, 0, 0],
        "lost": [0, 0, 1, 0],
    }


def test_a_host_is_connecting_in_plots_as_in_lists_until_it_has_offered(cell, tmp_path):
    cell.fact(HostConnected(host_id="new", session=1, gateway="g"))
    cell.host("old")
    cell.fact(HostConnected(host_id="old", session=2, gateway="g"))
    cell.decide("placement")
    with Folded(cell, tmp_path) as views:
        found = cell_series(views, times_of(views, START, START + 10_000))["hosts"]
        listed = [host_state(row) for row in host_rows(views, HostFilter(), 10, "").rows]
    assert {state: values for state, values in found.items() if any(values)} == {"connecting": [1], "returning": [1]}
    assert sorted(listed) == [HostState.CONNECTING, HostState.RETURNING]
    assert HOSTS.keys() == {state.lower() for state in HostState}


def share(cell, paths, cpu):
    """Entitlement says what pools have of each kind: `cpu`, and so much more for each kind after the first."""
    amounts = {
        kind: pack_longs([cpu + at for _ in paths])
        for at, kind in enumerate(("entitlement", "demand", "allocation", "placed"))
    }
    cell.decide("entitlement", EntitlementsSet(pools=tuple(paths), resources=("cpu",), **amounts))


def define(cell, *paths):
    for path in paths:
        at = cell.fact(PoolDefined(path=path, command_id="c"))
        cell.decide("entitlement", PoolAnswered(path=path, pools_offset=at, command_id="c", code="DONE"))


def test_a_pool_has_lines_of_what_it_may_use_demands_and_holds(cell, tmp_path):
    paths = [f"/p{at}" for at in range(150)]
    define(cell, *paths)
    share(cell, ["/", *paths], 5_000)
    cell.ms += 20 * SECOND_MS
    share(cell, ["/p7", "/p149"], 7_000)
    with Folded(cell, tmp_path) as views:
        found = pool_series(views, ["/", "/p7", "/p8", "/p149", "/never"], times_of(views, START, START + 30_000))
    assert sorted(found) == ["/", "/p149", "/p7", "/p8"]
    assert found["/p8"]["entitlement"] == {"cpu": [5_000, 5_000, 5_000]}
    assert found["/"]["demand"] == {"cpu": [5_001, 5_001, 5_001]}
    for path in ("/p7", "/p149"):
        assert found[path]["placed"] == {"cpu": [5_003, 5_003, 7_003]}


def test_a_pool_that_is_removed_has_nothing_from_then_on(cell, tmp_path):
    define(cell, "/p")
    share(cell, ["/p"], 5_000)
    cell.ms += 10 * SECOND_MS
    at = cell.fact(PoolRemoved(path="/p", command_id="c"))
    cell.decide("entitlement", PoolAnswered(path="/p", pools_offset=at, command_id="c", code="DONE"))
    with Folded(cell, tmp_path) as views:
        found = pool_series(views, ["/p"], times_of(views, START, START + 20_000))["/p"]
    assert found["allocation"] == {"cpu": [5_002, 0]}


def test_the_tasks_of_a_pool_are_counted_with_those_below_it(cell, tmp_path):
    define(cell, "/p", "/p/q")
    cell.host()
    cell.accept("a", instances=3, pool="/p/q")
    cell.accept("b", instances=2)
    cell.ms += 10 * SECOND_MS
    cell.run("a", (0, 1))
    cell.ms += 10 * SECOND_MS
    cell.changed("KILLED", "b")
    with Folded(cell, tmp_path) as views:
        found = pool_series(views, ["/", "/p", "/p/q"], times_of(views, START, START + 30_000))
    assert (found["/p/q"]["queued"], found["/p/q"]["live"]) == ([3, 1, 1], [0, 2, 2])
    assert (found["/p"]["queued"], found["/p"]["live"]) == ([5, 3, 1], [0, 2, 2])
    assert found["/"] | {"path": "/p"} == found["/p"]


def test_what_a_pool_has_now_is_shown_though_its_coarse_step_isnt_over(cell, tmp_path):
    define(cell, "/p")
    share(cell, ["/p"], 1)
    cell.ms += 2 * DAY * SECOND_MS
    share(cell, ["/p"], 2)
    with Folded(cell, tmp_path) as views:
        found = pool_series(views, ["/p"], times_of(views, START, cell.ms + SECOND_MS))
    lines = found["/p"]["entitlement"]["cpu"]
    assert found["/p"]["step_ms"] >= 300_000
    assert (lines[1], lines[-2], lines[-1]) == (1, 1, 2)


def texts(cell, folder, from_ms=START, to_ms=None):
    with Folded(cell, folder) as views:
        return [(mark["shape"], mark["count"], mark["text"]) for mark in marks(views, from_ms, to_ms or cell.ms + 1)]


def test_hosts_that_are_lost_at_once_are_one_mark(cell, tmp_path):
    for at in range(40):
        cell.decide("placement", HostLost(host_id=f"h{at}", session=1, code="SILENT", silent_ms=9))
        cell.ms += 100
    cell.ms += MINUTE * SECOND_MS
    cell.fact(HostSilent(host_id="h3", session=1))
    cell.decide("placement", HostAvoided(host_id="h4", code="FAILS_AT_ONCE", until_ms=1))
    assert texts(cell, tmp_path) == [
        ("lost", 40, "40 hosts lost: SILENT (h0, h1, h2 and 37 more)"),
        ("silent", 1, "Host h3 silent"),
        ("suspected", 1, "Host h4 avoided: FAILS_AT_ONCE"),
    ]


def test_a_change_of_a_pool_says_what_it_changed(cell, tmp_path):
    for number, fields in enumerate(({"limit": {"cpu": 40_000}}, {"limit": {"cpu": 20_000}, "share_default": 3})):
        at = cell.fact(PoolDefined(path="/maps", command_id=str(number), **fields))
        cell.decide("entitlement", PoolAnswered(path="/maps", pools_offset=at, command_id="c", code="DONE"))
        cell.ms += MINUTE * SECOND_MS
    at = cell.fact(PoolRemoved(path="/maps", command_id="c"))
    cell.decide("entitlement", PoolAnswered(path="/maps", pools_offset=at, command_id="c", code="POOL_IN_USE"))
    at = cell.fact(CellConfigured(command_id="c", preemption_delay_ms=5))
    cell.decide("entitlement", PoolAnswered(path="/", pools_offset=at, command_id="c", code="DONE"))
    assert texts(cell, tmp_path) == [
        ("policy", 1, "Pool /maps defined"),
        ("policy", 1, "Pool /maps: limit of cpu from 40 to 20, share_default from 1 to 3"),
        ("policy", 1, "Settings of the cell changed: preemption_delay_ms"),
    ]


def test_preemptions_restarts_and_failures_are_marked(cell, tmp_path):
    cell.accept("a")
    cell.accept("b", instances=3)
    cell.run("b", (0, 1, 2))
    cell.decide("entitlement", preempted(1, {"b": (0, 1)}, "a"))
    cell.claim("placement")
    cell.decide("lifecycle", ended("b", (2,), Outcome.FAILED, exit_code=9))
    cell.changed("FAILED", "b")
    with Folded(cell, tmp_path) as views:
        found = marks(views, START, START + 1)
    assert [(mark["shape"], mark["text"]) for mark in found] == [
        ("failed", "Job b failed, task 2 with exit code 9"),
        ("preempted", "2 runs of /p preempted for /q"),
        ("restart", "Machine placement restarted by test, epoch 2"),
    ]
    assert ["job", "b"] in found[0]["links"]
    assert found[2]["position"] == "paceline.placement:2"


def test_the_api_answers_with_series_and_marks(api):
    api.pool("/p")
    api.cell.accept("a", instances=2)
    share(api.cell, ["/p"], 3_000)
    api.fold()
    found = api.get("/v1/series")
    assert found["tasks"]["queued"][-1] == 2
    assert found["step_ms"] == 300_000
    assert found["times"][-1] <= "2023-11-14T22:13:20.000Z"
    pool = api.get("/v1/pool-series/p?from=2023-11-14T22:13:20Z&to=2023-11-14T22:13:40Z&points=2")
    assert (pool["path"], pool["entitlement"], pool["queued"]) == ("/p", {"cpu": [3_000, 3_000]}, [2, 2])
    assert api.get("/v1/pool-series/")["path"] == "/"
    [mark] = api.get("/v1/marks?from=2023-11-14T22:00:00Z")["marks"]
    assert (mark["shape"], mark["at"], mark["text"]) == ("policy", "2023-11-14T22:13:20.000Z", "Pool /p defined")
    assert api.get("/v1/marks?to=2023-11-14T22:00:00Z") == {"marks": []}


@pytest.mark.parametrize("query", ["from=never", "from=2023-11-14T22:00:00Z&to=2022-11-14T22:00:00Z", "points=0"])
def test_a_span_of_time_that_is_none_is_refused(api, query):
    api.problem(api.client.get(f"/v1/series?{query}"), 422, "INVALID_REQUEST")


def test_a_pool_keeps_its_level_though_the_rows_before_are_gone(cell, tmp_path):
    """A pool that stands still has no rows, its neighbours do; what is whole keeps it."""
    define(cell, "/still", "/busy")
    share(cell, ["/still"], 7)
    for hour in range(60):
        share(cell, ["/busy"], hour)
        cell.ms += HOUR * SECOND_MS
    with Folded(cell, tmp_path) as views:
        found = pool_series(views, ["/still", "/busy"], times_of(views, cell.ms - HOUR * SECOND_MS, cell.ms))
        steps = views.exec_driver_sql("SELECT count(*) FROM series WHERE step_s = 10 AND part = 1").scalar_one()
    assert found["/still"]["step_ms"] == 10_000
    assert set(found["/still"]["entitlement"]["cpu"]) == {7}
    assert set(found["/busy"]["entitlement"]["cpu"]) == {59}
    assert steps <= 26, "a row an hour, of a day and a bit"


def test_a_cell_that_stands_still_writes_nothing(cell, tmp_path):
    cell.accept("a")
    projector = Projector(cell.log, tmp_path)
    projector.fold_whole()
    cell.ms += 30 * DAY * SECOND_MS
    cell.decide("lifecycle")
    projector.fold_whole()
    with projector.views.read() as views:
        rows = views.exec_driver_sql("SELECT count(*) FROM series WHERE step_s = 10").scalar_one()
    projector.close()
    assert rows <= 8


def test_a_pool_of_which_nothing_has_a_host_holds_nothing_of_what_it_was_admitted():
    times = Times({}, FINEST, 10_000, [START, START + 10_000, START + 20_000])
    shares = Points(times)
    shares.add(1, True, {"allocation/memory": 64})
    allocation, placed = shares.values("allocation", "placed")
    assert allocation == {"memory": [None, 64, 64]}
    assert placed == {"memory": [None, 0, 0]}


def test_a_pool_that_is_removed_has_nothing_though_its_coarse_step_isnt_over(cell, tmp_path):
    define(cell, "/p")
    share(cell, ["/p"], 1)
    cell.ms += 2 * DAY * SECOND_MS
    at = cell.fact(PoolRemoved(path="/p", command_id="c"))
    cell.decide("entitlement", PoolAnswered(path="/p", pools_offset=at, command_id="c", code="DONE"))
    with Folded(cell, tmp_path) as views:
        found = pool_series(views, ["/p"], times_of(views, START, cell.ms + SECOND_MS))["/p"]
    assert found["step_ms"] >= 300_000
    assert found["placed"]["cpu"][-2:] == [4, 0]
