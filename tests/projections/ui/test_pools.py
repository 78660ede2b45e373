"""The pages of pools say what the API says, of cells that were played by seed; and what they leave out is a link."""

import json
import re
from html import unescape
from pathlib import Path

import pytest
from starlette.datastructures import QueryParams
from starlette.testclient import TestClient

from events.columns import pack_ints, pack_longs
from events.records.entitlement import EntitlementsSet, PoolAnswered
from events.records.placement import CapacityChanged, HostsReserved
from events.records.pools import PoolDefined
from paceline.job_files import read_pools
from projections.api.cell_router import create_cells_app
from projections.queries import entitlements
from projections.queries.log_time import newest_ms, oldest_ms
from projections.queries.pool_tree import pool_rows
from projections.queries.preemption_flows import flows
from projections.ui.app import add_ui
from projections.ui.pages import pool
from projections.ui.preemption_matrix import OTHERS, SIDE_MAX, matrix
from projections.ui.scene import opened
from projections.ui.time_bar import SHORTEST_MS
from tests.helpers.play import play
from tests.helpers.written_cell import held
from tests.projections.conftest import LISTEN, TOKEN, Api
from tests.projections.ui.sites import Rows, Site, busy_log, number, site


@pytest.mark.parametrize("seed", [1, 2])
def test_the_tree_says_what_the_api_says(tmp_path: Path, seed: int) -> None:
    with site(busy_log(seed), tmp_path) as shown:
        pools = {each["path"]: each for each in shown.api("/v1/pools")["pools"]}
        opened = [path for path in pools if any(other.startswith(f"{path}/") for other in pools)]
        rows = Rows(shown.page("/pools", open=opened, resource="cpu")).of("pool:")
        assert rows.keys() == pools.keys()
        for path, cells in rows.items():
            pool = pools[path]
            for place, name in ((3, "held"), (4, "without_hosts"), (5, "entitlement"), (6, "demand")):
                assert number(cells[place]) == pool[name].get("cpu", 0), (path, name)
            waiting = sum(line["tasks"] for each in _at_or_below(pools, path) for line in each["queue"].values())
            placing = sum(sum(each["waiting_for_place"].values()) for each in _at_or_below(pools, path))
            assert number(cells[-2]) == waiting + placing, path
            assert number(cells[-3]) == pool["open_jobs"], path


def _at_or_below(pools, path):
    return [each for other, each in pools.items() if other == path or other.startswith(f"{path}/")]


def test_a_pool_says_what_the_api_says(tmp_path: Path) -> None:
    with site(busy_log(1), tmp_path) as shown:
        for pool in shown.api("/v1/pools")["pools"]:
            path = pool["path"]
            page = shown.page(f"/pools{path}")
            amounts = {cells[0]: cells[2:] for _, cells in Rows(page).rows if len(cells) == 8}
            for name, title in (("cpu", "cpu"), ("memory", "memory GiB")):
                if title in amounts:
                    told = [number(text) for text in amounts[title] if text != "none"]
                    fields = ("reservation", "limit", "entitlement", "held", "without_hosts", "demand")
                    wanted = [
                        number(str(pool[each].get(name, 0))) for each in fields if each != "limit" or name in pool[each]
                    ]
                    assert told == pytest.approx(wanted, rel=0.001, abs=0.0006), (path, name)
            for lines in shown.api(f"/v1/entitlements{path}")["lines"].values():
                assert all(line in unescape(page) for line in lines)
            for line in shown.api(f"/v1/queues{path}?size=20")["classes"].values():
                assert all(gang["job_id"] in page for gang in line["gangs"])


def test_only_opened_levels_of_a_large_tree_are_shown(tmp_path: Path) -> None:
    api = Api(tmp_path)
    for team in range(30):
        api.pool(f"/t{team:02}")
        for leaf in range(6):
            api.pool(f"/t{team:02}/p{leaf}")
    with site(api.cell.log, tmp_path / "again") as shown:
        page = shown.page("/pools")
        assert len(Rows(page).of("pool:")) == 30
        toggle = re.search(r'href="([^"]+)"[^>]*aria-label="Open /t07,', page)[1].replace("&amp;", "&")
        rows = Rows(shown.client.get(toggle).text).of("pool:")
        assert len(rows) == 36
        assert "/t07/p3" in rows
    api.close()


