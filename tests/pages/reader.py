"""Somebody who follows a page: runs its commands and its Python, and sees what they print.

    python -m tests.pages.reader docs/http.md ...

writes into the pages what their examples print now. Blocks of `console` hold commands behind `$`, those of `pycon`
Python behind `>>>`. What differs from run to run (`VOLATILE`) stands as it was first written. Comments above a block
say what a reader does without a command: `<!-- until: PATTERN -->` repeats its first example until it prints such text,
`<!-- ends: NAME -->` ends the agent of a host, as a machine does that loses its power.
"""

import io
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from code import InteractiveInterpreter
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from hostagent.runs import stop_all
from paceline.cli.main import run
from tests.helpers import ROOT
from tests.helpers.forked import launched
from tests.helpers.ports import kept_address
from tests.helpers.waiting import PATIENCE_S

LISTEN = "127.0.0.1:7117"
CELL = "10.0.0.1:7117"
"""The address on pages with several machines, which are one here."""
HOME = "/home/anna"
AGAIN_S = 0.2
BLOCK = re.compile(r"((?:<!-- (?:until|ends): [^\n]* -->\n)*)```(console|pycon)\n(.*?)```", re.S)
VOLATILE = (
    (r"\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44}", "+KEY"),
    (r"(?m)^\u2014 (\S+) [A-Za-z0-9+/]{80,}=*$", "SIGNATURE"),
    (r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?)?", "TIME"),
    (r"\b\d\d:\d\d:\d\d(\.\d+)?Z?", "TIME"),
    (r"\b(\d+:\d+,)+\d+:\d+\b", "CURSOR"),
    (r"\b(\d+(\.\d+)?(ms|s|m|h|d))+\b", "SPAN"),
    (r"\b\d+(\.\d+)? (ms|s|seconds?|minutes?)\b", "SPAN"),
    (r"\b[0-9a-f]{8,}\b", "HEX"),
    (r"(127\.0\.0\.1:|localhost:)\d+", "ADDRESS"),
    (r"\b((?:paceline\.)?(?:jobs|pools|hosts|tasks|lifecycle|entitlement|placement|sla)):\d+", r"\1:N"),
    (r"\b(lifecycle|entitlement|placement|sla) +\d+", r"\1 N"),
    (r"\b\d+ rounds", "N rounds"),
    (r"\b(round|epoch|offset|position|session|pid)(\W{0,3}) ?\d+", r"\1\2 N"),
    (r"Python/[\d.]+|curl/[\d.]+", "AGENT"),
    (r"-{4,}", "-"),
    (r"[ \t]+", " "),
)


class Example(NamedTuple):
    """What is entered, as it stands on the page with its prompts, and what the page shows below it."""

    entered: str
    shown: str


def examples(kind: str, block: str) -> list[Example]:
    """The examples of a block; lines of input go on to the end of a here-document, or behind `> ` and `... `."""
    prompt, more = ("$ ", "> ") if kind == "console" else (">>> ", "...")
    found: list[Example] = []
    entered, shown, end = "", "", ""
    for line in block.splitlines(keepends=True):
        if end or (entered and not shown and line.startswith(more)):
            entered += line
            end = "" if line.strip() == end else end
        elif line.startswith(prompt):
            found += [Example(entered, shown)] if entered else []
            entered, shown = line, ""
            document = re.search(r"<<-? ?'?(\w+)'?", line) if kind == "console" else None
            end = document[1] if document else ""
        else:
            shown += line
    return [*found, Example(entered, shown)]


def same(shown: str, said: str) -> bool:
    """Whether two outputs differ in nothing but what differs from run to run."""
    return _fixed(shown) == _fixed(said)


def _fixed(text: str) -> list[str]:
    for pattern, word in VOLATILE:
        text = re.sub(pattern, word, text)
    return [line.strip() for line in text.splitlines()]


