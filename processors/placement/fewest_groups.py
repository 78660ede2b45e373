"""The fewest groups of hosts that hold a gang, near each other in the tree of groups (decision 107).

Exact, in this order: the fewest groups; then the lowest part of the tree that holds the gang on so few; then, level by
level down, the fewest parts of the tree that do. Among equals the parts with least room come first, and the groups of
least room that suffices, so that large ones stay whole: best fit, as Slurm's `topology/tree` and Kueue's
topology-aware scheduling choose switches and domains.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from events.columns import I64

FEW = 64
"""Gangs on more groups have these from as few parts of a tree as the largest parts first take, not as few as there can
be.
"""


class Group(NamedTuple):
    """A group of a gang."""

    number: int
    size: int
    """So many of the gang are in it."""


class _Part(NamedTuple):
    """A part of a tree, by the number of one of its levels: its groups, and what the largest of them hold together."""

    number: int
    groups: I64
    sums: I64
    room: int


def fewest_groups(room: I64, above: Sequence[I64], size: int) -> list[Group] | None:
    """The groups of a gang of so many, those that it fills first; None: all groups together don't hold it. `room`: what
    each group holds; `above`: the number of the part of the tree in which each group is, level by level upwards. Of
    equal groups and parts that with the lower number comes first.
    """
    groups = np.flatnonzero(room)
    sums = np.cumsum(-np.sort(-room[groups]))
    count = int(np.searchsorted(sums, size)) + 1
    if count > len(sums):
        return None
    if count > 1 and above:
        groups = _near(room, groups, above, count, size)
    return _filled(room, groups, count, size)


def _near(room: I64, groups: I64, above: Sequence[I64], count: int, size: int) -> I64:
    """Groups of which so many hold the gang, in the lowest part of the tree where that is so, and there in the fewest
    parts below.
    """
    for at, level in enumerate(above):
        choices = []
        for part in _parts(room, groups, level, count):
            if part.sums[-1] >= size:
                below = _fewer(room, part.groups, above[:at], count, size)
                parts_below = len(np.unique(above[at - 1][below])) if at else 0
                choices.append((parts_below, part.room, part.number, below))
        if choices:
            return min(choices, key=lambda choice: choice[:3])[3]
    return _fewer(room, groups, above, count, size)


def _parts(room: I64, groups: I64, level: I64, count: int) -> Iterator[_Part]:
    """The parts of some groups on a level, by number, with what up to so many of the groups of each hold."""
    order = groups[np.lexsort((-room[groups], level[groups]))]
    for of_part in np.split(order, np.flatnonzero(np.diff(level[order])) + 1):
        sums = np.cumsum(room[of_part])
        yield _Part(int(level[of_part[0]]), of_part, sums[:count], int(sums[-1]))


def _fewer(room: I64, groups: I64, above: Sequence[I64], count: int, size: int) -> I64:
    """Groups of which so many hold the gang, from the highest level down in the fewest parts of the tree."""
    for level in reversed(above):
        parts = sorted(_parts(room, groups, level, count), key=lambda part: (-part.sums[-1], part.room, part.number))
        few = _fewest_parts(parts, count, size) if count <= FEW else _first_parts(room, parts, count, size)
        groups = np.concatenate([part.groups for part in few])
    return groups


def _fewest_parts(parts: list[_Part], count: int, size: int) -> list[_Part]:
    """The fewest parts of which so many groups hold the gang, by the most that so many groups of so many parts hold,
    part after part.
    """
    most = np.full((count + 1, count + 1), -1, dtype=np.int64)
    most[0, 0] = 0
    takes: list[I64] = []
    for part in parts:
        after, take = most.copy(), np.zeros_like(most)
        for groups, more in enumerate(part.sums.tolist(), 1):
            before = most[:-1, :-groups]
            better = (before >= 0) & (before + more > after[1:, groups:])
            after[1:, groups:][better] = before[better] + more
            take[1:, groups:][better] = groups
        takes.append(take)
        most = after
    parts_left, groups_left, few = int(np.argmax(most[:, count] >= size)), count, list[_Part]()
    for part, take in zip(reversed(parts), reversed(takes), strict=True):
        if of_part := int(take[parts_left, groups_left]):
            few.append(part)
            parts_left, groups_left = parts_left - 1, groups_left - of_part
    return few


def _first_parts(room: I64, parts: list[_Part], count: int, size: int) -> list[_Part]:
    """The first parts of which so many groups hold the gang."""

    def room_of(number: int) -> int:
        groups = np.concatenate([part.groups for part in parts[:number]])
        return int(np.sort(room[groups])[-count:].sum())

    return parts[: bisect_left(range(1, len(parts)), size, key=room_of) + 1]


def _filled(room: I64, groups: I64, count: int, size: int) -> list[Group]:
    """So many of some groups, the largest of them full: each is the least with which the others still hold the gang."""
    order = groups[np.lexsort((groups, -room[groups]))]
    choice: list[int] = order[:count].tolist()
    rest = order[count:][np.lexsort((order[count:], room[order[count:]]))].tolist()
    rooms: list[int] = room[rest].tolist()
    spare = int(room[choice].sum()) - size
    for at, group in enumerate(choice):
        least = bisect_left(rooms, int(room[group]) - spare)
        if least < len(rooms) and rooms[least] < room[group]:
            spare -= int(room[group]) - rooms.pop(least)
            choice[at] = rest.pop(least)
    choice.sort(key=lambda group: (-int(room[group]), group))
    sizes: list[int] = room[choice].tolist()
    sizes[-1] -= spare
    return [Group(*each) for each in zip(choice, sizes, strict=True)]