def test_an_empty_cell_says_what_would_fill_it(tmp_path: Path) -> None:
    api = Api(tmp_path)
    with site(api.cell.log, tmp_path / "again") as shown:
        assert "paceline pool apply" in shown.page("/pools")
        assert "no pool /nowhere" in shown.page("/pools/nowhere", 404) or "/nowhere" in shown.page(
            "/pools/nowhere", 404
        )
    api.close()


BESIDE_A_DAEMON = """
end: 10m
hosts: [{name: h, count: 2, resources: {cpu: 3}}]
pools: [{path: /maps}, {path: /ads}, {path: /idle}, {path: /system}]
jobs:
  - {job_id: exporter, pool: /system, kind: daemon, resources: {cpu: 0.05}, sim: {duration: 10h}}
  - {job_id: maps, at: 10s, pool: /maps, instances: 30, resources: {cpu: 0.4}, sim: {duration: 3m}}
  - {job_id: ads, at: 20s, pool: /ads, instances: 30, resources: {cpu: 0.4}, sim: {duration: 3m}}
"""


def test_a_pool_beside_a_daemon_says_how_its_entitlement_came_about(tmp_path: Path) -> None:
    nothing = "It may use nothing, since it wants nothing."
    with site(play(BESIDE_A_DAEMON).run.cell.log, tmp_path) as shown:
        page = unescape(shown.page("/pools/ads"))
        assert "of 5.9 cpu, the cell's 6 cpu without the 0.1 cpu of daemons" in page
        assert entitlements.STALE not in page
        assert nothing not in page
        assert nothing in unescape(shown.page("/pools/idle"))


HOSTILE = "\"'><script>hostile=1</script>\u202e\x07{{7*7}}\nEND\nrm -rf ~"


def test_what_owners_write_is_text_and_stays_inside_its_command(tmp_path: Path) -> None:
    api = Api(tmp_path)
    api.pool("/p", description=HOSTILE, owners=(HOSTILE,), reservation={"cpu": 1500})
    with site(api.cell.log, tmp_path / "again") as shown:
        page = shown.page("/pools/p")
        assert "<script>hostile" not in page
        assert "\u202e" not in page
        command = re.search(r"paceline pool apply - &lt;&lt;(.*?)</pre>", page, re.S)[1]
        assert command.count("\nEND") == 1
        assert command.endswith("\nEND")
    api.close()


def test_the_page_of_a_pool_tells_the_delay_that_the_cell_keeps_to(tmp_path: Path) -> None:
    api = Api(tmp_path)
    api.pool("/p", preemption_delay_ms=0)
    with site(api.cell.log, tmp_path / "again") as shown:
        delay = re.search(r"Preemption delay</dt><dd>(.*?)</dd>", shown.page("/pools/p"), re.S)[1]
        assert re.sub(r"<.*?>", "", delay).strip() == "1 s"
    api.close()


def test_the_command_that_is_shown_makes_the_pool_as_it_is(tmp_path: Path) -> None:
    pool = PoolDefined(
        path="/p", command_id="c", reservation={"cpu": 1500, "memory": 2048}, limit={"cpu": 20_000}, share={"cpu": 3},
        share_default=2, static=("cpu",), preemption_delay_ms=5000, closed=True, owners=(HOSTILE,), open_jobs_max=5,
        description=HOSTILE, strategy="default",
    )  # fmt: skip
    api = Api(tmp_path)
    api.pool(
        "/p", **{name: getattr(pool, name) for name in pool.__struct_fields__ if name not in ("path", "command_id")}
    )
    with site(api.cell.log, tmp_path / "again") as shown:
        shown_text = unescape(shown.page("/pools/p"))
        file = tmp_path / "pool.yaml"
        file.write_text(
            re.search(r"apply - <<'END'\n(.*?)^END$|apply - <<'END'\n(.*?)\nEND</pre>", shown_text, re.S)[2]
        )
        assert 'share: {"cpu": 3' in file.read_text()
        [read] = read_pools([str(file)])
        assert read.spec.to_event(read.path, "c", 0) == pool
    api.close()


