"""Who preempts each other again and again is told, with what was lost and what ends it; nobody else is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from prometheus_client import REGISTRY
from sqlalchemy import Engine

from events.codec import decode
from events.records.lifecycle import RunsAvailable, RunsEnded
from events.records.rounds import RoundCommitted
from paceline.cli.main import cli
from paceline.simulate.play import play as simulated
from paceline.simulate.scenario.parse import read_scenario
from paceline.simulate.session import RunOptions, Session, of_scenario
from projections.queries.alarms import alarms
from projections.queries.preemption_loops import BACK_MS, GOES_ON_MS, Loop, loops
from projections.queries.view_metrics import WATCHED
from projections.views.projector import rebuild
from projections.views.reader import Views
from tests.helpers.play import play

JOBS = """
end: {end}m
hosts: [{{name: h, count: 2, resources: {{cpu: 1}}}}]
pools: [{{path: /a, reservation: {{cpu: 2}}{settings}}}, {{path: /b}}]
jobs:
  - {{job_id: a, pool: /a, instances: 2, resources: {{cpu: 1}}, sim: {{duration: 100h}}}}
  - {{job_id: b, pool: /b, instances: 2, resources: {{cpu: 1}}, sim: {{duration: 100h}}}}
events:
"""
PRIORITIES = """
end: 100m
cell: {settle: 1s, preemptions_per_hour: 20}
hosts: [{name: h, resources: {cpu: 1}}]
pools: [{path: /a}]
jobs:
  - {job_id: x, pool: /a, resources: {cpu: 1}, sim: {duration: 100h}}
  - {job_id: y, pool: /a, at: 1m, resources: {cpu: 1}, sim: {duration: 100h}}
