"""Whatever is given to a command, what it says is a sentence with a documented exit code, and no bug."""

import io
import re
import sys
import threading
from collections.abc import Iterator
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from time import monotonic

import click
import pytest

from paceline.cli import main, silent_names
from paceline.cli.commands import common
from paceline.client import plain_http
from paceline.client.client import Client
from paceline.client.errors import Unreachable
from tests.helpers.drawn import ALL
from tests.helpers.drawn import drawn as drawn_part
from tests.helpers.stranger import STRANGE, Stranger, dripping, of_json, stranger
from tests.paceline.fake import FakeCell, job

CODES = {int(code) for code in re.findall(r"^  (\d+) ", main.EPILOG, re.M)}
LASTING = ("up", "agent", "processor", "projector", "api", "gateway", "fanout")
"""Commands that go on until they are ended: asked for their settings alone."""
PART = 7
"""The suite draws one in so many values."""
NOT_ASKED = {("demo",), ("ui",), ("log", "archive"), ("log", "verify"), ("log", "bisect"), ("admin", "rebuild")}
"""Commands that start something, or take seconds whatever they are given."""
OUTSIDE = {"help", "address", "url", "snapshots"}
"""Options that name a broker or a store, which is waited for."""
VALUES = (
    "", "a/b", "../..", "..", "/", "//", "ä", "💥", "\x01", "\t\n", "\udc80", "x" * 5000, "-", "--", "-1", "0", "1",
    "nan", "1e400", str(2**31), str(2**63), "[", "{}", "%s", "=", "a=b", "a:b:c", "a,b", ",", "10s", "99999999d", "9-0",
    "0-99999999999", "0001-01-01", "9999-12-31T23:59:59", "0/paceline.lifecycle:57", "/dev/null", "/nonexistent/x",
)  # fmt: skip
SERVERS = (
    "http://", ":0", "host:99999", "[::1", "[::1]:1", "unix:/x", "https://127.0.0.1:1", "http://a b", "x" * 300, "..",
    "a..b", "127.0.0.1:1/x?y#z", "http://u:p@127.0.0.1:1", "\udc80", "ä",
)  # fmt: skip
PLAIN = {"path": "/a", "text": "job a is RUNNING", "settings": "slack=on", "ports": "1:1", "source": "a:/x"}


