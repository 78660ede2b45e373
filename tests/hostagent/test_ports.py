"""Agents of one machine and their runs never have a port in common, whatever their cells."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from events.records.hosts import HostOffered
from hostagent import keepers
from hostagent.agent import Agent
from hostagent.agent_settings import AgentSettings
from hostagent.agent_state import AgentFault
from hostagent.keeper import kept_run
from hostagent.keeper.loop import Keeper
from hostagent.port_locks import take
from hostagent.ports import PortsTaken, take_ports
from hostagent.run_record import Launch, RunKey
from hostagent.runs import Runs, stop_all
from tests.helpers.ports import kept_port
from tests.helpers.waiting import until
from tests.hostagent.cell import TOKEN, Cell, Server

KEY = RunKey("j", 0, 1)


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    return tmp_path / "ports"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A stranger that listens on some port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def runs(tmp_path: Path, locks: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    monkeypatch.setattr(keepers, "KEEPERS", 1)
    yield Runs(tmp_path / "a", locks)
    assert stop_all(tmp_path / "a")[1] == 0


def start(runs: Runs, key: RunKey, *ports: int) -> None:
    runs.start(key, Launch(("sleep", "600"), dict(os.environ), 100, ports=ports))


def until_tried(runs: Runs) -> None:
    """The only keeper takes one start after another: when it has ended a later one, it has tried those before."""
    run = runs.start(RunKey("later", 0, 1), Launch(("true",), dict(os.environ), 100))
    until(lambda: runs.poll() or not run.alive)


def test_the_second_agent_of_a_machine_moves_down_and_keeps_its_range(locks: Path) -> None:
    with take_ports(31000, 31999, True, locks=locks) as first:
        with take_ports(31000, 31999, True, locks=locks) as second:
            assert (first.first, second.first, second.last) == (31000, 30000, 30999)
        with take_ports(31000, 31999, True, locks=locks) as other, take_ports(31000, 31999, True, locks=locks) as third:
            assert (other.first, third.first) == (30000, 29000)
    with take_ports(31000, 31999, True, before=30000, locks=locks) as again:
        assert again.first == 30000


def test_a_range_that_was_asked_for_is_not_moved(locks: Path) -> None:
    with take_ports(31000, 31999, False, locks=locks), pytest.raises(PortsTaken, match="31500-31500"):
        take_ports(31500, 31500, False, locks=locks)


def test_a_range_is_free_again_when_its_agent_has_ended(locks: Path) -> None:
    for _ in range(2):
        with take_ports(31000, 31999, False, locks=locks) as found:
            assert found.first == 31000


def test_runs_that_outlive_their_agent_keep_their_ports_from_other_agents(runs: Runs, locks: Path) -> None:
    port = kept_port()
    start(runs, KEY, port)
    until(lambda: runs.poll() or runs.alive()[0].state)
    with take_ports(port - 5, port + 4, True, locks=locks) as other:
        assert other.last < port - 5
    again = Runs(runs._root.parent, locks)
    with take_ports(port - 5, port + 4, True, own=again.ports(), locks=locks) as own:
        assert own.first == port - 5
    runs.stop(KEY)
    until(lambda: runs.poll() or not runs.alive())
    with take_ports(port - 5, port + 4, True, locks=locks) as other:
        assert other.first == port - 5


def test_a_run_waits_for_the_one_that_has_its_port(runs: Runs) -> None:
    """As the next run of a port does, while the last one has its grace."""
    port, second = kept_port(), RunKey("j", 0, 2)
    start(runs, KEY, port)
    until(lambda: runs.poll() or runs.alive()[0].state)
    start(runs, second, port)
    waiting = runs._runs[second].folder
    until_tried(runs)
    assert not (waiting / "process.json").exists()
    runs.stop(KEY)
    until((waiting / "started").exists)
    until((runs._runs[KEY].folder / "exit.json").exists)


def test_a_run_waits_for_a_stranger_that_listens_and_can_be_stopped_meanwhile(
    runs: Runs, listener: socket.socket
) -> None:
    start(runs, KEY, listener.getsockname()[1])
    until_tried(runs)
    runs.stop(KEY)
    until(lambda: runs.poll() or not runs.alive())
    assert "stopped before it started" in [run.reason for run in runs.inventory()]


def test_a_run_that_does_not_get_its_port_is_refused_with_the_reason(
    tmp_path: Path, locks: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = listener.getsockname()[1]
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(kept_run, "TURN_S", 0.0)
    order = {"v": 1, "command": ["true"], "ports": [port], "port_locks": str(locks), "alone": False}
    folder = tmp_path / "runs/j/0/1"
    folder.mkdir(parents=True)
    (folder / "order.json").write_text(json.dumps(order | {"stop_grace_ms": 0, "stop_after_ms": 0}))
    keeper = Keeper(str(tmp_path), 0, "", 100)
    try:
        keeper.obey({"start": ["j/0/1"]}, [os.open(folder, os.O_RDONLY)])
    finally:
        signal.set_wakeup_fd(-1)
    said = json.loads((folder / "exit.json").read_text())
    assert said == {"run": "j/0/1", "state": 4, "exit_code": 127, "reason": f"a stranger listens on port {port}"}


def test_ports_are_taken_all_or_none(locks: Path, listener: socket.socket) -> None:
    free, port = kept_port(), listener.getsockname()[1]
    assert take(str(locks), [free, port]) == (-1, f"a stranger listens on port {port}")
    held, fault = take(str(locks), [free])
    assert fault == ""
    assert take(str(locks), [free, port]) == (-1, f"another run of this machine has port {free}")
    os.close(held)


def test_agents_of_two_cells_offer_different_ports(tmp_path: Path, locks: Path) -> None:
    offers = []
    agents = []
    for name in ("a", "b"):
        cell = Cell()
        server = Server(cell.gateway)
        settings = AgentSettings((server.url,), TOKEN, tmp_path / name, name, {"cpu": 1}, port_locks=locks)
        agents.append(Agent(settings))
        agents[-1].take()
        agents[-1].start()
        cell.until(cell.inventories)
        offers += cell.facts("paceline.hosts", HostOffered)
        server.stop()
    for agent in agents:
        agent.stop()
    assert [(offer.port_first, offer.port_last) for offer in offers] == [(31000, 31999), (30000, 30999)]  # type: ignore[attr-defined]


def test_two_agents_on_one_folder_are_refused(tmp_path: Path, locks: Path) -> None:
    settings = AgentSettings(("http://127.0.0.1:1",), TOKEN, tmp_path, "h", port_locks=locks)
    first = Agent(settings)
    first.take()
    first.start()
    with pytest.raises(AgentFault, match="another agent runs on"):
        Agent(settings).take()
    first.stop()
    again = Agent(settings)
    again.take()
    again.start()
    again.stop()
