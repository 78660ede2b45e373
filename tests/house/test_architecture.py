"""The map of the code, and what says how to change it, name files that exist."""

import re

from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_every_file_of_the_newcomers_walk_exists() -> None:
    walk = PAGE.partition("## A newcomer's walk")[2].partition("\n## ")[0]
    rows = [re.findall(r"`([\w/]+\.py)`", line) for line in walk.splitlines() if line.startswith("| `")]
    assert len(rows) > 20
    for first, *others in rows:
        folder = (ROOT / first).parent
        assert (ROOT / first).is_file(), first
        for name in others:
            assert (ROOT / name).is_file() or (folder / name).is_file(), name


def test_every_folder_of_the_packages_exists() -> None:
    packages = PAGE.partition("## Packages")[2].partition("\n## ")[0]
    for line in packages.splitlines():
        if line.startswith("| `"):
            folder = re.findall(r"`([\w/]+)/`", line)[0]
            assert (ROOT / folder).is_dir(), folder


def test_every_path_that_contributing_names_exists() -> None:
    named = re.findall(r"`((?:\w+/)+(?:\w+\.(?:py|md))?)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []
