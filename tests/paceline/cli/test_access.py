"""`paceline access`, `token` and `lockdown`: what they ask a cell, and what they tell of its answers."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from events.roles import ROLES, Verb
from paceline.cli.commands.common import Later
from tests.paceline.cli.test_commands import POOL

ANSWER = {"command_id": "c", "position": "paceline.pools:9", "code": "DONE", "message": ""}
ACTOR = {"name": "ann", "subject": "ann", "how": "token", "verified": True}
BINDING = {
    "binding_id": "b-1",
    "position": "paceline.pools:7",
    "subject": "ci-maps",
    "group": "",
    "role": "submitter",
    "pool": "/maps",
    "from_at": None,
    "until_at": "2026-09-20T10:44:19.000Z",
    "reason": "builds",
    "actor": ACTOR,
    "at": "2026-08-21T10:41:07.000Z",
}
TEAM = {
    **BINDING,
    "binding_id": "b-2",
    "subject": "",
    "group": "maps",
    "role": "viewer",
    "until_at": None,
    "reason": "",
}
ADMIN = {**BINDING, "binding_id": "b-3", "subject": "ann", "role": "admin", "pool": "/", "until_at": None}
TOKEN = {
    "token_id": "t-1",
    "position": "paceline.pools:8",
    "subject": "ci-maps",
    "groups": ["maps"],
    "state": "VALID",
    "until_at": "2026-09-20T10:44:19.000Z",
    "used_at": None,
    "reason": "",
    "actor": ACTOR,
    "at": "2026-08-21T10:41:07.000Z",
}
CHECK = {
    "actor": "ci-maps",
    "groups": [],
    "verb": "submit",
    "object": "/ads",
    "pool": "/ads",
    "own": False,
    "allowed": False,
    "binding": None,
    "lockdown": None,
    "roles": ["submitter"],
    "message": "it needs one of these roles over /ads or a pool above it: submitter",
}
ME = {
    "subject": "ci-maps",
    "how": "token",
    "credential": "t-1",
    "groups": ["maps"],
    "is_cell": False,
    "access": "roles",
    "reads": ["/maps"],
    "bindings": [{name: BINDING[name] for name in ("binding_id", "position", "subject", "group", "role", "pool")}],
}


@pytest.fixture(autouse=True)
def _stored(cell):
    cell.answer("GET", "/v1/bindings", {"bindings": [BINDING, TEAM], "next_page_token": ""})
    cell.answer("GET", "/v1/tokens", {"tokens": [TOKEN], "next_page_token": ""})


def sent(cell):
    [write] = [each for each in cell.asked if each.method != "GET"]
    return write


def test_a_bound_role_is_told_with_the_name_of_its_binding(cli, cell):
    cell.answer("POST", "/v1/bindings", ANSWER | {"binding_id": "b-1"})
    words = ("access", "bind", "submitter", "--pool", "/maps", "--id", "b-1", "--reason", "builds")
    assert cli(*words, "--subject", "ci-maps")[:2] == (0, "binding b-1: ci-maps has role submitter over /maps\n")
    body = sent(cell).body
    assert body == {"role": "submitter", "pool": "/maps", "binding_id": "b-1", "reason": "builds", "subject": "ci-maps"}
    assert cli(*words, "--group", "maps", "-o", "name")[:2] == (0, "b-1\n")


@pytest.mark.parametrize("who", [(), ("--subject", "ann", "--group", "maps")])
def test_a_binding_is_of_a_subject_or_of_a_group(cli, cell, who):
    code, _, err = cli("access", "bind", "viewer", "--pool", "/", *who)
    assert (code, "name either --subject or --group" in err, cell.asked) == (2, True, [])


@pytest.mark.parametrize(
    ("text", "at"),
    [("2026-12-31T18:00Z", "2026-12-31T18:00:00.000Z"), ("2026-12-31T18:00+02:00", "2026-12-31T16:00:00.000Z")],
)
def test_times_of_a_binding_are_moments(cli, cell, text, at):
    cell.answer("POST", "/v1/bindings", ANSWER | {"binding_id": "b-1"})
    assert cli("access", "bind", "viewer", "--subject", "ann", "--pool", "/", "--from", text, "--until", text)[0] == 0
    assert (sent(cell).body["from_at"], sent(cell).body["until_at"]) == (at, at)


@pytest.mark.parametrize(("text", "days"), [("30d", 30), ("in 12h", 0.5), ("1d ago", -1)])
def test_times_of_a_binding_are_so_far_from_now_too(text, days):
    before = datetime.now(UTC).replace(microsecond=0)
    at = datetime.fromisoformat(Later().convert(text, None, None))
    assert before <= at - timedelta(days=days) <= datetime.now(UTC)


def test_a_time_that_is_none_is_refused_before_anything_is_sent(cli, cell):
    code, _, err = cli("access", "bind", "viewer", "--subject", "ann", "--pool", "/", "--until", "soon")
    assert (code, cell.asked) == (2, [])
    assert "'soon' is neither in so long, such as 12h or 30d, nor a time, such as" in err


def test_bindings_are_listed_with_who_has_them_and_when_they_end(cli):
    assert cli("access", "list") == (0, """\
