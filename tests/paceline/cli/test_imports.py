"""Commands import what they need: counted in modules, of which each has its time."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.paceline.fake import job

NEVER = (
    *("pydantic", "pydantic_settings", "httpx2", "httpcore2", "rich", "numpy", "fastavro", "asyncio"),
    *("authlib", "joserfc", "cryptography"),
)
PROGRAM = """
import os, sys
from paceline.cli.main import run
code = run(sys.argv[2:])
print(code, *(name for name in sys.argv[1].split(",") if name in sys.modules), len(sys.modules), file=sys.stderr)
"""


def imported(*words: str) -> tuple[list[str], str]:
    """The modules of `NEVER` that a command has imported, and what it said."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, ",".join(NEVER), *words], capture_output=True, text=True)
    code, *names, count = done.stderr.splitlines()[-1].split()
    assert (code, done.returncode) == ("0", 0), done.stderr
    assert int(count) < 320, "and not many others"
    return names, done.stdout


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("job", "--help"), ("job", "list", "--help")])
def test_what_is_said_without_a_cell_imports_no_library_but_click(words):
    assert imported(*words)[0] == []


def test_a_command_that_asks_one_thing_imports_no_library_but_click(cell, tmp_path: Path):
    cell.answer("GET", "/v1/jobs", {"jobs": [job("a")], "next_page_token": ""})
    cell.answer("GET", "/v1/hosts", {"hosts": [], "next_page_token": ""})
    cell.answer("GET", "/v1/pools", {"pools": [], "cells": [], "next_page_token": ""})
    cell.answer("GET", "/v1/jobs/a", job("a"))
    cell.answer("GET", "/v1/jobs/a/explanation", {"job_id": "a", "state": "RUNNING", "headline": None, "reasons": []})
    cell.answer("POST", "/v1/jobs/a/stops", {"code": "DONE", "message": "stopping"})
    file = tmp_path / "a.yaml"
    file.write_text("job_id: a\npool: /maps\ncommand: [ls]\n")
    cell.answer("POST", "/v1/jobs", job("a"))
    for words in (
        ("job", "submit", str(file)),
        ("job", "list"),
        ("job", "get", "a"),
        ("job", "explain", "a"),
        ("host", "list"),
        ("pool", "list"),
        ("pool", "tree"),
        ("job", "stop", "a", "--reason", "x"),
    ):
        assert imported(*words)[0] == [], words
