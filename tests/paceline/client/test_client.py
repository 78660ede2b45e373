"""The client: finds its cell, reads what it wrote, says what went wrong; waiting outlives a cell that is away."""

import json
import os
from types import SimpleNamespace
from typing import NoReturn

import httpx2
import pytest

import paceline
from events.bounds import NAME
from paceline.cli import progress
from paceline.client import cell_file, checked_values
from paceline.client.client import Client
from paceline.client.errors import (
    InvalidValue,
    NotAuthorised,
    NotFound,
    Refused,
    TimedOut,
    Unavailable,
    Unreachable,
    WrongToken,
)
from paceline.services.settings import AgentPart, OidcPart, ViewsPart, for_up, load
from tests.paceline.fake import FakeCell, job, running


@pytest.fixture
def client(cell: FakeCell):
    with Client(cell.address, "secret") as found:
        yield found


def test_the_package_offers_the_client():
    assert paceline.Client is Client
    with pytest.raises(AttributeError):
        _ = paceline.Nothing


def test_a_cell_and_its_token_are_found_on_the_data_folder(cell, tmp_path):
    (tmp_path / "cell.json").write_text(json.dumps({"pid": 1, "listen": cell.address, "kafka": ""}))
    (tmp_path / "token").write_text("of the folder\n")
    cell.answer("GET", "/v1/cell", {"cell": 0})
    assert Client(data=tmp_path).cell() == {"cell": 0}
    assert cell.asked[0].headers["authorization"] == "Bearer of the folder"


@pytest.mark.parametrize("own", ["pct_t-1_of_mine", "issued.by.another"])
def test_a_token_of_ones_own_is_shown_to_the_cell_that_has_the_token_of_the_folder_alone(cell, tmp_path, own):
    (tmp_path / "cell.json").write_text(json.dumps({"pid": 1, "listen": cell.address, "kafka": ""}))
    cell.answer("GET", "/v1/cell", {"cell": 0})
    for of_folder in ("of another folder", None):
        if of_folder is not None:
            (tmp_path / "token").write_text(of_folder)
        with pytest.raises(WrongToken, match="the token was not sent"):
            Client(token=own, data=tmp_path).cell()
        (tmp_path / "token").unlink(missing_ok=True)
    assert cell.asked == []
    (tmp_path / "token").write_text("of the folder\n")
    assert Client(token=own, data=tmp_path).cell() == {"cell": 0}
    assert cell.asked[0].headers["authorization"] == f"Bearer {own}"


def test_the_token_of_a_folder_goes_to_no_other_server(cell, tmp_path):
    (tmp_path / "token").write_text("of the folder")
    cell.answer("GET", "/v1/cell", {"cell": 0})
    Client(cell.address, data=tmp_path).cell()
    assert "authorization" not in cell.asked[0].headers


@pytest.mark.parametrize(("token", "told"), [("schlüssel", "character 5 of 9 is U.00FC"), ("a\nb", "U\\+000A")])
def test_a_token_that_no_cell_has_is_told_before_it_is_sent(cell, tmp_path, token, told):
    with pytest.raises(WrongToken, match=told):
        Client(cell.address, token)
    (tmp_path / "cell.json").write_text(json.dumps({"pid": 1, "listen": cell.address, "kafka": ""}))
    (tmp_path / "token").write_text("schlüssel", encoding="latin-1")
    with pytest.raises(WrongToken, match="printable ASCII"):
        Client(data=tmp_path)
    assert cell.asked == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_a_cell_file_that_cannot_be_read_is_no_cell(tmp_path, text):
    (tmp_path / "cell.json").write_text(text)
    with pytest.raises(Unreachable, match="No cell runs on"):
        Client(data=tmp_path)


def test_a_cell_that_is_starting_is_waited_for(cell, tmp_path, monkeypatch):
    def comes(seconds):
        (tmp_path / "cell.json").write_text(json.dumps({"pid": os.getpid(), "listen": cell.address, "kafka": ""}))

    monkeypatch.setattr(cell_file.time, "sleep", comes)
    with cell_file.announced(tmp_path), Client(data=tmp_path) as client:
        assert client.server == f"http://{cell.address}"
    (tmp_path / "cell.json").unlink()
    with pytest.raises(Unreachable, match="No cell runs on"):
        Client(data=tmp_path)


