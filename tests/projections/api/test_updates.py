"""Versions and updates of jobs over HTTP: what is asked for, what it leads to, and what is remembered of it."""

from typing import Any

import msgspec
import pytest

from events.codec import decode, encode
from events.codes import Counts, Outcome, TaskState, UpdateStep
from events.columns import pack_ints
from events.records.jobs import JobActionRequested, JobStopRequested, JobUpdateRequested
from events.records.lifecycle import (
    CommandAnswered,
    ImagePrefetchOrdered,
    InstancesTaken,
    JobHeld,
    JobPriorityChanged,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    UpdateEnded,
    UpdateImagePulled,
    UpdatePaused,
    UpdateProgressed,
    UpdatePromoted,
    UpdateStarted,
)
from events.records.parts import Cause, UpdatePolicy
from events.records.sla import DisruptionAllowed, DisruptionDeferred
from projections.views.projector import rebuild
from tests.helpers.written_cell import admitted, dump, ended, job, on_host, queued, runs, unplaced
from tests.projections.conftest import Api

SERVICE = {"kind": "stateless", "instances": 3}
NEW = {"pool": "/p", "command": ["true", "2"], "resources": {"cpu": 2, "memory": "512MiB"}, **SERVICE}


def asked(api: Api, job_id: str = "a", reason: str = "", **fields: Any) -> int:
    """A user asks for another specification."""
    spec = encode(job(job_id, **{**SERVICE, **fields}))
    return api.cell.fact(
        JobUpdateRequested(job_id=job_id, command_id="c", spec=spec, reason=reason, data="ticket 7" if reason else "")
    )


def started(number: int, at: int, kind: str = "update", like: int = 0, **more: Any) -> UpdateStarted:
    fields: dict[str, Any] = {"policy": UpdatePolicy(batch=1), "updated": 3, **more}
    spec = -1 if like else at
    return UpdateStarted(job_id="a", number=number, kind=kind, from_version=number, version=number + 1, like=like,
                         jobs_offset=spec, cause=Cause(topic="paceline.jobs", offset=at), **fields)  # fmt: skip


def answer(at: int, update: int, code: str = "DONE") -> CommandAnswered:
    return CommandAnswered(job_id="a", jobs_offset=at, command_id="c", code=code, version=update + 1, update=update)


def taken(number: int, instance: int) -> InstancesTaken:
    return InstancesTaken(job_id="a", number=number, first=pack_ints([instance]), count=pack_ints([1]))


def progressed(number: int, instance: int, step: int, instances: int = 1, **counts: Any) -> UpdateProgressed:
    fields = {"pending": 0, "flight": 0, "done": 0, "bad": 0, **counts}
    columns = {"first": pack_ints([instance]), "count": pack_ints([instances]), "step": pack_ints([step])}
    return UpdateProgressed(job_id="a", number=number, **columns, **fields)


def ordered(instance: int, run: int, version: int) -> RunsOrdered:
    return RunsOrdered(**runs("a", (instance,), run), **on_host("h1", 1), version=pack_ints([version]))


@pytest.fixture
def service(api: Api) -> Api:
    api.pool()
    api.cell.host("h1")
    api.cell.accept("a", **SERVICE)
    for instance in range(3):
        api.cell.run("a", (instance,))
    api.cell.decide("lifecycle", RunsAvailable(**runs("a", (0, 1, 2))))
    api.fold()
    return api


def update_of(api: Api, **more: Any) -> None:
    at = asked(api, reason="new release", command=["true", "2"], resources={"cpu": 2, "memory": "512MiB"})
    api.cell.decide("lifecycle", answer(at, 1), started(1, at, **more))
    api.fold()


def test_a_job_has_its_first_version(service):
    [version] = service.get("/v1/jobs/a/versions")["versions"]
    assert (version["version"], version["kind"], version["command"]) == (1, "submit", "paceline.jobs:0")
    assert service.get("/v1/jobs/a/versions/1")["spec"]["command"] == ["true"]
    assert service.get("/v1/jobs/a")["version"] == 1
    assert service.get("/v1/jobs/a/updates") == {"updates": []}
    service.problem(service.client.get("/v1/jobs/a/versions/2"), 404, "NOT_FOUND")


