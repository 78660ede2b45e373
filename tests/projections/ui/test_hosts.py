"""The pages of hosts: the map is what a fold over the API's hosts gives, and an operator's word reaches the log."""

import base64
import math
import random
import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from events.codec import decode
from events.codes import Outcome
from events.records.hosts import HostConnected, HostLossConfirmed, HostOffered, HostSilent, HostVolumes
from events.records.parts import Volume
from events.records.placement import HostAnswered, HostAvoided, HostLost
from events.topics import HOSTS
from projections.queries.host_map import NONE, STATES, STEPS, HostMaps
from projections.queries.host_runs import host_runs
from projections.queries.pages import rows_of
from projections.queries.runs import task_runs
from projections.ui.app import add_ui
from projections.views import tables
from projections.views.rows import HostRow, JobRow
from tests.helpers.written_cell import Cell, ended
from tests.projections.conftest import LISTEN, TOKEN, Api
from tests.projections.ui.sites import Rows, Site, busy_log, site

HOSTILE = "\"'><script>hostile=1</script>\u202e\x07{{7*7}}"


def drawn(seed: int) -> Cell:
    """A cell of hosts in all states, full and empty, with and without attributes."""
    draw, cell = random.Random(seed), Cell()
    for number in range(40):
        name = f"h{number}"
        cell.fact(HostConnected(host_id=name, session=1, gateway="g"))
        if draw.random() < 0.9:
            capacity = {"cpu": draw.choice([4000, 16_000]), "memory": 4096} | ({"gpu": 2000} if number % 5 == 0 else {})
            rack = {"rack": f"r{draw.randrange(4)}"} if draw.random() < 0.9 else {}
            cell.fact(HostOffered(host_id=name, session=1, capacity=capacity, attributes={**rack, "hostname": name}))
        if draw.random() < 0.2:
            cell.fact(HostSilent(host_id=name, session=1))
    cell.host("runs", cpu=8000)
    cell.accept("a", instances=4, resources={"cpu": 1.5, "memory": "700MiB"})
    cell.run("a", (0, 1, 2), host_id="runs")
    lost = [HostLost(host_id=f"h{each}", session=1, code="SILENT", silent_ms=1) for each in draw.sample(range(40), 5)]
    avoided = [HostAvoided(host_id="runs", code="FAILS_AT_ONCE", until_ms=cell.ms + 1000)] if seed % 2 else []
    cell.decide("placement", *lost, *avoided)
    return cell


def all_hosts(shown: Site) -> list[dict]:
    hosts, token = [], ""
    while True:
        page = shown.api(f"/v1/hosts?page_size=17&page_token={token}")
        hosts += page["hosts"]
        token = page["next_page_token"]
        if not token:
            return hosts


def column(text: str, kind: type = np.uint8) -> list[int]:
    return np.frombuffer(base64.b64decode(text), kind).tolist()


def amount(value) -> float:
    """An amount of the API in thousandths or MiB."""
    sizes = {"MiB": 1, "GiB": 1024, "TiB": 1 << 20}
    return float(value[:-3]) * sizes[value[-3:]] if isinstance(value, str) else value * 1000