events:
"""


def quota_policy(turns: int, minutes: int = 15, settings: str = "") -> str:
    """A cell where a policy reserves all for one pool, then for the other, in turns."""
    lines = []
    for turn in range(1, turns + 1):
        gets, gives = ("/b", "/a") if turn % 2 else ("/a", "/b")
        for pool, cpu in ((gets, 2), (gives, 0)):
            own = settings if pool == "/a" else ""
            lines.append(f"  - {{at: {turn * minutes}m, pool: {{path: {pool}, reservation: {{cpu: {cpu}}}{own}}}}}")
    return JOBS.format(end=turns * minutes + 10, settings=settings) + "\n".join(lines)


def priority_policy(turns: int) -> str:
    """A pool where a policy raises the job that waits above the one that runs, again and again."""
    lines = (
        f"  - {{at: {10 * turn}m, priority: {{job_id: {'y' if turn % 2 else 'x'}, priority: {turn}}}}}"
        for turn in range(1, turns + 1)
    )
    return PRIORITIES + "\n".join(lines)


def named(event: RunsAvailable | RunsEnded) -> list[tuple[str, int, int]]:
    columns = (event.job_array, event.instance_array, event.run_array)
    return [(event.job_ids[job], *run) for job, *run in zip(*(column.tolist() for column in columns), strict=True)]


@contextmanager
def views_of(session: Session, folder: Path) -> Iterator[Engine]:
    engine = rebuild(session.run.cell.log, folder)
    yield engine
    engine.dispose()
    session.run.cell.close()


def loops_of(text: str, folder: Path, later_ms: int = 0) -> list[Loop]:
    session = play(text)
    with views_of(session, folder) as engine, engine.connect() as connection:
        return loops(connection, session.run.cell.clock.ms + later_ms)


def test_pools_that_a_policy_of_reservations_sets_on_each_other_are_a_loop(tmp_path: Path) -> None:
    [loop] = loops_of(quota_policy(5), tmp_path)
    assert (loop.parties, loop.pool, loop.codes) == (("/a", "/b"), "", ("BELOW_RESERVATION",))
    assert loop.orders == 10
    assert loop.sentence.startswith("pools /a, /b preempt each other again and again: 10 orders since ")
    assert "keep the reservations of pools as they are, or set `preemption_delay: never`" in loop.sentence


def test_what_was_lost_is_for_how_long_the_victims_had_run(tmp_path: Path) -> None:
    session = play(quota_policy(5))
    ran_ms = 0
    started: dict[tuple[str, int, int], int] = {}
    for record in session.run.cell.log.scan("paceline.lifecycle", 0):
        round_ = decode(record.value)
        for each in map(decode, round_.decisions if isinstance(round_, RoundCommitted) else ()):
            if isinstance(each, RunsAvailable):
                started |= dict.fromkeys(named(each), record.at_ms)
            elif isinstance(each, RunsEnded):
                ran_ms += sum(record.at_ms - started[run] for run in named(each) if run in started)
    with views_of(session, tmp_path) as engine, engine.connect() as connection:
        [loop] = loops(connection, session.run.cell.clock.ms)
    assert loop.lost_s == pytest.approx(ran_ms / 1000, abs=20)  # times of runs are seconds
    assert loop.lost_s > 5000


def test_jobs_of_a_pool_that_are_raised_above_each_other_are_a_loop(tmp_path: Path) -> None:
    [loop] = loops_of(priority_policy(8), tmp_path)
    assert (loop.parties, loop.pool, loop.codes) == (("x", "y"), "/a", ("HIGHER_PRIORITY",))
    assert loop.sentence.startswith("jobs x, y of pool /a preempt each other")
    assert "give them one priority" in loop.remedy
    assert "`settle` of the cell to 10m (it is 1s)" in loop.remedy
    assert "`preemptions_per_hour` of the cell to 3 (it is 20)" in loop.remedy


@pytest.mark.parametrize("turns", [1, 2, 3, 4])
def test_a_demand_that_came_and_went_is_none(turns: int, tmp_path: Path) -> None:
    assert loops_of(quota_policy(turns), tmp_path) == []


def test_the_setting_that_is_named_ends_it(tmp_path: Path) -> None:
    assert loops_of(quota_policy(7, settings=", preemption_delay: never"), tmp_path) == []


def test_reservations_by_day_and_by_night_are_none(tmp_path: Path) -> None:
    assert loops_of(quota_policy(6, minutes=12 * 60), tmp_path) == []


def test_a_loop_is_over_an_hour_after_its_last_order(tmp_path: Path) -> None:
    session = play(quota_policy(5))
    with views_of(session, tmp_path) as engine, engine.connect() as connection:
        [loop] = loops(connection, session.run.cell.clock.ms)
        assert loops(connection, loop.last_ms + GOES_ON_MS) == [loop]
        assert loops(connection, loop.last_ms + GOES_ON_MS + 1) == []
        assert loops(connection, loop.last_ms + BACK_MS) == []


def test_metrics_and_the_overview_tell_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = play(quota_policy(5))
    now_ms = session.run.cell.clock.ms
    with views_of(session, tmp_path) as engine:
        with engine.connect() as connection:
            [loop] = loops(connection, now_ms)
            told = [each for each in alarms(connection, 0, now_ms, {}, []) if each.name == "PacelinePreemptsInCircles"]
        assert [each.text for each in told] == [loop.sentence]
        monkeypatch.setattr("time.time", lambda: now_ms / 1000)
        unwatch = WATCHED.add(Views(engine), session.run.cell.log, 30_000)
        labels = {"cell": "0", "parties": loop.name}
        assert REGISTRY.get_sample_value("paceline_preemption_loop_orders", labels) == loop.orders
        assert REGISTRY.get_sample_value("paceline_preemption_loop_lost_seconds", labels) == loop.lost_s
        unwatch()


def test_cell_check_says_who_preempts_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policy.yaml").write_text(quota_policy(5))
    options = RunOptions(data=tmp_path / "cell")
    session = of_scenario(read_scenario(str(tmp_path / "policy.yaml")), "paceline simulate policy.yaml", options)
    simulated(session, as_json=False)
    end_ms = session.run.cell.clock.ms
    monkeypatch.setattr("time.time", lambda: end_ms / 1000)
    checked = ["cell", "check", "--data", str(tmp_path / "cell"), "-o", "json"]
    result = CliRunner().invoke(cli, checked, standalone_mode=False)
    assert result.return_value == 1
    assert "Pools /a, /b preempt each other again and again: 10 orders" in result.output
    monkeypatch.setattr("time.time", lambda: end_ms / 1000 + 7200)
    assert "preempt each other" not in CliRunner().invoke(cli, checked, standalone_mode=False).output
