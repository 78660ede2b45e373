"""Disks of parts that are full for a while: the part says so, and with room again nothing is lost or doubled."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from events.log.kafka.topics import create
from events.topics import MACHINES
from tests.helpers.broker import Broker
from tests.helpers.site import Site, empty
from tests.helpers.small_disk import can_mount, small_disk

pytestmark = pytest.mark.skipif(not can_mount(), reason="a disk of a test's own is for root to mount")
FOLDERS = {"gateway.0": "data/cell-0/gateway.0", "fanout": "data/fanout", "agent.0": "agent.0"}
"""What each of them writes to, under the folder of the site."""
BROKER_MIB = 64
SERVING = (*MACHINES, "projector", "fanout", "gateway.0")


def lines(path: Path) -> list[str]:
    return sorted(path.read_text().split()) if path.exists() else []


def test_a_full_disk_ends_a_gateway_with_its_reason_a_fan_out_waits_and_nothing_is_lost(
    broker: Broker, tmp_path: Path
) -> None:
    def met(site: Site) -> tuple[str, ...]:
        site.until(lambda: "No space left" in site.status("fanout", 0).get("failed", ""), "the fan-out to say why")
        assert site.until_ended("gateway.0") == 1
        assert "No space left on device" in site.said("gateway.0").splitlines()[-1]
        return ("gateway.0",)

    through_full_disks(broker, tmp_path, ("gateway.0", "fanout"), met)


def test_an_agent_whose_disk_is_full_waits_for_room_and_so_do_its_runs(broker: Broker, tmp_path: Path) -> None:
    def waits(site: Site) -> tuple[str, ...]:
        site.until(lambda: "No space left on device. Waits" in site.said("agent.0"))
        site.until(lambda: len(lines(tmp_path / "ended")) == 3, "runs to end whose outcomes find no room")
        return ()

    through_full_disks(broker, tmp_path, ("agent.0",), waits)


def through_full_disks(
    broker: Broker, folder: Path, names: tuple[str, ...], said: Callable[[Site], tuple[str, ...]]
) -> None:
    """A cell of processes, of which some have small disks that are full while jobs run and come; `said` waits until it
    was noticed and returns the parts that are to be started again.
    """
    site = Site(folder, empty(broker, 1), sim_hosts=0)
    began, ended, go = (folder / each for each in ("began", "ended", "go"))
    script = f"echo $PACELINE_JOB-$PACELINE_TASK >> {began}; until [ -e {go} ]; do sleep 0.05; done; echo x >> {ended}"
    with ExitStack() as mounts:
        disks = [mounts.enter_context(small_disk(folder / FOLDERS[name])) for name in names]
        try:
            site.begin("agent.0")
            site.pool("/p")
            site.submit("before", 3, command=["sh", "-c", script])
            site.until(lambda: site.running("before") == 3)
            for disk in disks:
                disk.fill()
            site.submit("meanwhile", 10, command=["sh", "-c", script])
            go.touch()
            again = said(site)
            for disk in disks:
                disk.make_room()
            site.start(*again)
            site.until_ready(*again, *(name for name in names if not name.startswith("agent")))
            assert not any("Traceback" in site.said(name) for name in names)
            site.finish("before", "meanwhile")
            site.end()
        finally:
            go.touch()
            site.processes.stop_all()
        found = site.verify()
    assert (found["ordered"], found["succeeded"]) == (13, 13)
    assert lines(began) == sorted([*(f"before-{n}" for n in range(3)), *(f"meanwhile-{n}" for n in range(10))])


def test_a_full_disk_of_the_broker_is_waited_for_by_every_part(tmp_path: Path) -> None:
    with small_disk(tmp_path / "kafka", BROKER_MIB) as disk, Broker(tmp_path / "kafka") as broker:
        create(broker.address, 1)
        site = Site(tmp_path / "site", broker.address)
        try:
            site.begin()
            site.pool("/p")
            site.submit("during", 200, duration="2s")
            disk.fill()
            site.until(broker.ended, "the broker to give up its disk")
            for name in SERVING:
                site.until(lambda name=name: not site.ready(name), f"{name} to say that it is not ready")
                site.until(lambda name=name: "Kafka at" in site.said(name), f"{name} to say why")
            disk.make_room()
            broker.start()
            site.submit("after", 20)
            site.finish("during", "after")
            site.end()
        finally:
            site.processes.stop_all()
        found = site.verify()
    assert (found["ordered"], found["succeeded"]) == (220, 220)
