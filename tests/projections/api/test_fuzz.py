"""Whatever is asked of the API, by whomever: no answer is a fault of the server, and none contradicts the description.

Requests are made from the description, right ones and wrong ones, and go over real HTTP.
"""

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from events import wrong_tokens
from events.records.pools import CellConfigured, RoleBound
from hostagent.listen_address import bound
from hostagent.server import Server
from projections.api import context, stream
from projections.api.app import create_app
from projections.api.cell_router import create_cells_app
from tests.helpers.drawn import ALL, drawn
from tests.projections.access.test_issued_tokens import bearer, issued
from tests.projections.conftest import TOKEN, Api

FUZZ = settings(
    max_examples=25 if ALL else 6,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate) if ALL else (Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
AWAY = ("NOT_REACHED", "NO_GATEWAY", "SECRETS_AWAY", "NO_PLANS", "IMAGE_UNPINNED")
"""The codes of what is away: no gateway is here, nobody plans, and no registry need be reached."""
FOREIGN = "zqforeign"
"""Is in the names of what a limited reader may not read, and in no request."""
CONFORMS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


class Site:
    """A cell with a job, its tasks, a pool and a host, served alone and beside another cell; nothing in it waits."""

    def __init__(self, folder: Any) -> None:
        folders = [folder / str(number) for number in range(2)]
        for each in folders:
            each.mkdir()
        self.cells = [Api(each, number) for number, each in enumerate(folders)]
        for each in self.cells:
            each.pool("/p" if each is self.cells[0] else "/q", cell=each.cell.log.cell)
        cell = self.cells[0].cell
        cell.host("h1")
        cell.accept("a", instances=3)
        cell.run("a")
        self.cells[0].fold()
        self.session = requests.Session()
        self._servers: list[tuple[Server, threading.Thread]] = []
        self.urls: list[str] = []
        self.serve(lambda listen: _app(self.cells[0], listen))
        self.serve(lambda listen: create_cells_app({each.cell.log.cell: _app(each, listen) for each in self.cells}))

    def serve(self, make: Any) -> None:
        held = bound("127.0.0.1:0")
        listen = f"127.0.0.1:{held.getsockname()[1]}"
        server = Server(make(listen), grace_s=0)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [held]})
        thread.start()
        self._servers.append((server, thread))
        self.urls.append(f"http://{listen}")

    def close(self) -> None:
        self.session.close()
        for server, thread in self._servers:
            server.should_exit = True
            thread.join()
        for each in self.cells:
            each.close()


def _app(api: Api, listen: str) -> Any:
    return create_app(
        api.projector.views, api.cell.log, token=TOKEN, listen=listen, cell_info=dict, task_log=api.task_log
    )


async def _nothing(*_: Any) -> Any:
    await asyncio.sleep(0)
    for each in ():
        yield each


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("READ_WAIT_S", "WAIT_MAX_S", "POOL_WAIT_S"):
            patch.setattr(context, name, 0.0)
        patch.setattr(wrong_tokens, "FIRST_S", 0.0)
        patch.setattr(stream, "_follow", _nothing)
        held = Site(tmp_path_factory.mktemp("views"))
        yield held
        held.close()


@pytest.fixture(scope="module")
def described(site: Site) -> Any:
    return schemathesis.openapi.from_dict(requests.get(f"{site.urls[0]}/openapi.json").json())


