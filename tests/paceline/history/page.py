"""Runs the commands of docs/replay.md and puts what they print below them.

    python -m tests.paceline.history.page

writes the page anew. A command may end with `| tail -n N` or `| grep -A N WORD`; one that ends with `&` is left running
for those after it. Exit codes other than 0 are shown as `[N]`. The folders `altered` and `forged` hold the log of
`outage` with one record that was changed.
"""

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

from msgspec.structs import replace

from events.codec import decode, encode
from events.log.memory import MemoryLog
from events.records.entitlement import GangsHeld
from events.records.pools import PoolDefined
from events.records.rounds import RoundCommitted
from paceline.cli.main import run
from tests.helpers import ROOT
from tests.helpers.forge import forge
from tests.helpers.past import changed, kept, written

PAGE = ROOT / "docs" / "replay.md"
LISTEN = "127.0.0.1:7117"
_SAID = re.compile(r", position (\S+:\d+):")
_BLOCK = re.compile(r"```console\n(.*?)```", re.S)


class Session:
    """Runs commands in a folder, as a reader would."""

    def __init__(self, folder: Path) -> None:
        (folder / "examples").symlink_to(ROOT / "examples")
        self._folder = folder
        self._env = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._left: list[subprocess.Popen[str]] = []
        self._address = LISTEN
        self._moved: dict[str, str] = {}
        """Positions that the page says were printed, and those that are: later commands name them."""

    def block(self, found: re.Match[str]) -> str:
        """A block of the page with what its commands print now."""
        lines = []
        for command in (line[2:] for line in found[1].splitlines() if line.startswith("$ ")):
            for old, new in self._moved.items():
                command = command.replace(old, new)
            lines.append(f"$ {command}\n{self.run(command)}")
        text = "".join(lines)
        self._moved |= dict(zip(_SAID.findall(found[1]), _SAID.findall(text), strict=False))
        return f"```console\n{text}```"

    def run(self, command: str) -> str:
        """What a command prints, on both streams."""
        line, _, pipe = command.partition(" | ")
        words = shlex.split(line.replace(LISTEN, self._address))
        if words[-1] == "&":
            return self._leave([sys.executable, "-m", *words[:-1], "--listen", "127.0.0.1:0"])
        for name, make in CHANGED.items():
            if name in words and not (self._folder / name).exists():
                written(make(kept(self._folder / "outage")), self._folder / name)
        said = io.StringIO()
        with chdir(self._folder), redirect_stdout(said), redirect_stderr(said):
            code = run(words[1:])
        lines = _piped(said.getvalue().replace(self._address, LISTEN).splitlines(), shlex.split(pipe))
        return "".join(f"{each}\n" for each in lines) + (f"[{code}]\n" if code else "")

    def close(self) -> None:
        """Ends what was left running."""
        for process in self._left:
            process.terminate()
            process.wait(20)

    def _leave(self, words: list[str]) -> str:
        process = subprocess.Popen(words, cwd=self._folder, env=self._env, stderr=subprocess.PIPE, text=True)
        self._left.append(process)
        assert process.stderr is not None
        said = process.stderr.readline()
        self._address = said.partition("http://")[2].partition(",")[0]
        return said.replace(self._address, LISTEN)


def _altered(log: MemoryLog) -> MemoryLog:
    """Somebody makes good, later, what was wrong."""
    records = list(log.scan("paceline.pools", 0))
    pool = decode(records[2].value)
    assert isinstance(pool, PoolDefined)
    right = replace(pool, limit={**pool.limit, "cpu": 40_000})
    records[2] = records[2]._replace(value=encode(right))
    return changed(log, "paceline.pools", records, len(records))


def _forged(log: MemoryLog) -> MemoryLog:
    """Somebody has entitlement name another reason, with all hashes that follow from it."""

    def other(round_: RoundCommitted) -> RoundCommitted:
        decisions = [decode(each) for each in round_.decisions]
        lies = [replace(each, code="NO_HOSTS") if isinstance(each, GangsHeld) else each for each in decisions]
        return replace(round_, decisions=tuple(map(encode, lies)))

    return forge(log, "entitlement", 16, other)


CHANGED: dict[str, Callable[[MemoryLog], MemoryLog]] = {"altered": _altered, "forged": _forged}


def _piped(lines: list[str], pipe: list[str]) -> list[str]:
    match pipe:
        case []:
            return lines
        case ["tail", "-n", count]:
            return lines[-int(count) :]
        case ["grep", "-A", count, word]:
            at = next(index for index, line in enumerate(lines) if word in line)
            return lines[at : at + int(count) + 1]
    raise AssertionError(f"the page pipes into {pipe}")


def rendered(folder: Path) -> str:
    """The page as it is now, with what its commands print now."""
    session = Session(folder)
    try:
        return _BLOCK.sub(session.block, PAGE.read_text())
    finally:
        session.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as observers:
        PAGE.write_text(rendered(Path(observers)))
