"""Updates, versions and commands about jobs on the command line."""

import json

import pytest

from tests.paceline.fake import job


def update(number: int = 2, state: str = "ROLLING", **more):
    steps = {"pending": 1, "in_flight": 1, "done": 1, "failed": 0} | more.pop("steps", {})
    return {
        "number": number, "kind": "update", "from_version": 1, "version": 2, "state": state, "paused": False,
        "instances": {"added": 0, "updated": 3, "removed": 0, "unchanged": 0}, "steps": steps,
        "policy": {"batch": 1, "roll_back": False, "healthy": "0s"}, "started_at": "2026-08-21T10:44:00.000Z",
        "ended_at": None if state == "ROLLING" else "2026-08-21T10:44:10.000Z", "code": None, "message": "",
        "reason": "release", "data": "", **more,
    }  # fmt: skip


ENDED = {"steps": {"pending": 0, "in_flight": 0, "done": 3}}
ANSWER = {
    "code": "DONE",
    "message": "update 2 takes 3 instances to version 2",
    "version": 2,
    "position": "paceline.jobs:9",
    "update": update(),
}


def file(tmp_path, text="job_id: web\npool: /p\nkind: stateless\ncommand: [ls]\n") -> str:
    path = tmp_path / "web.yaml"
    path.write_text(text)
    return str(path)


def test_a_job_is_updated_from_its_file(cli, cell, tmp_path):
    cell.answer("POST", "/v1/jobs/web/updates", ANSWER)
    code, out, err = cli("job", "update", file(tmp_path), "--batch", "1", "--roll-back", "--reason", "release",
                         "--expected-version", "1")  # fmt: skip
    assert (code, out) == (0, "job web: update 2 takes 3 instances to version 2\n")
    assert err == "follow with: paceline job updates web\n"
    [asked] = cell.writes()
    assert asked.body["spec"] == {
        "job_id": "web", "pool": "/p", "kind": "stateless", "command": ["ls"],
        "update": {"batch": 1, "roll_back": True},
    }  # fmt: skip
    assert (asked.body["reason"], asked.body["expected_version"], asked.query) == ("release", 1, {"wait": "10000ms"})


def test_a_job_named_by_its_id_keeps_its_specification(cli, cell):
    policy = {"batch": 2, "start_paused": True}
    cell.answer("GET", "/v1/jobs/a", job(spec={"pool": "/p", "instances": 3, "update": policy}))
    cell.answer("POST", "/v1/jobs/a/updates", {**ANSWER, "update": None, "message": "nothing differs"})
    code, out, _ = cli("job", "update", "a", "--instances", "5", "--canary", "1")
    assert (code, out) == (0, "job a: nothing differs\n")
    assert cell.writes()[0].body["spec"] == {
        "pool": "/p",
        "instances": 5,
        "update": {"batch": 2, "start_paused": False, "canary": 1},
    }


def test_a_file_says_which_job_it_updates(cli, cell, tmp_path):
    code, _, err = cli("job", "update", file(tmp_path, "pool: /p\ncommand: [ls]\n"))
    assert (code, cell.writes()) == (1, [])
    assert "web.yaml:1:1: /job_id: is missing; it says which job is updated" in err


def test_an_update_is_waited_for_with_its_progress(cli, cell, tmp_path):
    cell.answer("POST", "/v1/jobs/web/updates", ANSWER)
    for shown in (update(), update(paused=True), update(state="SUCCEEDED", **ENDED)):
        cell.answer("GET", "/v1/jobs/web/updates/2", shown)
    code, _, err = cli("job", "update", file(tmp_path), "--wait")
    assert code == 0
    assert err.splitlines() == [
        "web  update 2  ROLLING  1/3 done · 1 in flight",
        "web  update 2  PAUSED  1/3 done · 1 in flight",
        "web  update 2  SUCCEEDED  3/3 done",
    ]


def test_an_update_that_fails_ends_with_1_and_says_why(cli, cell, tmp_path):
    cell.answer("POST", "/v1/jobs/web/updates", ANSWER)
    failed = update(
        state="FAILED", code="MAX_FAILURES", message="1 instance failed", steps={"failed": 1, "in_flight": 0}
    )
    cell.answer("GET", "/v1/jobs/web/updates/2", failed)
    code, _, err = cli("job", "update", file(tmp_path), "--wait")
    assert code == 1
    assert err == "web  update 2  FAILED  1/3 done · 1 failed: MAX_FAILURES 1 instance failed\n"