def test_an_update_makes_a_version_that_says_who_asked_and_why(service):
    update_of(service)
    new, old = service.get("/v1/jobs/a/versions")["versions"]
    assert (new["version"], new["kind"], new["update"]) == (2, "update", 1)
    assert (new["reason"], new["data"], new["command"]) == ("new release", "ticket 7", "paceline.jobs:1")
    assert (old["version"], old["kind"]) == (1, "submit")
    body = service.get("/v1/jobs/a")
    assert (body["version"], body["spec"]["command"]) == (2, ["true", "2"])
    assert body["update"]["steps"] == {"pending": 3, "in_flight": 0, "done": 0, "failed": 0}
    changes = service.get("/v1/jobs/a/diff")["changes"]
    assert changes == [
        {"pointer": "/command", "from": ["true"], "to": ["true", "2"]},
        {"pointer": "/resources/cpu", "from": 1, "to": 2},
    ]
    assert service.get("/v1/jobs/a/diff?from=2&to=1")["changes"][0]["to"] == ["true"]


def test_an_update_is_followed_from_step_to_step(service):
    update_of(service)
    service.cell.ms += 1000
    service.cell.decide("lifecycle", taken(1, 0), ended("a", (0,), 3))
    service.cell.decide("lifecycle", queued("a", (0,), 2), ordered(0, 2, 2))
    service.cell.ms += 1000
    done = progressed(1, 0, UpdateStep.DONE, pending=2, done=1)
    again = progressed(1, 2, 0, pending=2, done=1)  # up again, after an earlier update had brought it down
    service.cell.decide("lifecycle", RunsAvailable(**runs("a", (0,), 2)), done, again, taken(1, 1))
    service.fold()
    update = service.get("/v1/jobs/a/updates/1")
    assert update["steps"] == {"pending": 1, "in_flight": 1, "done": 1, "failed": 0}
    tasks = service.get("/v1/jobs/a/tasks")["tasks"]
    assert [(each["version"], each["update"]) for each in tasks] == [(2, "DONE"), (1, "IN_FLIGHT"), (1, None)]
    steps = service.get("/v1/jobs/a/updates/1/steps")["steps"]
    told = [(each["first"], each["count"], each["step"]) for moment in steps for each in moment["steps"]]
    assert told == [(0, 1, "IN_FLIGHT"), (0, 1, "DONE"), (1, 1, "IN_FLIGHT")]
    assert steps[0]["at"] < steps[1]["at"]
    rest = service.get("/v1/jobs/a/updates/1/steps?page_size=1")
    assert len(rest["steps"]) == 1
    token = rest["next_page_token"]
    assert len(service.get(f"/v1/jobs/a/updates/1/steps?page_token={token}")["steps"]) == 2


def test_what_hosts_hold_follows_the_version_of_each_run(service):
    assert service.get("/v1/hosts/h1")["allocated"]["cpu"] == 3
    update_of(service)
    assert service.get("/v1/hosts/h1")["allocated"]["cpu"] == 3
    service.cell.decide("lifecycle", taken(1, 0), ended("a", (0,), 3))
    service.cell.decide("lifecycle", queued("a", (0,), 2), ordered(0, 2, 2))
    service.fold()
    assert service.get("/v1/hosts/h1")["allocated"]["cpu"] == 4
    service.cell.decide("lifecycle", ended("a", (0,), 3, run=2), ended("a", (1, 2), 3))
    service.fold()
    assert service.get("/v1/hosts/h1")["allocated"].get("cpu", 0) == 0


def test_an_update_is_paused_waits_with_its_canary_and_ends(service):
    update_of(service, paused=True)
    assert service.get("/v1/jobs/a/updates/1")["paused"] is True
    service.cell.decide("lifecycle", UpdatePaused(job_id="a", number=1, paused=False), taken(1, 0))
    service.cell.decide("lifecycle", progressed(1, 0, UpdateStep.DONE, pending=2, done=1, waits=True))
    service.fold()
    update = service.get("/v1/jobs/a/updates/1")
    assert (update["paused"], update["state"]) == (False, "CANARY")
    service.cell.decide("lifecycle", UpdatePromoted(job_id="a", number=1))
    service.fold()
    assert service.get("/v1/jobs/a/updates/1")["state"] == "ROLLING"
    end = UpdateEnded(job_id="a", number=1, state="FAILED", code="MAX_FAILURES", message="1 instance failed")
    service.cell.decide("lifecycle", end)
    service.fold()
    update = service.get("/v1/jobs/a/updates/1")
    assert (update["state"], update["code"], update["message"]) == ("FAILED", "MAX_FAILURES", "1 instance failed")
    assert update["ended_at"]


