"""Reasons: asked for where others are affected; histories of pools and hosts, with who and why."""

import json

import pytest

from tests.paceline.cli.test_commands import POOL
from tests.paceline.fake import FakeCell, job

DONE = {"code": "DONE", "message": "", "position": "paceline.jobs:7"}
QUESTION = "job web belongs to bob. Reason (recorded; Ctrl-C cancels)"
MAPS = POOL | {"path": "/maps", "open_jobs": 2}


@pytest.fixture(autouse=True)
def ann(monkeypatch):
    monkeypatch.setenv("PACELINE_ACTOR", "ann")


def reasons(cell: FakeCell) -> list[str]:
    return [each.query.get("reason", "") if each.body is None or "reason" not in each.body else each.body["reason"]
            for each in cell.writes()]  # fmt: skip


@pytest.mark.parametrize("verb", [("stop", "web"), ("priority", "web", "3")])
def test_a_job_of_somebody_else_needs_a_reason_and_ones_own_or_nobodys_none(cli, cell, verb):
    path = {"stop": "/v1/jobs/web/stops", "priority": "/v1/jobs/web/priorities"}[verb[0]]
    cell.answer("POST", path, DONE)
    cell.answer("GET", "/v1/jobs/web", job("web", owner="bob"))
    code, _, err = cli("job", *verb)
    assert (code, cell.writes()) == (2, [])
    assert "job web belongs to bob: say why with --reason" in err
    assert cli("job", *verb, "--reason", "too loud")[0] == 0
    for owner in ("ann", ""):
        cell.answer("GET", "/v1/jobs/web", job("web", owner=owner))
        cli("job", "get", "web")
        assert cli("job", *verb)[0] == 0, owner
    cell.answer("GET", "/v1/jobs", {"jobs": [job("web", owner="bob")], "next_page_token": ""})
    assert "add --yes and --reason" in cli("job", verb[0], "--owner", "bob", *verb[2:])[2]
    assert reasons(cell) == ["too loud", "", ""]


def test_on_a_terminal_the_reason_is_asked_for(cli, cell, monkeypatch):
    cell.answer("POST", "/v1/jobs/web/stops", DONE)
    cell.answer("GET", "/v1/jobs/web", job("web", owner="bob"))
    monkeypatch.setattr("paceline.cli.commands.reasons.sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.prompt", lambda text, err: "asked" if text == QUESTION and err else "")
    assert cli("job", "stop", "web")[0] == 0
    assert reasons(cell) == ["asked"]


@pytest.mark.parametrize("verb", ["close", "open", "remove"])
def test_a_pool_with_open_jobs_needs_a_reason(cli, cell, verb):
    method = "DELETE" if verb == "remove" else "PATCH"
    cell.answer(method, "/v1/pools/maps", DONE | {"path": "/maps"})
    cell.answer("GET", "/v1/pools/maps", MAPS)
    code, _, err = cli("pool", verb, "/maps")
    assert (code, "pool /maps has 2 open jobs: say why with --reason" in err, cell.writes()) == (2, True, [])
    assert cli("pool", verb, "/maps", "--reason", "year's end")[0] == 0
    cell.answer("GET", "/v1/pools/maps", MAPS | {"open_jobs": 0})
    cli("pool", "get", "/maps")
    assert cli("pool", verb, "/maps")[0] == 0
    assert reasons(cell) == ["year's end", ""]


def test_applying_what_stands_needs_no_reason_and_a_change_one(cli, cell, tmp_path):
    file = tmp_path / "pools.yaml"
    names = ("reservation", "limit", "share", "preemption_delay", "closed", "owners", "description")
    file.write_text(json.dumps({"path": "/maps", **{name: MAPS[name] for name in names if name in MAPS}}))
    cell.answer("PUT", "/v1/pools/maps", DONE | {"path": "/maps", "code": "REPEATED"})
    cell.answer("GET", "/v1/pools/maps", MAPS)
    assert cli("pool", "apply", str(file))[0] == 0
    file.write_text(json.dumps({"path": "/maps", "description": "other"}))
    code, _, err = cli("pool", "apply", str(file))
    assert (code, "pool /maps has 2 open jobs" in err, len(cell.writes())) == (2, True, 1)
    assert cli("pool", "apply", str(file), "--reason", "clearer")[0] == 0
    assert reasons(cell) == ["", "clearer"]


def test_applying_says_what_became_of_each_field_so_that_what_another_had_set_is_seen_to_go(cli, cell, tmp_path):
    file = tmp_path / "pools.yaml"
    file.write_text(json.dumps({"path": "/maps", "description": "other"}))
    cell.answer("PUT", "/v1/pools/maps", DONE | {"path": "/maps"})
    cell.answer("GET", "/v1/pools/maps", MAPS | {"description": "", "limit": {"cpu": 4}})
    cell.answer("GET", "/v1/pools/maps", MAPS | {"description": "other", "limit": {}})
    code, out, _ = cli("pool", "apply", str(file), "--reason", "clearer")
    assert (code, out) == (0, "pool /maps changed\n  limit: cpu 4 -> -\n  description: - -> other\n")


@pytest.mark.parametrize(
    ("noun", "name", "path"),
    [("pool", "/maps", "/v1/pool-histories/maps"), ("host", "h1", "/v1/hosts/h1/history")],
)
def test_a_history_says_when_who_what_why_and_where(cli, cell, noun, name, path):
    actor = {"name": "ann (unverified)", "binding": None, "address": "::1", "reason": ""}
    place = {"position": "paceline.entitlement:9", "machine": "entitlement", "round": 4, "index": 0}
    said = {"actor": actor, "text": "/maps changed: closed: calm", "detail": {"cause": "paceline.pools:3"}}
    entry = {**place, "at": "2026-11-27T01:02:03.000Z", "event": "PoolAnswered", **said}
    plain = entry | {"actor": None, "detail": {}, "text": "silent"}
    cell.answer("GET", path, {"events": [entry, plain], "next_page_token": ""})
    code, out, _ = cli(noun, "history", name, "--utc")
    assert code == 0, out
    head, first, second = out.splitlines()
    assert head.split() == ["AT", "WHO", "WHAT", "POSITION"]
    assert "ann (unverified)" in first
    assert "/maps changed: closed: calm" in first
    assert first.endswith("paceline.pools:3")
    assert "entitlement" in second
    assert second.endswith("entitlement/round/4/0")
