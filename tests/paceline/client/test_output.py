"""Reading output by the client: to the end that the run has, whatever is away meanwhile, in whole lines."""

from typing import Any

import pytest

from paceline.client import output
from paceline.client.client import Client
from paceline.client.errors import NotFound, Unreachable
from paceline.client.output import OutputPiece
from tests.paceline.fake import FakeCell

PATH = "/v1/jobs/a/tasks/0/log"


@pytest.fixture
def client(cell: FakeCell):
    with Client(cell.address, "secret") as found:
        yield found


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "AGAIN_S", 0.02)


def page(cell: FakeCell, data: bytes, offset: int, end: int, ended: bool = False, other: int = 0, **more: Any) -> None:
    numbers = {"Log_Offset": offset, "Log_Next_Offset": offset + len(data), "Log_Ended": int(ended), "Log_End": end}
    headers = {**numbers, "Log_Other_End": other, "Log_Run": 4, **more}
    cell.answer("GET", PATH, data, **{name: str(value) for name, value in headers.items()})


def followed(client: Client, *streams: str) -> list[OutputPiece]:
    return list(client.read_output("a", 0, streams=streams or ("stdout",), follow=True))


def test_a_follower_waits_at_the_host_and_stays_with_its_run(cell, client):
    page(cell, b"one\n", 0, 4)
    page(cell, b"two\n", 4, 8)
    page(cell, b"", 8, 8, ended=True)
    assert [piece.data for piece in followed(client)] == [b"one\n", b"two\n"]
    assert [each.query.get("wait") for each in cell.asked] == [None, "20000ms", "20000ms"]
    assert [each.query.get("run") for each in cell.asked] == [None, "4", "4"]


def test_both_streams_are_followed_by_one_question_at_a_time(cell, client):
    page(cell, b"out\n", 0, 4, other=0)
    page(cell, b"", 4, 4, other=4)
    page(cell, b"err\n", 0, 4, other=4)
    page(cell, b"", 4, 4, ended=True, other=4)
    assert [piece[:2] for piece in followed(client, "stdout", "stderr")] == [("stdout", b"out\n"), ("stderr", b"err\n")]
    asked = [(each.query["stream"], each.query["offset"], each.query.get("other_offset")) for each in cell.asked]
    assert asked == [
        ("stdout", "0", None),
        ("stdout", "4", "0"),
        ("stderr", "0", None),
        ("stdout", "4", "4"),
        ("stderr", "4", None),
    ]


def test_lines_come_whole_and_what_stays_half_comes_soon(cell, client):
    page(cell, b"one\ntw", 0, 6)
    page(cell, b"o\nques", 6, 12)
    page(cell, b"", 12, 12)
    page(cell, b"tion\n", 12, 17, ended=True)
    assert [piece.data for piece in followed(client)] == [b"one\n", b"two\n", b"ques", b"tion\n"]
    assert [each.query.get("wait") for each in cell.asked] == [None, "200ms", "200ms", "20000ms"]


def test_the_half_of_a_line_whose_rest_is_dropped_is_missed_too(cell, client):
    page(cell, b"one\ntw", 0, 6)
    page(cell, b"nine\n", 106, 111, ended=True)
    assert followed(client) == [OutputPiece("stdout", b"one\n", 0), OutputPiece("stdout", b"nine\n", 106, 102)]


def test_lost_bytes_are_told_once_at_the_end(cell, client):
    page(cell, b"one\n", 0, 4, ended=True, Log_Lost=17)
    assert followed(client)[-1] == OutputPiece("stdout", b"", 4, 0, 17)


def test_a_follower_waits_for_a_cell_that_is_away(cell, client):
    page(cell, b"one\n", 0, 4)
    cell.problem("GET", PATH, 503, "NOT_READY", "the API is about to serve")
    cell.problem("GET", PATH, 404, "NO_OUTPUT", "host h1 is not connected")
    cell.problem("GET", PATH, 429, "TOO_MANY_FOLLOWERS", "64 followers wait")
    cell.answer("GET", PATH, b"tw", Log_Offset="4", Log_Next_Offset="8", Log_Ended="1")
    page(cell, b"two\n", 4, 8, ended=True)
    assert [piece.data for piece in followed(client)] == [b"one\n", b"two\n"]


