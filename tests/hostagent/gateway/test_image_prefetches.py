"""Images that hosts are to pull ahead of runs, as the gateway passes it on."""

from pathlib import Path

import pytest

from events.abilities import CGROUP, CONTAINER, VALUE
from events.records.hosts import HostImages
from events.records.lifecycle import ImagePrefetchOrdered
from events.records.tasks import ImagePrefetched
from hostagent.gateway.image_prefetches import KEPT_MS
from hostagent.messages import ImageState
from tests.hostagent.cell import Cell, TestClock
from tests.hostagent.gateway.test_component import Host, settle

ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return Cell(TestClock(), tmp_path / "gateway.msgpack")


def connected(cell: Cell, host_id: str, session: int = 1, *abilities: str) -> Host:
    host = Host(cell, host_id)
    host.attributes = dict.fromkeys(abilities or (CONTAINER,), VALUE)
    host.connect(session)
    settle(cell)
    return host


def order(cell: Cell, digest: str, *host_ids: str) -> None:
    cell.decide(ImagePrefetchOrdered(job_id="web", image="r/web:1", image_digest=digest, host_ids=host_ids))
    settle(cell)


def test_all_hosts_are_asked_or_those_that_are_named(cell: Cell) -> None:
    hosts = [connected(cell, host_id) for host_id in ("h1", "h2")]
    order(cell, ONE)
    order(cell, TWO, "h2")
    assert [host.images for host in hosts] == [[ONE], [ONE, TWO]]


def test_hosts_that_run_no_containers_are_asked_only_by_name(cell: Cell) -> None:
    host = connected(cell, "h1", 1, CGROUP)
    order(cell, ONE)
    order(cell, TWO, "h1")
    assert host.images == [TWO]
    assert connected(cell, "h1", 2, CGROUP).images == [TWO]


def test_a_host_that_connects_within_the_hour_is_asked_though_the_gateway_began_anew(cell: Cell) -> None:
    connected(cell, "h1")
    order(cell, ONE)
    order(cell, TWO, "h2")
    cell.gateway.close()
    cell.new_gateway()
    settle(cell)
    assert connected(cell, "h1", 2).images == [ONE]
    cell.clock.ms += KEPT_MS  # type: ignore[attr-defined]
    cell.decide()
    settle(cell)
    assert connected(cell, "h1", 3).images == []


def test_what_has_come_of_it_stands_in_the_log(cell: Cell) -> None:
    host = connected(cell, "h1")
    host.report(images=[ImageState("web", ONE), ImageState("web", TWO, "no such image")])
    settle(cell)
    assert host.acknowledged == [True]
    said = {"host_id": "h1", "session": 1, "job_id": "web"}
    assert cell.facts("paceline.tasks", ImagePrefetched) == [
        ImagePrefetched(**said, image_digest=ONE),
        ImagePrefetched(**said, image_digest=TWO, fault="no such image"),
    ]


def test_the_images_that_a_host_has_stand_in_the_log(cell: Cell) -> None:
    host = Host(cell)
    host.connect(1)
    settle(cell)
    host.report()
    host.report(held_images=["0123456789abcdef"])
    host.report(held_images=[])
    assert [event.images for event in cell.facts("paceline.hosts", HostImages)] == [("0123456789abcdef",), ()]
