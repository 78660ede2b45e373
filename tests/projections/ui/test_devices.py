"""The devices of hosts on the pages: who has which, how they stand, and the word that sets one aside."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from events.codec import decode
from events.codes import Outcome
from events.columns import pack_ints
from events.device_columns import RunDevice, device_fields
from events.host_devices import sums
from events.records.hosts import HostConnected, HostDeviceRequested, HostOffered
from events.records.lifecycle import HostReconciled
from events.records.parts import HostDevice
from events.records.placement import HostAnswered
from events.topics import HOSTS
from projections.ui.app import add_ui
from tests.helpers.written_cell import Cell, admitted, ended, ordered
from tests.projections.conftest import LISTEN, TOKEN, Api
from tests.projections.ui.sites import Rows, site

CARDS = (
    HostDevice(id="0", kind="gpu", model="a100", memory=40960, numa=0, link_group="left"),
    HostDevice(id="1", kind="gpu", model="a100", memory=40960, numa=0, link_group="left"),
    HostDevice(id="2", kind="gpu", model="h100", memory=81920, numa=1, link_group="right", healthy=False),
    HostDevice(id="3", kind="gpu", model="h100"),
    HostDevice(id="MIG/7", kind="gpu/7g", of="3", excludes=("3",)),
)


def host_with_cards(cell: Cell, host_id: str = "h1", **attributes: str) -> None:
    """A host with four cards, a part of one of them, and two cores at each of two NUMA nodes."""
    cell.fact(HostConnected(host_id=host_id, session=1, gateway="g"))
    amounts = {"cpu": 8000, "memory": 8192, **sums(CARDS)}
    offer = {"capacity": amounts, "attributes": attributes, "devices": CARDS, "cores": pack_ints([0, 0, 1, 1])}
    cell.fact(HostOffered(host_id=host_id, session=1, **offer))
    cell.decide("lifecycle", HostReconciled(host_id=host_id, session=1, kept=0, ended=0, stopped=0))


def run_with(cell: Cell, job_id: str, devices: dict[str, tuple[int, int]], host_id: str = "h1", run: int = 1) -> None:
    """Orders the first task of a job with thousandths and MiB of devices."""
    cell.decide("entitlement", admitted(job_id, (0,), run))
    fields = device_fields([[RunDevice(id_, *amounts) for id_, amounts in devices.items()]])
    columns = {name: each if name == "device_ids" else pack_ints(each) for name, each in fields.items()}
    order = ordered(job_id, (0,), run, host_id)
    cell.decide("lifecycle", msgspec.structs.replace(order, **columns))


def busy() -> Cell:
    """A host where one job shares a card and another has a whole one and two cores."""
    cell = Cell()
    host_with_cards(cell, rack="r1")
    for name in ("serve", "train"):
        cell.accept(name)
    run_with(cell, "serve", {"0": (400, 16384)})
    run_with(cell, "train", {"1": (1000, 40960), "core/0": (1000, 0), "core/2": (1000, 0)})
    return cell


def test_the_page_of_a_host_says_who_has_which_device_and_core(tmp_path: Path) -> None:
    with site(busy().log, tmp_path) as shown:
        page = shown.page("/hosts/h1")
        rows = Rows(page).of("device:")
        assert rows.keys() == {"0", "1", "2", "3", "MIG/7"}
        assert rows["0"][2:9] == ["a100", "0", "left", "Ok", "0.4", "16GiB of 40GiB", "serve/0 0.4, 16GiB"]
        assert rows["2"][5] == "Unhealthy"
        assert rows["MIG/7"][1] == "gpu/7g part of 3 not beside 3"
        assert rows["1"][8].startswith("train/0")
        assert re.findall(r"Cores of NUMA node (\d)</dt><dd>(\d of \d) free", page) == [
            ("0", "1 of 2"),
            ("1", "1 of 2"),
        ]
        assert 'href="/ui/hosts/h1/disable-device?device=MIG%2F7"' in page


def test_the_page_of_a_task_and_its_runs_say_which_devices_they_have(tmp_path: Path) -> None:
    with site(busy().log, tmp_path) as shown:
        page = shown.page("/jobs/train/tasks/0")
        assert re.search(r"<dt>devices</dt><dd>(.*?)</dd>", page)[1] == "1"
        assert re.search(r"<dt>cores</dt><dd>(.*?)</dd>", page)[1] == "0, 2"
        assert "0: 0.4, 16GiB" in shown.page("/jobs/serve/tasks/0")


def test_a_run_that_is_over_keeps_its_devices_and_the_host_has_them_free(tmp_path: Path) -> None:
    cell = busy()
    cell.decide("lifecycle", ended("serve", (0,), Outcome.SUCCEEDED))
    with site(cell.log, tmp_path) as shown:
        by_id = {each["id"]: each for each in shown.api("/v1/hosts/h1")["devices"]}
        assert (by_id["0"]["used"], by_id["0"]["runs"]) == (0, [])
        [run] = shown.api("/v1/jobs/serve/tasks/0/runs")["runs"]
        assert run["devices"] == [{"id": "0", "share": 0.4, "memory": "16GiB"}]


def test_a_device_that_its_host_names_no_more_is_shown_while_a_run_has_it(tmp_path: Path) -> None:
    cell = busy()
    cell.fact(HostOffered(host_id="h1", session=1, capacity=sums(CARDS[1:]), devices=CARDS[1:]))
    with site(cell.log, tmp_path) as shown:
        assert Rows(shown.page("/hosts/h1")).of("device:")["0"][5] == "Gone"
    cell.decide("lifecycle", ended("serve", (0,), Outcome.SUCCEEDED))
    with site(cell.log, tmp_path / "later") as shown:
        assert "0" not in Rows(shown.page("/hosts/h1")).of("device:")


def test_hosts_that_name_no_devices_show_none(tmp_path: Path) -> None:
    cell = Cell()
    cell.host("h1")
    with site(cell.log, tmp_path) as shown:
        assert 'id="devices"' not in shown.page("/hosts/h1")
        assert "<h2>GPUs</h2>" not in shown.page("/hosts")


@pytest.mark.parametrize("ends", [False, True])
def test_a_device_is_set_aside_by_a_form_with_a_reason(tmp_path: Path, ends: bool) -> None:
    api = Api(tmp_path)
    add_ui(api.app, {0: api.app.state.context}, TOKEN)
    host_with_cards(api.cell)
    api.fold()
    client = TestClient(api.app, f"http://{LISTEN}", follow_redirects=False)
    client.post("/ui/sign-in", data={"token": TOKEN})
    assert client.get("/ui/hosts/h1/disable-device?device=9").status_code == 404
    path = "/ui/hosts/h1/disable-device"
    page = client.get(path, params={"device": "MIG/7"}).text
    assert "paceline host device disable h1 MIG/7" in page
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.partition('class="ask"')[2]))

    def answer(offset: int, event: Any) -> tuple[HostAnswered]:
        about = {"host_id": event.host_id, "hosts_offset": offset, "command_id": event.command_id}
        return (HostAnswered(**about, code="DONE", message="it takes no new tasks"),)

    end = api.cell.log.bounds(HOSTS.name)[1]
    api.answer(HOSTS.name, "placement", answer)
    told = client.post(path, data={**fields, "reason": "ECC"} | ({"ends": "yes"} if ends else {}))
    assert told.status_code == 200
    assert "it takes no new tasks" in told.text
    [record] = api.cell.log.scan(HOSTS.name, end)
    fact = decode(record.value)
    assert isinstance(fact, HostDeviceRequested)
    assert (fact.device, fact.disabled, fact.ends, fact.reason) == ("MIG/7", True, ends, "ECC")
    api.close()


def test_a_word_that_does_not_fit_the_device_is_warned_of(tmp_path: Path) -> None:
    api = Api(tmp_path)
    add_ui(api.app, {0: api.app.state.context}, TOKEN)
    host_with_cards(api.cell)
    api.fold()
    client = TestClient(api.app, f"http://{LISTEN}")
    client.post("/ui/sign-in", data={"token": TOKEN})
    assert "placement may refuse it" in client.get("/ui/hosts/h1/enable-device?device=0").text
    assert "placement may refuse it" in client.get("/ui/hosts/h1/uncordon").text
    assert "placement may refuse it" not in client.get("/ui/hosts/h1/disable-device?device=0").text
    api.close()


def test_the_grid_shows_each_card_with_its_state_and_pages_through_hosts(tmp_path: Path) -> None:
    cell = busy()
    cell.host("plain")
    for number in range(60):
        cell.fact(HostConnected(host_id=f"sum-{number:02}", session=1, gateway="g"))
        cell.fact(HostOffered(host_id=f"sum-{number:02}", session=1, capacity={"gpu": 2000}, attributes={"rack": "r2"}))
    with site(cell.log, tmp_path) as shown:
        page = shown.page("/hosts", by="rack")
        words = re.search(r'aria-label="h1: ([^"]*)"', page)[1]
        assert sorted(words.split(", ")) == ["1 partly used", "1 unhealthy", "1 used", "2 free"]
        assert "gpu 0, a100, 40GiB, link group left, partly used, serve/0: 0.4" in page
        assert "cards:plain" not in page
        following = re.search(r'href="([^"]+)">next hosts with GPUs after', page)[1].replace("&amp;", "&")
        both = page + shown.client.get(following).text
        assert re.findall(r'id="cards:(sum-\d+)"', both) == [f"sum-{number:02}" for number in range(60)]
        assert re.findall(r'<h3 class="under">(\w+)</h3>', page) == ["r1", "r2"]
        assert 'aria-label="sum-00: 2 free"' in page


def test_a_part_in_use_has_its_card(tmp_path: Path) -> None:
    cell = Cell()
    host_with_cards(cell)
    cell.accept("part")
    run_with(cell, "part", {"MIG/7": (1000, 0)})
    with site(cell.log, tmp_path) as shown:
        words = re.search(r'aria-label="h1: ([^"]*)"', shown.page("/hosts"))[1]
    assert sorted(words.split(", ")) == ["1 unhealthy", "2 free", "2 used"]
