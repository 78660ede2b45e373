"""What Prometheus is told of jobs, tasks, updates and hosts."""

from prometheus_client import REGISTRY

from events.codes import Outcome
from events.records.hosts import HostHealthReported, HostOffered, HostSilent
from events.records.lifecycle import RunsAvailable, UpdatePaused, UpdateStarted
from events.records.parts import UpdatePolicy
from events.records.placement import HostAvoided
from projections.queries import view_metrics
from projections.queries.alarms import alarms
from tests.helpers.written_cell import ended, ordered, queued, runs


def value(name: str, **labels: str) -> float | None:
    view_metrics.WATCHED._until = 0.0
    return REGISTRY.get_sample_value(name, {"cell": "0", **labels})


def test_jobs_tasks_updates_and_hosts_are_told_by_state(api, monkeypatch):
    for name in ("h1", "h2", "h3"):
        api.cell.host(name)
    api.cell.accept("a", instances=5)
    api.cell.accept("b", instances=2)
    api.cell.run("a", (0, 1, 2))
    api.cell.decide("lifecycle", ended("a", (2,), Outcome.SUCCEEDED))
    api.cell.decide("placement", HostAvoided(host_id="h2", code="FAILS_AT_ONCE", until_ms=api.cell.ms + 600_000))
    api.cell.fact(HostSilent(host_id="h3", session=1))
    started = UpdateStarted(
        job_id="a", number=1, kind="update", from_version=1, version=2, policy=UpdatePolicy(batch=1), jobs_offset=0
    )
    api.cell.decide("lifecycle", started)
    moved = api.cell.ms
    api.fold()
    monkeypatch.setattr("time.time", lambda: (moved + 90_000) / 1000)
    unwatch = view_metrics.WATCHED.add(api.projector.views, api.cell.log, 30_000)
    assert [value("paceline_jobs", state=state) for state in ("PENDING", "KILLING")] == [2, 0]
    tasks = {state: value("paceline_tasks", state=state) for state in ("QUEUED", "ORDERED", "SUCCEEDED", "BACKOFF")}
    assert tasks == {"QUEUED": 4, "ORDERED": 2, "SUCCEEDED": 1, "BACKOFF": 0}
    assert [value("paceline_hosts", state=state) for state in ("UP", "SUSPECTED", "SILENT", "LOST")] == [1, 1, 1, 0]
    assert [value("paceline_updates", state=state) for state in ("ROLLING", "PAUSED")] == [1, 0]
    assert value("paceline_update_oldest_seconds", state="ROLLING") == 90
    api.cell.decide("lifecycle", UpdatePaused(job_id="a", number=1, paused=True))
    api.fold()
    assert [value("paceline_updates", state=state) for state in ("ROLLING", "PAUSED")] == [0, 1]
    unwatch()
    assert value("paceline_jobs", state="PENDING") is None


def test_hosts_that_offer_less_than_their_runs_hold_are_counted_and_are_an_alarm(api):
    def shown() -> list[str]:
        with api.projector.views.read() as connection:
            found = alarms(connection, 0, api.cell.ms, {}, [])
        return [each.text for each in found if each.name == "PacelineHostsShrunk"]

    for host in ("h1", "h2"):
        api.cell.host(host)
        api.cell.accept(f"on-{host}", instances=3)
        api.cell.run(f"on-{host}", (0, 1, 2), host_id=host)
    api.fold()
    unwatch = view_metrics.WATCHED.add(api.projector.views, api.cell.log, 30_000)
    assert (value("paceline_hosts_shrunk"), shown()) == (0, [])
    less = {"cpu": 2000, "memory": 8192}
    api.cell.fact(HostOffered(host_id="h1", session=1, capacity=less, port_first=31_000, port_last=31_999))
    api.fold()
    assert value("paceline_hosts_shrunk") == 1
    assert shown() == ["1 hosts offer less than their runs hold and take no tasks"]
    unwatch()


def test_how_long_tasks_were_in_a_state_is_told_as_a_histogram(api):
    def upto(state: str, seconds: str) -> float:
        return value("paceline_task_state_seconds_bucket", state=state, le=seconds) or 0.0

    before = {(state, le): upto(state, le) for state in ("ORDERED", "RUNNING") for le in ("5", "15", "60")}
    total = value("paceline_task_state_seconds_sum", state="RUNNING") or 0.0
    api.cell.host("h1")
    api.cell.accept("a", instances=2)
    api.cell.decide("lifecycle", queued("a", (0, 1), 1), ordered("a", (0, 1), 1, "h1"))
    api.cell.ms += 10_000
    api.cell.decide("lifecycle", RunsAvailable(**runs("a", (0, 1), 1)))
    api.cell.ms += 40_000
    api.cell.decide("lifecycle", ended("a", (0, 1), Outcome.SUCCEEDED))
    api.fold()
    more = {key: upto(*key) - count for key, count in before.items()}
    assert [more["ORDERED", le] for le in ("5", "15", "60")] == [0, 2, 2]
    assert [more["RUNNING", le] for le in ("5", "15", "60")] == [0, 0, 2]
    assert value("paceline_task_state_seconds_sum", state="RUNNING") == total + 80


def test_hosts_that_are_not_well_beyond_the_cap_and_broken_checks_are_counted_and_are_alarms(api):
    def shown() -> list[str]:
        with api.projector.views.read() as connection:
            found = alarms(connection, 0, api.cell.ms, {}, [])
        return [each.name for each in found if each.name in ("PacelineHostsHeld", "PacelineCheckBroken")]

    for number in range(12):
        api.cell.host(f"h{number}")
    api.cell.fact(HostHealthReported(host_id="h0", session=1, condition="smart", bad=True, code="EXIT_7"))
    api.cell.decide("placement", HostAvoided(host_id="h0", code="CONDITION", until_ms=0))
    api.fold()
    assert shown() == []
    for number in (1, 2):
        api.cell.fact(HostHealthReported(host_id=f"h{number}", session=1, condition="smart", bad=True, code="EXIT_7"))
    api.fold()
    assert shown() == ["PacelineHostsHeld", "PacelineCheckBroken"]
