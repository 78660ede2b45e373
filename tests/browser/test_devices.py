"""Devices and pools of hosts in a browser: who has which card, how that changes, and how one is set aside."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from paceline.client import cell_file
from tests.browser import cells
from tests.browser.browser import TIMEOUT_MS, WIDE, Visitor, stands
from tests.browser.cells import START_S, TASK, Shown, until
from tests.browser.test_pages import NARROW, blamed, fits

DEVICES = """
devices:
  - {id: "0", kind: gpu, model: a100, memory: 40GiB, numa: 0, link_group: left}
  - {id: "1", kind: gpu, model: a100, memory: 40GiB, numa: 0, link_group: left}
  - {id: "2", kind: gpu, model: h100, memory: 80GiB, numa: 1, link_group: right}
cores: {nodes: 2, cores: 2}
"""
HOSTS = {"left": "r1", "right": "r2"}
"""The racks of two hosts."""

expect.set_options(timeout=TIMEOUT_MS)


@contextmanager
def with_agents(folder: Path) -> Iterator[Shown]:
    """A cell of two hosts that have the same devices, each in a rack of its own."""
    devices = folder / "devices.yaml"
    devices.write_text(DEVICES)
    with cells.up(folder, "--no-agent") as cell, cell.client() as client, ExitStack() as agents:
        for name, rack in HOSTS.items():
            words = ["--data", str(cell.data), "--folder", str(folder / name), "--devices", str(devices)]
            words += ["--host-id", name, "--attribute", f"rack={rack}", "--resource", "cpu=8"]
            agents.enter_context(cells.process(folder / f"of-{name}", "paceline", "agent", *words))
        until(lambda: [host["state"] for host in client.hosts()] == ["UP", "UP"], "both hosts")
        client.define_pool("/ml", {"reservation": {"cpu": 8, "gpu": 6}}, wait=START_S)
        try:
            yield cell
        finally:
            for job in list(client.jobs()):
                client.stop_job(job["job_id"])
            until(lambda: not any(job["tasks"]["running"] for job in client.jobs()), "all to stop")


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with with_agents(tmp_path_factory.mktemp("machines")) as cell:
        yield cell


def run(cell: Shown, job_id: str, host_id: str, **asked: object) -> None:
    """A job that runs on a host until it is stopped."""
    job = {"job_id": job_id, "pool": "/ml", "command": ["sleep", "600"], **TASK, **asked}
    job["constraints"] = [{"attribute": "rack", "values": [HOSTS[host_id]]}]
    with cell.client() as client:
        client.submit_job(job, wait=START_S)
        until(lambda: client.job(job_id)["tasks"]["running"], f"{job_id} to run")


def device(page: Page, name: str) -> list[str]:
    """The cells of the row of a device."""
    return [text.strip() for text in page.locator(f'tr[id="device:{name}"] td').all_inner_texts()]


def signed_in(visitor: Visitor, cell: Shown) -> Page:
    page = visitor.open(cell.url("/sign-in"))
    page.get_by_label("Token").fill(cell_file.token(cell.data) or "")
    page.get_by_role("button", name="Sign in").click()
    return page


def test_the_devices_of_a_host_change_on_its_page_while_somebody_looks(visitor: Visitor, machines: Shown) -> None:
    page = visitor.open(machines.url("/hosts/left"))
    expect(page.locator("#fresh")).to_contain_text("live,")
    expect(page.locator("#devices tbody tr")).to_have_count(3)
    assert device(page, "2")[1:8] == ["gpu", "h100", "1", "right", "Ok", "0", "0 of 80GiB"]
    run(machines, "share", "left", resources={"cpu": "10m", "gpu": "400m"}, devices={"models": {"gpu": "h100"}})
    expect(page.locator('tr[id="device:2"]')).to_contain_text("share/0 0.4, 32GiB")
    assert device(page, "2")[6:8] == ["0.4", "32GiB of 80GiB"]
    run(machines, "cores", "left", resources={}, cores=2, numa="one")
    expect(page.locator("#devices")).to_contain_text("0 of 2 free")
    with machines.client() as client:
        client.stop_job("share", wait=START_S)
    expect(page.locator('tr[id="device:2"]')).not_to_contain_text("share")


def test_a_device_is_disabled_and_enabled_by_forms(visitor: Visitor, machines: Shown) -> None:
    run(machines, "leaves", "left", resources={"cpu": "10m", "gpu": 2})
    page = signed_in(visitor, machines)
    page.goto(machines.url("/hosts/left"))
    page.locator('tr[id="device:0"]').get_by_role("link", name="Disable…").click()
    expect(page.locator("h1")).to_have_text("Disable the device: left, device 0")
    page.get_by_label("Its preemptible runs leave").check()
    page.get_by_label("Reason").fill("ECC errors")
    page.get_by_role("button", name="Disable the device").click()
    expect(page.locator("main")).to_contain_text("Device 0 takes no new tasks")
    page.get_by_role("link", name="To the host").click()
    row = page.locator('tr[id="device:0"]')
    expect(row).to_contain_text("Emptying")
    expect(row).not_to_contain_text("leaves/0")
    row.get_by_role("link", name="Enable…").click()
    page.get_by_label("Reason").fill("replaced")
    page.get_by_role("button", name="Enable the device").click()
    expect(page.locator("main")).to_contain_text("takes new tasks again")
    page.get_by_role("link", name="To the host").click()
    expect(page.locator('tr[id="device:0"]')).to_contain_text("Ok")


def test_the_grid_of_cards_is_grouped_by_a_level_and_follows(visitor: Visitor, machines: Shown) -> None:
    page = visitor.open(machines.url("/hosts"))
    grid = page.locator("#live_devices")
    expect(grid.locator("h3")).to_have_text(["r1", "r2"])
    card = grid.get_by_role("img", name=re.compile("^right:"))
    expect(card).to_have_attribute("aria-label", "right: 3 free")
    run(machines, "train", "right", resources={"cpu": "10m", "gpu": 1}, devices={"models": {"gpu": "h100"}})
    expect(card).to_have_attribute("aria-label", "right: 2 free, 1 used")
    page.get_by_role("group", name="Group by").get_by_role("link", name="all together").click()
    expect(grid.locator("h3")).to_have_count(0)
    grid.get_by_role("link", name="right").click()
    expect(page.locator('tr[id="device:2"]')).to_contain_text("train/0")


def test_host_pools_and_their_moves_have_their_numbers(visitor: Visitor, cards: Shown) -> None:
    page = visitor.open(cards.url("/hosts"))
    rows = page.get_by_role("group", name="Host pools", exact=True).locator("tbody tr")
    expect(rows).to_have_count(3)
    assert rows.nth(1).locator("td").all_inner_texts()[:2] == ["gpus", "3"]
    move = page.get_by_role("group", name="Moves between host pools").locator("tbody tr")
    expect(move).to_contain_text("LOAD_ABOVE")
    expect(move).to_contain_text("the load of stateless was 75 %, above 60 % since 14 Nov 22:14:50")
    move.get_by_role("link", name="common-1").click()
    expect(page.locator("main")).to_contain_text("stateless")


@pytest.mark.parametrize("path", ["/hosts", "/hosts/card-1", "/jobs/gang/tasks/0", "/jobs/any"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_with_devices_are_for_everybody_and_fit(visitor: Visitor, cards: Shown, path: str, scheme: str) -> None:
    page = visitor.open(f"http://{cards.address}/ui{path}", color_scheme=scheme, reduced_motion="reduce")
    stands(page)
    assert blamed(page) == []
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        assert fits(page), f"scrolls sideways at {size['width']}"


def test_a_device_can_be_set_aside_on_a_narrow_screen(visitor: Visitor, machines: Shown) -> None:
    page = visitor.open(machines.url("/hosts/left"), viewport=NARROW)
    expect(page.locator('tr[id="device:1"]').get_by_role("link", name="Disable…")).to_be_visible()
