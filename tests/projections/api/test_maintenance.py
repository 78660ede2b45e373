"""Drains, cordons and campaigns over HTTP: what is written, what is refused, and what of them is shown."""

from msgspec.structs import replace

from events.codec import decode
from events.codes import Outcome, RunCause, Stage, Step
from events.records.hosts import (
    HostsCordonRequested,
    HostsDrainRequested,
    HostsResumeRequested,
    HostTaintRequested,
    MaintenanceActionRequested,
    MaintenanceRequested,
)
from events.records.lifecycle import DisruptionAsked, DisruptionWithdrawn, RunsEnded, RunsStopping
from events.records.parts import Actor, Cause
from events.records.placement import HostsAnswered, HostTainted, MaintenanceChanged
from projections.api.problems import Problem
from projections.views.projector import rebuild
from projections.views.retention import SWEEP_ROUNDS
from tests.helpers.maintenance import allowed, asked, by_fact, deferred, stage_of
from tests.helpers.written_cell import dump

PLAN = {"maintenance_id": "kernel", "hosts": {"attribute": "rack", "values": ["a"]}, "at_a_time": 2}


def last(api, topic="paceline.hosts"):
    return decode(list(api.cell.log.scan(topic, 0))[-1].value)


def hosts(api, *names, **attributes):
    for name in names:
        api.cell.host(name, **attributes)
    api.fold()


def answers(api, code="DONE", message="", before=lambda at, event: ()):
    """Placement answers each fact, after other decisions."""

    def says(at, event):
        ids = getattr(event, "host_ids", ())
        return (
            *before(at, event),
            HostsAnswered(hosts_offset=at, command_id=event.command_id, code=code, message=message, host_ids=ids),
        )

    api.answer("paceline.hosts", "placement", says)


def test_a_drain_is_written_with_its_times_and_answered(api):
    hosts(api, "h1")
    body = {"deadline": "2h", "escalate": "force", "force_after": "5m", "batch": "move", "reason": "disk"}
    answer = api.client.post("/v1/hosts/h1/drains", json=body)
    assert (answer.status_code, answer.headers["location"]) == (202, "/v1/hosts/h1")
    fact = last(api)
    assert isinstance(fact, HostsDrainRequested)
    assert (fact.host_ids, fact.batch, fact.escalate, fact.reason) == (("h1",), "move", "force", "disk")
    assert (fact.deadline_ms, fact.force_after_ms, fact.force, fact.most) == (7_200_000, 300_000, False, 0)
    assert fact.actor is not None
    answers(api)
    answer = api.client.post("/v1/hosts/h1/drains?wait=30s", json={"command_id": "mine"})
    assert answer.status_code == 200
    told = answer.json()
    assert (told["code"], told["host_ids"], told["notes"], told["command_id"]) == ("DONE", ["h1"], [], "mine")


def test_the_refusal_of_a_drain_has_its_code(api):
    hosts(api, "h1")
    answers(api, "FORCE_NOT_ALLOWED", "The cell doesn't allow force.")
    api.problem(api.client.post("/v1/hosts/h1/drains?wait=30s", json={"force": True}), 409, "FORCE_NOT_ALLOWED")


def test_twenty_hosts_of_which_one_is_unknown_drain_none(api):
    names = [f"h{number}" for number in range(19)]
    hosts(api, *names)
    end = api.cell.log.bounds("paceline.hosts")[1]
    refused = api.client.post("/v1/host-drains", json={"hosts": {"ids": [*names[:10], "h100", *names[10:]]}})
    body = api.problem(refused, 404, "NOT_FOUND")
    assert body["errors"] == [{"pointer": "/hosts/ids/10", "message": "there is no host h100"}]
    assert body["detail"].startswith("there is no host h100; did you mean h10?") or "h100" in body["detail"]
    assert api.cell.log.bounds("paceline.hosts")[1] == end
    assert api.client.post("/v1/host-drains", json={"hosts": {"ids": names}}).status_code == 202
    assert last(api).host_ids == tuple(names)


