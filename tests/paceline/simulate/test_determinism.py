"""The same scenario and seed give the same log, byte for byte, wherever it is kept and however Python hashes."""

import json
import os
import subprocess
import sys

import pytest

from paceline.cli.main import run
from tests.helpers import ROOT

FIRST = str(ROOT / "examples" / "scenarios" / "first.yaml")
KTH = str(ROOT / "bench" / "traces" / "kth_sp2_jobs.csv.gz")
TRACE = ("--trace", KTH, "--format", "swf", "--hosts", "100", "--jobs", "40")


def begun(words: tuple[str, ...], hashseed: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "paceline", "simulate", *words, "--json"]
    environment = {**os.environ, "PYTHONHASHSEED": hashseed}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)


@pytest.mark.parametrize("words", [(FIRST,), TRACE], ids=["scenario", "trace"])
def test_python_hashes_don_t_matter(words):
    both = [begun(words, "0"), begun(words, "4242")]
    first, second = (json.loads(each.communicate()[0]) for each in both)
    assert first.pop("wall_s")
    assert second.pop("wall_s")
    assert first == second
    assert first["rounds"] > 100


def test_a_log_that_is_kept_is_the_same_and_verifies(tmp_path, capsys):
    def told(*words: str) -> dict:
        assert run(["simulate", FIRST, "--json", *words]) == 0
        return json.loads(capsys.readouterr().out)

    data = tmp_path / "data"
    kept = told("--data", str(data))
    assert kept["hash"] == told()["hash"] != told("--seed", "2")["hash"]
    assert run(["log", "verify", "--data", str(data)]) == 0
    assert f"{kept['rounds']} rounds replayed" in capsys.readouterr().out
    assert run(["simulate", FIRST, "--data", str(data)]) == 1
    assert "isn't empty" in capsys.readouterr().err