def test_a_share_is_shown_as_it_is_written(tmp_path: Path) -> None:
    api = Api(tmp_path)
    api.pool("/p", share_default=3)
    with site(api.cell.log, tmp_path / "again") as shown:
        assert "\nshare: 3\n" in unescape(shown.page("/pools/p"))
    api.close()


def test_plots_of_a_young_cell_fill_their_width(tmp_path: Path) -> None:
    with site(busy_log(1), tmp_path) as shown:
        contexts = {0: shown.client.app.state.context}
        with opened(contexts, {"path": "maps/tiles"}, QueryParams(), 0) as scene:
            connection = scene.first().connection
            newest, oldest = newest_ms(connection), oldest_ms(connection)
            [plot, *_] = pool.load(scene._replace(now_ms=newest))["plots"].values()
    assert (newest - oldest) < SHORTEST_MS
    assert newest - SHORTEST_MS - 60_000 <= plot["times"][0] * 1000 <= oldest


def test_a_resource_that_no_pool_uses_has_no_column(tmp_path: Path) -> None:
    with site(busy_log(1), tmp_path) as shown:
        assert shown.api("/v1/pools")["cells"][0]["capacity"].get("disk")
        titles = re.findall(r"<th[^>]*>(?:<[^>]*>)*([^<]+)", shown.page("/pools").split("<tbody>")[0])
    assert not any("disk" in title for title in titles)
    assert any("memory" in title for title in titles)


def test_a_pool_belongs_to_one_cell(tmp_path: Path) -> None:
    api = Api(tmp_path)
    at = api.cell.fact(PoolDefined(path="/far", command_id="c", cell=3))
    api.cell.decide("entitlement", PoolAnswered(path="/far", pools_offset=at, command_id="c", code="DONE"))
    with site(api.cell.log, tmp_path / "again") as shown:
        assert "/far" not in Rows(shown.page("/pools")).of("pool:")
        shown.page("/pools/far", 404)
    api.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_every_preemption_is_in_the_matrix_once(tmp_path: Path, seed: int) -> None:
    with site(busy_log(seed), tmp_path) as shown, shown.projector.views.read() as connection:
        found = flows(connection, 0)
        orders = [
            runs for (runs,) in connection.exec_driver_sql("SELECT victims FROM orders WHERE answer IN ('', 'LEFT')")
        ]
        assert sum(found.values()) == sum(orders)
        told = matrix(found)
        assert (told["sum"] if told else 0) == sum(orders)


def test_many_pools_stand_together_in_the_matrix() -> None:
    found = {(f"/a{loser}", f"/b{winner}"): 1 + loser for loser in range(20) for winner in range(15)}
    told = matrix(found)
    assert told is not None
    assert len(told["heads"]) == len(told["rows"]) == SIDE_MAX
    assert told["heads"][-1] == told["rows"][-1]["name"] == OTHERS
    assert sum(each["sum"] for each in told["rows"]) == sum(found.values()) == told["sum"]
    assert told["rows"][0]["name"] == "/a19"


@pytest.mark.parametrize("seed", [1, 2])
def test_how_an_entitlement_came_about_follows_from_the_pools_along_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    with site(busy_log(seed), tmp_path) as shown, shown.projector.views.read() as connection:
        paths = [each["path"] for each in shown.api("/v1/pools")["pools"]]
        told = [entitlements.entitlement_json(connection, 0, path)["lines"] for path in paths]
        monkeypatch.setattr(entitlements, "_along", lambda connection, _: pool_rows(connection))
        assert told == [entitlements.entitlement_json(connection, 0, path)["lines"] for path in paths]
        assert any(told)


