"""Starts `paceline` in processes that are forked from one that has imported it: a process of a cell needs a second of
CPU for that, and tests start hundreds. Whatever else it is and does is what a process started by hand is and does.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from deploy.processes import Processes
from tests.helpers import ROOT, costs
from tests.helpers.drawn import ALL

PACELINE = [sys.executable, "-m", "paceline"]
MESSAGE_MAX = 1 << 20
PARTS = ("agent", "api", "fanout", "gateway", "processor", "projector", "up")


class Forked:
    """One process; has of `subprocess.Popen` what tests use."""

    def __init__(self, server: "Server", pid: int, words: Sequence[str]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server, self._words = server, words
        self._end = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Its exit code; None: it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended. Raises `subprocess.TimeoutExpired`."""
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(self._words, timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, if it runs."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._end, number)

    def kill(self) -> None:
        """Ends it at once."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._end], [], [], timeout)[0]:
            self.returncode, used_s = self._server.ask({"ended": self.pid})
            costs.add(used_s)
            os.close(self._end)
        return self.returncode


class Server:
    """The process that has imported all, as the tests see it."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._one_at_a_time = threading.Lock()
        words = [sys.executable, "-m", "tests.helpers.forked", str(theirs.fileno())]
        self._process = subprocess.Popen(words, pass_fds=[theirs.fileno()], start_new_session=True)
        theirs.close()
        atexit.register(self.close)

    def start(self, words: Sequence[str], output: BinaryIO, environment: Mapping[str, str], session: bool) -> Forked:
        """Starts `paceline` with these words."""
        asked = {"words": [*words], "environment": {**environment}, "folder": str(ROOT), "session": session}
        return Forked(self, int(self.ask(asked, output.fileno())[0]), words)

    def ask(self, question: Mapping[str, Any], *files: int) -> tuple[int, float]:
        """Its answer."""
        with self._one_at_a_time:
            socket.send_fds(self._channel, [json.dumps(question).encode()], files)
            code, used_s = json.loads(self._channel.recv(MESSAGE_MAX))
            return code, used_s

    def close(self) -> None:
        """Ends it, and what it has started in its own session."""
        self._channel.close()
        self._process.wait()


class ForkedProcesses(Processes):
    """Named processes of which those of `paceline` are forked."""

    def launch(self, words: Sequence[str], out: BinaryIO, environment: Mapping[str, str]) -> Any:
        """See `Processes`."""
        if words[: len(PACELINE)] != PACELINE:
            return super().launch(words, out, environment)
        return launched(words[len(PACELINE) :], out, environment)


def launched(words: Sequence[str], out: BinaryIO, environment: Mapping[str, str], session: bool = True) -> Any:
    """`paceline` with these words, what it says in a file. For the soak it is started as users start it."""
    if not ALL:
        return server().start(words, out, environment, session)
    return subprocess.Popen(
        [*PACELINE, *words],
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=out,
        env=environment,
        start_new_session=session,
        cwd=ROOT,
    )


@cache
def server() -> Server:
    """The one of this process."""
    return Server()


def serve(channel: socket.socket) -> list[str] | None:
    """Forks whoever is asked for; in a child it returns what that is told to do."""
    while True:
        said, files, _, _ = socket.recv_fds(channel, MESSAGE_MAX, 1)
        if not said:
            return None
        asked = json.loads(said)
        if "ended" in asked:
            _, status, used = os.wait4(asked["ended"], 0)
            said_of_it = (os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime)
            channel.send(json.dumps(said_of_it).encode())
            continue
        pid = os.fork()
        if not pid:
            channel.close()
            if asked["session"]:
                os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for stream in (1, 2):
                os.dup2(files[0], stream)
            os.closerange(3, max(files) + 1)
            os.chdir(asked["folder"])
            os.environ.clear()
            os.environ.update(asked["environment"])
            words: list[str] = asked["words"]
            return words
        os.close(files[0])
        channel.send(json.dumps((pid, 0.0)).encode())


def main() -> None:
    """What has imported all."""
    from importlib import import_module

    from paceline.cli.main import main as paceline

    for command in ("processes", "up"):
        import_module(f"paceline.cli.commands.{command}")
    for part in PARTS:
        import_module(f"paceline.services.{part}")
    gc.freeze()
    words = serve(socket.socket(fileno=int(sys.argv[1])))
    if words is None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
        return
    sys.argv = [str(Path(sys.argv[0]).with_name("paceline")), *words]
    paceline(words)


if __name__ == "__main__":
    main()