@pytest.fixture(scope="module")
def limited(described: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cell where reading needs a role, and a token reads one pool of two."""
    api = Api(tmp_path_factory.mktemp("limited"), 0)
    for path, job in (("/p", "a"), (f"/{FOREIGN}", f"{FOREIGN}-job")):
        api.pool(path)
        api.cell.accept(job, pool=path, owner=f"{job}-owner", labels={"k": f"{job}-label"})
    viewer = RoleBound(command_id="b", binding_id="b", subject="ci", role="viewer", pool="/p")
    api.granted(viewer, issued(), CellConfigured(command_id="c", access="roles"))
    held = bound("127.0.0.1:0")
    listen = f"127.0.0.1:{held.getsockname()[1]}"
    server = Server(_app(api, listen), grace_s=0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [held]})
    thread.start()
    yield f"http://{listen}"
    server.should_exit = True
    thread.join()
    api.close()


schema = schemathesis.pytest.from_fixture("described")


@drawn
@pytest.mark.xdist_group("fuzz")
@schema.parametrize()
@FUZZ
def test_no_request_is_a_fault_of_the_server(case, site):
    for url, headers in ((site.urls[0], {"Authorization": f"Bearer {TOKEN}"}), (site.urls[1], {})):
        answer = case.call(url, site.session, headers)
        assert answer.status_code < 500 or answer.json()["code"] in AWAY, answer.text
        case.validate_response(answer, checks=CONFORMS)


@drawn
@pytest.mark.xdist_group("fuzz")
@schema.parametrize()
@FUZZ
def test_no_request_of_who_reads_one_pool_or_none_is_told_of_another(case, site, limited):
    for headers in ({}, bearer()):
        answer = case.call(limited, site.session, headers)
        assert answer.status_code < 500 or answer.json()["code"] in AWAY, answer.text
        assert FOREIGN not in answer.text + str(answer.headers)


@pytest.mark.xdist_group("fuzz")
def test_the_name_that_others_are_not_told_is_there(site, limited):
    paths = ("/v1/jobs", "/v1/pools", "/v1/jobs/a")
    assert [requests.get(limited + path).status_code for path in paths] == [401] * 3
    own, everything = (
        [requests.get(limited + path, headers=headers).text for path in paths]
        for headers in (bearer(), {"Authorization": f"Bearer {TOKEN}"})
    )
    assert [FOREIGN in text for text in own] == [False] * 3
    assert [FOREIGN in text for text in everything] == [True, True, False]
    assert '"a"' in own[0]


@pytest.mark.xdist_group("fuzz")
@pytest.mark.parametrize("token", [TOKEN, ""])
@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/rounds/lifecycle/" + "9" * 21, {}),
        ("/v1/jobs/a/tasks/0/log?run=" + "9" * 21, {}),
        ("/v1/jobs/a/tasks/" + "9" * 21 + "/log", {}),
        ("/v1/jobs/a?cell=" + "9" * 21, {}),
        ("/v1/jobs?" + "&".join(["label=a:b"] * 1100), {}),
        ("/v1/jobs?state=" + ",".join(["A"] * 20_000), {}),
        ("/livez", {"Origin": "http://["}),
        ("/v1/jobs", {"At-Least-Position": "paceline.jobs@" + "9" * 5000 + ":1"}),
        ("/v1/events", {"Last-Event-ID": "0:" + "9" * 18}),
    ],
)
def test_what_once_was_a_fault_is_a_problem_now(site, token, path, headers):
    for url in site.urls:
        answer = requests.get(url + path, headers={**headers, "Authorization": f"Bearer {token}"})
        assert 400 <= answer.status_code < 500, answer.text
        assert answer.headers["content-type"] == "application/problem+json"


LISTS = ("/v1/jobs", "/v1/jobs/a/history", "/v1/jobs/a/tasks", "/v1/hosts", "/v1/hosts/h1/tasks", "/v1/log/quarantine")
FORGED = (-1, 1 << 63, "x", None, [], [1], ["x", 1], [[0, "x"]], {}, [1 << 70] * 5, 1.5, "\ud800")
FILTERS = ([[], "", []], ["history", "a"], ["tasks", "a", []], ["hosts"], ["host", "h1"], ["quarantine"])


@pytest.mark.xdist_group("fuzz")
@pytest.mark.parametrize("path", LISTS)
def test_a_forged_page_token_is_no_fault(site, path):
    for at in FORGED:
        for filters in FILTERS:
            forged = json.dumps([context._digest(tuple(filters)), at])
            token = base64.urlsafe_b64encode(forged.encode()).decode()
            for url in site.urls:
                answer = site.session.get(f"{url}{path}", params={"page_token": token})
                assert answer.status_code < 500, answer.text


@pytest.mark.xdist_group("fuzz")
def test_pages_go_on_under_long_filters(site):
    labels = {f"key-{one:03}": "v" * 150 for one in range(32)}
    for each in range(3):
        site.cells[0].cell.accept(f"long-{each}", labels=labels)
    site.cells[0].fold()
    asked = {"label": [f"{key}:{value}" for key, value in labels.items()], "page_size": "2"}
    for url in site.urls:
        first = requests.get(f"{url}/v1/jobs", asked).json()
        second = requests.get(f"{url}/v1/jobs", {**asked, "page_token": first["next_page_token"]}).json()
        assert [len(page["jobs"]) for page in (first, second)] == [2, 1]


@pytest.mark.xdist_group("fuzz")
def test_a_body_is_looked_at_once_its_sender_is_known(site):
    for url in site.urls:
        for path in ("/v1/jobs", "/v1/jobs/a/stops", "/v1/jobs/a/priorities", "/v1/hosts/h1/loss-confirmations"):
            answer = requests.post(url + path, b"[", headers={"Content-Type": "application/json"})
            assert (answer.status_code, answer.json()["code"]) == (401, "TOKEN_NEEDED")
