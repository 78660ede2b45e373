"""A keeper: one event loop, the parent of many runs.

It listens at `keepers/SLOT.PID.sock` (packets, protocol version 1). Who connects is told who it is; then it takes

* `{"v": 1, "start": [NAME]}` with the locked file of the run, and that of its image if it has one, NAME as
  `JOB/INSTANCE/RUN`;
* `{"v": 1, "stop": [NAME, ...]}`: look at the file `stop` of these runs;
* `{"v": 1, "drain": 1}`: take no more starts, end with the last run;

and says `S NAME` for what has started, `E NAME` for what has ended and is on disk, and `?` where it could not say all.
`stop` and `drain` never change; fields that it doesn't know are ignored. SIGTERM stops all of its runs.

It ends when nobody has been connected for `IDLE_S` and no run is left. Nothing waits for a tick: what comes, ends or is
due wakes it.
"""

import array
import gc
import json
import os
import select
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from hostagent import kernel
from hostagent.keeper import system
from hostagent.keeper.kept_run import KeptRun
from hostagent.keeper.timers import Timer, Timers

VERSION = 1
PACKET_MAX = 65_536
FDS_MAX = 4
IDLE_S = 10.0
SWEEP_S = 1.0 if kernel.lists_children() else 5.0
"""So long after the end of a run it is looked for what hid from it, and again while there is any."""
PAUSE_S = 1.0
"""So long nothing is read where that has failed, as where no file is left to accept a connection."""


