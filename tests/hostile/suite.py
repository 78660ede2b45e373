"""Attacks of tasks on their host and their neighbours, carried out at each level that this machine has."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from events.codes import RunReport
from events.records.parts import Isolation
from hostagent import keepers, levels
from hostagent.container_level import ContainerSettings
from hostagent.disk import Disk
from hostagent.job_users import users
from hostagent.levels import Levels
from hostagent.run import Run
from hostagent.run_record import Launch, RunKey
from hostagent.runs import Runs, stop_all
from tests.hostile import attacks, image

PYTHON = "/usr/bin/python3"
"""One that every user may run."""
PROCESSES = 100
DISK, MEMORY = 8 << 20, 64 << 20
SAYS_S, ENDS_S, GONE_S = 40.0, 20.0, 10.0
"""So long an attack may take, the end of a run that is told to stop, and what it leaves after that."""
OUTPUT_BYTES = 32 << 20
TOGETHER = 8


class Level(NamedTuple):
    """A way to keep runs apart: what the agent is told."""

    name: str
    run_as: str
    isolation: str
    uid_map: tuple[int, int] | None = None

    @property
    def contained(self) -> bool:
        """Whether its runs are containers, of an image whose user is root."""
        return self.isolation == "container"

    @property
    def agents(self) -> str:
        """The level that its agent is told."""
        return "cgroup" if self.contained else self.isolation

    def settings(self) -> ContainerSettings:
        """That of its containers."""
        return ContainerSettings(user_namespace=self.uid_map)


LEVELS = (
    Level("`none`", "", "none"),
    Level("`none`, one user", "nobody", "none"),
    Level("`cgroup`, one user", "daemon", "cgroup"),
    Level("`cgroup`, a user per job", "auto:261000-261999", "cgroup"),
    Level("`container`", "auto:261000-261999", "container"),
    Level("`container`, `user_namespace`", "auto:261000-261999", "container", (300_000, 65_536)),
)


class Attack(NamedTuple):
    """A row of the table. `how`: how it is judged. It works if

    * SAYS: it says so;
    * ENDS: a part of it outlives its run;
    * GROWS: its run goes on;
    * FLOODS: its record grows without bound;
    * LINKS: what its working folder links to is removed with that;
    * LONG: the run with that long argument is more than refused.

    `alone`: not beside others; `slow`: left out of the short form.
    """

    name: str
    how: str = "SAYS"
    alone: bool = False
    slow: bool = False

    @property
    def title(self) -> str:
        """Its name in the table."""
        words = self.name.replace("_", " ").replace("agents", "agent's")
        return words.replace("a neighbours", "a neighbour's")


GROUPS: dict[str, tuple[Attack, ...]] = {
    "The host": (
        Attack("signal_a_keeper"),
        Attack("signal_the_holder"),
        Attack("signal_the_agent"),
        Attack("read_the_agents_environment"),
        Attack("read_the_agents_memory"),
        Attack("read_the_token"),
        Attack("read_a_record"),
        Attack("write_an_end_into_a_record"),
        Attack("put_a_link_into_a_record"),
        Attack("talk_to_a_keeper"),
        Attack("mount_a_file_system"),
        Attack("open_core_pattern"),
        Attack("take_a_higher_priority"),
        Attack("leave_the_control_group"),
        Attack("listen_to_the_network_raw"),
        Attack("make_a_user_namespace"),
        Attack("gain_rights_by_a_setuid_program"),
        Attack("reach_a_port_of_the_host"),
    ),
    "What a run asked for": (
        Attack("be_very_many_processes", alone=True),
        Attack("be_very_many_threads", alone=True),
        Attack("take_memory", alone=True),
        Attack("take_memory_by_a_child", alone=True),
        Attack("take_shared_memory", alone=True),
        Attack("take_all_cores", alone=True, slow=True),
        Attack("fill_the_disk", "GROWS"),
        Attack("make_very_many_files", "GROWS", slow=True),
        Attack("fill_the_disk_elsewhere"),
        Attack("fill_the_disk_with_a_file_that_is_removed", slow=True),
        Attack("open_very_many_files"),
        Attack("flood_the_output", "FLOODS"),
        Attack("have_a_very_long_argument", "LONG"),
    ),
    "Neighbours of another job": (
        Attack("signal_a_neighbour"),
        Attack("trace_a_neighbour"),
        Attack("read_a_neighbours_environment"),
        Attack("read_a_neighbours_files"),
        Attack("read_a_neighbours_files_by_its_process"),
        Attack("write_a_neighbours_files"),
        Attack("see_a_neighbours_command"),
        Attack("see_which_neighbours_work"),
        Attack("take_a_neighbours_port"),
    ),
    "Ends": (
        Attack("ignore_signals", "ENDS"),
        Attack("stop_itself", "ENDS"),
        Attack("wait_in_vfork", "ENDS"),
        Attack("leave_zombies", "ENDS"),
        Attack("fork_twice", "ENDS"),
        Attack("fork_twice_and_hide", "ENDS", slow=True),
        Attack("hold_the_output_open", "ENDS", slow=True),
        Attack("fork_while_it_is_killed", "ENDS"),
        Attack("nest_folders_and_links", "LINKS", slow=True),
    ),
}
ATTACKS = {attack.name: attack for group in GROUPS.values() for attack in group}


def refused(level: Level) -> str:
    """Why a level isn't there; empty: it is."""
    if os.geteuid() != 0 or not os.path.exists(PYTHON):
        return "only root can take on other users"
    if level.contained and (why := image.needs()):
        return why
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        made = Levels(Path(folder), level.agents, bool(level.run_as), lambda _: None, level.settings())
        made.close()
    return {"none": "", "cgroup": made.fault, "container": made.no_containers}[level.isolation]


