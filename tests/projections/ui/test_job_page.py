"""The page of a job: what it says of it, and where its parts lead."""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from events.codec import encode
from events.codes import Outcome, TaskState, UpdateStep
from events.columns import pack_ints
from events.records.jobs import JobStopRequested, JobUpdateRequested
from events.records.lifecycle import (
    ImagePrefetchOrdered,
    InstancesTaken,
    JobHeld,
    JobRejected,
    RunsAvailable,
    UpdateImagePulled,
    UpdateProgressed,
    UpdateStarted,
)
from events.records.parts import Cause, UpdatePolicy
from projections.api.cell_router import create_cells_app
from projections.api.jobs import JOB_STATES
from projections.queries.entities import job_row
from projections.queries.host_runs import HostRun
from projections.queries.job_runs import HostRuns, JobRun, RunsByHost
from projections.queries.task_columns import TaskColumns
from projections.ui import job_gantt, run_lanes
from projections.ui.app import add_ui
from projections.ui.host_words import DEVICE_SHAPES
from projections.ui.host_words import SHAPES as HOST_SHAPES
from projections.ui.job_failure import RECOVERED_MS, failure_shown
from projections.ui.pages import job, job_tasks
from projections.ui.rendering import environment
from tests.helpers.drawn import seeds
from tests.helpers.written_cell import ended, held, runs
from tests.helpers.written_cell import job as job_of
from tests.projections.api.test_usage import run
from tests.projections.conftest import LISTEN, TOKEN, Api
from tests.projections.queries.test_last_failure import fail
from tests.projections.ui.views import Pages, links, pages, text_of

HOSTILE = "\"'><script>alert(1)</script>\u202e\x07"


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[Pages]:
    with pages(tmp_path) as held_pages:
        yield held_pages


def web(ui: Pages) -> None:
    """A job of five tasks: two run, one has failed, two wait."""
    ui.cell.host("h1")
    ui.cell.accept("web", instances=5, owner="ann", labels={"k": "v"})
    ui.cell.run("web", (0, 1, 2))
    ui.cell.changed("RUNNING", "web")
    ui.cell.decide("lifecycle", ended("web", (2,), Outcome.FAILED, exit_code=3, following=TaskState.FAILED))
    limit = {"cpu": 3000, "memory": 2048}
    ui.cell.decide("entitlement", held("web", (3, 4), limit=limit, allocated={"cpu": 2500, "memory": 512}))
    ui.fold()


def test_the_page_says_why_tasks_wait_with_the_numbers_of_the_reason(ui):
    web(ui)
    html = ui.page("/jobs/web")
    why = text_of(html, "live_why")
    assert "Why 2 tasks wait LIMIT_REACHED" in why
    assert "wanted 1 · free 0.5 · limit 3" in why
    assert "wanted 512MiB · free 1536MiB · limit 2GiB" in why
    assert "pool owner raise the limit" in why
    assert "2 tasks waiting" in text_of(html, "live_head")


def test_the_numbers_are_those_of_the_first_reason_that_has_some(ui):
    web(ui)
    ui.cell.decide("lifecycle", JobHeld(job_id="web", held=True))
    ui.fold()
    why = text_of(ui.page("/jobs/web"), "live_why")
    assert "Why 2 tasks wait HELD" in why
    assert "LIMIT_REACHED 2 tasks would exceed the limit of pool /p" in why
    assert "wanted 1 · free 0.5 · limit 3" in why


def test_the_grid_has_every_task(ui):
    web(ui)
    found = ui.get("/ui/data/jobs/web/tasks")
    assert found == {
        "instances": 5,
        "newest": 1,
        "state": [TaskState.ORDERED, 2, TaskState.FAILED, 1, TaskState.QUEUED, 2],
        "version": [1, 3, 0, 2],
        "run": [1, 5],
    }
    text = text_of(ui.page("/jobs/web"), "live_tasks")
    assert "Failed 1 2" in text
    assert "Queued 2 3-4" in text


