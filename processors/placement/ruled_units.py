"""Hosts for all tasks of a unit that look at their neighbours (decision 078): in one group after another where they
must be together, each task on its best host; where that doesn't come out and they ask different things, by a search.
"""

from collections.abc import Iterator, Sequence
from operator import itemgetter

import numpy as np

from events.columns import I64
from events.topology import LINK_GROUP
from processors.placement.fewest_groups import fewest_groups
from processors.placement.gang_search import ranked
from processors.placement.host_tree import Tree
from processors.placement.link_groups import SPARE, in_one, is_in_one, near
from processors.placement.neighbours import FREE, SPREAD, Chooser, Neighbours, Request, is_whole, one_by_one
from processors.placement.packing import fits, have_room, scores

LOOKS_MAX = 300
"""So often one search looks for hosts for a task."""
TASKS_MAX = 100
"""Units of more tasks aren't searched for."""
GROWTHS_MAX = 8
"""So often the groups of a unit of several shapes are made more that were to hold it and don't."""


def in_groups(
    neighbours: Neighbours, free: I64, score: I64, requests: Sequence[Request], chooser: Chooser | None = None
) -> list[I64] | None:
    """Hosts for all tasks of a unit, within one group where its rules say so; None: there are none, or none was found.
    They are put there.
    """
    for steps in _all_steps(neighbours, free, score, requests):
        by_part = _in_steps(neighbours, free, score, steps, chooser)
        if is_whole(neighbours, by_part, requests, chooser):
            return by_part
    if len(requests) == 1 or sum(each.size for each in requests) > TASKS_MAX:
        return None
    looks = LOOKS_MAX
    for each in _ways(neighbours, free, score, requests):
        search = _Search(neighbours, free, each, looks)
        if search.finds(0):
            return [np.array(hosts, dtype=np.int64) for hosts in search.by_part]
        looks = search.looks
    return None


Steps = Sequence[Sequence[Request]]
"""A unit in parts, each on hosts of its own."""


def _in_steps(neighbours: Neighbours, free: I64, score: I64, steps: Steps, chooser: Chooser | None) -> list[I64]:
    """Hosts for as many tasks as find one, until a step isn't whole."""
    by_part = [np.zeros(0, dtype=np.int64)] * len(steps[0])
    for step in steps:
        hosts = one_by_one(neighbours, free, score, step, chooser)
        by_part = [np.concatenate(both) for both in zip(by_part, hosts, strict=True)]
        if any(len(of_part) < each.size for of_part, each in zip(hosts, step, strict=True)):
            break
    return by_part


def _all_steps(neighbours: Neighbours, free: I64, score: I64, requests: Sequence[Request]) -> Iterator[Steps]:
    """The ways of a unit: where its tasks are to be near each other those on the fewest groups first, and then, where
    segments don't forbid it, as if they weren't.
    """
    ways, tree = _ways(neighbours, free, score, requests), requests[0].rules.tree
    if tree is None or sum(each.size for each in requests) == 1 or is_in_one(requests):
        yield from ([each] for each in ways)
        return
    all_ways = list(ways)
    near = [way for each in all_ways for way in _near(neighbours, free, each, tree)]
    yield from (steps for _, steps in sorted(near, key=itemgetter(0)))
    if not requests[0].rules.rules.segments:
        yield from ([each] for each in all_ways)


