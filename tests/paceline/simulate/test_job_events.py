"""Users stop, start, hold, release, restart and delete jobs, and instances of them, in scenarios."""

import pytest

from tests.helpers.play import CELL, faults, play

LONG = "sim: {duration: 10h}"
WEB = f"{{job_id: web, pool: /p, kind: stateless, instances: 4, resources: {{cpu: 1}}, {LONG}}}"
TASKS = f"{{job_id: work, pool: /p, instances: 4, resources: {{cpu: 1}}, {LONG}}}"


@pytest.mark.parametrize(
    ("job", "events", "expected"),
    [
        (WEB, ["{at: 10s, stop: {job_id: web, instances: '0-1,3'}}"], ["job web tasks KILLED == 3"]),
        (WEB, ["{at: 10s, stop: web}", "{at: 20s, start: web}"], ["job web tasks RUNNING == 4"]),
        (
            WEB,
            ["{at: 10s, stop: web}", "{at: 20s, start: {job_id: web, instances: '2'}}"],
            ["job web tasks RUNNING == 1", "job web tasks KILLED == 3"],
        ),
        (TASKS, ["{at: 0s, hold: work}"], ["job work tasks BACKOFF == 4"]),
        (TASKS, ["{at: 0s, hold: work}", "{at: 10s, release: work}"], ["job work tasks RUNNING == 4"]),
        (TASKS, ["{at: 10s, delete: work}"], ["job work tasks RUNNING == 4"]),
        (TASKS, ["{at: 10s, delete: {job_id: work, force: true}}"], ["job work is ABSENT"]),
        (TASKS, ["{at: 10s, stop: work}", "{at: 20s, delete: work}"], ["job work is ABSENT"]),
        (
            WEB,
            ["{at: 10s, restart: {job_id: web, instances: '1-2', batch: 1}}"],
            ["job web tasks RUNNING == 4", "events UpdateStarted, RunsStopping, RunsAvailable, RunsStopping"],
        ),
    ],
)
def test_a_user_commands_a_job(job: str, events: list[str], expected: list[str]) -> None:
    lines = "".join(f"  - {{at: 1m, that: '{line}'}}\n" for line in expected)
    session = play(f"{CELL}end: 1m\njobs: [{job}]\nevents: [{', '.join(events)}]\nexpect:\n{lines}")
    assert not session.failed(), session.run.watch.verdicts()


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        ("stop: {job_id: web, instances: 3-1}", "/events/0/stop/instances: 3-1 ends before it begins; write 1-3"),
        ("start: {job_id: web, instnces: 1}", "instnces: is not a known field; did you mean instances?"),
        ("hold: other", "/events/0/hold: no job other is submitted"),
        ("delete: {force: true}", "/events/0/delete/job_id: is missing"),
    ],
)
def test_a_command_names_what_is_there(event: str, wanted: str) -> None:
    [found] = faults(f"{CELL}end: 1m\njobs: [{WEB}]\nevents: [{{at: 1s, {event}}}]\n")
    assert wanted in found


def test_a_service_that_is_started_again_needs_an_end() -> None:
    stopped = f"{CELL}jobs: [{WEB}]\nevents: [{{at: 1s, stop: web}}, {{at: %s, start: web}}]\n"
    [found] = faults(stopped % "2s")
    assert "needs `end`: web never ends by itself" in found
    assert faults(stopped % "500ms") == []
