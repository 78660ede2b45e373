"""What the API shows: jobs, tasks, reasons, history, pools, hosts, rounds; pages, positions and errors."""

from contextlib import ExitStack
from unittest.mock import patch

import pytest

from events.codes import Outcome, RunReport
from events.columns import pack_ints, pack_longs
from events.records.hosts import HostBack, HostConnected, HostHealthReported, HostSilent
from events.records.lifecycle import HostReconciled, JobRejected, OverridesDropped, RunsAvailable
from events.records.placement import HostAvoided, HostLost, HostTrusted, MatchingHostsChanged
from events.records.tasks import RunsReported
from events.spec import overrides as spec_overrides
from events.spec.job import JobSpec
from events.topics import ALL
from projections.api import system
from projections.queries import pages
from projections.record_json import at
from tests.helpers.written_cell import CORE, accepted, dump, ended, held, ordered, queued, runs


def test_a_running_job_with_all_its_numbers(api):
    api.cell.host()
    api.cell.accept("a", instances=3, labels={"team": "maps"}, owner="ann", priority=7)
    api.cell.run("a", (0, 1))
    api.cell.decide("lifecycle", RunsAvailable(**runs("a", (0,))))
    api.cell.changed("RUNNING")
    api.fold()
    shown = api.get("/v1/jobs/a")
    assert (shown["state"], shown["owner"], shown["priority"], shown["labels"]) == (
        "RUNNING",
        "ann",
        7,
        {"team": "maps"},
    )
    assert shown["tasks"] == {"queued": 1, "ordered": 1, "running": 1, "stopping": 0, "backoff": 0, "succeeded": 0,
                              "failed": 0, "killed": 0}  # fmt: skip
    assert (shown["submitted_at"], shown["ended_at"]) == ("2023-11-14T22:13:20.000Z", None)
    assert shown["spec"]["resources"] == {"cpu": 1, "memory": "512MiB", "disk": "0MiB", "gpu": 0}
    assert shown["position"].startswith("paceline.lifecycle:")


def test_a_list_of_jobs_is_filtered_and_paged_the_newest_first(api):
    for number in range(7):
        api.cell.accept(f"j{number}", pool="/q" if number % 2 else "/p", labels={"n:m": str(number % 3)})
    api.fold()
    first = api.get("/v1/jobs?page_size=3")
    assert [each["job_id"] for each in first["jobs"]] == ["j6", "j5", "j4"]
    api.cell.accept("later")
    api.fold()
    second = api.get(f"/v1/jobs?page_size=3&page_token={first['next_page_token']}")
    third = api.get(f"/v1/jobs?page_size=3&page_token={second['next_page_token']}")
    assert [each["job_id"] for each in second["jobs"] + third["jobs"]] == ["j3", "j2", "j1", "j0"]
    assert third["next_page_token"] == ""
    assert [each["job_id"] for each in api.get("/v1/jobs?pool=/q")["jobs"]] == ["j5", "j3", "j1"]
    assert [each["job_id"] for each in api.get("/v1/jobs?label=n:m:2")["jobs"]] == []
    api.problem(api.client.get(f"/v1/jobs?page_token={first['next_page_token']}&pool=/q"), 422, "BAD_PAGE_TOKEN")


def test_jobs_by_label_and_state(api):
    api.cell.accept("a", labels={"team": "maps", "env": "test"})
    api.cell.accept("b", labels={"team": "maps"})
    api.cell.changed("RUNNING", "b")
    api.cell.submit("c")
    api.fold()
    assert [each["job_id"] for each in api.get("/v1/jobs?label=team:maps")["jobs"]] == ["b", "a"]
    assert [each["job_id"] for each in api.get("/v1/jobs?label=team:maps&label=env:test")["jobs"]] == ["a"]
    assert [each["job_id"] for each in api.get("/v1/jobs?state=running,submitted")["jobs"]] == ["c", "b"]


@pytest.mark.parametrize("query", ["page_size=0", "page_size=1001", "page_size=x", "label=nocolon"])
def test_a_list_asked_for_wrongly(api, query):
    api.problem(api.client.get(f"/v1/jobs?{query}"), 422, "INVALID_REQUEST")


@pytest.mark.parametrize("token", ["%%%", "AAAA", "W10", "eyJh"])
def test_a_made_up_page_token(api, token):
    api.problem(api.client.get("/v1/jobs", params={"page_token": token}), 400, "BAD_PAGE_TOKEN")