def test_the_grid_takes_words_and_colours_of_states_from_the_page(ui):
    web(ui)
    said = re.search(r"data-states='([^']+)'", ui.page("/jobs/web"))
    assert said is not None
    states = json.loads(said[1])
    assert [each["name"] for each in states] == [state.name for state in TaskState]
    assert states[TaskState.QUEUED] == {"name": "QUEUED", "word": "Queued", "colour": "waiting"}


@seeds(5, 2)
def test_run_lengths_and_ranges_say_what_the_columns_say(seed):
    random = np.random.default_rng(seed)
    size = [0, 1, 7, 100, 3000][seed]
    state = np.repeat(random.integers(0, 9, size), random.integers(1, 4, size))[:size].astype(np.int32)
    found = TaskColumns(state, state, state)
    values = np.array(found.run_lengths()["state"], dtype=np.int64).reshape(-1, 2)
    assert np.repeat(values[:, 0], values[:, 1]).tolist() == state.tolist()
    assert (np.diff(values[:, 0]) != 0).all()
    for name, count, text in found.ranges():
        mine = np.flatnonzero(state == TaskState[name])
        assert count == len(mine)
        shown, _, more = text.partition(" and ")
        named = [number for part in shown.split(",") for number in spread(part)]
        assert named == mine[: len(named)].tolist()
        assert len(mine) - len(named) == int(more.removesuffix(" more") or 0)


