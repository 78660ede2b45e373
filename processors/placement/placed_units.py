"""Hosts for a unit whose tasks ask several things, by a look at all hosts."""

from collections.abc import Sequence

import numpy as np

from events.columns import I64, counted
from processors.placement.gang_search import Part, choose, together
from processors.placement.packing import Weights, scores

Ports = Sequence[tuple[int, ...]]
"""The fixed ports of the tasks of each part."""


def places(
    free: I64, weight: Weights, parts: Sequence[Part], ports: Ports, level: I64 | None, score: I64
) -> list[I64] | None:
    """Hosts for all tasks of a unit, or None. Changes nothing. Where tasks of several shapes must have the same port,
    those that ask most go first, and the others elsewhere; other ways aren't looked for.
    """
    by_part = together(free, weight, parts, level, score).hosts
    if by_part is None or not _meet(ports, by_part):
        return by_part
    free, score, level = free.copy(), score.copy(), None if level is None else level.copy()
    by_part = [np.zeros(0, dtype=np.int64)] * len(parts)
    for at in sorted(range(len(parts)), key=lambda at: -parts[at].score):
        part = parts[at]
        open_ = part.open_.copy()
        for others, hosts in zip(ports, by_part, strict=True):
            if not {*ports[at]}.isdisjoint(others):
                open_[hosts] = False
        by_part[at] = choose(free, weight, score, part._replace(open_=open_), level)
        if len(by_part[at]) < part.size:
            return None
        hosts, counts = counted(by_part[at])
        free[:, hosts] -= np.array(part.need, dtype=np.int64)[:, None] * counts
        score[hosts] = scores(free[:, hosts], weight)
        if level is not None:
            level[hosts] += counts
    return by_part


def _meet(ports: Ports, by_part: Sequence[I64]) -> bool:
    """Whether tasks would have the same fixed port on a host."""
    fixed = [
        (port, host)
        for numbers, hosts in zip(ports, by_part, strict=True)
        for port in numbers
        for host in hosts.tolist()
    ]
    return len(set(fixed)) < len(fixed)
