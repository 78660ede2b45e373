"""What Prometheus is told of pools."""

from prometheus_client import REGISTRY

from events.codes import Outcome, TaskState
from events.columns import pack_longs
from events.records.entitlement import EntitlementsSet
from projections.queries import pool_metrics, view_metrics
from projections.record_json import at as write_time
from tests.helpers.written_cell import admitted, ended, held, ordered, preempted

LABELS = {"cell": "0", "pool": "/p"}


def value(name: str, **labels: str) -> float | None:
    view_metrics.WATCHED._until = 0.0
    return REGISTRY.get_sample_value(name, {**LABELS, **labels})


def test_amounts_queues_and_waits_of_a_pool_are_told_to_prometheus(api, monkeypatch):
    api.pool("/p", reservation={"cpu": 500, "memory": 3})
    api.pool("/of-another-cell", cell=7)
    api.cell.host()
    api.cell.accept("a", instances=5)
    api.cell.run("a", (0,))
    started = api.cell.ms
    api.cell.decide("entitlement", held("a", (1, 2), "LIMIT_REACHED"))
    api.cell.ms += 10_000
    api.cell.decide("entitlement", admitted("a", (3,)), admitted("a", (4,), entitled=0), preempted(1, {"a": (0,)}, "w"))
    columns = {name: pack_longs(each) for name, each in
               {"entitlement": (1000, 2), "demand": (9000, 2), "allocation": (4500, 2),
                "placed": (2500, 2)}.items()}  # fmt: skip
    api.cell.decide("entitlement", EntitlementsSet(pools=("/p",), resources=("cpu", "memory"), **columns))
    api.fold()
    monkeypatch.setattr("time.time", lambda: (started + 60_000) / 1000)
    unwatch = view_metrics.WATCHED.add(api.projector.views, api.cell.log, 30_000)
    assert value("paceline_pool_reservation", resource="memory") == 3 * 1024 * 1024
    assert value("paceline_pool_entitlement", resource="cpu") == 1
    assert value("paceline_pool_allocation", resource="cpu") == 4.5
    assert value("paceline_pool_placed", resource="cpu") == 2.5
    assert value("paceline_pool_demand", resource="cpu") == 9
    assert value("paceline_pool_queue_tasks", **{"class": "preemptible"}) == 2
    assert value("paceline_pool_admitted_tasks_total") == 3
    assert value("paceline_pool_preempted_runs_total") == 1
    assert value("paceline_pool_over_entitlement_seconds_total") == 50
    assert value("paceline_pool_under_entitlement_seconds") == 0
    waits = {stage: value("paceline_pool_oldest_wait_seconds", stage=stage) for stage in pool_metrics.STAGES}
    assert waits == {"admission": 60, "place": 50, "start": 60}
    assert REGISTRY.get_sample_value("paceline_preemption_oldest_seconds", {"cell": "0"}) == 50
    assert value("paceline_pool_admitted_tasks_total", pool="/of-another-cell") is None
    api.cell.decide("lifecycle", ordered("a", (3,), 1, "h1"))
    api.fold()
    assert value("paceline_pool_oldest_wait_seconds", stage="place") is None, "what is borrowed waits for no place"
    unwatch()
    assert value("paceline_pool_entitlement", resource="cpu") is None


def said(
    api, entitlement: tuple[int, int], allocation: tuple[int, int], placed: tuple[int, int], daemons: bytes = b""
) -> None:
    """The pool was told to have so much of cpu and memory."""
    columns = {"entitlement": entitlement, "demand": (90_000, 90), "allocation": allocation, "placed": placed}
    packed = {name: pack_longs(each) for name, each in columns.items()}
    api.cell.decide(
        "entitlement", EntitlementsSet(pools=("/p",), resources=("cpu", "memory"), daemons=daemons, **packed)
    )
    api.fold()


def test_a_pool_is_below_its_entitlement_only_while_what_it_admitted_waits_for_hosts(api, monkeypatch):
    api.pool("/p")
    api.cell.host()
    api.cell.accept("a")

    def under(*amounts: tuple[int, int]) -> float | None:
        """Seconds after the pool was told to have that."""
        said(api, *amounts)
        monkeypatch.setattr("time.time", lambda: (api.cell.ms + 60_000) / 1000)
        return value("paceline_pool_under_entitlement_seconds")

    unwatch = view_metrics.WATCHED.add(api.projector.views, api.cell.log, 30_000)
    assert under((64_000, 90), (64_000, 64), (40_000, 40)) == 0, "none of its tasks waits for a host"
    api.cell.decide("entitlement", admitted("a", (0,)))
    assert under((64_000, 90), (64_000, 64), (64_000, 64)) == 0, "memory isn't scarce, and all that it uses is cpu"
    assert under((0, 90), (0, 0), (0, 0)) == 0, "share 0"
    assert under((64_000, 90), (80_000, 80), (64_000, 64)) == 0, "what it has no hosts for is beyond its entitlement"
    assert under((64_000, 90), (64_000, 64), (40_000, 40)) == 60
    assert api.get("/v1/pools/p")["under_since"] is not None
    api.cell.decide("lifecycle", ordered("a", (0,), 1, "h1"))
    api.cell.decide("lifecycle", ended("a", (0,), Outcome.FAILED, exit_code=1, following=TaskState.BACKOFF))
    assert under((64_000, 90), (64_000, 64), (40_000, 40)) == 0, "it waits before it is tried again"
    assert api.get("/v1/pools/p")["under_since"] is None
    unwatch()


def test_a_daemon_beside_the_shares_takes_nothing_beyond_its_entitlement(api, monkeypatch):
    api.pool("/p")
    unwatch = view_metrics.WATCHED.add(api.projector.views, api.cell.log, 30_000)

    def over(daemons: bytes) -> float | None:
        said(api, (0, 0), (0, 0), (100, 0), daemons)
        monkeypatch.setattr("time.time", lambda: (api.cell.ms + 60_000) / 1000)
        return value("paceline_pool_over_entitlement_seconds_total")

    assert over(pack_longs((100, 0))) == 0
    assert api.get("/v1/pools/p")["over_since"] is None
    assert over(pack_longs((40, 0))) == 60, "the rest is no daemon's"
    unwatch()


def test_the_oldest_wait_goes_on_through_all_reasons(api, monkeypatch):
    api.pool("/p")
    api.cell.accept("a")
    began = api.cell.ms
    api.cell.decide("entitlement", held("a", (0,), "BEHIND_IN_QUEUE"))
    api.cell.ms += 600_000
    api.cell.decide("entitlement", held("a", (0,), "LIMIT_REACHED"))
    api.fold()
    unwatch = view_metrics.WATCHED.add(api.projector.views, api.cell.log, 30_000)
    monkeypatch.setattr("time.time", lambda: (began + 660_000) / 1000)
    assert value("paceline_pool_oldest_wait_seconds", stage="admission") == 660
    assert api.get("/v1/jobs/a")["waiting_since"] == write_time(began)
    unwatch()
