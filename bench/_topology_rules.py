"""Twins of the rules by which others choose racks for a gang, as far as the room of racks goes.

A cluster is the free places of each rack, and the row and zone in which each is.
"""

from collections.abc import Callable, Sequence

import numpy as np

from events.columns import I64
from processors.placement.fewest_groups import Group, fewest_groups

Rule = Callable[[I64, Sequence[I64], int], list[Group]]
"""The racks of a gang of so many: by the room of each rack, its row and its zone."""


def near(room: I64, above: Sequence[I64], size: int) -> list[Group]:
    """`near: rack`."""
    groups = fewest_groups(room, above, size)
    assert groups is not None
    return groups


def slurm(room: I64, above: Sequence[I64], size: int) -> list[Group]:
    """Best fit on switches: the lowest switch with room, of several that with the least; of its leaves the tightest
    that suffices for the rest, else the largest (`src/plugins/topology/tree/eval_nodes_tree.c`, SchedMD/slurm).
    """
    everywhere = np.zeros_like(room)
    for level in (np.arange(len(room)), *above, everywhere):
        room_of = np.bincount(level, room).astype(np.int64)
        enough = np.flatnonzero(room_of >= size)
        if len(enough):
            leaves = np.flatnonzero(level == enough[np.argmin(room_of[enough])])
            return _tightest(room, leaves, size)
    raise AssertionError("the cluster has no room for it")


def _tightest(room: I64, leaves: I64, size: int) -> list[Group]:
    groups: list[Group] = []
    rest = {leaf: int(room[leaf]) for leaf in leaves.tolist() if room[leaf]}
    while size:
        enough = [leaf for leaf, have in rest.items() if have >= size]
        leaf = min(enough, key=rest.__getitem__) if enough else max(rest, key=rest.__getitem__)
        groups.append(Group(leaf, min(size, rest.pop(leaf))))
        size -= groups[-1].size
    return groups


def kueue(room: I64, above: Sequence[I64], size: int) -> list[Group]:
    """Topology-aware scheduling, `podset-preferred-topology: rack`, profile BestFit: one rack, row or zone that holds
    all, else zones; then level by level down the fewest domains below those, the largest first and of the last the
    tightest (`findTopologyAssignment` in `pkg/cache/tas_flavor_snapshot.go`, kubernetes-sigs/kueue).
    """
    levels = [np.arange(len(room)), *above]
    by_level = [np.bincount(level, room).astype(np.int64) for level in levels]
    at = next((at for at, room_of in enumerate(by_level) if room_of.max() >= size), len(levels) - 1)
    domains = np.arange(len(by_level[at]))
    while True:
        groups = _minimum(by_level[at], domains, size)
        if at == 0:
            return groups
        racks = np.flatnonzero(np.isin(levels[at], [each.number for each in groups]))
        at -= 1
        domains = np.unique(levels[at][racks])


def _minimum(room_of: I64, domains: I64, size: int) -> list[Group]:
    order = sorted(domains.tolist(), key=lambda domain: (-int(room_of[domain]), domain))
    groups: list[Group] = []
    for at, domain in enumerate(order):
        if room_of[domain] >= size:
            last = min((other for other in order[at:] if room_of[other] >= size), key=room_of.__getitem__)
            return [*groups, Group(last, size)]
        groups.append(Group(domain, int(room_of[domain])))
        size -= groups[-1].size
    raise AssertionError("the cluster has no room for it")


RULES: dict[str, Rule] = {"near": near, "slurm": slurm, "kueue": kueue}
