"""A secret of a pool is named by the jobs of that pool alone, and put and deleted by who may there."""

from typing import Any

import pytest

from projections.access.identity import Identity
from projections.api.guards import Guards
from tests.projections.access.matrix import Store
from tests.projections.conftest import Api

JOB = {"job_id": "a", "command": ["true"], "resources": {"cpu": "1m"}}


@pytest.fixture
def api(tmp_path):
    held = Api(tmp_path, secrets=Store())
    for path in ("/maps", "/maps/tiles", "/ads"):
        held.pool(path)
    yield held
    held.close()


def submitted(api: Any, pool: str, secret: str) -> Any:
    return api.client.post("/v1/jobs?dry_run=true", json={**JOB, "pool": pool, "secrets": [secret]})


def test_jobs_of_its_pool_and_below_name_a_secret(api):
    assert submitted(api, "/maps/tiles", "own").status_code == 200
    refused = api.problem(submitted(api, "/maps/tiles", "other"), 422, "SECRET_MISSING")
    assert refused["detail"] == "secret other is of pool /ads: a job of /maps/tiles may not name it"


def test_who_may_not_read_its_pool_is_told_that_there_is_none(api, monkeypatch):
    async def identified(*_: Any) -> Identity:
        return Identity("ci", how="token", reads=("/maps",))

    monkeypatch.setattr(Guards, "_identified", identified)
    refused = submitted(api, "/maps/tiles", "other").json()
    assert refused["detail"] == "there is no secret other: `paceline secret put other` makes one"
    assert [each["name"] for each in api.get("/v1/secrets")["secrets"]] == ["own"]
    api.problem(api.client.delete("/v1/secrets/other"), 404, "NOT_FOUND")
    api.problem(api.client.delete("/v1/secrets/own"), 403, "NOT_ALLOWED")


def test_a_secret_that_isn_t_there_is_deleted_like_one_that_may_not_be_seen(api, monkeypatch):
    async def identified(*_: Any) -> Identity:
        return Identity("ci", how="token", reads=("/maps",))

    async def none(*_: Any) -> Any:
        raise LookupError

    monkeypatch.setattr(Guards, "_identified", identified)
    hidden = api.client.delete("/v1/secrets/other")
    monkeypatch.setattr(Store, "find", none)
    unknown = api.client.delete("/v1/secrets/other")
    assert (unknown.status_code, unknown.text) == (hidden.status_code, hidden.text)
    api.problem(unknown, 404, "NOT_FOUND")


def test_a_secret_is_of_a_pool_that_is_there(api, monkeypatch):
    async def none(*_: Any) -> Any:
        raise LookupError

    monkeypatch.setattr(Store, "find", none)
    refused = api.client.put("/v1/secrets/new?pool=/mapz", json={"value": "eA=="})
    assert api.problem(refused, 422, "NO_SUCH_POOL")["detail"] == "there is no pool /mapz; did you mean /maps?"