def test_a_follower_that_hears_nothing_for_long_says_that_the_job_goes_on(cell, client):
    client.patience = 0.2
    page(cell, b"one\n", 0, 4)
    cell.problem("GET", PATH, 404, "NO_OUTPUT", "host h1 is not connected")
    pieces = client.read_output("a", 0, follow=True)
    assert next(pieces).data == b"one\n"
    with pytest.raises(Unreachable, match=r"h1 is not connected.*\n.*the job goes on") as raised:
        next(pieces)
    assert raised.value.exit_code == 6


def test_what_never_was_there_is_not_waited_for(cell, client):
    cell.problem("GET", PATH, 404, "NO_OUTPUT", "the host has no output of that run, or no longer")
    with pytest.raises(NotFound):
        followed(client)


def test_an_older_agent_that_doesn_t_wait_is_asked_now_and_then(cell, client, monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr(output.time, "sleep", pauses.append)
    page(cell, b"", 0, -1, other=-1)
    page(cell, b"", 0, -1, other=-1)
    page(cell, b"", 0, -1, other=-1)
    page(cell, b"one\n", 0, -1, other=-1)
    page(cell, b"", 4, -1, ended=True, other=-1)
    assert [piece.data for piece in followed(client)] == [b"one\n"]
    assert pauses == [output.AGAIN_S]


def test_reading_ends_where_the_output_ended_when_it_began(cell, client):
    page(cell, b"one\n", 0, 8)
    page(cell, b"two\nthree\n", 4, 14)
    page(cell, b"more\n", 14, 19)
    assert b"".join(piece.data for piece in client.read_output("a", 0, streams=("stdout",))) == b"one\ntwo\nthree\n"


def task(cell: FakeCell, run: int, state: str) -> None:
    tasks = {"tasks": [{"job_id": "a", "instance": 0, "run": run, "state": state}], "next_page_token": ""}
    cell.answer("GET", "/v1/jobs/a/tasks", tasks)


def test_a_service_is_followed_from_run_to_run_until_its_task_has_ended(cell, client, monkeypatch):
    """Also a run that ended before anybody looked; one that came to no host is passed over."""
    monkeypatch.setattr("paceline.client.follow.FIRST_ASK_S", 0.0)
    monkeypatch.setattr("paceline.client.follow.SLOWEST_ASK_S", 0.0)
    for run, state in ((0, "QUEUED"), (1, "RUNNING"), (1, "BACKOFF"), (2, "QUEUED"), (4, "RUNNING"), (4, "RUNNING")):
        task(cell, run, state)
    for run in (1, 3, 4):
        task(cell, 4, "RUNNING" if run < 4 else "KILLED")
    page(cell, b"one\n", 0, 4, ended=True, Log_Run=1)
    cell.problem("GET", PATH, 404, "NO_OUTPUT", "run 2 came to no host")
    page(cell, b"three\n", 0, 6, ended=True, Log_Run=3)
    page(cell, b"four\n", 0, 5, ended=True, Log_Run=4)
    assert [each.data for each in client.follow("a", streams=("stdout",))] == [b"one\n", b"three\n", b"four\n"]
    assert [each.query["run"] for each in cell.asked if each.path == PATH] == ["1", "2", "3", "4"]


def test_a_follower_outlives_a_cell_that_is_away_between_two_runs(cell, client):
    task(cell, 1, "RUNNING")
    page(cell, b"one\n", 0, 4, ended=True, Log_Run=1)
    cell.problem("GET", "/v1/jobs/a/tasks", 503, "NOT_READY", "the API is about to serve")
    task(cell, 2, "RUNNING")
    page(cell, b"two\n", 0, 4, ended=True, Log_Run=2)
    cell.problem("GET", "/v1/jobs/a/tasks", 502, "", "no upstream")
    client.patience = 0.2
    pieces = client.follow("a", streams=("stdout",))
    assert [next(pieces).data for _ in range(2)] == [b"one\n", b"two\n"]
    with pytest.raises(Unreachable, match="the job goes on"):
        next(pieces)


def test_what_isn_t_there_is_not_followed(cell, client):
    cell.answer("GET", "/v1/jobs/a/tasks", {"tasks": [], "next_page_token": ""})
    cell.answer("GET", "/v1/jobs/a", {"job_id": "a", "state": "REJECTED", "instances": 1})
    with pytest.raises(NotFound, match="no task 0 of job a"):
        next(client.follow("a"))
