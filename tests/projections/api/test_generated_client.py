"""A client that a generator makes of the description works on a cell: no knowledge of Paceline is in it."""

import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from events.records.entitlement import PoolAnswered
from hostagent.listen_address import bound
from hostagent.server import Server
from projections.api.app import create_app
from tests.helpers.written_cell import accepted
from tests.projections.conftest import TOKEN, Api
from tools.openapi import FILE


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The client, as a package."""
    folder = tmp_path_factory.mktemp("generated")
    tools = Path(sys.executable).parent
    command = [tools / "openapi-python-client", "generate", "--path", FILE, "--output-path", folder / "made_client"]
    told = subprocess.run(
        [*command, "--meta", "none"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
    )
    assert "Warning" not in told.stdout, told.stdout
    sys.path.insert(0, str(folder))
    yield lambda name: importlib.import_module(f"made_client.{name}")
    sys.path.remove(str(folder))


@pytest.fixture
def address(api: Api) -> Iterator[str]:
    held = bound("127.0.0.1:0")
    listen = f"127.0.0.1:{held.getsockname()[1]}"
    app = create_app(api.projector.views, api.cell.log, token=TOKEN, listen=listen, cell_info=dict)
    server = Server(app, grace_s=0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [held]})
    thread.start()
    yield f"http://{listen}"
    server.should_exit = True
    thread.join()


def test_jobs_are_submitted_listed_and_stopped(api: Api, address: str, made: Any) -> None:
    api.pool("/p")
    api.cell.host("h1")
    api.answer("paceline.jobs", "lifecycle", lambda at, event: accepted(event, at))
    models, jobs = made("models"), "api.jobs"
    with made("client").AuthenticatedClient(address, TOKEN, raise_on_unexpected_status=True) as client:
        spec = models.JobSpec.from_dict({"pool": "/p", "command": ["true"], "job_id": "a", "instances": 2})
        submit = made(f"{jobs}.post_jobs")
        answer = submit.sync_detailed(client=client, body=spec, wait="30s")
        assert (answer.status_code, answer.headers["location"], type(answer.parsed)) == (201, "/v1/jobs/a", models.Job)
        assert (answer.parsed.state, answer.parsed.tasks["queued"]) == ("PENDING", 2)
        assert submit.sync_detailed(client=client, body=spec).status_code == 200
        page = made(f"{jobs}.get_jobs").sync(client=client, pool="/p", page_size=10)
        assert ([each.job_id for each in page.jobs], page.next_page_token) == (["a"], "")
        missing = made(f"{jobs}.get_jobs_by_job_id").sync(job_id="none", client=client)
        assert (type(missing), missing.code, missing.status) == (models.Problem, "NOT_FOUND", 404)
        explanation = made(f"{jobs}.get_jobs_by_job_id_explanation").sync(job_id="a", client=client)
        assert explanation.job_id == "a"
        hosts = made("api.hosts.get_hosts").sync(client=client)
        assert [each.host_id for each in hosts.hosts] == ["h1"]
    with made("client").Client(address) as stranger:
        refused = submit.sync(client=stranger, body=spec)
        assert (type(refused), refused.code) == (models.Problem, "TOKEN_NEEDED")


def test_pools_are_replaced_by_version(api: Api, address: str, made: Any) -> None:
    def says(at: int, event: Any) -> tuple[Any, ...]:
        return (PoolAnswered(path=event.path, pools_offset=at, command_id=event.command_id, code="DONE", message=""),)

    api.answer("paceline.pools", "entitlement", says)
    models, pools = made("models"), "api.pools"
    put, get = made(f"{pools}.put_pools_by_path"), made(f"{pools}.get_pools_by_path")
    with made("client").AuthenticatedClient(address, TOKEN, raise_on_unexpected_status=True) as client:
        spec = models.PoolSpec.from_dict({"share": 2})
        assert put.sync_detailed("maps", client=client, body=spec, wait="30s").status_code == 201
        assert put.sync("maps", client=client, body=spec).code == "PRECONDITION_REQUIRED"
        etag = get.sync_detailed("maps", client=client).headers["etag"]
        assert put.sync_detailed("maps", client=client, body=spec, wait="30s", if_match=etag).status_code == 200
        assert put.sync("maps", client=client, body=spec, if_match=etag).code == "VERSION_CONFLICT"
        below = put.sync_detailed("maps/tiles", client=client, body=spec, wait="30s", if_none_match="*")
        assert (below.status_code, below.parsed.path) == (201, "/maps/tiles")