def test_hosts_that_are_drained_for_a_gang_are_named_with_its_pool(tmp_path: Path) -> None:
    api = Api(tmp_path)
    api.pool("/p")
    api.cell.accept("wide", instances=2, pool="/p")
    unit = {"job_id": "wide", "first": 0, "count": 2, "run": 1}
    reserved = {**unit, "host_ids": ("h1", "h2"), "tasks": pack_ints([1, 1]), "until_ms": api.cell.ms + 9}
    api.cell.decide("placement", HostsReserved(**reserved, kept={"cpu": 500}, state="RESERVED"))
    with site(api.cell.log, tmp_path / "again") as shown:
        assert "2 hosts are reserved for 2 tasks" in shown.page("/pools/p")
    api.close()


def folder(above: Path, cell: int) -> Path:
    (above / str(cell)).mkdir()
    return above / str(cell)


def test_each_cell_has_a_tree_of_its_own_pools(tmp_path: Path) -> None:
    cells = {cell: Api(folder(tmp_path, cell), cell) for cell in (0, 1)}
    for cell, api in cells.items():
        for path, owner in (("/here", 0), ("/there", 1)):
            api.pool(path, cell=owner)
        api.cell.host(f"h{cell}")
        api.fold()
    app = create_cells_app({cell: api.app for cell, api in cells.items()})
    add_ui(app, {cell: api.app.state.context for cell, api in cells.items()}, TOKEN)
    client = TestClient(app, f"http://{LISTEN}")
    both = client.get("/ui/pools").text
    assert both.index("Cell 0") < both.index('id="pool:/here"') < both.index("Cell 1") < both.index('id="pool:/there"')
    assert Rows(client.get("/ui/pools?cell=1").text).of("pool:").keys() == {"/there"}
    assert "cell 1" in client.get("/ui/pools/there").text
    assert Rows(client.get("/ui/hosts?cell=1").text).of("host:").keys() == {"h1"}
    assert client.get("/ui/data/hosts?cell=1").json()["ids"] == ["h1"]
    assert client.get("/ui/hosts/h1").status_code == 200
    for api in cells.values():
        api.close()


def test_the_overview_counts_as_held_what_has_hosts_and_says_apart_what_was_admitted_without(tmp_path: Path) -> None:
    api = Api(tmp_path)
    api.pool("/p")
    api.cell.decide("placement", CapacityChanged(capacity={"cpu": 4000}, hosts=1, version=1))
    amounts = {"entitlement": 5000, "demand": 6000, "allocation": 5000, "placed": 4000}
    columns = {name: pack_longs([value] * 2) for name, value in amounts.items()}
    api.cell.decide("entitlement", EntitlementsSet(pools=("/", "/p"), resources=("cpu",), **columns))
    with site(api.cell.log, tmp_path / "again") as shown:
        page = shown.page("/")
        plot = json.loads(re.search(r'id="plot-pools">(.*?)</script>', page)[1])
        last = {each["name"]: each["values"][-1] for each in plot["series"]}
        assert last == {"/p": 4, "capacity": 4, "without hosts": 1}
        assert "4 of 4 cores, 1 without hosts" in page
        [row] = Rows(shown.page("/pools")).of("pool:").values()
        assert [number(cell) for cell in row[3:7]] == [4, 1, 5, 6]
    api.close()


def verdict_of(shown: Site, path: str) -> str:
    return Rows(shown.page("/pools", open=["/ads"])).of("pool:")[path][1].strip()


def test_a_limit_counts_where_it_is_and_tells_one_large_gang_from_a_full_pool(tmp_path: Path) -> None:
    api = Api(tmp_path)
    api.pool("/ads")
    api.pool("/ads/web", limit={"cpu": 4000})
    api.cell.accept("wide", instances=2, pool="/ads/web")
    api.cell.decide("entitlement", held("wide", (0, 1), "LIMIT_REACHED", pool="/ads/web", at="/ads/web"))
    with site(api.cell.log, tmp_path / "again") as shown:
        assert verdict_of(shown, "/ads/web") == "2 tasks ask for more than its limit"
        assert "limit" not in verdict_of(shown, "/ads")
        assert "Turn" not in shown.page("/pools/ads/web")
        assert "2 min</a>, that of the cell" in shown.page("/pools/ads/web")
    api.close()
