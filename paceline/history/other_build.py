"""The Paceline of another interpreter, asked for what it decides."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from tempfile import TemporaryFile
from threading import Timer
from types import TracebackType
from typing import Any

import msgspec

from events.log.port import Log
from paceline.client.errors import InvalidValue, PacelineError, Unreachable
from paceline.history.build_protocol import MODULE, Failed, Finished, Hello, Message
from paceline.moments.order import LogAddress
from paceline.services.settings import Settings

FIRST_RELEASE = "0.4.0"
ASK_S = 60
VERSION_CODE = "from events import VERSION; print(VERSION)"
NO_PACELINE = re.compile(r"No module named '?paceline'?\s*[)\n]")


class WorkerEnded(PacelineError):
    """The process that decides ended in the middle of its work."""


class Worker:
    """A process that answers an order. `words`: how it is started; `environment`: None for that of this process."""

    def __init__(self, words: list[str], order: Any, environment: dict[str, str] | None = None) -> None:
        self._words = words
        self._is_given_up = False
        self._errors = TemporaryFile()  # noqa: SIM115 - closed with this
        pipe = subprocess.PIPE
        try:  # Ctrl-C is for this process, whose end it sees by its standard input
            self.process = subprocess.Popen(
                words, stdin=pipe, stdout=pipe, stderr=self._errors, env=environment, start_new_session=True
            )
        except OSError as error:
            self._errors.close()
            raise InvalidValue(f"{words[0]} can't be started: {error.strerror}. Name a Python interpreter.") from error
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # why is said where its answer is missed
            self.process.stdin.write(msgspec.json.encode(order) + b"\n")
            self.process.stdin.flush()  # it stays open: its end tells that this process is gone

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def messages(self, kind: Any = Message, first: type = Hello, last: type | None = Finished) -> Iterator[Any]:
        """Yields its messages to its end, of a union of types, the first of one of them, the last of another (None: of
        any). Raises `InvalidValue` where it isn't what it should be or is silent, `Unreachable` where the log can't be
        reached, `WorkerEnded` where it ends early.
        """
        assert self.process.stdout is not None
        began, is_done = False, last is None
        silent = Timer(ASK_S, self._give_up)
        silent.start()
        try:
            for line in self.process.stdout:
                try:
                    message = msgspec.json.decode(line, type=kind)
                except msgspec.DecodeError:
                    continue  # what a newer build says besides, or prints
                if isinstance(message, first):
                    began = True
                    silent.cancel()
                if isinstance(message, Failed):
                    error = {2: InvalidValue, Unreachable.exit_code: Unreachable}.get(message.exit_code, PacelineError)
                    raise error(message.text)
                is_done = is_done or (last is not None and isinstance(message, last))
                yield message
        finally:
            silent.cancel()
        code = self.process.wait()
        if self._is_given_up:
            raise InvalidValue(
                f"{self._words[0]} hasn't answered within {ASK_S} s. Name the Python interpreter of a Paceline; what "
                "starts it must hand on standard input and output."
            )
        if not began and code >= 0:
            raise InvalidValue(self._why_silent())
        if code or not is_done:
            early = "" if code else " before it had decided all"
            raise WorkerEnded(
                f"The process that decides, {self._words[0]}, ended with {code}{early}. {self._last_line()}".rstrip()
            )

    def close(self) -> None:
        """Ends it."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def _give_up(self) -> None:
        """Ends it and what it has started, which would hold its output open."""
        self._is_given_up = True
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _stderr(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def _last_line(self) -> str:
        return next((line for line in reversed(self._stderr().splitlines()) if line.strip()), "")[:300]

    def _why_silent(self) -> str:
        python, output = self._words[0], self._stderr()
        if "nknown option" in output:
            return f"{python} is no Python of version 3.11 or later, which Paceline needs."
        if NO_PACELINE.search(output):
            return f"There is no Paceline in {python}. Install the release there: {python} -m pip install paceline"
        if f"No module named {self._words[-1]}" in output or "No module named 'paceline." in output:
            version = _version(python)
            return (
                f"Paceline {version} of {python} is too old to be asked what it decides: builds can be from "
                f"{FIRST_RELEASE} on. What it decided stands in the log: to compare a newer build with that, name the "
                f"newer one, such as --build {sys.executable}"
            )
        return f"{python} doesn't answer as Paceline does. {self._last_line()}".rstrip()


def ask_build(python: str, order: Any, module: str = MODULE) -> Worker:
    """Lets a module of the Paceline of an interpreter carry out an order. Raises `InvalidValue`."""
    return Worker([python, "-P", "-m", module], order, _environment())


def address_of(settings: Settings, log: Log) -> LogAddress:
    """Where the worker finds the log that this process has opened."""
    names = ("kafka", "kafka_options", "schema_registry_url", "archive")
    return LogAddress(str(settings.data), log.cell, **{name: getattr(settings, name) for name in names})


def _environment() -> dict[str, str]:
    """That of this process without what would lead another interpreter to the modules of this one."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def _version(python: str) -> str:
    try:
        words = [python, "-P", "-c", VERSION_CODE]
        done = subprocess.run(words, env=_environment(), capture_output=True, text=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "of an unknown version"
    return done.stdout.strip() or "of an unknown version"
