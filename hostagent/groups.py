"""Control groups of runs: what each may use of the host, held by the kernel, and what it has used.

A run has one group in each hierarchy of the host: on cgroup v2 there is one; on v1 one for each controller, and one
more where a v2 hierarchy stands beside them (hybrid), by which all processes of a group are killed at once. All are
below the agent's own group, so an agent needs no more than a delegated group (systemd: `Delegate=yes`).

For agent and keepers: it imports nothing but the standard library.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

CONTROLLERS = ("cpu", "cpuacct", "memory", "pids", "blkio")
"""The hierarchies of v1 that are used; v2 has the same by the names cpu, memory, pids and io."""
CPUSET = "cpuset"
"""Used where runs have cores for themselves."""
ENFORCING = ("cpu", "memory", "pids")
"""Without these no limit holds."""
UNIFIED = "unified"
"""Names the folder of v2 among those of a group."""
PERIOD_US = 100_000
"""The period over which the kernel holds a CPU quota: its own default."""
LEAF = "agent"
"""On v2 a group with controllers for its children may hold no process itself: the agent's moves here."""


class GroupFault(Exception):
    """Control groups can't be used; the message says why, and what would change it."""


class Limits(NamedTuple):
    """The limits of a run. 0: none."""

    cpu_millis: int
    """Thousandths of a core that it asked for: its weight against others where the CPU is short."""
    cpu_limit_millis: int
    """Thousandths of a core that it never goes beyond."""
    memory_bytes: int
    """Beyond it the kernel kills the run; no swap is given."""
    processes: int
    """Processes and threads at once."""
    idle: bool = False
    """It has only the CPU that others leave, whatever its weight."""
    cpus: str = ""
    """The threads of the host on which it runs, as Linux lists them; empty: any."""


class Usage(NamedTuple):
    """The use of a group since it was made; `memory_kib` is that of now, without the cache that the kernel would drop
    first (the working set).
    """

    cpu_ms: int = 0
    throttled_ms: int = 0
    memory_kib: int = 0
    peak_memory_kib: int = 0
    read_kib: int = 0
    written_kib: int = 0
    oom_kills: int = 0
    forks_refused: int = 0
    """So often the limit of processes kept it from starting one."""


