"""Devices and cores of a real host: offered, named in orders, found by runs, and offered again when they change."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from events.host_devices import Core
from events.records.hosts import HostOffered
from events.records.lifecycle import RunsOrdered
from events.records.parts import HostDevice, Isolation
from hostagent.agent import Agent
from hostagent.agent_settings import AgentSettings
from hostagent.agent_state import AgentFault
from hostagent.groups import GroupFault, Tree
from hostagent.hardware import FAULTS, Hardware, HardwareFault, HostHardware, Source, difference
from hostagent.messages import DeviceOrder, OrderKind, RunOrder
from tests.hostagent.cell import ordered, stopping
from tests.hostagent.test_agent import HOST, Site, said, shell, site
from tests.hostagent.test_groups import REFUSED

__all__ = ["site"]
CARDS = tuple(HostDevice(str(at), "gpu", "a100", 81_920, at // 2, f"nv{at // 2}") for at in range(4))
NIC = HostDevice("mlx5_0", "nic")
CORES = (Core(0), Core(0), Core(1), Core(1))


class Shelf:
    """A source of hardware that a test changes."""

    def __init__(self, *devices: HostDevice) -> None:
        self.hardware = Hardware(devices, {}, CORES)
        self.fault = ""

    def look(self) -> Hardware:
        if self.fault:
            raise HardwareFault(self.fault)
        return self.hardware

    def has(self, *devices: HostDevice) -> None:
        self.hardware = self.hardware._replace(devices=devices)


@pytest.fixture
def shelf(site: Site) -> Shelf:
    """The devices of the site's host."""
    made = Shelf(*CARDS, NIC)
    settings = replace(site.settings(), resources={"memory": 1000}, hardware=Source(made.look, 0.02))
    site.settings = lambda: settings  # type: ignore[method-assign]
    return made


def order(job_id: str, *devices: tuple[str, int, int], run: int = 1) -> RunsOrdered:
    """A run with devices: id, thousandths, MiB."""
    names = tuple(dict.fromkeys(name for name, _, _ in devices))
    plain = ordered([(job_id, 0, run)], [HOST])
    return RunsOrdered.pack(
        job_ids=plain.job_ids,
        job=[0],
        instance=[0],
        run=[run],
        host_ids=plain.host_ids,
        host_session=[1],
        host=[0],
        device_ids=names,
        device=[names.index(name) for name, _, _ in devices],
        device_share=[milli for _, milli, _ in devices],
        device_mib=[memory for _, _, memory in devices],
        device_count=[len(devices)],
    )


def offers(site: Site) -> list[HostOffered]:
    return [each for each in site.cell.facts("paceline.hosts", HostOffered) if isinstance(each, HostOffered)]


def test_a_host_offers_its_devices_and_cores_and_what_they_make(site: Site, shelf: Shelf) -> None:
    site.start_agent()
    [offer] = offers(site)
    assert offer.devices == (*CARDS, NIC)
    assert offer.cores_array.tolist() == [0, 0, 1, 1]
    made = {"gpu": 4000, "nic": 1000, "gpu_memory": 4 * 81_920, "cpu": 4000, "memory": 1000}
    assert made.items() <= offer.capacity.items()
    assert "gpu_memory" in offer.sizes


def test_a_run_sees_its_devices_and_cores_and_no_others(site: Site, shelf: Shelf) -> None:
    site.start_agent()
    site.cell.submit(shell("j", 'echo "$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $PACELINE_CORES $PACELINE_DEVICES"'))
    parts = (("3", 1000, 0), ("1", 400, 10_240), ("mlx5_0", 1000, 0), ("core/2", 1000, 0), ("core/3", 1000, 0))
    site.cell.decide(order("j", *parts))
    site.says("j", 0, 1, "EXITED", 0)
    visible, by_bus, cores, listed = site.output("j").split(maxsplit=3)
    assert (visible, by_bus, cores) == ("3,1", "PCI_BUS_ID", "2,3")
    assert json.loads(listed) == [
        {"id": "3", "kind": "gpu", "milli": 1000, "memory": 0},
        {"id": "1", "kind": "gpu", "milli": 400, "memory": 10_240},
        {"id": "mlx5_0", "kind": "nic", "milli": 1000, "memory": 0},
    ]


def test_a_run_without_gpus_on_a_host_that_has_some_sees_none_unless_its_job_says_otherwise(
    site: Site, shelf: Shelf
) -> None:
    site.start_agent()
    script = 'echo "<${CUDA_VISIBLE_DEVICES-unset}>"'
    site.run(shell("hidden", script))
    site.run(shell("exporter", script, env={"CUDA_VISIBLE_DEVICES": "all"}))
    site.says("hidden", 0, 1, "EXITED", 0)
    site.says("exporter", 0, 1, "EXITED", 0)
    assert (site.output("hidden"), site.output("exporter")) == ("<>\n", "<all>\n")


