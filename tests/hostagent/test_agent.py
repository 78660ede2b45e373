"""A real agent with real processes, against a gateway whose lifecycle is scripted."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from events.records.jobs import JobSubmitted
from events.signing_keys import SigningKeys
from hostagent.agent import Agent
from hostagent.agent_settings import AgentSettings
from hostagent.capacity import detect
from hostagent.gateway.secrets.folder import SecretFolder
from hostagent.kernel import status_of
from hostagent.messages import JobOrder, OrderKind, OrdersLine, RunOrder
from hostagent.run_record import RunKey
from hostagent.runs import Runs, stop_all
from paceline.client.output_ask import OutputAsk
from tests.helpers.waiting import until
from tests.hostagent.cell import TOKEN, Cell, Server, ended, ordered, stopping

HOST = "h1"


class Site:
    """A cell and one host with an agent in a thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cell = Cell()
        self.secrets = SecretFolder(folder.with_name("secrets"))
        self.keys = SigningKeys(folder.with_name("keys"))
        self.server = Server(self.cell.gateway, self.secrets, self.keys)
        self.agent: Agent | None = None

    def settings(self) -> AgentSettings:
        return AgentSettings((self.server.url,), TOKEN, self.folder, HOST, {"cpu": 4000, "memory": 1000})

    def start_agent(self) -> Agent:
        connected = len(self.cell.inventories())
        self.agent = Agent(self.settings())
        self.agent.take()
        self.agent.start()
        self.cell.until(lambda: len(self.cell.inventories()) > connected)
        return self.agent

    def stop_agent(self) -> int:
        assert self.agent is not None
        left, self.agent = self.agent.stop(), None
        return left

    def run(self, job: JobSubmitted, *ports: int) -> None:
        """Submits a job and orders the first run of all its tasks."""
        self.cell.submit(job)
        tasks = [(job.job_id, instance, 1) for instance in range(job.instances)]
        self.cell.decide(ordered(tasks, [HOST] * len(tasks), ports))

    def says(self, *said: object) -> None:
        self.cell.until(lambda: said in list(self.cell.said()))

    def output(self, job_id: str, instance: int = 0, run: int = 1, stream: str = "stdout", offset: int = 0) -> str:
        asked = self.cell.gateway.log_of(OutputAsk(job_id, instance, run, stream, offset, 10_000))
        self.cell.until(asked.done)
        return asked.result().data.decode()

    def file(self, job_id: str, name: str) -> Path:
        return self.folder / "runs" / job_id / "0" / "1" / name


def said(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path / "agent")
    yield site
    if site.agent is not None:
        site.stop_agent()
    assert stop_all(site.folder)[1] == 0
    site.cell.turn()
    site.cell.gateway.close()
    site.server.stop()


def shell(job_id: str, script: str, **more: object) -> JobSubmitted:
    return JobSubmitted(job_id=job_id, pool="/p", command=("sh", "-c", script), **more)  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def keeper_of(process: Path) -> int:
    """The pid of the keeper of a run, by its `process.json`."""
    until(lambda: json.loads(said(process) or '{"pid": 0}')["pid"], "the process")
    fields = status_of(json.loads(process.read_text())["pid"])
    assert fields
    return int(fields[1])


def dead(pid: int) -> Callable[[], bool]:
    return lambda: not alive(pid)


def test_a_run_is_started_reported_and_its_output_read(site: Site) -> None:
    site.start_agent()
    names = ("JOB", "TASK", "RUN", "HOST", "POOL", "PORT_WEB")
    script = f"echo {' '.join(f'$PACELINE_{name}' for name in names)} $MINE; exit 3"
    site.run(shell("j", script, instances=2, ports=("web",), env={"MINE": "yes"}), 31001, 31002)
    site.says("j", 0, 1, "EXITED", 3)
    site.says("j", 1, 1, "EXITED", 3)
    assert site.output("j", 1) == f"j 1 1 {HOST} /p 31002 yes\n"
    assert site.output("j", 0, offset=2) == f"0 1 {HOST} /p 31001 yes\n"


