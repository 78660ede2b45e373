"""A service of real processes is updated: a whole cell, an agent, and the commands of two versions."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from events.codec import encode
from events.records.jobs import JobSubmitted, JobUpdateRequested
from events.records.parts import UpdatePolicy
from hostagent.agent import Agent
from hostagent.agent_settings import AgentSettings
from hostagent.runs import stop_all
from tests.helpers.whole_cell import Cell
from tests.hostagent.cell import TOKEN, Server


class Site:
    """A cell whose time is that of the machine, and one host with an agent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cell = Cell(hosts=0)
        self.began = time.monotonic()
        self.server = Server(self.cell.gateway)
        self.agent = Agent(
            AgentSettings((self.server.url,), TOKEN, folder / "agent", "h1", {"cpu": 4000, "memory": 1000})
        )
        self.agent.take()
        self.agent.start()
        self.cell.pool("/p")

    def until(self, condition: Callable[[], object]) -> None:
        end, start = time.monotonic() + 60, self.cell.clock.ms
        began = time.monotonic()
        while not condition():
            assert time.monotonic() < end, self.said()
            self.cell.clock.ms = start + int((time.monotonic() - began) * 1000)
            self.cell.quiet()
            time.sleep(0.005)

    def spec(self, word: str) -> JobSubmitted:
        script = f"echo {word} $PACELINE_TASK >> {self.folder}/said; exec sleep 600"
        return JobSubmitted(
            job_id="web", pool="/p", kind="stateless", instances=3, command=("sh", "-c", script),
            resources={"cpu": 10, "memory": 1}, update=UpdatePolicy(batch=1, healthy_ms=500), max_unavailable=1,
        )  # fmt: skip

    def said(self) -> list[str]:
        path = self.folder / "said"
        return path.read_text().split("\n")[:-1] if path.exists() else []


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    yield found
    found.agent.stop()
    stop_all(tmp_path / "agent")


def test_an_updated_service_runs_its_new_command_one_process_after_the_other(site: Site) -> None:
    site.cell.append(site.spec("one"))
    site.until(lambda: len(site.said()) == 3)
    site.until(lambda: site.cell.state("web") == "RUNNING")
    site.cell.append(JobUpdateRequested(job_id="web", command_id="1", spec=encode(site.spec("two"))))
    site.until(lambda: len(site.said()) == 6)
    assert [word.split()[0] for word in site.said()] == ["one"] * 3 + ["two"] * 3
    machine = site.cell.lifecycle
    site.until(lambda: "web" not in machine.updates.table)
    assert machine.jobs["web"].version == 2
    assert machine.updates.column("web", "version").tolist() == [2, 2, 2]
    site.cell.verify()
