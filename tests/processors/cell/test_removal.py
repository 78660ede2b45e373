"""A host that has left is forgotten everywhere, and whoever comes under its name is a new host."""

from pathlib import Path
from typing import Any

import pytest

from events.bounds import SESSION_MAX
from events.codec import decode
from events.records.hosts import HostConnected, HostLossConfirmed, HostRemovalRequested, HostSilent
from events.records.placement import HostAnswered, HostRemoved
from events.records.pools import CellConfigured
from events.records.rounds import RoundCommitted
from events.records.tasks import HostInventory
from events.resources import Kinds
from hostagent.fleet import Fleet, SimHost
from hostagent.gateway import Gateway
from projections.queries import entities, host_list
from projections.views.projector import Projector, rebuild
from tests.helpers.whole_cell import HOST, Cell

DAY_MS = 86_400_000


def decided(cell: Cell, kind: type) -> list[Any]:
    rounds = [decode(record.value) for record in cell.log.scan("paceline.placement", 0)]
    values = [value for found in rounds if isinstance(found, RoundCommitted) for value in found.decisions]
    return [event for event in map(decode, values) if isinstance(event, kind)]


def answers(cell: Cell) -> list[str]:
    return [event.code for event in decided(cell, HostAnswered)]


def leave(cell: Cell) -> None:
    """All hosts fall silent."""
    cell.fleet = Fleet(cell.gateway, [], cell.clock, session=1)
    cell.gateway = Gateway(cell.log, cell.gateway._path, cell.clock, "g")
    cell.run(12_000, step=1000)


def known(cell: Cell) -> dict[str, list[str]]:
    """The hosts that each part knows."""
    placement: Any = cell.drivers["placement"].machine
    return {
        "placement": sorted(placement.hosts.table),
        "lifecycle": sorted(cell.lifecycle.hosts.table),
        "gateway": sorted(host_id for host_id, _ in cell.gateway._hosts.items()),
        "wanted": sorted(filter(None, cell.gateway._desired_runs.host_ids)),
    }


def shown(cell: Cell, folder: Path) -> list[Any]:
    """The hosts in views that are built now."""
    folder.mkdir()
    engine = rebuild(cell.log, folder)
    with engine.connect() as connection:
        rows = host_list.host_rows(connection, host_list.HostFilter(), 100, "").rows
    engine.dispose()
    return rows