def test_hosts_are_named_by_an_attribute_and_the_fact_has_their_ids(api):
    hosts(api, "h1", "h10", "h2", rack="a")
    hosts(api, "h3", rack="b")
    body = {"hosts": {"attribute": "rack", "values": ["a"]}, "max_hosts": 2}
    assert api.client.post("/v1/host-drains", json=body).status_code == 202
    assert (last(api).host_ids, last(api).most) == (("h1", "h2", "h10"), 2)
    nothing = {"hosts": {"attribute": "rack", "values": ["z"]}}
    body = api.problem(api.client.post("/v1/host-drains", json=nothing), 404, "NOT_FOUND")
    assert body["detail"] == "no host has the attribute rack with the value z"
    some = {"hosts": {"attribute": "rack", "values": ["a", "bb"]}}
    body = api.problem(api.client.post("/v1/host-drains", json=some), 404, "NOT_FOUND")
    assert body["detail"] == (
        "no host has the attribute rack with the value bb; did you mean b? (nothing was done with the other hosts)"
    )
    assert body["errors"] == [
        {"pointer": "/hosts/values/1", "message": "no host has the attribute rack with the value bb"}
    ]
    both = {"hosts": {"ids": ["h1"], "attribute": "rack", "values": ["a"]}}
    api.problem(api.client.post("/v1/host-drains", json=both), 422, "INVALID_REQUEST")


def test_hosts_are_cordoned_and_taken_back_alone_or_together(api):
    hosts(api, "h1", "h2")
    for path, kind, cordon_only in (
        ("cordons", HostsCordonRequested, None),
        ("uncordons", HostsResumeRequested, True),
        ("resumptions", HostsResumeRequested, False),
    ):
        for where, named, ids in (
            (f"/v1/hosts/h1/{path}", {}, ("h1",)),
            (f"/v1/host-{path}", {"hosts": {"ids": ["h2", "h1", "h2"]}}, ("h2", "h1")),
        ):
            assert api.client.post(where, json={"reason": "why", **named}).status_code == 202
            fact = last(api)
            assert isinstance(fact, kind)
            assert (fact.host_ids, fact.reason, getattr(fact, "cordon_only", None)) == (ids, "why", cordon_only)
    api.problem(api.client.post("/v1/hosts/none/cordons", json={}), 404, "NOT_FOUND")


def runs(api, job_id, instances, host_id="h1", **spec):
    api.cell.accept(job_id, instances=len(instances), kind="stateless", **spec)
    api.cell.run(job_id, tuple(instances), host_id=host_id)