def spread(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def test_a_task_has_its_runs_and_leads_to_its_output(ui):
    web(ui)
    html = ui.page("/jobs/web/tasks/2")
    assert "Task 2 Failed" in text_of(html, "live_head")
    assert "failed 3 h1" in text_of(html, "run-1")
    assert re.search(r"\d+ d ago", text_of(html, "run-1")), "an age, the time is its title"
    assert 'data-output="/v1/jobs/web/tasks/2/log?stream=stderr&amp;run=1"' in html
    assert ui.client.get("/v1/jobs/web/tasks/2/log?stream=stdout&run=1").text == "hello\n"
    assert "none yet" in text_of(ui.page("/jobs/web/tasks/4"), "live_facts")
    assert "NOT_FOUND" in ui.page("/jobs/web/tasks/9", 404)
    assert "NOT_FOUND" in ui.page("/jobs/web/tasks/x", 404)


def test_tasks_are_listed_by_state_and_page_by_page(ui, monkeypatch):
    web(ui)
    assert ids(ui.page("/jobs/web/tasks?state=QUEUED")) == ["3", "4"]
    monkeypatch.setattr(job_tasks, "SHOWN", 2)
    seen, path = [], "/ui/jobs/web/tasks"
    while path:
        html = ui.page(path.removeprefix("/ui"))
        seen += ids(html)
        path = next(iter(links(html, "Next")), "")
    assert seen == ["0", "1", "2", "3", "4"]


def ids(html: str) -> list[str]:
    return re.findall(r'<tr id="task-(\d+)"', html)


def test_the_history_is_told_newest_first_without_gaps(ui, monkeypatch):
    web(ui)
    monkeypatch.setattr(job, "STORY_PAGE", 2)
    seen, path = [], "/ui/jobs/web/history"
    while path:
        html = ui.page(path.removeprefix("/ui"))
        seen += re.findall(r'<li id="event-([^"]+)"', html)
        path = next(iter(links(html, "Older")), "")
    told = ui.get("/v1/jobs/web/history")["events"]
    assert seen == [f"{event['position']}-{event['index'] or 0}" for event in reversed(told)]
    assert len(told) > 5


def test_a_page_that_isnt_there_is_told_with_where_to_look(ui):
    html = ui.page("/nope", 404)
    assert "No such page" in html
    assert "There is no page /ui/nope. Find, above, looks for jobs, pools and hosts." in html


def test_a_job_that_nobody_knows_says_what_to_do(ui):
    html = ui.page("/jobs/none", 404)
    assert "NOT_FOUND" in html
    assert "forgotten" in html
    assert "<code>paceline job list</code>" in html


def test_a_job_is_found_in_the_cell_that_has_it(tmp_path):
    for number in range(2):
        (tmp_path / str(number)).mkdir()
    first, second = (Api(tmp_path / str(number), number) for number in range(2))
    app = create_cells_app({0: first.app, 1: second.app})
    add_ui(app, {0: first.app.state.context, 1: second.app.state.context}, TOKEN)
    rejected = first.cell.submit("web")
    first.cell.decide("lifecycle", JobRejected(job_id="web", jobs_offset=rejected, code="WRONG_CELL", message="no"))
    second.cell.accept("web", instances=2)
    for each in (first, second):
        each.fold()
    client = TestClient(app, f"http://{LISTEN}")
    html = client.get("/ui/jobs/web").text
    assert "Pending" in text_of(html, "live_head")
    assert "cell 1" in text_of(html, "live_facts")
    listed = client.get("/ui/jobs").text
    assert "cell 1" in text_of(listed, "job-1-web")
    for each in (first, second):
        each.close()


def test_a_rejected_job_says_why(ui):
    at = ui.cell.submit("a")
    ui.cell.decide(
        "lifecycle", JobRejected(job_id="a", jobs_offset=at, code="NO_SUCH_POOL", message="there is no pool /x")
    )
    ui.fold()
    html = ui.page("/jobs/a")
    assert "Why it was rejected NO_SUCH_POOL" in text_of(html, "live_why")
    assert "there is no pool /x" in text_of(html, "live_why")
    assert "no task was made" in text_of(html, "live_tasks")


def test_versions_differ_as_the_command_says(ui):
    web(ui)
    spec = job_of("web", instances=5, owner="ann", resources={"cpu": 2, "memory": "512MiB"}, command=[HOSTILE])
    at = ui.cell.fact(JobUpdateRequested(job_id="web", command_id="u", spec=encode(spec), reason="larger"))
    cause = Cause(topic="paceline.jobs", offset=at)
    started = UpdateStarted(job_id="web", number=1, kind="update", from_version=1, version=2, jobs_offset=at,
                            policy=UpdatePolicy(batch=2), updated=5, cause=cause)  # fmt: skip
    pulls = ImagePrefetchOrdered(job_id="web", image="r/web:2", image_digest="sha256:2", host_ids=("h1", "h2"))
    ui.cell.decide("lifecycle", started, pulls)
    ui.fold()
    assert "0 of 5 updated, 2 at a time. Its image: 0 of 2 hosts have it. larger" in text_of(
        ui.page("/jobs/web"), "live_why"
    )
    counts = {"hosts": 2, "have": 1, "faults": 1, "fault": "no room", "waits": False}
    ui.cell.decide("lifecycle", UpdateImagePulled(job_id="web", number=1, **counts))
    taken = {"first": pack_ints([0]), "count": pack_ints([2])}
    ui.cell.decide("lifecycle", InstancesTaken(job_id="web", number=1, **taken))
    step = {**taken, "step": pack_ints([UpdateStep.DONE]), "pending": 3, "flight": 0, "done": 2, "bad": 0}
    ui.cell.decide("lifecycle", UpdateProgressed(job_id="web", number=1, **step))
    ui.fold()
    html = ui.page("/jobs/web")
    assert "Version 1 to 2" in text_of(html, "live_versions")
    assert "/resources/cpu - 1 + 2" in text_of(html, "live_versions")
    assert "<script>alert" not in html
    update = text_of(html, "live_why")
    assert "2 of 5 updated, 2 at a time. Its image: 1 of 2 hosts has it, 1 can't: no room. larger" in update
    assert "0-1 2 of 2 0" in update
    assert "/resources/cpu - 1 + 2" in text_of(ui.page("/jobs/web/versions"), "main")
    assert "0 Ordered" in text_of(ui.page("/jobs/web/tasks"), "task-0")
    assert "done" in text_of(ui.page("/jobs/web/tasks"), "task-0")
    assert '"cpu": 2' in unescape(ui.page("/jobs/web/spec"))


def test_all_that_users_name_is_text_and_nothing_else(ui):
    ui.cell.accept("a", owner=HOSTILE, labels={HOSTILE: HOSTILE}, command=[HOSTILE], env={"X": HOSTILE})
    ui.cell.fact(JobStopRequested(job_id="a", command_id="c", reason=HOSTILE))
    ui.fold()
    for path in ("", "/spec", "/history", "/versions", "/tasks", "/tasks/0"):
        html = ui.page(f"/jobs/a{path}")
        assert "<script>alert" not in html
        assert "\u202e" not in html
        assert "\x07" not in html


def test_every_state_has_a_shape():
    source = (
        'import state with context %}{% for name in names %}{{ state(name) }}{% endfor %}{% include "shapes.html" %}'
    )
    names = [*JOB_STATES, *list(TaskState.__members__)[1:], *HOST_SHAPES.values(), *DEVICE_SHAPES.values()]
    template = environment().from_string('{% from "macros.html" ' + source)
    html = template.render(names=names, off="", session=None, link=None)
    drawn = set(re.findall(r'<symbol id="([^"]+)"', html))
    used = re.findall(r'href="#(sh-[^"]+)"', html)
    assert len(used) >= len(names)
    assert set(used) <= drawn


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"resources": {"cpu": 1, "gpu": 2}, "devices": {"models": {"gpu": ["a100", "h100"]}, "within": "link_group"}},
         "1 cpu, 64MiB memory, 2 gpu a100 or h100, in one link group"),
        ({"resources": {"gpu": 1}, "cores": 8, "numa": "one"},
         "8 whole cores, 64MiB memory, 1 gpu, at one NUMA node"),
        ({"any_of": [{"resources": {"cpu": 1, "gpu": 2}}, {"cores": 1}], "ports": ["http"]},
         "1 cpu, 512MiB memory, 2 gpu; or else 1 whole core, 512MiB memory, port http"),
    ],
)  # fmt: skip
def test_the_page_says_which_devices_and_cores_one_task_asks_for(ui: Pages, asked: dict[str, Any], words: str) -> None:
    ui.cell.accept("a", **asked)
    ui.fold()
    assert f"per task {words} strategy" in text_of(ui.page("/jobs/a"), "live_facts")