def test_the_output_can_be_read_after_the_cell_has_forgotten_the_run(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", "echo out; echo err >&2"))
    site.says("j", 0, 1, "EXITED", 0)
    site.cell.decide(ended([("j", 0, 1)]))
    site.cell.until(site.file("j", "forgotten").exists)
    assert site.output("j", stream="stderr") == "err\n"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.write_text("#!/bin/sh\n"), "Permission denied"),
        (lambda path: (path.write_text("neither text nor program"), path.chmod(0o755)), "Exec format error"),
        (lambda path: path.mkdir(), "Permission denied"),
    ],
)
def test_what_can_not_be_started_by_trying_again_is_reported_so_in_plain_words(
    site: Site, tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    program = tmp_path / "program"
    make(program)
    site.start_agent()
    site.run(JobSubmitted(job_id="j", pool="/p", command=(str(program), "x")))
    site.says("j", 0, 1, "CANNOT_START", 127)
    assert site.cell.why() == [f"{program}: {why}"]


def test_a_job_without_a_command_cannot_be_started(site: Site) -> None:
    site.start_agent()
    site.run(JobSubmitted(job_id="j", pool="/p"))
    site.says("j", 0, 1, "CANNOT_START", 127)


def test_the_process_group_dies_with_its_run(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", "sleep 600 & echo $!"))
    site.says("j", 0, 1, "EXITED", 0)
    site.cell.until(dead(int(site.output("j"))))


def test_a_signal_is_told_from_an_exit(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", "kill -9 $$"))
    site.says("j", 0, 1, "EXITED", 137)


def test_a_stop_gives_grace(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", 'trap "echo bye; exit 0" TERM; echo ready; while :; do sleep 0.05; done'))
    site.says("j", 0, 1, "STARTED", 0)
    site.cell.until(lambda: said(site.file("j", "stdout.0")) == "ready\n")
    site.cell.decide(stopping([("j", 0, 1)], [HOST]))
    site.says("j", 0, 1, "STOPPED", 0)
    assert site.output("j") == "ready\nbye\n"


def test_a_stop_kills_after_the_grace(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", 'trap "" TERM; echo ready; while :; do sleep 0.05; done', stop_grace_ms=100))
    site.cell.until(lambda: said(site.file("j", "stdout.0")) == "ready\n")
    site.cell.decide(stopping([("j", 0, 1)], [HOST]))
    site.says("j", 0, 1, "STOPPED", 137)


def test_a_run_that_ended_before_the_stop_has_its_own_outcome(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", "exit 4"))
    site.cell.until(site.file("j", "exit.json").exists)
    site.cell.decide(stopping([("j", 0, 1)], [HOST]))
    site.says("j", 0, 1, "EXITED", 4)
    assert not [said for said in site.cell.said() if said[3] == "STOPPED"]


def test_a_run_survives_its_agent_being_killed_and_its_outcome_is_learnt(site: Site, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "token").write_text(TOKEN)
    words = ["--server", site.server.url, "--token-file", str(data / "token"), "--data", str(data)]
    command = [sys.executable, "-m", "paceline", "agent", *words, "--host-id", HOST, "--folder", str(site.folder)]
    agent = subprocess.Popen(command)
    go = tmp_path / "go"
    site.cell.until(site.cell.inventories)
    site.run(shell("j", f"while [ ! -e {go} ]; do sleep 0.05; done; exit 5"))
    site.run(shell("k", "sleep 600"))
    site.says("j", 0, 1, "STARTED", 0)
    site.says("k", 0, 1, "STARTED", 0)
    agent.kill()
    agent.wait()
    go.touch()
    site.cell.until(site.file("j", "exit.json").exists)
    site.start_agent()
    assert sorted(site.cell.inventories()[-1]) == [("j", 0, 1, "EXITED", 5), ("k", 0, 1, "STARTED", 0)]
    site.says("j", 0, 1, "EXITED", 5)
    assert {said for said in site.cell.said() if said[0] == "k"} == {("k", 0, 1, "STARTED", 0)}


def test_a_clean_stop_says_how_many_runs_go_on(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", "sleep 600", instances=2))
    site.says("j", 0, 1, "STARTED", 0)
    site.says("j", 1, 1, "STARTED", 0)
    assert site.stop_agent() == 2
    assert stop_all(site.folder) == (2, 0)
    site.start_agent()
    site.says("j", 0, 1, "STOPPED", 143)
    site.says("j", 1, 1, "STOPPED", 143)


def test_a_run_whose_keeper_was_lost_ends_with_what_is_left_of_it(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", "echo $$; exec sleep 600"))
    site.says("j", 0, 1, "STARTED", 0)
    site.cell.until(lambda: said(site.file("j", "stdout.0")))
    os.kill(keeper_of(site.file("j", "process.json")), signal.SIGKILL)
    site.says("j", 0, 1, "VANISHED", 255)
    assert "its keeper was lost" in site.cell.why()
    site.cell.until(dead(int(site.file("j", "stdout.0").read_text())))


def test_ended_runs_are_not_started_again_when_the_whole_set_still_names_them(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", "echo once"))
    site.says("j", 0, 1, "EXITED", 0)
    site.stop_agent()
    agent = site.start_agent()
    whole = site.cell.decide()
    site.run(shell("k", "true"))
    site.says("k", 0, 1, "EXITED", 0)
    assert agent.state.position > whole
    assert site.output("j") == "once\n"


def test_runs_that_the_cell_no_longer_wants_end_when_the_agent_connects(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", "echo $$; exec sleep 600"))
    site.says("j", 0, 1, "STARTED", 0)
    site.cell.until(site.file("j", "stdout.0").exists)
    site.stop_agent()
    site.cell.decide(ended([("j", 0, 1)]))
    site.start_agent()
    site.cell.until(dead(int(site.file("j", "stdout.0").read_text())))
    site.cell.until(site.file("j", "forgotten").exists)


def test_a_run_ends_when_the_cell_was_silent_for_too_long_even_without_an_agent(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", "exec sleep 600", on_silence="stop_after", stop_after_ms=300))
    site.run(shell("k", "exec sleep 600"))
    site.cell.until(site.file("j", "process.json").exists)
    site.cell.until(site.file("k", "process.json").exists)
    site.stop_agent()
    site.cell.until(site.file("j", "exit.json").exists)
    site.start_agent()
    site.says("j", 0, 1, "SILENCED", 143)
    assert Runs(site.folder).alive()[0].key == RunKey("k", 0, 1)


def test_an_old_order_is_ignored(site: Site) -> None:
    agent = Agent(site.settings())
    agent._next_session()

    def obey(position: int, job_id: str, whole: bool = False) -> None:
        jobs = [JobOrder(job_id, command=("true",))]
        asyncio.run(agent._carry_out(OrdersLine(position, whole, jobs, [RunOrder(OrderKind.START, 0, 0, 1)])))

    obey(7, "new", whole=True)
    obey(7, "same")
    obey(6, "old")
    obey(6, "old-whole", whole=True)
    obey(8, "next")
    assert [run.key.job_id for run in agent.runs._runs.values()] == ["new", "next"]
    assert Agent(site.settings()).state.position == 8


def test_a_run_is_out_of_reach_of_the_terminal_and_of_its_keeper(site: Site) -> None:
    site.start_agent()
    site.run(shell("j", "exec sleep 600"))
    site.says("j", 0, 1, "STARTED", 0)
    keeper = keeper_of(site.file("j", "process.json"))
    process = json.loads(site.file("j", "process.json").read_text())["pid"]
    assert len({os.getsid(0), os.getsid(keeper), os.getsid(process)}) == 3


def test_sessions_grow_even_when_the_clock_goes_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(site.settings())
    first = agent._next_session()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert Agent(site.settings())._next_session() == first + 1


def test_what_a_host_has_is_bounded_by_its_control_group(tmp_path: Path) -> None:
    free = detect(tmp_path, tmp_path)
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "memory.max").write_text(f"{64 * 1024 * 1024}\n")
    bound = detect(tmp_path, tmp_path)
    assert free["cpu"] >= 1000
    assert (bound["cpu"], bound["memory"]) == (500, 64)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    unbound = detect(tmp_path, tmp_path)
    assert (unbound["cpu"], unbound["memory"]) == (free["cpu"], free["memory"])


def test_gpus_are_offered_by_their_model_as_the_driver_lists_them(tmp_path: Path) -> None:
    for slot, model in enumerate(("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "Tesla T4", "?")):
        (tmp_path / f"0000:0{slot}").mkdir()
        (tmp_path / f"0000:0{slot}" / "information").write_text(f"Model: \t\t {model}\nIRQ: 1\n")
    found = detect(tmp_path, tmp_path, tmp_path)
    gpus = {name: amount for name, amount in found.items() if name.startswith("gpu")}
    assert gpus == {"gpu/a100-sxm4-40gb": 2000, "gpu/tesla-t4": 1000}


def test_a_run_that_is_stopped_before_its_host_heard_of_it_never_starts(site: Site, tmp_path: Path) -> None:
    site.run(shell("j", f"touch {tmp_path / 'ran'}"))
    site.cell.decide(stopping([("j", 0, 1)], [HOST]))
    site.start_agent()
    site.says("j", 0, 1, "STOPPED", 143)
    site.stop_agent()
    agent = site.start_agent()
    assert RunKey("j", 0, 1) in agent.runs
    assert not (tmp_path / "ran").exists()