def test_tasks_by_state_over_several_blocks(api):
    api.cell.host()
    api.cell.accept("first", instances=100)
    api.cell.accept("a", instances=1200, ports=["http", "admin"])
    api.cell.decide("lifecycle", ordered("a", (3, 600, 1199), 1, "h1", ports=pack_ints([1, 2, 3, 4, 5, 6])))
    api.cell.decide("lifecycle", ended("a", (600,), Outcome.FAILED, exit_code=9))
    fields = runs("a", (600,))
    one = pack_ints([1])
    api.cell.fact(RunsReported(gateway="g", host_ids=("h1",), **fields, host=pack_ints([0]), state=one, exit_code=one,
                               reasons=("out of memory",), reason=one))  # fmt: skip
    api.fold()
    task = api.get("/v1/jobs/a/tasks?state=ordered&page_size=1")
    assert task["tasks"] == [{"instance": 3, "state": "ORDERED", "run": 1, "host_id": "h1", "ports": [1, 2],
                              "health": None, "signal": None, "out_of_memory": False, "cpu_ms": None,
                              "memory_kib": None, "throttled_ms": None, "read_kib": None, "written_kib": None,
                              "exit_code": None, "outcome": None, "cause": None, "reason": None,
                              "admission": None, "since": "2023-11-14T22:13:20.000Z", "failures": 0,
                              "next_run_at": None, "spec": None, "version": 1, "update": None}]  # fmt: skip
    rest = api.get(f"/v1/jobs/a/tasks?state=ordered&page_size=1&page_token={task['next_page_token']}")
    assert [(each["instance"], each["ports"]) for each in rest["tasks"]] == [(1199, [5, 6])]
    assert rest["next_page_token"] == ""
    failed = api.get("/v1/jobs/a/tasks?state=failed")["tasks"]
    assert [(each["exit_code"], each["outcome"], each["reason"]) for each in failed] == [(9, "FAILED", "out of memory")]
    seen: list[int] = []
    token = ""
    while token is not None:
        page = api.get("/v1/jobs/a/tasks", params={"page_size": 500, "page_token": token})
        seen += [each["instance"] for each in page["tasks"]]
        token = page["next_page_token"] or None
    assert seen == list(range(1200))
    assert api.get("/v1/jobs/first/tasks?state=running")["tasks"] == []
    api.problem(api.client.get("/v1/jobs/a/tasks?state=happy"), 422, "INVALID_REQUEST")


def test_tasks_with_overrides_show_what_they_are_run_from(api):
    overrides = [{"instances": "1-2", "env": {"B": "2"}, "labels": {"shard": "b"}, "resources": {"cpu": 2}}]
    api.cell.accept("a", instances=4, env={"A": "1"}, labels={"team": "maps"}, overrides=overrides)
    api.fold()
    specs = [task["spec"] for task in api.get("/v1/jobs/a/tasks")["tasks"]]
    assert specs[0] is None is specs[3]
    assert specs[1] == specs[2]
    assert (specs[1]["env"], specs[1]["labels"]) == ({"A": "1", "B": "2"}, {"team": "maps", "shard": "b"})
    assert (specs[1]["resources"]["cpu"], specs[1]["resources"]["memory"]) == (2, "512MiB")
    assert specs[1]["command"] == ["true"]
    assert "overrides" not in specs[1]
    shown = api.get("/v1/jobs/a")["spec"]
    assert shown["overrides"] == [{**overrides[0], "resources": {"cpu": 2}}]


def spec_of(**fields):
    return JobSpec.model_validate({"pool": "/p", "command": ["true"], **fields})