def test_a_cell_whose_start_was_killed_is_not_waited_for(tmp_path):
    (tmp_path / "starting").write_text(str(2**22 + 1))  # no process has such a number
    with pytest.raises(Unreachable, match="No cell runs on"):
        Client(data=tmp_path)


def test_reads_are_at_least_as_new_as_writes(cell, client):
    cell.answer("POST", "/v1/jobs", {"job_id": "a", "position": "paceline.jobs:17", "state": "SUBMITTED"}, 202)
    cell.answer("POST", "/v1/jobs", job("b", position="paceline.jobs:3,paceline.lifecycle:5"))
    cell.answer("GET", "/v1/jobs/a", job())
    client.job("a")
    assert client.submit_job({"pool": "/maps", "job_id": "a"})["state"] == "SUBMITTED"
    client.submit_job({"pool": "/maps", "job_id": "b"})
    client.job("a")
    assert "at-least-position" not in cell.asked[0].headers
    assert cell.asked[-1].headers["at-least-position"] == "paceline.jobs:17,paceline.lifecycle:5"


def test_positions_are_of_the_cell_that_answered(cell, client):
    cell.answer("POST", "/v1/jobs", {"job_id": "a", "position": "paceline.jobs:17"}, 202, Log_Cell="0")
    cell.answer("POST", "/v1/jobs", {"job_id": "b", "position": "paceline.jobs:3"}, 202, Log_Cell="1")
    cell.answer("GET", "/v1/jobs/a", job())
    client.submit_job({"pool": "/maps"})
    client.submit_job({"pool": "/far"})
    client.job("a")
    assert cell.asked[-1].headers["at-least-position"] == "paceline.jobs@0:17,paceline.jobs@1:3"


def test_a_client_may_be_of_one_cell(cell):
    cell.answer("GET", "/v1/jobs/a", job())
    cell.answer("GET", "/v1/jobs", {"jobs": [], "next_page_token": ""})
    with Client(cell.address, "secret", cell=1) as client:
        client.job("a")
        client.jobs_page(state="RUNNING")
    assert [each.query.get("cell") for each in cell.asked] == ["1", "1"]
    assert cell.asked[-1].query["state"] == "RUNNING"


def test_a_job_without_an_id_gets_one(cell, client):
    cell.answer("POST", "/v1/jobs", job())
    client.submit_job({"pool": "/maps"})
    client.submit_job({"pool": "/maps"})
    first, second = (each.body["job_id"] for each in cell.asked)
    assert first != second


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Refused), (401, NotAuthorised), (403, NotAuthorised), (404, NotFound), (409, Refused), (421, NotAuthorised),
     (422, Refused), (429, Refused), (500, Unavailable), (503, Unavailable)],
)  # fmt: skip
def test_problems_become_errors(cell, client, status, kind):
    wrong = [{"pointer": "/pool", "message": "is missing"}]
    cell.problem("POST", "/v1/jobs", status, "INVALID_SPEC", "1 problem", errors=wrong, position="paceline.jobs:4")
    with pytest.raises(kind) as caught:
        client.submit_job({})
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.code, error.errors) == (status, "INVALID_SPEC", [("/pool", "is missing")])
    assert error.position == "paceline.jobs:4"
    assert str(error) == "1 problem (INVALID_SPEC)\n  /pool: is missing"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"null"])
def test_an_error_of_something_in_between_is_told_too(cell, client, body):
    cell.answer("GET", "/v1/cell", body, 502)
    with pytest.raises(Unavailable, match="answered 502"):
        client.cell()


def test_the_client_takes_the_ids_that_the_cell_takes():
    assert checked_values.ID.pattern == NAME.pattern


def test_ids_that_can_be_none_ask_for_no_path_and_others_are_quoted(cell, client):
    asked = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.raw_path.decode())
        return httpx2.Response(200, json={})

    with Client("127.0.0.1:1", transport=httpx2.MockTransport(answer)) as other:
        for call, name in ((other.job, "a/b?c"), (other.explanation, "ä"), (other.host, ".."), (other.pool, "/a/../b")):
            with pytest.raises(InvalidValue):
                call(name)
        other.pool("/maps/tïles?")
        other.round("sla", 3)
        other.causes("0/paceline.lifecycle:57")
    assert asked == ["/v1/pools/maps/t%C3%AFles%3F", "/v1/rounds/sla/3", "/v1/causes/0/paceline.lifecycle%3A57"]


