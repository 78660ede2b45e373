"""Forecasts of a whole cell in virtual time: what the log and the views say of them."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import select

from events.codec import decode
from events.log.port import Log
from events.records.forecasts import ForecastsMade, ForecastsScored
from events.topics import ALL, FORECASTS
from paceline.forecast import component
from paceline.forecast.component import EVERY_MS, LAG, PASS_AT, ForecastCell
from paceline.forecast.forecaster import WAITED_MS
from paceline.forecast.records import NEVER, read
from paceline.simulate.scenario.scenario import Scenario
from paceline.simulate.session import RunOptions, Session, of_scenario
from projections.queries.forecasts import forecasts, scores
from projections.views import tables
from projections.views.projector import Projector, rebuild
from tests.helpers.written_cell import dump
from tests.paceline.witness.world import NOW_MS, copied

JOBS = 60


def crowded(seed: int = 1, pools: tuple[str, ...] = ("/a", "/b"), jobs: int = JOBS) -> Scenario:
    """Two hosts, and more work than they have room for."""
    random = Random(seed)
    submitted = [
        {
            "job_id": f"job-{number:02}",
            "pool": random.choice(pools),
            "owner": random.choice(("ann", "ben")),
            "at": f"{random.randint(0, 3600)}s",
            "instances": 2,
            "gang": {"min": 2},
            "resources": {"cpu": random.choice((2, 4))},
            "max_runtime": "20m",
            "sim": {"duration": f"{random.randint(60, 600)}s"},
        }
        for number in range(jobs)
    ]
    return Scenario.model_validate(
        {
            "name": "crowded",
            "hosts": [{"name": "host", "count": 2, "resources": {"cpu": 8}}],
            "pools": [{"path": path} for path in pools],
            "jobs": submitted,
        }
    )


def played(scenario: Scenario, restarts_at: int = -1, forecasts_it: bool = True) -> tuple[Session, ForecastCell]:
    """A scenario with a forecaster that looks at each moment; `restarts_at`: another takes its place after so many."""
    session = of_scenario(scenario, "", RunOptions())
    cell = session.run.cell

    def made() -> ForecastCell:
        return ForecastCell(cell.log, cell.log, 100, now_ms=lambda: cell.clock.ms)

    forecaster, moments = made(), 0

    def look(_: object) -> None:
        nonlocal forecaster, moments
        moments += 1
        if moments == restarts_at:
            forecaster.stop_reading()
            forecaster = made()
        while forecasts_it and forecaster.step():
            pass

    session.run.run_to_end(look)
    return session, forecaster


def records(log: Log) -> list[ForecastsMade | ForecastsScored]:
    found = [decode(record.value) for record in log.scan(FORECASTS.name, 0)]
    return [each for each in found if isinstance(each, ForecastsMade | ForecastsScored)]


@pytest.fixture(scope="module")
def crowd() -> Session:
    return played(crowded())[0]


def test_who_is_forecast_is_scored_once(crowd: Session) -> None:
    said = records(crowd.run.cell.log)
    made = {each.job_id for event in said if isinstance(event, ForecastsMade) for each in read(event)}
    scored = Counter(job_id for event in said if isinstance(event, ForecastsScored) for job_id in event.job_ids)
    assert set(scored) == made
    assert set(scored.values()) == {1}
    assert len(made) > JOBS // 2


def test_forecasts_are_ordered_and_made_of_what_had_waited_for_a_minute(crowd: Session) -> None:
    for event in records(crowd.run.cell.log):
        if isinstance(event, ForecastsMade):
            for each in read(event):
                assert 0 <= each.interval.low <= each.interval.median <= each.interval.high
                assert each.waited_ms >= WAITED_MS


def test_most_jobs_of_a_queue_begin_within_their_interval() -> None:
    session, _ = played(crowded(4, ("/a",), 120))
    outcomes = [
        low <= began <= high
        for event in records(session.run.cell.log)
        if isinstance(event, ForecastsScored)
        for low, high, began in zip(event.low_array, event.high_array, event.began_array, strict=True)
        if began != NEVER
    ]
    assert len(outcomes) > 100
    assert sum(outcomes) / len(outcomes) > 0.6


def test_forecasts_change_no_decision(crowd: Session) -> None:
    without, _ = played(crowded(), forecasts_it=False)
    for topic in ALL:
        mine, theirs = (list(each.run.cell.log.scan(topic.name, 0)) for each in (crowd, without))
        assert mine == theirs, topic.name


def test_the_views_are_rebuilt_as_they_were_followed(crowd: Session, tmp_path: Path) -> None:
    log = crowd.run.cell.log
    (tmp_path / "live").mkdir()
    (tmp_path / "again").mkdir()
    live = Projector(log, tmp_path / "live")
    while live.step():
        pass
    live.fold_whole()
    engine = rebuild(log, tmp_path / "again")
    assert dump(live.views.engine) == dump(engine)
    with engine.connect() as connection:
        assert connection.execute(select(tables.forecasts)).all() == []  # nobody waits any more
        rows = scores(connection, "", 7)
    live.close()
    engine.dispose()
    scored = [
        began
        for event in records(log)
        if isinstance(event, ForecastsScored)
        for began in event.began_array.tolist()
        if began != NEVER
    ]
    assert sum(row["scored"] for row in rows) == len(scored)
    assert {row["pool"] for row in rows} == {"/a", "/b"}


def test_a_forecaster_that_starts_again_scores_what_the_last_one_said() -> None:
    session, _ = played(crowded(2), restarts_at=100)
    said = records(session.run.cell.log)
    made = {each.job_id for event in said if isinstance(event, ForecastsMade) for each in read(event)}
    scored = Counter(job_id for event in said if isinstance(event, ForecastsScored) for job_id in event.job_ids)
    assert made
    assert set(scored) == made
    assert set(scored.values()) == {1}


def test_who_waits_stands_in_the_views_with_its_newest_forecast(tmp_path: Path) -> None:
    scenario = crowded(3).model_copy(update={"end": 1_800_000})
    session, _ = played(scenario)
    engine = rebuild(session.run.cell.log, tmp_path)
    newest = {}
    for event in records(session.run.cell.log):
        if isinstance(event, ForecastsMade):
            newest.update({each.job_id: each for each in read(event)})
        else:
            for job_id in event.job_ids:
                newest.pop(job_id, None)
    with engine.connect() as connection:
        shown, more = forecasts(connection, "", 3, "")
        assert [each["job_id"] for each in shown] == sorted(newest)[:3]
        assert more == sorted(newest)[2]
        rest, _ = forecasts(connection, "", 100, more)
        assert [each["job_id"] for each in (*shown, *rest)] == sorted(newest)
        of_b, _ = forecasts(connection, "/b", 100, "")
    engine.dispose()
    assert [each["job_id"] for each in of_b] == sorted(job for job, each in newest.items() if each.pool == "/b")


def test_metrics_say_how_far_it_has_read_and_when_it_forecast_last(monkeypatch):
    session, forecaster = played(crowded(jobs=20))
    cell = session.run.cell
    assert forecaster.passes > 1
    passed_at = PASS_AT.labels("0")._value.get()
    assert cell.clock.ms / 1000 - EVERY_MS / 1000 <= passed_at <= cell.clock.ms / 1000
    monkeypatch.setattr(component, "RECORDS", 10)
    behind = ForecastCell(cell.log, cell.log, 100, now_ms=lambda: cell.clock.ms)
    behind.step()
    left = {topic: cell.log.bounds(topic)[1] - at for topic, at in behind.positions().items()}
    assert {topic: LAG.labels("0", topic)._value.get() for topic in left} == left
    assert sum(left.values()) > 10
    behind.stop_reading()


def test_a_clock_that_was_ahead_stops_no_passes() -> None:
    log, now_ms = copied(), NOW_MS + 86_400_000
    forecaster = ForecastCell(log, log, 100, now_ms=lambda: now_ms)
    while forecaster.step() or not forecaster.passes:
        pass
    now_ms = NOW_MS
    for minute in range(3):
        forecaster.step()
        assert forecaster.passes == 1 + minute
        now_ms += EVERY_MS
    forecaster.stop_reading()
