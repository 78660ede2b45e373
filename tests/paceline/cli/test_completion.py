"""Completion as a shell calls it: the function of the script, with the words before the cursor."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from paceline.cli.filter_types import States
from paceline.cli.main import cli
from tests.paceline.fake import FakeCell

BASH = """
compopt() { echo "compopt $*"; }
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_paceline_completion paceline
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A folder with the command `paceline` of this Python, and the script of bash."""
    command = tmp_path / "paceline"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m paceline "$@"\n')
    command.chmod(0o755)
    done = subprocess.run([str(command), "completion", "bash"], capture_output=True, text=True, check=True)
    (tmp_path / "bash").write_text(done.stdout)
    return tmp_path


def completed(scripts: Path, *words: str, **environment: str) -> list[str]:
    """The words that bash gets for the last word."""
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", BASH, "bash", str(scripts / "bash"), "paceline", *words],
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_a_shell_gets_names_from_the_server_and_files_where_files_stand(cell: FakeCell, scripts: Path):
    cell.answer("GET", "/v1/names", {"names": ["tiles-1", "tiles-2"]})
    cell.answer("GET", "/v1/secrets", {"secrets": [{"name": "db", "version": 1}, {"name": "web", "version": 2}]})
    assert completed(scripts, "job", "get", "ti") == ["tiles-1", "tiles-2"]
    assert cell.asked[-1].query == {"kind": "job", "prefix": "ti", "page_size": "100"}
    assert completed(scripts, "host", "get", "x") == ["tiles-1", "tiles-2"]
    assert cell.asked[-1].query["kind"] == "host"
    assert completed(scripts, "job", "list", "--pool", "/ma") == ["tiles-1", "tiles-2"]
    assert cell.asked[-1].query["kind"] == "pool"
    assert completed(scripts, "secret", "delete", "d") == ["db"]
    asked = len(cell.asked)
    assert completed(scripts, "job", "submit", "til") == ["compopt", "-o", "default"]
    assert completed(scripts, "pool", "apply", "a.yaml", "") == ["compopt", "-o", "default"]
    assert completed(scripts, "job", "sub") == ["submit"]
    assert len(cell.asked) == asked, "no cell is asked for files and commands"


def test_where_a_file_or_a_job_stands_names_come_first(cell: FakeCell, scripts: Path):
    cell.answer("GET", "/v1/names", {"names": ["web"]})
    cell.answer("GET", "/v1/names", {"names": []})
    assert completed(scripts, "job", "update", "w") == ["web"]
    assert completed(scripts, "job", "update", "./w") == ["compopt", "-o", "default"]


def test_a_shell_hears_nothing_of_troubles(scripts: Path):
    assert completed(scripts, "job", "get", "a", PACELINE_SERVER="127.0.0.1:1") == []
    assert completed(scripts, "job", "get", "a", PACELINE_SERVER="no address", PACELINE_TOKEN="\u00fc") == []


def test_states_are_completed_without_a_server_also_behind_a_comma():
    def items(kind: str, incomplete: str) -> list[str]:
        param = click.Option(["--state"])
        return [each.value for each in States(kind).shell_complete(click.Context(cli), param, incomplete)]

    assert items("job", "r") == ["RUNNING", "REJECTED"]
    assert items("task", "RUNNING,BA") == ["RUNNING,BACKOFF"]
    assert items("host", "SI") == ["SILENT"]
