"""Bugs that are planted in how gangs are near each other are found by the checker."""

import re
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from events.columns import I64
from processors.placement import assignment, host_tree, link_groups, ruled_units
from processors.placement.devices.board import DeviceBoard
from processors.placement.neighbours import Request, Rules
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

CARDS = """
end: 2m
cell: {topology: [rack, host, link_group]}
hosts:
  - {name: g, count: 2, resources: {cpu: 64}, attributes: {rack: a}, devices: {gpu: {count: 8, link_groups: 2}}}
pools: [{path: /p}]
jobs:
  - {job_id: pair, pool: /p, instances: 2, gang: {min: 2}, within: link_group, resources: {gpu: 1}, sim: {duration: 9h}}
  - {job_id: gang, at: 30s, pool: /p, RULES, resources: {gpu: 1}, sim: {duration: 9h}}
"""
"""One link group of four has two cards that are free, the others four."""
HALVES = """
end: 2m
cell: {topology: [rack, host, link_group]}
hosts:
  - {name: a, count: 3, resources: {cpu: 70}, attributes: {rack: a}, devices: {gpu: {count: 4}}}
  - {name: b, count: 1, resources: {cpu: 3}, attributes: {rack: b}, devices: {gpu: {count: 1}}}
  - {name: c, count: 1, resources: {cpu: 8}, attributes: {rack: c}, devices: {gpu: {count: 2}}}
pools: [{path: /p}]
jobs:
  - {job_id: parts, pool: /p, instances: 12, resources: {cpu: 16, gpu: 700m}, sim: {duration: 9h}}
  - {job_id: gang, at: 30s, pool: /p, RULES, resources: {cpu: 1, gpu: 500m}, sim: {duration: 9h}}
"""
"""By amounts rack a has room for six halves of a card, on its cards for none."""


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


def link_groups_hold_parts_of_segments(patch: pytest.MonkeyPatch) -> None:
    """Segments are divided among link groups."""

    def divided(request: Request, fit: I64, tree: host_tree.Tree) -> Any:
        rules = copy(request.rules)
        rules.rules = replace(rules.rules, segments=0)
        return link_groups.near(request._replace(rules=rules), fit, tree)

    patch.setattr(ruled_units, "near", divided)


def a_segment_in_a_link_group(patch: pytest.MonkeyPatch) -> None:
    """Link groups take one segment at most."""
    fewest = link_groups.fewest_groups
    patch.setattr(link_groups, "fewest_groups", lambda room, *args: fewest(np.minimum(room, 1), *args))


def whole_gangs_take_any_card(patch: pytest.MonkeyPatch) -> None:
    """The rule that a gang is within one link group is forgotten."""
    patch.setattr(ruled_units, "is_in_one", lambda requests: False)


def cards_backwards(patch: pytest.MonkeyPatch) -> None:
    """Ranks on a host begin with its last link group."""
    names = DeviceBoard.names_of
    patch.setattr(DeviceBoard, "names_of", lambda *args: names(*args)[::-1])


def backwards(patch: pytest.MonkeyPatch) -> None:
    """Ranks go along the tree from its end."""
    in_order = host_tree.along_the_tree
    patch.setattr(assignment, "along_the_tree", lambda *args: in_order(*args)[::-1])


BUGS = {
    nowhere_near: (CELL, "instances: 6, gang: {min: 6}, near: rack", "1 would do"),
    segments_of_one: (CELL, "instances: 8, gang: {min: 8}, near: rack, segments: 4", "are in several of rack"),
    rack_of_none: (CELL, "instances: 6, gang: {min: 6}, within: rack", "tasks 0 to 5 are in several of rack"),
    backwards: (CELL, "instances: 8, gang: {min: 8}, near: row", "don't follow"),
    link_groups_hold_parts_of_segments: (
        *(CARDS, "instances: 9, gang: {min: 9}, near: link_group, segments: 3"),
        "are in several of link_group",
    ),
    whole_gangs_take_any_card: (
        *(CARDS, "instances: 4, gang: {min: 4}, within: link_group"),
        "tasks 0 to 3 are in several of link_group",
    ),
    cards_backwards: (CARDS, "instances: 6, gang: {min: 6}, near: link_group", "behind one of a later group"),
    a_segment_in_a_link_group: (
        *(CARDS, "instances: 6, gang: {min: 6}, near: link_group, segments: 2"),
        "of link_group, and 2 would do",
    ),
}
NOT_NEAR = {
    "cards": (CARDS, "instances: 4, gang: {min: 4}, near: link_group", "of link_group, and 1 would do"),
    "halves": (HALVES, "instances: 4, gang: {min: 4}, near: rack", "of rack, and 1 would do"),
}
"""What is said of each cell in which nothing is near anything."""
APART = (HALVES, "instances: 6, gang: {min: 6}, near: rack")
"""No rack has room for all of it."""
CELLS = [*(each[:2] for each in (*BUGS.values(), *NOT_NEAR.values())), APART]


@pytest.mark.parametrize(("cell", "rules"), CELLS, ids=range(len(CELLS)))
def test_all_holds_without_a_bug(cell: str, rules: str, tmp_path: Path) -> None:
    assert said(cell.replace("RULES", rules), tmp_path) == ""


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    cell, rules, says = BUGS[plant]
    assert re.search(says, said(cell.replace("RULES", rules), tmp_path))


@pytest.mark.parametrize("name", NOT_NEAR)
def test_few_groups_are_counted_by_cards(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell, rules, says = NOT_NEAR[name]
    nowhere_near(monkeypatch)
    assert re.search(says, said(cell.replace("RULES", rules), tmp_path))