def test_an_update_that_takes_too_long_goes_on(cli, cell, tmp_path):
    cell.answer("POST", "/v1/jobs/web/updates", ANSWER)
    cell.answer("GET", "/v1/jobs/web/updates/2", update())
    code, _, err = cli("job", "update", file(tmp_path), "--wait", "--timeout", "0s")
    assert code == 124
    assert "web: not updated after 0 s; the update goes on" in err


def test_a_dry_run_warns_of_a_version_that_fits_on_no_host(cli, cell, tmp_path):
    told = {"job_id": "web", "version": 1, "more": 0, "instances": None, "changes": []}
    warning = {"code": "NEVER_FITS", "message": "3 instances would fit on no host: it asks 40 cpu"}
    cell.answer("POST", "/v1/jobs/web/updates?dry_run", {**told, "warnings": [warning]})
    code, _, err = cli("job", "update", file(tmp_path), "--dry-run", "--progress-deadline", "5m")
    assert (code, err) == (0, "warning: 3 instances would fit on no host: it asks 40 cpu (NEVER_FITS)\n")


def test_a_dry_run_shows_what_would_change(cli, cell, tmp_path):
    changes = [
        {"pointer": "/command", "from": ["ls"], "to": ["ls", "-l"]},
        {"pointer": "/owner", "from": "", "to": "x"},
    ]
    told = {"job_id": "web", "version": 1, "more": 0, "instances": {"added": 2, "updated": 3, "removed": 0}}
    cell.answer("POST", "/v1/jobs/web/updates?dry_run", {**told, "changes": changes})
    code, out, _ = cli("job", "update", file(tmp_path), "--dry-run")
    assert (code, cell.writes()) == (0, [])
    assert [line.split() for line in out.splitlines()] == [
        ["job", "web:", "2", "fields", "would", "change;", "instances:", "2", "added,", "3", "updated"],
        ["FIELD", "FROM", "TO"],
        ["/command", '["ls"]', '["ls",', '"-l"]'],
        ["/owner", "-", "x"],
    ]


@pytest.mark.parametrize("words", [["update", "web", "--instances", "2"], ["rollback", "web"], ["stop", "web"]])
def test_a_timeout_without_a_wait_is_wrong_usage(cli, cell, words):
    code, _, err = cli("job", *words, "--timeout", "5s")
    assert (code, cell.writes()) == (2, [])
    assert "--timeout limits --wait" in err


def test_another_version_than_expected_ends_with_5(cli, cell):
    cell.problem("POST", "/v1/jobs/a/pauses", 409, "VERSION_CONFLICT", "the job has version 3, expected was 2")
    code, _, err = cli("job", "pause", "a", "--expected-version", "2")
    assert (code, err) == (5, "paceline: job a: the job has version 3, expected was 2 (VERSION_CONFLICT)\n")


@pytest.mark.parametrize(
    ("words", "path", "body"),
    [
        (["pause", "a"], "pauses", {}),
        (["resume", "a"], "resumes", {}),
        (["abort", "a"], "aborts", {}),
        (["promote", "a"], "promotions", {}),
        (["hold", "a"], "holds", {}),
        (["release", "a"], "releases", {}),
        (["rollback", "a", "--to", "3"], "rollbacks", {"version": 3}),
        (["start", "a", "--instances", "0-3,7"], "starts", {"instances": "0-3,7"}),
        (["restart", "a", "--batch", "2"], "restarts", {"batch": 2}),
        (["stop", "a", "--instances", "2"], "stops", {"instances": "2"}),
    ],
)
def test_commands_say_why_and_of_which_version(cli, cell, words, path, body):
    cell.answer("POST", f"/v1/jobs/a/{path}", {"code": "DONE", "message": "", "version": None, "update": None})
    code, out, _ = cli("job", *words, "--reason", "r", "--expected-version", "4", "--metadata", "m")
    assert (code, out.startswith("job a ")) == (0, True)
    [asked] = cell.writes()
    said = {name: value for name, value in asked.body.items() if name != "command_id"}
    expected = {"reason": "r", "expected_version": 4, "data": "m", **body}
    assert said.items() >= expected.items()
    assert asked.body["command_id"]