def test_a_host_is_removed_seven_days_after_it_was_given_up(tmp_path: Path) -> None:
    cell = Cell(hosts=2)
    cell.pool("/p")
    cell.submit("j", instances=4, duration_ms=600_000)
    cell.run(1000)
    leave(cell)
    for number in (1, 2):
        cell.append(HostLossConfirmed(host_id=f"sim-{number}", command_id=str(number)))
    cell.run(1000)
    cell.run(7 * DAY_MS - DAY_MS // 4, step=DAY_MS // 4)
    assert known(cell)["placement"] == ["sim-1", "sim-2"]
    cell.run(DAY_MS // 2, step=DAY_MS // 4)
    assert known(cell) == {"placement": [], "lifecycle": [], "gateway": [], "wanted": []}
    assert [(event.host_id, event.code) for event in decided(cell, HostRemoved)] == [
        ("sim-1", "STAYED_AWAY"),
        ("sim-2", "STAYED_AWAY"),
    ]
    assert shown(cell, tmp_path / "views") == []
    cell.verify()


def test_an_operator_removes_what_has_left_and_nothing_else() -> None:
    cell = Cell(hosts=1)
    cell.pool("/p")
    cell.submit("j", duration_ms=600_000)
    cell.run(1000)

    def ask(host_id: str) -> str:
        cell.append(HostRemovalRequested(host_id=host_id, command_id=host_id))
        cell.run(100)
        return answers(cell)[-1]

    assert ask("nobody") == "NOT_FOUND"
    assert ask("sim-1") == "HOST_CONNECTED"
    leave(cell)
    assert ask("sim-1") == "RUNS_LEFT"
    cell.append(HostLossConfirmed(host_id="sim-1", command_id="c"))
    cell.run(1000)
    assert ask("sim-1") == "DONE"
    assert ask("sim-1") == "NOT_FOUND"
    assert known(cell) == {"placement": [], "lifecycle": [], "gateway": [], "wanted": []}
    cell.verify()


def test_a_removed_host_that_connects_again_is_a_new_one_and_its_old_runs_end(tmp_path: Path) -> None:
    """Its runs went on while it was away."""
    cell = Cell(hosts=1)
    cell.pool("/p")
    cell.submit("j", instances=2, duration_ms=600_000)
    cell.run(1000)
    fleet = cell.fleet
    leave(cell)
    cell.append(HostLossConfirmed(host_id="sim-1", command_id="c"))
    cell.run(1000)
    cell.append(HostRemovalRequested(host_id="sim-1", command_id="r"))
    cell.run(1000)
    assert known(cell)["gateway"] == []
    assert fleet.running() == 2
    fleet.move(cell.gateway)
    cell.fleet = fleet
    cell.run(5000)
    placement: Any = cell.drivers["placement"].machine
    assert placement.hosts.up.all()
    assert fleet.running() == 2, "the old runs were ended, and the next ones of the same tasks began"
    assert fleet.started == 4
    [row] = shown(cell, tmp_path / "views")
    assert entities.host_json(row, Kinds())["state"] == "UP"
    cell.verify()


@pytest.mark.parametrize("session", [SESSION_MAX, SESSION_MAX - 1])
def test_the_highest_session_locks_a_host_out_until_it_is_removed(session: int) -> None:
    cell = Cell(hosts=0)
    cell.append(HostConnected(host_id="sim-1", session=session, gateway="elsewhere"))
    cell.append(HostSilent(host_id="sim-1", session=session))
    cell.run(1000)
    cell.append(HostRemovalRequested(host_id="sim-1", command_id="r"))
    cell.run(1000)
    assert answers(cell) == ["DONE"]
    cell.fleet = Fleet(cell.gateway, [SimHost(1, HOST)], cell.clock, session=5)
    cell.run(1000)
    placement: Any = cell.drivers["placement"].machine
    assert placement.hosts.up.all()
    assert list(placement.hosts.table) == ["sim-1"]
    cell.verify()


def test_numbers_of_removed_hosts_are_used_again_and_recovery_goes_on_alike() -> None:
    cell = Cell(hosts=0)
    cell.append(
        CellConfigured(command_id="c", host_removed_after_ms=1000, host_lost_after_ms=DAY_MS, host_lost_grace_ms=DAY_MS)
    )
    cell.pool("/p")
    for generation in range(6):
        hosts = [SimHost(3, HOST, pattern=f"g{generation}-#")]
        cell.fleet = Fleet(cell.gateway, hosts, cell.clock, session=1)
        cell.submit(f"j{generation}", instances=4, duration_ms=100)
        cell.run(2000)
        assert cell.state(f"j{generation}") == "SUCCEEDED"
        leave(cell)
        for number in (1, 2, 3) if generation % 2 else (1, 3):
            cell.append(HostLossConfirmed(host_id=f"g{generation}-{number}", command_id=f"{generation}-{number}"))
        cell.run(5000, step=1000)
        for name in ("placement", "lifecycle"):
            cell.recover(name)
    placement: Any = cell.drivers["placement"].machine
    assert sorted(placement.hosts.table) == ["g0-2", "g2-2", "g4-2"]
    assert len(placement.hosts.ids) <= 6
    assert max(row.number for row in cell.lifecycle.hosts.table.values()) <= 6
    assert known(cell)["wanted"] == ["g0-2", "g2-2", "g4-2"]
    cell.verify()


def test_a_gateway_that_restarts_from_its_checkpoint_knows_the_same_hosts(tmp_path: Path) -> None:
    cell = Cell(hosts=3)
    cell.gateway = Gateway(cell.log, tmp_path / "gateway", cell.clock, "g")
    cell.fleet = Fleet(cell.gateway, [SimHost(3, HOST)], cell.clock, session=1)
    cell.run(1000)
    leave(cell)
    cell.append(HostRemovalRequested(host_id="sim-2", command_id="r"))
    cell.run(1000)
    before = known(cell)
    assert before["gateway"] == ["sim-1", "sim-3"]
    numbers = {host_id: cell.gateway._desired_runs.host(host_id) for host_id in before["gateway"]}
    cell.gateway.close()
    cell.gateway = Gateway(cell.log, tmp_path / "gateway", cell.clock, "g")
    cell.run(100)
    assert known(cell) == before
    assert {host_id: cell.gateway._desired_runs.host(host_id) for host_id in before["gateway"]} == numbers


def test_views_that_follow_and_views_that_are_built_anew_show_the_same_hosts(tmp_path: Path) -> None:
    cell = Cell(hosts=2)
    (tmp_path / "live").mkdir()
    live = Projector(cell.log, tmp_path / "live")
    cell.pool("/p")
    cell.submit("j", instances=2, duration_ms=100)
    cell.run(2000)
    live.fold_whole()
    leave(cell)
    cell.append(HostRemovalRequested(host_id="sim-1", command_id="r"))
    cell.run(100)
    live.fold_whole()
    cell.fleet = Fleet(cell.gateway, [SimHost(1, HOST)], cell.clock, session=50)
    cell.submit("k", instances=2, duration_ms=100)
    cell.run(2000)
    live.fold_whole()
    with live.views.read() as connection:
        rows = host_list.host_rows(connection, host_list.HostFilter(), 100, "").rows
    assert rows == shown(cell, tmp_path / "anew")
    assert [(row.host_id, entities.host_json(row, Kinds())["state"]) for row in rows] == [
        ("sim-1", "UP"),
        ("sim-2", "SILENT"),
    ]
    live.close()


def test_an_inventory_that_is_read_after_the_removal_of_its_host_leaves_nothing_for_ever(tmp_path: Path) -> None:
    """It may have waited in the log meanwhile, or have been written twice."""
    cell = Cell(hosts=1)
    cell.run(1000)
    leave(cell)
    cell.append(HostRemovalRequested(host_id="sim-1", command_id="r"))
    cell.run(1000)
    nothing: dict[str, list[str]] = {"placement": [], "lifecycle": [], "gateway": [], "wanted": []}
    assert known(cell) == nothing
    cell.append(HostInventory(host_id="sim-1", session=1, job_ids=(), job=b"", instance=b"", run=b"", state=b"",
                              exit_code=b""))  # fmt: skip
    cell.run(1000)
    assert known(cell)["lifecycle"] == ["sim-1"]
    cell.run(7 * DAY_MS + DAY_MS // 2, step=DAY_MS // 4)
    assert known(cell) == nothing
    assert [event.code for event in decided(cell, HostRemoved)] == ["ASKED", "STAYED_AWAY"]
    assert shown(cell, tmp_path / "views") == []
    cell.verify()