def test_an_update_tells_how_many_hosts_have_the_image_that_it_waits_for(service):
    update_of(service)
    assert service.get("/v1/jobs/a/updates/1")["image"] is None
    fields = {"image": "r/web:2", "image_digest": f"sha256:{'2' * 64}", "host_ids": ("h1", "h2", "h3")}
    service.cell.decide("lifecycle", ImagePrefetchOrdered(job_id="a", **fields))
    service.fold()
    assert service.get("/v1/jobs/a/updates/1")["image"]["message"] == "0 of 3 hosts have it"
    told = {"job_id": "a", "number": 1, "hosts": 3, "fault": "no such image"}
    service.cell.decide("lifecycle", UpdateImagePulled(**told, have=1, faults=1, waits=True))
    service.fold()
    [reason] = service.get("/v1/jobs/a/explanation")["reasons"]
    assert reason["code"] == "UPDATE_AWAITS_IMAGE"
    assert "1 of 3 hosts has it, 1 can't: no such image; it begins when all have answered" in reason["message"]
    assert (reason["tasks"], reason["image"]) == (3, {"hosts": 3, "have": 1, "faults": 1})
    assert reason["until"] == service.get("/v1/jobs/a")["next_wake_up"]["at"]
    service.cell.decide("lifecycle", UpdateImagePulled(**told, have=2, faults=1, waits=False))
    service.fold()
    update = service.get("/v1/jobs/a/updates/1")
    pulls = {"hosts": 3, "have": 2, "faults": 1, "waits": False}
    assert update["image"] == {**pulls, "message": "2 of 3 hosts have it, 1 can't: no such image"}
    assert service.get("/v1/jobs/a/explanation")["reasons"][0]["code"] == "UPDATING"
    assert service.get("/v1/jobs/a")["next_wake_up"] is None


def test_a_roll_back_is_a_version_like_an_earlier_one(service):
    update_of(service)
    at = service.cell.fact(JobActionRequested(job_id="a", command_id="d", action="roll_back", reason="slow"))
    service.cell.decide("lifecycle", UpdateEnded(job_id="a", number=1, state="ABORTED", code="OVERRIDDEN"))
    service.cell.decide("lifecycle", answer(at, 2), started(2, at, "roll_back", like=1))
    service.fold()
    newest = service.get("/v1/jobs/a/versions")["versions"][0]
    assert (newest["version"], newest["kind"], newest["like"], newest["reason"]) == (3, "roll_back", 1, "slow")
    assert service.get("/v1/jobs/a")["spec"]["command"] == ["true"]
    assert service.get("/v1/jobs/a/diff?from=1&to=3")["changes"] == []


def test_the_newest_ten_updates_are_kept(service, tmp_path):
    for number in range(1, 13):
        at = asked(service, command=["true", str(number)])
        forgotten = pack_ints([number - 10]) if number > 10 else b""
        service.cell.decide("lifecycle", answer(at, number), started(number, at, forgotten=forgotten), taken(number, 0))
        service.cell.decide("lifecycle", UpdateEnded(job_id="a", number=number, state="SUCCEEDED"))
    service.fold()
    numbers = [each["number"] for each in service.get("/v1/jobs/a/updates")["updates"]]
    assert numbers == list(range(12, 2, -1))
    assert [each["version"] for each in service.get("/v1/jobs/a/versions")["versions"]] == list(range(13, 2, -1))
    assert service.get("/v1/jobs/a/versions/3")["spec"]["command"] == ["true", "2"]
    service.problem(service.client.get("/v1/jobs/a/updates/2/steps"), 404, "NOT_FOUND")
    rows = dump(service.projector.views.engine)
    (tmp_path / "again").mkdir()
    assert rows == dump(rebuild(service.cell.log, tmp_path / "again"))
    assert len(rows["submissions"]) == 11
    assert not rows["commands"]


