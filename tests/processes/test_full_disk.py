"""Disks of parts that are full for a while: the part says so, and with room again nothing is lost or doubled."""

from pathlib import Path

import pytest

from events.kafka_topics import create
from events.topics import MACHINES
from tests.broker import Broker
from tests.processes.site import Site, empty
from tests.processes.small_disk import can_mount, small_disk

pytestmark = pytest.mark.skipif(not can_mount(), reason="a disk of a test's own is for root to mount")
FOLDERS = {"gateway.0": "data/cell-0/gateway.0", "fanout": "data/fanout", "agent.0": "agent.0"}
"""What each of them writes to, under the folder of the site."""
BROKER_MIB = 64
SERVING = (*MACHINES, "projector", "fanout", "gateway.0")


def lines(path: Path) -> list[str]:
    return sorted(path.read_text().split()) if path.exists() else []


@pytest.mark.parametrize("name", list(FOLDERS))
def test_a_full_disk_of_gateway_fan_out_or_agent_is_said_and_nothing_is_lost(
    broker: Broker, tmp_path: Path, name: str
) -> None:
    site = Site(tmp_path, empty(broker, 1), sim_hosts=0)
    began, ended, go = (tmp_path / each for each in ("began", "ended", "go"))
    script = f"echo $PACELINE_JOB-$PACELINE_TASK >> {began}; until [ -e {go} ]; do sleep 0.05; done; echo x >> {ended}"
    with small_disk(tmp_path / FOLDERS[name]) as disk:
        try:
            site.begin("agent.0")
            site.pool("/p")
            site.submit("before", 3, command=["sh", "-c", script])
            site.until(lambda: site.running("before") == 3)
            disk.fill()
            site.submit("meanwhile", 10, command=["sh", "-c", script])
            go.touch()
            if name == "agent.0":  # whose runs go on, and which goes on itself
                site.until(lambda: "No space left on device. Waits" in site.said(name))
                site.until(lambda: len(lines(ended)) == 3, "runs to end whose outcomes find no room")
                disk.make_room()
            else:
                assert site.until_ended(name) == 1
                assert "No space left on device" in site.said(name).splitlines()[-1]
                disk.make_room()
                site.start(name)
                site.until_ready(name)
            assert "Traceback" not in site.said(name)
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