def test_a_host_that_drains_says_what_each_run_waits_for(api):
    api.pool()
    hosts(api, "h1", "h2")
    runs(api, "web", (0, 1, 2), sla={"max_unavailable": 1})
    api.cell.accept("nightly", kind="batch")
    api.cell.run("nightly")
    api.cell.accept("db", kind="stateful")
    api.cell.run("db")
    at = api.cell.fact(HostsDrainRequested(host_ids=("h1",), command_id="c", reason="disk"))
    until = api.cell.ms // 1000 + 7200
    drain = stage_of(Stage.DRAINING, "h1", times=(until, until + 600, 0), cause=by_fact(at))
    api.cell.decide("placement", drain, HostsAnswered(hosts_offset=at, command_id="c", code="DONE"))
    api.cell.ms += 5000
    api.cell.decide("lifecycle", asked("web", (0, 1, 2), 1_700_000_000))
    api.cell.decide("sla", allowed("web", (0,)), deferred("web", (1, 2)))
    api.fold()
    body = api.get("/v1/hosts/h1")["maintenance"]
    assert (body["stage"], body["by"], body["reason"], body["runs_left"]) == ("DRAINING", "operator", "disk", 5)
    assert (body["since"], body["preempt_at"], body["force_at"]) == (
        "2023-11-14T22:13:20.000Z",
        "2023-11-15T00:13:20.000Z",
        "2023-11-15T00:23:20.000Z",
    )
    waits = [(each["job_id"], each["code"], each["runs"], each["message"]) for each in body["waits"]]
    spent = "2 tasks are to leave, but the SLA of the job allows no more unavailable instances now"
    assert waits == [
        ("web", "SLA_BUDGET_SPENT", 2, f"{spent} (1 of 3 unavailable, 1 may be)"),
        ("nightly", "RUNS_TO_ITS_END", 1, "1 task until it ends"),
        ("web", "ASKED", 1, "1 task waits for the verdict of sla"),
        ("db", "LEAVES_LAST", 1, "1 task bound to the host, leaves last"),
    ]
    assert body["waits"][0]["since"] == "2023-11-14T22:13:25.000Z"
    [first, second] = api.get("/v1/hosts")["hosts"]
    assert (first["state"], first["maintenance"]["stage"], second["maintenance"]) == ("UP", "DRAINING", None)
    assert [each["host_id"] for each in api.get("/v1/hosts?state=DRAINING,DRAINED")["hosts"]] == ["h1"]
    assert [each["host_id"] for each in api.get("/v1/hosts?state=UP")["hosts"]] == ["h2"]

    api.cell.decide("lifecycle", DisruptionWithdrawn.pack(job_ids=("web",), job=[0], instance=[2], run=[1]))
    api.cell.decide("placement", stage_of(Stage.UP, "h1", code="RESUMED", by=""))
    api.fold()
    assert api.get("/v1/hosts/h1")["maintenance"] is None


def test_a_dry_run_tells_what_would_leave_and_writes_nothing(api):
    api.pool()
    hosts(api, "h1", "h2")
    runs(api, "web", (0, 1), sla={"max_unavailable": 1})
    runs(api, "free", (0, 1, 2))
    runs(api, "never", (0, 1), sla={"max_unavailable": 0})
    api.cell.accept("nightly", kind="batch")
    api.cell.run("nightly", host_id="h2")
    api.fold()
    end = api.cell.log.bounds("paceline.hosts")[1]
    answer = api.client.post("/v1/host-drains?dry_run=true", json={"hosts": {"ids": ["h1", "h2"]}})
    assert (answer.status_code, api.cell.log.bounds("paceline.hosts")[1]) == (200, end)
    told = answer.json()
    assert told["hosts"] == [
        {"host_id": "h1", "runs": 7, "at_once": 3, "asked": 4, "batch": 0, "bound": 0},
        {"host_id": "h2", "runs": 1, "at_once": 0, "asked": 0, "batch": 1, "bound": 0},
    ]
    assert {each["job_id"]: (each["leaves"], each["allowed"]) for each in told["jobs"]} == {
        "free": ("at_once", None),
        "web": ("asked", 1),
        "never": ("never", 0),
        "nightly": ("batch", None),
    }
    assert told["notes"] == [
        "3 runs of 1 job without an SLA stop at once: free",
        "never: its SLA never lets an instance leave: max_unavailable is 0 (SLA_NEVER_ALLOWS)",
        "no host is left that takes tasks: 7 tasks would wait for one",
    ]
    answers(api)
    assert api.client.post("/v1/hosts/h1/drains?wait=30s", json={}).json()["notes"] == told["notes"][:2]


