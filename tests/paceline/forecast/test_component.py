"""Forecasts of a whole cell in virtual time: what the log and the views say of them."""

from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from events.codec import decode, encode
from events.codes import ForecastMethod
from events.log.port import Log, NewRecord
from events.records.forecasts import ForecastsMade, ForecastsScored
from events.topics import ALL, FORECASTS
from paceline.forecast import component
from paceline.forecast.component import EVERY_MS, LAG, PASS_AT, ForecastCell
from paceline.forecast.forecaster import (
    PATHS,
    SCORES_MIN,
    WAITED_MS,
    WORK_MAX,
    Forecaster,
    PoolLine,
    Present,
    WaitingJob,
)
from paceline.forecast.lengths import Like
from paceline.forecast.records import NEVER, read
from paceline.simulate.scenario.scenario import Scenario
from paceline.simulate.session import RunOptions, Session, of_scenario
from paceline.simulate.world.cell import START_MS
from projections.queries import entities
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


def played(
    scenario: Scenario,
    killed_at: Collection[int] = (),
    forecasts_it: bool = True,
    path: Path | None = None,
    decides: Callable[[], bool] = lambda: True,
) -> tuple[Session, ForecastCell]:
    """A scenario with a forecaster that looks at each moment; `killed_at`: another takes its place at these passes."""
    session = of_scenario(scenario, "", RunOptions())
    cell = session.run.cell

    def made() -> ForecastCell:
        return ForecastCell(cell.log, cell.log, path, 100, decides, now_ms=lambda: cell.clock.ms)

    forecaster, passes, left = made(), 0, set(killed_at)

    def look(_: object) -> None:
        nonlocal forecaster, passes
        is_due = cell.clock.ms >= 1000 * PASS_AT.labels("0")._value.get() + EVERY_MS
        if is_due and (at := passes + forecaster.passes) in left:
            left.discard(at)
            passes, forecaster = at, made()
        while forecasts_it and forecaster.step():
            pass

    session.run.run_to_end(look)
    assert not left
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
    assert sum(outcomes) / len(outcomes) > 0.7


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


@pytest.mark.parametrize("keeps", [True, False])
def test_one_that_is_killed_again_and_again_says_what_one_does_that_goes_on(
    keeps: bool, tmp_path: Path, crowd: Session
) -> None:
    path = tmp_path / "forecasts.msgpack"
    session, last = played(crowded(), killed_at=(3, 12, 13, 40), path=path if keeps else None)
    mine, theirs = (list(each.run.cell.log.scan(FORECASTS.name, 0)) for each in (session, crowd))
    assert mine == theirs
    last.stop_reading()
    assert path.exists() == keeps


def test_one_goes_on_from_its_file_and_not_from_the_start_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "forecasts.msgpack"
    session, first = played(crowded(jobs=20), path=path)
    ends = first.positions()
    first.stop_reading()
    log = session.run.cell.log
    again = ForecastCell(log, log, path, 100, now_ms=lambda: session.run.cell.clock.ms)
    again.step()
    assert again.positions() == ends
    again.stop_reading()
    kept = path.read_bytes()
    for damaged in (b"", kept[:-1], kept.replace(b"job", b"jo\xff")):
        path.write_bytes(damaged)
        anew = ForecastCell(log, log, path, 100, now_ms=lambda: session.run.cell.clock.ms)
        while anew.step():
            pass
        assert anew.positions() == ends
        anew.stop_reading()
        assert path.read_bytes() == kept


def test_a_record_that_cant_be_is_passed_over() -> None:
    session, forecaster = played(crowded(jobs=20))
    log = session.run.cell.log
    [event, *_] = [each for each in records(log) if isinstance(each, ForecastsMade)]
    scored = next(each for each in records(log) if isinstance(each, ForecastsScored))
    for damaged in (
        msgspec.structs.replace(event, pools=()),
        msgspec.structs.replace(event, low=event.low[:-8]),
        msgspec.structs.replace(event, method=b"\x63\0\0\0" * len(event.job_ids)),
        msgspec.structs.replace(scored, job_ids=("one", "two", "three", "four")),
    ):
        log.append([NewRecord(FORECASTS.name, b"", encode(damaged))])
    while forecaster.step():
        pass
    assert forecaster.positions()[FORECASTS.name] == log.bounds(FORECASTS.name)[1]
    assert forecaster.status()["ready"]


def test_a_file_of_another_log_is_left_aside(tmp_path: Path) -> None:
    path = tmp_path / "forecasts.msgpack"
    played(crowded(jobs=20), path=path)[1].stop_reading()
    kept = path.read_bytes()
    session, forecaster = played(crowded(jobs=10), path=path)
    forecaster.stop_reading()
    assert path.read_bytes() != kept
    assert records(session.run.cell.log) == records(played(crowded(jobs=10))[0].run.cell.log)


def test_one_that_stands_by_knows_what_the_other_said_and_scores_it_once() -> None:
    scenario, takes_over = crowded(2), False
    session = of_scenario(scenario, "", RunOptions())
    cell = session.run.cell
    owner, standby = (
        ForecastCell(cell.log, cell.log, None, 100, decides, now_ms=lambda: cell.clock.ms)
        for decides in (lambda: not takes_over, lambda: takes_over)
    )

    def look(_: object) -> None:
        nonlocal takes_over
        takes_over = cell.clock.ms - START_MS > 1_800_000
        while owner.step() or standby.step():
            pass

    session.run.run_to_end(look)
    assert owner.passes > 5
    assert standby.passes > 5
    said = records(cell.log)
    made = {each.job_id for event in said if isinstance(event, ForecastsMade) for each in read(event)}
    scored = Counter(job_id for event in said if isinstance(event, ForecastsScored) for job_id in event.job_ids)
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