def test_a_job_is_deleted(cli, cell):
    cell.answer("DELETE", "/v1/jobs/a", {"code": "DONE", "message": "", "version": None, "update": None})
    code, out, _ = cli("job", "delete", "a", "--force", "--reason", "old")
    assert (code, out) == (0, "job a is deleted once its tasks have stopped; its history stays in the log\n")
    [asked] = cell.writes()
    assert (asked.query["force"], asked.query["reason"], asked.body) == ("true", "old", None)


def test_of_several_jobs_each_is_commanded_also_after_one_was_refused(cli, cell):
    cell.answer("POST", "/v1/jobs/z/stops", {"code": "DONE", "message": "stopping 1 instance"})
    cell.problem("POST", "/v1/jobs/x/stops", 404, "NOT_FOUND", "there is no job x")
    cell.problem("POST", "/v1/jobs/y/stops", 409, "BEING_DELETED", "it will be forgotten")
    cell.answer("POST", "/v1/jobs/web/stops", {"code": "DONE", "message": "stopping 3 instances"})
    code, out, err = cli("job", "stop", "z", "x", "y", "web")
    assert (code, out) == (4, "job z: stopping 1 instance\njob web: stopping 3 instances\n")
    assert err == (
        "paceline: there is no job x (NOT_FOUND)\n"
        "paceline: job y: it will be forgotten (BEING_DELETED)\n"
        "follow with: paceline job wait z web\n"
    )


def test_of_several_updates_each_is_begun_also_after_one_was_refused(cli, cell, tmp_path):
    path = tmp_path / "jobs.yaml"
    path.write_text("---\n".join(f"job_id: {each}\npool: /maps\ncommand: [ls]\n" for each in ("a", "web")))
    cell.problem("POST", "/v1/jobs/a/updates", 409, "VERSION_CONFLICT", "job a has version 3")
    cell.answer("POST", "/v1/jobs/web/updates", ANSWER)
    code, out, err = cli("job", "update", str(path))
    assert (code, out) == (5, "job web: update 2 takes 3 instances to version 2\n")
    assert err == "paceline: job a has version 3 (VERSION_CONFLICT)\nfollow with: paceline job updates web\n"


@pytest.mark.parametrize("text", ["1-", "5-2", "all"])
def test_instances_that_are_none_are_wrong_usage(cli, cell, text):
    code, _, _ = cli("job", "stop", "a", "--instances", text)
    assert (code, cell.writes()) == (2, [])


def test_a_list_of_versions(cli, cell):
    rows = [
        {"version": 2, "kind": "update", "like": None, "update": 1, "made_at": "2026-08-21T10:44:00.000Z",
         "command": "paceline.jobs:3", "reason": "release", "data": ""},
        {"version": 1, "kind": "submit", "like": None, "update": None, "made_at": "2026-08-21T10:41:07.000Z",
         "command": "paceline.jobs:1", "reason": "", "data": ""},
    ]  # fmt: skip
    cell.answer("GET", "/v1/jobs/a/versions", {"versions": rows})
    _, out, _ = cli("job", "versions", "a")
    assert [line.split() for line in out.splitlines()] == [
        ["VERSION", "MADE", "BY", "LIKE", "UPDATE", "MADE", "REASON"],
        ["2", "update", "-", "1", "19s", "ago", "release"],
        ["1", "submit", "-", "-", "3m12s", "ago", "-"],
    ]
    assert json.loads(cli("job", "versions", "a", "-o", "json")[1]) == {"versions": rows}


def test_a_diff_of_a_file_says_what_to_ask_instead(cli, cell, tmp_path):
    code, _, err = cli("job", "diff", str(tmp_path / "job.yaml"))
    assert (code, "What a file would change: paceline job plan FILE" in err) == (2, True)


def test_a_diff_of_versions_ends_with_3_where_they_differ(cli, cell):
    changes = [{"pointer": "/priority", "from": 0, "to": 5}]
    cell.answer("GET", "/v1/jobs/a/diff", {"from": 1, "to": 2, "changes": changes, "more": 0})
    code, out, err = cli("job", "diff", "a", "--from", "1")
    assert (code, out.split(), err) == (3, ["FIELD", "FROM", "TO", "/priority", "0", "5"], "from version 1 to 2\n")
    assert cell.asked[-1].query == {"from": "1"}


