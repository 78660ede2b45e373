"""A whole cell and one real host with real processes, on two cores, beside the least that a run costs.

`real_runs_over_bare`: CPU of cell, agent, holder and keepers for a run of `true`, over that of a loop in C that forks,
executes, waits and writes the same files as durably; it needs a C compiler. HyperQueue runs beside them where its wheel
is installed. Runs that are containers need what `examples/image/build.sh` does, and a registry (`docker-registry`).
"""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench import Options, Result, sized
from deploy.processes import Processes
from events.codec import decode
from events.log.embedded import EmbeddedLog
from events.records.hosts import HostSilent
from events.topics import HOSTS
from hostagent.groups import GroupFault, Tree
from paceline.client.client import Client

SIDE_BY_SIDE = 16
WAVE = 20
KILL_S = 1.5
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
HERE = Path(__file__).parent
IMAGE = HERE.parent / "examples/image/build.sh"
TRUE = shutil.which("true") or "/bin/true"
ENDS = ("succeeded", "failed", "killed")
WAIT_S = 240.0
OTHER = "nobody"


def run(log: str, options: Options) -> Result:
    """All figures, on the embedded log; those of another user only as root."""
    if log != "embedded":
        raise SystemExit("one cell on one machine: --log embedded")
    figures: dict[str, float] = {}
    bare_s, bare_rate = bare(options.folder / "bare", sized(1000, 50))
    references = {"bare_cpu_ms": 1000 * bare_s, "bare_runs_per_s": bare_rate}

    def note(name: str, cpu: dict[str, float], rate: float) -> None:
        figures.update({f"{name}real_runs_over_bare": sum(cpu.values()) / bare_s, f"{name}real_runs_per_s": rate})
        references.update({f"{name}{part}_cpu_ms": 1000 * seconds for part, seconds in cpu.items()})

    for name, words in ways().items():
        with site(options.folder / f"{name}rate", *words) as host:
            note(name, *host.rate(sized(2000, 50)))
    if containers_can_run():
        from tests.helpers.image_registry import image_registry  # only where it is asked for: it needs the checkout

        with image_registry(options.folder / "registry") as registry, site(options.folder / "containers") as host:
            subprocess.run([IMAGE, options.folder / "layout"], check=True, capture_output=True)
            image = registry.push(options.folder / "layout", "1.0", "bench:1.0")
            note("container_", *host.rate(sized(500, 20), command=["true"], memory="16MiB", image=image))
    with site(options.folder / "wave", "--resource", f"cpu={WAVE}") as host:
        figures["wave_ms"] = host.wave()
    with site(options.folder / "live") as host:
        figures["agent_memory_mib"] = host.memory(sized(1000, 50))
    with site(options.folder / "storm") as host:
        figures |= host.storm(sized(1000, 50))
    references["hyperqueue_runs_per_s"] = hyperqueue(sized(2000, 50))
    targets = {"real_runs_over_bare": 4.0, "wave_ms": 50.0, "agent_memory_mib": 150.0, "storm_1000_lost": 0.0}
    targets["storm_late_heartbeats"] = 0.0
    return Result(figures, references, targets)


def ways() -> dict[str, list[str]]:
    """The words for an agent of each way of running a task that this machine can do, by the prefix of its figures."""
    own = {"": ["--isolation", "none"]}
    as_root = {"run_as_": ["--isolation", "none", "--run-as", OTHER]} if os.geteuid() == 0 else {}
    limited: dict[str, list[str]] = {}
    with suppress(GroupFault):
        tree = Tree.take(f"bench-{os.getpid()}")
        try:
            tree.trial()
            limited = {"cgroup_": ["--isolation", "cgroup"]}
        finally:
            tree.remove()
    return own | as_root | limited


