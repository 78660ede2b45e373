"""Stateful jobs and daemons of real processes: a whole cell, agents that come and go, and the commands of users."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from events.codec import decode, encode
from events.codes import TaskState
from events.records.hosts import HostLossConfirmed, HostRemovalRequested, HostVolumes
from events.records.jobs import (
    JobActionRequested,
    JobStopRequested,
    JobSubmitted,
    JobUpdateRequested,
    VolumeRemovalRequested,
)
from events.records.parts import Constraint, UpdatePolicy
from hostagent.agent import Agent
from hostagent.agent_settings import AgentSettings
from hostagent.runs import stop_all
from tests.helpers.whole_cell import Cell
from tests.hostagent.cell import TOKEN, Server

APPEND = 'echo $PACELINE_RUN $WORD >> "$PACELINE_VOLUME_DATA"/runs; exec sleep 600'


class Site:
    """A cell whose time is that of the machine, and hosts with agents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cell = Cell(hosts=0)
        self.server = Server(self.cell.gateway)
        self.agents: dict[str, Agent] = {}
        self.commands = 0
        self.cell.pool("/p")

    def start_agent(self, host_id: str, **attributes: str) -> None:
        settings = AgentSettings(
            (self.server.url,), TOKEN, self.folder / host_id, host_id, {"cpu": 4000, "memory": 1000}, attributes
        )
        self.agents[host_id] = Agent(settings)
        self.agents[host_id].take()
        self.agents[host_id].start()

    def stop_agent(self, host_id: str) -> None:
        self.agents.pop(host_id).stop()

    def until(self, condition: Callable[[], object]) -> None:
        end, start = time.monotonic() + 60, self.cell.clock.ms
        began = time.monotonic()
        while not condition():
            assert time.monotonic() < end, self.folder
            self.cell.clock.ms = start + int((time.monotonic() - began) * 1000)
            self.cell.quiet()
            time.sleep(0.005)

    def command(self, kind: type[Any], **fields: Any) -> None:
        self.commands += 1
        self.cell.append(kind(command_id=str(self.commands), **fields))

    def act(self, action: str, **fields: Any) -> None:
        self.command(JobActionRequested, job_id="j", action=action, **fields)

    def runs(self, host_id: str = "h1", instance: int = 0) -> list[str]:
        """What the runs of an instance have left in its volume on a host."""
        found = list((self.folder / host_id / "volumes").glob(f"j/{instance}/data.*/runs"))
        return found[0].read_text().splitlines() if found else []

    def states(self) -> list[str]:
        """Of the tasks of the job."""
        return [TaskState(each).name for each in self.column("state")]

    def hosts(self) -> set[str]:
        """Where tasks of the job run."""
        hosts, states = self.column("host"), self.column("state")
        named = self.cell.lifecycle.hosts.named
        return {named(host)[0] for host, state in zip(hosts, states, strict=True) if state == TaskState.RUNNING}

    def column(self, name: str) -> list[int]:
        """What lifecycle holds of the tasks of the job; nothing where it isn't there."""
        machine = self.cell.lifecycle
        row = machine.jobs.get("j")
        slots = slice(0) if row is None else slice(row.base, row.base + row.instances)
        found: list[int] = machine.tasks.arena[name][slots].tolist()
        return found

    def known(self, host_id: str) -> bool:
        return host_id in self.cell.lifecycle.hosts.table

    def facts(self, topic: str, kind: type[Any]) -> list[Any]:
        return [each for each in map(decode, (r.value for r in self.cell.log.scan(topic, 0))) if isinstance(each, kind)]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    yield found
    for host_id in list(found.agents):
        found.stop_agent(host_id)
    for folder in tmp_path.glob("h*"):
        stop_all(folder)
    found.cell.verify()
    found.server.stop()


def stateful(word: str = "one", **fields: Any) -> JobSubmitted:
    defaults: dict[str, Any] = {
        "command": ("sh", "-c", APPEND),
        "env": {"WORD": word},
        "resources": {"cpu": 10, "memory": 1},
        "volumes": ("data",),
        "on_silence": "stop_after",
        "stop_after_ms": 30_000,
        "update": UpdatePolicy(batch=1, healthy_ms=0),
    }
    return JobSubmitted(job_id="j", pool="/p", kind="stateful", **defaults | fields)


def test_the_volume_of_a_stateful_task_outlives_stop_restart_and_update(site: Site) -> None:
    site.start_agent("h1")
    site.cell.append(stateful(instances=2))
    site.until(lambda: site.states() == ["RUNNING"] * 2)
    site.command(JobStopRequested, job_id="j")
    site.until(lambda: site.states() == ["KILLED"] * 2)
    site.act("start")
    site.until(lambda: site.states() == ["RUNNING"] * 2)
    site.act("restart", batch=1)
    site.until(lambda: len(site.runs(instance=1)) == 3 and "j" not in site.cell.lifecycle.updates.table)
    site.command(JobUpdateRequested, job_id="j", spec=encode(stateful("two", instances=2)))
    site.until(lambda: len(site.runs(instance=1)) == 4)
    words = ["1 one", "2 one", "3 one", "4 two"]
    assert [site.runs(instance=0), site.runs(instance=1)] == [words, words]


def test_a_stateful_task_and_its_volume_outlive_the_kill_of_the_agent(site: Site) -> None:
    (site.folder / "token").write_text(TOKEN)
    words = ["--server", site.server.url, "--token-file", site.folder / "token", "--data", site.folder / "data"]
    words += ["--folder", site.folder / "h1", "--host-id", "h1"]
    command = [sys.executable, "-m", "paceline", "agent", *map(str, words)]
    agent = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        site.cell.append(stateful())
        site.until(lambda: site.runs() == ["1 one"])
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        agent = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        site.until(lambda: site.known("h1") and site.cell.lifecycle.hosts.table["h1"].session > 1)
        site.act("restart")
        site.until(lambda: len(site.runs()) == 2)
    finally:
        agent.terminate()
        agent.wait()
    assert site.runs() == ["1 one", "2 one"]