def test_the_page_says_what_runs_that_ended_used_of_what_they_asked_for(ui: Pages) -> None:
    ui.cell.host("h1")
    ui.cell.accept("a", resources={"cpu": 1, "memory": "512MiB"})
    run(ui.cell, "a")
    ui.fold()
    wanted = "runs that ended used 1.5 s of 10 s CPU, memory at most 50 of 512 MiB, in 1 run strategy"
    assert wanted in text_of(ui.page("/jobs/a"), "live_facts")
    run(ui.cell, "a", 2, reports=0)
    ui.fold()
    assert "of 20 s CPU, memory at most 50 of 512 MiB, in 2 runs, 1 of them not measured" in ui.page("/jobs/a")


def test_what_failed_and_hasnt_run_again_shows_its_errors_first(ui: Pages) -> None:
    ui.cell.host("h1")
    ui.cell.accept("web", instances=2, kind="stateless")
    ui.cell.run("web", (0, 1))
    ui.cell.changed("RUNNING", "web")
    ui.fold()
    assert "stream=stdout" in ui.page("/jobs/web")
    ui.cell.decide("lifecycle", ended("web", (1,), Outcome.FAILED, exit_code=3, following=TaskState.BACKOFF))
    ui.fold()
    assert "stream=stderr" in ui.page("/jobs/web")
    assert "stream=stderr" in ui.page("/jobs/web/tasks/1"), "the run that failed"
    assert "stream=stdout" in ui.page("/jobs/web/tasks/0")
    assert "stream=stdout" in ui.page("/jobs/web/tasks/1?stream=stdout")


