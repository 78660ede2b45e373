"""Tests and files that the pages name, as those that show a guarantee, exist."""

import ast
import re
from pathlib import Path

from tests.helpers import ROOT

PAGES = sorted({*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"})
FUNCTION = re.compile(r"`(test_\w+)`")
FILE = re.compile(r"`((?:tests/)?(?:\w+/)*test_\w+\.py|tests/(?:\w+/)*(?:\w+\.(?:py|yaml))?)`")


def functions() -> set[str]:
    """The names of all tests."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "tests").rglob("*.py"))
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def missing(text: str, tests: set[str]) -> list[str]:
    """Tests, and files of tests by path or by name, that a page names and that aren't there."""
    files = [name for name in FILE.findall(text) if not exists(name)]
    return files + [name for name in FUNCTION.findall(text) if name not in tests]


def exists(name: str) -> bool:
    """Whether a file of the tests is there; one without a path is looked for in all folders."""
    return (ROOT / name).exists() or ("tests/" not in name and any((ROOT / "tests").rglob(Path(name).name)))


def test_what_pages_name_of_the_tests_exists() -> None:
    tests = functions()
    assert missing("`test_nothing_of_that_name` `tests/house/test_nowhere.py` `test_tidy.py`", tests) == [
        "tests/house/test_nowhere.py",
        "test_nothing_of_that_name",
    ]
    assert {page.name: missing(page.read_text(), tests) for page in PAGES if missing(page.read_text(), tests)} == {}