def test_nothing_is_left_of_a_forgotten_job(service):
    update_of(service)
    service.cell.decide("lifecycle", taken(1, 0))
    service.cell.changed("KILLED")
    service.cell.forget("a")
    service.fold()
    rows = dump(service.projector.views.engine)
    for table in ("jobs", "versions", "updates", "update_steps", "submissions", "commands"):
        assert not rows[table], table
    assert [entry[0] for entry in rows["history"] if not entry[0].startswith(("/hosts/", "/pools/"))] == []


def test_an_update_is_asked_for_and_its_answer_says_what_follows(service):
    def says(at: int, event: Any) -> tuple[Any, ...]:
        return answer(at, 1), started(1, at, added=1, unchanged=2)

    service.answer("paceline.jobs", "lifecycle", says)
    body = {"spec": NEW, "expected_version": 1, "reason": "release", "data": "x"}
    made = service.client.post("/v1/jobs/a/updates?wait=30s", json=body)
    assert (made.status_code, made.headers["location"]) == (201, "/v1/jobs/a/updates/1")
    told = made.json()
    assert (told["code"], told["version"], told["update"]["number"]) == ("DONE", 2, 1)
    assert told["update"]["instances"] == {"added": 1, "updated": 3, "removed": 0, "unchanged": 2}
    [fact] = [decode(each.value) for each in service.cell.log.scan("paceline.jobs", 1)]
    assert (fact.expected_version, fact.reason, fact.data) == (1, "release", "x")
    assert decode(fact.spec).command == ("true", "2")


def test_a_wrong_specification_is_refused_with_all_that_is_wrong(service):
    body = {"spec": {**NEW, "comand": ["x"], "resources": {"memroy": 1}}}
    told = service.problem(service.client.post("/v1/jobs/a/updates", json=body), 422, "INVALID_SPEC")
    assert {each["pointer"] for each in told["errors"]} == {"/spec/comand", "/spec/resources/memroy"}
    body = {"spec": {**NEW, "job_id": "b"}}
    told = service.problem(service.client.post("/v1/jobs/a/updates", json=body), 422, "INVALID_SPEC")
    assert told["errors"][0]["pointer"] == "/spec/job_id"
    service.problem(service.client.post("/v1/jobs/x/updates", json={"spec": NEW}), 404, "NOT_FOUND")
    assert service.cell.log.bounds("paceline.jobs")[1] == 1


def test_a_dry_run_of_an_update_shows_the_difference(service):
    told = service.client.post("/v1/jobs/a/updates?dry_run=true", json={"spec": NEW}).json()
    assert [each["pointer"] for each in told["changes"]] == ["/command", "/resources/cpu"]
    assert told["instances"] == {"added": 0, "updated": 3, "removed": 0, "unchanged": 0}
    assert service.cell.log.bounds("paceline.jobs")[1] == 1


ACTIONS = {
    "starts": ("start", {"instances": "0-1,7"}),
    "restarts": ("restart", {"instances": "2", "batch": 1}),
    "pauses": ("pause", {}),
    "resumes": ("resume", {}),
    "aborts": ("abort", {}),
    "promotions": ("promote", {}),
    "rollbacks": ("roll_back", {"version": 1}),
    "holds": ("hold", {}),
    "releases": ("release", {}),
}


@pytest.mark.parametrize("path", ACTIONS)
def test_each_action_is_a_fact_with_its_reason(service, path):
    action, more = ACTIONS[path]
    said = {"command_id": "mine", "reason": "r", "data": "d", "expected_version": 1, **more}
    assert service.client.post(f"/v1/jobs/a/{path}", json=said).status_code == 202
    fact = decode(list(service.cell.log.scan("paceline.jobs", 0))[-1].value)
    assert isinstance(fact, JobActionRequested)
    assert (fact.action, fact.command_id, fact.reason, fact.data, fact.expected_version) == (
        action,
        "mine",
        "r",
        "d",
        1,
    )
    assert fact.batch == more.get("batch", 0)
    assert fact.version == more.get("version", 0)
    ranges = {"0-1,7": (pack_ints([0, 7]), pack_ints([2, 1])), "2": (pack_ints([2]), pack_ints([1]))}
    assert (fact.first, fact.count) == ranges.get(more.get("instances", ""), (b"", b""))