def test_a_service_that_crashes_shows_its_last_failure_and_its_errors_first(ui: Pages) -> None:
    ui.cell.host("h1")
    ui.cell.accept("a", kind="stateless")
    ui.cell.run("a", (0,))
    ui.cell.decide("lifecycle", RunsAvailable(**runs("a", (0,))))
    ui.cell.changed("RUNNING", "a")
    ui.fold()

    def streams() -> list[str]:
        return re.findall(r"task 0\" data-output=.*?stream=(\w+)", ui.page("/jobs/a"))

    assert "All is well: 1 of 1 task runs." in text_of(ui.page("/jobs/a"), "live_why")
    assert streams() == ["stdout", "stderr"]
    for number in (1, 2, 3):
        fail(ui, number, "no such table")
    ui.fold()
    top = text_of(ui.page("/jobs/a"), "live_why")
    assert top.startswith("last failure task 0 exited with 127: no such table when ")
    assert "ago in a row 3 next try " in top
    assert links(ui.page("/jobs/a"), "task 0 exited with 127")[0] == "/ui/jobs/a/tasks/0?run=3"
    assert streams() == ["stderr", "stdout"]


def test_a_task_that_runs_again_after_a_failure_is_not_well_until_it_has_run_for_long(ui: Pages) -> None:
    ui.cell.host("h1")
    ui.cell.accept("a", kind="stateless")
    ui.cell.changed("RUNNING", "a")
    fail(ui, 1)
    ui.cell.run("a", (0,), 2)
    ui.cell.decide("lifecycle", RunsAvailable(**runs("a", (0,), 2)))
    ui.fold()
    assert "All is well" in text_of(ui.page("/jobs/a"), "live_why"), "that was years ago"
    with ui.app.state.context.views.read() as connection:
        row = job_row(connection, "a")
        shown = failure_shown(connection, row, ui.cell.ms)
        assert shown is not None
        assert (shown["next"], shown["attempts"]) == ("runs again for 0 s", 1)
        assert failure_shown(connection, row, ui.cell.ms + 2 * RECOVERED_MS) is None


def test_a_run_is_drawn_from_its_start_and_its_wait_on_the_host_apart() -> None:
    runs = [JobRun(0, 1, 1, "SUCCEEDED", 1000, 1060, 1061), JobRun(1, 1, 1, "", 1000, 0, 0)]
    drawn = job_gantt.drawn(RunsByHost([HostRuns("h1", runs, {})], 1, False), 1, 1_100_000)
    over, waiting = drawn["hosts"][0]["runs"]
    assert (over["ordered_x"], over["ordered_width"], over["x"]) == (0.0, 60.0, 60.0)
    assert (waiting["ordered_width"], waiting["x"]) == (100.0, 100.0), "it hasn't started"
    bars = run_lanes.drawn([HostRun("a", 0, 1, "SUCCEEDED", 1000, 1060, 1061)], 1_000_000, 1_100_000)["bars"]
    assert (bars[0]["ordered_width"], bars[0]["x"]) == (60.0, 60.0)


@pytest.mark.parametrize(("length_s", "form"), [(100, r"\d\d:\d\d:\d\dZ"), (200_000, r"\d\d \w+ \d\d:\d\d:\d\dZ")])
def test_the_axis_of_runs_has_a_date_only_where_they_last_longer_than_a_day(length_s: int, form: str) -> None:
    run = JobRun(0, 1, 1, Outcome.SUCCEEDED.name, 1_700_000_000, 1_700_000_000, 1_700_000_000 + length_s)
    ticks = job_gantt.drawn(RunsByHost([HostRuns("h1", [run], {})], 1, False), 1, 0)["ticks"]
    assert len(ticks) == 3
    assert all(re.fullmatch(form, text) for _, text in ticks)


def test_a_process_that_was_over_before_its_start_was_told_has_started(ui: Pages) -> None:
    ui.cell.host("h1")
    ui.cell.accept("quick")
    ui.cell.run("quick", (0,))
    ui.cell.decide("lifecycle", ended("quick", (0,), Outcome.FAILED, exit_code=1, following=TaskState.FAILED))
    ui.fold()
    [run] = ui.get("/v1/jobs/quick/tasks/0/runs")["runs"]
    assert run["started_at"] == run["ended_at"] is not None
    assert ui.get("/v1/jobs/quick")["started_at"] == run["started_at"]