def commands(
    group: click.Command = main.cli, name: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(group, click.Group):
        yield name, group
        return
    context = click.Context(group)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None
        yield from commands(command, (*name, each))


def asks(command: click.Command) -> bool:
    """Whether it asks a cell."""
    return any(each.name == "server" for each in command.params)


ASKED = [(name, command) for name, command in commands() if name not in NOT_ASKED and name[-1] != "watch"]
WAYS = [
    (at, alive) for at, (_, command) in enumerate(ASKED) for alive in ((False, True) if asks(command) else (False,))
]
"""Each command, and whether there is a cell."""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Files that can be none of those that are asked for; the last one can."""
    contents = {
        "deep.yaml": b"a: " + b"[" * 500 + b"]" * 500,
        "deep.json": b"[" * 3000,
        "binary.yaml": bytes(range(256)),
        "empty.yaml": b"",
        "numbers.json": b'{"job_id": "\\ud800", "command": ["\\ud800"], "instances": 1e400, "priority": %d}' % 10**400,
        "knot.yaml": b"&a [*a]",
        "keys.yaml": b"? [a, b]\n: 1\n2026-01-01: x\nnull: x\n",
        "job.yaml": b"job_id: a\npool: /a\ncommand: [x]\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return [str(tmp_path), *(str(tmp_path / name) for name in contents)]


def lines(name: tuple[str, ...], command: click.Command, files: list[str], drawn: int) -> Iterator[list[str]]:
    """Command lines with one odd value each. The suite draws a part of the values, another one for each command."""
    required = [each for each in command.params if each.required]
    for param in command.params:
        if param.name in OUTSIDE or (isinstance(param, click.Option) and param.is_flag):
            continue
        values = SERVERS if param.name == "server" else (*VALUES, *files)
        for value in values if ALL else values[drawn % PART :: PART]:
            words = list(name)
            for each in (*required, *(() if param in required else (param,))):
                given = value if each is param else plain(each, files[-1])
                words += [given] if isinstance(each, click.Argument) else [f"{each.opts[0]}={given}"]
            yield [
                *words,
                *(["--show-config"] if name[0] in LASTING else ["--no-follow"] if name[1:] == ("tail",) else []),
            ]


def plain(param: click.Parameter, file: str) -> str:
    if isinstance(param.type, click.Choice):
        return str(param.type.choices[0])
    if isinstance(param.type, click.types.IntParamType):
        return "1"
    return file if param.name in ("files", "file", "scenario", "targets") else PLAIN.get(param.name or "", "a")


def called(words: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The exit code, and what is printed to streams as a shell gives them."""
    out, err = io.BytesIO(), io.BytesIO()
    with monkeypatch.context() as streams:
        streams.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: [\n")))
        streams.setattr(sys, "stdout", io.TextIOWrapper(out, "utf-8", write_through=True))
        streams.setattr(sys, "stderr", io.TextIOWrapper(err, "utf-8", "backslashreplace", write_through=True))
        code = main.run(words)
        return code, out.getvalue().decode() + err.getvalue().decode()


@drawn_part
@pytest.mark.parametrize(("drawn", "alive"), WAYS, ids=[f"{' '.join(ASKED[at][0])} {alive}" for at, alive in WAYS])
def test_no_value_is_taken_for_a_bug(
    drawn: int,
    alive: bool,
    cell: FakeCell,
    files: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, command = ASKED[drawn]
    if not alive:
        monkeypatch.setenv("PACELINE_SERVER", "127.0.0.1:1")
    monkeypatch.chdir(Path(files[0]))
    cell.answer("GET", "/v1/jobs", {"jobs": [job()], "next_page_token": ""})
    for words in lines(name, command, files, drawn):
        code, told = called(words, monkeypatch)
        assert code in CODES, (words, told[-500:])
        assert "should not happen" not in told, (words, told[-500:])
        assert "Traceback" not in told, words


@pytest.fixture(scope="module")
def somebody() -> Iterator[Stranger]:
    with stranger() as there:
        yield there


ASKING = [at for at, (_, command) in enumerate(ASKED) if asks(command)]


@drawn_part
@pytest.mark.parametrize("drawn", ASKING, ids=[" ".join(ASKED[at][0]) for at in ASKING])
def test_who_is_no_cell_is_taken_for_no_bug(
    drawn: int,
    somebody: Stranger,
    files: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    name, command = ASKED[drawn]
    monkeypatch.setenv("PACELINE_SERVER", somebody.address)
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    words = [*name, *(plain(each, files[-1]) if isinstance(each, click.Argument) else
             f"{each.opts[0]}={plain(each, files[-1])}" for each in command.params if each.required)]  # fmt: skip
    for kind in list(STRANGE) if ALL else list(STRANGE)[drawn % PART :: PART]:
        somebody.says = lambda raw=STRANGE[kind]: iter([raw])  # type: ignore[misc]
        code, told = called(words, monkeypatch)
        assert code in CODES, (words, kind, told[-500:])
        assert "should not happen" not in told, (words, kind, told[-500:])
        assert "Traceback" not in told, (words, kind)
        assert "was cut" not in told, (words, kind, told)


OTHERWISE = ("long", "no http", "turning", "stream")
"""Answers of which something else is said, or that are a page of a list."""


@pytest.mark.parametrize("kind", [each for each in STRANGE if each not in OTHERWISE])
def test_of_who_is_no_cell_that_is_said(kind: str, somebody: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    somebody.says = lambda: iter([STRANGE[kind]])
    code, told = called(["job", "list", f"--server={somebody.address}"], monkeypatch)
    assert (code, told.count("\n")) == (6, 1), told
    assert told.startswith(f"paceline: Who listens at {somebody.address} is no cell of Paceline (it answered "), told


def test_an_answer_that_drips_or_has_no_end_is_left(somebody: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    for head, drop in ((b"Content-Length: 100000\r\n\r\n", b" "), (b"", b"X: a\r\n")):
        somebody.says = partial(dripping, b"HTTP/1.1 200 OK\r\n" + head, drop, ended)
        began = monotonic()
        with Client(somebody.address, "t", timeout=0.3) as client, pytest.raises(Unreachable, match="timed out"):
            client.cell()
        assert monotonic() - began < 5
    monkeypatch.setattr(plain_http, "ANSWER_BYTES_MAX", 4 << 20)
    piece = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    somebody.says = lambda: chain([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"], repeat(piece))
    with Client(somebody.address, "t") as client:
        with pytest.raises(Unreachable, match="its answer is longer than 4 MiB"):
            client.cell()
        somebody.says = lambda: iter([STRANGE["long"]])
        with pytest.raises(Unreachable, match="its answer is longer than 4 MiB"):
            client.cell()
        somebody.says = lambda: iter([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"])
        with pytest.raises(Unreachable, match="98 more expected"):
            client.cell()
    ended.set()


def test_a_shell_gets_only_words_and_doesn_t_wait(somebody: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    context = click.Context(main.cli)
    context.params = {"server": somebody.address}
    complete_jobs = common.complete("job")
    odd = ["a$(touch b)", "`b`", "d e", "f\ng", "a,b", "\ud800", "ok-1", "/maps/x"]
    somebody.says = lambda: iter([of_json({"names": odd})])
    assert complete_jobs(context, click.Argument(["x"]), "") == ["ok-1", "/maps/x"]
    for raw in STRANGE.values():
        somebody.says = lambda raw=raw: iter([raw])  # type: ignore[misc]
        assert complete_jobs(context, click.Argument(["x"]), "") == []
    ended = threading.Event()
    monkeypatch.setattr(common, "COMPLETION_S", 100.0)
    monkeypatch.setattr(silent_names, "WHOLE_S", 0.1)
    somebody.says = partial(dripping, b"HTTP/1.1 200 OK\r\n", b"X: a\r\n", ended)
    assert complete_jobs(context, click.Argument(["x"]), "") == []
    ended.set()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("job list --state FOO", "FOO is no state of a job; there are SUBMITTED, PENDING"),
        ("job tasks a --state RUNING", "did you mean RUNNING?"),
        ("job stop --state running,RUNING", "did you mean RUNNING?"),
        ("job watch --state RUNING", "did you mean RUNNING?"),
        ("host list --state SILNT", "did you mean SILENT?"),
        ("job list --label app", "write KEY:VALUE"),
        ("job stop --label app", "write KEY:VALUE"),
        ("cell set foo=3 --server 127.0.0.1:1", "foo is no setting of a cell"),
        ("cell set preemtion_delay=3s --server 127.0.0.1:1", "did you mean preemption_delay?"),
    ],
)
def test_a_wrong_value_of_an_option_is_told_as_one(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(words.split()) == 2
    assert said in capsys.readouterr().err