def test_some_instances_are_stopped(service):
    service.client.post("/v1/jobs/a/stops", json={"instances": "1-2"})
    fact = decode(list(service.cell.log.scan("paceline.jobs", 0))[-1].value)
    assert isinstance(fact, JobStopRequested)
    assert (fact.first, fact.count) == (pack_ints([1]), pack_ints([2]))


@pytest.mark.parametrize("text", ["1-", "3-1", "x", "100000", ""])
def test_what_names_no_instances_is_refused(service, text):
    answer = service.client.post("/v1/jobs/a/stops", json={"instances": text})
    told = service.problem(answer, 422, "INVALID_REQUEST")
    assert told["errors"][0]["pointer"] == "/instances"


def test_a_job_is_deleted_with_force(service):
    answer = service.client.delete("/v1/jobs/a?force=true&reason=old&expected_version=1")
    assert answer.status_code == 202
    fact = decode(list(service.cell.log.scan("paceline.jobs", 0))[-1].value)
    assert (fact.action, fact.force, fact.reason, fact.expected_version) == ("delete", True, "old", 1)


def test_a_refused_command_is_a_problem_with_its_code(service):
    def says(at: int, event: Any) -> tuple[Any, ...]:
        no = CommandAnswered(job_id="a", jobs_offset=at, command_id="c", code="VERSION_CONFLICT", message="it has 1")
        return (no,)

    service.answer("paceline.jobs", "lifecycle", says)
    told = service.client.post("/v1/jobs/a/pauses?wait=30s", json={"expected_version": 9})
    assert service.problem(told, 409, "VERSION_CONFLICT")["detail"] == "it has 1"
    assert not dump(service.projector.views.engine)["commands"]


def backing_off(job_id: str, instance: int, wait_ms: int) -> RunsEnded:
    end = ended(job_id, (instance,), Outcome.FAILED, exit_code=7)
    more = {"next": TaskState.BACKOFF, "counts_as": Counts.TASK, "failures": 2, "wait_ms": wait_ms}
    return msgspec.structs.replace(end, **{name: pack_ints([value]) for name, value in more.items()})


def test_tasks_that_wait_for_their_next_run_are_listed_over_all_jobs(service):
    service.cell.accept("b", instances=2)
    service.cell.run("b", (0, 1))
    service.cell.decide("lifecycle", backing_off("a", 2, 5000), backing_off("b", 1, 0), backing_off("b", 0, 1500))
    service.fold()
    found = service.get("/v1/throttled-tasks")["tasks"]
    assert [(each["job_id"], each["instance"], each["failures"], each["exit_code"]) for each in found] == [
        ("a", 2, 2, 7),
        ("b", 0, 2, 7),
    ]
    assert [each["next_run_at"] for each in found] == ["2023-11-14T22:13:25.000Z", "2023-11-14T22:13:22.000Z"]
    page = service.get("/v1/throttled-tasks?page_size=1")
    assert [each["job_id"] for each in page["tasks"]] == ["a"]
    rest = service.get(f"/v1/throttled-tasks?page_token={page['next_page_token']}")
    assert ([each["job_id"] for each in rest["tasks"]], rest["next_page_token"]) == (["b"], "")
    wake = service.get("/v1/jobs/a")["next_wake_up"]
    assert wake == {"at": "2023-11-14T22:13:25.000Z", "why": "task 2 is run again"}
    service.cell.decide("lifecycle", queued("a", (2,), 2), queued("b", (0,), 2))
    service.fold()
    assert service.get("/v1/throttled-tasks")["tasks"] == []
    assert service.get("/v1/jobs/a")["next_wake_up"] is None


def test_a_canary_that_goes_on_by_itself_says_when(service):
    update_of(service, policy=UpdatePolicy(canary=1, promote_after_ms=60_000))
    done = progressed(1, 0, UpdateStep.DONE, pending=2, done=1, waits=True)
    service.cell.decide("lifecycle", taken(1, 0), done)
    service.fold()
    wake = service.get("/v1/jobs/a")["next_wake_up"]
    assert wake == {"at": "2023-11-14T22:14:20.000Z", "why": "update 1 goes on from its canary"}
    service.cell.ms += 30_000
    up = progressed(1, 2, 0, pending=2, done=1, waits=True)  # one that an earlier update brought down
    service.cell.decide("lifecycle", up)
    service.fold()
    assert service.get("/v1/jobs/a")["next_wake_up"] == wake, "the canary waits since it was done"
    assert explained(service)[0][0] == "UPDATE_AWAITS_PROMOTION"


