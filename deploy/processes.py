"""Named processes on this machine: started, watched, ended; what they say goes to a file for each."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from paceline.services.processes import default_listen, kind_of

END_S = 12.0
POLL_S = 0.05


class Processes:
    """Processes started here, each in a session of its own, and ended by their ids."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = {**os.environ, **environment}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, command: Sequence[str]) -> None:
        """Starts a process; `paceline` is the one of this Python, $NAMES stand for the environment's."""
        words = [_expanded(word, self._environment) for word in command]
        if words[0] == "paceline":
            words = [sys.executable, "-m", "paceline", *words[1:]]
        with self.output(name).open("ab") as out:
            self._running[name] = self.launch(words, out, self._environment)

    def launch(self, words: Sequence[str], out: BinaryIO, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """A process in a session of its own."""
        return subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True
        )

    def output(self, name: str) -> Path:
        """Where what a process says is kept."""
        return self._folder / f"{name}.log"

    def pid(self, name: str) -> int:
        """The id of a process."""
        return self._running[name].pid

    def names(self) -> list[str]:
        """Those that were started and not ended."""
        return list(self._running)

    def ended(self) -> dict[str, int]:
        """Those that have ended by themselves, with their codes; until they are started again."""
        codes = {name: process.poll() for name, process in self._running.items()}
        return {name: code for name, code in codes.items() if code is not None}

    def send(self, name: str, number: signal.Signals) -> None:
        """Sends a signal."""
        self._running[name].send_signal(number)

    def kill(self, name: str) -> None:
        """Ends a process at once, as a lost machine."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def stop(self, name: str) -> int:
        """Lets a process end by itself; returns its code. One that doesn't is killed."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        try:
            return process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def stop_all(self) -> dict[str, int]:
        """Lets all end by themselves, at once; returns their codes."""
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + END_S
        while any(process.poll() is None for process in self._running.values()) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return {name: self.stop(name) for name in list(self._running)}


def procfile(path: Path) -> dict[str, list[str]]:
    """The commands of a file by name: a line for each, `name: command`; # begins a remark."""
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (line.partition(":") for line in lines if line and not line.startswith("#"))
    return {name.strip(): shlex.split(command) for name, _, command in pairs}


def listens(commands: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Where processes listen, HOST:PORT by name: as they are told, or at the address of their kind."""
    out = {}
    for name, command in commands.items():
        words = list(command)
        if kind := kind_of(words[words[0] == "paceline" :]):
            out[name] = words[words.index("--listen") + 1] if "--listen" in words else default_listen(kind)
    return out


def taken(commands: Mapping[str, Sequence[str]]) -> list[str]:
    """The addresses among those that somebody else has, each with the name of who wants it."""
    out = []
    for name, listen in listens(commands).items():
        host, _, port = listen.rpartition(":")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, int(port)))
            except OSError:
                out.append(f"{listen} ({name})")
    return out


def _expanded(word: str, environment: Mapping[str, str]) -> str:
    for name, value in environment.items():
        word = word.replace(f"${name}", value)
    return word