def test_overrides_in_chunks_are_shown_and_leave_with_their_job(api):
    overrides = [{"instances": f"{at}", "env": {"SHARD": f"{at}"}} for at in range(6)]
    with patch.object(spec_overrides, "CHUNK_BYTES", 300):
        spec = spec_of(instances=7, overrides=overrides)
        uploads = [*spec.chunks, *spec_of(instances=7, overrides=overrides[:-1]).chunks]
    for chunk in uploads:
        api.cell.fact(chunk)
    at = api.cell.fact(spec.to_event("a"))
    api.cell.decide("lifecycle", *accepted(spec.to_event("a"), at))
    api.fold()

    def held():
        return {row[0] for row in dump(api.projector.views.engine)["override_chunks"]}

    shown = api.get("/v1/jobs/a")["spec"]
    assert "overrides" not in shown
    assert shown["overrides_of"] == ",".join(f"{chunk.first}-{chunk.first + chunk.count - 1}" if chunk.count > 1 else
                                             f"{chunk.first}" for chunk in spec.to_event("a").chunks)  # fmt: skip
    specs = [task["spec"] for task in api.get("/v1/jobs/a/tasks")["tasks"]]
    assert [each and each["env"] for each in specs] == [{"SHARD": f"{at}"} for at in range(6)] + [None]
    assert api.get("/v1/jobs/a?overrides=true")["spec"]["overrides"] == overrides
    other = {
        **spec.model_dump(mode="json", exclude_defaults=True),
        "overrides": [*overrides[:-1], {"instances": "5", "env": {"SHARD": "x"}}],
    }
    with patch.object(spec_overrides, "CHUNK_BYTES", 300):
        told = api.client.post("/v1/jobs/a/updates?dry_run=true", json={"spec": other}).json()
    assert told["changes"] == [{"pointer": "/overrides/5/env/SHARD", "from": "5", "to": "x"}]
    assert told["instances"] == {"added": 0, "updated": 1, "removed": 0, "unchanged": 6}
    assert held() == {spec_overrides.name_of(chunk).hex() for chunk in uploads}
    api.cell.decide("lifecycle", OverridesDropped(digests=tuple(map(spec_overrides.name_of, uploads))))
    api.fold()
    assert held() == {spec_overrides.name_of(chunk).hex() for chunk in spec.chunks}, "what a job has is kept"
    assert api.get("/v1/jobs/a/tasks")["tasks"][5]["spec"]["env"] == {"SHARD": "5"}
    api.cell.changed("SUCCEEDED", "a")
    api.cell.forget("a")
    api.fold()
    assert held() == set()


def test_why_a_job_waits(api):
    api.cell.accept("a", instances=3)
    api.fold()
    assert api.get("/v1/jobs/a/explanation")["headline"]["code"] == "NOT_YET_EVALUATED"
    api.cell.decide("entitlement", held("a", (0, 1, 2), limit=CORE, allocated={"cpu": 500}))
    api.fold()
    found = api.get("/v1/jobs/a/explanation")
    assert found["headline"]["code"] == "LIMIT_REACHED"
    assert found["headline"]["actor"] == "pool owner"
    assert found["headline"]["message"] == (
        "3 tasks would exceed the limit of pool /p (0.5 of 1 cpu held, 1 asked); "
        "raise the limit, or wait until tasks of the pool end"
    )
    reason = found["reasons"][0]
    assert (reason["tier"], reason["machine"], reason["round"], reason["pool"]) == ("pool", "entitlement", 1, "/p")
    assert (reason["asked"]["cpu"], reason["limit"]["memory"], reason["allocated"]) == (1, "512MiB", {"cpu": 0.5})
    assert api.get("/v1/jobs/a")["reason"] == found["headline"]


def test_the_history_of_a_job_page_by_page(api):
    api.cell.host()
    api.cell.accept("a", instances=2)
    api.cell.run("a", (0, 1))
    api.fold()
    first = api.get("/v1/jobs/a/history?page_size=4")
    second = api.get(f"/v1/jobs/a/history?page_size=4&page_token={first['next_page_token']}")
    events = first["events"] + second["events"]
    assert [each["event"] for each in events] == [
        "JobSubmitted", "JobAccepted", "GangsQueued", "GangsAdmitted", "TasksPlaced", "RunsOrdered",
    ]  # fmt: skip
    assert events[0] | {"at": ""} == {
        "position": "paceline.jobs:0", "at": "", "machine": None, "round": None, "index": None,
        "event": "JobSubmitted", "text": "submitted to /p with 2 instances", "actor": None,
        "detail": {"pool": "/p", "instances": 2, "owner": ""},
    }  # fmt: skip
    assert (events[5]["machine"], events[5]["index"]) == ("lifecycle", 0)
    assert events[5]["detail"] == {"tasks": 2, "instance": 0, "run": 1, "hosts": ["h1"]}
    assert second["next_page_token"] == ""


