"""What hosts use: measured of real processes, told seldom, one fact a second and gateway."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from events.records.hosts import HostsLoaded
from events.records.jobs import JobSubmitted
from hostagent import agent
from hostagent.agent_settings import AgentSettings
from hostagent.gateway.connections import Report
from hostagent.gateway.facts import columns_of
from hostagent.load import LoadNews, steps
from hostagent.messages import HostLoad
from hostagent.runs import stop_all
from hostagent.usage import of_sessions
from tests.helpers.waiting import until
from tests.hostagent.cell import Cell, TestClock
from tests.hostagent.gateway.test_component import Host, settle
from tests.hostagent.test_agent import HOST, Site

BUSY = "while True: pass"


def told(*loads: tuple[int, HostLoad]) -> list[int]:
    """Which of the loads, each at a second, are told."""
    news, out = LoadNews(0), []
    for second, load in loads:
        if news.due(load, 1000 * second):
            news.told(load, 1000 * second)
            out.append(second)
    return out


def test_a_change_of_two_steps_is_told_once_a_minute() -> None:
    assert told((5, HostLoad(1, 1)), (10, HostLoad(2, 0))) == [10]
    assert told((5, HostLoad(8, 0)), (10, HostLoad(2, 0)), (64, HostLoad(2, 0)), (65, HostLoad(0, 0))) == [5, 65]
    assert told((5, HostLoad(8, 0)), (70, HostLoad(7, 1)), (80, HostLoad(7, 2))) == [5, 80]


def test_less_slack_is_told_at_once_and_more_slack_in_its_turn() -> None:
    assert told((5, HostLoad(8, 0, 4)), (7, HostLoad(8, 0, 3)), (10, HostLoad(8, 0, 3))) == [5, 10]
    assert told((5, HostLoad(8, 0, 4)), (20, HostLoad(8, 0, 5)), (65, HostLoad(8, 0, 5))) == [5, 65]


def test_a_load_that_stays_is_told_every_ten_minutes() -> None:
    same = HostLoad(0, 0)
    assert told(*((second, same) for second in range(5, 1300, 5))) == [600, 1200]


def test_steps_are_rounded_and_end_at_the_capacity() -> None:
    assert [steps(used, 1600) for used in (0, 49, 50, 149, 1600, 9000)] == [0, 0, 1, 1, 16, 16]
    assert [steps(used, 1600, down=True) for used in (99, 100, 1599)] == [0, 1, 15]
    assert steps(5, 0) == 0


def test_a_gateway_writes_what_all_hosts_use_once_a_second(tmp_path: Path) -> None:
    clock = TestClock()
    cell = Cell(clock, tmp_path / "gateway.msgpack")
    hosts = [Host(cell, f"h{number}") for number in range(3)]
    for host in hosts:
        host.connect(1)
    settle(cell)

    def say(host: Host, load: HostLoad) -> None:
        report = Report((host.session,), columns_of(host.host_id, []), host.acknowledged.append, loads=[(0, load)])
        cell.gateway.post(report)

    say(hosts[0], HostLoad(1, 2, 3))
    settle(cell)
    say(hosts[1], HostLoad(4, 5))
    say(hosts[2], HostLoad(6, 7))
    say(hosts[2], HostLoad(8, 9))
    settle(cell)
    assert [rows(fact) for fact in facts(cell)] == [[("h0", 1, 1, 2, 3)]]
    assert cell.gateway.wait_ms() == 1000
    clock.ms += 1000
    settle(cell)
    assert [rows(fact) for fact in facts(cell)][1:] == [[("h1", 1, 4, 5, 0), ("h2", 1, 8, 9, 0)]]


def test_what_a_host_says_in_an_earlier_session_is_not_written(tmp_path: Path) -> None:
    cell = Cell(TestClock(), tmp_path / "gateway.msgpack")
    host = Host(cell)
    host.connect(1)
    settle(cell)
    host.connect(2)
    settle(cell)
    cell.gateway.post(Report((1,), columns_of("h1", []), host.acknowledged.append, loads=[(0, HostLoad(1, 1))]))
    settle(cell)
    assert host.acknowledged == [False]
    assert not facts(cell)


def facts(cell: Cell) -> list[HostsLoaded]:
    return [fact for fact in cell.facts("paceline.hosts", HostsLoaded) if isinstance(fact, HostsLoaded)]


def rows(fact: HostsLoaded) -> list[tuple[str, int, int, int, int]]:
    columns = (fact.host_session_array, fact.cpu_used_array, fact.memory_used_array, fact.slack_array)
    return list(zip(fact.host_ids, *(column.tolist() for column in columns), strict=True))


@pytest.fixture
def session() -> Iterator[int]:
    """A session of two busy processes."""
    shell = ["sh", "-c", '"$0" -c "$1" & "$0" -c "$1"', sys.executable, BUSY]
    process = subprocess.Popen(shell, start_new_session=True)
    yield process.pid
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_the_processes_of_a_session_are_measured_together(session: int) -> None:
    until(lambda: of_sessions([session])[session].cpu_ms >= 200, "two processes to be busy")
    sample = of_sessions([session, os.getsid(0), 2**22])
    assert sample[session].memory_kib > 2 * 4096
    assert 2**22 not in sample


class SmallSite(Site):
    """A host that offers little, so that a task on a busy machine uses much of it."""

    def settings(self) -> AgentSettings:
        return replace(super().settings(), resources={"cpu": 100, "memory": 1000})


def test_the_log_says_what_the_runs_of_a_real_host_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "SAMPLE_S", 0.2)
    site = SmallSite(tmp_path / "agent")
    site.start_agent()
    try:
        site.run(JobSubmitted(job_id="j", pool="/p", command=(sys.executable, "-c", BUSY)))
        site.cell.until(lambda: [fact for fact in facts(site.cell) if rows(fact)[0][2] > 0])
        [(host_id, _, cpu, memory, slack)] = rows(facts(site.cell)[0])
        assert (host_id, slack) == (HOST, 0)
        assert cpu in range(1, 17)
        assert memory in range(17)
    finally:
        site.stop_agent()
        assert stop_all(site.folder)[1] == 0
        site.cell.turn()
        site.cell.gateway.close()
        site.server.stop()