def test_updates_and_the_steps_of_one(cli, cell):
    cell.answer("GET", "/v1/jobs/a/updates", {"updates": [update(state="SUCCEEDED", **ENDED)]})
    _, out, _ = cli("job", "updates", "a")
    assert [line.split() for line in out.splitlines()] == [
        ["UPDATE", "KIND", "FROM", "TO", "STATE", "PENDING", "IN", "FLIGHT", "DONE", "FAILED", "CODE", "STARTED",
         "ENDED", "REASON"],
        ["2", "update", "1", "2", "SUCCEEDED", "0", "0", "3", "0", "-", "19s", "ago", "9s", "ago", "release"],
    ]  # fmt: skip
    cell.answer("GET", "/v1/jobs/a/updates/2", update(state="SUCCEEDED", **ENDED))
    ranges = [{"first": 0, "count": 2, "step": "IN_FLIGHT"}, {"first": 4, "count": 1, "step": "DONE"}]
    steps = [{"position": "paceline.lifecycle:4", "at": "2026-08-21T10:44:09.000Z", "steps": ranges}]
    cell.answer("GET", "/v1/jobs/a/updates/2/steps", {"steps": steps, "next_page_token": ""})
    _, out, _ = cli("job", "updates", "a", "--number", "2")
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["update", "update", "2", "SUCCEEDED", "3/3", "done"]
    assert lines[-2:] == [["10s", "ago", "0-1", "IN_FLIGHT"], ["10s", "ago", "4", "DONE"]]


def test_a_job_shows_its_version_and_its_update(cli, cell):
    cell.answer("GET", "/v1/jobs/a", job(version=2, update=update()))
    _, out, _ = cli("job", "get", "a")
    assert "\nversion    2\n" in out
    assert "\nupdate     update 2  ROLLING  1/3 done · 1 in flight\n" in out


def test_an_update_tells_how_many_hosts_have_its_image(cli, cell):
    pulls = {"hosts": 5, "have": 3, "faults": 1, "waits": True, "message": "3 of 5 hosts have it, 1 can't: no room"}
    cell.answer("GET", "/v1/jobs/a", job(version=2, update=update(image=pulls)))
    _, out, _ = cli("job", "get", "a")
    assert "1 in flight; waits for its image: 3 of 5 hosts have it, 1 can't: no room\n" in out
    cell.answer("GET", "/v1/jobs/a/updates/2", update(image={**pulls, "waits": False}))
    cell.answer("GET", "/v1/jobs/a/updates/2/steps", {"steps": [], "next_page_token": ""})
    _, out, _ = cli("job", "updates", "a", "--number", "2")
    assert "\nimage      3 of 5 hosts have it, 1 can't: no room\n" in out


def test_a_service_is_waited_for_until_it_is_healthy(cli, cell):
    running = {"running": 3, "succeeded": 0}
    for shown in (
        job(tasks={"running": 2, "queued": 1}),
        job(tasks=running, update=update()),
        job(tasks=running, update=update(state="SUCCEEDED", **ENDED)),
    ):
        cell.answer("GET", "/v1/jobs/a", shown)
    code, _, _ = cli("job", "wait", "a", "--for", "healthy", "--timeout", "30s")
    assert (code, len(cell.asked)) == (0, 3)


def test_tasks_that_wait_say_when_they_are_run_again(cli, cell):
    task = {"instance": 3, "run": 4, "failures": 3, "exit_code": 7, "outcome": "FAILED", "job_id": "a", "pool": "/p",
            "since": "2026-08-21T10:44:10.000Z", "next_run_at": "2026-08-21T10:45:00.000Z"}  # fmt: skip
    cell.answer("GET", "/v1/throttled-tasks", {"tasks": [task], "next_page_token": ""})
    _, out, _ = cli("job", "throttled")
    assert [line.split() for line in out.splitlines()] == [
        ["JOB", "TASK", "RUN", "FAILURES", "EXIT", "OUTCOME", "SINCE", "AGAIN"],
        ["a", "3", "4", "3", "7", "FAILED", "9s", "ago", "in", "41s"],
    ]
    assert cli("job", "throttled", "-o", "name")[1] == "a/3\n"
    cell.answer("GET", "/v1/jobs/a", job(next_wake_up={"at": task["next_run_at"], "why": "task 3 is run again"}))
    assert "\nnext       in 41s: task 3 is run again\n" in cli("job", "get", "a")[1]
