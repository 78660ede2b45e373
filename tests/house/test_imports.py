"""No module imports itself in a circle, whatever hides the import."""

from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

PACKAGES = ("schemas", "events", "processors", "projections", "hostagent", "paceline")


def circle(graph: grimp.ImportGraph) -> list[str]:
    """Modules that import one another in a circle; empty: there is none. Imports inside functions and under
    TYPE_CHECKING count: grimp reads all import statements.
    """
    imports = {module: sorted(graph.find_modules_directly_imported_by(module)) for module in sorted(graph.modules)}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        modules: list[str] = error.args[1]
        return modules
    return []


def test_no_modules_import_one_another_in_a_circle() -> None:
    assert circle(grimp.build_graph(*PACKAGES, cache_dir=None)) == []


@pytest.mark.parametrize(
    "hidden",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.first import A\n",
        "def later():\n    from house.first import A\n",
    ],
)
def test_a_hidden_import_closes_a_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    package = tmp_path / "house"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "first.py").write_text("from house import second\nclass A: ...\n")
    (package / "second.py").write_text(hidden)
    monkeypatch.syspath_prepend(tmp_path)
    assert set(circle(grimp.build_graph("house", cache_dir=None))) == {"house.first", "house.second"}