def test_a_stateful_task_moves_when_its_host_is_removed_and_not_before(site: Site) -> None:
    site.start_agent("h1")
    site.cell.append(stateful(stop_after_ms=1000))
    site.until(lambda: site.states() == ["RUNNING"])
    site.stop_agent("h1")
    site.cell.run(20_000, step=1000)
    site.command(HostLossConfirmed, host_id="h1")
    site.until(lambda: site.states() == ["QUEUED"])
    site.start_agent("h2")
    site.until(lambda: site.known("h2"))
    site.cell.quiet()
    assert site.states() == ["QUEUED"]
    site.command(HostRemovalRequested, host_id="h1")
    site.until(lambda: site.states() == ["RUNNING"])
    assert site.hosts() == {"h2"}
    site.until(lambda: site.runs("h2"))
    assert (site.runs("h1"), site.runs("h2")) == (["1 one"], ["2 one"])


def test_a_stateful_task_that_was_given_up_too_early_still_never_runs_twice(site: Site) -> None:
    note = '>> "$PACELINE_VOLUME_DATA"/runs'
    script = f"trap 'sleep 0.5; echo end $PACELINE_RUN {note}; exit' TERM; echo begin $PACELINE_RUN {note}; "
    site.start_agent("h1")
    site.cell.append(stateful(command=("sh", "-c", script + "while :; do sleep 0.05; done")))
    site.until(lambda: site.runs() == ["begin 1"])
    site.stop_agent("h1")
    site.cell.run(20_000, step=1000)
    site.command(HostLossConfirmed, host_id="h1")
    site.until(lambda: site.states() == ["QUEUED"])
    site.start_agent("h1")
    site.until(lambda: len(site.runs()) == 3)
    assert site.runs() == ["begin 1", "end 1", "begin 2"]


def test_a_volume_is_kept_after_its_job_until_a_user_removes_it(site: Site) -> None:
    site.start_agent("h1")
    site.cell.append(stateful())
    site.until(lambda: site.runs() == ["1 one"] and site.facts("paceline.hosts", HostVolumes))
    [volume] = site.facts("paceline.hosts", HostVolumes)[-1].volumes
    assert (volume.job_id, volume.instance, volume.name) == ("j", 0, "data")
    site.act("delete", force=True)
    site.until(lambda: "j" not in site.cell.lifecycle.jobs)
    assert site.runs() == ["1 one"]
    site.stop_agent("h1")
    named = {name: getattr(volume, name) for name in ("job_id", "instance", "name", "created_ms")}
    site.command(VolumeRemovalRequested, host_id="h1", **named)
    site.cell.quiet()
    assert site.runs() == ["1 one"]
    site.start_agent("h1")
    site.until(lambda: not site.runs())
    site.until(lambda: site.facts("paceline.hosts", HostVolumes)[-1].volumes == ())
    assert not list((site.folder / "h1" / "volumes").iterdir())


def test_a_service_is_updated_in_place_on_all_its_hosts(site: Site) -> None:
    for host_id in ("h1", "h2"):
        site.start_agent(host_id)

    def service(word: str) -> JobSubmitted:
        command = ("sh", "-c", f'echo {word} $PACELINE_TASK $PACELINE_HOST >> "{site.folder}/said"; exec sleep 600')
        return JobSubmitted(
            job_id="j", pool="/p", kind="stateless", instances=4, command=command, strategy="spread",
            resources={"cpu": 1000, "memory": 1}, max_unavailable=2, update=UpdatePolicy(batch=2, healthy_ms=0),
        )  # fmt: skip

    def said(word: str) -> set[str]:
        lines = (site.folder / "said").read_text().splitlines() if (site.folder / "said").exists() else []
        return {line.partition(" ")[2] for line in lines if line.startswith(word)}

    site.until(lambda: site.known("h1") and site.known("h2"))
    site.cell.append(service("one"))
    site.until(lambda: site.states() == ["RUNNING"] * 4 and len(said("one")) == 4)
    site.command(JobUpdateRequested, job_id="j", spec=encode(service("two")))
    site.until(lambda: len(said("two")) == 4)
    assert said("two") == said("one")
    assert {line.split()[1] for line in said("two")} == {"h1", "h2"}


def test_a_daemon_follows_hosts_that_come_and_go(site: Site) -> None:
    for host_id in ("h1", "h2"):
        site.start_agent(host_id, role="web")
    site.start_agent("h3", role="other")
    site.cell.append(
        JobSubmitted(
            job_id="j", pool="/p", kind="daemon", instances=0, preemptible=False, command=("sleep", "600"),
            resources={"cpu": 10, "memory": 1}, constraints=(Constraint("role", "in", ("web",)),),
        )
    )  # fmt: skip
    site.until(lambda: site.hosts() == {"h1", "h2"})
    site.start_agent("h4", role="web")
    site.until(lambda: site.hosts() == {"h1", "h2", "h4"})
    site.stop_agent("h1")
    stop_all(site.folder / "h1")
    site.cell.run(20_000, step=1000)
    site.command(HostLossConfirmed, host_id="h1")
    site.until(lambda: site.hosts() == {"h2", "h4"})
    site.command(HostRemovalRequested, host_id="h1")
    site.until(lambda: not site.known("h1"))
    assert site.hosts() == {"h2", "h4"}
    site.command(JobStopRequested, job_id="j")
    site.until(lambda: set(site.states()) <= {"KILLED", "NONE"})
