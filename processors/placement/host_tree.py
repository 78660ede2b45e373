"""Hosts as a tree of groups: where the members of a gang are that are to be near each other (decision 107)."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from events.columns import I64
from events.natural_order import natural_key
from events.topology import HOST, LINK_GROUP
from processors.placement.fewest_groups import fewest_groups
from processors.placement.hosts import Hosts
from processors.placement.packing import Mask


class Tree(NamedTuple):
    """The groups of hosts of one level, one item for each host; groups are numbered in the order of their first hosts,
    so that the numbers of values, which depend on the past, decide nothing.
    """

    groups: I64
    above: tuple[I64, ...]
    """Those of the levels above, upwards."""
    below: tuple[I64, ...]
    """Those of the levels below, downwards; not hosts, which the strategy of a job chooses."""

    def room(self, fit: I64, limit: tuple[I64, I64] | None = None) -> I64:
        """The tasks that each group holds; `fit`: how many each host does; `limit`: other groups, and how many tasks
        each of those takes.
        """
        count = int(self.groups.max(initial=-1)) + 1
        if limit is None:
            return _sums(self.groups, fit, count)
        others, most = limit
        pairs, at, pair = np.unique(self.groups * len(most) + others, return_index=True, return_inverse=True)
        in_pairs = np.minimum(_sums(pair.ravel(), fit, len(pairs)), most[others[at]])
        return _sums(self.groups[at], in_pairs, count)

    def parts_above(self) -> list[I64]:
        """The parts of the levels above in which each group is, by its first host."""
        _, first = np.unique(self.groups, return_index=True)
        return [level[first] for level in self.above]

    def fewest(self, fit: I64, room: I64, size: int, segment: int) -> list[tuple[Mask, int]] | None:
        """The hosts on which a gang is nearest, so many tasks on each set of them: on the fewest groups, in each a
        multiple of a segment; None: there is no such choice.
        """
        groups = fewest_groups(room // segment, self.parts_above(), size // segment)
        if groups is None:
            return None
        places = ((self.groups == each.number, each.size * segment) for each in groups)
        return [step for there, size in places for step in _downwards(there, fit, self.below, size)]


def _downwards(there: Mask, fit: I64, below: Sequence[I64], size: int) -> Iterator[tuple[Mask, int]]:
    """So many tasks on some hosts, on the fewest groups of each level below."""
    if not below:
        yield there, size
        return
    level, fit = below[0], np.where(there, fit, 0)
    for each in fewest_groups(_sums(level, fit, int(level.max(initial=-1)) + 1), (), size) or ():
        yield from _downwards(there & (level == each.number), fit, below[1:], each.size)


def _sums(groups: I64, amounts: I64, count: int) -> I64:
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, groups, amounts)
    return sums


def tree_of(groups: Callable[[str], I64], topology: Sequence[str], level: str) -> Tree:
    """The groups of a level, in a cell with such a topology, which needn't have it. `groups`: those of a level by any
    number.
    """
    at = topology.index(level) if level in topology else 0
    above = [by_first_host(groups(each)) for each in reversed(topology[:at])]
    of_hosts = [each for each in topology[at + 1 :] if each not in (HOST, LINK_GROUP)]
    below = [by_first_host(groups(each)) for each in of_hosts] if level in topology else []
    return Tree(by_first_host(groups(level)), tuple(above), tuple(below))


def by_first_host(groups: I64) -> I64:
    """Groups of hosts, numbered in the order of the first host of each."""
    _, first, of_host = np.unique(groups, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), dtype=np.int64)
    numbers[np.argsort(first)] = np.arange(len(first))
    return numbers[of_host.ravel()]


def along_the_tree(hosts: Hosts, numbers: I64, levels: Sequence[str], whole: str = "") -> I64:
    """Hosts by their values of some levels, the highest first, then by name, numbers within these counting as such.
    `whole`: the level whose groups aren't divided, where their hosts differ in a level above.
    """
    keys: dict[int, tuple[str, ...]] = {}
    for number in np.unique(numbers).tolist():
        values = hosts.table[hosts.ids[number]].attributes
        path = (values.get(level, "") for level in levels if level not in (HOST, LINK_GROUP))
        keys[number] = (*map(natural_key, path), natural_key(hosts.ids[number]), hosts.ids[number])
    first: dict[str, tuple[str, ...]] = {}
    of_whole = {number: _value(hosts, number, whole) for number in keys}
    for number, key in keys.items():
        first[of_whole[number]] = min(key, first.get(of_whole[number], key))
    order = sorted(keys, key=lambda number: (first[of_whole[number]] if whole else (), keys[number]))
    rank = np.zeros(max(keys) + 1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    in_order: I64 = np.array(order, dtype=np.int64)[np.sort(rank[numbers])]
    return in_order


def _value(hosts: Hosts, number: int, level: str) -> str:
    host_id = hosts.ids[number]
    return host_id if level in (HOST, LINK_GROUP) else hosts.table[host_id].attributes.get(level, "")
