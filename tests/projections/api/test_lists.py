"""Lists of jobs, hosts, pools and tasks: how they are filtered, ordered and paged, by whatever way one asks."""

import re
from itertools import chain, pairwise

import pytest

from paceline.cli.main import run
from paceline.client.client import Client
from projections.queries.host_list import HostFilter, host_rows
from projections.ui.app import add_ui
from tests.helpers.written_cell import ended, ordered
from tests.paceline.fake import served
from tests.projections.conftest import TOKEN


def ids(body, name, key):
    return [each[key] for each in body[name]]


def pages_of(api, path, name, key, size=10, between=lambda: None):
    """The pages of a list, each asked for with the token of the one before; `between` is called after each."""
    pages, token = [], ""
    while True:
        body = api.get(f"{path}{'&' if '?' in path else '?'}page_size={size}{token and f'&page_token={token}'}")
        pages.append(ids(body, name, key))
        token = body["next_page_token"]
        if not token:
            return pages
        between()


def test_a_pool_that_is_not_there_is_no_filter_and_the_nearest_is_named(api):
    api.pool("/maps")
    api.pool("/maps/tiles")
    api.cell.accept("kept", pool="/was")
    api.fold()
    for path in ("/v1/jobs", "/v1/pools"):
        told = api.problem(api.client.get(path, params={"pool": "/maps/tile"}), 422, "NO_SUCH_POOL")
        assert told["detail"] == "there is no pool /maps/tile; did you mean /maps/tiles?"
        assert told["errors"][0]["pointer"] == "/query/pool"
        assert api.get(path, params={"pool": "/maps"})["next_page_token"] == ""
        assert api.get(path, params={"pool": "/"})["next_page_token"] == ""
    told = api.problem(api.client.get("/v1/jobs", params={"pool": "/xyz"}), 422, "NO_SUCH_POOL")
    assert told["detail"] == "there is no pool /xyz"
    assert ids(api.get("/v1/jobs?pool=/was"), "jobs", "job_id") == ["kept"], "a pool that was removed has jobs"
    told = api.problem(api.client.get("/v1/pools/maps/tile"), 404, "NOT_FOUND")
    assert told["detail"] == "there is no pool /maps/tile; did you mean /maps/tiles?"
    told = api.client.post("/v1/jobs", json={"job_id": "a", "pool": "/maps/tile", "command": ["true"]}).json()
    assert told["code"] == "NO_SUCH_POOL"
    assert told["detail"].endswith("; did you mean /maps/tiles?")


