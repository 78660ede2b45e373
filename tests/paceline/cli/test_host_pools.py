"""`paceline host-pool` from the command line: what is sent, what is printed, and which words are refused."""

import pytest

DONE = {"command_id": "c", "position": "paceline.hosts:7", "code": "DONE", "message": ""}
MOVES = "/v1/host-pools/gpus/moves"
POLICY = {"source": "shared", "above": 60, "below": 40, "lasts_ms": 600_000, "hosts": 1, "keep": 1}
POOL = {
    "name": "gpus", "hosts": 4, "up": 3, "runs": 12, "kinds": ["batch"], "pools": ["/ml"], "elastic": [POLICY],
    "description": "bought",
}  # fmt: skip

TIME = "2026-08-21T10:41:07.000Z"
LOSES = {"job_id": "web", "pool": "/web", "hosts": 3, "hosts_then": 0, "fits": False, "runs_outside": 1}


def sent_body(cell):
    [sent] = cell.writes()
    return {name: value for name, value in sent.body.items() if name != "command_id"}


def test_host_pools_are_listed_with_who_may_use_them(cli, cell):
    cell.answer("GET", "/v1/host-pools", {"host_pools": [POOL], "moves": []})
    code, out, err = cli("host-pool", "list")
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["HOST", "POOL", "HOSTS", "UP", "RUNS", "FIRST", "FOR", "POOLS", "ELASTIC", "DESCRIPTION"],
        ["gpus", "4", "3", "12", "batch", "/ml", "shared:60:40", "bought"],
    ]


def test_moves_are_listed_with_what_led_to_them(cli, cell):
    asked = {"source": "shared", "target": "gpus", "host_ids": ["h1", "h2"], "code": "ASKED", "since": None}
    numbers = dict.fromkeys(("load", "waiting", "bound"))
    by_policy = asked | {"code": "LOAD_ABOVE", "load": 112, "waiting": 37, "bound": 60, "since": TIME}
    cell.answer(
        "GET", "/v1/host-pools", {"host_pools": [], "moves": [by_policy | {"at": TIME}, asked | numbers | {"at": TIME}]}
    )
    code, out, err = cli("host-pool", "moves")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert lines[1][-10:] == ["shared", "gpus", "h1,h2", "LOAD_ABOVE", "112", "%", "37", "%", "60", "%"]
    assert lines[2][-7:] == ["shared", "gpus", "h1,h2", "ASKED", "-", "-", "-"]


def test_a_definition_sends_what_is_said_and_nothing_else(cli, cell):
    cell.answer("PUT", "/v1/host-pools/gpus", DONE)
    assert cli("host-pool", "define", "gpus", "--description", "bought") == (0, "host pool gpus defined\n", "")
    assert sent_body(cell) == {"description": "bought", "reason": "", "elastic": []}


def test_elastic_moves_are_said_in_one_word_and_options(cli, cell):
    cell.answer("PUT", "/v1/host-pools/gpus", DONE)
    words = ("--kind", "batch", "--elastic", "shared:60:40", "--lasts", "5m", "--at-a-time", "2", "--keep", "0")
    assert cli("host-pool", "define", "gpus", *words)[0] == 0
    policy = {"source": "shared", "above": 60, "below": 40, "lasts": "300000ms", "hosts": 2, "keep": 0}
    assert sent_body(cell) == {"description": "", "reason": "", "elastic": [policy], "kinds": ["batch"]}


@pytest.mark.parametrize("text", ["shared", "shared:60", "shared:sixty:40", "shared:60:40:20", "shared:-1:40"])
def test_a_policy_that_is_none_is_refused_before_anything_is_sent(cli, cell, text):
    code, out, err = cli("host-pool", "define", "gpus", "--elastic", text)
    assert (code, out) == (2, "")
    assert f"{text!r} isn't SOURCE:ABOVE:BELOW, such as shared:60:40" in err
    assert cell.writes() == []


def test_a_name_that_no_host_pool_can_have_is_refused_with_those_that_can(cli, cell):
    code, out, err = cli("host-pool", "define", "Bad/Name")
    assert (code, out) == (2, "")
    assert "'Bad/Name' is no name of a host pool: 1 to 63 of a-z, 0-9 and ._-, the first a letter or digit" in err
    assert cell.asked == []


@pytest.mark.parametrize("words", [("--lasts", "5m"), ("--at-a-time", "2"), ("--keep", "0")])
def test_words_of_a_policy_without_one_are_refused(cli, cell, words):
    code, out, err = cli("host-pool", "define", "gpus", *words)
    assert (code, out) == (2, "")
    assert "are of --elastic SOURCE:ABOVE:BELOW" in err
    assert cell.writes() == []


