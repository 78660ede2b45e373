"""Gangs of real processes: each member is told where the others are before it starts, and they talk to one another."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from events.codec import encode
from events.log.port import NewRecord
from events.records.hosts import HostOffered
from events.records.jobs import JobSubmitted
from hostagent.agent import Agent
from hostagent.agent_settings import AgentSettings
from hostagent.gang_members import ADDRESSES_BYTES_MAX, Member, listing, packed, unpacked, variables
from hostagent.runs import stop_all
from paceline.client.output_ask import OutputAsk
from tests.helpers.ports import kept_port
from tests.hostagent.cell import TOKEN, Cell, Server, ended, ordered, stopping
from tests.hostagent.test_fleet import Fleeted

RING = """
import json, os, socket, time
rank, size = int(os.environ["PACELINE_RANK"]), int(os.environ["PACELINE_SIZE"])
addresses = [each.split(":") for each in os.environ["PACELINE_ADDRESSES"].split(",")]
assert addresses[0] == [os.environ["PACELINE_MASTER_HOST"], os.environ["PACELINE_MASTER_PORT"]]
members = json.load(open(os.environ["PACELINE_MEMBERS"]))
assert [[each["host"], str(each["ports"][0])] for each in members] == addresses
assert [each["task"] for each in members] == [f"{os.environ['PACELINE_JOB']}/{each}" for each in range(size)]
mine = socket.create_server(("127.0.0.1", int(addresses[rank][1])))
def send(number):
    host, port = addresses[(rank + 1) % size]
    while True:
        try:
            with socket.create_connection((host, int(port))) as peer:
                return peer.sendall(str(number).encode())
        except ConnectionRefusedError:
            time.sleep(0.01)
def receive():
    with mine.accept()[0] as peer:
        return int(peer.makefile().read())
if rank == 0:
    send(rank)
    print("sum", receive())
else:
    send(receive() + rank)
