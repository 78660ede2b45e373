"""`paceline audit` lists who did what as a table, as JSON and as CSV."""

import csv
import json
from contextlib import closing
from io import StringIO

import msgspec
import pytest

from events.log.embedded import EmbeddedLog
from events.records.entitlement import PoolAnswered
from events.records.parts import Actor
from events.records.pools import RoleBound, TokenIssued
from tests.helpers.written_cell import Cell, job

ACTOR = {
    "name": "ci (token t-3f2a)",
    "subject": "ci",
    "how": "token",
    "credential": "t-3f2a",
    "binding": "paceline.pools:7",
    "read_to": 9,
    "address": "10.0.0.7",
    "reason": "=year's end",
    "verified": True,
}
FACT = {
    "position": "paceline.jobs:3",
    "at": "2026-08-21T10:41:07.000Z",
    "event": "JobStopRequested",
    "text": "stop of tiles requested",
    "pools": ["/maps"],
    "actor": ACTOR,
    "role": "submitter",
    "role_pool": "/maps",
    "role_position": "paceline.pools:7",
}
PLAIN = {**FACT, "position": "paceline.jobs:2", "role": None, "role_pool": None, "role_position": None}


@pytest.fixture(autouse=True)
def _facts(cell):
    cell.answer("GET", "/v1/audit", {"facts": [FACT], "looked_back_to": None, "next_page_token": "more"})
    cell.answer("GET", "/v1/audit", {"facts": [PLAIN], "looked_back_to": None, "next_page_token": ""})


def test_a_table_says_who_did_what_and_by_which_role(cli):
    assert cli("audit") == (0, """\
AT         WHO                FACT              WHAT                     ALLOWED BY                             POSITION
3m12s ago  ci (token t-3f2a)  JobStopRequested  stop of tiles requested  submitter of /maps (paceline.pools:7)  paceline.jobs:3
3m12s ago  ci (token t-3f2a)  JobStopRequested  stop of tiles requested  -                                      paceline.jobs:2
""", "")  # fmt: skip  # noqa: E501


def test_filters_are_passed_on_and_the_rest_is_noted(cli, cell):
    code, out, err = cli("audit", "--actor", "ci", "--pool", "/maps", "--since", "24h", "--limit", "1", "-o", "json")
    assert (code, [each["position"] for each in json.loads(out)["facts"]]) == (0, ["paceline.jobs:3"])
    assert err == "only the newest 1 are shown; more with --limit\n"
    asked = cell.asked[0].query
    assert (asked["actor"], asked["pool"], asked["since"][-1]) == ("ci", "/maps", "Z")


def test_csv_has_a_line_for_each_fact_which_no_spreadsheet_takes_for_a_formula(cli):
    code, out, _ = cli("audit", "-o", "csv")
    rows = list(csv.DictReader(StringIO(out)))
    assert (code, len(rows), rows[0]["actor"], rows[0]["reason"]) == (0, 2, "ci", "'=year's end")
    assert rows[0]["role_position"] == "paceline.pools:7"


@pytest.mark.parametrize("more", [("--actor", "ann"), ("-o", "csv")])
def test_a_verification_is_of_all_of_the_log(cli, more):
    code, _, err = cli("audit", "--verify", *more)
    assert (code, "leave out filters" in err) == (2, True)


@pytest.mark.parametrize("binding", [0, 1, None])
def test_a_fact_that_was_not_allowed_is_listed_and_the_exit_code_tells(cli, tmp_path, binding):
    data = tmp_path / "data"
    with closing(EmbeddedLog(data / "log")) as log:
        cell = Cell(log=log)
        facts = (
            RoleBound(command_id="b", binding_id="b", subject="ci", role="submitter", pool="/maps"),
            TokenIssued(command_id="i", token_id="t-1", subject="ci", token_hash=bytes(32)),
        )
        for fact in facts:
            offset = cell.fact(fact)
            answer = PoolAnswered(path="/", pools_offset=offset, command_id=fact.command_id, code="DONE")
            cell.decide("entitlement", answer)
        actor = Actor("ci", how="token", credential="t-1", binding=binding, read_to=1)
        cell.fact(msgspec.structs.replace(job("tiles", pool="/maps"), actor=actor))
    code, out, _ = cli("audit", "--verify", "--data", str(data))
    told = json.loads(cli("audit", "--verify", "--data", str(data), "-o", "json")[1])
    last = (
        "3 facts of users and operators: 1 by a verified actor, of which {} were allowed, 0 of them late, {} were not"
    )
    if binding == 0:
        assert (code, told["well"], told["findings"]) == (0, True, [])
        assert out.startswith(last.format(1, 0))
        return
    fault = "NO_BINDING" if binding is None else "NO_SUCH_BINDING"
    [found] = told["findings"]
    assert (code, told["well"], told["failed"]) == (1, False, 1)
    assert (found["position"], found["event"], found["code"]) == ("paceline.jobs:0", "JobSubmitted", fault)
    assert out.splitlines()[1].startswith("paceline.jobs:0  ")
    assert last.format(0, 1) in out.splitlines()[-1]
