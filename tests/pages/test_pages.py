"""Pages show what their examples print. Each page has a cell of its own, where it starts one."""

from pathlib import Path

import pytest

from paceline.client.client import Client
from tests.helpers import ROOT
from tests.pages.reader import BLOCK, differences, examples, same

PAGES = (
    "README.md",
    "docs/walk-user.md",
    "docs/walk-operator.md",
    "docs/first-cluster.md",
    "docs/http.md",
    "docs/python.md",
    "docs/access.md",
    "docs/sla.md",
    "docs/maintenance.md",
    "docs/gpus.md",
    "docs/hosts.md",
    "docs/witness.md",
)


@pytest.mark.outside
@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_its_examples_print(page: str, tmp_path: Path) -> None:
    assert differences(page, tmp_path) == {}, f"write it anew: python -m tests.pages.reader {page}"


def test_every_method_of_the_client_has_its_example() -> None:
    blocks = BLOCK.findall((ROOT / "docs/python.md").read_text())
    shown = " ".join(block for _, kind, block in blocks if kind == "pycon")
    methods = [name for kind in Client.__mro__[:-1] for name, member in vars(kind).items() if callable(member)]
    missing = {name for name in methods if not name.startswith("_") and f"client.{name}" not in shown}
    assert missing == set()


def test_the_list_of_pages_has_each_page() -> None:
    text = (ROOT / "docs" / "README.md").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {page for page in pages if f"]({page})" not in text} == set()


def test_examples_are_read_with_their_documents_and_outputs() -> None:
    block = "$ cat > a <<'END'\n$ no command\nEND\n$ ls | \\\n> head\na\n"
    assert examples("console", block) == [
        ("$ cat > a <<'END'\n$ no command\nEND\n", ""),
        ("$ ls | \\\n> head\n", "a\n"),
    ]
    python = ">>> for each in range(2):\n...     print(each)\n...\n0\n1\n>>> 1\n1\n"
    assert [each.shown for each in examples("pycon", python)] == ["0\n1\n", "1\n"]


def test_what_differs_from_run_to_run_is_held_fixed_and_nothing_else() -> None:
    assert same("web  RUNNING  3s ago\n", "web   RUNNING 1m12s ago\n")
    assert same("at 2026-11-27T00:59:38Z, jobs:12\n", "at 2027-01-01T10:00:00.123Z, jobs:5\n")
    assert not same("web  RUNNING  3s ago\n", "web  PENDING  3s ago\n")
    assert not same("4 cpu\n", "5 cpu\n")
