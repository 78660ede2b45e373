"""Hosts for a unit whose tasks ask several things, by a look at all hosts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from events.columns import I64, counted
from processors.placement.gang_search import choose, together
from processors.placement.packing import Mask, Weights, scores

if TYPE_CHECKING:
    from processors.placement.cluster_view import ShapeView


def places(
    free: I64,
    weight: Weights,
    parts: Sequence["tuple[ShapeView, int]"],
    level: I64 | None,
    score: I64,
    opens: Sequence[Mask] | None = None,
) -> list[I64] | None:
    """Hosts for all tasks of a unit, or None. Changes nothing. Where tasks of several shapes must have the same port,
    those that ask most go first, and the others elsewhere; other ways aren't looked for. `opens`: the hosts that each
    part may use, where others may not.
    """
    needs = [shape.part(size) for shape, size in parts]
    if opens is not None:
        needs = [part._replace(open_=open_) for part, open_ in zip(needs, opens, strict=True)]
    by_part = together(free, weight, needs, level, score).hosts
    if by_part is None or not _meet(parts, by_part):
        return by_part
    free, score, level = free.copy(), score.copy(), None if level is None else level.copy()
    by_part = [np.zeros(0, dtype=np.int64)] * len(parts)
    for at in sorted(range(len(parts)), key=lambda at: -parts[at][0].score):
        shape, size = parts[at]
        open_ = needs[at].open_.copy()
        for (other, _), hosts in zip(parts, by_part, strict=True):
            if not {*shape.fixed_ports}.isdisjoint(other.fixed_ports):
                open_[hosts] = False
        by_part[at] = choose(free, weight, score, shape.part(size)._replace(open_=open_), level)
        if len(by_part[at]) < size:
            return None
        hosts, counts = counted(by_part[at])
        free[:, hosts] -= shape.column * counts
        score[hosts] = scores(free[:, hosts], weight)
        if level is not None:
            level[hosts] += counts
    return by_part


def _meet(parts: Sequence["tuple[ShapeView, int]"], by_part: Sequence[I64]) -> bool:
    """Whether tasks would have the same fixed port on a host."""
    fixed = [
        (port, host)
        for (shape, _), hosts in zip(parts, by_part, strict=True)
        for port in shape.fixed_ports
        for host in hosts.tolist()
    ]
    return len(set(fixed)) < len(fixed)
