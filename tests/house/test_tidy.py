"""The habits of the house that a tool can check: sizes, words, purity."""

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.helpers import ROOT

PACKAGES = ("events", "schemas", "processors", "projections", "hostagent", "paceline")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if "records" not in path.parts)
FILE_LINES_MAX, FUNCTION_LINES_MAX = 600, 70
PURE = sorted(
    path
    for machine in ("lifecycle", "entitlement", "placement", "sla")
    for path in (ROOT / "processors" / machine).rglob("*.py")
)
BANNED_MODULES = {
    "asyncio", "confluent_kafka", "datetime", "faust", "logging", "mode", "os", "random", "rocksdict", "secrets",
    "socket", "sqlalchemy", "subprocess", "threading", "time", "uuid",
}  # fmt: skip
BANNED_CALLS = {"hash", "id", "open", "print", "input", "float"}


def impurities(source: str) -> list[str]:
    """What a machine may not do: clocks, random numbers, the world, floats, raising, codecs, iterating over sets."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "").split(".")[0]]
            codes = node.module == "events.codec" and {alias.name for alias in node.names} & {"encode", "decode"}
            found += ["encodes or decodes: the next build would do it otherwise"] if codes else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
            found.append(f"line {node.lineno}: {node.func.id}()")
        elif isinstance(node, ast.For | ast.comprehension) and _is_set(node.iter):
            found.append("iterates over a set")
        elif isinstance(node, ast.Constant) and isinstance(node.value, float):
            found.append(f"line {node.lineno}: a float")
        elif isinstance(node, ast.Raise):
            found.append(f"line {node.lineno}: raises")
        found += [f"imports {name}" for name in names if name in BANNED_MODULES]
    return found


def _is_set(node: ast.expr) -> bool:
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    return called or isinstance(node, ast.Set | ast.SetComp)


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(ROOT)))
def test_machines_are_pure(path: Path) -> None:
    assert impurities(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from events.codec import encode",
        "from random import random",
        "x = 0.5",
        "hash('a')",
        "for a in set(b): pass",
        "raise ValueError",
    ],
)
def test_the_purity_check_bites(source: str) -> None:
    assert impurities(source)


def test_an_impure_machine_would_break_the_import_rules(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *PACKAGES, "pyproject.toml"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    for name in files:
        if (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    target = copy / "processors" / "sla" / "machine.py"
    target.write_text("import random\nfrom events.log.kafka import connection\n" + target.read_text())
    lint = Path(__import__("sys").executable).parent / "lint-imports"
    result = subprocess.run(
        [lint, "--no-cache"], cwd=copy, capture_output=True, text=True, env={"PYTHONPATH": str(copy)}
    )
    assert result.returncode != 0
    assert "processors.sla.machine -> random" in result.stdout
    assert "processors.sla.machine -> events.log.kafka.connection" in result.stdout


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_are_small(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= FILE_LINES_MAX
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= FUNCTION_LINES_MAX, f"{node.name} has {lines} lines"


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in listed.splitlines()]


def test_no_unfinished_work_and_no_trace_of_a_machine() -> None:
    todo = re.compile("TO" + "DO|FIX" + "ME|XX" + "X")
    host = re.compile("index" + "-url|/wo" + "rk/")
    conflict = re.compile("^(<{7}|>{7}) ", re.MULTILINE)
    for path in tracked():
        if path.suffix in {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".avsc"} and path.exists():
            text = path.read_text()
            assert not host.search(text), path
            assert not conflict.search(text), path
            assert path.suffix != ".py" or not todo.search(text), path


@pytest.mark.xdist_group("house")
@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="all tests run in one process")
def test_groups_of_tests_stay_together(request: pytest.FixtureRequest) -> None:
    assert request.node.nodeid.endswith("@house")  # how pytest-xdist tells groups; some pytests take no notice


def test_commands_print_what_a_terminal_may_have() -> None:
    raw = [path.name for path in (ROOT / "paceline/cli/commands").glob("*.py") if "click.echo(" in path.read_text()]
    assert raw == ["completion.py"]