def test_pools_with_what_they_hold(api):
    api.pool("/p", reservation=CORE)
    api.cell.accept("a", instances=3)
    api.fold()
    pool = api.get("/v1/pools")["pools"][0]
    assert (pool["path"], pool["parent"], pool["open_jobs"], pool["open_tasks"]) == ("/p", "/", 1, 3)
    assert pool["allocation"] == {}
    assert api.get("/v1/pools/p") == pool


def test_the_state_of_a_host_through_its_life(api):
    def state():
        api.fold()
        return api.get("/v1/hosts/h1")["state"]

    api.cell.fact(HostConnected(host_id="h1", session=1, gateway="g"))
    assert state() == "CONNECTING"
    api.cell.host("h1")
    assert state() == "UP"
    api.cell.fact(HostSilent(host_id="h1", session=1))
    assert state() == "SILENT"
    api.cell.decide("placement", HostLost(host_id="h1", session=1, code="SILENT", silent_ms=60_000))
    assert state() == "LOST"
    api.cell.fact(HostConnected(host_id="h1", session=2, gateway="g"))
    assert state() == "RETURNING"
    api.cell.host("h1", session=2)
    assert state() == "UP"


def test_a_suspected_host_is_shown_with_why_and_until_when(api):
    api.cell.host("h1")
    avoided = HostAvoided(host_id="h1", code="FAILS_AT_ONCE", until_ms=api.cell.ms + 600_000)
    api.cell.decide("placement", avoided)
    api.fold()
    host = api.get("/v1/hosts/h1")
    assert (host["state"], host["suspected"]["code"]) == ("SUSPECTED", "FAILS_AT_ONCE")
    assert host["suspected"]["until"] == at(avoided.until_ms)
    api.cell.fact(HostSilent(host_id="h1", session=1))
    api.fold()
    assert api.get("/v1/hosts/h1")["state"] == "SILENT", "that counts more"
    api.cell.fact(HostBack(host_id="h1", session=1))
    api.cell.decide("placement", HostTrusted(host_id="h1", code="TIME_PASSED", avoided=0, most=1))
    api.fold()
    host = api.get("/v1/hosts/h1")
    assert (host["state"], host["suspected"]) == ("UP", None)


def test_the_conditions_of_a_host_are_shown_with_evidence_what_is_done_and_what_ends_them(api):
    def found(bad=True, code="EXIT_7"):
        api.cell.fact(
            HostHealthReported(host_id="h1", session=1, condition="smart", bad=bad, code=code, text="sdb: 12 sectors")
        )
        api.fold()
        return api.get("/v1/hosts/h1")["conditions"]

    api.cell.host("h1")
    api.fold()
    assert api.get("/v1/hosts/h1")["conditions"] == []
    began = api.cell.ms
    [condition] = found()
    assert condition == {
        "name": "smart",
        "code": "EXIT_7",
        "evidence": "sdb: 12 sectors",
        "since": at(began),
        "passed_at": None,
        "flaps": 0,
        "action": "HELD",
        "done": "nothing: no more hosts are avoided at a time (0 of 1 are, 0 may be)",
        "drain_at": at(began + 900_000),
        "ends": "once its check has passed for 10m, or `paceline host clear h1`",
    }
    api.cell.decide("placement", HostAvoided(host_id="h1", code="CONDITION", until_ms=0))
    [condition] = found(bad=False)
    host = api.get("/v1/hosts/h1")
    assert (host["state"], host["suspected"], condition["action"]) == ("SUSPECTED", None, "AVOIDED")
    assert condition["ends"].startswith(f"at {condition['passed_at'][:11]}")
    assert found()[0]["flaps"] == 1
    api.cell.decide("placement", HostTrusted(host_id="h1", code="ASKED", avoided=0, most=1))
    api.fold()
    host = api.get("/v1/hosts/h1")
    assert (host["state"], host["conditions"][0]["action"]) == ("UP", "CLEARED")


def test_the_history_of_a_daemon_says_which_hosts_match(api):
    api.cell.accept("d")
    changed = MatchingHostsChanged(
        job_ids=("d",),
        host_ids=("h1", "h2", "h3"),
        host_session=pack_longs([1, 1, 1]),
        job=pack_ints([0, 0, 0]),
        host=pack_ints([2, 0, 1]),
        matches=pack_ints([1, 0, 1]),
    )
    api.cell.decide("placement", changed)
    api.fold()
    [event] = [each for each in api.get("/v1/jobs/d/history")["events"] if each["event"] == "MatchingHostsChanged"]
    assert event["detail"] == {"match": 2, "no_longer": 1, "hosts": ["h3", "h1", "h2"]}