def test_the_stream_of_events(cell, client):
    text = ': ping\n\nid: p:1\nevent: JobAccepted\ndata: {"a":\ndata: 1}\n\nid: p:2\ndata: 5\n\nevent: unfinished\n'
    cell.answer("GET", "/v1/events", text.encode())
    found = list(client.events(after="p:0"))
    assert [tuple(each) for each in found] == [("p:1", "JobAccepted", {"a": 1}), ("p:2", "message", 5)]
    assert cell.asked[0].headers["last-event-id"] == "p:0"


def test_the_stream_of_events_is_divided_at_newlines_only(cell, client):
    text = "a\u2028b\u2029c\x85d\x1c\x1d\x1e\x0b\x0c\u202e"
    data = json.dumps({"command": text}, ensure_ascii=False)
    cell.answer("GET", "/v1/events", f"id: p:1\ndata: {data}\n\n".encode())
    assert [each.data for each in client.events()] == [{"command": text}]


def test_a_stream_that_is_refused(cell, client):
    cell.problem("GET", "/v1/events", 503, "TOO_MANY_STREAMS", "64 are open")
    with pytest.raises(Unavailable, match="64 are open"):
        next(client.events())


def test_ready(cell, client):
    assert not client.ready()
    cell.answer("GET", "/readyz", {"ready": True})
    assert client.ready()
    assert not Client("127.0.0.1:1").ready()


@pytest.mark.parametrize(
    ("state", "goal", "reached"),
    [("PENDING", "ended", None), ("PENDING", "running", None), ("RUNNING", "running", True), ("RUNNING", "ended", None),
     ("KILLING", "running", None), ("SUCCEEDED", "running", True), ("SUCCEEDED", "succeeded", True),
     ("FAILED", "ended", False), ("FAILED", "running", False), ("KILLED", "ended", False), ("KILLED", "stopped", True),
     ("KILLED", "running", False), ("KILLED", "succeeded", False), ("REJECTED", "ended", False),
     ("SUBMITTED", "ended", None)],
)  # fmt: skip
def test_when_a_wait_is_over(state, goal, reached):
    assert progress.reached(job(state=state), goal) is reached


def test_waiting_for_several_jobs_ends_when_all_have_come_to_an_end(cell, client):
    cell.answer("GET", "/v1/jobs/a", job("a"))
    cell.answer("GET", "/v1/jobs/a", job("a", "SUCCEEDED"))
    cell.answer("GET", "/v1/jobs/b", job("b", "FAILED"))
    found = progress.wait_for(client, ["a", "b"], "ended", 10)
    assert {name: each["state"] for name, each in found.items()} == {"a": "SUCCEEDED", "b": "FAILED"}


