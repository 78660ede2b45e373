"""`pool apply --checked`: pools are applied only if a what-if of the running cell says so."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.paceline.cli.test_commands import POOL

CONDITION = "pool /maps mean_wait > +20%"
FIGURE = {
    "of": "pool",
    "name": "/maps",
    "figure": "mean_wait",
    "resource": "",
    "unit": "",
    "recorded": 100.0,
    "again": 100.0,
    "changed": 150.0,
    "effect": 50.0,
    "within": 4.0,
    "verdict": "loses",
}


def answer(holds: str) -> dict[str, Any]:
    """An answer to a what-if whose condition holds or not."""
    return {
        "from_at": "2026-08-14T10:44:19Z",
        "to_at": "2026-08-21T10:44:18Z",
        "change": ["/maps share: 1 -> 2"],
        "pairs": 5,
        "trust": {
            "near": {"60s": 0.97},
            "same_host": 0.9,
            "preempted_recorded": 0,
            "preempted_again": 0.0,
            "min_calibration": 0.8,
            "calibrated": True,
        },
        "lengths": {},
        "facts": {},
        "figures": [FIGURE],
        "jobs": [],
        "preemptions": [],
        "answers": [],
        "conditions": [{"condition": CONDITION, "holds": holds}],
    }


@pytest.fixture
def file(cell, tmp_path):
    """A file of a pool that is there and of one that isn't."""
    path = tmp_path / "pools.yaml"
    path.write_text("- {path: /maps, share: 2}\n- {path: /new}\n")
    cell.answer("GET", "/v1/pools/maps", POOL | {"path": "/maps"})
    for name in ("maps", "new"):
        cell.answer("PUT", f"/v1/pools/{name}", {"code": "DONE", "path": f"/{name}"})
    return str(path)


def answers_in_the_end(cell, **asked: Any) -> None:
    """The cell says once that it works, then what came of it."""
    cell.answer("POST", "/v1/what-ifs", {"id": "w1", "state": "RUNNING", "answer": None, "error": ""})
    cell.answer("GET", "/v1/what-ifs/w1", {"id": "w1", "state": "RUNNING", "answer": None, "error": ""})
    cell.answer("GET", "/v1/what-ifs/w1", {"id": "w1", "state": "DONE", "answer": None, "error": "", **asked})


def checked(cli, file: str, *words: str) -> tuple[int, str, str]:
    return cli("pool", "apply", file, "--checked", "7d", "--fail-if", CONDITION, "--reason", "r", *words)


def defined(cell) -> list[str]:
    """The pools that were written."""
    return sorted(each.path for each in cell.writes() if each.method == "PUT")


def test_pools_that_pass_are_applied_after_the_report(cli, cell, file):
    answers_in_the_end(cell, answer=answer("no"))
    code, out, err = checked(cli, file)
    assert code == 0, err
    assert "/maps share: 1 -> 2" in out.splitlines()[0]
    assert out.splitlines()[-3] == f"{CONDITION}: no"
    assert out.splitlines()[-2:] == ["pool /maps changed", "pool /new created"]
    assert defined(cell) == ["/v1/pools/maps", "/v1/pools/new"]
    [asked] = [each.body for each in cell.asked if each.path == "/v1/what-ifs"]
    begin, end = (datetime.fromisoformat(asked[name]) for name in ("from", "to"))
    assert timedelta(days=6, hours=23) < end - begin < timedelta(days=7, minutes=1)
    assert end < datetime.now(UTC)
    assert asked["conditions"] == [CONDITION]
    assert json.loads(asked["change_file"]) == {"pools": [{"path": "/maps", "share": 2}, {"path": "/new"}]}


@pytest.mark.parametrize(
    ("holds", "code", "why"), [("yes", 1, "a condition holds"), ("can't tell", 3, "can't be told")]
)
def test_nothing_is_applied_where_a_condition_holds_or_cant_be_told(cli, cell, file, holds, code, why):
    answers_in_the_end(cell, answer=answer(holds))
    got, out, err = checked(cli, file)
    assert got == code
    assert f"{CONDITION}: {holds}" in out
    assert "nothing was applied: " in err
    assert why in err
    assert defined(cell) == []


def test_the_report_of_pools_that_dont_pass_is_json_too(cli, cell, file):
    answers_in_the_end(cell, answer=answer("yes"))
    code, out, _ = checked(cli, file, "-o", "json")
    assert (code, json.loads(out)) == (1, answer("yes"))


def test_of_pools_that_pass_json_has_the_answers_to_them_alone(cli, cell, file):
    answers_in_the_end(cell, answer=answer("no"))
    code, out, _ = checked(cli, file, "-o", "json")
    assert (code, [each["path"] for each in json.loads(out)]) == (0, ["/maps", "/new"])


def test_a_what_if_that_fails_lets_nothing_be_applied(cli, cell, file):
    answers_in_the_end(cell, state="FAILED", error="it took longer than 600 s")
    code, _, err = checked(cli, file)
    assert (code, err) == (3, "nothing was applied: the what-if has no answer: it took longer than 600 s\n")
    assert defined(cell) == []


def test_another_question_at_work_lets_nothing_be_applied(cli, cell, file):
    cell.problem("POST", "/v1/what-ifs", 409, "WHAT_IF_RUNS", "what-if w0 is at work")
    code, _, err = checked(cli, file)
    assert (code, "what-if w0 is at work" in err) == (3, True)
    assert defined(cell) == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--checked", "7d"], "--checked needs --fail-if"),
        (["--fail-if", CONDITION], "--fail-if is for --checked"),
        (["--checked", "7d", "--fail-if", CONDITION, "--dry-run"], "leave out one of --dry-run and --checked"),
        (["--checked", "7d", "--fail-if", "pool /maps wait > 1"], "there is no figure wait"),
    ],
)
def test_options_that_dont_go_together_are_refused(cli, cell, file, words, why):
    code, _, err = cli("pool", "apply", file, *words)
    assert (code, why in err) == (2, True)
    assert cell.asked == []