def test_the_gateway_tells_a_host_that_connects_again_of_the_devices_of_its_runs(site: Site, shelf: Shelf) -> None:
    site.start_agent()
    site.stop_agent()
    site.cell.submit(shell("j", "echo $CUDA_VISIBLE_DEVICES"))
    site.cell.decide(order("j", ("2", 1000, 0)))
    site.start_agent()
    site.says("j", 0, 1, "EXITED", 0)
    assert site.output("j") == "2\n"


def test_a_later_run_of_a_task_has_the_devices_of_its_own_order(site: Site, shelf: Shelf) -> None:
    site.start_agent()
    site.cell.submit(shell("j", "echo $CUDA_VISIBLE_DEVICES $PACELINE_CORES"))
    for run, devices in ((1, [("2", 1000, 0), ("core/0", 1000, 0)]), (2, [("0", 1000, 0)]), (3, [])):
        site.cell.decide(order("j", *devices, run=run) if devices else ordered([("j", 0, run)], [HOST]))
        site.says("j", 0, run, "EXITED", 0)
    assert [site.output("j", run=run).split() for run in (1, 2, 3)] == [["2", "0"], ["0"], []]


def test_a_device_that_fails_is_offered_as_unwell_in_the_same_session_and_runs_go_on(site: Site, shelf: Shelf) -> None:
    site.start_agent()
    site.cell.submit(shell("j", "sleep 1000"))
    site.cell.decide(order("j", ("0", 1000, 0)))
    site.says("j", 0, 1, "STARTED", 0)
    shelf.has(HostDevice("0", "gpu", "a100", 81_920, healthy=False), *CARDS[1:])
    site.cell.until(lambda: len(offers(site)) == 2)
    first, second = offers(site)
    assert (second.session, second.capacity["gpu"], "nic" in second.capacity) == (first.session, 3000, False)
    assert [each.id for each in second.devices if not each.healthy] == ["0"]
    assert second.attributes == first.attributes
    assert ("j", 0, 1, "STARTED", 0) in list(site.cell.said())
    site.stop_agent()
    site.start_agent()
    assert [each[:3] for each in site.cell.inventories()[-1]] == [("j", 0, 1)], "it keeps its card"


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        (("7", 1000, 0), "this host has no device 7, or no longer"),
        (("gpu:0", 1000, 0), "this host has no device gpu:0, or no longer"),
        (("1", 1000, 0), "device 1 of this host isn't well"),
        (("core/9", 1000, 0), "this host has no core 9"),
    ],
)
def test_a_run_whose_device_is_gone_or_unwell_by_now_is_refused_with_the_reason(
    site: Site, shelf: Shelf, devices: tuple[str, int, int], why: str
) -> None:
    shelf.has(CARDS[0], HostDevice("1", "gpu", healthy=False))
    site.start_agent()
    site.cell.submit(shell("j", "true"))
    site.cell.decide(order("j", devices))
    site.says("j", 0, 1, "NOT_STARTED", 127)
    assert why in site.cell.why()


def test_an_agent_whose_settings_contradict_its_devices_does_not_start(tmp_path: Path) -> None:
    source = Source(Shelf(*CARDS).look)
    settings = AgentSettings((), "token", tmp_path, HOST, {"gpu": 2000}, hardware=source)
    with pytest.raises(AgentFault, match="the settings offer gpu; its devices say themselves how many there are"):
        Agent(settings)


def hardware(*devices: HostDevice) -> HostHardware:
    return HostHardware(Source(Shelf(*devices).look), {}, lambda _: None)


def start(*devices: str) -> RunOrder:
    return RunOrder(OrderKind.START, 0, 0, 1, (), tuple(map(DeviceOrder, devices)))


@pytest.mark.parametrize(
    ("devices", "contained", "visible"),
    [
        (["gpu:2", "gpu/a100:3"], False, "2,3"),
        (["gpu:2", "gpu/a100:3"], True, "0,1"),
        (["nic:0"], False, None),
    ],
)
def test_devices_of_a_host_that_says_but_sums_are_known_by_their_numbers(
    devices: list[str], contained: bool, visible: str | None
) -> None:
    env = HostHardware(None, {}, lambda _: None).of_run(start(*devices), contained).env
    assert env.get("CUDA_VISIBLE_DEVICES") == visible


def test_cards_with_uuids_are_named_by_them_in_containers_too() -> None:
    cards = hardware(HostDevice("GPU-ab", "gpu"), HostDevice("MIG-cd", "gpu/1g.10gb", of="GPU-ab"))
    env = cards.of_run(start("MIG-cd"), True).env
    assert (env["CUDA_VISIBLE_DEVICES"], "CUDA_DEVICE_ORDER" in env) == ("MIG-cd", False)


def test_gpus_that_the_driver_counts_are_not_offered_twice() -> None:
    found = {"cpu": 9000, "memory": 5, "gpu/a100-sxm4-40gb": 4000}
    assert hardware(*CARDS).capacity(found, {"memory": 7}) == {
        "cpu": 4000,
        "memory": 7,
        "gpu": 4000,
        "gpu_memory": 4 * 81_920,
    }
    assert HostHardware(None, {}, lambda _: None).capacity(found, {}) == found