class Reader:
    """A reader in a folder of their own. Cells and agents that they start are ended by `close`."""

    def __init__(self, folder: Path, resources: str = '{"cpu": 4, "memory": "8GiB", "disk": "100GiB"}') -> None:
        self.folder = folder
        (folder / "home").mkdir()
        (folder / "examples").symlink_to(ROOT / "examples")
        self._address = kept_address()
        self._listen = LISTEN
        """The address of the cell, and what the page takes it for."""
        self._variables = {
            "HOME": str(folder / "home"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PACELINE_UP__LISTEN": self._address,
            "PACELINE_AGENT__HOST_ID": "host-1",
            "PACELINE_AGENT__RESOURCES": resources,
            "PACELINE_ACTOR": "anna",
            "NO_COLOR": "1",
            "COLUMNS": "160",
            "TZ": "UTC",
        }
        self._left: dict[str, Any] = {}
        """Processes that were started, by their names."""
        self._folders: dict[str, Path] = {}
        """Folders of agents, by the names of their hosts."""
        self._names: dict[str, Any] = {}
        self._python = InteractiveInterpreter(self._names)
        self._code = 0

    @property
    def environment(self) -> dict[str, str]:
        """The reader's environment; nothing of whoever runs the tests is in it that Paceline reads."""
        return {name: value for name, value in os.environ.items() if not name.startswith("PACELINE")} | self._variables

    def page(self, text: str) -> str:
        """The page with what its examples print now, where that is not what it shows."""
        self._listen = CELL if CELL in text else LISTEN
        with patch.dict(os.environ, self.environment, clear=True), chdir(self.folder):
            return BLOCK.sub(self._block, text)

    def _block(self, block: re.Match[str]) -> str:
        notes = dict(re.findall(r"<!-- (until|ends): (.*) -->", block[1]))
        if name := notes.get("ends"):
            self.end(name)
        awaited = notes.get("until", "")
        lines = []
        for entered, shown in examples(block[2], block[3]):
            said = self.enter(block[2], entered)
            end = time.monotonic() + PATIENCE_S
            while not re.search(awaited, said, re.S) and time.monotonic() < end:
                time.sleep(AGAIN_S)
                said = self.enter(block[2], entered)
            awaited = ""
            lines += [entered, shown if same(shown, said) else said]
        return f"{block[1]}```{block[2]}\n{''.join(lines)}```"

    def enter(self, kind: str, entered: str) -> str:
        """What an example prints, the addresses and folders in it as the page has them."""
        entered = entered.replace(self._listen, self._address)
        said = self._console(entered[2:]) if kind == "console" else self._pycon(entered)
        said = said.replace(self._address, self._listen).replace(str(self.folder / "home"), HOME)
        return said if not said or said.endswith("\n") else f"{said}\n"

    def _console(self, command: str) -> str:
        command = re.sub(r"\\\n> ", "", command)
        if command.startswith("echo $?"):
            return f"{self._code}\n"
        line, _, pipe = command.partition(" | ")
        if not line.startswith("paceline ") or "<<" in line:
            return self._shell(command, "")
        words = [os.path.expanduser(word) for word in shlex.split(line)]
        if words[-1] == "&":
            return self._start(words[1 : words.index("2>&1")])
        said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        notes = io.StringIO() if words[-2:-1] == ["2>"] else said
        with redirect_stdout(said), redirect_stderr(notes), self._ending(words[1]):
            self._code = run(words[1:] if notes is said else words[1:-2])
        text = said.buffer.getvalue().decode()
        return self._shell(pipe, text) if pipe else text

    def _shell(self, command: str, given: str) -> str:
        command = re.sub(r"^scp -p (\S+) [\d.]+:(\S+)", r"cp -p \1 ~/\2", command)  # all machines are this one
        if command.startswith("export "):
            name = command[7:].partition("=")[0]
            value = self._shell(f'{command.removeprefix("export ")}printf %s "${name}"', "")
            self._variables[name] = os.environ[name] = value
            return ""
        done = subprocess.run(
            ["bash", "-c", command],
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            cwd=self.folder,
            timeout=PATIENCE_S,
        )
        self._code = done.returncode
        return done.stdout

    def _start(self, words: list[str]) -> str:
        """Starts a cell or an agent, which says what it says in a file; what needs it waits for it, as on the page."""
        at = words.index(">")
        path = self.folder / words[at + 1]
        words = words[:at]
        if "--run-as" in words:  # tests run as anybody
            del words[(user := words.index("--run-as")) : user + 2]
        options = dict(pairwise(words))
        name = options.get("--host-id", words[0])
        if words[0] == "agent":
            words += ["--listen", "127.0.0.1:0"]
            self._folders[name] = Path(options["--folder"])
        with path.open("wb") as out:
            self._left[name] = launched(words, out, self.environment)
        return ""

    @contextmanager
    def _ending(self, command: str) -> Iterator[None]:
        """`down` waits until the process of the cell is gone, which it is once its parent has looked."""
        if command != "down":
            yield
            return
        gone = threading.Thread(target=self._left.pop("up").wait, args=(PATIENCE_S,))
        gone.start()
        yield
        gone.join()

    def _pycon(self, entered: str) -> str:
        source = "".join(line[4:] or "\n" for line in entered.splitlines(keepends=True))
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            incomplete = self._python.runsource(f"{source}\n", symbol="single")
        assert not incomplete, source
        text = said.getvalue()
        return text if "Traceback" not in text else f"Traceback (most recent call last):\n{text.splitlines()[-1]}\n"

    def end(self, name: str) -> None:
        """Ends a process as a power failure does, with what it has started."""
        process = self._left.pop(name)
        process.kill()
        process.wait(20)
        stop_all(self._folders[name], 20.0)

    def close(self) -> None:
        """Ends what was started, and the runs of its hosts."""
        for process in self._left.values():
            process.send_signal(signal.SIGTERM)
        for process in self._left.values():
            process.wait(30)
        for folder in (self.folder / "home" / ".paceline-agent", *self._folders.values()):
            stop_all(folder, 20.0)


def followed(page: str, folder: Path, **more: Any) -> str:
    """A page, by its path, as its examples would have it now."""
    reader = Reader(folder, **more)
    try:
        return reader.page((ROOT / page).read_text())
    finally:
        reader.close()


def differences(page: str, folder: Path) -> Mapping[str, str]:
    """The examples that a page shows otherwise than they come out, with what comes out."""
    now, shown = BLOCK.findall(followed(page, folder)), BLOCK.findall((ROOT / page).read_text())
    both = [
        (old, new)
        for (_, kind, before), (_, _, after) in zip(shown, now, strict=True)
        for old, new in zip(examples(kind, before), examples(kind, after), strict=True)
    ]
    return {old.entered: new.shown for old, new in both if old.shown != new.shown}


def main() -> None:
    """Writes the pages anew that are named."""
    for page in sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="paceline-page-") as folder:
            (ROOT / page).write_text(followed(page, Path(folder)))


if __name__ == "__main__":
    main()
