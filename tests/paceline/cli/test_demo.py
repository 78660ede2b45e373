"""The main job, as `make demo` runs it, on each log; and that it fails when something isn't as it should be."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from events.topics import ALL
from paceline.cli import demo
from tests.helpers import ROOT
from tests.helpers.broker import Broker

pytestmark = pytest.mark.xdist_group("demo")
"""One at a time: two cells on one machine would hand out the same port numbers."""
VERDICT = "rounds replayed: all identical, byte for byte"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "paceline", "demo", *words], cwd=ROOT, capture_output=True, text=True)


def check(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert lines[-1].endswith(VERDICT)
    assert int(lines[-1].split()[0]) > 10
    assert "  20 tasks have succeeded; one failed first and succeeded at its second run" in lines
    rows = [line.split() for line in lines]
    assert sum(len(row) == 6 and row[4:] == ["SUCCEEDED", "0"] for row in rows) == 20
    assert [row[1:3] for row in rows if len(row) == 6 and row[2] == "2" and row[0].startswith("tiles-")] == [["5", "2"]]
    assert sum(len(row) == 6 and row[4:] == ["RUNNING", "-"] and row[0].startswith("web-") for row in rows) == 2


def test_the_main_job_on_the_embedded_log():
    check(run())


def test_the_main_job_on_kafka(broker: Broker):
    broker.remove_topics([topic.name for topic in ALL])
    check(run("--kafka", broker.address))


def test_the_main_job_fails_where_a_task_fails_for_good(monkeypatch, tmp_path, capsys):
    examples = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", examples)
    tiles = examples / "jobs" / "tiles.yaml"
    tiles.write_text(tiles.read_text().replace("retries: {max: 2}", "retries: {max: 0}"))
    monkeypatch.setattr(demo, "EXAMPLES", examples)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert demo.run_demo() == 1
    said = capsys.readouterr().err
    assert "is FAILED" in said
    left = Path(said.strip().rpartition(" ")[2])
    assert (left / "data" / "log").is_dir()
    assert not (left / "data" / "cell.json").exists()