def explained(api: Api) -> list[tuple[str, str]]:
    api.fold()
    found = api.get("/v1/jobs/a/explanation")["reasons"]
    return [(each["code"], each["message"]) for each in found]


def test_an_update_that_goes_on_says_how_far_it_is(service):
    update_of(service, policy=UpdatePolicy(batch=2, max_failures=1))
    service.cell.decide("lifecycle", taken(1, 0))
    text = "update 1 goes on: 0 of 3 instances are done, 1 is being updated, 2 are still to be taken"
    assert explained(service) == [("UPDATING", f"{text}; at most 2 at a time; it fails with 1 failed")]
    service.cell.decide("lifecycle", JobHeld(job_id="a", held=True))
    told = next(text for code, text in explained(service) if code == "UPDATING")
    assert told.startswith("update 1 takes none that runs until the job is released: 0 of 3 instances are done")


def test_an_update_that_is_paused_says_who_lets_it_go_on(service):
    update_of(service, paused=True)
    text = "update 1 is paused: 0 of 3 instances are done, 3 are still to be taken; `paceline job resume` lets it go on"
    assert explained(service) == [("UPDATE_PAUSED", text)]
    assert service.get("/v1/jobs/a/explanation")["headline"]["actor"] == "you"


def test_an_update_that_waits_with_its_canary_says_until_when(service):
    update_of(service, policy=UpdatePolicy(canary=1, promote_after_ms=60_000))
    done = progressed(1, 0, UpdateStep.DONE, pending=2, done=1, waits=True)
    service.cell.decide("lifecycle", taken(1, 0), done)
    [(code, text)] = explained(service)
    assert code == "UPDATE_AWAITS_PROMOTION"
    assert text == (
        "update 1 waits with its canary: 1 of 3 instances is done, 2 are still to be taken; it goes on by itself 1m "
        "after the canary was done; `paceline job promote` lets it go on"
    )
    assert service.get("/v1/jobs/a/explanation")["reasons"][0]["until"] == "2023-11-14T22:14:20.000Z"


def test_an_update_is_paused_since_it_was_paused(service):
    update_of(service)
    service.cell.ms += 12_000
    service.cell.decide("lifecycle", UpdatePaused(job_id="a", number=1, paused=True))
    assert explained(service)[0][0] == "UPDATE_PAUSED"
    assert service.get("/v1/jobs/a/explanation")["reasons"][0]["since"] == "2023-11-14T22:13:32.000Z"


def test_an_update_that_sla_defers_says_the_numbers(service):
    update_of(service)
    service.cell.decide("lifecycle", taken(1, 0))
    deferred = DisruptionDeferred(
        **runs("a", (0,)), code="SLA_BUDGET_SPENT", unavailable=pack_ints([2]), max_unavailable=pack_ints([2])
    )
    service.cell.decide("sla", deferred)
    text = "update 1 may stop no more instances now: 2 are unavailable, the SLA of the job allows 2"
    assert explained(service)[0] == ("SLA_BUDGET_SPENT", f"{text}; it goes on when instances are available again")
    service.cell.decide("sla", DisruptionAllowed(**runs("a", (0,))))
    assert explained(service)[0][0] == "UPDATING"


def test_a_failed_update_says_why_until_the_next_one(service):
    update_of(service)
    end = UpdateEnded(job_id="a", number=1, state="FAILED", code="MAX_FAILURES", message="1 instance failed")
    service.cell.decide("lifecycle", end)
    [(code, text)] = explained(service)
    assert code == "MAX_FAILURES"
    assert text.startswith("update 1 to version 2 has failed: 1 instance failed; look at the output")


