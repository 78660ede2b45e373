"""Whoever shows a token that the cell has issued is known as its subject, from the views on."""

from hashlib import sha256
from typing import Any

from events.codec import decode
from events.records.jobs import JobSubmitted
from events.records.parts import Actor
from events.records.pools import CellConfigured, RoleBound, TokenIssued, TokenRevoked
from tests.projections.conftest import Api

TOKEN = f"pct_t-ci_{'x' * 43}"
SPEC = {"job_id": "a", "pool": "/p", "command": ["true"]}


def issued(token: str = TOKEN, **fields: Any) -> TokenIssued:
    hash_ = sha256(token.encode()).digest()
    return TokenIssued(command_id="i", token_id="t-ci", subject="ci", token_hash=hash_, **fields)


def bearer(token: str = TOKEN) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_what_a_token_writes_is_its_subjects(api: Api) -> None:
    api.pool()
    api.granted(RoleBound(command_id="b", binding_id="b", subject="ci", role="submitter", pool="/p"), issued())
    answer = api.client.post("/v1/jobs", json=SPEC, headers={**bearer(), "Paceline-Actor": "ann"})
    assert answer.status_code == 202, answer.text
    fact = decode(list(api.cell.log.scan("paceline.jobs", 0))[-1].value)
    assert isinstance(fact, JobSubmitted)
    assert isinstance(fact.actor, Actor)
    assert (fact.actor.subject, fact.actor.how, fact.actor.credential) == ("ci", "token", "t-ci")
    api.fold()


def test_a_token_proves_nothing_before_it_is_answered_nor_once_it_is_revoked(api: Api) -> None:
    for code in ("TOKEN_NEEDED", "", "TOKEN_REVOKED"):
        answer = api.client.get("/v1/jobs", headers=bearer())
        assert answer.status_code == (401 if code else 200), answer.text
        assert answer.json().get("code", "") == code
        api.granted(TokenRevoked(command_id="r", token_id="t-ci") if code == "" else issued())


def test_another_token_of_that_name_proves_nothing(api: Api) -> None:
    api.granted(issued())
    answer = api.client.get("/v1/jobs", headers=bearer(TOKEN[:-1] + "y"))
    api.problem(answer, 401, "TOKEN_NEEDED")


def test_with_roles_asked_for_a_token_reads_the_pools_of_its_roles(api: Api) -> None:
    for path in ("/p", "/q"):
        api.pool(path)
        api.cell.accept(path.strip("/"), pool=path)
    api.granted(issued(), RoleBound(command_id="b", binding_id="b", subject="ci", role="viewer", pool="/p"))
    for access, seen in (("open", ["p", "q"]), ("roles", ["p"])):
        api.granted(CellConfigured(command_id=access, access=access))
        jobs = api.get("/v1/jobs", headers=bearer())["jobs"]
        assert sorted(each["job_id"] for each in jobs) == seen
    assert len(api.get("/v1/jobs")["jobs"]) == 2, "the token of the cell reads all"
