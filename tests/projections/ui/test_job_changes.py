"""Changing jobs from pages: what is affected is named first, a reason is asked, each job says what became of it."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from events.codec import decode
from events.records.jobs import JobActionRequested, JobPriorityRequested, JobStopRequested, JobSubmitted
from events.records.lifecycle import CommandAnswered, JobHeld, RunsAvailable
from projections.ui import job_orders
from projections.ui.job_actions import BY_NAME
from projections.ui.pages.job_changes import MANY_MAX
from tests.helpers.written_cell import accepted, runs
from tests.projections.ui.views import Pages, links, pages

SAID = {"reason": "why not", "command_id": "c1"}


@pytest.fixture
def ui(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pages]:
    monkeypatch.setattr(job_orders, "WAIT_S", 30.0)
    with pages(tmp_path) as held:
        held.pool()
        yield held


def running(ui: Pages, *job_ids: str, **fields: Any) -> None:
    for job_id in job_ids:
        ui.cell.accept(job_id, **{"instances": 3, "kind": "stateless", **fields})
        ui.cell.run(job_id, (0, 1))
        ui.cell.changed("RUNNING", job_id)
    ui.fold()


def answers(ui: Pages, code: str = "DONE", message: str = "stopping 3 instances") -> None:
    """Lifecycle says this to all commands from now on."""

    def say(offset: int, event: Any) -> tuple[CommandAnswered, ...]:
        answer = CommandAnswered(
            job_id=event.job_id, jobs_offset=offset, command_id=event.command_id, code=code, message=message
        )
        return (answer,)

    ui.answer("paceline.jobs", "lifecycle", say)


def facts(ui: Pages, *kinds: type) -> list[Any]:
    """The commands in the log."""
    found = [decode(record.value) for record in ui.cell.log.scan("paceline.jobs", 0)]
    return [each for each in found if isinstance(each, kinds)]


def send(ui: Pages, csrf: str, **fields: Any) -> str:
    answer = ui.browser.post("/ui/change-jobs", data={"csrf": csrf, **SAID, **fields})
    assert answer.status_code == 200, answer.text
    return answer.text


def value(html: str, name: str) -> str:
    found = re.search(rf'name="{name}"[^>]* value="([^"]*)"', html)
    assert found
    return unescape(found[1])


def test_stopping_a_job_names_its_tasks_asks_for_a_reason_and_says_what_became_of_it(ui):
    running(ui, "web")
    csrf = ui.sign_in()
    answers(ui)
    [stop] = links(ui.page("/jobs/web"), "Stop…")
    asked = ui.page(stop.removeprefix("/ui"))
    assert "3</b> tasks: 0 running" in asked
    assert "0-1" in asked
    told = send(ui, csrf, do="stop", job="web", command_id=value(asked, "command_id"), instances="0-1")
    assert "stopping 3 instances" in told
    assert "DONE" in told
    assert links(told, "Back to the job") == ["/ui/jobs/web"]
    [fact] = facts(ui, JobStopRequested)
    assert (fact.job_id, fact.reason, fact.first, fact.count) == ("web", "why not", b"\0\0\0\0", b"\2\0\0\0")


def test_a_refusal_is_told_with_its_code(ui):
    running(ui, "web")
    csrf = ui.sign_in()
    answers(ui, "VERSION_CONFLICT", "the job has version 2")
    told = send(ui, csrf, do="hold", job="web")
    assert "Hold: refused" in told
    assert "VERSION_CONFLICT" in told
    assert "the job has version 2" in told


def test_the_same_form_again_is_the_same_command(ui):
    running(ui, "web")
    csrf = ui.sign_in()
    answers(ui)
    for _ in range(2):
        send(ui, csrf, do="restart", job="web", batch="2")
    sent = facts(ui, JobActionRequested)
    assert [(each.action, each.batch) for each in sent] == [("restart", 2)] * 2
    assert len({each.command_id for each in sent}) == 1


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"do": "start"}, ("start", 0)),
        ({"do": "rollback", "version": "3"}, ("roll_back", 3)),
        ({"do": "pause"}, ("pause", 0)),
        ({"do": "resume"}, ("resume", 0)),
        ({"do": "abort"}, ("abort", 0)),
        ({"do": "promote"}, ("promote", 0)),
        ({"do": "hold"}, ("hold", 0)),
        ({"do": "release"}, ("release", 0)),
        ({"do": "delete"}, ("delete", 0)),
    ],
)
def test_each_button_writes_its_command(ui, fields, expected):
    running(ui, "web")
    csrf = ui.sign_in()
    answers(ui)
    assert ": done</h1>" in send(ui, csrf, job="web", **fields)
    [fact] = facts(ui, JobActionRequested)
    assert (fact.action, fact.version) == expected


def test_many_jobs_get_one_reason_and_each_its_own_answer(ui):
    running(ui, "a", "b")
    csrf = ui.sign_in()
    answers(ui)
    asked = ui.page("/change-jobs?do=priority&job=a&job=b")
    assert "2</b> jobs with <b>6</b> tasks" in asked
    told = send(ui, csrf, do="priority", job=["a", "b", "none"], priority="-7")
    assert "2 of 3 done" in told
    assert "NOT_FOUND" in told
    sent = facts(ui, JobPriorityRequested)
    assert sorted((each.job_id, each.priority, each.reason) for each in sent) == [
        ("a", -7, "why not"),
        ("b", -7, "why not"),
    ]
    assert len({each.command_id for each in sent}) == 2


def test_all_jobs_of_a_list_are_named_up_to_a_bound(ui, monkeypatch):
    running(ui, *(f"web-{number}" for number in range(5)), owner="ann")
    running(ui, "other")
    ui.cell.accept("over", owner="ann")
    ui.cell.changed("FAILED", "over")
    ui.fold()
    ui.sign_in()
    asked = ui.page("/change-jobs?do=stop&all=1&owner=ann")
    assert sorted(re.findall(r'name="job" value="([^"]+)"', asked)) == [f"web-{number}" for number in range(5)]
    assert "1 more that was chosen" in asked
    monkeypatch.setattr("projections.ui.pages.job_changes.MANY_MAX", 3)
    assert "a form takes 3 jobs" in ui.page("/change-jobs?do=stop&all=1&owner=ann&state=RUNNING")
    assert MANY_MAX < 2000


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"do": "stop", "reason": " "}, "REASON_NEEDED"),
        ({"do": "stop", "instances": "5-1"}, "5-1 ends before it begins"),
        ({"do": "stop", "instances": "3-"}, "instances are written as 0-9,12"),
        ({"do": "priority", "priority": "99999999999999"}, "less than or equal to 2147483647"),
        ({"do": "priority", "priority": "high"}, "INVALID_REQUEST"),
        ({"do": "priority"}, "INVALID_REQUEST"),
        ({"do": "explode"}, "NOT_FOUND"),
    ],
)
def test_a_form_that_says_nothing_sensible_writes_nothing(ui, fields, code):
    running(ui, "web")
    csrf = ui.sign_in()
    answer = ui.browser.post("/ui/change-jobs", data={"csrf": csrf, "job": "web", **SAID, **fields})
    assert (answer.status_code in (404, 422), code in answer.text) == (True, True)
    assert facts(ui, JobStopRequested, JobPriorityRequested) == []
    if fields["do"] in BY_NAME:
        asked = {"command_id": SAID["command_id"], "reason": SAID["reason"], **fields}
        assert {name: value(answer.text, name) for name in asked} == asked


def test_buttons_are_offered_where_they_make_sense(ui):
    def words() -> set[str]:
        head = ui.page("/jobs/web").split('class="acts"')[1].split("</div>")[0]
        return {word.removesuffix("…") for word in re.findall(r">([^<>]+…)<", head)}

    running(ui, "web")
    ui.cell.decide("lifecycle", JobHeld(job_id="web", held=True))
    ui.fold()
    assert words() == {"Release", "Priority", "Stop"}
    ui.cell.changed("KILLED", "web")
    ui.fold()
    assert words() == {"Delete"}


@pytest.mark.parametrize(("text", "right"), [("3", True), ("0-9, 12,14", True), ("3-", False), ("all", False)])
def test_a_browser_knows_what_instances_look_like(ui, text, right):
    running(ui, "web")
    ui.sign_in()
    pattern = re.search(r'name="instances" type="text" pattern="([^"]+)"', ui.page("/jobs/web/do/stop"))
    assert bool(re.fullmatch(unescape(pattern[1]), text)) == right


@pytest.mark.parametrize(("kind", "restarts"), [("stateless", True), ("batch", False)])
def test_only_services_are_restarted(ui, kind, restarts):
    ui.cell.accept("web", kind=kind)
    ui.cell.run("web")
    ui.cell.decide("lifecycle", RunsAvailable(**runs("web", (0,))))
    ui.fold()
    assert bool(links(ui.page("/jobs/web"), "Restart…")) == restarts


def test_a_form_that_comes_again_says_that_it_is_done(ui):
    running(ui, "web")
    csrf = ui.sign_in()
    answers(ui, "REPEATED", "this command was carried out before")
    told = send(ui, csrf, do="hold", job="web")
    assert "Hold: nothing to do" in told
    assert "this was sent already, and is done" in told


def test_an_action_that_makes_no_sense_any_more_says_so(ui):
    running(ui, "web")
    ui.sign_in()
    asked = ui.page("/jobs/web/do/promote")
    assert "Promote isn't possible now: no update of it is under way" in asked
    assert links(asked, "Back to the job") == ["/ui/jobs/web"]
    assert "/change-jobs" not in asked


def test_in_the_past_and_without_sign_in_nothing_is_asked(ui):
    running(ui, "web")
    assert ui.browser.get("/ui/jobs/web/do/stop").status_code == 303
    assert ui.browser.get("/ui/change-jobs?do=stop&job=web").status_code == 303


SPEC = '{"pool": "/p", "command": ["true"], "job_id": "new"}'


def submit(ui: Pages, spec: str, do: str = "submit") -> Any:
    csrf = ui.sign_in()
    return ui.browser.post("/ui/submit", data={"csrf": csrf, "command_id": "a" * 32, "spec": spec, "do": do})


def test_a_job_is_checked_and_then_submitted(ui):
    ui.answer("paceline.jobs", "lifecycle", lambda at, event: accepted(event, at))
    checked = submit(ui, SPEC, "check")
    assert (checked.status_code, "is right" in checked.text, facts(ui, JobSubmitted)) == (200, True, [])
    answer = submit(ui, SPEC)
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/jobs/new")
    assert [each.job_id for each in facts(ui, JobSubmitted)] == ["new"]


def test_a_job_is_planned_and_not_submitted(ui):
    reason = {"code": "NO_HOST_FITS", "message": "2 tasks find no host", "actor": "operator"}
    host = {"host_id": "h-1", "tasks": 3, "instances": "0-2", "after_s": 12.5}
    victim = {"job_id": "v", "pool": "/q", "instance": 7, "run": 1, "host_id": "h-1", "way": "GIVE", "after_s": 10.0}
    ui.plans.answer = {
        "job_id": "new", "outcome": "PARTLY_PLACED", "code": "DONE", "message": "", "tasks": 5, "placed_at_once": 1,
        "placed": 3, "waiting": 2, "hosts": [host], "preempts": [{**victim, "deferred": False}], "reasons": [reason],
        "later_reasons": [reason], "update": None, "looked_ahead_s": 150.0, "cut_short": False,
    }  # fmt: skip
    page = submit(ui, SPEC, "plan")
    assert (page.status_code, facts(ui, JobSubmitted)) == (200, [])
    assert "1 of 5 tasks would get a host at once, 3 within 12.5 s; 2 would wait" in page.text
    for text in ("NO_HOST_FITS", "h-1", "0-2", "It would preempt", "/ui/jobs/v", "GIVE", "Nothing was written"):
        assert text in page.text, text


def test_jobs_of_one_text_are_planned_together(ui):
    reason = {"code": "NO_HOST_FITS", "message": "2 tasks find no host", "actor": "operator"}
    ui.plans.answer = {
        "outcome": "WAITS", "code": "DONE", "message": "", "tasks": 2, "placed_at_once": 0, "placed": 0, "waiting": 2,
        "hosts": [], "preempts": [], "reasons": [reason], "later_reasons": [reason], "update": None,
        "looked_ahead_s": 150.0, "cut_short": False,
    }  # fmt: skip
    text = "pool: /p\ncommand: [a]\n---\npool: /p\ncommand: [b]\n"
    page = submit(ui, text, "plan")
    assert (page.status_code, facts(ui, JobSubmitted)) == (200, [])
    assert [fact.command for fact in ui.plans.facts] == [("a",), ("b",)]
    for fact in ui.plans.facts:
        assert f'<span class="id">{fact.job_id}</span>' in page.text
    wrong = submit(ui, text + "instances: -1\n", "plan")
    assert (wrong.status_code, "/jobs/1/instances" in wrong.text) == (422, True)


def test_a_job_may_be_written_in_yaml(ui):
    ui.answer("paceline.jobs", "lifecycle", lambda at, event: accepted(event, at))
    answer = submit(ui, "job_id: yaml\npool: /p\ncommand: [sh, -c, 'true']\n")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/jobs/yaml")
    assert [each.command for each in facts(ui, JobSubmitted)] == [("sh", "-c", "true")]


def test_the_form_begins_with_a_job_that_the_cell_takes(ui):
    for path in ("/a", "/a/b"):
        ui.pool(path)
    ui.sign_in()
    prepared = ui.plans.prepared
    example = unescape(ui.page("/submit").split('class="spec">')[1].split("</textarea>")[0])
    assert "pool: /a/b" in example
    assert ui.plans.prepared == prepared + 1
    ui.answer("paceline.jobs", "lifecycle", lambda at, event: accepted(event, at))
    assert submit(ui, example).headers["location"] == "/ui/jobs/hello"


def test_lines_of_a_form_stay_lines(ui):
    """A browser ends them with CR LF; what was checked comes back and is submitted."""
    ui.answer("paceline.jobs", "lifecycle", lambda at, event: accepted(event, at))
    spec = SPEC.replace(", ", ",\r\n")
    text = submit(ui, spec, "check").text.split('class="spec">')[1].split("</textarea>")[0]
    assert unescape(text) == SPEC.replace(", ", ",\n")
    assert submit(ui, unescape(text)).headers["location"] == "/ui/jobs/new"


def test_the_same_form_without_an_id_submits_one_job(ui):
    ui.answer("paceline.jobs", "lifecycle", lambda at, event: accepted(event, at))
    places = {submit(ui, '{"pool": "/p", "command": ["true"]}').headers["location"] for _ in range(2)}
    assert places == {"/ui/jobs/job-aaaaaaaaaaaa"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("{", "line 1"),
        ("pool: /p\npool: /q\n", "line 2"),
        ("", "write one job here"),
        ("pool: /p\n---\npool: /p\n", "write one job here"),
        ("[]", "job"),
        ('{"pool": "/p", "command": ["true"], "instances": -1, "job_id": "a"}', "/instances"),
        ('{"pool": "/none", "command": ["true"], "job_id": "a"}', "/pool"),
        ('{"pool": 7, "job_id": "</textarea><script>"}', "/pool"),
    ],
)
def test_what_is_wrong_with_a_job_is_told_beside_its_text(ui, spec, said):
    answer = submit(ui, spec)
    assert answer.status_code >= 400
    assert said in answer.text
    assert "<script>" not in answer.text.split("<textarea")[1]
    assert unescape(answer.text.split('class="spec">')[1].split("</textarea>")[0]) == spec
    assert facts(ui, JobSubmitted) == []
