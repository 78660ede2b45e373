"""Whoever shows a token that the cell has issued is known as its subject, from the views on."""

from contextvars import copy_context
from hashlib import sha256
from typing import Any

import pytest

from events.answers import other_specification
from events.codec import decode
from events.codes import Code
from events.records.jobs import JobSubmitted
from events.records.lifecycle import JobRejected
from events.records.parts import Actor
from events.records.pools import CellConfigured, RoleBound, TokenIssued, TokenRevoked
from events.roles import Verb
from projections.access.identity import Identity, begin
from projections.api.problems import Problem
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


@pytest.mark.parametrize("access", ["open", "roles"])
def test_an_id_that_anothers_job_has_is_told_without_ways_to_change_that_job(api: Api, access: str) -> None:
    for path in ("/p", "/q"):
        api.pool(path)
    api.cell.accept("near", pool="/p")
    api.cell.accept("far", pool="/q")
    bound = RoleBound(command_id="b", binding_id="b", subject="ci", role="submitter", pool="/p")
    api.granted(issued(), bound, CellConfigured(command_id="c", access=access))

    def refuse(offset: int, fact: JobSubmitted) -> tuple[JobRejected, ...]:
        message = other_specification(fact.job_id, False)
        return (JobRejected(job_id=fact.job_id, jobs_offset=offset, code=Code.ID_TAKEN, message=message),)

    api.answer("paceline.jobs", "lifecycle", refuse)

    def told(job_id: str, **headers: str) -> list[str]:
        body = {**SPEC, "job_id": job_id, "instances": 3}
        one = api.client.post("/v1/jobs?wait=10s", json=body, headers=headers)
        many = api.client.post("/v1/job-batches?wait=10s", json={"jobs": [body]}, headers=headers)
        [item] = many.json()["jobs"]
        assert (one.status_code, item["status"]) == (409, 409), many.text
        return [one.json()["detail"], item["problem"]["detail"]]

    for job_id in ("near", "far"):
        taken = f"another job was submitted under the id {job_id}; choose another id"
        assert told(job_id, **bearer()) == [taken, taken]
        assert all("`paceline job update FILE` changes it" in each for each in told(job_id)), "the cell may change it"


def test_a_refusal_names_whose_secrets_a_role_is_for(api: Api) -> None:
    api.granted(issued(), RoleBound(command_id="b", binding_id="b", subject="ci", role="viewer", pool="/"))
    permits = api.app.state.context.permits

    def as_ci() -> None:
        begin(Identity("ci"))
        permits.pool(Verb.SECRETS, "/p")

    with pytest.raises(Problem) as refused:
        copy_context().run(as_ci)
    assert "of pool-admin or admin or submitter (own secrets) to /p" in refused.value.detail
