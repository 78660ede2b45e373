"""Dry runs of drains and campaigns: what they say follows from their options and from the whole SLA of each job."""

import pytest

from events.codes import Stage, Step
from events.records.entitlement import PoolAnswered
from events.records.hosts import MaintenanceRequested
from events.records.lifecycle import DisruptionWithdrawn, SlaGroupSet
from events.records.placement import MaintenanceChanged
from events.records.pools import CellConfigured
from tests.helpers.maintenance import asked, by_fact, deferred, stage_of
from tests.projections.api.test_maintenance import PLAN, _plan, answers, hosts, runs

DRAIN = "/v1/hosts/h1/drains?dry_run=true"
CAMPAIGN = "/v1/maintenances?dry_run=true"


def dry_run(api, **fields):
    answer = api.client.post(DRAIN, json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def leaves(told):
    return {each["job_id"]: each["leaves"] for each in told["jobs"]}


def allow_force(api):
    at = api.cell.fact(CellConfigured(command_id="c", drain_force=True))
    api.cell.decide("entitlement", PoolAnswered(command_id="c", pools_offset=at, path="/", code="DONE"))
    api.fold()


def group(api, name, most):
    api.cell.decide("lifecycle", SlaGroupSet(group=name, max_unavailable=most))


@pytest.fixture
def mixed(api):
    """A host with a service that has an SLA, and with two batch jobs, of which one can't be preempted."""
    api.pool()
    hosts(api, "h1", "h2")
    runs(api, "web", (0, 1, 2), sla={"max_unavailable": 1})
    for name, fields in (("nightly", {}), ("firm", {"preemptible": False})):
        api.cell.accept(name, kind="batch", **fields)
        api.cell.run(name)
    api.fold()
    return api


def test_a_dry_run_by_force_says_that_all_is_ended(mixed):
    told_before = leaves(dry_run(mixed))
    assert told_before == {"web": "asked", "nightly": "batch", "firm": "batch"}
    allow_force(mixed)
    told = dry_run(mixed, force=True)
    assert leaves(told) == dict.fromkeys(told_before, "forced")
    assert told["hosts"] == [{"host_id": "h1", "runs": 5, "at_once": 5, "asked": 0, "batch": 0, "bound": 0}]
    assert told["notes"] == ["5 runs of 3 jobs are ended by force, whatever SLAs say: firm, nightly, web"]
    answers(mixed)
    assert mixed.client.post("/v1/hosts/h1/drains?wait=30s", json={"force": True}).json()["notes"] == told["notes"]


def test_a_dry_run_says_what_moves_and_what_happens_at_the_deadline(mixed):
    assert leaves(dry_run(mixed, batch="move")) == {"web": "asked", "nightly": "moved", "firm": "batch"}
    preempt = "2h after it begins, preemptible batch tasks that are left leave as SLAs allow"
    assert dry_run(mixed, deadline="2h", escalate="preempt")["notes"] == [preempt]
    assert dry_run(mixed, deadline="2h")["notes"] == []
    allow_force(mixed)
    ended = "5m later, all that is left is ended, whatever SLAs say"
    assert dry_run(mixed, deadline="2h", escalate="force", force_after="5m")["notes"] == [preempt, ended]


def test_a_dry_run_is_refused_where_the_drain_would_be(api):
    hosts(api, "h1", "h2", "h3", rack="a")
    force = "The cell doesn't let operators end runs by force: `paceline cell set drain_force=on` permits it."
    for fields in ({"force": True}, {"deadline": "1h", "escalate": "force"}):
        assert api.problem(api.client.post(DRAIN, json=fields), 409, "FORCE_NOT_ALLOWED")["detail"] == force
    drain = {"deadline": "1h", "escalate": "force"}
    api.problem(api.client.post(CAMPAIGN, json={**PLAN, "drain": drain}), 409, "FORCE_NOT_ALLOWED")
    window = api.problem(api.client.post(CAMPAIGN, json={**PLAN, "window": "tues"}), 404, "NOT_FOUND")
    assert window["detail"] == "There is no window tues."
    at = api.cell.fact(MaintenanceRequested(maintenance_id="kernel", command_id="c", host_ids=("h1",), plan=_plan()))
    begins = MaintenanceChanged(
        maintenance_id="kernel", state="RUNNING", code="ASKED", host_ids=("h1",), cause=by_fact(at)
    )
    mine = {"by": "campaign", "source": "kernel", "cause": by_fact(at)}
    api.cell.decide("placement", begins, stage_of(Stage.UP, "h1", code="CAMPAIGN", step=Step.PENDING, **mine))
    api.fold()
    taken = api.problem(api.client.post(CAMPAIGN, json=PLAN), 409, "WRONG_STATE")
    assert taken["detail"] == "A campaign kernel exists already and is RUNNING: choose another id."
    busy = api.problem(api.client.post(CAMPAIGN, json={**PLAN, "maintenance_id": "other"}), 409, "HOSTS_BUSY")
    assert busy["detail"] == "Another campaign has h1; the campaign isn't started on any of its 3 hosts."
    api.problem(api.client.post(DRAIN, json={}), 409, "HOST_IN_CAMPAIGN")
    some = {"hosts": {"ids": ["h1", "h2"]}}
    assert api.client.post("/v1/host-drains?dry_run=true", json={**some, "max_hosts": 1}).status_code == 200
    api.problem(api.client.post("/v1/host-drains?dry_run=true", json=some), 409, "HOST_IN_CAMPAIGN")


@pytest.mark.parametrize(
    ("sla", "words"),
    [
        ({"max_disruptions_per_hour": 1}, "web may lose 1 of 6 an hour: 5 hours for it alone"),
        (
            {"max_unavailable": 2, "min_healthy_time": "29s"},
            "web may lose 2 of 6 at a time, 30 s each: 90s for it alone",
        ),
        (
            {"max_unavailable": 0, "replace": "before", "surge": 2},
            "web is replaced, 2 at a time, 1 s each: 3s for it alone",
        ),
        (
            {"max_unavailable": 1, "windows": [{"schedule": "0 2 * * 2", "duration": "4h"}]},
            "web leaves in its windows alone: nobody knows how long it takes",
        ),
    ],
)
def test_the_pace_is_that_of_the_whole_sla(api, sla, words):
    api.pool()
    hosts(api, "h1")
    runs(api, "web", range(6), sla=sla)
    api.fold()
    assert dry_run(api)["bound"] == words


def test_jobs_of_a_group_share_their_pace(api):
    api.pool()
    hosts(api, "h1")
    group(api, "shop", 1)
    for name in ("web", "api"):
        runs(api, name, range(3), sla={"max_unavailable": 2, "group": "shop"})
    api.fold()
    told = dry_run(api)
    assert told["bound"] == "the jobs of group shop may lose 1 at a time, 1 s each: 6s for it alone"
    assert [each["at_a_time"] for each in told["jobs"]] == [1, 1]


def test_a_group_that_never_allows_anything_is_named(api):
    api.pool()
    hosts(api, "h1")
    group(api, "shop", 0)
    runs(api, "web", range(3), sla={"max_unavailable": 1, "group": "shop"})
    api.fold()
    told = dry_run(api)
    assert leaves(told) == {"web": "never"}
    why = "web: its SLA never lets an instance leave: its group shop has max_unavailable 0 (SLA_NEVER_ALLOWS)"
    assert told["notes"][0] == why


def test_a_gang_that_is_larger_than_its_budget_is_told_with_both_numbers(api):
    api.pool()
    hosts(api, "h1")
    api.cell.accept("gang", kind="batch", instances=4, gang={"min": 4}, sla={"max_unavailable": 2})
    api.cell.run("gang", (0, 1, 2, 3))
    api.fold()
    end = "4 leave together, 2 may be unavailable (SLA_NEVER_ALLOWS)"
    assert dry_run(api)["notes"] == [f"gang: its SLA never lets an instance leave before it ends: {end}"]
    told = dry_run(api, batch="move")
    assert (leaves(told), told["notes"][0]) == ({"gang": "never"}, f"gang: its SLA never lets an instance leave: {end}")


def test_a_rack_that_no_host_has_is_refused(api):
    hosts(api, "h1", "h2", rack="a")
    message = "none of the 2 hosts has the attribute rac: per_rack bounds nothing"
    for path in (CAMPAIGN, "/v1/maintenances"):
        body = api.problem(api.client.post(path, json={**PLAN, "per_rack": 1, "rack": "rac"}), 422, "INVALID_REQUEST")
        assert (body["detail"], body["errors"][0]["pointer"]) == (message, "/rack")
    assert api.client.post(CAMPAIGN, json={**PLAN, "per_rack": 1}).status_code == 200


def test_the_age_of_a_wait_is_that_of_the_ask_that_stands(api):
    api.pool()
    hosts(api, "h1")
    runs(api, "web", (0,), sla={"max_unavailable": 1})
    api.cell.decide("placement", stage_of(Stage.DRAINING, "h1"))
    first_s = api.cell.ms // 1000
    api.cell.decide("lifecycle", asked("web", (0,), first_s))
    api.cell.decide("sla", deferred("web", (0,)))
    api.cell.ms += 60_000
    api.cell.decide("lifecycle", DisruptionWithdrawn.pack(job_ids=("web",), job=[0], instance=[0], run=[1]))
    api.cell.decide("lifecycle", asked("web", (0,), first_s + 60))
    api.cell.decide("sla", deferred("web", (0,)))
    api.fold()
    [wait] = api.get("/v1/hosts/h1")["maintenance"]["waits"]
    assert wait["since"] == "2023-11-14T22:14:20.000Z"


def test_a_campaign_names_the_hosts_that_failed_or_were_skipped(api):
    hosts(api, "h1", "h2", rack="a")
    fact = MaintenanceRequested(maintenance_id="kernel", command_id="c", host_ids=("h1", "h2"), plan=_plan())
    at = api.cell.fact(fact)
    begins = MaintenanceChanged(
        maintenance_id="kernel", state="RUNNING", code="ASKED", host_ids=("h1", "h2"), cause=by_fact(at)
    )
    mine = {"by": "campaign", "source": "kernel"}
    api.cell.decide("placement", begins, stage_of(Stage.UP, "h1", "h2", code="CAMPAIGN", step=Step.PENDING, **mine))
    api.cell.decide("placement", stage_of(Stage.CORDONED, "h1", code="WORK_LATE", step=Step.FAILED, by=""))
    api.fold()
    told = api.get("/v1/maintenances/kernel")["not_done"]
    assert [(each["host_id"], each["step"], each["code"]) for each in told] == [("h1", "FAILED", "WORK_LATE")]
    assert api.get("/v1/maintenances/kernel")["estimated_at"] is None
