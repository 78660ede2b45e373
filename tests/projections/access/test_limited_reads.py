"""Limited readers see through views of the tables: what they may not read is as if it weren't there."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest
from sqlalchemy import Integer, LargeBinary, select

from events.records.pools import LockdownSet, RoleBound, TokenIssued
from projections.access.authentication import Authentication
from projections.access.identity import EVERYTHING, Identity, begin
from projections.queries import access
from projections.views import limited_reads, limited_tables, tables
from tests.projections.conftest import Api
from tests.projections.ui.test_devices import host_with_cards, run_with

OF_MAPS = Identity(subject="ann", reads=("/maps",))
OF_JOBS = [name for name, of in tables.metadata.tables.items() if "job_id" in of.c and name != "turns"]
"""The tables with rows of jobs; turns are of pools."""


@contextmanager
def asking(identity: Identity) -> Iterator[None]:
    """Whoever makes a request is this one, as are reads of this thread."""
    begin(identity)
    try:
        with patch.object(Authentication, "identify", AsyncMock(return_value=identity)):
            yield
    finally:
        begin(EVERYTHING)


def written(api: Api, others: bool = True) -> Api:
    """Three jobs of /maps, thirty jobs of others between them; one of each runs, on a host of its own."""
    for path in ("/ads", "/maps", "/mapsque") if others else ("/maps",):
        api.pool(path)
    for host_id in ("h1", "h2") if others else ("h2",):
        api.cell.host(host_id)
    for number in range(30):
        if others:
            pool = "/ads" if number % 2 else "/mapsque"
            api.cell.accept(f"a{number}", pool=pool, owner="bob", labels={"team": "geo"})
        if number % 10 == 0:
            api.cell.accept(f"m{number}", pool="/maps", owner="ann", labels={"team": "geo"})
    if others:
        api.cell.run("a0", host_id="h1")
    api.cell.run("m0", host_id="h2")
    api.fold()
    return api


@pytest.fixture
def told(api: Api) -> Api:
    return written(api)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Api]:
    """The same cell without what readers of /maps may not see."""
    (tmp_path / "alone").mkdir()
    held = written(Api(tmp_path / "alone"), others=False)
    yield held
    held.close()


def listed(api: Api, query: str) -> list[list[str]]:
    """The ids of jobs, page by page."""
    pages, token = list[list[str]](), ""
    while not pages or token:
        body = api.get(f"/v1/jobs?{query}&page_token={token}")
        pages.append([each["job_id"] for each in body["jobs"]])
        token = body["next_page_token"]
    return pages


def test_each_table_has_a_class() -> None:
    assert set(limited_tables.SEEN) == set(tables.metadata.tables), "say in `SEEN` who sees it"


@pytest.mark.parametrize("name", OF_JOBS)
def test_no_table_shows_rows_of_jobs_of_others(told: Api, name: str) -> None:
    with told.projector.views.read() as connection:
        raw = connection.connection.dbapi_connection
        path = raw.execute("PRAGMA database_list").fetchone()[2]  # type: ignore[union-attr]
    columns = tables.metadata.tables[name].c
    empty = {Integer: 0, LargeBinary: b""}
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute(f"DELETE FROM {name}" if name != "jobs" else "SELECT 1")
        for number, job_id in enumerate(("a0", "m0", "gone") if name != "jobs" else (), 1_000_000):
            row = [
                job_id if each.name == "job_id" else number if each.primary_key and isinstance(each.type, Integer)
                else next((none for kind, none in empty.items() if isinstance(each.type, kind)), "")
                for each in columns
            ]  # fmt: skip
            writer.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
    with asking(OF_MAPS), told.projector.views.read() as connection:
        seen = set(connection.execute(select(columns.job_id)).scalars())
    assert seen - {"m0", "m10", "m20"} == set()
    assert "m0" in seen or limited_tables.SEEN[name].rows is limited_tables._nothing


@pytest.mark.parametrize(
    "query", ["", "state=PENDING", "owner=ann&owner=bob", "label=team:geo", "pool=/", "pool=/maps", "order=wait"]
)
def test_lists_have_own_jobs_alone_and_no_empty_page(told: Api, query: str) -> None:
    with asking(OF_MAPS):
        pages = listed(told, f"{query}&page_size=1")
    own = {"m10", "m20"} if query == "order=wait" else {"m0", "m10", "m20"}
    assert sorted(map(len, pages)) == [1] * len(own)
    assert {name for page in pages for name in page} == own


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/jobs/a0", "/v1/jobs/a0/history", "/v1/jobs/a0/tasks", "/v1/jobs/a0/explanation", "/v1/jobs?pool=/ads"),
        *("/v1/pools/ads", "/v1/pool-histories/ads", "/v1/queues/mapsque", "/v1/usage?pool=/ads"),
        *("/v1/hosts/h1", "/v1/hosts/h1/tasks", "/v1/hosts/h1/history", "/v1/slas?pool=/ads"),
    ],
)
def test_what_may_not_be_read_is_answered_as_where_it_isn_t(told: Api, alone: Api, path: str) -> None:
    with asking(OF_MAPS):
        here, there = told.client.get(path), alone.client.get(path)
    assert here.status_code == there.status_code in (404, 422)
    assert here.text == there.text


@pytest.mark.parametrize(
    "path", ["/v1/names?kind=job&prefix=a", "/v1/names?kind=pool&prefix=/", "/v1/names?kind=host&prefix=h", "/v1/usage"]
)
def test_search_and_sums_are_those_of_a_cell_without_the_rest(told: Api, alone: Api, path: str) -> None:
    with asking(OF_MAPS):
        assert told.get(path) == alone.get(path)


def test_a_host_is_seen_with_own_runs_alone(told: Api) -> None:
    told.cell.run("a1", host_id="h2")
    told.fold()
    with asking(OF_MAPS):
        [host] = told.get("/v1/hosts")["hosts"]
        tasks = told.get("/v1/hosts/h2/tasks")["tasks"]
    assert (host["host_id"], host["runs"], host["allocated"]) == ("h2", 1, {"cpu": 1, "memory": "512MiB"})
    assert [each["job_id"] for each in tasks] == ["m0"]
    assert told.get("/v1/hosts/h2")["runs"] == 2


def test_devices_and_cores_that_others_have_are_left_out(told: Api) -> None:
    host_with_cards(told.cell, "h2")
    told.cell.accept("m9", pool="/maps")
    run_with(told.cell, "m9", {"0": (400, 16384), "core/0": (1000, 0)}, "h2")
    run_with(told.cell, "a1", {"0": (300, 8192), "1": (1000, 40960), "core/1": (1000, 0)}, "h2")
    told.fold()
    with asking(OF_MAPS):
        host = told.get("/v1/hosts/h2")
    assert [(each["id"], each["used"], each["memory_used"]) for each in host["devices"]] == [("0", 0.4, "16GiB")]
    assert [each["job_id"] for each in host["devices"][0]["runs"]] == ["m9"]
    assert host["cores"] == []
    whole = told.get("/v1/hosts/h2")
    assert [(each["id"], each["used"]) for each in whole["devices"]][:2] == [("0", 0.7), ("1", 1)]
    assert [each["free"] for each in whole["cores"]] == [[], [2, 3]]


def test_a_run_reads_its_own_job_alone(told: Api) -> None:
    with asking(Identity(subject="job/m0", reads=(), reads_job="m0")):
        assert listed(told, "page_size=1") == [["m0"]]
        told.problem(told.client.get("/v1/jobs/m10"), 404, "NOT_FOUND")
        assert told.get("/v1/pools")["pools"] == []


def test_who_may_read_nothing_gets_empty_lists(told: Api) -> None:
    with asking(Identity(subject="eve", reads=())):
        assert listed(told, "") == [[]]
        assert told.get("/v1/hosts")["hosts"] == []


def test_what_one_reader_was_told_isn_t_kept_for_another(told: Api) -> None:
    for _ in range(2):
        assert len(listed(told, "page_size=100")[0]) == 33
        with asking(OF_MAPS):
            assert len(listed(told, "page_size=100")[0]) == 3


def test_connections_of_limited_readers_are_bounded(tmp_path: Path, told: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_reads, "KEPT_MAX", 2)
    views: Any = told.projector.views
    for pool in ("/maps", "/ads", "/mapsque", "/maps"):
        with asking(Identity(reads=(pool,))), views.read() as connection:
            assert connection.exec_driver_sql("SELECT DISTINCT pool FROM jobs").scalars().all() == [pool]
    assert sum(map(len, views._limited._idle.values())) == 2
    views._limited.close()
    with asking(OF_MAPS), views.read():
        pass
    assert not views._limited._idle


def test_a_role_over_own_pools_and_a_lockdown_that_binds_them_are_seen(told: Api) -> None:
    for key, pool in (("a", "/maps"), ("b", "/ads"), ("c", "/")):
        told.granted(
            RoleBound(command_id=key, binding_id=key, subject="ann", role="viewer", pool=pool),
            LockdownSet(command_id=key, pool=pool, locked=True, reason=pool),
            TokenIssued(command_id=key, token_id=key, subject="ann", token_hash=key.encode() * 32),
        )
    with asking(OF_MAPS), told.projector.views.read() as connection:
        assert [each.binding.pool for each in access.bindings(connection)] == ["/maps"]
        assert sorted(access.lockdowns(connection)) == ["/", "/maps"]
        assert access.tokens(connection) == []
    below = Identity(subject="ann", reads=("/maps/tiles",))
    with asking(below), told.projector.views.read() as connection:
        assert sorted(access.lockdowns(connection)) == ["/", "/maps"], "what binds it from above is seen"