def test_a_campaign_is_started_followed_and_acted_on(api):
    hosts(api, "h1", "h2", "h10", rack="a")

    def begins(at, event):
        if not isinstance(event, MaintenanceRequested):
            return ()
        state = MaintenanceChanged(
            maintenance_id="kernel", state="RUNNING", code="ASKED", host_ids=event.host_ids, cause=by_fact(at)
        )
        mine = {"by": "campaign", "source": "kernel", "cause": by_fact(at)}
        pending = stage_of(Stage.UP, "h2", "h10", code="CAMPAIGN", step=Step.PENDING, **mine)
        return (state, pending, stage_of(Stage.DRAINING, "h1", code="CAMPAIGN", step=Step.DRAIN, **mine))

    answers(api, before=begins)
    answer = api.client.post("/v1/maintenances?wait=30s", json={**PLAN, "reason": "kernel 6.12"})
    assert (answer.status_code, answer.headers["location"]) == (201, "/v1/maintenances/kernel")
    assert answer.json()["host_ids"] == ["h1", "h2", "h10"]
    fact = last(api)
    assert isinstance(fact, MaintenanceRequested)
    assert (fact.host_ids, fact.plan.at_a_time) == (("h1", "h2", "h10"), 2)
    body = api.get("/v1/maintenances/kernel")
    assert (body["state"], body["hosts"], body["steps"]) == ("RUNNING", 3, {"PENDING": 2, "DRAIN": 1})
    assert (body["reason"], body["plan"]["at_a_time"]) == ("kernel 6.12", 2)
    assert [(each["host_id"], each["stage"]) for each in body["at_work"]] == [("h1", "DRAINING")]
    assert api.get("/v1/hosts/h1")["maintenance"]["reason"] == "kernel 6.12"
    listed = api.get("/v1/maintenances/kernel/hosts?page_size=2")
    assert [(each["host_id"], each["step"]) for each in listed["hosts"]] == [("h1", "DRAIN"), ("h2", "PENDING")]
    rest = api.get(f"/v1/maintenances/kernel/hosts?page_size=2&page_token={listed['next_page_token']}")
    assert ([each["host_id"] for each in rest["hosts"]], rest["next_page_token"]) == (["h10"], "")
    assert [each["host_id"] for each in api.get("/v1/maintenances/kernel/hosts?step=drain")["hosts"]] == ["h1"]
    assert [each["maintenance_id"] for each in api.get("/v1/maintenances")["maintenances"]] == ["kernel"]
    for noun, action in (("pauses", "pause"), ("resumptions", "resume"), ("aborts", "abort")):
        assert api.client.post(f"/v1/maintenances/kernel/{noun}?wait=30s", json={"reason": "r"}).status_code == 200
        fact = last(api)
        assert isinstance(fact, MaintenanceActionRequested)
        assert (fact.maintenance_id, fact.action, fact.reason) == ("kernel", action, "r")


def test_the_hosts_of_a_campaign_keep_the_step_at_which_it_left_them(api):
    hosts(api, "h1", "h2", rack="a")
    fact = MaintenanceRequested(maintenance_id="kernel", command_id="c", host_ids=("h1", "h2"), plan=_plan())
    at = api.cell.fact(fact)
    mine = {"by": "campaign", "source": "kernel"}
    api.cell.decide(
        "placement",
        MaintenanceChanged(
            maintenance_id="kernel", state="RUNNING", code="ASKED", host_ids=("h1", "h2"), cause=by_fact(at)
        ),
        stage_of(Stage.UP, "h1", "h2", code="CAMPAIGN", step=Step.PENDING, **mine),
    )
    api.cell.decide("placement", stage_of(Stage.DRAINED, "h1", code="EMPTY", step=Step.WORK, **mine))
    api.cell.decide("placement", stage_of(Stage.UP, "h1", code="CHECKED", step=Step.DONE, by=""))
    api.cell.decide("placement", stage_of(Stage.UP, "h2", code="RESUMED", step=Step.SKIPPED, by=""))
    api.cell.decide(
        "placement", MaintenanceChanged(maintenance_id="kernel", state="DONE", code="OVER", done=1, skipped=1)
    )
    api.fold()
    body = api.get("/v1/maintenances/kernel")
    assert (body["state"], body["steps"], body["at_work"]) == ("DONE", {"DONE": 1, "SKIPPED": 1}, [])
    assert body["ended_at"] is not None
    assert api.get("/v1/hosts/h1")["maintenance"] is None


def _plan():
    from events.spec.maintenance import MaintenanceSpec

    return MaintenanceSpec.model_validate(PLAN).to_event([], "c").plan