class Keeper:
    """The loop, and all that its runs share. `files`: how many files a run may have open."""

    def __init__(self, folder: str, slot: int, code: str, files: int) -> None:
        self.folder, self.files = folder, files
        self.root = os.path.join(folder, "runs")
        self.boot = kernel.boot_id()
        self.runs: dict[str, KeptRun] = {}
        self.by_pid: dict[int, KeptRun] = {}
        """The runs that have a process, by that of their first one."""
        self.making: set[int] = set()
        """The processes among them that make the first process of a run, which then is this one's child."""
        self._code, self._holder = code, os.getppid()
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._pausing: set[int] = set()
        """The files that aren't read for a while."""
        self._connections: dict[int, Connection] = {}
        self._timers = Timers()
        self._sweep: Timer | None = None
        self._idle: Timer | None = None
        self._draining = False
        self._ending = False
        self._listen(slot)
        self._wake, wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._terminated)
        self.watch(self._wake, self._woken)
        self._look_whether_idle()

    def run(self) -> None:
        """Works until it is drained, or idle for long."""
        system.adopt_orphans()
        gc.enable()
        while not self._ending:
            for fd, _ in self._epoll.poll(self._timers.wait_s()):
                handler = self._handlers.get(fd)
                if handler is not None:  # an earlier one of this turn may have closed it
                    self._handle(fd, handler)
            self._timers.run()
        os.unlink(self._path)

    def watch(self, fd: int, handler: Callable[[], None]) -> None:
        """Calls `handler` whenever there is something to read."""
        self._handlers[fd] = handler
        self._epoll.register(fd, select.EPOLLIN)

    def unwatch(self, fd: int) -> None:
        """Closes what was watched."""
        del self._handlers[fd]
        self._pausing.discard(fd)
        self._epoll.unregister(fd)
        os.close(fd)

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Calls once so much later, unless it is cancelled."""
        return self._timers.after(seconds, call)

    def tell(self, letter: str, name: str) -> None:
        """Says to all who listen what became of a run."""
        packet = f"{letter} {name}".encode()
        for connection in list(self._connections.values()):
            connection.send(packet)

    def forget(self, run: KeptRun) -> None:
        """A run has ended and all of it is on disk."""
        self.runs.pop(run.name, None)
        self._look_whether_idle()
        if self._sweep is None:
            self._sweep = self.after(SWEEP_S, self._end_strays)

    def dropped(self, connection: "Connection") -> None:
        """Somebody has hung up."""
        self._connections.pop(connection.fd, None)
        self._look_whether_idle()

    def obey(self, packet: dict[str, Any], files: list[int]) -> None:
        """Does what a packet asks; takes over its files."""
        for name in packet.get("start", ()):
            if self._draining or name in self.runs or not files:
                continue  # its lock is free again with its file: who ordered it sees that
            run = self.runs[name] = KeptRun(self, name, files.pop(0), files.pop(0) if files else -1)
            self.guard(run, run.begin)
        for name in packet.get("stop", ()):
            if (run_ := self.runs.get(name)) is not None:
                self.guard(run_, run_.look_for_stop)
        if packet.get("drain"):
            self._draining = True
            self._look_whether_idle()

    def guard(self, run: KeptRun, call: Callable[[], None]) -> None:
        """Calls; whatever goes wrong is the end of this run alone."""
        try:
            call()
        except Exception:
            system.say_trouble()
            try:
                run.give_up()
            except Exception:
                system.say_trouble()

    def _handle(self, fd: int, handler: Callable[[], None]) -> None:
        """Calls; whatever goes wrong is told once, and tried again later."""
        try:
            handler()
            self._pausing.discard(fd)
        except Exception:
            if fd not in self._pausing:
                system.say_trouble()
            if fd in self._handlers:
                self._pausing.add(fd)
                self._epoll.modify(fd, 0)
                self.after(PAUSE_S, partial(self._go_on, fd))

    def _go_on(self, fd: int) -> None:
        if fd in self._pausing:
            self._epoll.modify(fd, select.EPOLLIN)

    def _listen(self, slot: int) -> None:
        keepers = os.path.join(self.folder, "keepers")
        os.makedirs(keepers, 0o700, exist_ok=True)
        place = os.open(keepers, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name = f"{slot}.{os.getpid()}"
        self._path = f"/proc/self/fd/{place}/{self._name}.sock"  # a socket's path has 107 bytes at most
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        with suppress(FileNotFoundError):
            os.unlink(self._path + ".new")
        self._server.bind(self._path + ".new")
        self._server.listen(16)
        os.rename(self._path + ".new", self._path)  # who finds it is let in, or its keeper is no more
        self.watch(self._server.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            accepted, _ = self._server.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        connection = self._connections[accepted.fileno()] = Connection(self, accepted)
        hello = {"v": VERSION, "keeper": self._name, "code": self._code, "holder": self._holder, "runs": len(self.runs)}
        self.watch(connection.fd, connection.receive)
        connection.send(json.dumps(hello).encode())
        for run in list(self.runs.values()):  # who was connected before may have died before it said so
            self.guard(run, run.look_for_stop)

    def _woken(self) -> None:
        """Children have ended, or it is told to end."""
        with suppress(BlockingIOError):
            os.read(self._wake, 4096)
        while pid := self._ended_child():
            run = self.by_pid.pop(pid, None)
            if run is not None:
                self.guard(run, run.before_reaping)
            _, status, used = os.wait4(pid, 0)
            self.making.discard(pid)
            if run is not None:
                self.guard(run, partial(run.exited, status, used))

    def _ended_child(self) -> int:
        """A child that has ended and isn't reaped; 0: there is none. While a container is made, an orphan may be its
        first process, whose end its run is to see: it stays until that is known.
        """
        kind, numbers = (os.P_PID, tuple(self.by_pid)) if self.making else (os.P_ALL, (0,))
        for number in numbers:
            with suppress(ChildProcessError):
                if ended := os.waitid(kind, number, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    return ended.si_pid
        return 0

    def _terminated(self, *_: object) -> None:
        self._draining = True
        self.after(0.0, self._stop_all)

    def _stop_all(self) -> None:
        for run in list(self.runs.values()):
            self.guard(run, run.terminate)
        self._look_whether_idle()

    def _end_strays(self) -> None:
        """Kills children of processes of runs that have ended: they left their session, and came here. Such a one is
        told by its environment; one that hides that too ends when no run is left.
        """
        self._sweep = self.after(SWEEP_S, self._end_strays)  # should this fail, as where no file is left
        strays = [pid for pid in kernel.children() if pid not in self.by_pid]
        rest = [pid for pid in strays if not self.runs or not self._is_of_live_run(pid)]
        for pid in rest:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not rest:  # what they leave comes here too
            self._sweep.cancel()
            self._sweep = None

    def _is_of_live_run(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                text = file.read()
        except OSError:
            return False
        variables = dict(each.partition(b"=")[::2] for each in text.split(b"\0"))
        parts = [variables.get(name) for name in (b"PACELINE_JOB", b"PACELINE_TASK", b"PACELINE_RUN")]
        if None in parts:
            return True
        return b"/".join(each or b"" for each in parts).decode(errors="replace") in self.runs

    def _look_whether_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not self.runs and self._draining:
            self._idle = self.after(0.0, self._end)
        elif not self.runs and not self._connections:
            self._idle = self.after(IDLE_S, self._end)

    def _end(self) -> None:
        self._ending = not self.runs


class Connection:
    """One who gives orders to a keeper, and is told what becomes of runs."""

    def __init__(self, keeper: Keeper, peer: socket.socket) -> None:
        self.fd = peer.fileno()
        self._keeper = keeper
        self._peer = peer
        self._missed = False
        """It was not told all, as it reads too slowly."""
        peer.setblocking(False)

    def send(self, packet: bytes) -> None:
        """Says something, if it can be said now."""
        try:
            if self._missed:
                self._peer.send(b"?")
                self._missed = False
            self._peer.send(packet)
        except BlockingIOError:
            if not self._missed:
                self._missed = True
                self._keeper.after(0.05, self._say_missed)
        except OSError:
            self._close()

    def receive(self) -> None:
        """Obeys one packet."""
        files = array.array("i")
        try:
            data, ancillary, flags, _ = self._peer.recvmsg(
                PACKET_MAX, socket.CMSG_SPACE(FDS_MAX * files.itemsize), socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return
        except OSError:
            self._close()
            return
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                files.frombytes(content[: len(content) - len(content) % files.itemsize])
        locks = list(files)
        try:
            if not data or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                self._close()
            else:
                self._keeper.obey(json.loads(data), locks)
        except Exception:  # whatever a client sends is its own trouble
            system.say_trouble()
            self._close()
        finally:
            for file in locks:
                os.close(file)

    def _say_missed(self) -> None:
        if self._missed and self.fd >= 0:
            try:
                self._peer.send(b"?")
                self._missed = False
            except BlockingIOError:
                self._keeper.after(0.05, self._say_missed)
            except OSError:
                self._close()

    def _close(self) -> None:
        if self.fd >= 0:
            self._keeper.unwatch(self.fd)
            self._peer.detach()
            self._keeper.dropped(self)
            self.fd = -1
