"""Volumes that hosts are to remove, as the gateway passes it on."""

from pathlib import Path

import pytest

from events.records.hosts import HostVolumes
from events.records.lifecycle import VolumeRemovalOrdered
from events.records.parts import Volume
from hostagent.gateway.facts import fact
from hostagent.messages import VolumeState
from tests.hostagent.cell import Cell, TestClock
from tests.hostagent.gateway.test_component import Host, settle

DATA, WAL = VolumeState("db", 0, "data", 5), VolumeState("db", 0, "wal", 5)


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return Cell(TestClock(), tmp_path / "gateway.msgpack")


@pytest.fixture
def host(cell: Cell) -> Host:
    host = Host(cell)
    host.connect(1)
    settle(cell)
    return host


def remove(cell: Cell, *volumes: VolumeState) -> None:
    for each in volumes:
        ordered = VolumeRemovalOrdered(
            host_id="h1", job_id=each.job_id, instance=each.instance, name=each.name, created_ms=each.created_ms
        )
        cell.decide(ordered)
    settle(cell)


def reconnected(cell: Cell, session: int) -> Host:
    host = Host(cell)
    host.connect(session)
    settle(cell)
    return host


def test_what_a_host_has_stands_in_the_log(cell: Cell, host: Host) -> None:
    host.report()
    host.report(volumes=[DATA])
    host.report(volumes=[])
    assert host.acknowledged == [True] * 3
    part = Volume("db", 0, "data", 5)
    assert cell.facts("paceline.hosts", HostVolumes) == [
        HostVolumes(host_id="h1", session=1, volumes=(part,)),
        HostVolumes(host_id="h1", session=1, volumes=()),
    ]


def test_what_an_earlier_session_says_of_volumes_is_not_taken(cell: Cell, host: Host) -> None:
    reconnected(cell, 2)
    host.report(volumes=[DATA])
    assert host.acknowledged == [False]
    assert cell.facts("paceline.hosts", HostVolumes) == []


def test_a_connected_host_is_asked_at_once_and_no_other(cell: Cell, host: Host) -> None:
    other = Host(cell, "h2")
    other.connect(1)
    settle(cell)
    remove(cell, DATA)
    assert (host.removals, other.removals) == ([[DATA]], [])


def test_a_host_is_asked_again_when_it_connects_until_it_has_the_volume_no_more(cell: Cell, host: Host) -> None:
    host.report(volumes=[DATA, WAL])
    settle(cell)
    remove(cell, DATA, WAL)
    cell.clock.ms += 10  # type: ignore[attr-defined]
    host.report(volumes=[DATA])
    settle(cell)
    again = reconnected(cell, 2)
    assert again.removals == [[DATA]]
    again.report(volumes=[])
    settle(cell)
    assert reconnected(cell, 3).removals == []


def test_what_a_host_said_before_the_removal_does_not_end_it(cell: Cell, host: Host) -> None:
    removal = VolumeRemovalOrdered(host_id="h1", job_id="db", instance=0, name="data", created_ms=5)
    cell.gateway._removals.ordered(removal, cell.clock.monotonic_ms() + 10)
    host.report(volumes=[])
    settle(cell)
    assert reconnected(cell, 2).removals == [[DATA]]


def test_what_a_gateway_wrote_of_an_earlier_session_does_not_end_a_removal(cell: Cell, host: Host) -> None:
    remove(cell, DATA)
    reconnected(cell, 2)
    cell.clock.ms += 10  # type: ignore[attr-defined]
    late = HostVolumes(host_id="h1", session=1, volumes=())
    cell.log.append([fact(late, "h1")])
    settle(cell)
    assert reconnected(cell, 3).removals == [[DATA]]


def test_a_gateway_that_starts_anew_knows_what_is_to_be_removed(cell: Cell, host: Host) -> None:
    remove(cell, DATA)
    cell.gateway.close()
    position = cell.gateway._inbox.positions["paceline.lifecycle"]
    gateway = cell.new_gateway()
    assert gateway._inbox.positions["paceline.lifecycle"] == position
    settle(cell)
    assert reconnected(cell, 2).removals == [[DATA]]