def test_waiting_goes_on_while_the_cell_is_away(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SILENCE_NOTE_S", 0.0)
    cell = FakeCell()
    with running(cell), Client(cell.address) as client:
        cell.answer("GET", "/v1/jobs/a", job())
        cell.problem("GET", "/v1/jobs/a", 503, "BEHIND", "not now")
        cell.problem("GET", "/v1/jobs/a", 503, "BEHIND", "not now")
        cell.answer("GET", "/v1/jobs/a", job(state="SUCCEEDED"))
        assert progress.wait_for(client, ["a"], "ended", None)["a"]["state"] == "SUCCEEDED"
    assert capsys.readouterr().err.count("the cell does not answer; waiting for it") == 1


def test_a_cell_that_was_never_there_is_not_waited_for():
    with Client("127.0.0.1:1") as client, pytest.raises(Unreachable):
        progress.wait_for(client, ["a"], "ended", 10)


def test_a_wait_that_takes_too_long(cell, client):
    cell.answer("GET", "/v1/jobs/a", job())
    with pytest.raises(TimedOut, match="a: not succeeded after 0 s"):
        progress.wait_for(client, ["a"], "succeeded", 0)


def test_the_client_waits_for_the_end_of_a_job(cell, client):
    for state in ("PENDING", "RUNNING", "KILLED"):
        cell.answer("GET", "/v1/jobs/a", job("a", state=state))
    assert client.wait("a")["state"] == "KILLED"
    assert len(cell.asked) == 3
    cell.answer("GET", "/v1/jobs/b", job("b", state="PENDING"))
    with pytest.raises(TimedOut, match=r"job b is PENDING after 0\.01 s; the wait ended, the job goes on"):
        client.wait("b", timeout=0.01)


def test_bars_on_a_terminal(cell, client, monkeypatch):
    from rich.console import Console

    recorder = Console(record=True, width=200, file=open("/dev/null", "w"))  # noqa: SIM115
    monkeypatch.setattr(progress, "console", lambda file: recorder)
    cell.answer("GET", "/v1/jobs/a", job(tasks={"succeeded": 1, "running": 1, "queued": 2}))
    cell.answer("GET", "/v1/jobs/a", job(state="SUCCEEDED", tasks={"succeeded": 4, "running": 0, "queued": 0}))
    progress.wait_for(client, ["a"], "ended", 10, progress.Bars())
    said = recorder.export_text()
    assert "a  SUCCEEDED  " + "━" * 30 + "  4/4 ended" in said


def test_the_order_of_settings(monkeypatch, tmp_path):
    data = tmp_path / "data"
    assert for_up(load(data=data)).listen == "127.0.0.1:7117"
    (tmp_path / "paceline.toml").write_text('kafka = "of-file:1"\n[up]\nlisten = "of-file:2"\nsim_hosts = 5\n')
    assert for_up(load(data=data)).model_dump(exclude={"origins"}) == {
        "data": data, "listen": "of-file:2", "sim_hosts": 5, "agent": False, "kafka": "of-file:1",
        "kafka_options": {}, "schema_registry_url": "", "cell": 0, "archive": "",
        "host": AgentPart().model_dump(), "views": ViewsPart().model_dump(), "oidc": OidcPart().model_dump(),
        "alarm_unread_after": 30.0, "signing_keys": None,
        "forecast": {"cpu_percent": 5}, "what_if": {"memory_mib": 2048, "run_s": 600},
        "tls": {"cert": None, "key": None, "client_ca": None},
    }  # fmt: skip
    monkeypatch.setenv("PACELINE_UP__LISTEN", "of-env:3")
    monkeypatch.setenv("PACELINE_DATA", str(data))
    found = for_up(load(up={"sim_hosts": 0}))
    assert (found.listen, found.sim_hosts, found.agent, found.data) == ("of-env:3", 0, True, data)
    other = tmp_path / "other.toml"
    other.write_text("cell = 3\n")
    assert load(other).cell == 3
    assert load(other).kafka == ""


@pytest.mark.parametrize(("written", "ms"), [("90", 90_000), ("1.5", 1500), ("1m", 60_000), ("1d", 86_400_000)])
def test_how_long_a_record_may_lie_is_written_with_a_unit_or_in_seconds(monkeypatch, tmp_path, written, ms):
    monkeypatch.setenv("PACELINE_ALARM_UNREAD_AFTER", written)
    assert load(data=tmp_path).alarm_unread_ms == ms


def test_wrong_settings_are_said_all_at_once(cli, tmp_path, monkeypatch):
    config = tmp_path / "x.toml"
    config.write_text('kafak = "a:1"\n[up]\nlistn = "a:1"\nsim_hosts = -1\n')
    code, _, err = cli("up", "--config", str(config), "--data", str(tmp_path))
    assert code == 2
    lines = sorted(err.removeprefix("paceline: ").splitlines())
    assert [line.split(" (")[0] for line in lines] == ["setting kafak", "setting up.listn", "setting up.sim_hosts"]
    assert "did you mean kafka?" in lines[0]
    assert "did you mean listen?" in lines[1]
    config.write_text("= no toml")
    assert cli("up", "--config", str(config))[0] == 2
    assert cli("up", "--config", str(tmp_path / "none"))[0] == 2


def named_in(cell: FakeCell) -> tuple[str | None, str | None]:
    cell.answer("GET", "/v1/cell", {"cell": 0})
    with Client(cell.address, "secret") as client:
        client.cell()
    headers = cell.asked[-1].headers
    return headers.get("paceline-actor"), headers.get("paceline-actor-how")


def test_a_client_says_who_works_with_it(cell, monkeypatch):
    monkeypatch.setattr("pwd.getpwuid", lambda number: SimpleNamespace(pw_name="sys ann"))
    monkeypatch.setenv("LOGNAME", "somebody else")
    monkeypatch.delenv("PACELINE_ACTOR", raising=False)
    assert named_in(cell) == ("sys ann", "system-user")
    monkeypatch.setenv("PACELINE_ACTOR", " Jörg 5% ")
    assert named_in(cell) == ("J%C3%B6rg 5%25", "environment")


def test_where_the_system_knows_no_name_none_is_sent(cell, monkeypatch):
    def nobody(number: int) -> NoReturn:
        raise KeyError("uid")

    monkeypatch.setattr("pwd.getpwuid", nobody)
    monkeypatch.delenv("PACELINE_ACTOR", raising=False)
    assert named_in(cell) == (None, None)


@pytest.mark.parametrize("name", ["a\x1b[31m", "x" * 129, "\udc80", "a\tb"])
def test_a_name_that_can_be_none_is_refused_once_and_nothing_is_sent(cell, cli, monkeypatch, name):
    monkeypatch.setenv("PACELINE_ACTOR", name)
    code, _, err = cli("job", "stop", "a", "b", "c")
    assert (code, err.count("PACELINE_ACTOR must be 1 to 128 printable characters"), cell.asked) == (2, 1, [])


def test_more_jobs_than_a_request_takes_are_checked_before_any_is_submitted(cell, client, monkeypatch):
    monkeypatch.setattr("paceline.client.jobs.BATCH_MAX", 2)
    specs = [{"job_id": f"j{number}", "pool": "/p"} for number in range(5)]
    told = client.submit_jobs(specs, all_or_nothing=True)
    assert [each["job_id"] for each in told] == ["j0", "j1", "j2", "j3", "j4"]
    sent = [("dry_run" in each.query, [job["job_id"] for job in each.body["jobs"]]) for each in cell.asked]
    parts = [["j0", "j1"], ["j2", "j3"], ["j4"]]
    assert sent == [(True, part) for part in parts] + [(False, part) for part in parts]
    cell.asked.clear()
    faults = [{"pointer": "/jobs/1/pool", "message": "there is no pool /p"}]
    cell.problem("POST", "/v1/job-batches?dry_run", 422, "NO_SUCH_POOL", "no", errors=faults)
    with pytest.raises(Refused) as caught:
        client.submit_jobs(specs, all_or_nothing=True)
    assert [pointer for pointer, _ in caught.value.errors] == ["/jobs/1/pool", "/jobs/3/pool", "/jobs/5/pool"]
    assert all("dry_run" in each.query for each in cell.asked)


def test_jobs_of_many_bytes_are_sent_in_several_requests(cell, client, monkeypatch):
    monkeypatch.setattr("paceline.client.jobs.BATCH_BYTES_MAX", 100)
    client.submit_jobs([{"job_id": f"j{number}", "description": "x" * 60} for number in range(3)])
    assert [len(each.body["jobs"]) for each in cell.asked] == [1, 1, 1]
    cell.asked.clear()
    specs = [{"job_id": f"j{number}"} for number in range(4)]
    whole = len(b'{"jobs":[{"job_id":"j0"},{"job_id":"j1"}]}')
    for most, jobs in ((whole, [2, 2]), (whole - 1, [1, 1, 1, 1])):
        monkeypatch.setattr("paceline.client.jobs.BATCH_BYTES_MAX", most)
        client.submit_jobs(specs)
        assert [len(each.body["jobs"]) for each in cell.asked] == jobs, "what is sent counts, its commas too"
        cell.asked.clear()


@pytest.mark.parametrize("count", [3, 20])
def test_an_action_on_each_job_of_a_filter_answers_each_also_after_a_refusal(cell, client, count):
    ids = [f"j{number}" for number in range(count)]
    cell.answer("GET", "/v1/jobs", {"jobs": list(map(job, ids)), "next_page_token": ""})
    for each in ids:
        cell.answer("POST", f"/v1/jobs/{each}/stops", {"code": "DONE", "job_id": each})
    cell._answers["POST", "/v1/jobs/j1/stops"].clear()
    cell.problem("POST", "/v1/jobs/j1/stops", 409, "ALREADY_ENDED", "job j1 is KILLED")
    answers = dict(client.each(client.jobs(pool="/maps", labels=["team:x"]), client.stop_job, reason="r"))
    assert list(answers) == ids
    assert isinstance(answers.pop("j1"), Refused)
    assert {each["code"] for each in answers.values()} == {"DONE"}
    assert cell.asked[0].query["pool"] == "/maps"
    assert {each.body["reason"] for each in cell.writes()} == {"r"}
    assert dict(client.each(["j0"], client.stop_job))["j0"]["code"] == "DONE"


def test_hosts_that_are_named_by_a_text_are_refused(client):
    for hosts in ({"host_ids": "sim-1"}, {"attribute": "rack", "values": "r1"}):
        with pytest.raises(InvalidValue, match="give a list of texts"):
            client.drain_hosts(**hosts)
