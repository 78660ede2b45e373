"""How the tests are run: what is said at the end, and what is heard in the background of a shell."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT

SLEEPS = "from tests.helpers.signals import heard; heard(); print('up', flush=True); import time; time.sleep(600)"
IGNORED = "trap '' INT QUIT; exec \"$@\""
FILE = """
import subprocess, sys

def test_that_works_elsewhere():
    subprocess.run([sys.executable, "-c", "sum(range(20_000_000))"], check=True)

def test_that_does_little():
    pass
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_a_signal_that_the_shell_ignores_is_heard_again(number: signal.Signals) -> None:
    words = ["sh", "-c", IGNORED, "sh", sys.executable, "-c", SLEEPS]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(number)
        assert process.wait(60) in (-number, 128 + number)


def test_the_dearest_tests_are_said_with_the_cpu_of_what_they_start(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(FILE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    words = [sys.executable, "-m", "pytest", "-p", "tests.helpers.costs", "--costs", "-n", "1", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    [works, little] = re.findall(r"^ +[\d.]+ +([\d.]+)  test_two.py::test_that_(?:works|does)", said, re.MULTILINE)
    assert float(works) > float(little)