class Host:
    """An agent's runs at a level, a neighbour to be attacked, and stand-ins for agent and cell."""

    def __init__(self, folder: Path, level: Level, bystander: int, port: int) -> None:
        self.folder, self.level = folder, level
        as_users = users(level.run_as, folder)
        self.levels = Levels(folder, level.agents, as_users.sample is not None, lambda _: None, level.settings())
        self.runs = Runs(folder, say=lambda _: None, users=as_users, levels=self.levels)
        self._disk = Disk(folder)
        self._apart: Isolation | None = None
        self._script = f"{folder}/attacks.py"
        if level.contained:
            assert self.levels.containers is not None
            brought = image.bring(PYTHON, self.levels.containers.images, folder / "image")
            self._apart = Isolation("container", brought.name, brought.digest, processes=PROCESSES)
            self._script = image.SCRIPT
        else:
            shutil.copy(attacks.__file__, self._script)
            os.chmod(self._script, 0o644)
            self._apart = Isolation(processes=PROCESSES) if level.isolation == "cgroup" else None
        neighbour = self.start("neighbour", ["sh", "-c", "echo x > secret; echo ready; sleep 600"])
        self.until(lambda: self.text(neighbour) and _pid_of(neighbour), ENDS_S)
        process = _pid_of(neighbour)
        self.aim = {
            "keeper": _parent(process),
            "holder": int((folder / "holder.lock").read_text().split()[0]),
            "socket": str(next((folder / "keepers").glob("*.sock"))),
            "agent": bystander,
            "token": str(folder / "token"),
            "record": str(neighbour.folder),
            "neighbour": process,
            "neighbours_work": str(folder / "tasks/neighbour.0.1"),
            "port": port,
            "free_port": _free_port(),
        }
        (folder / "token").touch(mode=0o600)
        (folder / "token").write_text("secret")

    def start(self, job_id: str, command: list[str]) -> Run:
        """Starts the run of a job, within the limits that its level has."""
        apart = self._apart
        if apart is not None and job_id == "take-all-cores":
            apart = msgspec.structs.replace(apart, cpu_limit=50)
        env = {"PATH": os.defpath, "AIM": json.dumps(getattr(self, "aim", {}))}
        env |= {"PACELINE_JOB": job_id, "PACELINE_TASK": "0", "PACELINE_RUN": "1"}
        asked = {"cpu": 100, "memory": MEMORY, "disk": DISK, "open_files": 256}
        return self.runs.start(RunKey(job_id, 0, 1), Launch(tuple(command), env, 300, isolation=apart, **asked))

    def attack(self, names: Iterable[str]) -> Iterator[tuple[str, bool]]:
        """Carries out attacks side by side; yields of each whether it was stopped."""
        begun: dict[str, Run] = {}
        for name in names:
            command = [PYTHON, "-I", "-S", self._script, name]
            if ATTACKS[name].how == "LONG":
                command = ["/bin/true", "x" * (3 << 20)]
            begun[name] = self.start(name.replace("_", "-"), command)
        for name, run in begun.items():
            yield name, getattr(self, f"_{ATTACKS[name].how.lower()}")(name, run)

    def _says(self, _: str, run: Run) -> bool:
        ended = self.until(lambda: not run.alive, SAYS_S)
        assert "broken: " not in self.text(run)[-1000:], self.text(run)
        return not ended or not self.text(run).endswith("worked\n")

    def _grows(self, _: str, run: Run) -> bool:
        return self.until(lambda: not run.alive, ENDS_S) and run.reason.startswith("it used")

    def _floods(self, name: str, run: Run) -> bool:
        self._says(name, run)
        return sum(file.stat().st_size for file in run.folder.glob("stdout.*")) < OUTPUT_BYTES

    def _long(self, _: str, run: Run) -> bool:
        return self.until(lambda: not run.alive, SAYS_S) and run.state == RunReport.CANNOT_START

    def _ends(self, name: str, run: Run) -> bool:
        self.until(lambda: ("\n" in self.text(run) and _pid_of(run)) or not run.alive, SAYS_S)
        pids = self._parts(run)
        self.runs.stop(run.key)
        words = f"attacks.py\0{name}\0".encode()
        ended = "\n" in self.text(run) and self.until(lambda: not run.alive, ENDS_S)
        gone = self.until(lambda: not any(map(_goes_on, pids)) and not _any_with(words), GONE_S)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return ended and gone

    def _parts(self, run: Run) -> list[int]:
        """The processes of a run that have to be gone with it: those that it names, or all of its container, which has
        other names for them.
        """
        if self.level.contained:
            space = _pid_namespace(_pid_of(run))
            if space in ("", _pid_namespace(os.getpid())):
                return []
            return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _pid_namespace(pid) == space]
        return [int(word) for word in self.text(run).split() if word.isdecimal()]

    def _links(self, name: str, run: Run) -> bool:
        ended = self._ends(name, run) or run.reason.startswith("the disk that it uses can't be measured")
        self.runs._discard(run.key)
        removed = self.until(lambda: not os.listdir(self.folder / "trash"), ENDS_S)
        return ended and removed and (self.folder / "token").exists()

    def text(self, run: Run) -> str:
        """The first of what a run has printed."""
        with suppress(OSError), open(run.folder / "stdout.0", encoding="utf-8", errors="replace") as file:
            return file.read(100_000)
        return ""

    def until(self, holds: object, seconds: float) -> bool:
        """Does what an agent does until it holds; False: it didn't for so long."""
        end = time.monotonic() + seconds
        while not holds():  # type: ignore[operator]
            if time.monotonic() > end:
                return False
            self.runs.poll()
            for key, reason in self._disk.measure(self.runs.on_disk()):
                self.runs.exceeded(key, reason)
            time.sleep(0.05)
        return True