def test_an_update_that_failed_by_its_canary_says_so(service):
    update_of(service)
    why = "1 instance of the canary failed after 2 runs of version 2; none may"
    end = UpdateEnded(job_id="a", number=1, state="FAILED", code="MAX_FAILURES", message=why)
    service.cell.decide("lifecycle", end)
    [(_, text)] = explained(service)
    words = "the canary failed (1 instance failed after 2 runs of version 2)"
    assert text.startswith(f"update 1 to version 2 has failed: {words}; look at the output")
    assert service.get("/v1/jobs/a/updates/1")["message"] == words


def test_an_update_that_failed_comes_before_the_tasks_that_wait_to_be_tried_again(service):
    update_of(service)
    end = UpdateEnded(job_id="a", number=1, state="FAILED", code="MAX_FAILURES", message="1 instance failed")
    service.cell.decide("lifecycle", ended("a", (0, 1), Outcome.FAILED, exit_code=1, kept=1), end)
    failed, again = explained(service)
    assert (failed[0], again[0]) == ("MAX_FAILURES", "BACKOFF")
    assert failed[1].endswith("correct the job and update it again, or `paceline job rollback a`")
    assert service.get("/v1/jobs/a/explanation")["headline"]["actor"] == "you"


def test_a_roll_back_that_found_no_places_sends_nobody_to_outputs_and_names_no_roll_back_that_is_refused(service):
    update_of(service)
    end = UpdateEnded(job_id="a", number=1, state="FAILED", code="STALLED", message="1 instance failed after 2 runs")
    service.cell.decide("lifecycle", end)
    assert "or `paceline job rollback a`" in explained(service)[0][1]
    why = "2 instances found no place within 15s (NO_PROGRESS)"
    at = asked(service)
    back = started(2, at, kind="rollback", like=1)
    end = UpdateEnded(job_id="a", number=2, state="FAILED", code="STALLED", message=why)
    service.cell.decide("lifecycle", back, progressed(2, 0, UpdateStep.NO_PROGRESS, 2, bad=2, pending=1), end)
    help_ = "ask for less, or add hosts, and update it again"
    assert explained(service) == [("STALLED", f"update 2 to version 3 has failed: {why}; {help_}")]


def test_an_update_whose_instances_found_their_places_late_leaves_nothing_to_say(service):
    update_of(service)
    why = "3 instances found no place within 15s (NO_PROGRESS)"
    end = UpdateEnded(job_id="a", number=1, state="FAILED", code="STALLED", message=why)
    service.cell.decide("lifecycle", progressed(1, 0, UpdateStep.NO_PROGRESS, 3, bad=3), end)
    assert explained(service) == []


def test_an_update_of_which_others_failed_otherwise_sends_to_their_output(service):
    update_of(service)
    why = "1 instance failed after 2 runs of version 2; 1 instance found no place within 15s (NO_PROGRESS)"
    end = UpdateEnded(job_id="a", number=1, state="FAILED", code="MAX_FAILURES", message=why)
    failed, stuck = (
        progressed(1, at, step, bad=at + 1) for at, step in enumerate((UpdateStep.FAILED, UpdateStep.NO_PROGRESS))
    )
    service.cell.decide("lifecycle", failed, stuck, end)
    [(_, text)] = explained(service)
    assert text.startswith(f"update 1 to version 2 has failed: {why}; look at the output")


def test_a_task_that_is_updated_and_finds_no_room_is_the_first_reason(service):
    update_of(service)
    service.cell.decide("lifecycle", taken(1, 0), ended("a", (0,), 3), queued("a", (0,), 2))
    service.cell.decide("entitlement", admitted("a", (0,), 2))
    service.cell.decide("placement", unplaced("a"))
    assert [code for code, _ in explained(service)] == ["NO_HOST_FITS", "UPDATING"]


def test_a_dry_run_says_that_a_version_fits_on_no_host(service):
    service.cell.host("h1", session=1_795_673_927_421)  # as gateways number them
    service.fold()

    def warned(**changes: Any) -> list[tuple[str, str]]:
        spec = {"pool": "/p", "command": ["true"], "resources": {"cpu": 1, "memory": "512MiB"}, **SERVICE, **changes}
        told = service.client.post("/v1/jobs/a/updates?dry_run=true", json={"spec": spec}).json()
        return [(each["code"], each["message"]) for each in told["warnings"]]

    assert warned(resources={"cpu": 8}) == []
    text = "3 instances would fit on no host: it asks 40 cpu, the most of those that match is 8 cpu"
    assert warned(resources={"cpu": 40}) == [("NEVER_FITS", text)]
    told = "2 of 3 instances would find a place: 1 host would take 2 each (`host_limit`)"
    assert warned(host_limit=2) == [("HOST_LIMIT_REACHED", told)]
    constraint = {"attribute": "rack", "values": ["r9"]}
    one = {"instances": "1", "constraints": [constraint]}
    assert warned(overrides=[one]) == [
        (
            "CONSTRAINT_MISMATCH",
            "1 instance would fit on no host: none meets its constraints; no host has an attribute rack",
        )
    ]