def test_hosts_stand_in_their_natural_order_and_are_filtered(api):
    names = ["sim-10", "sim-2", "sim-1", "sim-1a", "b-7", "sim-02", "x9y10", "x9y9"]
    for host_id in names:
        api.cell.host(host_id, rack=f"r{len(host_id)}", **{"zo.ne": 'a"b'})
    api.fold()
    natural = ["b-7", "sim-1", "sim-1a", "sim-02", "sim-2", "sim-10", "x9y9", "x9y10"]
    assert ids(api.get("/v1/hosts"), "hosts", "host_id") == natural
    for size in (1, 3, 4, 8):
        pages = pages_of(api, "/v1/hosts", "hosts", "host_id", size)
        assert list(chain(*pages)) == natural
        assert len(pages) == -(-8 // size), "no page more than there are hosts for"

    def found(**query):
        return ids(api.get("/v1/hosts", params=query), "hosts", "host_id")

    assert found(text="SIM-1") == ["sim-1", "sim-1a", "sim-10"]
    assert found(attribute="rack:r5") == ["sim-1", "sim-2", "x9y10"]
    assert found(attribute=["rack:r5", 'zo.ne:a"b'], text="x") == ["x9y10"]
    assert found(attribute="rack:r") == []
    by_state = {}
    for host in api.get("/v1/hosts")["hosts"]:
        by_state.setdefault(host["state"], []).append(host["host_id"])
    for state, hosts in by_state.items():
        assert found(state=state.lower()) == hosts
    assert found(state=",".join(by_state)) == natural
    api.problem(api.client.get("/v1/hosts?state=happy"), 422, "INVALID_REQUEST")
    api.problem(api.client.get("/v1/hosts?attribute=rack"), 422, "INVALID_REQUEST")


def test_tasks_are_filtered_by_host_and_by_ranges(api):
    api.cell.host("h1")
    api.cell.host("h2")
    api.cell.host("host-11")
    api.cell.accept("a", instances=1200)
    api.cell.decide("lifecycle", ordered("a", (0, 5, 600, 1199), 1, "h2"), ordered("a", (3,), 1, "h1"))
    api.cell.decide("lifecycle", ended("a", (5,), 3))
    api.fold()

    def found(**query):
        return ids(api.get("/v1/jobs/a/tasks", params={"page_size": 1000, **query}), "tasks", "instance")

    assert found(host="h1") == [3]
    assert found(host="h2") == [0, 5, 600, 1199]
    assert found(instances="1198-1300,3,510-513") == [3, 510, 511, 512, 513, 1198, 1199]
    assert found(instances="0-700", host="h2", state="ordered") == [0, 600]
    assert pages_of(api, "/v1/jobs/a/tasks?host=h2", "tasks", "instance", 2) == [[0, 5], [600, 1199]]
    told = api.problem(api.client.get("/v1/jobs/a/tasks?host=h3"), 422, "NOT_FOUND")
    assert told["detail"] == "there is no host h3"
    told = api.problem(api.client.get("/v1/jobs/a/tasks?host=host-1"), 422, "NOT_FOUND")
    assert told["errors"] == [{"pointer": "/query/host", "message": "there is no host host-1; did you mean host-11?"}]
    for wrong in ("x", "5-3", "1,,2"):
        api.problem(api.client.get("/v1/jobs/a/tasks", params={"instances": wrong}), 422, "INVALID_REQUEST")


def test_pools_are_filtered_and_paged_and_a_parent_counts_the_jobs_below_it(api):
    for path in ("/a", "/a/x", "/a/y", "/a-b", "/c"):
        api.pool(path)
    api.cell.accept("one", pool="/a/x", instances=2)
    api.cell.accept("two", pool="/a/y", instances=3)
    api.fold()
    assert pages_of(api, "/v1/pools", "pools", "path", 2) == [["/a", "/a-b"], ["/a/x", "/a/y"], ["/c"]]
    assert pages_of(api, "/v1/pools?pool=/a", "pools", "path", 3) == [["/a", "/a/x", "/a/y"]]
    assert ids(api.get("/v1/pools?text=X"), "pools", "path") == ["/a/x"]
    of = {each["path"]: (each["open_jobs"], each["open_tasks"]) for each in api.get("/v1/pools")["pools"]}
    assert of == {"/a": (2, 5), "/a/x": (1, 2), "/a/y": (1, 3), "/a-b": (0, 0), "/c": (0, 0)}
    assert api.get("/v1/pools/a")["open_jobs"] == 2


def test_names_are_found_by_how_they_begin(api):
    api.pool("/maps")
    api.cell.host("worker-1")
    for job_id in ("tiles-2", "tiles-1", "web"):
        api.cell.accept(job_id, pool="/maps")
    api.fold()
    assert api.get("/v1/names?kind=job&prefix=ti") == {"names": ["tiles-1", "tiles-2"]}
    assert api.get("/v1/names?kind=job&page_size=1") == {"names": ["tiles-1"]}
    assert api.get("/v1/names?kind=pool&prefix=/") == {"names": ["/maps"]}
    assert api.get("/v1/names?kind=host&prefix=w") == {"names": ["worker-1"]}
    api.problem(api.client.get("/v1/names?kind=dog"), 422, "INVALID_REQUEST")


@pytest.fixture
def full(api):
    """A cell of a hundred jobs, a fifth of them of ann, of hosts, pools and tasks."""
    for number in range(100):
        api.cell.accept(f"j{number}", pool=f"/p{number % 5}", owner="ann" if number % 5 == 0 else "bob")
        api.cell.host(f"sim-{number}", rack=f"r{number % 5}")
        if number < 20:
            api.pool(f"/p{number}")
    api.cell.accept("wide", pool="/p1", instances=100)
    api.fold()
    return api


def test_a_full_last_page_promises_no_other(full):
    for path, name, key, count in (
        ("/v1/jobs?owner=ann", "jobs", "job_id", 20),
        ("/v1/jobs?text=j", "jobs", "job_id", 100),
        ("/v1/hosts", "hosts", "host_id", 100),
        ("/v1/hosts?attribute=rack:r3", "hosts", "host_id", 20),
        ("/v1/pools", "pools", "path", 20),
        ("/v1/jobs/wide/tasks", "tasks", "instance", 100),
    ):
        pages = pages_of(full, path, name, key)
        assert [len(page) for page in pages] == [10] * (count // 10), path


def test_what_is_there_all_the_time_stands_in_one_page_while_others_come_change_and_go(full):
    api, step = full, iter(range(100))

    def meanwhile():
        number = next(step)
        api.cell.accept(f"new{number}", pool="/p0", owner="ann")
        api.cell.changed("SUCCEEDED", f"j{number * 7}")
        api.cell.changed("SUCCEEDED", f"j{99 - number * 3}")
        api.cell.forget(f"j{99 - number * 3}", f"j{50 + number}")
        api.cell.host(f"aa-{number}")
        api.cell.host(f"sim-{number}b")
        api.cell.decide("lifecycle", ordered("wide", (99 - number,), 1, "sim-1"))
        api.pool(f"/p{number}n")
        api.fold()

    def kept():
        return {
            "/v1/jobs?text=j": set(ids(api.get("/v1/jobs?text=j&page_size=1000"), "jobs", "job_id")),
            "/v1/jobs?owner=ann": set(ids(api.get("/v1/jobs?owner=ann&page_size=1000"), "jobs", "job_id")),
            "/v1/hosts": set(ids(api.get("/v1/hosts?page_size=1000"), "hosts", "host_id")),
            "/v1/pools": set(ids(api.get("/v1/pools"), "pools", "path")),
            "/v1/jobs/wide/tasks": set(ids(api.get("/v1/jobs/wide/tasks?page_size=1000"), "tasks", "instance")),
        }

    for path, name, key in (
        ("/v1/jobs?text=j", "jobs", "job_id"),
        ("/v1/jobs?owner=ann", "jobs", "job_id"),
        ("/v1/hosts", "hosts", "host_id"),
        ("/v1/pools", "pools", "path"),
        ("/v1/jobs/wide/tasks", "tasks", "instance"),
    ):
        before = kept()[path]
        pages = pages_of(api, path, name, key, between=meanwhile)
        seen = list(chain(*pages))
        assert len(seen) == len(set(seen)), f"{path}: once"
        assert before & kept()[path] <= set(seen), f"{path}: each that was there all the time"
        assert all(pages)


def test_page_command_iterator_and_api_list_the_same_at_one_position(full, capsys, monkeypatch):
    api = full
    add_ui(api.app, {0: api.app.state.context}, None)

    def page_of_ui(path):
        found, link = [], path
        while link:
            text = api.client.get(link).text
            found += re.findall(r'class="id" href="[^"]*/(?:jobs|hosts)/([^"?]+)[^"]*"', text)
            after = re.search(r'href="([^"]*)"[^>]*>(?:Next \d|next hosts after)', text)
            link = after[1].replace("&amp;", "&") if after else None
            assert len(found) < 500
        return list(dict.fromkeys(found))

    told = api.client.get("/ui/jobs?pool=/p1x").text
    assert "There is no pool /p1x; did you mean /p1" in told
    with served(api.app) as address:
        monkeypatch.setenv("PACELINE_SERVER", address)
        monkeypatch.setenv("PACELINE_TOKEN", TOKEN)

        def listed(*words):
            assert run([*words, "-o", "name"]) == 0
            said = capsys.readouterr()
            return said.out.split(), said.err

        with Client(address, TOKEN) as client:
            of_python = [job["job_id"] for job in client.jobs(owners=["ann"], page_size=10)]
            hosts = [host["host_id"] for host in client.hosts(page_size=10)]
            tasks = [f"wide/{task['instance']}" for task in client.tasks("wide", page_size=10)]
            pools = [pool["path"] for pool in client.pools()]
        by_api = list(chain(*pages_of(api, "/v1/jobs?owner=ann", "jobs", "job_id")))
        assert by_api == of_python == [f"j{number}" for number in range(95, -1, -5)]
        assert listed("job", "list", "--owner", "ann", "--page-size", "10", "--limit", "100") == (by_api, "")
        assert page_of_ui("/ui/jobs?owner=ann") == by_api
        assert hosts == [f"sim-{number}" for number in range(100)]
        assert listed("host", "list", "--page-size", "10", "--limit", "100") == (hosts, "")
        assert listed("host", "list")[0] == hosts
        assert page_of_ui("/ui/hosts") == hosts
        assert listed("job", "tasks", "wide", "--limit", "100", "--page-size", "10") == (tasks, "")
        assert listed("pool", "list", "--limit", "20", "--page-size", "10") == (pools, "")
        ten, more = listed("host", "list", "--limit", "10", "--page-size", "3")
        assert ten == hosts[:10]
        token = more.split()[-1]
        assert listed("host", "list", "--page-token", token, "--page-size", "5")[0] == hosts[10:15]


def test_a_cursor_of_another_list_or_filter_is_refused(full):
    token = full.get("/v1/hosts?page_size=10")["next_page_token"]
    for path in (
        "/v1/hosts?state=up",
        "/v1/hosts?attribute=rack:r1",
        "/v1/jobs?",
        "/v1/pools?",
        "/v1/jobs/wide/tasks?",
    ):
        told = full.problem(full.client.get(f"{path}&page_token={token}"), 422, "BAD_PAGE_TOKEN")
        assert told["errors"][0]["pointer"] == "/query/page_token"


def test_hosts_of_many_pages_are_found_by_an_index(full):
    with full.projector.views.read() as connection:
        first = host_rows(connection, HostFilter(), 10, "")
        assert first.more
        plan = connection.exec_driver_sql(
            "EXPLAIN QUERY PLAN SELECT * FROM hosts WHERE (place, host_id) > ('a', 'a') ORDER BY place, host_id LIMIT 9"
        ).all()
    assert any("hosts_by_place" in str(row) for row in plan)
    assert all("TEMP B-TREE" not in str(row) for row in plan)
    assert all(a.place < b.place for a, b in pairwise(first.rows))