def _near(neighbours: Neighbours, free: I64, requests: Sequence[Request], tree: Tree) -> Iterator[tuple[int, Steps]]:
    """The ways of a unit on few groups, with the number of these. Of tasks that are alike on the fewest; of others on
    the fewest that might hold each part by itself, and then on more and more.
    """
    rules = requests[0].rules
    if rules.rules.nearness == LINK_GROUP and len(requests) == 1 and rules.devices is not None:
        fit_here = fit_of(neighbours, free, requests[0], requests[0].size + SPARE)
        if (choice := near(requests[0], fit_here, tree)) is not None:
            yield choice
        return
    fit = [fit_of(neighbours, free, each) for each in requests]
    room = [tree.room(each, request.rules.limit) for each, request in zip(fit, requests, strict=True)]
    first, total = requests[0], sum(each.size for each in requests)
    if len(requests) == 1:
        steps = tree.fewest(fit[0], room[0], total, rules.rules.segments or 1)
        if steps is not None:
            count = len({int(tree.groups[there.argmax()]) for there, _ in steps})
            yield count, [[first._replace(open_=first.open_ & there, size=size)] for there, size in steps]
        return
    shared = np.min([each * total // request.size for each, request in zip(room, requests, strict=True)], axis=0)
    size = total
    for _ in range(GROWTHS_MAX):
        groups = fewest_groups(shared, tree.parts_above(), size)
        if groups is None:
            return
        numbers = [each.number for each in groups]
        there = np.isin(tree.groups, numbers)
        yield len(groups), [[each._replace(open_=each.open_ & there) for each in requests]]
        size = max(size + size // 8, int(shared[numbers].sum()) + 1)


def fit_of(neighbours: Neighbours, free: I64, each: Request, most: int = 0) -> I64:
    """The number of tasks of a part that each host holds by itself, at most so many; 0: as the part has."""
    most = most or each.size
    fit = np.zeros(len(each.open_), dtype=np.int64)
    hosts = np.flatnonzero(each.open_)
    fit[hosts] = fits(free, tuple(each.need[:, 0].tolist()), hosts, 1 if each.ports else most)
    if each.rules.devices is not None and each.rules.board is not None:
        fit[hosts] = np.minimum(fit[hosts], each.rules.board.room(each.rules.devices, hosts, most))
    fit[~np.isin(each.rules.why(), (FREE, SPREAD))] = 0  # a skew may allow more once others are put
    if each.rules.rules.host_limit:
        np.minimum(fit, np.maximum(each.rules.rules.host_limit - neighbours.own, 0), out=fit)
    return fit


def _ways(neighbours: Neighbours, free: I64, score: I64, requests: Sequence[Request]) -> Iterator[Sequence[Request]]:
    """The unit in each group of hosts that may hold all of it, the one with the best host first."""
    groups = _groups(requests)
    if groups is None:
        yield requests
        return
    room, enough = np.zeros(len(groups), dtype=np.bool_), np.ones(len(groups), dtype=np.bool_)
    for each in requests:
        fit = fit_of(neighbours, free, each)
        room |= fit > 0
        of_group = np.zeros(int(groups.max(initial=0)) + 1, dtype=np.int64)
        np.add.at(of_group, groups, fit)
        enough &= of_group[groups] >= each.size
    best, first = np.flatnonzero(room), requests[0]
    key = -ranked(score, first.ranks(), True) if first.spread else ranked(score, first.ranks(), False)
    keys = key[best] if first.scoring is None else first.scoring.ordered(first.ranks(), free[:, best], best)
    order = best[np.argsort(keys, kind="stable")]
    if is_in_one(requests):
        yield from in_one(requests, order[enough[order]].tolist())
        return
    for group in dict.fromkeys(groups[order[enough[order]]].tolist()):
        there = groups == group
        yield [each._replace(open_=each.open_ & there) for each in requests]


def _groups(requests: Sequence[Request]) -> I64 | None:
    """The group of each host where all tasks must be in one: by `within`, or since they want to be beside the first of
    their own; None: they need not.
    """
    rules = requests[0].rules
    if sum(each.size for each in requests) == 1:
        return None
    together = [] if rules.within is None else [rules.within]
    if rules.tree is not None and rules.rules.segments and len(requests) > 1:
        together.append(rules.tree.groups)  # which member is of which segment isn't known here
    if all(each.rules.rules == rules.rules for each in requests):
        together += [term.groups for term in rules.terms if term.goes_anywhere]
    if not together:
        return None
    return together[0] if len(together) == 1 else np.unique(np.stack(together), axis=1, return_inverse=True)[1].ravel()


class _Search:
    """Task after task, the largest first, each on one host after another until all have one. Of hosts that are alike
    one is tried, and no state twice.
    """

    def __init__(self, neighbours: Neighbours, free: I64, requests: Sequence[Request], looks: int) -> None:
        self.looks = looks
        """So many are left; 0: it gave up."""
        self.by_part: list[list[int]] = [[] for _ in requests]
        self._neighbours, self._requests = neighbours, requests
        self._free = free.copy()
        self._score = scores(free, neighbours.weight)
        largest = sorted(range(len(requests)), key=lambda at: -requests[at].score)
        self._parts = [at for at in largest for _ in range(requests[at].size)]
        self._tried: set[tuple[tuple[int, ...], ...]] = set()
        self._same_port = [[not {*one.ports}.isdisjoint(other.ports) for other in requests] for one in requests]
        self._have_port = np.zeros((len(requests), len(self._score)), dtype=np.int64)
        """By part and host: so many tasks are put there that have a port which those of the part must have."""

    def finds(self, at: int) -> bool:
        """Whether all tasks from one on find a host; if not, nothing of them stays."""
        if at == len(self._parts):
            return True
        part = self._parts[at]
        for host in self._hosts(part):
            self._put(part, host, 1)
            state = tuple(tuple(sorted(hosts)) for hosts in self.by_part)
            if state not in self._tried:
                self._tried.add(state)
                if self.finds(at + 1):
                    return True
            self._put(part, host, -1)
            if self.looks <= 0:
                break
        return False

    def _hosts(self, part: int) -> list[int]:
        """The hosts for a task of a part, the best first, one of those that are alike."""
        if self.looks <= 0:
            return []
        self.looks -= 1
        each = self._requests[part]
        may = each.open_ & (self._have_port[part] == 0) & have_room(self._free, each.need) & (each.rules.why() == FREE)
        hosts = np.flatnonzero(may)
        if each.scoring is not None:
            key = each.scoring.ordered(each.ranks(), self._free[:, hosts], hosts)
        else:
            key = ranked(self._score, each.ranks(), each.spread)[hosts] * (-1 if each.spread else 1)
        hosts = hosts[np.argsort(key, kind="stable")]
        _, first = np.unique(self._seen(hosts), axis=1, return_index=True)
        best: list[int] = hosts[np.sort(first)].tolist()
        return best

    def _seen(self, hosts: I64) -> I64:
        """All that makes a difference between hosts, a column for each."""
        rows = [*self._free[:, hosts], self._neighbours.own[hosts], *self._have_port[:, hosts]]
        for each in self._requests:
            rows += [each.open_[hosts], *each.rules.seen(hosts)]
            if (ranks := each.ranks()) is not None:
                rows.append(ranks[hosts])
        return np.array(rows, dtype=np.int64)

    def _put(self, part: int, host: int, sign: int) -> None:
        """A task of a part is on a host, or (`sign` -1) isn't any more."""
        each = self._requests[part]
        self._neighbours.put(np.array([host]), each.rules.rules, sign, each.rules.devices)
        self._free[:, host] -= sign * each.need[:, 0]
        self._score[host] = scores(self._free[:, host : host + 1], self._neighbours.weight)[0]
        self._have_port[:, host] += sign * np.array(self._same_port[part], dtype=np.int64)
        if sign > 0:
            self.by_part[part].append(host)
        else:
            self.by_part[part].pop()
