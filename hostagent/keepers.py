"""The agent's side of its keepers (`hostagent.keeper`): starts their holder, and talks to all of them.

Not thread-safe, and never waits but for a holder that starts. What it is told may come late or be lost with a
connection; the folders of runs are what counts.
"""

import array
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from events.structs import known
from hostagent import open_files, private_files
from hostagent.keeper.code import digest

KEEPERS = 16
"""A keeper waits for the disk twice a run: so many side by side reach what it can do."""
VERSION = 1
HOLDER = (sys.executable, "-I", "-S", "-E", str(Path(__file__).with_name("keeper") / "holder.py"))
VARIABLES = ("LANG", "LC_ALL", "LD_LIBRARY_PATH")
"""All that keepers get of the agent's environment: tasks of the same user can read it."""
LOOK_S = 10.0
"""So often it is looked whether all is well with the holder."""
HANGS_S = 30.0
"""A keeper that is doubted and greets nobody for so long hangs: it is killed."""
SHORT_S = 30.0
"""After so long with fewer keepers another holder is started: the present one doesn't replace those that ended by
themselves, as nobody was connected.
"""
AGAIN_S = 0.05
"""So soon after a keeper was lost it is looked for the one in its place, and the same until it is there."""
PACKET_MAX = 4096
NAMES_MAX = 100
"""Most runs in one packet."""
LOG_BYTES_MAX = 1024 * 1024


class KeeperHello(msgspec.Struct):
    """The words by which a keeper greets."""

    keeper: str
    code: str
    holder: int


class KeeperNews(NamedTuple):
    """The names of runs that have started, and ended, and whether there may be others."""

    started: list[str]
    ended: list[str]
    more: bool


class Connection:
    """A keeper, once it has said who it is. `probes`: the connection whose keeper it asks whether it answers at all."""

    def __init__(self, path: str, peer: socket.socket, probes: "Connection | None") -> None:
        self.path, self.peer, self.probes = path, peer, probes
        self.hello: KeeperHello | None = None
        self.since_s = time.monotonic()
        self.doubted = False


