"""Budgets of jobs and groups over HTTP: what is left of them, by what they are used, and who is at risk."""

import pytest

from events.codec import decode
from events.codes import RunCause
from events.columns import pack_ints
from events.records.hosts import HostSilent
from events.records.jobs import SlaGroupDefined
from events.records.lifecycle import (
    CommandAnswered,
    InstancesChanged,
    InstancesWanted,
    JobSlaChanged,
    RunsAvailable,
    RunsStopping,
    SlaGroupSet,
)
from events.records.parts import TaskShape
from events.records.sla import DisruptionAllowed
from projections.queries import sla_counts
from tests.helpers.maintenance import asked, deferred
from tests.helpers.written_cell import queued, runs

ALL = (0, 1, 2, 3)


def service(api, job_id="web", instances=ALL, available=True, host_id="h1", **sla):
    """A service that runs on a host, if wanted available."""
    api.cell.accept(job_id, instances=len(instances), kind="stateless", sla=sla)
    api.cell.run(job_id, instances, host_id=host_id)
    if available:
        api.cell.decide("lifecycle", RunsAvailable(**runs(job_id, instances)))
    api.fold()


def stops(api, job_id, instances, why):
    count = len(instances)
    causes = {"cause": pack_ints([0] * count), "why": pack_ints([why] * count), "kill": pack_ints([0] * count)}
    stopping = RunsStopping(**runs(job_id, instances), host_ids=("h1",), host=pack_ints([0] * count), **causes)
    api.cell.decide("lifecycle", stopping)
    api.fold()


def started(api):
    api.pool()
    api.cell.host("h1")
    api.cell.host("h2")
    api.fold()


def at_risk(api, **query):
    return [each["job_id"] for each in api.get("/v1/slas", params={"at_risk": "true", **query})["slas"]]


def test_the_budget_of_a_job_says_what_is_used_and_by_what(api):
    started(api)
    service(api, max_unavailable="50%")
    body = api.get("/v1/jobs/web/sla")
    assert (body["sla"], body["wanted"], body["available"], body["allowed"], body["slack"]) == (
        {"max_unavailable": "50%"},
        *(4, 4, 2, 2),
    )
    assert (body["used"], body["at_risk"], body["risk"]) == ([], False, "")
    stops(api, "web", (1, 2), RunCause.DRAIN)
    body = api.get("/v1/jobs/web/sla")
    assert (body["unavailable"], body["allowed"], body["slack"]) == (2, 2, 0)
    assert body["used"] == [{"what": "stops, by a drain", "tasks": 2, "instances": "1-2", "until": None}]
    assert body["risk"] == "budget spent: 2 of 4 instances are unavailable, 2 may be"
    stops(api, "web", (3,), RunCause.HEALTH)
    assert api.get("/v1/jobs/web/sla")["risk"] == "below its bound: 3 of 4 instances are unavailable, 2 may be"


def test_instances_that_a_user_stops_are_not_wanted(api):
    started(api)
    service(api, max_unavailable=1)
    stops(api, "web", (0, 1), RunCause.STOP)
    body = api.get("/v1/jobs/web/sla")
    assert (body["wanted"], body["unavailable"], body["at_risk"]) == (2, 0, False)


def test_an_instance_counts_once_it_was_available_for_long_enough_and_its_host_is_heard(api):
    started(api)
    service(api, max_unavailable=2, min_healthy_time="30s")
    [use] = api.get("/v1/jobs/web/sla")["used"]
    assert use == {
        "what": "not available for long enough",
        "tasks": 4,
        "instances": "0-3",
        "until": "2023-11-14T22:13:50.000Z",
    }
    api.cell.ms += 30_000
    api.cell.host("h3")
    api.fold()
    assert api.get("/v1/jobs/web/sla")["used"] == []
    api.cell.fact(HostSilent(host_id="h1", session=1))
    api.fold()
    [use] = api.get("/v1/jobs/web/sla")["used"]
    assert (use["what"], use["tasks"]) == ("on a silent host", 4)