"""


class Sites:
    """A cell and two hosts with agents."""

    def __init__(self, folder: Path) -> None:
        self.cell = Cell()
        self.server = Server(self.cell.gateway)
        self.folders = {name: folder / name for name in ("h1", "h2")}
        self.agents = []
        for name, where in self.folders.items():
            offers = {"hostname": "127.0.0.1"}
            agent = Agent(AgentSettings((self.server.url,), TOKEN, where, name, {"cpu": 4000}, offers))
            agent.take()
            agent.start()
            self.agents.append(agent)
        self.cell.until(lambda: len(self.cell.inventories()) == 2)
        self.cell.until(lambda: all(agent.connected for agent in self.agents))

    def started(self) -> list[tuple[str, int]]:
        return [(job_id, instance) for job_id, instance, _, state, _ in self.cell.said() if state == "STARTED"]

    def close(self) -> None:
        for agent in self.agents:
            agent.stop()
        assert [stop_all(folder)[1] for folder in self.folders.values()] == [0, 0]
        self.cell.turn()
        self.cell.gateway.close()
        self.server.stop()


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    sites = Sites(tmp_path)
    yield sites
    sites.close()


def ring(size: int) -> JobSubmitted:
    command = (sys.executable, "-c", RING)
    return JobSubmitted(job_id="ring", pool="/p", command=command, instances=size, gang_min=size, ports=("ring",))


def output(sites: Sites, job_id: str, instance: int) -> str:
    asked = sites.cell.gateway.log_of(OutputAsk(job_id, instance, 1, "stdout", 0, 10_000))
    sites.cell.until(asked.done)
    return asked.result().data.decode()


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_gang_on_two_hosts_talks_over_its_addresses(sites: Sites, rounds: int) -> None:
    """However many rounds lifecycle takes to order it."""
    sites.cell.submit(ring(3))
    tasks, hosts, ports = [("ring", each, 1) for each in range(3)], ["h1", "h2", "h1"], [kept_port() for _ in range(3)]
    each = 3 // rounds
    for at in range(0, 3, each):
        assert sites.started() == []
        part = slice(at, at + each)
        sites.cell.decide(ordered(tasks[part], hosts[part], ports[part]))
        sites.cell.turn()
    for rank in range(3):
        sites.cell.until(lambda rank=rank: ("ring", rank, 1, "EXITED", 0) in list(sites.cell.said()))
    assert output(sites, "ring", 0) == "sum 3\n"


def test_a_member_of_a_gang_that_is_never_whole_is_stopped_before_it_starts(sites: Sites) -> None:
    sites.cell.submit(ring(2))
    sites.cell.decide(ordered([("ring", 0, 1)], ["h1"], [kept_port()]))
    sites.cell.decide(stopping([("ring", 0, 1)], ["h1"]))
    sites.cell.until(lambda: ("ring", 0, 1, "STOPPED", 143) in list(sites.cell.said()))
    assert sites.started() == []


def test_a_gang_that_starts_again_is_told_of_its_new_places() -> None:
    cell = Fleeted(2)
    cell.submit(JobSubmitted(job_id="g", pool="/p", instances=2, gang_min=2))
    told = []
    cell.fleet.deliver = lambda orders: told.extend(  # type: ignore[method-assign]
        unpacked(gang) for gang in orders.gangs if gang
    )
    first, second = [("g", 0, 1), ("g", 1, 1)], [("g", 0, 2), ("g", 1, 2)]
    cell.decide(ordered(first, ["sim-1", "sim-2"]))
    cell.rest()
    cell.decide(ended(first))
    cell.decide(ordered(second, ["sim-2", "sim-2"]))
    cell.rest()
    assert [[each.host for each in members] for members in told] == [["sim-1", "sim-2"], ["sim-2", "sim-2"]]


def test_what_a_gang_is_told_outlives_its_gateway(tmp_path: Path) -> None:
    cell = Cell(path=tmp_path / "gateway")
    offered = HostOffered(host_id="h1", session=1, capacity={"cpu": 1}, attributes={"hostname": "node-7"})
    cell.log.append([NewRecord("paceline.hosts", b"h1", encode(offered))])
    cell.submit(JobSubmitted(job_id="g", pool="/p", instances=2, gang_min=2))
    cell.decide(ordered([("g", 0, 1)], ["h1"]))
    while cell.turn():
        pass
    cell.gateway.close()
    wanted = cell.new_gateway()._desired_runs
    number = wanted.host("h1")
    assert [len(piece.job) for piece in wanted.all_orders([number])] == []
    cell.decide(ordered([("g", 1, 1)], ["h1"]))
    while cell.turn():
        pass
    [piece] = wanted.all_orders([number])
    [gang] = wanted.orders(9, True, [number], [piece]).gangs
    assert unpacked(gang) == [Member("node-7"), Member("node-7")]


def test_a_large_gang_is_packed_once_and_told_in_a_file_where_a_variable_is_too_long() -> None:
    members = [Member(f"node-{rank // 8}.example.com", (31000 + rank % 8, 32000)) for rank in range(16_000)]
    text = packed(members)
    assert len(text) < 100_000
    assert unpacked(text) == members
    found = variables(members, 9)
    assert (found["PACELINE_RANK"], found["PACELINE_SIZE"]) == ("9", "16000")
    assert (found["PACELINE_MASTER_HOST"], found["PACELINE_MASTER_PORT"]) == ("node-0.example.com", "31000")
    assert "PACELINE_ADDRESSES" not in found
    assert all(len(value) <= ADDRESSES_BYTES_MAX for value in variables(members[:1000], 1).values())
    assert json.loads(listing("j", members))[9] == {"task": "j/9", "host": members[9].host, "ports": [31001, 32000]}


@pytest.mark.parametrize("text", ["=", "eJw=", packed([Member("h")])[:-8], packed([])[:4]])
def test_members_that_can_not_be_read_are_said_to_be(text: str) -> None:
    with pytest.raises(ValueError, match="the members of the gang can't be read"):
        unpacked(text)