class Group:
    """The group of one run. `folders`: by controller, or `UNIFIED`."""

    def __init__(self, folders: dict[str, str]) -> None:
        self.folders = folders

    def make(self, limits: Limits) -> None:
        """Makes it, with its limits. Raises `GroupFault`; nothing is left then."""
        try:
            for folder in self._distinct():
                with suppress(FileExistsError):  # one that was made before its keeper was lost
                    os.mkdir(folder)
            for controller, name, value in _settings(limits, self._v2()):
                _write(self._file(controller, name), value)
            if limits.cpus or CPUSET in self.folders:
                self.pin(limits.cpus)
            if limits.idle:
                with suppress(OSError):  # a kernel before 5.15: the weight alone says it
                    _write(self._file("cpu", "cpu.idle"), "1")
        except OSError as error:
            self.remove()
            raise GroupFault(f"{error.filename}: {error.strerror}") from None

    def pin(self, cpus: str) -> None:
        """Keeps its processes on threads of the host, those that run already too; empty: on those of the group above.
        Raises `OSError`.
        """
        if not self._v2():  # nobody joins one of v1 before both are said
            above = os.path.dirname(self.folders[CPUSET])
            cpus = cpus or _read(f"{above}/cpuset.cpus").strip()
            _write(self._file(CPUSET, "cpuset.mems"), _read(f"{above}/cpuset.mems").strip())
        _write(self._file(CPUSET, "cpuset.cpus"), cpus)

    def join(self) -> None:
        """Puts the calling process in; its children follow. For a child between fork and exec. Raises `OSError`."""
        for folder in self._distinct():
            _write(f"{folder}/cgroup.procs", "0")

    def processes(self) -> list[int]:
        """The pids in it and in the groups that its processes have made below; empty too where it is gone."""
        pids: set[int] = set()
        for folder in self._distinct():
            for each in _with_those_below(folder):
                pids.update(int(line) for line in _read(f"{each}/cgroup.procs").split())
        return sorted(pids - {0})  # 0: of another namespace

    def kill(self) -> bool:
        """Kills all processes in it; whether none is left. To be called again until then: v1 can't end them at once, so
        a process that forks meanwhile is met by the next call, and no fork is allowed from the first on.
        """
        if UNIFIED in self.folders:
            with suppress(OSError):  # a kernel before 5.14 has no such file
                _write(f"{self.folders[UNIFIED]}/cgroup.kill", "1")
        if "pids" in self.folders:
            with suppress(OSError):
                _write(f"{self.folders['pids']}/pids.max", "0")
        pids = self.processes()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not pids

    def usage(self) -> Usage:
        """Its use so far; zeros for what the host doesn't count."""
        return _usage_v2(self.folders[UNIFIED]) if self._v2() else _usage_v1(self.folders)

    def load(self) -> tuple[int, int]:
        """CPU time in ms since it was made, and the memory of now in KiB as in `Usage`: what is cheap to ask often."""
        if self._v2():
            folder = self.folders[UNIFIED]
            return _fields(f"{folder}/cpu.stat").get("usage_usec", 0) // 1000, _working_set_v2(folder)
        accounts = self.folders.get("cpuacct")
        cpu_ms = _number(f"{accounts}/cpuacct.usage") // 1_000_000 if accounts is not None else 0
        return cpu_ms, _working_set_v1(self.folders["memory"])

    def oom_kills(self) -> int:
        """The number of its processes that the kernel has killed for want of memory."""
        if self._v2():
            return _fields(f"{self.folders[UNIFIED]}/memory.events").get("oom_kill", 0)
        return _fields(f"{self.folders['memory']}/memory.oom_control").get("oom_kill", 0)

    def remove(self) -> bool:
        """Removes it, and the groups that its processes have made below; False: a process is still in one, or one that
        has ended is not cleared up yet.
        """
        removed = True
        for folder in self._distinct():
            for each in _with_those_below(folder):
                try:
                    os.rmdir(each)
                except FileNotFoundError:
                    continue
                except OSError:
                    removed = False
        return removed

    def _v2(self) -> bool:
        """Whether v2 holds its limits."""
        return "memory" not in self.folders

    def _distinct(self) -> list[str]:
        """Controllers may share a hierarchy (`cpu,cpuacct`)."""
        return list(dict.fromkeys(self.folders.values()))

    def _file(self, controller: str, name: str) -> str:
        return f"{self.folders[UNIFIED if self._v2() else controller]}/{name}"


class Tree:
    """The place for the groups of one agent's runs. `folders`: as those of a group."""

    def __init__(self, folders: dict[str, str]) -> None:
        self.folders = folders

    @classmethod
    def take(cls, name: str, proc: str = "/proc/self", pins: bool = False) -> "Tree":
        """Makes the place below the group of the calling process, which on v2 moves into a leaf of its own. `name`:
        that of no other agent of the machine; `pins`: whether groups are to keep runs on cores. Raises `GroupFault`.
        """
        more = (CPUSET,) if pins else ()
        own = {name: folder for name, folder in _own_groups(proc) if name != CPUSET or pins}
        try:
            if all(controller in own for controller in (*ENFORCING, *more)):
                tree = cls({each: _child(folder, f"paceline-{name}") for each, folder in own.items()})
                if pins:
                    Group(tree.folders).pin("")
                return tree
            if UNIFIED not in own:
                raise GroupFault(f"no cgroup file system is mounted that limits {', '.join((*ENFORCING, *more))}")
            return cls({UNIFIED: _delegated(own[UNIFIED], f"paceline-{name}", more)})
        except OSError as error:
            raise GroupFault(
                f"{error.filename}: {error.strerror}; run the agent as root, or as a systemd service with Delegate=yes"
            ) from None

    def group(self, name: str) -> Group:
        """The group of a run, made or not; `name`: that of no other run of this agent."""
        return Group({controller: f"{folder}/{name}" for controller, folder in self.folders.items()})

    def names(self) -> list[str]:
        """The groups that are there, as after a keeper that was lost."""
        names: set[str] = set()
        for folder in self.folders.values():
            with suppress(FileNotFoundError):
                names.update(entry.name for entry in os.scandir(folder) if entry.is_dir())
        return sorted(names)

    def remove(self) -> None:
        """Removes the place where no group is in it."""
        Group(self.folders).remove()

    def trial(self, cpus: str = "") -> None:
        """Makes a group with all limits, puts a process in and kills it there. Raises `GroupFault` with what the host
        doesn't do: what a kernel says of itself and what it does differ too often to go by the former.
        """
        group = self.group("trial")
        group.make(Limits(cpu_millis=100, cpu_limit_millis=100, memory_bytes=64 << 20, processes=16, cpus=cpus))
        try:
            _die_in(group)
        except OSError as error:
            raise GroupFault(f"a process can't be put into a control group: {error.strerror}") from None
        finally:
            while not group.kill():
                pass
            group.remove()