BINDING  WHO         ROLE       POOL   FROM       UNTIL     REASON
b-1      ci-maps     submitter  /maps  3m12s ago  in 30d0h  builds
b-2      group maps  viewer     /maps  3m12s ago  -         -
""", "")  # fmt: skip
    listed = json.loads(cli("access", "list", "-o", "json")[1])["bindings"]
    assert [each["binding_id"] for each in listed] == ["b-1", "b-2"]


def test_an_ended_binding_is_told_and_its_reason_is_sent(cli, cell):
    cell.answer("DELETE", "/v1/bindings/b-1", ANSWER | {"binding_id": "b-1"})
    assert cli("access", "unbind", "b-1", "--reason", "left")[:2] == (0, "binding b-1 has ended\n")
    assert sent(cell).query["reason"] == "left"


def test_a_check_answers_yes_or_no_by_its_exit_code_too(cli, cell):
    cell.answer("GET", "/v1/access-checks", CHECK)
    cell.answer(
        "GET", "/v1/access-checks", {**CHECK, "allowed": True, "message": "role submitter over /ads, binding b"}
    )
    words = ("access", "check", "ci-maps", "submit", "/ads", "--group", "a", "--group", "b")
    assert cli(*words)[:2] == (1, f"no: {CHECK['message']}\n")
    assert cell.asked[0].query["verb"] == "submit"
    assert cli(*words, "--at", "2026-08-21T10:00Z")[:2] == (0, "yes: role submitter over /ads, binding b\n")
    assert cell.asked[1].query["at"] == "2026-08-21T10:00:00.000Z"


def test_verbs_and_roles_that_there_are_none_of_are_wrong_usage(cli, cell):
    code, _, err = cli("access", "check", "ann", "fly", "/ads")
    assert (code, all(verb.value in err for verb in Verb)) == (2, True)
    code, _, err = cli("access", "bind", "king", "--subject", "ann", "--pool", "/")
    assert (code, all(role in err for role in ROLES), cell.asked) == (2, True, [])


def test_whoami_tells_the_name_its_proof_and_its_roles(cli, cell):
    cell.answer("GET", "/v1/whoami", ME)
    cell.answer(
        "GET", "/v1/whoami", {**ME, "is_cell": True, "subject": "", "reads": None, "groups": [], "bindings": []}
    )
    assert cli("access", "whoami")[:2] == (0, """\
you       ci-maps
known by  token t-1
groups    maps
may read  /maps
role      submitter over /maps (binding b-1)
""")  # fmt: skip
    assert cli("access", "whoami")[1].splitlines()[::3] == ["you       the token of the cell", "may read  everything"]


def test_a_token_is_printed_alone_and_when_it_ends_beside_it(cli, cell):
    made = ANSWER | {"token_id": "t-1", "token": "pct_t-1_x", "until_at": "2026-09-20T10:44:18.000Z"}
    cell.answer("POST", "/v1/tokens", made)
    cell.answer("POST", "/v1/tokens", {**made, "until_at": None})
    words = ("token", "create", "--subject", "ci-maps", "--role", "submitter", "--pool", "/maps", "--ttl")
    code, out, err = cli(*words, "30d", "--group", "maps")
    assert (code, out) == (0, "pct_t-1_x\n")
    assert err == "token t-1 of ci-maps ends in 29d23h; it is shown this once\n"
    wish = {"subject": "ci-maps", "role": "submitter", "pool": "/maps", "ttl": "30d", "groups": ["maps"], "reason": ""}
    assert sent(cell).body == wish
    assert cli(*words, "0")[2] == "token t-1 of ci-maps holds until it is revoked; it is shown this once\n"


def test_a_role_of_a_token_needs_its_pool(cli, cell):
    code, _, err = cli("token", "create", "--subject", "ann", "--role", "viewer")
    assert (code, "name both --role and --pool" in err, cell.asked) == (2, True, [])


def test_tokens_are_listed_without_their_texts(cli, cell):
    code, out, _ = cli("token", "list")
    assert (code, out) == (0, """\