def bare(folder: Path, count: int) -> tuple[float, float]:
    """CPU of a run in seconds, and runs a second with 16 loops side by side."""
    folder.mkdir()
    subprocess.run([shutil.which("cc") or "gcc", "-O2", "-o", folder / "bare", HERE / "_bare.c"], check=True)
    begin, before = time.perf_counter(), os.times()
    each = max(1, count // SIDE_BY_SIDE)
    loops = []
    for number in range(SIDE_BY_SIDE):
        (folder / str(number)).mkdir()
        loops.append(subprocess.Popen([folder / "bare", folder / str(number), str(each), TRUE]))
    assert not any(loop.wait() for loop in loops)
    after, total = os.times(), each * SIDE_BY_SIDE
    spent_s = after.children_user + after.children_system - before.children_user - before.children_system
    return spent_s / total, total / (time.perf_counter() - begin)


def containers_can_run() -> bool:
    """Whether this machine has all that it takes to run an image that is made here."""
    programs = all(map(shutil.which, ("crun", "tini", "umoci", "skopeo", "docker-registry", "busybox")))
    return programs and "cgroup_" in ways() and os.geteuid() == 0


def hyperqueue(count: int) -> float:
    """Runs a second of HyperQueue, NaN where it isn't installed."""
    words = [sys.executable, HERE / "_hyperqueue.py", str(count), TRUE, str(SIDE_BY_SIDE)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return math.nan if done.returncode else float(done.stdout.splitlines()[-1])


@contextmanager
def site(folder: Path, *words: str) -> "Iterator[Site]":
    """A cell and one agent on it, each a process of its own."""
    host = Site(folder, *words)
    try:
        yield host
    finally:
        host.end()


class Site:
    """A cell, an agent, and what they use."""

    def __init__(self, folder: Path, *words: str) -> None:
        folder.mkdir(mode=0o755)
        for above in folder.parents:
            with suppress(OSError):
                if above.name.startswith("paceline-bench-"):
                    above.chmod(0o755)  # another user may pass to its working folder
        self.folder, self.data, self.agent_folder = folder, folder / "data", folder / "host"
        self._words = words if "--resource" in words else (*words, "--resource", "cpu=64")
        self._processes = Processes(folder / "logs", {"PACELINE_DATA": str(self.data)})
        self.start("cell", "up", "--no-agent", "--listen", "127.0.0.1:0")
        until((self.data / "cell.json").exists)
        listen = json.loads((self.data / "cell.json").read_text())["listen"]
        self.client = Client(f"http://{listen}", (self.data / "token").read_text().strip())
        self.client.define_pool("/bench", {}, wait=30)
        self.start_agent()
        until(lambda: [host for host in self.client.hosts() if host["state"] == "UP"])
        self._until_calm()

    def start(self, name: str, *words: str) -> None:
        """Starts a part of it."""
        self._processes.start(name, ["paceline", *words])

    def start_agent(self) -> None:
        """Starts the agent, after its loss too."""
        more = ("--folder", str(self.agent_folder), "--host-id", "h1", "--listen", "127.0.0.1:0")
        self.start("agent", "agent", *more, "--resource", "memory=64GiB", "--resource", "disk=64GiB", *self._words)

    def end(self) -> None:
        """Ends all of it."""
        from hostagent.runs import stop_all

        self._processes.stop_all()
        stop_all(self.agent_folder)
        self._kill_keepers()

    def rate(self, count: int, **more: Any) -> tuple[dict[str, float], float]:
        """CPU of a run by part, in seconds, and runs a second; `more`: of their job."""
        self._run_all("warm", sized(100, 10), **more)
        before, begin = self.cpu(), time.perf_counter()
        self._run_all("rate", count, **more)
        passed_s = time.perf_counter() - begin
        self._until_calm()
        return {part: (spent - before[part]) / count for part, spent in self.cpu().items()}, count / passed_s

    def wave(self) -> float:
        """From the end of 20 runs until their 20 successors run, in ms, at its best of three."""
        return min(self._wave(number) for number in range(3))

    def memory(self, count: int) -> float:
        """PSS of agent, holder and keepers with so many live runs."""
        self.submit("live", count, ["sleep", "1000"], "1m")
        until(lambda: self.client.job("live")["tasks"]["running"] == count)
        return sum(pss_kib(pid) for part, pids in self.pids().items() if part != "cell" for pid in pids) / 1024

    def storm(self, count: int) -> dict[str, float]:
        """Runs that are lost while agent, keepers and holder are killed; those that ran twice; late heartbeats."""
        ran = self.folder / "ran"
        ran.mkdir()
        script = f"echo x >> {ran}/$PACELINE_TASK.$PACELINE_RUN"
        self.submit("storm", count, ["sh", "-c", script], "500m", retries={"max": 20})
        kills, done = 0, 0
        while done < count:
            job = self.client.job("storm")
            done = sum(job["tasks"][state] for state in ENDS)
            parts = self.pids()
            victim = ("agent", "keepers", "holder")[kills % 3] if kills < sized(12, 3) else ""
            if victim == "agent":
                self._processes.kill("agent")
                self.start_agent()
            elif victim:
                for pid in parts[victim][:1]:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            kills += victim != ""
            time.sleep(KILL_S)
        twice = sum(len(path.read_text().splitlines()) > 1 for path in ran.iterdir())
        lost = count - len({path.name.split(".")[0] for path in ran.iterdir()})
        figures = {"storm_1000_lost": lost, "storm_ran_twice": twice, "storm_kills": kills}
        return {**figures, "storm_late_heartbeats": self._silences()}

    def _silences(self) -> int:
        """So often the cell took the host for silent, as no heartbeat came in time."""
        log = EmbeddedLog.open_secondary(self.data / "log")
        try:
            return sum(isinstance(decode(record.value), HostSilent) for record in log.scan(HOSTS.name, 0))
        finally:
            log.close()

    def pids(self) -> dict[str, list[int]]:
        """The processes of each part."""
        own = {name: [self._processes.pid(name)] for name in ("cell", "agent") if name in self._processes.names()}
        holder: list[int] = []
        with suppress(OSError, ValueError, IndexError):
            holder = [int((self.agent_folder / "holder.lock").read_text().split()[0])]
        keepers = (path.name.split(".")[1] for path in (self.agent_folder / "keepers").glob("*.sock"))
        return {**own, "holder": holder, "keepers": [pid for pid in map(int, keepers) if Path(f"/proc/{pid}").exists()]}

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU by part; those of keepers hold their runs'."""
        return {part: sum(map(cpu_s, pids)) for part, pids in self.pids().items()}

    def submit(self, job_id: str, count: int, command: list[str], cpu: str, memory: str = "1MiB", **more: Any) -> None:
        """A batch job."""
        resources = {"cpu": cpu, "memory": memory}
        spec = {"job_id": job_id, "pool": "/bench", "command": command, "instances": count, "resources": resources}
        self.client.submit_job({**spec, **more}, wait=30)

    def _run_all(self, job_id: str, count: int, **more: Any) -> None:
        self.submit(job_id, count, **{"command": [TRUE], "cpu": "250m", **more})
        self.client.wait(job_id, WAIT_S)

    def _wave(self, number: int) -> float:
        folder = self.folder / f"wave-{number}"
        folder.mkdir()
        os.mkfifo(folder / "go")
        script = f"touch {folder}/$PACELINE_TASK; [ $PACELINE_TASK -ge {WAVE} ] || read x < {folder}/go"
        self.submit(f"wave-{number}", 2 * WAVE, ["sh", "-c", script], "1000m")
        until(lambda: len(list(folder.iterdir())) == WAVE + 1)
        self._until_calm()
        begin_ns = time.time_ns()
        os.close(os.open(folder / "go", os.O_WRONLY))
        until(lambda: len(list(folder.iterdir())) == 2 * WAVE + 1, 0.02)
        return (max(path.stat().st_mtime_ns for path in folder.iterdir() if path.name != "go") - begin_ns) / 1e6

    def _until_calm(self) -> None:
        before = -1.0
        while (now := sum(self.cpu().values())) - before > 0.03:
            before = now
            time.sleep(0.3)

    def _kill_keepers(self) -> None:
        parts = self.pids()
        for pid in parts["holder"] + parts["keepers"]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def until(holds: Callable[[], object], pause_s: float = 0.1) -> None:
    """Waits until it holds."""
    end_s = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > end_s:
            raise SystemExit("waited in vain")
        time.sleep(pause_s)


def cpu_s(pid: int) -> float:
    """The CPU that a process and those that it waited for have used."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) * TICK_S
    return 0.0


def pss_kib(pid: int) -> int:
    """The memory of a process, where what it shares counts in part."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0
