"""How jobs end on a real agent, and what scripts and people are told of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.cli.main import run
from tests.helpers.real_cell import CellProcess

MIX = """
job_id: mix
pool: /p
instances: 3
command: [sh, -c, 'echo run $PACELINE_RUN; [ $PACELINE_TASK != 1 -o $PACELINE_RUN -gt 1 ]']
resources: {cpu: 10m, memory: 8MiB}
"""
UNREADABLE = """
job_id: unreadable
pool: /p
command: [sh, -c, 'echo began; echo cannot open /etc/tiles >&2; exit 3']
resources: {cpu: 10m, memory: 8MiB}
"""
LONG = """
job_id: long
pool: /p
command: [sleep, "1000"]
max_runtime: 1s
resources: {cpu: 10m, memory: 8MiB}
"""
TYPO = """
job_id: typo
pool: /p
command: [pyhton3, -c, 'print(1)']
resources: {cpu: 10m, memory: 8MiB}
"""
UNHEALTHY = """
job_id: web
pool: /p
kind: stateless
command: [sleep, "100000"]
health: {command: [sh, -c, 'echo database is not reachable; exit 1'], interval: 1s, failures: 1000}
resources: {cpu: 10m, memory: 8MiB}
stop_grace: 1s
"""


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CellProcess]:
    held = CellProcess(tmp_path_factory.mktemp("ends") / "cell", sim_hosts=0)
    held.data.mkdir()
    held.start()
    held.pool("/p")
    yield held
    held.stop()


@pytest.fixture
def paceline(cell: CellProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> Any:
    """Runs the command; returns its exit code and what it printed. A text with lines is a file."""
    monkeypatch.setenv("PACELINE_DATA", str(cell.data))
    monkeypatch.delenv("PACELINE_SERVER", raising=False)
    (tmp_path / "job.yaml").touch()

    def called(*words: str) -> tuple[int, str]:
        for text in words:
            if "\n" in text:
                (tmp_path / "job.yaml").write_text(text)
        capsys.readouterr()
        code = run([str(tmp_path / "job.yaml") if "\n" in word else word for word in words])
        return code, capsys.readouterr().out

    return called


def test_a_failed_task_of_an_array_runs_again_alone(paceline: Any) -> None:
    assert paceline("job", "submit", MIX, "--wait")[0] == 1
    assert "`paceline job start mix --failed` runs its tasks again" in paceline("job", "submit", MIX)[1]
    assert paceline("job", "start", "mix", "--failed") == (0, "job mix: running 1 of 3 tasks again\n")
    assert paceline("job", "wait", "mix")[0] == 0
    rows = [line.split()[:3] for line in paceline("job", "tasks", "mix")[1].splitlines()[1:]]
    assert rows == [["0", "SUCCEEDED", "1"], ["1", "SUCCEEDED", "2"], ["2", "SUCCEEDED", "1"]]
    assert paceline("job", "start", "mix", "--failed")[0] == 1


def test_a_job_that_runs_into_its_limit_is_no_success_and_says_why(paceline: Any) -> None:
    assert paceline("job", "submit", LONG, "--wait")[0] == 8
    for words in (("explain",), ("tasks",), ("runs",)):
        shown = paceline("job", *words, "long", *(["0"] if words == ("runs",) else []))[1]
        assert "ran for as long as it may (max_runtime 1s)" in shown


def test_a_program_that_does_not_exist_fails_at_once_in_plain_words(paceline: Any) -> None:
    assert paceline("job", "submit", TYPO, "--wait", "--timeout", "30s")[0] == 1
    assert "task 0: pyhton3: No such file or directory" in paceline("job", "explain", "typo")[1]
    assert len(paceline("job", "runs", "typo", "0")[1].splitlines()) == 2, "one run, on the only host"


def test_what_a_failed_task_wrote_to_stderr_is_in_its_explanation(paceline: Any) -> None:
    assert paceline("job", "submit", UNREADABLE, "--wait", "--timeout", "30s")[0] == 1
    for words in (("explain", "unreadable"), ("get", "unreadable")):
        assert "task 0 exited with 3: cannot open /etc/tiles; look at the output" in paceline("job", *words)[1]
    for words in (("tasks", "unreadable"), ("runs", "unreadable", "0")):
        assert paceline("job", *words)[1].splitlines()[1].endswith("  cannot open /etc/tiles")


def test_a_stop_of_a_job_that_has_ended_says_so_and_names_nothing_to_wait_for(
    paceline: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    paceline("job", "submit", UNREADABLE, "--wait", "--timeout", "30s")
    capsys.readouterr()
    assert run(["job", "stop", "unreadable"]) == 0
    assert capsys.readouterr() == ("job unreadable had ended already: FAILED\n", "")


def test_a_service_that_is_not_healthy_yet_says_so_and_one_that_was_stopped_by_whom(paceline: Any) -> None:
    paceline("job", "submit", UNHEALTHY)
    while "ORDERED" not in paceline("job", "tasks", "web")[1]:
        pass
    assert "STARTING" in (shown := paceline("job", "explain", "web")[1])
    assert "its health check hasn't passed yet" in shown
    assert paceline("job", "stop", "web", "--reason", "debug it", "--wait")[0] == 0
    assert "1 of 1 instances was stopped by a user at " in (shown := paceline("job", "explain", "web")[1])
    assert ": debug it;" in shown
    assert paceline("job", "wait", "web")[0] == 7