def test_a_dry_run_of_a_campaign_writes_nothing_and_one_that_is_long_over_is_forgotten(api):
    hosts(api, "h1", rack="a")
    end = api.cell.log.bounds("paceline.hosts")[1]
    told = api.client.post("/v1/maintenances?dry_run=true", json=PLAN)
    assert (told.status_code, [each["host_id"] for each in told.json()["hosts"]]) == (200, ["h1"])
    assert api.cell.log.bounds("paceline.hosts")[1] == end
    at = api.cell.fact(MaintenanceRequested(maintenance_id="kernel", command_id="c", host_ids=("h1",), plan=_plan()))
    begins = MaintenanceChanged(
        maintenance_id="kernel", state="RUNNING", code="ASKED", host_ids=("h1",), cause=by_fact(at)
    )
    api.cell.decide("placement", begins, MaintenanceChanged(maintenance_id="kernel", state="ABORTED", code="ASKED"))
    api.fold()
    assert api.get("/v1/maintenances/kernel")["state"] == "ABORTED"
    api.cell.ms += 91 * 24 * 3600 * 1000
    for _ in range(SWEEP_ROUNDS):
        api.cell.decide("placement")
    api.fold()
    api.problem(api.client.get("/v1/maintenances/kernel"), 404, "NOT_FOUND")


def test_there_is_no_campaign_that_nobody_started(api):
    api.problem(api.client.get("/v1/maintenances/none"), 404, "NOT_FOUND")
    api.problem(api.client.get("/v1/maintenances/none/hosts"), 404, "NOT_FOUND")
    api.problem(api.client.post("/v1/maintenances/none/pauses", json={}), 404, "NOT_FOUND")
    api.problem(api.client.post("/v1/maintenances", json={"maintenance_id": "x"}), 422, "INVALID_REQUEST")


def test_the_history_of_a_host_has_its_drains_and_what_was_refused(api, tmp_path):
    hosts(api, "h1", "h2")
    ids = ("h1", "h2")
    at = api.cell.fact(HostsDrainRequested(host_ids=ids, command_id="c", reason="disk", deadline_ms=7_200_000))
    api.cell.ms += 1
    api.cell.decide(
        "placement",
        stage_of(Stage.DRAINING, *ids, cause=by_fact(at)),
        HostsAnswered(hosts_offset=at, command_id="c", code="DONE", host_ids=ids),
    )
    api.cell.ms += 1
    api.cell.decide("placement", stage_of(Stage.DRAINED, "h1", code="EMPTY"))
    api.cell.ms += 1
    at = api.cell.fact(HostsResumeRequested(host_ids=ids, command_id="d", cordon_only=True))
    refused = HostsAnswered(
        hosts_offset=at, command_id="d", code="HOST_DRAINING", message="m", host_ids=("h1",), codes=("HOST_DRAINING",)
    )
    api.cell.ms += 1
    api.cell.decide("placement", refused)
    api.fold()
    events = api.get("/v1/hosts/h1/history")["events"]
    texts = [each["text"] for each in events if each["event"] not in ("HostConnected", "HostOffered")]
    assert texts == [
        "drain requested with a deadline after 2h, then wait: disk",
        "DRAINING: ASKED (operator)",
        "DRAINED: EMPTY (operator)",
        "end of the cordon requested",
        "end of the cordon refused, HOST_DRAINING: m",
    ]
    assert len(api.get("/v1/hosts/h2/history")["events"]) == 5
    (tmp_path / "again").mkdir()
    assert dump(api.projector.views.engine) == dump(rebuild(api.cell.log, tmp_path / "again"))


