"""Bugs that are planted in how gangs are near each other are found by the checker."""

import re
from pathlib import Path
from typing import Any

import pytest

from processors.placement import assignment, host_tree, ruled_units
from processors.placement.neighbours import Rules
from tests.paceline.simulate.test_sharing_bugs import said

CELL = """
end: 2m
cell: {topology: [row, rack]}
hosts:
  - {name: a1, count: 2, resources: {cpu: 3}, attributes: {row: a, rack: a1}}
  - {name: a2, count: 2, resources: {cpu: 2}, attributes: {row: a, rack: a2}}
  - {name: b1, count: 1, resources: {cpu: 3}, attributes: {row: b, rack: b1}}
pools: [{path: /p}]
jobs:
  - {job_id: gang, at: 30s, pool: /p, RULES, resources: {cpu: 1}, sim: {duration: 9h}}
"""


def nowhere_near(patch: pytest.MonkeyPatch) -> None:
    """The tasks of a gang go where they would go by themselves."""
    patch.setattr(ruled_units, "_near", lambda *_: iter(()))


def segments_of_one(patch: pytest.MonkeyPatch) -> None:
    """Segments are divided."""

    fewest = host_tree.Tree.fewest
    patch.setattr(host_tree.Tree, "fewest", lambda *args: fewest(*args[:-1], 1))


def rack_of_none(patch: pytest.MonkeyPatch) -> None:
    """The rule that a gang is within one group is forgotten."""
    made = Rules.__init__

    def forgets(self: Rules, *args: Any) -> None:
        made(self, *args)
        self.within = None

    patch.setattr(Rules, "__init__", forgets)


def backwards(patch: pytest.MonkeyPatch) -> None:
    """Ranks go along the tree from its end."""
    in_order = host_tree.along_the_tree
    patch.setattr(assignment, "along_the_tree", lambda *args: in_order(*args)[::-1])


BUGS = {
    nowhere_near: ("instances: 6, gang: {min: 6}, near: rack", "1 would do"),
    segments_of_one: ("instances: 8, gang: {min: 8}, near: rack, segments: 4", "are in several of rack"),
    rack_of_none: ("instances: 6, gang: {min: 6}, within: rack", "tasks 0 to 5 are in several of rack"),
    backwards: ("instances: 8, gang: {min: 8}, near: row", "don't follow"),
}


@pytest.mark.parametrize("rules", [rules for rules, _ in BUGS.values()])
def test_all_holds_without_a_bug(rules: str, tmp_path: Path) -> None:
    assert said(CELL.replace("RULES", rules), tmp_path) == ""


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    rules, says = BUGS[plant]
    assert re.search(says, said(CELL.replace("RULES", rules), tmp_path))
