"""Runs of a real cell use their tokens."""

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey

from events.run_tokens import made
from events.signing_keys import FOLDER, RUN_TOKEN_S, SigningKeys
from tests.helpers import ROOT
from tests.helpers.asking import ask
from tests.helpers.real_cell import CellProcess

WAITS = ["sh", "-c", 'cp "$PACELINE_TOKEN_FILE" "$KEPT.new"; mv "$KEPT.new" "$KEPT"; exec sleep 600']


class Driven:
    """A cell with an agent, and jobs whose runs leave their tokens to the test."""

    def __init__(self, cell: CellProcess, folder: Path) -> None:
        self.cell = cell
        self.folder = folder
        self.server = f"http://{json.loads((cell.data / 'cell.json').read_text())['listen']}"

    def start(self, job_id: str) -> str:
        """The token of the first run of a new job."""
        kept = self.folder / job_id
        body = {"job_id": job_id, "pool": "/p", "command": WAITS, "env": {"KEPT": str(kept)}, "run_token": True}
        answer = self.cell.request("POST", "/v1/jobs?wait=20s", body | {"resources": {"cpu": "10m", "memory": "1MiB"}})
        assert answer.status_code == 201, answer.text
        self.cell.until(kept.exists)
        return kept.read_text()

    def ask(self, token: str, method: str, path: str, body: Any = None) -> httpx2.Response:
        return ask(f"{self.server}{path}", method, json=body, headers={"Authorization": f"Bearer {token}"})

    def refused(self, token: str) -> str:
        """The code with which a token is refused."""
        answer = self.ask(token, "GET", "/v1/jobs/a")
        assert answer.status_code == 401, answer.text
        return str(answer.json()["code"])


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[Driven]:
    cell = CellProcess(tmp_path / "cell", sim_hosts=0, agent=True)
    cell.start()
    try:
        cell.pool("/p")
        yield Driven(cell, tmp_path)
    finally:
        cell.end()


def test_a_run_grows_its_own_job_and_does_nothing_else(driven: Driven) -> None:
    token, other = driven.start("a"), driven.start("b")
    spec = driven.ask(token, "GET", "/v1/jobs/a/versions/1")
    assert driven.ask(token, "GET", "/v1/jobs/b").status_code == 404
    assert driven.ask(token, "GET", "/v1/audit").status_code == 403
    assert driven.ask(token, "GET", "/v1/log").status_code == 403
    assert driven.ask(other, "GET", "/v1/jobs/b").status_code == 200
    assert spec.status_code == 200, spec.text
    changed = spec.json()["spec"] | {"instances": 2, "description": "mine"}
    refused = driven.ask(token, "POST", "/v1/jobs/a/updates?wait=20s", {"command_id": "1", "spec": changed})
    assert refused.status_code == 403, refused.text
    assert driven.ask(token, "POST", "/v1/jobs/a/stops?wait=20s", {"command_id": "3"}).status_code in (403, 404)
    grown = driven.ask(
        token,
        "POST",
        "/v1/jobs/a/updates?wait=20s",
        {"command_id": "2", "spec": spec.json()["spec"] | {"instances": 2}},
    )
    assert grown.status_code < 300, grown.text
    driven.cell.until(lambda: driven.cell.get("/v1/jobs/a").json()["instances"] == 2)
    assert driven.cell.request("POST", "/v1/jobs/a/stops?wait=20s", {"command_id": "3"}).status_code < 300
    driven.cell.until(lambda: driven.ask(token, "GET", "/v1/jobs/a").status_code == 401)
    assert driven.refused(token) == "TOKEN_RUN_ENDED"
    everything = b"".join(path.read_bytes() for path in driven.cell.data.rglob("*") if path.is_file())
    assert token.encode() not in everything + driven.cell.output.read_bytes()


def test_a_driver_adds_tasks_to_its_own_job(driven: Driven) -> None:
    body = {
        "job_id": "grows",
        "pool": "/p",
        "command": [sys.executable, str(ROOT / "examples" / "driver.py"), "2"],
        "env": {"PACELINE_SERVER": driven.server},
        "resources": {"cpu": "10m", "memory": "1MiB"},
        "run_token": True,
    }
    assert driven.cell.request("POST", "/v1/jobs?wait=20s", body).status_code == 201
    driven.cell.until(lambda: driven.cell.state("grows") == "SUCCEEDED")
    assert driven.cell.get("/v1/jobs/grows").json()["instances"] == 3
    [update] = [
        each
        for each in driven.cell.get("/v1/jobs/grows/history").json()["events"]
        if "Update" in each["event"] and each["actor"]
    ]
    assert (update["actor"]["name"], update["actor"]["verified"]) == ("run 1 of grows/0", True)


def test_tokens_that_this_cell_has_not_signed_for_now_are_refused(driven: Driven) -> None:
    token, folder = driven.start("a"), driven.cell.data / FOLDER
    keys = ask(f"{driven.server}/.well-known/jwks.json", "GET", headers={}).json()
    decoded = jwt.decode(token, KeySet.import_key_set(keys), algorithms=["EdDSA"])
    assert decoded.claims["sub"] == "job/a/task/0/run/1"
    mine = SigningKeys(folder).current()
    run = ("a", 0, 1)
    header, body, _ = token.split(".")
    assert driven.ask(made(mine, 0, run), "GET", "/v1/jobs/a").status_code == 200
    assert driven.refused(made(SigningKeys(driven.folder / "own").current(), 0, run)) == "TOKEN_KEY_UNKNOWN"
    assert driven.refused(made(mine, 1, run)) == "TOKEN_NEEDED"
    assert driven.refused(made(mine, 0, run, lambda: time.time() - 2 * RUN_TOKEN_S)) == "TOKEN_EXPIRED"
    assert driven.refused(f"{header}.{body}.AAAA") == "TOKEN_NOT_GENUINE"
    secret = OctKey.import_key(mine.public)
    by_secret = jwt.encode({"alg": "HS256", "kid": mine.name}, decoded.claims, secret, algorithms=["HS256"])
    assert driven.refused(by_secret) == "TOKEN_NOT_GENUINE"
    none = jwt.encode({"alg": "none"}, decoded.claims, secret, algorithms=["none"])
    assert re.fullmatch("TOKEN_.*", driven.refused(none))