def test_drains_and_campaigns_are_marks_on_the_time_axis(api):
    hosts(api, "h1", "h2")
    at = api.cell.fact(MaintenanceRequested(maintenance_id="k", command_id="c", host_ids=("h1", "h2"), plan=_plan()))
    begins = MaintenanceChanged(
        maintenance_id="k", state="RUNNING", code="ASKED", host_ids=("h1", "h2"), cause=by_fact(at)
    )
    mine = {"by": "campaign", "source": "k", "step": Step.DRAIN}
    api.cell.decide("placement", begins, stage_of(Stage.DRAINING, "h1", "h2", **mine))
    api.cell.ms += 60_000
    api.cell.decide("placement", stage_of(Stage.DRAINING_BATCH, "h1", code="DEADLINE", **mine))
    api.cell.decide("placement", MaintenanceChanged(maintenance_id="k", state="PAUSED", code="FAILURES"))
    api.fold()
    marks = api.get("/v1/marks")["marks"]
    assert [(each["shape"], each["text"]) for each in marks] == [
        ("drain", "2 hosts began to drain: k (h1, h2)"),
        ("maintenance", "Maintenance k RUNNING: ASKED"),
        ("maintenance", "Maintenance k PAUSED: FAILURES"),
    ]


def test_a_dry_run_tells_what_would_find_no_place_elsewhere_if_it_is_asked(api):
    hosts(api, "h1")
    lost = {"job_id": "web", "tasks": 2, "code": "NO_HOST_FITS", "message": "short of 1 cpu"}
    plan = {"code": "DONE", "message": "", "refused": False, "unplaced": [lost], "looked_ahead_s": 30.0}
    api.plans.answer = {**plan, "cut_short": False}
    address = "/v1/hosts/h1/drains?dry_run=true"
    assert "plan" not in api.client.post(address, json={}).json()
    told = api.client.post(f"{address}&plan=true", json={"batch": "move"}).json()
    assert told["plan"]["unplaced"] == [lost]
    assert told["notes"] == ["web: 2 tasks would find no place elsewhere: short of 1 cpu (NO_HOST_FITS)"]
    [fact] = api.plans.facts
    assert (fact.host_ids, fact.batch) == (("h1",), "move")
    api.plans.answer = {**plan, "code": "FORCE_NOT_ALLOWED", "refused": True, "unplaced": [], "cut_short": True}
    told = api.client.post(f"{address}&plan=true", json={}).json()
    assert told["notes"][0] == "it would be refused: FORCE_NOT_ALLOWED (FORCE_NOT_ALLOWED)"
    assert told["notes"][1].startswith("there was no time to look at all that would move")
    api.plans.answer = Problem(503, "PLAN_LATE", "the plan took longer than it may")
    told = api.client.post(f"{address}&plan=true", json={}).json()
    assert told["notes"] == ["whether all finds a place elsewhere can't be told now: the plan took longer than it may"]


def leaving(record, why, by, instance=0, **columns):
    """A record about one run of `web`, which leaves its host by a decision."""
    led = "cause" if record is RunsEnded else "led_by"
    item = {"job_ids": ("web",), "job": [0], "instance": [instance], "run": [1], "why": [why]}
    return record.pack(**item, **columns, **({"causes": (by,), led: [0]} if by else {}))


def stopping(why, by, instance=0):
    where = {"host_ids": ("h1",), "host": [0], "cause": [Outcome.RELOCATED]}
    return leaving(RunsStopping, why, by, instance, **where)


def ended(why, by, instance=0):
    columns = {name: [0] for name in ("exit_code", "kept", "next", "counts_as", "failures", "wait_ms", "hold")}
    return leaving(RunsEnded, why, by, instance, outcome=[Outcome.RELOCATED], **columns)


def newest(api):
    """The first decision of placement's last round."""
    return Cause(machine="placement", round=api.cell.writers["placement"].round, index=0)


def told(api, *events):
    return [each["text"] for each in api.get("/v1/jobs/web/history")["events"] if each["event"] in events]


