"""One API server for two cells: each request goes where it belongs, lists are over both."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from events.bounds import SPEC_BYTES_MAX
from events.codec import decode
from events.log.memory import MemoryLog
from events.records.entitlement import PoolAnswered
from events.records.hosts import HostVolumes
from events.records.lifecycle import JobRejected
from events.records.parts import Volume
from events.records.placement import HostLost
from events.records.pools import PoolDefined, PoolRemoved
from projections.api.cell_router import create_cells_app
from projections.queries import pages
from tests.helpers.written_cell import accepted
from tests.projections.conftest import LISTEN, TOKEN, Api

BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Two:
    """Cells 0 and 1 behind one server; pools /p0 and /p1, one in each; a cell 2 that is somebody else's."""

    def __init__(self, folder: Path) -> None:
        self.cells = [Api(folder / str(number), number) for number in (0, 1)]
        self.third = MemoryLog(lambda: 0, 2)
        for each in self.cells:
            each.app.state.context.others.append(self.third)
            for number in (0, 1, 2):
                each.pool(f"/p{number}", cell=number)
        self.client = self.open(create_cells_app({number: each.app for number, each in enumerate(self.cells)}))

    def open(self, app, **headers: str) -> TestClient:
        return TestClient(app, f"http://{LISTEN}", headers=BEARER | headers, raise_server_exceptions=False)

    def get(self, path: str, status: int = 200, **more):
        answer = self.client.get(path, **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    def refused(self, answer, status: int, code: str):
        return self.cells[0].problem(answer, status, code)

    def submit(self, job_id: str, pool: str = "/p0", query: str = "", **spec):
        return self.client.post(f"/v1/jobs{query}", json={"job_id": job_id, "pool": pool, "command": ["true"], **spec})

    def entitlement(self, *codes: str) -> None:
        """Cells answer facts about pools from now on; DONE, or what is said for each cell."""
        for number, each in enumerate(self.cells):
            code = codes[number] if codes else "DONE"
            each.answer(
                "paceline.pools",
                "entitlement",
                lambda at, event, code=code: (
                    PoolAnswered(path=event.path, pools_offset=at, command_id=event.command_id, code=code, message="m"),
                ),
            )

    def facts(self, number: int, topic: str) -> list:
        log = self.cells[number].cell.log if number < 2 else self.third
        return [decode(record.value) for record in log.scan(topic, 0)]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    for number in (0, 1):
        (tmp_path / str(number)).mkdir()
    held = Two(tmp_path)
    yield held
    for each in held.cells:
        each.close()


def test_parameters_are_known_to_a_server_of_several_cells_too(two):
    for path in ("/v1/jobs?pol=/p0", "/v1/jobs/a?pol=/p0", "/v1/pools?pol=/p0", "/v1/cell?pol=1", "/readyz?pol"):
        assert two.refused(two.client.get(path), 422, "UNKNOWN_PARAMETER")["errors"][0]["pointer"] == "/query/pol"
    two.refused(two.client.post("/v1/job-plans?pol=1", json={}), 422, "UNKNOWN_PARAMETER")
    assert two.get("/v1/jobs?cell=1&pool=/p1")["jobs"] == []


def test_a_job_goes_to_the_cell_of_its_pool(two):
    for number in (0, 1):
        answer = two.submit(f"j{number}", f"/p{number}")
        assert (answer.status_code, answer.headers["log-cell"]) == (202, str(number))
        assert answer.headers["log-position"] == f"paceline.jobs@{number}:0"
        assert [job.job_id for job in two.facts(number, "paceline.jobs")] == [f"j{number}"]


def test_a_job_of_a_cell_that_is_not_served_is_told_which(two):
    body = two.refused(two.submit("j", "/p2"), 409, "WRONG_CELL")
    assert (body["cell"], "cell 2; this server serves cells 0, 1" in body["detail"]) == (2, True)
    assert two.facts(0, "paceline.jobs") == two.facts(1, "paceline.jobs") == []
    two.refused(two.submit("j", query="?cell=2"), 409, "WRONG_CELL")
    two.refused(two.submit("j", query="?cell=x"), 422, "INVALID_REQUEST")


def test_a_server_of_one_cell_knows_the_cells_of_all_pools(two):
    single = two.open(two.cells[0].app)
    spec = {"job_id": "j", "pool": "/p1", "command": ["true"]}
    body = two.refused(single.post("/v1/jobs", json=spec), 409, "WRONG_CELL")
    assert body["cell"] == 1
    assert two.refused(single.get("/v1/pools/p1"), 409, "WRONG_CELL")["cell"] == 1
    two.refused(single.put("/v1/pools/q", json={"cell": 1}), 409, "WRONG_CELL")
    two.refused(single.delete("/v1/pools/p1"), 409, "WRONG_CELL")
    two.refused(single.get("/v1/jobs?cell=1"), 409, "WRONG_CELL")
    assert single.get("/v1/jobs?cell=0").status_code == 200
    assert [pool["path"] for pool in single.get("/v1/pools").json()["pools"]] == ["/p0"]


def test_nonsense_is_answered_as_by_one_cell(two):
    two.refused(two.submit("j", "/nowhere"), 422, "NO_SUCH_POOL")
    two.refused(two.submit("j", pool=7), 422, "INVALID_SPEC")
    kind = {"Content-Type": "application/json"}
    for content, status, code in ((b"{", 400, "NOT_JSON"), (b"[]", 422, "INVALID_SPEC"), (b"", 422, "INVALID_REQUEST")):
        two.refused(two.client.post("/v1/jobs", content=content, headers=kind), status, code)
    two.refused(two.client.post("/v1/jobs", content=b" " * (SPEC_BYTES_MAX + 1), headers=kind), 413, "TOO_LARGE")
    pieces = iter([b" " * SPEC_BYTES_MAX, b" "])
    two.refused(two.client.post("/v1/jobs", content=pieces, headers=kind), 413, "TOO_LARGE")
    two.refused(two.client.get("/v1/nothing"), 404, "NO_SUCH_PATH")
    two.refused(two.client.get("/v1/jobs/none"), 404, "NOT_FOUND")


def test_an_id_is_taken_in_whichever_cell(two):
    two.submit("j", "/p1")
    two.cells[1].fold()
    body = two.refused(two.submit("j", "/p0"), 409, "ID_TAKEN")
    assert "to cell 1" in body["detail"]
    assert two.submit("j", "/p1").json()["repeated"] is True
    assert two.submit("j", "/p0", "?cell=0").status_code == 202, "whoever names the cell means it"


def test_what_names_a_job_goes_where_the_job_is(two):
    at = two.cells[0].cell.submit("j", pool="/p1")
    two.cells[0].cell.decide("lifecycle", JobRejected(job_id="j", jobs_offset=at, code="WRONG_CELL", message="m"))
    two.cells[1].cell.accept("j", pool="/p1")
    for each in two.cells:
        each.fold()
    assert (two.get("/v1/jobs/j")["state"], two.get("/v1/jobs/j?cell=0")["state"]) == ("PENDING", "REJECTED")
    for part in ("explanation", "history", "tasks"):
        assert two.client.get(f"/v1/jobs/j/{part}").headers["log-cell"] == "1"
    assert two.client.post("/v1/jobs/j/stops", json={}).headers["log-cell"] == "1"
    assert two.client.post("/v1/jobs/j/priorities", json={"priority": 3}).headers["log-cell"] == "1"
    facts = [type(fact).__name__ for fact in two.facts(1, "paceline.jobs")]
    assert facts == ["JobSubmitted", "JobStopRequested", "JobPriorityRequested"]
    assert two.client.get("/v1/jobs/j/tasks/0/log").content == b"hello\n"
    assert two.cells[1].asked


def test_what_names_a_host_goes_where_the_host_is(two):
    two.cells[0].cell.host("h")
    two.cells[0].cell.decide("placement", HostLost(host_id="h", session=1, silent_ms=1, code="CONFIRMED"))
    two.cells[1].cell.host("h")
    for each in two.cells:
        each.fold()
    assert two.get("/v1/hosts/h")["state"] == "UP"
    assert two.client.post("/v1/hosts/h/loss-confirmations", json={}).headers["log-cell"] == "1"
    assert two.get("/v1/hosts/h?cell=0")["state"] == "LOST"


def test_a_pool_is_made_in_its_cell_and_all_cells_are_told(two):
    two.entitlement()
    answer = two.client.put("/v1/pools/new", json={"cell": 1, "share": 2})
    assert (answer.status_code, answer.json()["code"], answer.headers["log-cell"]) == (201, "DONE", "1")
    told = [two.facts(number, "paceline.pools")[-1] for number in (0, 1, 2)]
    assert all(isinstance(fact, PoolDefined) and fact == told[0] for fact in told)
    assert (told[0].path, told[0].cell, told[0].share_default) == ("/new", 1, 2)
    below = two.client.put("/v1/pools/new/below", json={})
    assert below.headers["log-cell"] == "1", "it goes with the pool above"
    assert two.facts(2, "paceline.pools")[-1].cell == 1
    assert two.client.put("/v1/pools/other", json={}).headers["log-cell"] == "0"
    changed = two.client.put("/v1/pools/p1", json={"share": 3}, headers={"If-Match": "*"})
    assert (changed.status_code, changed.headers["log-cell"]) == (200, "1"), "it stays where it is"
    assert two.get("/v1/pools/p1")["share"]["cpu"] == 3
    assert two.client.delete("/v1/pools/p1").headers["log-cell"] == "1"
    assert all(isinstance(two.facts(number, "paceline.pools")[-1], PoolRemoved) for number in (0, 1, 2))


def test_cells_that_were_not_told_of_a_removal_are_told_when_it_is_asked_for_again(two):
    removal = PoolRemoved(path="/p1", command_id="r")
    for each in two.cells[1:]:  # the server ended before it had told cell 0
        at = each.cell.fact(removal)
        each.cell.decide("entitlement", PoolAnswered(path="/p1", pools_offset=at, command_id="r", code="DONE"))
        each.fold()
    before = len(two.facts(1, "paceline.pools"))
    answer = two.client.delete("/v1/pools/p1")
    assert (answer.status_code, answer.json()["code"]) == (200, "REPEATED")
    assert "told again: cell 0" in answer.json()["message"]
    assert isinstance(two.facts(0, "paceline.pools")[-1], PoolRemoved)
    assert len(two.facts(1, "paceline.pools")) == before, "its own cell has decided it"
    assert two.facts(2, "paceline.pools") == [], "what that cell has isn't known here"
    two.refused(two.client.delete("/v1/pools/never"), 404, "NOT_FOUND")


def test_a_pool_that_its_cell_refuses_is_told_to_nobody(two):
    two.entitlement("DONE", "WRONG_CELL")
    two.refused(two.client.put("/v1/pools/new", json={"cell": 1}), 409, "WRONG_CELL")
    two.refused(two.client.put("/v1/pools/new", json={"cell": 2}), 409, "WRONG_CELL")
    two.refused(two.client.put("/v1/pools/new?cell=0", json={"cell": 1}), 409, "WRONG_CELL")
    two.refused(two.client.put("/v1/pools/new", json={"cell": -1}), 422, "INVALID_POOL")
    assert [len(two.facts(number, "paceline.pools")) for number in (0, 1, 2)] == [3, 4, 0]


def test_while_the_cell_of_a_pool_is_silent_nobody_is_told(two, monkeypatch):
    monkeypatch.setattr("projections.api.pools.DECIDED_S", 0.01)
    answer = two.client.put("/v1/pools/new", json={"cell": 1})
    two.refused(answer, 503, "NOT_REACHED")
    assert answer.headers["retry-after"]
    assert two.facts(2, "paceline.pools") == []


def test_jobs_of_all_cells_page_by_page(two):
    wanted = []
    for step in range(7):
        number = int(step in (1, 2, 5))
        cell = two.cells[number].cell
        two.cells[0].cell.ms = two.cells[1].cell.ms = cell.ms + 10
        two.cells[number].cell.accept(f"j{step}", pool=f"/p{number}", labels={"odd": str(step % 2)})
        wanted.insert(0, (f"j{step}", number))
    for each in two.cells:
        each.fold()
    assert all_pages(two, "/v1/jobs?page_size=2", "jobs", "job_id") == [wanted[at : at + 2] for at in (0, 2, 4, 6)]
    assert all_pages(two, "/v1/jobs?page_size=7", "jobs", "job_id") == [wanted]
    assert all_pages(two, "/v1/jobs?label=odd:1", "jobs", "job_id") == [wanted[1::2]]
    assert all_pages(two, "/v1/jobs?pool=/p1&page_size=2", "jobs", "job_id") == [[("j5", 1), ("j2", 1)], [("j1", 1)]]
    assert all_pages(two, "/v1/jobs?cell=1", "jobs", "job_id") == [[("j5", 1), ("j2", 1), ("j1", 1)]]
    token = two.get("/v1/jobs?page_size=2")["next_page_token"]
    two.refused(two.client.get(f"/v1/hosts?page_token={token}"), 422, "BAD_PAGE_TOKEN")


def test_hosts_pools_and_skipped_records_of_all_cells(two):
    for number, host in ((1, "a"), (0, "b"), (1, "c"), (0, "d")):
        two.cells[number].cell.host(host)
        two.cells[number].cell.put("paceline.jobs", b"poison")
    for each in two.cells:
        each.fold()
    assert all_pages(two, "/v1/hosts?page_size=3", "hosts", "host_id") == [[("a", 1), ("b", 0), ("c", 1)], [("d", 0)]]
    assert [(pool["path"], pool["cell"]) for pool in two.get("/v1/pools")["pools"]] == [("/p0", 0), ("/p1", 1)]
    skipped = all_pages(two, "/v1/log/quarantine?page_size=3", "records", "offset")
    assert skipped == [[(0, 0), (0, 1), (1, 0)], [(1, 1)]]


def test_volumes_of_all_cells(two):
    for number, host in ((1, "a"), (0, "b")):
        two.cells[number].cell.host(host)
        volumes = tuple(Volume("db", 0, name, 5) for name in ("data", "wal"))
        two.cells[number].cell.fact(HostVolumes(host_id=host, session=1, volumes=volumes))
        two.cells[number].fold()
    pages = [[("data", 1), ("wal", 1), ("data", 0)], [("wal", 0)]]
    assert all_pages(two, "/v1/volumes?page_size=3", "volumes", "name") == pages
    assert all_pages(two, "/v1/volumes?host=b", "volumes", "name") == [[("data", 0), ("wal", 0)]]
    body = {"job_id": "db", "instance": 0, "name": "data"}
    assert two.client.post("/v1/hosts/a/volume-removals", json=body).headers["log-cell"] == "1"


def test_a_page_over_cells_that_is_cut_short_loses_nothing(two, monkeypatch):
    monkeypatch.setattr(pages, "PAGE_BYTES_MAX", 20_000)
    for number, api in enumerate(two.cells):
        for each in range(12):
            api.cell.ms += 7 if number else 10
            api.cell.accept(f"job-{number}-{each}", labels={f"key-{one}": "v" * 200 for one in range(25)})
        api.fold()
    heard, token = [], ""
    while True:
        page = two.get("/v1/jobs", params={"page_size": 1000, "page_token": token})
        assert len(page["jobs"]) <= 10
        heard += [each["job_id"] for each in page["jobs"]]
        token = page["next_page_token"]
        if not token:
            break
    assert sorted(heard) == sorted(f"job-{number}-{each}" for number in (0, 1) for each in range(12))
    times = [two.get(f"/v1/jobs/{each}")["submitted_at"] for each in heard]
    assert times == sorted(times, reverse=True)


def all_pages(two: Two, path: str, name: str, key: str) -> list[list[tuple[object, int]]]:
    found, token = [], ""
    while not found or token:
        page = two.get(path, params={**dict(each.split("=") for each in path.split("?")[1].split("&")),
                                     **({"page_token": token} if token else {})})  # fmt: skip
        found.append([(item[key], item["cell"]) for item in page[name]])
        token = page["next_page_token"]
    return found


def test_reads_wait_for_what_was_written_in_each_cell(two, monkeypatch):
    monkeypatch.setattr("projections.api.context.READ_WAIT_S", 0.05)
    two.cells[0].cell.accept("old", pool="/p0")
    two.cells[0].fold()
    position = two.submit("j", "/p1").headers["log-position"]
    seen = {"At-Least-Position": f"paceline.jobs@0:0,{position}"}
    for path in ("/v1/jobs", "/v1/jobs/j", "/v1/jobs/old", "/v1/jobs?cell=1"):
        two.refused(two.client.get(path, headers=seen), 503, "NOT_REACHED")
    assert two.client.get("/v1/jobs?cell=0", headers=seen).status_code == 200, "the other cell doesn't matter"
    job = two.facts(1, "paceline.jobs")[0]
    two.cells[1].cell.decide("lifecycle", *accepted(job, 0))
    two.cells[1].fold()
    for path in ("/v1/jobs", "/v1/jobs/j", "/v1/jobs/old", "/v1/jobs?cell=1"):
        assert two.client.get(path, headers=seen).status_code == 200
    answer = two.client.get("/v1/jobs")
    assert {"paceline.jobs@0:0", "paceline.jobs@1:0"} < set(answer.headers["log-position"].split(","))
    assert two.client.get("/v1/jobs", headers={"At-Least-Position": answer.headers["log-position"]}).is_success
    plain = {"At-Least-Position": "paceline.jobs:0"}
    assert two.client.get("/v1/jobs/j", headers=plain).status_code == 200, "of the cell that answers"
    two.refused(two.client.get("/v1/jobs", headers=plain), 400, "BAD_POSITION")
    two.refused(two.client.get("/v1/jobs/j", headers={"At-Least-Position": "paceline.jobs@x:0"}), 400, "BAD_POSITION")


def test_the_cells_and_their_health(two):
    body = two.get("/v1/cell")
    assert (body["cell"], body["cells"]) == (0, [0, 1])
    assert [each["name"] for each in body["resources"]] == ["cpu", "memory", "disk", "gpu"]
    assert two.get("/v1/cell?cell=1")["cell"] == 1
    assert two.get("/readyz")["lag"]["paceline.jobs@1"] == 0
    assert two.get("/livez") == {"live": True}
    assert "paceline_projection" in two.client.get("/metrics").text
    description = two.get("/openapi.json")
    assert "cell" in {each["name"] for each in description["paths"]["/v1/jobs/{job_id}"]["get"]["parameters"]}
    for path in ("/v1/events", "/v1/rounds/lifecycle/1"):
        two.refused(two.client.get(path), 422, "CELL_NEEDED")
    two.cells[1].cell.accept("j", pool="/p1")
    two.cells[1].fold()
    assert two.get("/v1/rounds/lifecycle/1?cell=1")["cell"] == 1


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/j", "/v1/pools/p1", "/readyz", "/v1/cell", "/openapi.json"])
def test_the_guards_stand_before_everything(two, path):
    stranger = {"Host": "evil.example", "Authorization": ""}
    two.refused(two.client.get(path, headers=stranger), 421, "HOST_NOT_ALLOWED")
    two.refused(two.client.get(path, headers={"Origin": "http://evil.example"}), 403, "ORIGIN_NOT_ALLOWED")
    two.refused(two.client.put("/v1/pools/p1", json={}, headers={"Authorization": "Bearer x"}), 401, "TOKEN_NEEDED")
    body = json.dumps({"job_id": "j", "pool": "/p1"})
    two.refused(two.client.post("/v1/jobs", content=body, headers={"Content-Type": "text/plain"}), 415, "JSON_ONLY")


def test_a_log_that_is_away_is_a_problem(two, monkeypatch):
    from events.log.port import LogUnavailable

    def away(topics: Iterable[str]) -> dict[str, int]:
        raise LogUnavailable("Kafka is away")

    monkeypatch.setattr(two.cells[1].cell.log, "ends", away)
    two.refused(two.submit("j", "/unknown"), 503, "LOG_UNAVAILABLE")
    two.refused(two.client.get("/readyz"), 503, "LOG_UNAVAILABLE")


def test_a_cell_whose_log_lost_records_is_told_of_no_pools(two, monkeypatch):
    two.entitlement()
    monkeypatch.setattr(two.cells[1].cell.log, "ends", lambda topics: dict.fromkeys(topics, 0))
    told = two.facts(1, "paceline.pools")
    two.refused(two.client.put("/v1/pools/p0/q", json={}), 503, "RECORDS_MISSING")
    assert two.facts(1, "paceline.pools") == told


def test_a_server_may_serve_one_cell_only(two):
    single = two.open(create_cells_app({1: two.cells[1].app}))
    two.refused(single.get("/v1/events", headers={"Last-Event-ID": "nonsense"}), 400, "BAD_POSITION")
    assert [pool["path"] for pool in single.get("/v1/pools").json()["pools"]] == ["/p1"]
