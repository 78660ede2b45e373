"""Roles are bound, tokens made and pools locked down by the API; it answers who may what."""

from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest

from events.codec import decode
from events.records.entitlement import PoolAnswered
from events.records.parts import Actor
from events.records.pools import LockdownSet, PoolDefined, RoleBound, TokenIssued, TokenUsed
from events.roles import ROLES, Verb
from events.topics import POOLS
from projections.access.checks import judge
from projections.access.identity import Identity
from projections.queries.access import granted
from tests.helpers import signed as signed_by
from tests.projections.conftest import Api


@pytest.fixture
def answered(api: Api) -> Api:
    """A cell with pools, whose entitlement does all that it is told."""
    for path in ("/maps", "/maps/tiles", "/ads"):
        api.pool(path)

    def done(offset: int, fact: Any) -> tuple[PoolAnswered, ...]:
        if isinstance(fact, TokenUsed):  # is answered by nobody
            return ()
        return (PoolAnswered(path="/", pools_offset=offset, command_id=fact.command_id, code="DONE"),)

    api.answer("paceline.pools", "entitlement", done)
    return api


def facts(api: Api) -> list[Any]:
    return [decode(each.value) for each in api.cell.log.scan(POOLS.name, 0)]


def post(api: Api, path: str, body: Any, status: int = 200) -> Any:
    answer = api.client.post(f"{path}?wait=10s", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_token_is_told_once_and_the_log_keeps_its_hash_alone(answered: Api) -> None:
    body = {"subject": "ci-maps", "role": "submitter", "pool": "/maps", "ttl": "30d", "reason": "builds"}
    made = post(answered, "/v1/tokens", body)
    token_id, text = made["token_id"], made["token"]
    assert text.startswith(f"pct_{token_id}_")
    assert len(text.removeprefix(f"pct_{token_id}_")) == 43
    issued, bound = facts(answered)[-2:]
    assert isinstance(bound, RoleBound)
    assert isinstance(issued, TokenIssued)
    assert (bound.subject, bound.role, bound.pool, bound.until_ms) == ("ci-maps", "submitter", "/maps", issued.until_ms)
    assert issued.token_hash == sha256(text.encode()).digest()
    assert all(text.encode() not in each.value for each in answered.cell.log.scan(POOLS.name, 0))
    assert text not in answered.client.get("/v1/tokens").text
    me = answered.get("/v1/whoami", headers={"Authorization": f"Bearer {text}"})
    assert (me["subject"], me["how"], me["credential"]) == ("ci-maps", "token", token_id)
    assert [each["role"] for each in me["bindings"]] == ["submitter"]


def test_a_producer_is_known_by_its_key_and_gets_no_token(answered: Api) -> None:
    public = b64encode(signed_by.KEY.public_key().public_bytes_raw()).decode()
    made = post(answered, "/v1/tokens", {"subject": "ci", "token_id": "ci-key", "public_key": public})
    assert "token" not in made
    [key] = answered.get("/v1/tokens")["tokens"]
    assert (key["public_key"], key["state"]) == (public, "VALID")
    pool = PoolDefined(path="/x", command_id="x", actor=Actor("ci", "token", credential="ci-key"))
    for fact in (signed_by.signed(pool), pool):
        answered.cell.fact(fact)
    facts = answered.get("/v1/audit?kind=PoolDefined")["facts"]
    assert [each["actor"]["verified"] for each in facts if each["actor"]] == [False, True]


@pytest.mark.parametrize(
    ("subject", "public_key", "at"),
    [("cell", "A" * 43 + "=", "/subject"), ("ci", "A" * 40, "/public_key"), ("ci", "A" * 43 + "%", "/public_key")],
)
def test_what_is_no_key_of_a_producer_is_refused(answered: Api, subject: str, public_key: str, at: str) -> None:
    answer = answered.client.post("/v1/tokens", json={"subject": subject, "public_key": public_key})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == at


def test_a_key_that_only_says_to_be_the_cells_is_untrusted(answered: Api) -> None:
    for fact in (signed_by.key_told(), TokenIssued(command_id="f", token_id="f", subject="cell", public_key=b"f" * 32)):
        answered.granted(fact)
    states = {each["token_id"]: each["state"] for each in answered.get("/v1/tokens")["tokens"]}
    assert states == {"k": "VALID", "f": "UNTRUSTED"}


def test_a_revoked_token_is_refused_and_listed_as_revoked(answered: Api) -> None:
    made = post(answered, "/v1/tokens", {"subject": "ci"})
    ended = answered.client.delete(f"/v1/tokens/{made['token_id']}?wait=10s&reason=leaked")
    assert ended.status_code == 200, ended.text
    refused = answered.client.get("/v1/jobs", headers={"Authorization": f"Bearer {made['token']}"})
    answered.problem(refused, 401, "TOKEN_REVOKED")
    assert [each["state"] for each in answered.get("/v1/tokens")["tokens"]] == ["REVOKED"]
    again = answered.client.delete(f"/v1/tokens/{made['token_id']}")
    answered.problem(again, 404, "NOT_FOUND")


def test_a_dry_run_says_what_is_wrong_and_writes_nothing(answered: Api) -> None:
    before = len(facts(answered))
    bind = {"subject": "ann", "role": "viewer", "pool": "/maps"}
    assert post(answered, "/v1/bindings?dry_run=true&x=", bind, 422)["code"] == "UNKNOWN_PARAMETER"
    for path, body in (
        ("/v1/bindings", bind),
        ("/v1/tokens", {"subject": "ann", "role": "viewer", "pool": "/maps"}),
    ):
        answer = answered.client.post(f"{path}?dry_run=true", json=body)
        assert answer.json()["dry_run"], answer.text
    for path in ("/v1/cell/lockdown", "/v1/pool-lockdowns/maps"):
        assert answered.client.put(f"{path}?dry_run=true", json={}).json()["dry_run"]
    assert len(facts(answered)) == before


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        ({"role": "submiter"}, "INVALID_ACCESS", "did you mean submitter?"),
        ({"pool": "/map"}, "NO_SUCH_POOL", "did you mean /maps?"),
        ({"group": "team"}, "INVALID_ACCESS", "either a subject or a group"),
        ({"until_at": "2020-01-01T00:00:00Z"}, "INVALID_ACCESS", "must be later"),
        ({"until_at": "soon"}, "INVALID_ACCESS", "is no time"),
    ],
)
def test_a_binding_that_cannot_be_is_refused_before_it_is_written(
    answered: Api, change: dict[str, str], code: str, told: str
) -> None:
    before = len(facts(answered))
    answer = answered.client.post("/v1/bindings", json={"subject": "ann", "role": "viewer", "pool": "/maps"} | change)
    assert told in answered.problem(answer, 422, code)["detail"]
    assert len(facts(answered)) == before