def test_no_device_is_well_once_they_cant_be_looked_at_twice_in_a_row() -> None:
    shelf, messages = Shelf(*CARDS), list[str]()
    host = HostHardware(Source(shelf.look), {}, lambda _: None, messages.append)
    shelf.fault = "the driver hangs"
    looks = [host.look() for _ in range(FAULTS + 1)]
    assert [any(device.healthy for device in devices) for devices in looks] == [True, False, False]
    shelf.fault = "the driver is gone"
    host.look()
    warning = "devices can't be looked at, none takes new tasks: "
    assert messages == [f"{warning}the driver hangs", f"{warning}the driver is gone"]
    shelf.fault = ""
    assert host.look() == CARDS


def test_changes_are_told_in_words() -> None:
    lame = HostDevice("1", "gpu", healthy=False)
    assert difference([CARDS[0], CARDS[1]], [lame, NIC]) == "0 is gone; mlx5_0 is new; 1 isn't well"
    assert difference([lame], [CARDS[1]]) == "1 is well again"


class Pinned:
    """A site whose host offers the first two threads of this machine as cores."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        self.threads = sorted(os.sched_getaffinity(0))[:2]
        source = Source(lambda: Hardware(cores=tuple(Core(0, (thread,)) for thread in self.threads)))
        settings = replace(site.settings(), resources={}, hardware=source)
        site.settings = lambda: settings  # type: ignore[method-assign]
        self.others = {*os.sched_getaffinity(0)} - {*self.threads}

    def runs_on(self, job_id: str) -> set[int]:
        """The threads on which the process of a run may run."""
        text = said(self.site.file(job_id, "process.json"))
        return os.sched_getaffinity(json.loads(text)["pid"]) if text else set()

    def start(self, job_id: str, *cores: int, **more: Any) -> None:
        self.site.cell.submit(shell(job_id, "sleep 1000", **more))
        devices = [(f"core/{number}", 1000, 0) for number in cores]
        self.site.cell.decide(order(job_id, *devices) if devices else ordered([(job_id, 0, 1)], [HOST]))
        self.site.says(job_id, 0, 1, "STARTED", 0)

    def end(self, job_id: str) -> None:
        self.site.cell.decide(stopping([(job_id, 0, 1)], [HOST]))
        self.site.cell.until(lambda: any(each[0] == job_id and each[3] == "STOPPED" for each in self.site.cell.said()))


@pytest.fixture
def pinned(site: Site, tmp_path: Path) -> Pinned:
    made = Pinned(site, tmp_path)
    if REFUSED or not pins():
        pytest.skip(REFUSED or "this machine keeps no runs on cores")
    if len(made.threads) < 2:
        pytest.skip("this machine has one thread")
    return made


def pins() -> bool:
    """Whether this machine keeps groups on threads."""
    try:
        tree = Tree.take(f"probe-pins-{os.getpid()}", pins=True)
        tree.trial(str(min(os.sched_getaffinity(0))))
    except GroupFault:
        return False
    tree.remove()
    return True


@pytest.mark.outside
def test_a_run_is_kept_on_its_cores_and_others_off_them_while_it_lasts(site: Site, pinned: Pinned) -> None:
    first, second = pinned.threads
    site.start_agent()
    [offer] = offers(site)
    assert offer.attributes["paceline/cpuset"] == "yes"
    pinned.start("before")
    assert pinned.runs_on("before") == {first, second} | pinned.others
    pinned.start("own", 1)
    pinned.start("after", isolation=Isolation(level="cgroup"), resources={"memory": 64})
    assert pinned.runs_on("own") == {second}
    for job_id in ("before", "after"):
        site.cell.until(lambda: pinned.runs_on(job_id) == {first} | pinned.others)  # noqa: B023 - called at once
    pinned.end("own")
    for job_id in ("before", "after"):
        site.cell.until(lambda: pinned.runs_on(job_id) == {first, second} | pinned.others)  # noqa: B023 - as above


@pytest.mark.outside
def test_the_next_agent_keeps_others_off_the_cores_of_runs_that_it_adopts(site: Site, pinned: Pinned) -> None:
    first, second = pinned.threads
    site.start_agent()
    pinned.start("own", 0)
    site.stop_agent()
    site.start_agent()
    pinned.start("late")
    assert pinned.runs_on("own") == {first}
    site.cell.until(lambda: pinned.runs_on("late") == {second} | pinned.others)


@pytest.mark.outside
def test_a_host_whose_cores_cant_be_pinned_says_so_and_runs_know_theirs(site: Site, shelf: Shelf) -> None:
    messages: list[str] = []
    agent = site.agent = Agent(site.settings(), messages.append)
    agent.take()
    agent.start()
    site.cell.until(lambda: site.cell.inventories())
    assert "cores are offered, but runs aren't kept on theirs: their threads aren't known" in messages
    [offer] = offers(site)
    assert "paceline/cpuset" not in offer.attributes
    site.cell.submit(shell("j", "echo $PACELINE_CORES"))
    site.cell.decide(order("j", ("core/3", 1000, 0)))
    site.says("j", 0, 1, "EXITED", 0)
    assert site.output("j") == "3\n"
