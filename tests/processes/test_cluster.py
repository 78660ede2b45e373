"""A cell of separate processes on three brokers, of which two must have each record before it counts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from events.log.kafka.topics import copies, create
from events.topics import MACHINES
from tests.helpers.broker.cluster import Cluster
from tests.helpers.site import Site
from tests.helpers.small_disk import SmallDisk, can_mount, small_disk

LIFECYCLE = "paceline.lifecycle"
SMALL = 1
SMALL_MIB = 64
"""The number of the broker that has a disk of its own in the test of a full one, and the size of that."""
POOLS = ("/p", "/q")
"""The pool of each cell."""
SERVING = (*MACHINES, "projector", "fanout", *(f"gateway.{cell}" for cell in range(len(POOLS))))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """The disk of one broker; to be asked for before the cluster."""
    with small_disk(tmp_path / "kafka" / str(SMALL), SMALL_MIB) as mounted:
        yield mounted


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """All topics of two cells, three copies of each."""
    with Cluster(tmp_path / "kafka") as running:
        create(running.address, len(POOLS), replication=3)
        yield running


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    """One of each kind of process, and a pool in each cell."""
    found = Site(tmp_path / "site", cluster.address, cells=len(POOLS))
    try:
        found.begin()
        for cell, pool in enumerate(POOLS):
            found.pool(pool, cell)
        yield found
    finally:
        found.processes.stop_all()


def submit(site: Site, job_id: str, instances: int, duration: str = "300ms") -> None:
    """A job in each cell."""
    for pool in POOLS:
        site.submit(f"{job_id}{pool[1:]}", instances, duration, pool)


def finish(site: Site, *job_ids: str) -> None:
    """Waits until those jobs have succeeded, in both cells."""
    site.finish(*(f"{job_id}{pool[1:]}" for job_id in job_ids for pool in POOLS))


def whole(site: Site, cluster: Cluster) -> None:
    """All brokers are there again, each with all records, and every part does its work."""
    cluster.start()
    site.until(lambda: copies(cluster.address) == [], "every broker to have every copy")
    site.until_ready(*SERVING, "api")


def leader_killed(site: Site, cluster: Cluster) -> None:
    submit(site, "before", 20, duration="2s")
    leader = cluster.leader(LIFECYCLE, 0)
    cluster[leader].kill()
    submit(site, "while", 20)
    finish(site, "before", "while")
    assert cluster.leader(LIFECYCLE, 0) != leader
    site.until(lambda: f"start broker {leader}." in " ".join(copies(cluster.address)), "the lost copies to be named")


def two_killed(site: Site, cluster: Cluster) -> None:
    submit(site, "during", 20, duration="2s")
    leader = cluster.leader(LIFECYCLE, 0)  # whose rounds all others read
    for node in (leader, next(node for node in cluster.nodes() if node != leader)):
        cluster[node].kill()
    for name in SERVING:
        site.until(lambda name=name: not site.ready(name), f"{name} to say that it is not ready")
        site.until(lambda name=name: "Kafka at" in site.said(name), f"{name} to say why")
    whole(site, cluster)
    finish(site, "during")


def controller_moved(site: Site, cluster: Cluster) -> None:
    submit(site, "moving", 20, duration="2s")
    was = cluster.controller()
    cluster[was].kill()
    site.until(lambda: cluster.controller() not in (was, -1), "another controller")
    submit(site, "moved", 20)
    finish(site, "moving", "moved")


def test_a_cell_goes_on_through_the_loss_of_brokers(site: Site, cluster: Cluster) -> None:
    for fault in (leader_killed, two_killed, controller_moved):
        fault(site, cluster)
        whole(site, cluster)
    submit(site, "after", 20)
    finish(site, "after")
    site.end()
    found = site.verify()
    assert (found["ordered"], found["live"]) == (2 * 6 * 20, 0)


@pytest.mark.skipif(not can_mount(), reason="a disk of a test's own is for root to mount")
def test_a_full_disk_of_one_broker_stops_that_one_alone(disk: SmallDisk, cluster: Cluster, site: Site) -> None:
    submit(site, "during", 100, duration="2s")
    disk.fill()
    site.until(cluster[SMALL].ended, "the broker to give up its disk")
    submit(site, "without", 100)
    finish(site, "during", "without")
    site.until(lambda: f"start broker {SMALL}." in " ".join(copies(cluster.address)), "the lost copies to be named")
    disk.make_room()
    cluster[SMALL].launch()
    whole(site, cluster)
    other = next(node for node in cluster.nodes() if node != SMALL)
    cluster[other].kill()  # from here on nothing is acknowledged without the one that was full
    submit(site, "with", 100)
    finish(site, "with")
    whole(site, cluster)
    site.end()
    found = site.verify()
    assert (found["ordered"], found["succeeded"]) == (600, 600)
