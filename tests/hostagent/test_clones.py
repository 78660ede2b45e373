"""Two agents with one host id: one is refused, with the machines of both, and no task runs twice."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from events.records.hosts import HostConnected
from events.records.jobs import JobSubmitted
from hostagent import kernel, machine_identity
from hostagent.agent import Agent
from hostagent.agent_settings import AgentSettings
from hostagent.gateway import Gateway
from hostagent.gateway.connections import Attach, Connect, Detach
from hostagent.messages import Hello, MachineIdentity, SessionRefused, Welcome
from tests.hostagent import test_agent
from tests.hostagent.cell import TOKEN, Cell, TestClock, ended, ordered
from tests.hostagent.gateway.test_component import Host, settle
from tests.hostagent.gateway.test_two_gateways import CAPACITY
from tests.hostagent.gateway.test_two_gateways import Site as Two
from tests.hostagent.test_agent import HOST, Site, shell

site = test_agent.site
FIRST, SECOND = MachineIdentity("aaaa", "boot-1", "worker-7"), MachineIdentity("bbbb", "boot-2", "worker-7")
RESTARTED = MachineIdentity("aaaa", "boot-9", "worker-7")


def test_a_folder_keeps_its_identity_and_a_copy_of_it_gets_another(tmp_path: Path) -> None:
    system = tmp_path / "system"
    system.write_text("abc\n")
    folder = tmp_path / "agent"
    folder.mkdir()
    first = machine_identity.identity(folder, system)
    assert machine_identity.identity(folder, system) == first
    shutil.copytree(folder, tmp_path / "copy")
    assert machine_identity.identity(tmp_path / "copy", system).id != first.id
    folder.rename(tmp_path / "moved")
    assert machine_identity.identity(tmp_path / "moved", system) == first
    system.write_text("xyz\n")
    assert machine_identity.identity(tmp_path / "moved", system).id != first.id
    (tmp_path / "moved" / "machine.json").write_text("{garbage")
    assert machine_identity.identity(tmp_path / "moved", system).id


def test_an_image_of_a_whole_machine_differs_by_its_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = machine_identity.identity(tmp_path)
    monkeypatch.setattr(kernel, "boot_id", lambda: "another")
    second = machine_identity.identity(tmp_path)
    assert first.id == second.id
    assert first.boot != second.boot


class Machines:
    """A gateway to which agents of several machines connect as one host."""

    def __init__(self) -> None:
        self.clock = TestClock()
        self.cell = Cell(self.clock)
        settle(self.cell)
        self.session = 0
        self.link = Host(self.cell)

    def connect(self, machine: MachineIdentity) -> str:
        """Returns why it is refused, empty: it isn't."""
        self.session += 1
        session, answers = self.session, list[Welcome | SessionRefused]()
        hello = Hello(session, {"cpu": 1000}, machine=machine)
        self.cell.gateway.post(Connect("h1", hello, answers.append))
        settle(self.cell)
        [answer] = answers
        if isinstance(answer, SessionRefused):
            return answer.title
        self.cell.gateway.post(Attach({"h1": session}, self.link))
        settle(self.cell)
        return ""

    def later(self, ms: int) -> None:
        for _ in range(ms // 1000):
            self.clock.ms += 1000
            settle(self.cell)


@pytest.fixture
def machines() -> Machines:
    return Machines()


@pytest.mark.parametrize("other", [SECOND, RESTARTED, MachineIdentity()])
def test_a_second_agent_is_refused_while_the_first_is_heard(machines: Machines, other: MachineIdentity) -> None:
    assert not machines.connect(FIRST)
    why = machines.connect(other)
    assert str(FIRST) in why
    assert str(other) in why
    assert "--host-id" in why
    assert not machines.link.closed, "the first keeps its link"
    assert not machines.connect(FIRST), "an agent that was killed and comes back at once"


def test_a_machine_that_was_restarted_takes_over_when_it_is_silent(machines: Machines) -> None:
    assert not machines.connect(FIRST)
    machines.cell.submit(JobSubmitted(job_id="j", pool="/p"))
    machines.cell.decide(ordered([("j", 0, 1)], ["h1"]))
    machines.cell.gateway.post(Detach(machines.link))
    assert machines.connect(RESTARTED)
    machines.later(12_000)
    assert not machines.connect(RESTARTED)


def test_another_machine_waits_until_the_runs_of_the_first_are_over(machines: Machines) -> None:
    assert not machines.connect(FIRST)
    machines.cell.submit(JobSubmitted(job_id="j", pool="/p"))
    machines.cell.decide(ordered([("j", 0, 1)], ["h1"]))
    machines.cell.gateway.post(Detach(machines.link))
    machines.later(12_000)
    why = machines.connect(SECOND)
    assert "1 runs" in why
    assert "paceline host remove" in why
    machines.cell.decide(ended([("j", 0, 1)]))
    settle(machines.cell)
    assert not machines.connect(SECOND)
    assert machines.connect(FIRST), "now that is the other"


def test_a_gateway_that_restarts_knows_whose_a_host_is(tmp_path: Path) -> None:
    machines = Machines()
    machines.cell.path = tmp_path / "gateway"
    machines.cell.new_gateway()
    settle(machines.cell)
    assert not machines.connect(FIRST)
    for path in (tmp_path / "gateway", None):  # from its file, and from the log
        machines.cell.gateway.close()
        machines.cell.path = path
        machines.cell.new_gateway()
        settle(machines.cell)
        assert str(FIRST) in machines.connect(SECOND)
    [fact] = machines.cell.facts("paceline.hosts", HostConnected)
    assert isinstance(fact, HostConnected)
    assert (fact.machine, fact.boot, fact.machine_name) == ("aaaa", "boot-1", "worker-7")


def test_of_an_agent_and_its_copy_one_runs_the_tasks(site: Site, tmp_path: Path) -> None:
    said: list[str] = []
    site.start_agent()
    site.stop_agent()
    sockets = shutil.ignore_patterns("*.sock", "*.sock.new")  # of keepers that wait: no program copies a socket
    shutil.copytree(site.folder, tmp_path / "copy", ignore=sockets)
    site.start_agent()
    settings = AgentSettings((site.server.url,), TOKEN, tmp_path / "copy", HOST, {"cpu": 4000})
    copy = Agent(settings, said.append)
    copy.take()
    copy.start()
    try:
        site.cell.until(lambda: any("--host-id" in each for each in said))
        sessions = len(site.cell.inventories())
        site.run(shell("j", "exit 0", instances=3))
        for instance in range(3):
            site.says("j", instance, 1, "EXITED", 0)
        starts = [each for each in site.cell.said() if each[3] == "EXITED"]
        assert len(starts) == 3
        assert copy.runs.inventory() == []
        assert len(site.cell.inventories()) == sessions, "nobody had to connect anew"
        site.stop_agent()
        site.start_agent()
    finally:
        copy.stop()


def both(two: Two) -> Callable[[str, MachineIdentity, int], list[Welcome | SessionRefused]]:
    """Says hello to one of two gateways."""

    def hello(name: str, machine: MachineIdentity, session: int) -> list[Welcome | SessionRefused]:
        answers: list[Welcome | SessionRefused] = []
        gateway = two.gateways[name]
        assert isinstance(gateway, Gateway)
        gateway.post(Connect("h0", Hello(session, CAPACITY, machine=machine), answers.append))
        two.quiet()
        return answers

    return hello


def test_two_gateways_of_a_cell_refuse_the_same() -> None:
    two = Two(hosts=0)
    hello = both(two)
    two.run(1000)
    assert isinstance(hello("a", FIRST, 1)[0], Welcome)
    [refused] = hello("b", SECOND, 50)
    assert isinstance(refused, SessionRefused)
    assert str(FIRST) in refused.title
    assert isinstance(hello("b", FIRST, 60)[0], Welcome), "its own agent may change sides"
    two.kill("b")
    [refused] = hello("a", SECOND, 70)
    assert isinstance(refused, SessionRefused)
    two.run(60_000)
    assert isinstance(hello("a", SECOND, 80)[0], Welcome), "the first went with its gateway and had no runs"