def test_the_history_of_a_job_tells_who_drained_its_host_and_why(api):
    api.pool()
    hosts(api, "h1")
    runs(api, "web", (0, 1))
    ann = Actor(subject="ann", how="environment")
    ask = HostsDrainRequested(host_ids=("h1",), command_id="c", reason="new disk", actor=ann)
    at = api.cell.fact(ask)
    api.cell.decide("placement", stage_of(Stage.DRAINING, "h1", cause=by_fact(at)))
    drain = newest(api)
    asks = {"since": [1_700_000_000]}
    api.cell.decide("lifecycle", leaving(DisruptionAsked, RunCause.DRAIN, drain, **asks))
    api.cell.decide("lifecycle", stopping(RunCause.DRAIN, drain))
    api.cell.fact(HostsDrainRequested(host_ids=("h1",), command_id="d", reason="not allowed", force=True))
    at = api.cell.fact(replace(ask, command_id="e", reason="smoke", force=True))
    api.cell.decide("placement", stage_of(Stage.FORCING, "h1", cause=by_fact(at)))
    force = newest(api)
    api.cell.decide("lifecycle", stopping(RunCause.EVICT, force, 1))
    api.cell.decide("lifecycle", ended(RunCause.EVICT, None, 1))
    api.fold()
    assert told(api, "DisruptionAsked", "RunsStopping", "RunsEnded") == [
        "asked whether 1 run may be stopped for the drain of host h1 by ann (unverified): new disk",
        "1 run told to stop for the drain of host h1 by ann (unverified): new disk",
        "1 run told to stop by the forced drain of host h1 by ann (unverified): smoke",
        "1 run ended: relocated by the forced drain of host h1 by ann (unverified): smoke",
    ]


def test_a_deadline_forces_for_who_asked_for_the_drain_and_a_taint_is_named(api):
    api.pool()
    hosts(api, "h1")
    runs(api, "web", (0, 1))
    ann = Actor(subject="ann", how="environment")
    at = api.cell.fact(HostsDrainRequested(host_ids=("h1",), command_id="c", reason="disk", actor=ann))
    api.cell.decide("placement", stage_of(Stage.DRAINING, "h1", cause=by_fact(at)))
    api.cell.decide("placement", stage_of(Stage.FORCING, "h1", code="FORCED", cause=Cause(due_ms=1)))
    late = newest(api)
    api.cell.decide("lifecycle", stopping(RunCause.EVICT, late))
    ask = HostTaintRequested(host_id="h1", command_id="t", key="gpu", value="bad", effect="evict", actor=ann)
    at = api.cell.fact(ask)
    tainted = HostTainted(host_id="h1", taints={"gpu": "bad"}, evicts=("gpu",), cause=by_fact(at))
    api.cell.decide("placement", tainted)
    taint = newest(api)
    api.cell.decide("lifecycle", stopping(RunCause.DRAIN, taint, 1))
    api.fold()
    assert told(api, "RunsStopping") == [
        "1 run told to stop by the forced drain of host h1 by ann (unverified): disk",
        "1 run told to stop for the taint gpu=bad of host h1 by ann (unverified)",
    ]


def test_a_job_whose_run_is_to_leave_for_a_taint_is_told_which_and_of_which_host(api):
    api.pool()
    hosts(api, "h1", "h2")
    runs(api, "web", (0, 1), sla={"max_unavailable": 0})
    tainted = HostTainted(host_id="h1", taints={"gpu": "bad", "rack": "a"}, evicts=("gpu",))
    api.cell.decide("placement", tainted)
    api.cell.decide("lifecycle", asked("web", (0, 1), 1_700_000_000, why=RunCause.DRAIN))
    api.cell.decide("sla", deferred("web", (0, 1), code="SLA_NEVER_ALLOWS", unavailable=0, most=0))
    api.fold()
    said = "2 tasks are to leave for {}, but the SLA of the job never allows it (0 of 2 unavailable, 0 may be)"
    [reason] = [each for each in api.get("/v1/jobs/web/explanation")["reasons"] if "to leave" in each["message"]]
    assert reason["message"].startswith(said.format("the taint gpu=bad of host h1"))
    api.cell.decide("placement", stage_of(Stage.DRAINING, "h1"))
    api.fold()
    [reason] = [each for each in api.get("/v1/jobs/web/explanation")["reasons"] if "to leave" in each["message"]]
    assert reason["message"].startswith(said.format("a drain"))