def test_the_list_reads_no_tasks_of_jobs_of_which_all_runs(api, monkeypatch):
    started(api)
    service(api, "web", max_unavailable=1)
    service(api, "slow", max_unavailable=1, min_healthy_time="30s", host_id="h2")
    api.cell.ms += 40_000
    service(api, "db", max_unavailable=1, host_id="h2")
    read, columns_at = [], sla_counts.columns_at
    monkeypatch.setattr(sla_counts, "columns_at", lambda *each: (read.append(each), columns_at(*each))[1])
    assert [(each["wanted"], each["unavailable"]) for each in api.get("/v1/slas")["slas"]] == [(4, 0)] * 3
    assert at_risk(api) == []
    assert not read
    api.cell.decide("lifecycle", RunsAvailable(**runs("slow", (2,))))
    api.fold()
    assert at_risk(api) == ["slow"], "one of its runs has begun anew"
    assert len(read) == 1
    api.cell.fact(HostSilent(host_id="h1", session=1))
    api.fold()
    assert at_risk(api) == ["slow", "web"]
    stops(api, "db", (3,), RunCause.DRAIN)
    assert at_risk(api) == ["db", "slow", "web"]
    api.cell.decide("lifecycle", InstancesWanted(job_id="db", wanted=False))
    api.fold()
    read.clear()
    assert [each["wanted"] for each in api.get("/v1/slas")["slas"]] == [0, 4, 4], "of db none is wanted"
    assert [len(slots) for _, slots in read] == [8]


def test_a_job_without_an_sla_has_no_budget(api):
    started(api)
    api.cell.accept("free", instances=2, kind="stateless")
    api.fold()
    body = api.get("/v1/jobs/free/sla")
    assert (body["sla"], body["at_risk"]) == (None, False)
    assert api.get("/v1/slas")["slas"] == []
    api.problem(api.client.get("/v1/jobs/none/sla"), 404, "NOT_FOUND")


def test_what_waits_is_told_by_code_with_its_numbers(api):
    started(api)
    service(api, max_unavailable=1)
    api.cell.decide("lifecycle", asked("web", (0, 1), 1_700_000_000, why=RunCause.DRAIN))
    api.cell.decide("sla", deferred("web", (1,)))
    api.fold()
    [wait] = api.get("/v1/jobs/web/sla")["waits"]
    assert (wait["code"], wait["tasks"]) == ("SLA_BUDGET_SPENT", 1)
    assert wait["message"].endswith("(1 of 4 unavailable, 1 may be)")
    [reason] = api.get("/v1/jobs/web/explanation")["reasons"]
    assert (reason["code"], reason["machine"]) == ("SLA_BUDGET_SPENT", "sla")
    assert reason["message"].startswith("1 task is to leave for a drain, but the SLA of the job allows no more")
    assert reason["message"].endswith("(1 of 4 unavailable, 1 may be); it goes on when instances are available again")
    kinds = {each["event"]: each["detail"] for each in api.get("/v1/jobs/web/history")["events"]}
    assert kinds["DisruptionAsked"]["why"] == {"DRAIN": 2}
    assert {name: kinds["DisruptionDeferred"][name] for name in ("code", "unavailable", "max_unavailable")} == {
        "code": "SLA_BUDGET_SPENT",
        "unavailable": 1,
        "max_unavailable": 1,
    }


def test_the_history_says_how_long_a_run_has_waited_to_be_disrupted(api):
    started(api)
    service(api, max_unavailable=1)
    api.cell.decide("lifecycle", asked("web", (0, 1), api.cell.ms // 1000, why=RunCause.DRAIN))
    api.cell.decide("sla", DisruptionAllowed(**runs("web", (0,))))
    api.cell.ms += 95_000
    api.cell.decide("sla", DisruptionAllowed(**runs("web", (1,))))
    api.fold()
    events = [each for each in api.get("/v1/jobs/web/history")["events"] if each["event"] == "DisruptionAllowed"]
    assert [(each["text"], each["detail"].get("waited_s")) for each in events] == [
        ("1 run may be disrupted", None),
        ("1 run may be disrupted after 95s", 95),
    ]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("SLA_RATE_REACHED", "it goes on when the hour since earlier ones is over"),
        ("SLA_GROUP_SPENT", "it goes on when instances of jobs of the group are available again"),
        ("SLA_NEVER_ALLOWS", "raise max_unavailable, lower min_available, or set `replace: before`"),
        ("WAITS_FOR_REPLACEMENT", "it goes on when the instance that takes its place is available"),
        ("OUTSIDE_WINDOW", "it goes on when the next window of the job opens"),
    ],
)
def test_each_verdict_that_holds_a_job_up_is_explained_with_what_frees_it(api, code, words):
    started(api)
    service(api, max_unavailable=1)
    api.cell.decide("lifecycle", asked("web", (0,), 1_700_000_000))
    api.cell.decide("sla", deferred("web", (0,), code=code))
    api.fold()
    reason = next(each for each in api.get("/v1/jobs/web/explanation")["reasons"] if each["code"] == code)
    assert words in reason["message"]
    assert reason["since"] == "2023-11-14T22:13:20.000Z"


