"""What metrics and alarms tell of maintenance: hosts by stage, campaigns, and disruptions that wait."""

from prometheus_client import REGISTRY

from events.codes import Outcome, Stage
from events.records.hosts import MaintenanceRequested
from events.records.parts import DrainPlan, MaintenancePlan
from events.records.placement import MaintenanceChanged
from projections.queries import view_metrics
from projections.queries.alarms import alarms
from tests.helpers.maintenance import allowed, asked, by_fact, deferred, stage_of
from tests.helpers.written_cell import ended


def value(name, **labels):
    view_metrics.WATCHED._until = 0.0
    return REGISTRY.get_sample_value(name, {"cell": "0", **labels})


def test_what_is_in_maintenance_and_what_waits_for_budgets_is_counted_and_alarms_after_long(api, monkeypatch):
    for name in ("h1", "h2"):
        api.cell.host(name)
    api.cell.accept("web", instances=4, kind="stateless", sla={"max_unavailable": 3})
    api.cell.run("web", (0, 1, 2, 3))
    now_s = api.cell.ms // 1000
    api.cell.decide("placement", stage_of(Stage.DRAINING, "h1"), stage_of(Stage.CORDONED, "h2", cordon=True))
    plan = MaintenancePlan(drain=DrainPlan())
    at = api.cell.fact(MaintenanceRequested(maintenance_id="k", command_id="c", host_ids=("h1",), plan=plan))
    state = {"maintenance_id": "k", "code": "ASKED", "cause": by_fact(at)}
    api.cell.decide("placement", MaintenanceChanged(state="RUNNING", host_ids=("h1",), **state))
    api.cell.decide("placement", MaintenanceChanged(state="PAUSED", **state))
    api.cell.decide("lifecycle", asked("web", (0, 1, 2, 3), now_s))
    api.cell.decide("sla", allowed("web", (0,)), deferred("web", (1, 2, 3)))
    api.fold()
    unwatch = view_metrics.WATCHED.add(api.projector.views, api.cell.log, 30_000)
    monkeypatch.setattr("time.time", lambda: now_s + 90)
    stages = [value("paceline_hosts_in_maintenance", stage=stage) for stage in ("DRAINING", "CORDONED", "DRAINED")]
    assert (stages, value("paceline_drain_oldest_seconds")) == ([1, 1, 0], 90)
    assert [value("paceline_maintenances", state=state) for state in ("RUNNING", "PAUSED")] == [0, 1]

    def waiting():
        names = ("waiting", "jobs_waiting", "oldest_seconds")
        return [
            value(f"paceline_disruption{'s' * (name == 'waiting')}_{name}", code="SLA_BUDGET_SPENT") for name in names
        ]

    assert waiting() == [3, 1, 90]
    budget = [value(f"paceline_sla_{name}", pool="/p") for name in ("budget_left", "jobs_at_risk")]
    told = api.client.get("/v1/jobs/web/sla").json()
    assert budget == [told["slack"], told["at_risk"]] == [0, 1], "more are missing than may be"
    with api.projector.views.read() as connection:
        late = {each.name for each in alarms(connection, 0, (now_s + 20_000) * 1000, {}, [])}
    assert late >= {"PacelineMaintenancePaused", "PacelineDrainStands", "PacelineDisruptionWaits"}
    api.cell.decide("lifecycle", ended("web", (1,), Outcome.LOST))
    api.cell.decide("sla", allowed("web", (2, 3)))
    api.fold()
    assert waiting() == [0, 0, 0]
    unwatch()