def test_bindings_are_listed_by_pages_until_they_are_ended(answered: Api) -> None:
    for name in ("a", "b", "c"):
        post(answered, "/v1/bindings", {"binding_id": name, "group": name, "role": "viewer", "pool": "/maps"})
    first = answered.get("/v1/bindings?page_size=2")
    rest = answered.get(f"/v1/bindings?page_size=2&page_token={first['next_page_token']}")
    assert [[each["binding_id"] for each in page["bindings"]] for page in (first, rest)] == [["a", "b"], ["c"]]
    assert not rest["next_page_token"]
    assert answered.client.delete("/v1/bindings/b?wait=10s").status_code == 200
    assert [each["group"] for each in answered.get("/v1/bindings")["bindings"]] == ["a", "c"]
    answered.problem(answered.client.delete("/v1/bindings/b"), 404, "NOT_FOUND")


def test_a_lockdown_refuses_all_but_operators_until_it_ends(answered: Api) -> None:
    for subject, role in (("ann", "submitter"), ("op", "operator")):
        post(answered, "/v1/bindings", {"subject": subject, "role": role, "pool": "/"})
    answer = answered.client.put("/v1/pool-lockdowns/maps?wait=10s", json={"reason": "audit"})
    assert answer.status_code == 200, answer.text
    fact = facts(answered)[-1]
    assert isinstance(fact, LockdownSet)
    assert (fact.pool, fact.locked, fact.reason) == ("/maps", True, "audit")
    assert [each["pool"] for each in answered.get("/v1/lockdowns")["lockdowns"]] == ["/maps"]
    check = answered.get("/v1/access-checks?actor=ann&verb=submit&object=/maps/tiles")
    assert (check["allowed"], check["lockdown"]["reason"]) == (False, "audit")
    assert answered.get("/v1/access-checks?actor=ann&verb=submit&object=/ads")["allowed"]
    assert answered.get("/v1/access-checks?actor=op&verb=hosts&object=cell")["allowed"]
    assert not answered.get("/v1/access-checks?actor=op&verb=volumes&object=/maps")["allowed"]
    refused = answered.problem(
        answered.client.post("/v1/jobs", json={"job_id": "a", "pool": "/maps/tiles", "command": ["true"]}),
        403,
        "LOCKED_DOWN",
    )
    assert refused["detail"] == "pool /maps is locked down (audit): operators alone write until that ends"
    assert answered.client.delete("/v1/pool-lockdowns/maps?wait=10s").status_code == 200
    assert answered.get("/v1/access-checks?actor=ann&verb=submit&object=/maps/tiles")["allowed"]


def test_a_check_names_the_binding_or_the_roles_that_would_allow_it(answered: Api) -> None:
    post(answered, "/v1/bindings", {"binding_id": "team", "group": "maps", "role": "submitter", "pool": "/maps"})
    check = answered.get("/v1/access-checks?actor=ann&verb=submit&object=/maps/tiles&group=maps")
    assert (check["allowed"], check["binding"]["binding_id"]) == (True, "team")
    check = answered.get("/v1/access-checks?actor=ann&verb=submit&object=/ads&group=maps")
    assert (check["allowed"], check["roles"]) == (False, ["submitter", "pool-admin", "admin"])
    for query, status in (("verb=submitt", 422), ("object=/mapz", 404), ("object=job/none", 404), ("object=x", 422)):
        assert answered.client.get(f"/v1/access-checks?actor=ann&{query}").status_code == status


def test_checks_are_the_rule_of_the_api_for_all_verbs_and_roles(answered: Api) -> None:
    for role in ROLES:
        post(answered, "/v1/bindings", {"subject": f"a-{role}", "role": role, "pool": "/maps"})
    with answered.projector.views.read_all() as connection:
        known = granted(connection)
    for role in ROLES:
        for verb in Verb:
            for pool in ("/maps", "/maps/tiles", "/ads", "/"):
                shown = answered.get(f"/v1/access-checks?actor=a-{role}&verb={verb}&object={pool}")
                expected = judge(known, Identity(f"a-{role}"), verb, pool, False, 1)
                by_hand = verb == "read" or (verb in ROLES[role].verbs and pool.startswith("/maps"))
                assert shown["allowed"] == expected.is_allowed == by_hand, (role, verb, pool)
