"""The parent of one run, started by the agent through `shim_main.py FOLDER LOCK_FD FILES` and independent of it.

It imports nothing but the standard library and two files beside it, so that it starts in some milliseconds and goes on
whatever becomes of agent and installation. In FOLDER, where no task works, it finds `order.json` and leaves

* `shim.pid`: its own pid, to wake it after writing `stop`;
* `process.json`: pid, start time and boot id of the user's process, on disk before that process runs any code;
* `stdout.N`, `stderr.N`: what the process wrote from byte N on (see `shim_output`);
* `exit.json`: how the run ended, on disk before the shim ends.

The lock LOCK_FD, taken by the agent before the start, is held as long as the shim lives. A file `stop` asks for the
end of the run; its text is the state to report. SIGTERM does the same, at once. FILES: how many the run may have open.

A run of a stateful job begins when no other run of its task goes on; it holds the folder of its task until it ends.
A run with ports begins when no other run of this machine has one of them and nobody listens there; it holds them (see
`lock_bytes`) until it has ended.

A process that leaves its process group on purpose is not caught: pools for untrusted tasks need more than this.
"""

import errno
import fcntl
import json
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hostagent.private_files import read_file, write, write_durably
from hostagent.shim_output import Output

POLL_S = 1.0
"""So often the shim looks for a stop file and for silence, if nothing wakes it."""
DRAIN_S = 1.0
"""Seconds after the end of the process for which its pipes are read, in case a stranger to its group holds them open.
"""
TURN_S = 15.0
"""So long a run waits for its ports, which one that is being stopped may still have, and for such a run of its task."""
TURN_POLL_S = 0.1
RUN_PORTS = 65_536
"""In the file of ports the byte RUN_PORTS + N stands for port N in the hands of a run."""
EXITED, STOPPED, NOT_STARTED, SILENCED, CANNOT_START = 2, 3, 4, 5, 10
"""`RunReport`, which can't be imported here."""
LASTING = (
    *(errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
    *(errno.EINVAL, errno.EPERM, errno.E2BIG, errno.ELIBBAD, errno.EMFILE),
)
"""Errors of a start that are the same at the next one: no such file, not executable, wrong format and the like."""


def boot_id() -> str:
    """Names the time since this machine was started; pids say nothing beyond it."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since the boot; None: there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return None


def since_boot_ms() -> int:
    """Time that all processes of this machine share and that no one sets; runs on while the machine sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def open_ports(path: str) -> int:
    """The file of ports that all agents and runs of the machine share, made by whatever user came first: a system may
    refuse to open another's for creation.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        file = os.open(path, flags | os.O_CREAT, 0o666)
        os.fchmod(file, 0o666)
        return file


def lock_bytes(file: int, start: int, size: int) -> bool:
    """Locks bytes for this open file, not for the process, until it is closed. False: another has one of them."""
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, size, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def listened_on(port: int) -> bool:
    """Whether anybody listens on a port of this machine."""
    import socket  # only runs with ports pay for it

    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            probe = socket.socket(family)
        except OSError:  # not on this machine
            continue
        with probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return True
    return False


class Shim:
    """One run from its start to its end."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.order: dict[str, Any] = json.loads(read_file(os.path.join(folder, "order.json")))
        self.born_ms = since_boot_ms()
        self.pid = 0
        self.ports = -1
        """The file on which its ports are locked."""
        self.task = -1
        """The folder of its task, locked where no other run of it may go on."""
        self.outputs: list[Output] = []
        self.started = False
        """Whether the agent can see that the process runs."""
        self.lasting = False
        """Whether it could not be started for what doesn't pass by itself."""
        self.refused: set[str] = set()
        """Files that the disk didn't take at first."""
        self.stop_state = 0
        self.kill_at: float | None = None
        self.terminated = False
        self.wake, self._wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> None:
        """Runs the process and writes its end."""
        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._terminated)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._insist("shim.pid", str(os.getpid()), write)
        fault = self._await_turn()
        if self._asked_to_stop():
            return self._end(self.stop_state, 128 + signal.SIGTERM, "stopped before it started")
        fault = fault or self._start()
        if fault:
            return self._end(CANNOT_START if self.lasting else NOT_STARTED, 127, fault)
        status, used = self._wait()
        code = os.waitstatus_to_exitcode(status)
        cpu_ms = round(1000 * (used.ru_utime + used.ru_stime))
        details = {"signal": max(0, -code), "cpu_ms": cpu_ms, "memory_kib": used.ru_maxrss}
        return self._end(self.stop_state or EXITED, 128 - code if code < 0 else code, "", details)

    def _await_turn(self) -> str:
        """Takes what runs have one after another. Returns why it can't; nothing too where it is asked to stop."""
        until = time.monotonic() + TURN_S
        while True:
            fault = self._take_task() or self._take_ports()
            if not fault or time.monotonic() >= until or self._asked_to_stop():
                return fault
            self._carry({}, TURN_POLL_S)

    def _take_task(self) -> str:
        """Makes sure that no earlier run of its task goes on, where none may. Returns why it can't."""
        if not self.order["alone"] or self.task >= 0:
            return ""
        folder = os.open(os.path.dirname(self.folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(folder)
            return "an earlier run of this task goes on"
        self.task = folder
        return ""

    def _take_ports(self) -> str:
        """Takes all of its ports, or none and returns why."""
        ports: list[int] = self.order["ports"]
        if not ports:
            return ""
        file = open_ports(self.order["port_locks"])
        for port in ports:
            holder = "another run of this machine has" if not lock_bytes(file, RUN_PORTS + port, 1) else ""
            if holder or listened_on(port):
                os.close(file)
                return f"{holder or 'a stranger listens on'} port {port}"
        self.ports = file
        return ""

    def _start(self) -> str:
        """Starts the process in a session of its own, held until its identity is on disk. Returns why it can't run."""
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(4)]
        (out, out_end), (err, err_end), (gate, gate_end), (fault, fault_end) = pipes
        self.pid = os.fork()
        if not self.pid:
            os.close(gate_end)
            self._become(out_end, err_end, gate, fault_end)
        for end in (out_end, err_end, gate, fault_end):
            os.close(end)
        identity = {"pid": self.pid, "start_time": start_time(self.pid), "boot_id": boot_id()}
        if self._insist("process.json", json.dumps(identity)):
            os.write(gate_end, b"1")
        os.close(gate_end)
        with open(fault, encoding="utf-8") as file:
            message = file.read()
        if message:
            os.waitpid(self.pid, 0)
            self.lasting = message.startswith("!")
            return message[1:]
        self.outputs = [Output(self.folder, "stdout", out), Output(self.folder, "stderr", err)]
        return ""

    def _become(self, out: int, err: int, gate: int, fault: int) -> None:
        """In the child: becomes the user's process, or says why not, with a mark whether that lasts. Never returns."""
        lasting = False
        try:
            os.setsid()
            if not os.read(gate, 1):
                os._exit(127)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            lasting = True
            self._limit_files()
            self._change_user((out, err))
            lasting = False
            os.chdir(self.order["work"])
            command, lasting = self.order["command"], True
            os.execvpe(command[0], command, self.order["env"])
        except Exception as error:
            message = error.strerror if isinstance(error, OSError) else str(error)
            lasting = lasting and (not isinstance(error, OSError) or error.errno in LASTING)
            name = next(iter(self.order["command"]), "no command")
            os.write(fault, f"{'!' if lasting else '.'}{name}: {message}".encode(errors="replace"))
        finally:
            os._exit(127)

    def _limit_files(self) -> None:
        """In the child: may have as many open files as the order says, if it says so."""
        limit, most = self.order["open_files"], resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if limit and most != resource.RLIM_INFINITY and limit > most:
            raise OSError(errno.EMFILE, f"open_files is {limit}, this host allows {most}")
        if limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))

    def _change_user(self, outputs: tuple[int, int]) -> None:
        """In the child: becomes the user that the order names, if it names one."""
        user: dict[str, Any] | None = self.order.get("user")
        if user is None:
            return
        for output in outputs:  # else it could not open /dev/stdout
            os.fchown(output, user["uid"], user["gid"])
        os.setgroups(user["groups"])
        os.setresgid(user["gid"], user["gid"], user["gid"])
        os.setresuid(user["uid"], user["uid"], user["uid"])

    def _wait(self) -> tuple[int, resource.struct_rusage]:
        """Carries output and obeys stops until the process has ended; then ends the rest of its group. Returns how it
        ended, and what it and those that it waited for have used.
        """
        open_fds = {output.source: output for output in self.outputs}
        while not os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            self.started = self.started or self._try_write("started", "", write)
            if not self.stop_state and self._asked_to_stop():
                self._signal(self.order["stop_signal"])
                self.kill_at = time.monotonic() + self.order["stop_grace_ms"] / 1000
            wait_s = POLL_S
            if self.kill_at is not None:
                wait_s = min(wait_s, self.kill_at - time.monotonic())
                if wait_s <= 0:
                    self._signal(signal.SIGKILL)
                    self.kill_at, wait_s = None, POLL_S
            self._carry(open_fds, wait_s)
        self._signal(signal.SIGKILL)  # before the wait that gives the pid, and so the group's id, free for others
        _, status, used = os.wait4(self.pid, 0)
        until = time.monotonic() + DRAIN_S
        while open_fds and time.monotonic() < until:
            self._carry(open_fds, until - time.monotonic())
        return status, used

    def _carry(self, open_fds: dict[int, Output], timeout: float) -> None:
        """Waits for output, a signal or the time-out, and writes what came."""
        ready, _, _ = select.select([self.wake, *open_fds], [], [], max(0.0, timeout))
        for source in ready:
            data = os.read(source, 65536)
            if source == self.wake:
                continue
            if data:
                open_fds[source].write(data)
            else:
                os.close(source)
                del open_fds[source]

    def _asked_to_stop(self) -> bool:
        """Whether the run shall end; `stop_state` then says how that is reported."""
        try:
            self.stop_state = int(read_file(os.path.join(self.folder, "stop")))
        except (OSError, ValueError) as error:  # not there, mostly
            if self.terminated or isinstance(error, ValueError):
                self.stop_state = STOPPED
            elif self._silent():
                self.stop_state = SILENCED
        return bool(self.stop_state)

    def _silent(self) -> bool:
        """Whether the agent has had no contact to the cell for longer than the job allows, be it dead or cut off."""
        patience: int = self.order["stop_after_ms"]
        if not patience:
            return False
        contact = self.born_ms
        with suppress(OSError, ValueError):
            contact = max(contact, int(read_file(self.order["contact"])))
        return since_boot_ms() - contact > patience

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _terminated(self, *_: object) -> None:
        self.terminated = True

    def _end(self, state: int, code: int, reason: str, details: "dict[str, int] | None" = None) -> None:
        for file in (self.ports, self.task):
            if file >= 0:  # before anybody hears of the end: the next run may have them
                os.close(file)
        ending = {"state": state, "exit_code": code, "reason": reason, **(details or {})}
        self._insist("exit.json", json.dumps(ending))

    def _insist(self, name: str, text: str, how: Callable[[str, str], None] = write_durably) -> bool:
        """Puts a file in place. On a full disk it waits for room: neither a start nor an outcome may get lost. Where
        the whole folder was removed nobody asks any more: False.
        """
        while not self._try_write(name, text, how):
            if not os.path.isdir(self.folder):
                return False
            time.sleep(POLL_S)
        return True

    def _try_write(self, name: str, text: str, how: Callable[[str, str], None]) -> bool:
        """Puts a file in place, or says once that the disk doesn't take it."""
        try:
            how(os.path.join(self.folder, name), text)
        except OSError as error:
            if name not in self.refused:
                self.refused.add(name)
                with suppress(OSError):  # its own log may be on that disk
                    os.write(2, f"can't write {name}: {error.strerror}. Tries again until it can.\n".encode())
            return False
        return True


def main() -> None:
    """Runs; the agent has made this process the leader of a session."""
    os.set_inheritable(int(sys.argv[2]), False)
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[3]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    Shim(sys.argv[1]).run()