TOKEN  SUBJECT  GROUPS  STATE  ENDS      USED  MADE       BY
t-1    ci-maps  maps    VALID  in 30d0h  -     3m12s ago  ann
""")  # fmt: skip


def test_a_revoked_token_is_named_with_what_its_subject_keeps(cli, cell):
    cell.answer("DELETE", "/v1/tokens/t-1", ANSWER | {"token_id": "t-1"})
    cell.answer("DELETE", "/v1/tokens/t-1?dry_run", {"dry_run": True, "message": "token t-1 would be revoked"})
    keeps = "ci-maps keeps role submitter over /maps: paceline access unbind b-1\n"
    assert cli("token", "revoke", "t-1", "--reason", "leaked")[:2] == (0, f"token t-1 of ci-maps is revoked\n{keeps}")
    assert sent(cell).query["reason"] == "leaked"
    assert cli("token", "revoke", "t-1", "--dry-run")[:2] == (0, f"token t-1 would be revoked\n{keeps}")


@pytest.mark.parametrize(
    ("words", "path", "what"),
    [(("cell",), "/v1/cell/lockdown", "cell"), (("pool", "/maps"), "/v1/pool-lockdowns/maps", "pool /maps")],
)
def test_a_lockdown_needs_a_reason_and_ends(cli, cell, words, path, what):
    command = (words[0], "lockdown", *words[1:])
    code, _, err = cli(*command)
    assert (code, "say why with --reason" in err, cell.asked) == (2, True, [])
    cell.answer("PUT", path, ANSWER)
    cell.answer("DELETE", path, ANSWER)
    cell.answer("PUT", f"{path}?dry_run", {"dry_run": True, "message": "it would be"})
    assert cli(*command, "--reason", "audit", "--dry-run")[:2] == (0, "it would be\n")
    assert cell.writes() == []
    assert cli(*command, "--reason", "audit")[:2] == (0, f"{what} is locked down\n")
    assert cell.writes()[0].body["reason"] == "audit"
    assert cli(*command, "--end")[:2] == (0, f"{what}: the lockdown has ended\n")


def test_a_refusal_is_told_with_who_could_allow_it(cli, cell):
    detail = "ci-maps may not bind roles and make tokens in all of the cell: a binding of admin to / would allow it"
    for method, path in (("POST", "/v1/tokens"), ("POST", "/v1/bindings"), ("PUT", "/v1/cell/lockdown")):
        cell.problem(method, path, 403, "NOT_ALLOWED", detail)
    for words in (
        ("token", "create", "--subject", "me"),
        ("access", "bind", "admin", "--subject", "me", "--pool", "/"),
        ("cell", "lockdown", "--reason", "x"),
    ):
        code, out, err = cli(*words)
        assert (code, out, detail in err, "NOT_ALLOWED" in err) == (9, "", True, True), words


@pytest.mark.parametrize(
    ("bindings", "warns"),
    [
        ([], True),
        ([BINDING, {**ADMIN, "pool": "/maps"}], True),
        ([{**ADMIN, "until_at": "2026-08-21T10:44:18.000Z"}], True),
        ([{**ADMIN, "from_at": "2026-08-21T10:44:20.000Z"}], True),
        ([BINDING, {**ADMIN, "until_at": "2026-08-21T10:44:20.000Z"}], False),
    ],
)
def test_access_by_roles_without_an_admin_warns_and_says_which_command_binds_one(cli, cell, bindings, warns):
    cell._answers.clear()
    cell.answer("GET", "/v1/bindings", {"bindings": bindings, "next_page_token": ""})
    cell.answer("PATCH", "/v1/cell/settings", ANSWER)
    code, out, err = cli("cell", "set", "--access", "roles")
    assert (code, out) == (0, "cell: access changed\n")
    assert ("paceline access bind admin --subject NAME --pool /" in err, "its own token" in err) == (warns, warns)
    assert cli("cell", "set", "--access", "open")[2] == "", "an open cell needs no admin"


LOCKED = {"reason": "stolen token", "since": "2026-08-21T10:41:07.000Z", "actor": ACTOR}
WHY = "stolen token (by ann, 3m12s ago)"


def test_lockdowns_are_shown_with_pools_and_the_cell(cli, cell):
    pools = [{**POOL, "path": path, "cell": 0} for path in ("/ads", "/maps", "/maps/tiles")]
    capacity = {"cell": 0, "hosts": 0, "capacity": {}, "warnings": []}
    cell.answer("GET", "/v1/pools", {"pools": pools, "cells": [capacity], "next_page_token": ""})
    cell.answer("GET", "/v1/cell/settings", {"preemption_delay": "2m", "resources": [], "conditions": []})
    for each in pools:
        cell.answer("GET", f"/v1/pools{each['path']}", each)
    plain = [cli(*words)[:2] for words in (("pool", "list"), ("pool", "get", "/"), ("cell", "get"))]
    assert not any("LOCKED" in out or "lock" in out for _, out in plain)
    cell.answer("GET", "/v1/lockdowns", {"lockdowns": [{**LOCKED, "pool": "/maps"}]})
    assert cli("pool", "list", "--columns", "pool,locked down")[1].splitlines() == [
        "POOL         LOCKED DOWN",
        "/ads         -",
        f"/maps        {WHY}",
        f"/maps/tiles  lockdown of /maps: {WHY}",
    ]
    assert [each.path for each in cell.asked].count("/v1/lockdowns") == 4, "once for each command"
    ends = {path: cli("pool", "get", path)[1].splitlines()[-1].split(maxsplit=1) for path in ("/maps", "/maps/tiles")}
    assert ends["/maps"] == ["locked_down", WHY]
    assert ends["/maps/tiles"] == ["locked_down", f"lockdown of /maps: {WHY}"]
    assert "locked_down" not in cli("pool", "get", "/ads")[1] + cli("pool", "get", "/")[1]
    assert cli("cell", "get")[1].startswith(f"lockdown of /maps  {WHY}\n\nSETTING")


def test_a_lockdown_of_the_cell_is_shown_with_all_of_its_pools(cli, cell):
    pools = [{**POOL, "path": "/ads", "cell": 0}, {**POOL, "path": "/maps", "cell": 1}]
    cells = [{"cell": number, "hosts": 0, "capacity": {}, "warnings": []} for number in (0, 1)]
    cell.answer("GET", "/v1/pools", {"pools": pools, "cells": cells, "next_page_token": ""})
    cell.answer("GET", "/v1/lockdowns", {"lockdowns": [{**LOCKED, "pool": "/", "reason": "", "actor": None}]})
    cell.answer("GET", "/v1/lockdowns", {"lockdowns": []})
    out = cli("pool", "list", "--columns", "pool,locked down,cell")[1]
    why = "no reason was given (3m12s ago)"
    held = f"lockdown of the cell: {why}"
    assert out.splitlines()[1:] == [f"/ads   {held}     0", f"/maps  {'-'.ljust(len(held))}     1"]
    assert [each.query["cell"] for each in cell.asked if each.path == "/v1/lockdowns"] == ["0", "1"]


@pytest.mark.parametrize("form", ["table", "json", "name"])
def test_who_reads_some_pools_alone_is_told_that_something_may_be_left_out(cli, cell, form):
    sentence = "What you may not read is left out, if there is any."
    cell._answers.clear()
    cell.answer("GET", "/v1/tokens", {"tokens": [], "next_page_token": ""})
    assert cli("token", "list", "-o", form)[2] == ""
    cell._answers.clear()
    cell.answer("GET", "/v1/tokens", {"tokens": [], "next_page_token": ""}, Paceline_Limited=sentence)
    assert cli("token", "list", "-o", form)[2] == f"{sentence}\n"