def counts_of(service: Api, **changes: Any) -> dict[str, int]:
    spec = {"pool": "/p", "command": ["true"], "resources": {"cpu": 1, "memory": "512MiB"}, **SERVICE, **changes}
    told = service.client.post("/v1/jobs/a/updates?dry_run=true", json={"spec": spec}).json()
    found: dict[str, int] = {name: count for name, count in told["instances"].items() if count}
    return found


def test_a_dry_run_counts_the_instances_that_would_be_added_updated_and_removed(service):
    assert counts_of(service) == {"unchanged": 3}
    assert counts_of(service, labels={"a": "b"}, priority=4) == {"unchanged": 3}
    assert counts_of(service, instances=5, overrides=[{"instances": "0,4", "env": {"A": "1"}}]) == {
        "added": 2,
        "updated": 1,
        "unchanged": 2,
    }
    assert counts_of(service, instances=1, command=["other"]) == {"updated": 1, "removed": 2}


def test_an_update_of_the_priority_is_shown_and_a_dry_run_compares_with_the_priority_that_a_job_has(service):
    spec = {"pool": "/p", "command": ["true"], "resources": {"cpu": 1, "memory": "512MiB"}, **SERVICE}

    def changes(priority: int) -> list[Any]:
        told = service.client.post("/v1/jobs/a/updates?dry_run=true", json={"spec": {**spec, "priority": priority}})
        found: list[Any] = told.json()["changes"]
        return found

    changed = JobPriorityChanged(job_id="a", priority=5)
    service.cell.decide("lifecycle", started(1, asked(service, priority=5)), changed)
    service.fold()
    job = service.get("/v1/jobs/a")
    assert (job["version"], job["priority"], job["spec"]["priority"], changes(5)) == (2, 5, 5, [])
    service.cell.decide("lifecycle", JobPriorityChanged(job_id="a", priority=9))
    service.fold()
    job = service.get("/v1/jobs/a")
    assert (job["version"], job["priority"], job["spec"]["priority"]) == (2, 9, 9)
    assert changes(5) == [{"pointer": "/priority", "from": 9, "to": 5}]


def test_a_dry_run_compares_with_what_each_instance_has(service):
    service.cell.decide("lifecycle", started(1, asked(service, command=["true", "2"])), taken(1, 0))
    service.cell.decide("lifecycle", progressed(1, 0, UpdateStep.DONE, pending=2, done=1))
    service.fold()
    assert counts_of(service, command=["true", "2"]) == {"updated": 2, "unchanged": 1}
    assert counts_of(service) == {"updated": 1, "unchanged": 2}


def test_a_job_that_its_first_update_creates_shows_that(service):
    service.cell.accept("b", kind="stateless")
    spec = service.cell.log.bounds("paceline.jobs")[1] - 1
    created = {"job_id": "b", "kind": "create", "policy": UpdatePolicy(batch=1), "added": 3}
    service.cell.decide("lifecycle", UpdateStarted(number=1, from_version=0, version=1, jobs_offset=spec, **created))
    service.fold()
    assert [(each["kind"], each["update"]) for each in service.get("/v1/jobs/b/versions")["versions"]] == [
        ("create", 1)
    ]
    assert service.get("/v1/jobs/b")["update"]["instances"]["added"] == 3
    at = asked(service, "b", command=["true", "2"])
    second = started(1, at, "update")
    service.cell.decide("lifecycle", msgspec.structs.replace(second, job_id="b", number=2))
    service.fold()
    kinds = [(each["version"], each["kind"]) for each in service.get("/v1/jobs/b/versions")["versions"]]
    assert kinds == [(2, "update"), (1, "create")]
