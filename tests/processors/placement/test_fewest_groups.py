"""The groups of a gang are as few, and as near each other, as any choice of groups could make them."""

import random
from itertools import combinations

import numpy as np

from processors.placement.fewest_groups import FEW, fewest_groups
from tests.helpers.drawn import seeds


def measure(chosen: tuple[int, ...], above: list[list[int]]) -> tuple[int, ...]:
    """How far groups are from each other: how many there are, below which level they are together, in how many parts
    of the level below that.
    """
    parts = [len({level[group] for group in chosen}) for level in above]
    together = next((at for at, count in enumerate(parts) if count == 1), len(parts))
    return len(chosen), together, parts[together - 1] if together > 0 else 0


def best(room: list[int], above: list[list[int]], size: int) -> tuple[int, ...] | None:
    """The least measure of any groups that hold so many: a look at all sets."""
    sets = (chosen for count in range(1, len(room) + 1) for chosen in combinations(range(len(room)), count))
    holding = (chosen for chosen in sets if sum(room[group] for group in chosen) >= size)
    return min((measure(chosen, above) for chosen in holding), default=None)


def drawn(draw: random.Random) -> tuple[list[int], list[list[int]]]:
    """Groups in a tree of one or two levels above them."""
    groups = draw.randint(1, 9)
    rows = [draw.randint(0, 4) for _ in range(groups)]
    zones = [draw.randint(0, 1) for _ in range(5)]
    above = [rows, [zones[row] for row in rows]][: draw.randint(0, 2)]
    return [draw.randint(0, 9) for _ in range(groups)], above


@seeds(5_000, suite=300)
def test_no_other_groups_are_fewer_or_nearer(seed: int) -> None:
    draw = random.Random(seed)
    room, above = drawn(draw)
    size = draw.randint(1, max(1, sum(room)) + 1)
    groups = fewest_groups(np.array(room), [np.array(level) for level in above], size)
    wanted = best(room, above, size)
    if wanted is None:
        assert groups is None
        return
    assert groups is not None
    assert measure(tuple(each.number for each in groups), above) == wanted
    assert sum(each.size for each in groups) == size
    assert all(0 < each.size <= room[each.number] for each in groups)


def test_the_group_of_least_room_that_suffices_is_taken() -> None:
    assert fewest_groups(np.array([8, 4, 5]), [], 4) == [(1, 4)]
    assert fewest_groups(np.array([8, 7, 6, 5, 4]), [], 10) == [(2, 6), (4, 4)]


def test_of_parts_that_hold_the_gang_alike_the_one_with_least_room_is_taken() -> None:
    rows = np.array([0, 0, 0, 1, 1, 2])
    assert fewest_groups(np.array([4, 4, 4, 4, 4, 4]), [rows], 8) == [(3, 4), (4, 4)]


def test_fewer_groups_go_before_nearer_ones() -> None:
    rows = np.array([0, 0, 0, 1, 2])
    assert fewest_groups(np.array([4, 4, 4, 8, 4]), [rows], 12) == [(3, 8), (0, 4)]


def test_many_groups_are_from_the_largest_parts() -> None:
    room, rows = np.ones(4 * FEW, dtype=np.int64), np.arange(4 * FEW) // (2 * FEW)
    groups = fewest_groups(room, [rows], FEW + 1)
    assert groups is not None
    assert {int(rows[each.number]) for each in groups} == {0}