def share_of(host: dict, name: str) -> int:
    most = amount(host["capacity"].get(name, 0))
    return min(100, int(100 * amount(host["allocated"].get(name, 0)) // most)) if most else NONE


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_columns_of_the_map_are_a_fold_over_the_hosts(tmp_path: Path, seed: int) -> None:
    log = busy_log(1) if seed == 3 else drawn(seed).log
    with site(log, tmp_path) as shown:
        hosts = all_hosts(shown)
        told = shown.client.get("/ui/data/hosts?by=rack").json()
        assert told["ids"] == [host["host_id"] for host in hosts]
        assert [STATES[each] for each in column(told["state"])] == [host["state"] for host in hosts]
        for name, text in told["shares"].items():
            assert column(text) == [share_of(host, name) for host in hosts], name
        if any("rack" in host["attributes"] for host in hosts):
            groups = [told["groups"][each] for each in column(told["group"], np.uint16)]
            assert groups == [host["attributes"].get("rack", "") for host in hosts]
        page = shown.page("/hosts")
        counts = Counter(host["state"] for host in hosts)
        for state, count in counts.items():
            assert re.search(rf"{state.capitalize()}</span></span> {count}<", page), state


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_host_that_is_up_is_in_one_step_and_a_step_filters(tmp_path: Path, seed: int) -> None:
    with site(drawn(seed).log, tmp_path) as shown:
        hosts = [host for host in all_hosts(shown) if host["state"] == "UP" and share_of(host, "cpu") != NONE]
        steps = Counter(min(STEPS - 1, share_of(host, "cpu") // 10) for host in hosts)
        told = {}
        for step in range(STEPS):
            page = shown.page("/hosts", show="cpu", step=step)
            rows = Rows(page).of("host:")
            assert rows.keys() == {h["host_id"] for h in hosts if min(STEPS - 1, share_of(h, "cpu") // 10) == step}
            told = dict(re.findall(r'(\d+) to \d+ %</span>.*?class="n">(\d+)<', page))
        assert {int(low) // 10: int(count) for low, count in told.items() if count != "0"} == steps


def test_filters_leave_what_they_name_and_pages_go_on(tmp_path: Path) -> None:
    cell = drawn(1)
    for number in range(60):
        cell.fact(HostConnected(host_id=f"more-{number:02}", session=1, gateway="g"))
    with site(cell.log, tmp_path) as shown:
        hosts = all_hosts(shown)
        for rack in ("r0", "r3"):
            rows = Rows(shown.page("/hosts", q=f"rack={rack}")).of("host:")
            assert rows.keys() == {host["host_id"] for host in hosts if host["attributes"].get("rack") == rack}
        assert Rows(shown.page("/hosts", state="SILENT")).of("host:").keys() == {
            host["host_id"] for host in hosts if host["state"] == "SILENT"
        }
        first = shown.page("/hosts", q="more-")
        following = re.search(r'href="([^"]+)">next hosts after', first)[1].replace("&amp;", "&")
        seen = [*Rows(first).of("host:"), *Rows(shown.client.get(following).text).of("host:")]
        assert seen == [f"more-{number:02}" for number in range(60)]
        dim = shown.client.get("/ui/data/hosts?q=more-").json()
        assert sum(column(dim["match"])) == 60


def test_headroom_counts_what_fits_on_hosts_that_are_up(tmp_path: Path) -> None:
    with site(drawn(2).log, tmp_path) as shown:
        up = [host for host in all_hosts(shown) if host["state"] == "UP"]
        free = [amount(h["capacity"].get("cpu", 0)) - amount(h["allocated"].get("cpu", 0)) for h in up]
        rows = {cells[0]: cells for _, cells in Rows(shown.page("/hosts", show="cpu")).rows if len(cells) == 4}
        for size in (1, 2, 4, 8):
            bound, fit = (int(each.replace(",", "")) for each in rows[str(size)][1:3])
            assert (bound, fit) == (int(sum(free)) // (size * 1000), sum(int(each) // (size * 1000) for each in free))


def test_a_host_shows_its_runs_and_tasks(tmp_path: Path) -> None:
    cell = drawn(2)
    cell.ms += 60_000
    cell.decide("lifecycle", ended("a", (0,), Outcome.SUCCEEDED))
    with site(cell.log, tmp_path) as shown:
        page = shown.page("/hosts/runs")
        tasks = Rows(page).of("task:")
        assert tasks.keys() == {f"a:{task['instance']}" for task in shown.api("/v1/hosts/runs/tasks")["tasks"]}
        assert len(tasks) == 2
        shown.page("/hosts/nobody", 404)


def test_volumes_of_a_host_have_ages(tmp_path: Path) -> None:
    cell = Cell()
    cell.host("h1")
    cell.fact(HostVolumes(host_id="h1", session=1, volumes=(Volume("db", 0, "data", 1000),)))
    with site(cell.log, tmp_path) as shown:
        page = shown.page("/hosts/h1")
    assert "<dt>Connected since</dt>" in page
    assert ">Session<" not in page, "numbers of sessions mean nothing to anybody"
    made = 'datetime="1970-01-01T00:00:01.000Z" title="1970-01-01T00:00:01.000Z">'
    assert re.search(rf"{made}[\d,]+ d ago</time>", page)


def test_the_runs_of_hosts_are_those_of_all_tasks(tmp_path: Path) -> None:
    with site(busy_log(1), tmp_path) as shown, shown.projector.views.read() as connection:
        told = Counter()
        for row in rows_of(connection, HostRow, select(tables.hosts)):
            for run in host_runs(connection, row, 0):
                told[row.host_id, run.job_id, run.instance, run.run, run.outcome or None, run.ended_s] += 1
        wanted = Counter()
        for job in rows_of(connection, JobRow, select(tables.jobs)):
            for instance in range(job.instances):
                for run in task_runs(connection, job, instance):
                    if run["host_id"]:
                        ended_s = datetime.fromisoformat(run["ended_at"]).timestamp() if run["ended_at"] else 0
                        key = (run["host_id"], job.job_id, instance, run["run"], run["outcome"], int(ended_s))
                        wanted[key] += 1
        assert told == wanted
        assert {"PREEMPTED", "SUCCEEDED", None} <= {outcome for *_, outcome, _ in told}


def test_an_empty_cell_says_what_would_fill_it(tmp_path: Path) -> None:
    with site(Cell().log, tmp_path) as shown:
        assert "paceline agent" in shown.page("/hosts")
        assert shown.client.get("/ui/data/hosts").json()["ids"] == []


def test_what_agents_say_is_text(tmp_path: Path) -> None:
    cell = Cell()
    cell.fact(HostConnected(host_id="h1", session=1, gateway=HOSTILE))
    attributes = {"rack": HOSTILE, "note": HOSTILE}
    cell.fact(HostOffered(host_id="h1", session=1, capacity={"cpu": 1000}, attributes=attributes))
    with site(cell.log, tmp_path) as shown:
        page = shown.page("/hosts", by="rack", q="h")
        assert shown.client.get("/ui/data/hosts?by=rack").json()["ids"] == ["h1"]
        for text in (page, shown.page("/hosts/h1")):
            assert "<script>hostile" not in text
            assert "\u202e" not in text
            assert "7*7" in text


def test_a_word_about_a_host_names_it_asks_a_reason_and_says_what_was_answered(tmp_path: Path) -> None:
    api = Api(tmp_path)
    add_ui(api.app, {0: api.app.state.context}, TOKEN)
    api.cell.host("h1")
    api.cell.fact(HostSilent(host_id="h1", session=1))
    api.fold()
    client = TestClient(api.app, f"http://{LISTEN}", follow_redirects=False)
    assert client.get("/ui/hosts/h1/confirm-loss").status_code == 303
    client.post("/ui/sign-in", data={"token": TOKEN})
    page = client.get("/ui/hosts/h1/confirm-loss").text
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.partition('class="ask"')[2]))
    end = api.cell.log.bounds(HOSTS.name)[1]
    assert client.post("/ui/hosts/h1/confirm-loss", data={**fields, "reason": " "}).status_code == 422
    assert client.get("/ui/hosts/h1/no-word").status_code == 404
    assert api.cell.log.bounds(HOSTS.name)[1] == end

    def answer(offset: int, event: Any) -> tuple[HostAnswered]:
        about = {"host_id": event.host_id, "hosts_offset": offset, "command_id": event.command_id}
        return (HostAnswered(**about, code="DONE", message="it is lost"),)

    api.answer(HOSTS.name, "placement", answer)
    told = client.post("/ui/hosts/h1/confirm-loss", data={**fields, "reason": "burnt"})
    assert told.status_code == 200
    assert "it is lost" in told.text
    [record] = api.cell.log.scan(HOSTS.name, end)
    said = decode(record.value)
    assert isinstance(said, HostLossConfirmed)
    assert (said.host_id, said.reason, said.command_id) == ("h1", "burnt", fields["command_id"])
    api.close()


def test_a_large_map_is_made_anew_beside_its_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell, maps = drawn(1), HostMaps()
    with site(cell.log, tmp_path) as shown:
        views = shown.projector.views

        def seen() -> list[str]:
            with views.read() as connection:
                return maps.of(views, connection).ids

        def add(name: str) -> None:
            cell.host(name)
            while shown.projector.step():
                pass

        monkeypatch.setattr("projections.queries.host_map.AT_ONCE_S", math.inf)
        assert "new" not in seen()
        add("new")
        assert "new" in seen()
        monkeypatch.setattr("projections.queries.host_map.AT_ONCE_S", -1.0)
        monkeypatch.setattr("projections.queries.host_map.REST", 0)
        add("newer")
        assert "newer" not in seen()
        assert maps._renewal is not None
        maps._renewal.join()
        assert "newer" in seen()


def test_hosts_are_grouped_only_by_what_tells_them_apart_and_show_nothing_that_agents_say_of_themselves(
    tmp_path: Path,
) -> None:
    cell = Cell()
    for number in range(6):
        attributes = {
            "hostname": f"n{number}",
            "paceline/healths": "yes",
            "arch": "x86",
            "paceline/kind": str(number % 2),
        }
        cell.fact(HostConnected(host_id=f"h{number}", session=1, gateway="g"))
        cell.fact(HostOffered(host_id=f"h{number}", session=1, capacity={"cpu": 4000}, attributes=attributes))
    with site(cell.log, tmp_path) as shown:
        page = shown.page("/hosts")
        assert "6 hosts</span>" in page
        assert re.findall(r"by (\S+)</a>", page) == []
        assert [cells[-1] for cells in Rows(page).of("host:").values()] == ["arch=x86"] * 6