def test_jobs_at_risk_are_those_whose_next_disruption_would_be_refused(api):
    started(api)
    service(api, "fine", max_unavailable=1)
    service(api, "never", min_available="90%")
    service(api, "single", (0,), max_unavailable=0, replace="before")
    service(api, "spent", max_unavailable=1)
    service(api, "starts", (0,), available=False, max_unavailable=1)
    stops(api, "spent", (0,), RunCause.UPDATE)
    assert [each["job_id"] for each in api.get("/v1/slas")["slas"]] == ["fine", "never", "single", "spent", "starts"]
    assert at_risk(api) == ["never", "spent", "starts"]
    assert at_risk(api, pool="/p") == ["never", "spent", "starts"]
    page = api.get("/v1/slas", params={"at_risk": "true", "page_size": 2})
    rest = api.get("/v1/slas", params={"at_risk": "true", "page_size": 2, "page_token": page["next_page_token"]})
    assert [each["job_id"] for each in rest["slas"]] == ["starts"]
    risk = api.get("/v1/jobs/never/sla")["risk"]
    assert risk == "it allows no disruption at all: min_available is 90% of 4 instances"


def test_a_job_that_loses_its_sla_or_is_over_is_listed_no_more(api):
    started(api)
    service(api, "a", max_unavailable=1)
    service(api, "b", max_unavailable=1)
    api.cell.decide("lifecycle", JobSlaChanged(job_id="a"))
    api.cell.changed("KILLED", "b")
    api.fold()
    assert api.get("/v1/slas")["slas"] == []


def test_a_closed_window_is_a_risk_until_it_opens(api):
    started(api)
    window = {"schedule": "0 2 * * *", "duration": "1h", "time_zone": "UTC"}
    service(api, max_unavailable=1, windows=[window])
    body = api.get("/v1/jobs/web/sla")
    assert (body["window"], body["risk"]) == (
        "2023-11-15T02:00:00.000Z",
        "outside its windows until 2023-11-15T02:00:00.000Z",
    )
    assert body["sla"]["windows"] == [window]


def test_a_rate_counts_what_others_disrupted_within_the_hour(api):
    started(api)
    service(api, max_disruptions_per_hour=1)
    assert api.get("/v1/jobs/web/sla")["hour"] == {"allowed": 1, "used": 0, "until": None}
    stops(api, "web", (0,), RunCause.DRAIN)
    body = api.get("/v1/jobs/web/sla")
    assert body["hour"] == {"allowed": 1, "used": 1, "until": "2023-11-14T23:13:20.000Z"}
    assert body["risk"] == "rate reached: 1 in the last hour, 1 may be"


def test_a_group_is_one_budget_for_its_jobs(api):
    started(api)
    service(api, "a", group="shop")
    service(api, "b", group="shop", max_unavailable=3)
    assert api.get("/v1/jobs/a/sla")["group"] == {"group": "shop", "defined": False, "allowed": None, "unavailable": 0}
    api.problem(api.client.get("/v1/sla-groups/shop"), 404, "NOT_FOUND")
    api.cell.decide("lifecycle", SlaGroupSet(group="shop", max_unavailable_percent=25))
    stops(api, "a", (0, 1), RunCause.DRAIN)
    body = api.get("/v1/sla-groups/shop")
    assert (body["bounds"], body["wanted"], body["unavailable"], body["allowed"], body["slack"]) == (
        {"max_unavailable": "25%", "min_available": None},
        *(8, 2, 2, 0),
    )
    assert [each["job_id"] for each in body["jobs"]] == ["a", "b"]
    assert [(each["group"], each["members"]) for each in api.get("/v1/sla-groups")["groups"]] == [("shop", 2)]
    assert at_risk(api) == ["a", "b"]
    assert api.get("/v1/jobs/b/sla")["risk"] == "group shop spent: 2 unavailable, 2 may be"
    api.cell.decide("lifecycle", SlaGroupSet(group="shop", removed=True))
    api.fold()
    assert api.get("/v1/sla-groups") == {"groups": []}


def test_groups_are_written_and_answered(api):
    def answer(at, event):
        assert isinstance(event, SlaGroupDefined)
        code = "NOT_FOUND" if event.remove else "DONE"
        name = f"sla-group:{event.group}"
        return (CommandAnswered(job_id=name, jobs_offset=at, command_id=event.command_id, code=code, message="so"),)

    api.answer("paceline.jobs", "lifecycle", answer)
    body = {"max_unavailable": "25%", "min_available": 3}
    done = api.client.put("/v1/sla-groups/shop?wait=30s&reason=shared", json=body)
    assert (done.status_code, done.json()["code"]) == (200, "DONE")
    fact = decode(list(api.cell.log.scan("paceline.jobs", 0))[-1].value)
    assert (fact.group, fact.max_unavailable_percent, fact.min_available, fact.reason) == ("shop", 25, 3, "shared")
    api.problem(api.client.delete("/v1/sla-groups/shop?wait=30s"), 404, "NOT_FOUND")
    for wrong, pointer in (({}, "/max_unavailable"), ({"max_unavailable": "1.5"}, "/max_unavailable")):
        problem = api.problem(api.client.put("/v1/sla-groups/shop", json=wrong), 422, "INVALID_SPEC")
        assert [each["pointer"] for each in problem["errors"]] == [pointer]