def test_each_job_that_waits_has_a_forecast_or_a_code_that_says_why_not(tmp_path: Path) -> None:
    wide, narrow = {"resources": {"cpu": 8}}, {"resources": {"cpu": 2}}
    short = {"at": "5s", "max_runtime": "20m", "sim": {"duration": "15m"}}
    jobs: dict[str, dict[str, Any]] = {
        "runs": {**wide, **short, "at": "1s", "instances": 2},
        "gang": {**wide, **short, "instances": 2, "gang": {"min": 2}},
        "too-wide-a-gang": {**wide, **short, "instances": 3, "gang": {"min": 3}},
        "too-large": {"resources": {"cpu": 9}, **short},
        "service": {**narrow, "kind": "stateless", "at": "5s", "instances": 2},
        "held": {**narrow, **short},
        "nowhere": {**narrow, **short, "constraints": [{"attribute": "arch", "operator": "in", "values": ["none"]}]},
        "of-nothing": {**narrow, **short, "pool": "/nothing"},
        "closed": {**narrow, **short, "pool": "/closed"},
        "kept": {**narrow, **short, "preemptible": False},
        "late": {**narrow, **short, "at": "570s"},
    }
    session, _ = played(
        Scenario.model_validate(
            {
                "name": "all-kinds",
                "hosts": [{"name": "host", "count": 2, "resources": {"cpu": 8}}],
                "pools": [{"path": "/a"}, {"path": "/nothing", "share": 0}, {"path": "/closed", "closed": True}],
                "jobs": [{"pool": "/a", **spec, "job_id": job_id} for job_id, spec in jobs.items()],
                "events": [{"at": "6s", "hold": "held"}],
                "end": "10m",
            }
        )
    )
    engine = rebuild(session.run.cell.log, tmp_path)
    with engine.connect() as connection:
        rows = {job_id: entities.job_row(connection, job_id) for job_id in jobs}
        found = {job_id: entities.job_json(connection, row) for job_id, row in rows.items() if row is not None}
    engine.dispose()
    assert found.keys() == jobs.keys()
    said = {}
    for job_id, job in found.items():
        why = job["no_forecast"]
        assert (job["forecast"] is not None) + (why is not None) == (not job["started_at"]), job_id
        said[job_id] = why["code"] if why else "forecast" if job["forecast"] else "begun"
    assert said == {
        "runs": "begun",
        "gang": "forecast",
        "too-wide-a-gang": "NEVER_FITS",
        "too-large": "NEVER_FITS",
        "service": "forecast",
        "held": "HELD",
        "nowhere": "CONSTRAINT_MISMATCH",
        "of-nothing": "forecast",
        "closed": "POOL_CLOSED",
        "kept": "UNKNOWN",  # its pool reserves nothing
        "late": "TOO_SOON",
    }


def test_metrics_say_how_far_it_has_read_and_when_it_forecast_last(monkeypatch):
    session, forecaster = played(crowded(jobs=20))
    cell = session.run.cell
    assert forecaster.passes > 1
    passed_at = PASS_AT.labels("0")._value.get()
    assert cell.clock.ms / 1000 - EVERY_MS / 1000 <= passed_at <= cell.clock.ms / 1000
    monkeypatch.setattr(component, "RECORDS", 10)
    behind = ForecastCell(cell.log, cell.log, None, 100, now_ms=lambda: cell.clock.ms)
    behind.step()
    left = {topic: cell.log.bounds(topic)[1] - at for topic, at in behind.positions().items()}
    assert {topic: LAG.labels("0", topic)._value.get() for topic in left} == left
    assert sum(left.values()) > 10
    behind.stop_reading()


def test_a_queue_too_long_for_all_paths_is_forecast_by_fewer_until_limits_are_known_to_be_worth_something() -> None:
    forecaster, count = Forecaster(), WORK_MAX // PATHS + 1
    like = Like("ann", "/a", 600_000)
    waiting = [WaitingJob(f"job-{number}", like, [{"cpu": 1}], 1, -WAITED_MS) for number in range(count)]
    present = Present(0, {"cpu": 100}, {"/a": PoolLine(1.0, {}, {})}, (), waiting)
    first = forecaster.make(present)
    assert (len(first), {each.raw.method for each in first}) == (count, {ForecastMethod.AHEAD})
    for each in first[100 : 100 + SCORES_MIN]:
        forecaster.learn(each, 60_000)
    later = forecaster.make(present)
    assert {each.raw.method for each in later[100:]} == {ForecastMethod.LIMITS}


def test_a_clock_that_was_ahead_stops_no_passes() -> None:
    log, now_ms = copied(), NOW_MS + 86_400_000
    forecaster = ForecastCell(log, log, None, 100, now_ms=lambda: now_ms)
    while forecaster.step() or not forecaster.passes:
        pass
    now_ms = NOW_MS
    for minute in range(3):
        forecaster.step()
        assert forecaster.passes == 1 + minute
        now_ms += EVERY_MS
    forecaster.stop_reading()