class Keepers:
    """The keepers of the agent's folder. `say`: told once of each trouble with them."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say
        self._code = digest()
        self._connections: dict[int, Connection] = {}
        self._epoll = select.epoll()
        self._turn: deque[Connection] = deque()
        """Those that take starts, the next one first."""
        self._stops: dict[str, None] = {}
        """Runs whose keepers have yet to be told that they shall look for a stop."""
        self._holder: subprocess.Popen[bytes] | None = None
        self._holder_pid = 0
        self._wanted = False
        """Runs are to be started, so that there must be keepers."""
        self._short_since_s = 0.0
        """Since when there are fewer keepers than there should be; 0: there are all."""
        self._look_at_s = 0.0
        self._lost = False
        """A connection was lost since the last news."""

    def fileno(self) -> int:
        """A file that can be read when a keeper has said something."""
        return self._epoll.fileno()

    def connect(self) -> None:
        """Connects to all keepers that there are."""
        known_paths = {each.path for each in self._connections.values()}
        with suppress(FileNotFoundError):
            for name in os.listdir(self._folder / "keepers"):
                path = str(self._folder / "keepers" / name)
                if name.endswith(".sock") and path not in known_paths:
                    self._connect(path)

    def open(self, patience_s: float = 0.0) -> None:
        """From now on runs are to be started, so there must be keepers: waits so long for the first, once."""
        if self._wanted:
            return
        self._wanted = True
        until_s = time.monotonic() + patience_s
        while not self._turn and time.monotonic() < until_s:
            self.look()
            self._epoll.poll(0.005)
            self._lost |= any(self.news()[:2])  # nobody hears of these: their folders are looked at

    def start(self, name: str, locks: Sequence[int]) -> bool:
        """Hands a run, with its locked files, to the next keeper; False: none can take it now."""
        packet = json.dumps({"v": VERSION, "start": [name]}).encode()
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", locks))]
        for _ in range(len(self._turn)):
            keeper = self._turn[0]
            self._turn.rotate(-1)
            try:
                keeper.peer.sendmsg([packet], ancillary)
            except BlockingIOError:  # its queue is full
                continue
            except OSError:
                self._drop(keeper)
                continue
            return True
        return False

    def stop(self, name: str) -> None:
        """Tells the keeper of a run that it shall look whether it is to stop."""
        self._stops[name] = None
        self._send_stops()

    def doubt(self) -> None:
        """Somebody says nothing of a run that is over: a keeper that hangs is killed after a time."""
        for keeper in list(self._connections.values()):
            if keeper.probes is None and not keeper.doubted:
                keeper.doubted = True
                self._connect(keeper.path, keeper)

    def news(self) -> KeeperNews:
        """Reads what keepers have said since the last time."""
        news: dict[bytes, list[str]] = {b"S": [], b"E": [], b"?": []}
        for fd, _ in self._epoll.poll(0):
            if (keeper := self._connections.get(fd)) is not None:
                self._receive(keeper, news)
        if self._stops:
            self._send_stops()
        more = self._lost or bool(news[b"?"])
        if self._lost:  # what it left is looked at now, and what has come in its place soon
            self._lost, self._look_at_s = False, min(self._look_at_s, time.monotonic() + AGAIN_S)
        return KeeperNews(news[b"S"], news[b"E"], more)

    def restless(self) -> bool:
        """Whether something has to be looked at or tried again soon."""
        doubted = any(each.doubted for each in self._connections.values())
        return doubted or bool(self._stops) or (self._wanted and len(self._turn) < KEEPERS)

    def look(self) -> bool:
        """Looks after holder and keepers, if it is time; True: then runs may have changed unheard."""
        now_s = time.monotonic()
        self._end_hanging(now_s)
        if now_s < self._look_at_s:
            return False
        self._look_at_s = now_s + LOOK_S
        if self._holder is not None:
            self._holder.poll()
        self.connect()
        if self._wanted and not self._mind_holder():
            self._look_at_s = now_s + AGAIN_S
        return True

    def close(self) -> None:
        """Hangs up; keepers go on."""
        for keeper in list(self._connections.values()):
            self._drop(keeper)
        self._epoll.close()

    def _end_hanging(self, now_s: float) -> None:
        for probe in list(self._connections.values()):
            if probe.probes is not None and now_s - probe.since_s >= HANGS_S:
                pid, _, _ = struct.unpack("3i", probe.peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
                self._say(f"keeper {pid} hangs: it is ended, with all of its runs")
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self._drop(probe)

    def _connect(self, path: str, probes: Connection | None = None) -> None:
        place = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            peer.connect(f"/proc/self/fd/{place}/{os.path.basename(path)}")  # a socket's path has 107 bytes at most
        except BlockingIOError:  # many connect at once: the next time
            peer.close()
        except OSError:
            peer.close()
            with suppress(OSError):
                os.unlink(path)  # of a keeper that is no more
        else:
            self._connections[peer.fileno()] = Connection(path, peer, probes)
            self._epoll.register(peer.fileno(), select.EPOLLIN)
        finally:
            os.close(place)

    def _drop(self, keeper: Connection) -> None:
        if self._connections.pop(keeper.peer.fileno(), None) is not None:
            self._epoll.unregister(keeper.peer.fileno())
            keeper.peer.close()
            self._lost |= keeper.probes is None
        if keeper in self._turn:
            self._turn.remove(keeper)

    def _receive(self, keeper: Connection, news: dict[bytes, list[str]]) -> None:
        """Reads all that a keeper has said."""
        while True:
            try:
                packet = keeper.peer.recv(PACKET_MAX)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self._drop(keeper)
                return
            if packet[:1] == b"{":
                self._greeted(keeper, packet)
                if keeper.probes is not None:
                    return
            else:
                news.get(packet[:1], []).append(packet[2:].decode(errors="replace"))

    def _greeted(self, keeper: Connection, packet: bytes) -> None:
        with suppress(msgspec.DecodeError):
            keeper.hello = msgspec.json.decode(packet, type=known(KeeperHello))
        if keeper.probes is not None:
            keeper.probes.doubted = False
            self._drop(keeper)
        elif keeper.hello is not None and keeper.hello.code == self._code:
            self._turn.append(keeper)
            self._look_at_s = 0.0

    def _send_stops(self) -> None:
        """Tells all keepers: who has a run is known to them alone."""
        while self._stops:
            names = list(self._stops)[:NAMES_MAX]
            packet = json.dumps({"v": VERSION, "stop": names}).encode()
            for keeper in list(self._connections.values()):
                try:
                    keeper.peer.send(packet)
                except BlockingIOError:
                    return  # all are told again, which harms nothing
                except OSError:
                    self._drop(keeper)
            for name in names:
                self._stops.pop(name)

    def _mind_holder(self) -> bool:
        """Makes sure that a holder of this code lives; False: it is to be looked at again soon."""
        lock = self._take_holder_lock()
        if lock is not None:
            try:
                os.ftruncate(lock, 0)
                self._spawn(lock)
            finally:
                os.close(lock)
            return False
        with suppress(OSError, ValueError):
            pid, code = private_files.read_file(self._folder / "holder.lock").decode().split()
            self._holder_pid = int(pid)
            if code != self._code:
                os.kill(self._holder_pid, signal.SIGTERM)
                return False
        self._drain_others()
        if len(self._turn) >= KEEPERS:
            self._short_since_s = 0.0
            return True
        self._short_since_s = self._short_since_s or time.monotonic()
        if self._holder_pid and time.monotonic() - self._short_since_s > SHORT_S:
            self._short_since_s = 0.0
            with suppress(ProcessLookupError):
                os.kill(self._holder_pid, signal.SIGTERM)
        return False

    def _drain_others(self) -> None:
        """Keepers of an earlier holder end with their last run, once there are such of the present one."""
        greeted = [each for each in self._connections.values() if each.hello is not None]
        others = [each for each in greeted if each.hello and each.hello.holder != self._holder_pid]
        if len(others) == len(greeted):
            return
        for keeper in others:
            if keeper in self._turn:
                self._turn.remove(keeper)
            with suppress(OSError):
                keeper.peer.send(json.dumps({"v": VERSION, "drain": 1}).encode())

    def _take_holder_lock(self) -> int | None:
        lock = os.open(self._folder / "holder.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def _spawn(self, lock: int) -> None:
        log_path = self._folder / "holder.log"
        with suppress(OSError):  # not there, mostly
            if log_path.lstat().st_size > LOG_BYTES_MAX:
                log_path.replace(log_path.with_suffix(".log.1"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with open(private_files.open_private(str(log_path), flags), "ab") as log:
            self._holder = subprocess.Popen(
                [*HOLDER, str(self._folder.resolve()), str(KEEPERS), str(lock), str(open_files.given())],
                env={name: os.environ[name] for name in VARIABLES if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock,),
                start_new_session=True,
            )
