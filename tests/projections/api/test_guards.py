"""Who may ask on which address, with whose routes beside."""

import pytest
from fastapi import APIRouter
from starlette.testclient import TestClient

from events.bounds import SPEC_BYTES_MAX
from projections.api.app import create_app
from projections.api.guards import BODY_BYTES_MAX
from projections.views.projector import Projector
from tests.helpers.written_cell import Cell


@pytest.fixture
def client(tmp_path, request):
    cell = Cell()
    projector = Projector(cell.log, tmp_path)
    agents = APIRouter(prefix="/v1/agents")

    @agents.post("/{host_id}/reports")
    def reports(host_id: str) -> dict[str, str]:
        return {"host": host_id}

    app = create_app(projector.views, cell.log, token="t", listen=request.param, cell_info=dict, gateway=agents)
    yield TestClient(app, "http://cell.example:7400")
    projector.close()


def status(client: TestClient, host: str) -> int:
    return int(client.get("/livez", headers={"Host": host}).status_code)


@pytest.mark.parametrize("client", ["0.0.0.0:7400", "[::]:7400"], indirect=True)
def test_on_all_addresses_any_address_will_do_but_no_other_name(client):
    assert [status(client, host) for host in ("10.1.2.3:7400", "[fe80::1]:7400", "localhost")] == [200, 200, 200]
    assert [status(client, host) for host in ("cell.example", "10.1.2.3.example", "")] == [421, 421, 421]


@pytest.mark.parametrize("client", ["cell.example:7400"], indirect=True)
def test_on_one_name_that_name_will_do(client):
    assert [status(client, host) for host in ("cell.example", "CELL.example:7400", "127.0.0.1")] == [200, 200, 200]
    assert [status(client, host) for host in ("other.example", "10.1.2.3")] == [421, 421]


@pytest.mark.parametrize("client", ["127.0.0.1:7400"], indirect=True)
def test_who_knows_the_token_may_come_by_any_name(client):
    assert client.get("/livez", headers={"Authorization": "Bearer t"}).status_code == 200
    assert client.get("/livez", headers={"Authorization": "Bearer é".encode()}).status_code == 421


@pytest.mark.parametrize("client", ["127.0.0.1:7400"], indirect=True)
def test_the_routes_of_agents_check_for_themselves(client):
    assert client.post("/v1/agents/h1/reports", content=b"x").json() == {"host": "h1"}


@pytest.mark.parametrize("client", ["127.0.0.1:7400"], indirect=True)
@pytest.mark.parametrize(
    ("path", "most"),
    [("/v1/jobs", SPEC_BYTES_MAX), ("/v1/jobs/j/updates", SPEC_BYTES_MAX), ("/v1/jobs/j/stops", BODY_BYTES_MAX)],
)
def test_a_body_is_bounded_with_a_length_and_without(client, path, most):
    headers = {"Authorization": "Bearer t", "Content-Type": "application/json"}
    for content in (b" " * (most + 1), iter([b" " * most, b" "])):
        answer = client.post(path, content=content, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "TOO_LARGE")
    answer = client.post(path, content=b" " * most, headers=headers)
    assert answer.status_code != 413, "that much may be sent"


def test_what_is_wrong_with_a_command_or_a_query_is_told_in_words(api):
    api.cell.accept("a", instances=1)
    api.fold()
    body = api.problem(api.client.post("/v1/jobs/a/stops", json={"reson": "x"}), 422, "INVALID_REQUEST")
    assert body["errors"] == [{"pointer": "/reson", "message": "is not a known field; did you mean reason?"}]
    body = api.problem(api.client.get("/v1/jobs?page_size=0"), 422, "INVALID_REQUEST")
    assert body["errors"] == [{"pointer": "/query/page_size", "message": "must be greater than or equal to 1"}]