def test_what_runs_on_a_host(api):
    api.cell.host("h1")
    api.cell.host("h2")
    api.cell.accept("a", instances=2)
    api.cell.accept("b", instances=700)
    api.cell.run("a", (1,))
    api.cell.run("b", (0, 1, 650))
    api.cell.run("a", (0,), host_id="h2")
    api.cell.decide("lifecycle", ended("b", (1,), Outcome.SUCCEEDED))
    api.fold()
    page = api.get("/v1/hosts/h1/tasks?page_size=2")
    rest = api.get(f"/v1/hosts/h1/tasks?page_size=2&page_token={page['next_page_token']}")
    found = [(each["job_id"], each["instance"]) for each in page["tasks"] + rest["tasks"]]
    assert found == [("a", 1), ("b", 0), ("b", 650)]
    host = api.get("/v1/hosts?page_size=1")
    assert (host["hosts"][0]["runs"], host["hosts"][0]["allocated"]["cpu"]) == (3, 3)
    assert host["hosts"][0]["attributes"] == {"arch": "arm64"}
    second = api.get(f"/v1/hosts?page_size=1&page_token={host['next_page_token']}")
    assert [each["host_id"] for each in second["hosts"]] == ["h2"]


def test_the_output_of_a_task(api):
    api.cell.host()
    for job_id in ("a", "gone"):
        api.cell.accept(job_id, instances=2)
        api.cell.run(job_id, (0,), run=3)
    api.fold()
    answer = api.client.get("/v1/jobs/a/tasks/0/log?stream=stderr&offset=5&limit=10")
    assert answer.content == b"hello\n"
    assert (answer.headers["log-offset"], answer.headers["log-next-offset"], answer.headers["log-ended"]) == (
        "0",
        "6",
        "1",
    )
    api.client.get("/v1/jobs/a/tasks/0/log?run=1")
    assert api.asked == [("a", 0, 3, "stderr", 5, 10, "h1"), ("a", 0, 1, "stdout", 0, 65536, None)]
    numbers = ("log-end", "log-other-end", "log-lost", "log-run")
    assert [answer.headers[name] for name in numbers] == ["6", "0", "0", "3"]
    api.problem(api.client.get("/v1/jobs/gone/tasks/0/log"), 404, "NO_OUTPUT")
    api.problem(api.client.get("/v1/jobs/a/tasks/1/log?stream=both"), 422, "INVALID_REQUEST")
    api.problem(api.client.get("/v1/jobs/a/tasks/2/log"), 404, "NOT_FOUND")


def test_a_question_for_more_output_waits_at_the_host_for_twenty_seconds_at_most(api):
    api.cell.host()
    api.cell.accept("a")
    api.cell.run("a", (0,))
    api.fold()
    for wait in ("3s", "60s"):
        assert api.client.get(f"/v1/jobs/a/tasks/0/log?offset=-10&wait={wait}&other_offset=7").status_code == 200
    assert api.waits == [(3000, 7), (20_000, 7)]
    assert api.asked[0] == ("a", 0, 1, "stdout", -10, 65536, "h1")
    with ExitStack() as held:
        for _ in range(64):
            held.enter_context(api.app.state.context.following.one("testclient"))
        api.problem(api.client.get("/v1/jobs/a/tasks/0/log?wait=3s"), 429, "TOO_MANY_FOLLOWERS")
        assert api.client.get("/v1/jobs/a/tasks/0/log").status_code == 200


def test_the_output_of_a_run_that_another_came_after_elsewhere(api):
    for host_id in ("h1", "h2"):
        api.cell.host(host_id)
    api.cell.accept("a", retries={"max": 1})
    api.cell.run("a", host_id="h1")
    api.cell.decide("lifecycle", ended("a", (0,), Outcome.FAILED, exit_code=1, kept=1), queued("a", (0,), run=2))
    api.cell.run("a", run=2, host_id="h2")
    api.fold()
    for run in (1, 2, 3):
        api.client.get(f"/v1/jobs/a/tasks/0/log?run={run}")
    assert [(question[2], question[-1]) for question in api.asked] == [(1, "h1"), (2, "h2"), (3, None)]