def test_a_batch_task_counts_from_its_first_run_on(api):
    started(api)
    api.cell.accept("nightly", instances=3, sla={"max_unavailable": 1})
    api.cell.run("nightly", (0,))
    api.fold()
    assert api.get("/v1/jobs/nightly/sla")["wanted"] == 0
    api.cell.decide("lifecycle", RunsAvailable(**runs("nightly", (0,))))
    api.fold()
    assert api.get("/v1/jobs/nightly/sla")["wanted"] == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "stateless", "instances": 3, "sla": {"min_available": "90%"}}, "min_available is 90% of 3 instances"),
        ({"kind": "stateless", "sla": {"max_unavailable": 0}}, "max_unavailable is 0"),
        ({"kind": "stateless", "sla": {"max_disruptions_per_hour": 0}}, "max_disruptions_per_hour is 0"),
        ({"instances": 8, "gang": {"min": 4}, "sla": {"max_unavailable": 2}}, "the gang of 4 tasks leaves whole"),
        ({"instances": 8, "gang": {"min": 4}, "sla": {"max_disruptions_per_hour": 2}}, "2 be disrupted in an hour"),
        ({"kind": "stateless", "sla": {"group": "none"}}, "SLA group none isn't set, so it bounds nothing yet"),
        ({"kind": "stateless", "sla": {"group": "shut"}}, "SLA group shut never lets an instance go"),
    ],
)
def test_an_sla_that_never_lets_go_is_noted_when_it_is_submitted_and_in_a_dry_run(api, fields, words):
    started(api)
    api.cell.decide("lifecycle", SlaGroupSet(group="shut", max_unavailable=0))
    api.fold()
    body = {"job_id": "a", "pool": "/p", "command": ["a"], "resources": {"cpu": 1}, **fields}
    for answer in (api.client.post("/v1/jobs?dry_run=true", json=body), api.client.post("/v1/jobs", json=body)):
        assert answer.status_code in (200, 202)
        [warning] = answer.json()["warnings"]
        assert words in warning
        assert warning.endswith("(SLA_NEVER_ALLOWS)") or "sla group set" in warning


def test_an_sla_that_lets_instances_go_is_not_noted(api):
    started(api)
    api.cell.decide("lifecycle", SlaGroupSet(group="shop", max_unavailable=1))
    api.fold()
    sla = {"max_unavailable": 0, "replace": "before", "group": "shop"}
    body = {"job_id": "a", "pool": "/p", "kind": "stateless", "command": ["a"], "resources": {"cpu": 1}, "sla": sla}
    assert "warnings" not in api.client.post("/v1/jobs", json=body).json()


def test_a_group_that_is_not_set_says_which_jobs_name_it(api):
    started(api)
    service(api, group="shop", max_unavailable=1)
    body = api.problem(api.client.get("/v1/sla-groups/shop"), 404, "NOT_FOUND")
    assert body["detail"] == "SLA group shop isn't set, so it bounds nothing; jobs name it: web"
    api.problem(api.client.get("/v1/sla-groups/other"), 404, "NOT_FOUND")


def test_surplus_instances_are_not_wanted_and_give_slack_once_they_are_available(api):
    started(api)
    service(api, max_unavailable=0, replace="before")
    columns = {"first": [4], "count": [1], "wanted": [1], "shape": [0]}
    shapes = (TaskShape({"cpu": 1000}, 0),)
    added = InstancesChanged.pack(job_id="web", instances=5, shapes=shapes, surplus=1, **columns)
    api.cell.decide("lifecycle", added)
    api.fold()
    body = api.get("/v1/jobs/web/sla")
    assert (body["wanted"], body["unavailable"], body["slack"]) == (4, 0, 0)
    api.cell.decide("lifecycle", queued("web", (4,), 1))
    api.cell.run("web", (4,))
    api.cell.decide("lifecycle", RunsAvailable(**runs("web", (4,))))
    api.fold()
    assert api.get("/v1/jobs/web/sla")["slack"] == 1
    adopted = InstancesChanged.pack(
        job_id="web", instances=5, adopted=1, **{name: [] for name in ("first", "count", "wanted", "shape")}
    )
    api.cell.decide("lifecycle", adopted)
    api.fold()
    assert api.get("/v1/jobs/web/sla")["wanted"] == 5
