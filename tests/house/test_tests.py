"""Tests are where one looks for them, and what they import is there."""

import ast
from importlib.util import find_spec
from pathlib import Path

from tests.helpers import ROOT

SPANNING = {
    "browser",
    "cost",
    "deploy",
    "foreign",
    "helpers",
    "hostile",
    "house",
    "pages",
    "processes",
    "scenarios",
    "storms",
    "upgrade",
}
"""Folders of `tests/` that are about more than one package."""
PARTS = {"processors/cases", "processors/cell", "processors/restored"}
"""Folders that are about several machines."""
FILES = sorted((ROOT / "tests").rglob("*.py"))


def strays(folder: Path) -> list[str]:
    """Folders of tests that no package has, and tests that stand in none."""
    found = [path.name for path in sorted(folder.glob("test_*.py"))]
    for path in sorted(path for path in folder.rglob("*") if path.is_dir() and path.name != "__pycache__"):
        part = path.relative_to(folder)
        known = part.parts[0] in SPANNING or str(part) in PARTS or (ROOT / part).is_dir()
        if not known and any(path.glob("test_*.py")):
            found.append(str(part))
    return found


def missing(source: str) -> list[str]:
    """Modules of the tests that are imported and aren't there."""
    modules = [
        node.module
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tests"
    ]
    return [name for name in modules if not _there(name)]


def _there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_tests_have_the_folders_of_the_packages(tmp_path: Path) -> None:
    assert strays(ROOT / "tests") == []
    for name in ("lifecycle/test_jobs.py", "processors/lifecycle/test_jobs.py", "test_alone.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert strays(tmp_path) == ["test_alone.py", "lifecycle"]


def test_what_tests_import_is_there() -> None:
    source = "from tests.house.nowhere import a\nfrom tests.no.where import b\nfrom tests.helpers import ROOT"
    assert missing(source) == ["tests.house.nowhere", "tests.no.where"]
    assert [(str(path), name) for path in FILES for name in missing(path.read_text())] == []
