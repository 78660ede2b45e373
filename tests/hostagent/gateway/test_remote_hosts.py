"""Output of runs for an API server in another process, and agents, where there are several gateways and cells."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from events.log.memory import MemoryLog
from events.process.clock import SystemClock
from events.records.jobs import JobSubmitted
from hostagent.agent import Agent
from hostagent.agent_settings import AgentSettings
from hostagent.gateway import Gateway
from hostagent.gateway.remote_hosts import RemoteHosts
from hostagent.runs import stop_all
from paceline.client.output_ask import OutputAsk
from tests.helpers.ports import kept_address
from tests.hostagent.cell import TOKEN, Cell, Server, ordered


class Several:
    """Gateways of cell 0: `here`, which the agent follows, `idle`, and `late`, which has not caught up; `foreign` of
    cell 1; and an address where nobody listens.
    """

    def __init__(self, folder: Path) -> None:
        clock = SystemClock()
        self.cell = Cell()
        idle, foreign = Gateway(self.cell.log, None, clock, "idle"), Gateway(MemoryLog(lambda: 1, 1), None, clock, "f")
        self.cell.others += [idle, foreign]
        late = Gateway(self.cell.log, None, clock, "late")
        self.servers = [Server(gateway) for gateway in (self.cell.gateway, idle, foreign, late)]
        self.here, self.idle, self.foreign, self.late = (server.url for server in self.servers)
        self.dead = kept_address()
        self.folder = folder
        self.said: list[str] = []

    def agent(self, *urls: str) -> Agent:
        settings = AgentSettings(urls, TOKEN, self.folder, "h1", {"cpu": 1000}, port_locks=self.folder / "p")
        agent = Agent(settings, self.said.append)
        agent.take()
        agent.start()
        return agent

    def ask(self, *addresses: str, cell: int | None = 0, token: str = TOKEN) -> str:
        """The output of task 0 of job j, or why there is none."""

        async def asked() -> str:
            page = await RemoteHosts(addresses, token, cell).output(OutputAsk("j", 0, 1, "stdout", 0, 1000), "h1")
            return page.data.decode()

        with ThreadPoolExecutor() as threads:
            answer = threads.submit(asyncio.run, asked())
            self.cell.until(answer.done)
        return answer.result()


@pytest.fixture
def several(tmp_path: Path) -> Iterator[Several]:
    found = Several(tmp_path / "agent")
    yield found
    for server in found.servers:
        server.stop()
    assert stop_all(found.folder)[1] == 0


def test_the_gateway_that_has_the_host_answers_and_the_others_are_skipped(several: Several) -> None:
    agent = several.agent(several.here)
    several.cell.until(several.cell.inventories)
    several.cell.submit(JobSubmitted(job_id="j", pool="/p", command=("echo", "hello")))
    several.cell.decide(ordered([("j", 0, 1)], ["h1"]))
    several.cell.until(lambda: ("j", 0, 1, "EXITED", 0) in list(several.cell.said()))
    assert several.ask(several.dead, several.foreign, several.late, several.idle, several.here) == "hello\n"
    with pytest.raises(LookupError, match="host h1 is not connected"):
        several.ask(several.dead, several.foreign, several.idle)
    with pytest.raises(LookupError, match="has not caught up"):
        several.ask(several.foreign, several.late)
    with pytest.raises(LookupError, match="no gateway that answers"):
        several.ask(several.foreign, several.dead)
    with pytest.raises(LookupError, match="serves cell 1"):
        several.ask(several.foreign)
    with pytest.raises(LookupError, match="token"):
        several.ask(several.here, token="wrong")
    with pytest.raises(LookupError, match="--gateway"):
        several.ask()
    agent.stop()


def test_an_agent_passes_by_gateways_that_are_dead_or_late_or_of_another_cell(several: Several) -> None:
    agent = several.agent(several.here)
    several.cell.until(lambda: agent.connected)
    agent.stop()
    again = several.agent(f"http://{several.dead}", several.late, several.foreign, several.idle)
    several.cell.until(lambda: again.connected)
    again.stop()
    assert f"follows cell 0 through {several.idle}" in several.said
    assert several.cell.others[1]._hosts.get("h1") is None


def test_a_folder_is_of_one_cell(several: Several) -> None:
    agent = several.agent(several.here)
    several.cell.until(lambda: agent.connected)
    agent.stop()
    moved = several.agent(several.foreign)
    why = "this gateway serves cell 1, the host is of cell 0"
    several.cell.until(lambda: any(why in text for text in several.said))
    moved.stop()