def _die_in(group: Group) -> None:
    """Forks a child that joins a group and waits there to be killed. Raises `GroupFault`, `OSError`."""
    pipe, pipe_end = os.pipe()
    child = os.fork()
    if not child:
        with suppress(BaseException):
            group.join()
            os.write(pipe_end, b"in")
            signal.pause()
        os._exit(1)
    os.close(pipe_end)
    try:
        word = os.read(pipe, 2)
        pids = group.processes()
        group.kill()
    finally:
        os.close(pipe)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not word or pids != [child]:
        raise GroupFault("a process that was put into a control group isn't counted there")


def _own_groups(proc: str) -> Iterator[tuple[str, str]]:
    """The folders of the calling process's groups, by controller or `UNIFIED`."""
    paths = {}
    for line in _read(f"{proc}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(",") if controllers else [UNIFIED], path))
    for line in _read(f"{proc}/mountinfo").splitlines():
        mount, _, kind = line.partition(" - ")
        root, point = mount.split()[3:5]
        system, _, options = kind.split(" ", 2)
        if system not in ("cgroup", "cgroup2"):
            continue
        for controller in (UNIFIED,) if system == "cgroup2" else options.split(","):
            if controller in paths and controller in (*CONTROLLERS, CPUSET, UNIFIED):
                below = os.path.relpath(paths[controller], root)  # in a container the root is a group of the host's
                yield controller, os.path.normpath(f"{point}/{below}") if not below.startswith("..") else point


def _child(folder: str, name: str) -> str:
    child = f"{folder}/{name}"
    with suppress(FileExistsError):
        os.mkdir(child)
    return child


def _delegated(own: str, name: str, more: tuple[str, ...]) -> str:
    """A group below one of v2 whose children have the controllers, `more` beside those that all need."""
    at_root = not os.path.exists(f"{own}/cgroup.type")
    base = os.path.dirname(own) if os.path.basename(own) == LEAF else own
    strangers = [pid for pid in _read(f"{own}/cgroup.procs").split() if int(pid) != os.getpid()]
    if not at_root and base == own and strangers:
        raise GroupFault(
            f"{own} holds other processes ({', '.join(strangers[:3])}): start the agent in a group of its own, such as "
            "that of a systemd service with Delegate=yes"
        )
    if not at_root and base == own:
        _write(f"{_child(own, LEAF)}/cgroup.procs", str(os.getpid()))
    offered = _read(f"{base}/cgroup.controllers").split()
    missing = [controller for controller in (*ENFORCING, *more) if controller not in offered]
    if missing:
        raise GroupFault(f"{base} isn't allowed to limit {', '.join(missing)}: see its cgroup.controllers")
    enabled = " ".join(f"+{controller}" for controller in (*ENFORCING, *more, "io") if controller in offered)
    _write(f"{base}/cgroup.subtree_control", enabled)
    child = _child(base, name)
    _write(f"{child}/cgroup.subtree_control", enabled)
    return child


def _settings(limits: Limits, v2: bool) -> Iterator[tuple[str, str, str]]:
    """(controller, file, value) for each limit."""
    shares = 2 if limits.idle else max(2, limits.cpu_millis * 1024 // 1000)
    quota = limits.cpu_limit_millis * PERIOD_US // 1000
    if v2:
        # The mapping of shares 2..262144 to weights 1..10000 that runc and crun use.
        yield "cpu", "cpu.weight", str(1 + (min(shares, 262_144) - 2) * 9_999 // 262_142)
    else:
        yield "cpu", "cpu.shares", str(shares)
    if quota:
        # The kernel refuses quotas under a millisecond.
        least = max(quota, 1_000)
        if v2:
            yield "cpu", "cpu.max", f"{least} {PERIOD_US}"
        else:
            yield "cpu", "cpu.cfs_period_us", str(PERIOD_US)
            yield "cpu", "cpu.cfs_quota_us", str(least)
    if limits.memory_bytes:
        if v2:
            yield "memory", "memory.max", str(limits.memory_bytes)
            yield "memory", "memory.swap.max", "0"
            yield "memory", "memory.oom.group", "1"  # half a run that goes on helps nobody
        else:
            yield "memory", "memory.limit_in_bytes", str(limits.memory_bytes)
            yield "memory", "memory.memsw.limit_in_bytes", str(limits.memory_bytes)
    if limits.processes:
        yield "pids", "pids.max", str(limits.processes)


def _usage_v2(folder: str) -> Usage:
    cpu, events = _fields(f"{folder}/cpu.stat"), _fields(f"{folder}/memory.events")
    io = [dict(_pairs(line.split()[1:])) for line in _read(f"{folder}/io.stat").splitlines()]
    return Usage(
        cpu_ms=cpu.get("usage_usec", 0) // 1000,
        throttled_ms=cpu.get("throttled_usec", 0) // 1000,
        memory_kib=_working_set_v2(folder),
        peak_memory_kib=_number(f"{folder}/memory.peak") // 1024,
        read_kib=sum(each.get("rbytes", 0) for each in io) // 1024,
        written_kib=sum(each.get("wbytes", 0) for each in io) // 1024,
        oom_kills=events.get("oom_kill", 0),
        forks_refused=_fields(f"{folder}/pids.events").get("max", 0),
    )


def _usage_v1(folders: dict[str, str]) -> Usage:
    cpu, memory = folders["cpu"], folders["memory"]
    read = written = 0
    if "blkio" in folders:
        for line in _read(f"{folders['blkio']}/blkio.throttle.io_service_bytes").splitlines():
            _, _, word = line.partition(" ")
            name, _, amount = word.partition(" ")
            read += int(amount) if name == "Read" else 0
            written += int(amount) if name == "Write" else 0
    return Usage(
        cpu_ms=_number(f"{folders['cpuacct']}/cpuacct.usage") // 1_000_000 if "cpuacct" in folders else 0,
        throttled_ms=_fields(f"{cpu}/cpu.stat").get("throttled_time", 0) // 1_000_000,
        memory_kib=_working_set_v1(memory),
        peak_memory_kib=_number(f"{memory}/memory.max_usage_in_bytes") // 1024,
        read_kib=read // 1024,
        written_kib=written // 1024,
        oom_kills=_fields(f"{memory}/memory.oom_control").get("oom_kill", 0),
        forks_refused=_fields(f"{folders['pids']}/pids.events").get("max", 0) if "pids" in folders else 0,
    )


def _working_set_v2(folder: str) -> int:
    cache = _fields(f"{folder}/memory.stat").get("inactive_file", 0)
    return max(0, _number(f"{folder}/memory.current") - cache) // 1024


def _working_set_v1(folder: str) -> int:
    cache = _fields(f"{folder}/memory.stat").get("total_inactive_file", 0)
    return max(0, _number(f"{folder}/memory.usage_in_bytes") - cache) // 1024


def _with_those_below(folder: str) -> list[str]:
    """A group and all below it, the lowest first."""
    try:
        if os.stat(folder).st_nlink == 2:  # itself and `.`: it has no folder
            return [folder]
    except OSError:
        return []
    return [path for path, _, _ in os.walk(folder, topdown=False)]


def _pairs(words: list[str]) -> Iterator[tuple[str, int]]:
    for word in words:
        name, _, amount = word.partition("=")
        yield name, int(amount)


def _fields(path: str) -> dict[str, int]:
    """A file of lines `NAME NUMBER`; empty where it isn't there."""
    pairs = (line.split() for line in _read(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


def _number(path: str) -> int:
    return int(_read(path) or 0)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:  # not there, or just removed
        return ""


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(file)
