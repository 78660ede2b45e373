"""Commands inside a run, by the program that is their parent."""

import asyncio
import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostagent.exec_targets import Command
from hostagent.messages import ExecLine
from paceline.client.exec_frames import (
    DATA_BYTES_MAX,
    HEAD,
    UNKNOWN_CODE,
    Frame,
    FrameFault,
    FrameReader,
    Kind,
    code_of,
    pack,
)
from tests.helpers.waiting import until

PROGRAM = Path(__file__).parents[2] / "hostagent/exec_session.py"


class Session:
    """A session with pipes, or with a terminal."""

    def __init__(self, *argv: str, terminal: bool = False, **more: Any) -> None:
        control, self.control = os.pipe()
        self.result, result = os.pipe()
        order = {
            "argv": argv,
            "env": {"PATH": "/usr/bin:/bin", "TERM": "dumb"},
            "cwd": "/",
            "user": None,
            "terminal": terminal,
            "groups": [],
            **more,
        }
        self.terminal, ends = pty.openpty() if terminal else (-1, subprocess.PIPE)
        out = ends if terminal else subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", PROGRAM, str(control), str(result)],
            pass_fds=(control, result),
            stdin=ends,
            stdout=out,
            stderr=subprocess.STDOUT if not terminal else ends,
        )
        for end in (control, result, *((ends,) if terminal else ())):
            os.close(end)
        os.write(self.control, json.dumps(order).encode() + b"\n")

    def said(self) -> list[dict[str, Any]]:
        """All that it tells, to its end."""
        with open(self.result) as file:
            return [json.loads(line) for line in file]

    def close(self) -> None:
        """The agent is gone."""
        os.close(self.control)


def alive(mark: str) -> list[str]:
    """Processes whose command line holds a mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if mark.encode() in words and b"exec_session" not in words:
            found.append(path.parent.name)
    return found


def test_output_and_exit_code_are_those_of_the_command() -> None:
    session = Session("sh", "-c", "cat; echo err >&2; exit 7")
    out, _ = session.process.communicate(b"typed\n")
    assert out == b"typed\nerr\n"
    assert session.said()[1:] == [{"code": 7}]
    session.close()


FORGER = """
import os
for number in range(3, 60):
    try:
        os.write(number, b'{"code": 9}\\n')
    except OSError:
        pass
"""


def test_a_command_can_not_speak_for_its_parent() -> None:
    session = Session(sys.executable, "-I", "-S", "-c", FORGER)
    assert session.said()[1:] == [{"code": 0}]
    session.close()


@pytest.mark.parametrize(
    ("said", "code"),
    [(b"0", 0), (b"255", 255), (b"256", 255), (b"-1", 255), (b"", 255), (b"9" * 5000, 255), (b"x", 255)],
)
def test_an_exit_code_that_is_none_is_not_known(said: bytes, code: int) -> None:
    assert code_of(said) == code


@pytest.mark.parametrize(
    "line", ["[]", '{"code": -1}', '{"code": 9223372036854775808}', "9" * 40_000, '{"code": "\\ud800"}', "\0"]
)
def test_what_the_parent_never_says_means_that_the_end_is_not_known(line: str, tmp_path: Path) -> None:
    async def waited() -> int:
        command = Command(ExecLine("0" * 32, "j", 0, 1, ("true",)), tmp_path)
        command._result, end = os.pipe()
        with open(end, "w") as file:
            file.write(f"{line}\n")
        return await command.wait(lambda *_: asyncio.sleep(0))

    assert asyncio.run(waited()) == UNKNOWN_CODE


def test_a_command_that_a_signal_ends_says_so() -> None:
    session = Session("sh", "-c", "kill -INT $$")
    assert session.said()[-1] == {"code": 130}
    session.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs commands as another user")
def test_a_command_of_another_user_gains_nothing_from_a_setuid_program() -> None:
    user = {"uid": 12345, "gid": 12345, "groups": []}
    session = Session("grep", "NoNewPrivs", "/proc/self/status", user=user)
    assert session.process.communicate()[0].split() == [b"NoNewPrivs:", b"1"]
    session.close()


def test_what_is_not_there_is_told() -> None:
    session = Session("pyhton3")
    assert session.said() == [{"fault": "pyhton3: No such file or directory"}]
    session.close()
    elsewhere = Session("true", cwd="/nowhere")
    assert elsewhere.said() == [{"fault": "true: No such file or directory"}]
    elsewhere.close()


def test_a_terminal_is_the_commands_own() -> None:
    session = Session("sh", "-c", "test -t 0 && stty size && read line && echo got $line", terminal=True)
    os.write(session.terminal, b"hello\n")
    text = b""
    while b"got hello" not in text:
        text += os.read(session.terminal, 4096)
    assert session.said()[-1] == {"code": 0}
    session.close()


def test_ctrl_c_reaches_what_runs_in_the_foreground() -> None:
    mark = f"{30_000 + os.getpid()}.{time.monotonic_ns() % 10**9}"
    session = Session("sleep", mark, terminal=True)
    until(lambda: alive(f"sleep\0{mark}"))
    os.write(session.terminal, b"\x03")
    assert session.said()[-1] == {"code": 130}
    session.close()


@pytest.mark.parametrize(
    "script", ["sleep {0}; exit 7", "setsid sleep {0} & sleep {0}", "trap '' TERM HUP; sleep {0}; :"]
)
def test_nothing_of_it_outlives_the_agent(script: str) -> None:
    mark = f"{10_000 + os.getpid()}.{time.monotonic_ns() % 10**9}"
    session = Session("sh", "-c", script.format(mark))
    until(lambda: alive(f"sleep\0{mark}"))
    session.close()
    session.process.wait(20)
    assert alive(mark) == []


def test_what_a_command_leaves_behind_ends_with_it() -> None:
    mark = f"{20_000 + os.getpid()}.{time.monotonic_ns() % 10**9}"
    session = Session("sh", "-c", f"setsid sleep {mark} >/dev/null 2>&1 & echo done")
    assert session.said()[-1] == {"code": 0}
    assert alive(mark) == []
    session.close()


@given(st.lists(st.tuples(st.sampled_from(Kind), st.binary(max_size=300))), st.integers(1, 50))
def test_frames_come_whole_however_they_are_cut(frames: list[tuple[Kind, bytes]], size: int) -> None:
    sent = b"".join(pack(*frame) for frame in frames)
    reader = FrameReader()
    got = [frame for at in range(0, len(sent), size) for frame in reader.feed(sent[at : at + size])]
    assert got == [Frame(*frame) for frame in frames]


def test_much_data_is_several_frames() -> None:
    data = bytes(range(256)) * 1000
    frames = list(FrameReader().feed(pack(Kind.DATA, data)))
    assert b"".join(frame.data for frame in frames) == data
    assert max(len(frame.data) for frame in frames) <= DATA_BYTES_MAX


def test_a_frame_that_claims_too_much_is_no_frame() -> None:
    with pytest.raises(FrameFault, match="at most 65536 are allowed"):
        list(FrameReader().feed(HEAD.pack(Kind.DATA, 1 << 30)))