def test_hosts_are_assigned_by_name_or_by_an_attribute(cli, cell):
    for words, hosts in (
        (("h1", "h2"), {"ids": ["h1", "h2"]}),
        (("--attribute", "model=a100"), {"attribute": "model", "values": ["a100"]}),
    ):
        cell.answer("POST", "/v1/host-pools/gpus/assignments", {**DONE, "host_ids": ["h1", "h2"]})
        assert cli("host-pool", "assign", "gpus", *words) == (0, "2 hosts in host pool gpus\n", "")
        assert cell.asked[-1].body["hosts"] == hosts


def test_a_move_names_hosts_or_says_how_many(cli, cell):
    for words in ((), ("h1", "--count", "2")):
        code, _, err = cli("host-pool", "move", "gpus", "--from", "shared", *words)
        assert (code, "name hosts, or say how many: --count N" in err) == (2, True)
    assert cell.writes() == []
    cell.answer("POST", MOVES, {**DONE, "host_ids": ["h1"]})
    words = ("--from", "shared", "--count", "1", "--deadline", "2h", "--escalate", "preempt")
    assert cli("host-pool", "move", "gpus", *words) == (0, "1 host of shared drain for gpus: h1\n", "")
    assert sent_body(cell) == {
        "source": "shared", "count": 1, "batch": "wait", "escalate": "preempt", "reason": "", "deadline": "7200000ms",
    }  # fmt: skip


def test_a_dry_run_tells_which_hosts_and_why(cli, cell):
    host = {"host_id": "h1", "controllers": 0, "tasks": 2, "priorities": 3, "mean_s": 60}
    plan = {"hosts": [host], "candidates": 4, "refused": False, "code": "", "message": "", "jobs": [LOSES]}
    cell.answer("POST", f"{MOVES}?dry_run", plan)
    code, out, err = cli("host-pool", "move", "gpus", "--from", "shared", "--count", "1", "--dry-run")
    assert (code, err.splitlines()[0]) == (0, "of 4 hosts that are up there; the first choice first")
    assert out.splitlines()[1].split() == ["h1", "0", "2", "3", "60"]
    assert out.splitlines()[-1].split() == ["web", "/web", "3", "0", "nowhere", "1"]


@pytest.mark.parametrize(
    ("words", "method", "path", "text"),
    [
        (("define", "gpus"), "PUT", "/v1/host-pools/gpus", "host pool gpus would be defined"),
        (("remove", "gpus"), "DELETE", "/v1/host-pools/gpus", "host pool gpus would be removed"),
        (("assign", "gpus", "h1"), "POST", "/v1/host-pools/gpus/assignments", "1 host would be in gpus"),
    ],
)
def test_dry_runs_tell_which_jobs_may_use_fewer_hosts_then(cli, cell, words, method, path, text):
    plan = {"refused": False, "code": "DONE", "message": "", "jobs": [LOSES]}
    refused = {**plan, "refused": True, "code": "NOT_FOUND", "message": "no"}
    for each in (plan, {**plan, "jobs": []}, refused):
        cell.answer(method, f"{path}?dry_run", each)
    code, out, err = cli("host-pool", *words, "--dry-run")
    assert (code, out.splitlines()[0]) == (0, text)
    assert out.splitlines()[-1].split() == ["web", "/web", "3", "0", "nowhere", "1"]
    assert err == "hosts that these jobs may use, now and then; runs outside of their host pools go on\n"
    assert cli("host-pool", *words, "--dry-run")[2] == "every job may use as many hosts as now\n"
    assert cli("host-pool", *words, "--dry-run")[:2] == (1, "it would be refused: no (NOT_FOUND)\n")


def test_a_dry_run_fails_where_the_move_would_be_refused(cli, cell):
    refused = {
        "jobs": [],
        "hosts": [],
        "candidates": 0,
        "refused": True,
        "code": "NO_HOSTS",
        "message": "shared has no host",
    }
    cell.answer("POST", f"{MOVES}?dry_run", refused)
    code, out, _ = cli("host-pool", "move", "gpus", "--from", "shared", "--count", "1", "--dry-run")
    assert (code, out) == (1, "it would be refused: shared has no host (NO_HOSTS)\n")


def test_a_host_pool_is_removed_with_a_reason(cli, cell):
    cell.answer("DELETE", "/v1/host-pools/gpus", DONE)
    assert cli("host-pool", "remove", "gpus", "--reason", "sold") == (0, "host pool gpus removed\n", "")