@contextmanager
def host(level: Level) -> Iterator[Host]:
    """A host in a folder that its tasks may pass through; all of it is ended."""
    folder = Path(tempfile.mkdtemp(prefix="paceline-hostile-"))
    folder.chmod(0o711)
    umask = os.umask(0o077)  # as that of an agent
    before = keepers.KEEPERS, levels.USER_PROCESSES
    keepers.KEEPERS, levels.USER_PROCESSES = 1, PROCESSES  # type: ignore[misc]
    bystander = subprocess.Popen(["sleep", "600"], env={"PACELINE_TOKEN": "secret"})
    try:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            made = Host(folder, level, bystander.pid, listening.getsockname()[1])
            try:
                yield made
            finally:
                made.runs.close()
                stop_all(folder)
                made.levels.close()
    finally:
        bystander.kill()
        bystander.wait()
        keepers.KEEPERS, levels.USER_PROCESSES = before  # type: ignore[misc]
        os.umask(umask)
        shutil.rmtree(folder, ignore_errors=True)


def measured(level: Level, short: bool) -> dict[str, bool]:
    """Of each attack whether it is stopped at a level."""
    chosen = [attack for attack in ATTACKS.values() if not (short and attack.slow)]
    beside = [attack.name for attack in chosen if not attack.alone]
    parts = [beside[at : at + TOGETHER] for at in range(0, len(beside), TOGETHER)]
    parts += [[attack.name] for attack in chosen if attack.alone]
    with host(level) as made:
        return {name: stopped for part in parts for name, stopped in made.attack(part)}


def _pid_of(run: Run) -> int:
    """Its first process; 0: it isn't known yet."""
    return int(json.loads((run.folder / "process.json").read_text())["pid"])


def _pid_namespace(pid: int) -> str:
    """Where its number is of; empty: it is gone."""
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/pid")
    return ""


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _goes_on(pid: int) -> bool:
    with suppress(OSError):
        Path(f"/proc/{pid}/stat").read_text()
        return True
    return False


def _any_with(words: bytes) -> bool:
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if words in place.read_bytes():
                return True
    return False


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