def test_that_there_is_no_output_of_a_run_is_said_in_its_own_words(api):
    """Where the gateway doesn't know its host, either."""
    api.cell.host("h1")
    api.cell.accept("gone", retries={"max": 1})
    api.fold()

    def said(run: int) -> str:
        answer = api.client.get(f"/v1/jobs/gone/tasks/0/log?run={run}")
        return str(api.problem(answer, 404, "NO_OUTPUT")["detail"])

    assert said(1) == "run 1 of task 0 of job gone has no host yet"
    assert said(7) == "task 0 of job gone has no run 7; it has had none yet"
    api.cell.run("gone", host_id="h1")
    api.cell.decide("lifecycle", ended("gone", (0,), Outcome.FAILED, exit_code=1, kept=1), queued("gone", (0,), run=2))
    api.fold()
    assert said(7) == "task 0 of job gone has no run 7; its last is run 1"
    assert said(2) == "run 2 of task 0 of job gone has no host yet"


def test_a_round_decoded(api):
    api.cell.accept("a", instances=2)
    api.fold()
    found = api.get("/v1/rounds/lifecycle/1")
    assert (found["machine"], found["round"], found["position"]) == ("lifecycle", 1, "paceline.lifecycle:1")
    assert [each["event"] for each in found["decisions"]] == ["JobAccepted", "GangsQueued"]
    assert found["decisions"][1]["count"] == [2]
    assert found["prev_hash"] == "00" * 32
    for path in ("lifecycle/2", "nobody/1"):
        api.problem(api.client.get(f"/v1/rounds/{path}"), 404, "NOT_FOUND")


def test_lists_leave_specs_to_the_jobs_themselves(api):
    api.cell.accept("a", labels={"team": "maps"}, owner="ann", env={"A": "x" * 1000})
    api.fold()
    (listed,) = api.get("/v1/jobs")["jobs"]
    one = api.get("/v1/jobs/a")
    assert one.pop("spec")["env"] == {"A": "x" * 1000}
    assert one.pop("next_wake_up") is None
    assert one.pop("forecast") is None
    assert one.pop("no_forecast")["code"] == "TOO_SOON"
    assert one.pop("strategy_in_effect")["name"] == "pack"
    assert listed == one
    assert listed["labels"] == {"team": "maps"}


