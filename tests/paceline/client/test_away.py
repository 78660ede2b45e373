"""Whatever waits or follows while the cell is away: it goes on after a short time, and after a long one says that the
job goes on. None takes the end of a connection for the end of a job.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from paceline.cli.main import run
from paceline.client.client import Client
from paceline.client.errors import Unreachable
from tests.paceline.fake import FakeCell, job, running

LOG = "/v1/jobs/a/tasks/0/log"


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch, is_short: bool) -> Iterator[FakeCell]:
    """A cell with which clients have patience, or very little, so that a short time is a long one."""
    init = Client.__init__

    def made(self: Client, *args: Any, **more: Any) -> None:
        init(self, *args, **{**more, "patience": 60.0 if is_short else 0.2})

    monkeypatch.setattr(Client, "__init__", made)
    with running(FakeCell()) as found:
        yield found


def away(cell: FakeCell, path: str) -> None:
    """It is restarted, and what stands before it says so, or closes an answer in its middle as if all were well."""
    cell.problem("GET", path, 503, "NOT_READY", "the API is about to serve")
    cell.answer("GET", path, json.dumps(job("a", "SUCCEEDED")).encode()[:200])
    cell.problem("GET", path, 502, "", "no upstream")


def waits(cell: FakeCell, is_short: bool) -> None:
    """A job that runs while the cell goes away, and that has ended when it is back."""
    cell.answer("POST", "/v1/jobs", job("a", "PENDING"))
    cell.answer("GET", "/v1/jobs/a", job("a", "RUNNING", instances=1))
    away(cell, "/v1/jobs/a")
    if is_short:
        cell.answer("GET", "/v1/jobs/a", job("a", "SUCCEEDED", instances=1))


def prints(cell: FakeCell, is_short: bool) -> None:
    """The output of a task, which ends when the cell is back."""
    cell.answer("GET", "/v1/jobs/a", job("a", "RUNNING", instances=1))
    for state in ("RUNNING", "SUCCEEDED"):
        cell.answer("GET", "/v1/jobs/a/tasks", {"tasks": [{"instance": 0, "run": 1, "state": state}]})
    numbers = {"Log_Run": "1", "Log_Other_End": "0"}
    cell.answer("GET", LOG, b"one\n", Log_Offset="0", Log_Next_Offset="4", Log_End="4", Log_Ended="0", **numbers)
    cell.problem("GET", LOG, 503, "NOT_READY", "the API is about to serve")
    cell.answer("GET", LOG, b"tw", Log_Offset="4", Log_Next_Offset="8", Log_End="8", Log_Ended="1", **numbers)
    cell.problem("GET", LOG, 502, "", "no upstream")
    if is_short:
        cell.answer("GET", LOG, b"two\n", Log_Offset="4", Log_Next_Offset="8", Log_End="8", Log_Ended="1", **numbers)


def updated(cell: FakeCell, is_short: bool) -> None:
    """An update of a job, which ends when the cell is back."""
    path, steps = "/v1/jobs/a/updates/2", {"pending": 0, "in_flight": 0, "done": 1, "failed": 0}
    update = {
        "number": 2,
        "paused": False,
        "state": "ROLLING",
        "steps": steps,
        "ended_at": None,
        "code": "",
        "image": None,
    }
    cell.answer("GET", path, update)
    away(cell, path)
    if is_short:
        cell.answer("GET", path, update | {"state": "SUCCEEDED", "ended_at": "2026-08-21T10:41:07Z"})


COMMANDS: dict[str, tuple[Callable[[FakeCell, bool], None], list[str]]] = {
    "submit --wait": (waits, ["job", "submit", "--wait"]),
    "wait": (waits, ["job", "wait", "a"]),
    "logs -f": (prints, ["job", "logs", "a", "-f", "--stdout"]),
    "logs -f --run": (prints, ["job", "logs", "a", "-f", "--task", "0", "--run", "1", "--stdout"]),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("is_short", [True, False], ids=["short", "long"])
def test_a_command_ends_with_0_only_if_it_has_seen_the_end(cell, capfd, tmp_path, name, is_short):
    said, args = COMMANDS[name]
    said(cell, is_short)
    if name == "submit --wait":
        (tmp_path / "a.yaml").write_text("job_id: a\npool: /maps/tiles\ncommand: ['true']\n")
        cell.answer("POST", "/v1/jobs:batch", {"jobs": [{"job_id": "a", "status": 202, "position": "paceline.jobs:0"}]})
        args = [*args, str(tmp_path / "a.yaml")]
    code = run([*args, "--server", cell.address])
    out, err = capfd.readouterr()
    assert code == (0 if is_short else 6), err
    assert ("the job goes on" in err) != is_short
    if args[1] == "logs":
        assert out == ("one\ntwo\n" if is_short else "one\n")


@pytest.mark.parametrize("is_short", [True, False], ids=["short", "long"])
def test_the_client_returns_only_what_has_ended(cell, is_short):
    waits(cell, is_short)
    prints(cell, is_short)
    with Client(cell.address) as client:
        if is_short:
            assert client.wait("a")["state"] == "SUCCEEDED"
            assert b"".join(each.data for each in client.follow("a", streams=("stdout",))) == b"one\ntwo\n"
            return
        for ask in (lambda: client.wait("a"), lambda: list(client.follow("a", streams=("stdout",)))):
            with pytest.raises(Unreachable, match="the job goes on") as raised:
                ask()
            assert raised.value.exit_code == 6


@pytest.mark.parametrize("is_short", [True, False], ids=["short", "long"])
def test_an_update_is_waited_for_with_the_same_patience(cell, is_short):
    from paceline.cli.update_progress import wait_for_updates

    updated(cell, is_short)
    with Client(cell.address) as client:
        if is_short:
            assert wait_for_updates(client, {"a": 2}, None) == 0
            return
        with pytest.raises(Unreachable, match="the update goes on"):
            wait_for_updates(client, {"a": 2}, None)
