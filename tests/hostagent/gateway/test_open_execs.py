"""What hosts and users say of commands inside runs: what can't be written ends nothing but itself."""

from concurrent.futures import Future

import msgspec
import pytest

from events.records.hosts import HostConnected
from events.records.jobs import JobSubmitted
from events.records.tasks import ExecClosed
from hostagent.gateway import LogMissing
from hostagent.gateway.connections import AskExec, Connect, Report
from hostagent.gateway.facts import columns_of
from hostagent.messages import ExecEnd, ExecLine, Hello, MachineIdentity, ReportBatch, SessionRefused
from tests.hostagent.cell import Cell, ordered
from tests.hostagent.gateway.test_component import Host

ID = "0" * 32


class Entered(Host):
    """A host that commands may be asked of."""

    def __init__(self, cell: Cell, host_id: str) -> None:
        super().__init__(cell, host_id)
        self.lines: list[object] = []

    def ask(self, host_id: str, line: object) -> None:
        self.lines.append(line)

    def tell(self, *ends: ExecEnd) -> bool:
        said: list[bool] = []
        reports = columns_of(self.host_id, ())
        self.cell.gateway.post(Report((self.session,), reports, said.append, execs=ends))
        self.cell.gateway.step()
        return said[0]


@pytest.fixture
def cell() -> Cell:
    cell = Cell()
    cell.submit(JobSubmitted(job_id="j", pool="/p"))
    cell.decide(ordered([("j", 0, 1)], ["h1"]))
    return cell


@pytest.fixture
def hosts(cell: Cell) -> list[Entered]:
    made = [Entered(cell, "h1"), Entered(cell, "h2")]
    for host in made:
        host.connect(1)
    while cell.turn():
        pass
    return made


def enter(cell: Cell, exec_id: str, *command: str) -> "Future[str]":
    host: Future[str] = Future()
    cell.gateway.post(AskExec(None, ExecLine(exec_id, "j", 0, 1, command), None, host))
    cell.gateway.step()
    return host


def ends(cell: Cell) -> list[int]:
    return [end.exit_code for end in cell.facts("paceline.tasks", ExecClosed)]


def test_a_command_that_can_not_be_written_is_refused_for_who_asks(cell: Cell, hosts: list[Entered]) -> None:
    refused = enter(cell, ID, "\ud800")
    with pytest.raises(LogMissing, match="can't be written to the log"):
        refused.result(0)
    assert enter(cell, ID, "true").result(0) == "h1"
    assert len(hosts[0].lines) == 1


def test_a_host_that_says_what_can_not_be_written_has_no_session(cell: Cell, hosts: list[Entered]) -> None:
    answers: list[object] = []
    hello = Hello(2, {"cpu": 1}, machine=MachineIdentity("m", "\ud800", "n"))
    cell.gateway.post(Connect("h1", hello, answers.append))
    cell.gateway.step()
    assert [type(each) for each in answers] == [SessionRefused]
    assert not hosts[0].closed
    assert len(cell.facts("paceline.hosts", HostConnected)) == 2
    assert hosts[0].tell()


def test_a_report_that_can_not_be_written_is_not_taken(cell: Cell, hosts: list[Entered]) -> None:
    assert not hosts[0].tell(ExecEnd(ID, "j", 2**63, ""))
    assert hosts[0].tell(ExecEnd(ID, "j", 3, ""))
    assert ends(cell) == [3]


def test_no_host_tells_the_end_of_anothers_command(cell: Cell, hosts: list[Entered]) -> None:
    enter(cell, ID, "true").result(0)
    assert hosts[1].tell(ExecEnd(ID, "j", 1, ""))
    assert hosts[0].tell(ExecEnd(ID, "other", 2, ""))
    assert ends(cell) == []
    assert hosts[0].tell(ExecEnd(ID, "j", 3, "lost"), ExecEnd(ID, "j", 4, "again"))
    assert ends(cell) == [3]


def test_the_end_of_a_command_that_another_gateway_had_is_taken_from_the_host_of_its_run_alone(
    cell: Cell, hosts: list[Entered]
) -> None:
    assert hosts[1].tell(ExecEnd("1" * 32, "j", 1, ""), ExecEnd("2" * 32, "nothing", 1, ""))
    assert hosts[0].tell(ExecEnd("2" * 32, "nothing", 1, ""), ExecEnd("3" * 32, "j", 1, "", 0, 7))
    assert ends(cell) == []
    assert hosts[0].tell(ExecEnd("1" * 32, "j", 3, ""))
    assert ends(cell) == [3]


@pytest.mark.parametrize(
    "end",
    [
        {"exit_code": 1 << 63},
        {"exit_code": 256},
        {"exit_code": -1},
        {"exec_id": "a"},
        {"exec_id": f"{ID}\n"},
        {"job_id": ""},
        {"job_id": "a/b"},
        {"reason": "x" * 1001},
    ],
)
def test_an_end_out_of_bounds_is_no_report(end: dict[str, object]) -> None:
    usual = {"exec_id": ID, "job_id": "j", "exit_code": 255, "reason": "lost"}
    batch = {"session": 1, "number": 1, "execs": [usual]}
    assert msgspec.json.decode(msgspec.json.encode(batch), type=ReportBatch).execs
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode({**batch, "execs": [usual | end]}), type=ReportBatch)
    with pytest.raises(msgspec.ValidationError, match="length <= 64"):
        msgspec.json.decode(msgspec.json.encode({**batch, "execs": [usual] * 65}), type=ReportBatch)