def test_a_page_is_bounded_in_bytes_too(api, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_BYTES_MAX", 30_000)
    names = [f"job-{each}" for each in range(12)]
    for name in names:
        api.cell.accept(name, labels={f"key-{each}": "v" * 200 for each in range(30)})
    api.fold()
    heard, token = [], ""
    while True:
        answer = api.client.get("/v1/jobs", params={"page_size": 1000, "page_token": token})
        assert len(answer.content) < 2 * pages.PAGE_BYTES_MAX
        heard += [each["job_id"] for each in answer.json()["jobs"]]
        token = answer.json()["next_page_token"]
        if not token:
            break
    assert heard == names[::-1]


def test_quarantine_page_by_page(api):
    for value in (b"one", b"two", b"three"):
        api.cell.put("paceline.jobs", value)
    api.fold()
    first = api.get("/v1/log/quarantine?page_size=2")
    second = api.get(f"/v1/log/quarantine?page_size=2&page_token={first['next_page_token']}")
    found = first["records"] + second["records"]
    assert [(each["topic"], each["offset"], each["reason"], each["size"]) for each in found] == [
        ("paceline.jobs", 0, "NOT_AVRO", 3), ("paceline.jobs", 1, "NOT_AVRO", 3), ("paceline.jobs", 2, "NOT_AVRO", 5),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [
        "jobs/none",
        "jobs/none/tasks",
        "jobs/none/explanation",
        "jobs/none/history",
        "jobs/none/tasks/0/log",
        "pools/none",
        "hosts/none",
        "hosts/none/tasks",
    ],
)
def test_what_is_not_there(api, path):
    api.problem(api.client.get(f"/v1/{path}"), 404, "NOT_FOUND")


def test_paths_and_methods_that_are_not(api):
    api.problem(api.client.get("/v2/anything"), 404, "NO_SUCH_PATH")
    refused = api.client.put("/v1/jobs/a", json={})
    api.problem(refused, 405, "METHOD_NOT_ALLOWED")
    assert refused.headers["allow"] == "GET"


def test_a_bug_is_a_problem_too(api, monkeypatch):
    monkeypatch.setattr("projections.queries.pool_tree.pools_in_full", lambda *_: 1 / 0)
    api.problem(api.client.get("/v1/pools"), 500, "INTERNAL")


def test_a_read_waits_for_the_position_of_its_reader(api):
    at = api.cell.submit("a")
    api.fold()
    assert api.client.get("/v1/jobs").headers["log-position"] == "paceline.lifecycle:0,paceline.entitlement:0," \
        "paceline.placement:0,paceline.sla:0"  # fmt: skip
    api.answer("paceline.hosts", "lifecycle", lambda *_: ())
    api.cell.decide("lifecycle", JobRejected(job_id="a", jobs_offset=at, code="TOO_LARGE", message="m"))
    answer = api.client.get("/v1/jobs/a", headers={"At-Least-Position": "paceline.jobs:0,paceline.lifecycle:1"})
    assert answer.json()["state"] == "REJECTED"
    assert answer.headers["log-position"].startswith("paceline.jobs:0,paceline.lifecycle:1,")


def test_a_position_that_does_not_come_in_time(api, monkeypatch):
    monkeypatch.setattr("projections.api.context.READ_WAIT_S", 0.02)
    api.cell.accept("a")
    api.fold()
    answer = api.client.get("/v1/jobs", headers={"At-Least-Position": "paceline.jobs:5"})
    said = api.problem(answer, 503, "NOT_REACHED")
    assert said["position"] == api.client.get("/v1/jobs").headers["log-position"], "how far the views are"
    assert answer.headers["retry-after"]


@pytest.mark.parametrize("position", ["jobs:1", "paceline.jobs", "paceline.jobs:-1", "paceline.jobs:²", "x" * 500])
def test_a_position_that_is_none(api, position):
    answer = api.client.get("/v1/jobs", headers={"At-Least-Position": position.encode()})
    api.problem(answer, 400, "BAD_POSITION")


def test_health_and_metrics(api, monkeypatch):
    api.cell.accept("a")
    assert api.get("/livez") == {"live": True}
    lag = api.get("/readyz")["lag"]
    assert lag["paceline.jobs"] == 1
    assert set(lag) == {topic.name for topic in ALL}
    monkeypatch.setattr(system, "LAG_MAX", 3)
    api.problem(api.client.get("/readyz"), 503, "BEHIND")
    api.fold()
    assert api.get("/readyz")["lag"]["paceline.jobs"] == 0
    assert "paceline_projection_records_total" in api.client.get("/metrics").text
    assert api.get("/v1/cell")["cell"] == 0


def test_the_description_holds_every_route_and_the_specs(api):
    found = api.get("/openapi.json")
    assert {"/v1/jobs", "/v1/jobs/{job_id}/explanation", "/v1/pools/{path}", "/v1/events", "/readyz"} <= set(
        found["paths"]
    )
    assert (
        found["components"]["schemas"]["JobSpec"]["properties"]["resources"]["$ref"] == "#/components/schemas/Resources"
    )
    body = found["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/JobSpec"}


def test_hosts_of_foreign_inventories_are_no_bother(api):
    api.cell.decide("lifecycle", HostReconciled(host_id="new", session=4, kept=0, ended=0, stopped=0))
    api.fold()
    assert api.get("/v1/hosts/new")["state"] == "CONNECTING"


def test_a_task_shows_how_its_process_ended_and_what_it_used(api):
    api.cell.host()
    api.cell.accept("a", instances=2, health={"command": ["check"]})
    api.cell.decide("lifecycle", ordered("a", (0, 1), 1, "h1"))
    fields, two, ends = runs("a", (0, 1)), pack_ints([0, 0]), pack_ints([RunReport.EXITED] * 2)
    ill = pack_ints([RunReport.STARTED, RunReport.UNHEALTHY])
    api.cell.fact(RunsReported(gateway="g", host_ids=("h1",), **fields, host=two, state=ill, exit_code=two,
                               reasons=("the check failed",), reason=pack_ints([0, 1])))  # fmt: skip
    api.fold()
    assert [each["health"] for each in api.get("/v1/jobs/a/tasks")["tasks"]] == ["UNKNOWN", "UNKNOWN"]
    api.cell.fact(RunsReported(gateway="g", host_ids=("h1",), **fields, host=two, state=ends, exit_code=two,
                               signal=pack_ints([9, 0]), out_of_memory=pack_ints([1, 0]),
                               cpu_ms=pack_longs([1500, 20]), memory_kib=pack_longs([1 << 33, 0])))  # fmt: skip
    api.cell.decide("lifecycle", ended("a", (0, 1), Outcome.FAILED, exit_code=137))
    api.fold()
    first, second = api.get("/v1/jobs/a/tasks")["tasks"]
    names = ("signal", "out_of_memory", "cpu_ms", "memory_kib", "health", "reason")
    assert [first[name] for name in names] == ["KILL", True, 1500, 1 << 33, None, None]
    assert [second[name] for name in names] == [None, False, 20, None, "UNHEALTHY", "the check failed"]


def test_the_runs_of_a_task_are_listed_with_hosts_ends_uses_and_times(api):
    api.cell.host()
    api.cell.accept("a", kind="stateless")
    api.cell.decide("lifecycle", ordered("a", (0,), 1, "h1"))
    fields, one = runs("a", (0,)), pack_ints([1])
    api.cell.ms += 2000
    api.cell.decide("lifecycle", RunsAvailable(**fields))
    api.cell.ms += 3000
    api.cell.fact(RunsReported(gateway="g", host_ids=("h1",), **fields, host=pack_ints([0]), state=one,
                               exit_code=pack_ints([137]), signal=pack_ints([9]), out_of_memory=one,
                               cpu_ms=pack_longs([1500]), memory_kib=pack_longs([4096]),
                               throttled_ms=pack_longs([700]), written_kib=pack_longs([12])))  # fmt: skip
    api.cell.decide("lifecycle", ended("a", (0,), Outcome.FAILED, exit_code=137))
    api.fold()
    first = {
        "run": 1, "state": "ENDED", "version": 1, "host_id": "h1", "outcome": "FAILED", "exit_code": 137,
        "cause": None, "reason": None, "health": None, "signal": "KILL", "out_of_memory": True, "cpu_ms": 1500,
        "memory_kib": 4096, "throttled_ms": 700, "read_kib": None, "written_kib": 12,
        "ordered_at": "2023-11-14T22:13:20.000Z", "started_at": "2023-11-14T22:13:22.000Z",
        "ended_at": "2023-11-14T22:13:25.000Z",
    }  # fmt: skip
    assert api.get("/v1/jobs/a/tasks/0/runs")["runs"] == [first]
    api.cell.ms += 1000
    api.cell.decide("lifecycle", queued("a", (0,), 2))
    api.fold()
    assert api.get("/v1/jobs/a/tasks/0/runs")["runs"] == [first], "no host was told of the second one yet"
    api.cell.decide("lifecycle", ordered("a", (0,), 2, "h1"))
    api.fold()
    second, *before = api.get("/v1/jobs/a/tasks/0/runs")["runs"]
    assert before == [first]
    shown = [second[name] for name in ("run", "state", "outcome", "ordered_at", "started_at", "ended_at")]
    assert shown == [2, "ORDERED", None, "2023-11-14T22:13:26.000Z", None, None]
    api.problem(api.client.get("/v1/jobs/a/tasks/1/runs"), 404, "NOT_FOUND")


def test_a_list_that_is_asked_for_again_shows_what_has_changed(api):
    api.cell.accept("a", owner="ann")
    api.fold()
    query = "/v1/jobs?owner=ann&state=PENDING,RUNNING&page_size=1"
    assert [job["state"] for job in api.get(query)["jobs"]] == ["PENDING"]
    assert api.get(query) == api.get(query)
    api.cell.changed("RUNNING")
    at = api.cell.accept("b", owner="ann")
    api.fold()
    page = api.get(query)
    assert [(job["job_id"], job["state"]) for job in page["jobs"]] == [("b", "PENDING")]
    second = api.get(f"{query}&page_token={page['next_page_token']}")
    assert [(job["job_id"], job["state"]) for job in second["jobs"]] == [("a", "RUNNING")]
    late = api.client.get(query, headers={"At-Least-Position": f"paceline.lifecycle:{at + 9}"})
    assert late.json()["code"] == "NOT_REACHED"
