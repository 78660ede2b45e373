"""The parts of a unit as those see them who make room for it."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from events.columns import I64
from processors.placement.cluster_view import ClusterView, ShapeView
from processors.placement.gang_search import Part
from processors.placement.neighbours import FREE
from processors.placement.packing import fits
from processors.placement.room.kept import OwnRoom


def planned(view: ClusterView, shape: ShapeView, size: int, own: OwnRoom | None) -> Part:
    """So many tasks of a shape for which others may be preempted: also where runs have its fixed ports, or want their
    hosts for themselves. `own`: the room that is kept for them.
    """
    part = shape.part(size)
    if shape.fixed_ports:
        open_ = shape.meets & view.unclaimed(shape.fixed_ports)
        if own is not None:
            open_ |= shape.open_to(view, own)
        part = part._replace(open_=open_, ports=shape.fixed_ports)
    if shape.shut_off is not None and view.claimants is not None:
        shut_off = shape.shut_off & ~view.arrive_alone & view.claimants.where() & view.unclaimed(shape.fixed_ports)
        part = part._replace(open_=part.open_ | shut_off, obstacles=view.claimants)
    return part


def ruled(
    view: ClusterView, job_id: str, parts: Sequence[tuple[ShapeView, int]], planned: Sequence[Part], clears: bool
) -> list[Part] | None:
    """Parts of a unit for which others leave (`clears`) or hosts are reserved, where its rules allow one task more,
    or would if those left who are in the way; None: it goes by no rules. Several tasks may only share a group and a
    limit for each host, and nothing else that depends on where the others are: for more than that there is no plan.
    """
    neighbours = view.neighbours_of(job_id) if parts[0][0].host is None else None
    if neighbours is None:
        return None
    limited: list[Part] = []
    for (shape, _), part in zip(parts, planned, strict=True):
        rules = neighbours.of(shape.rules, shape.unmet, shape.column)
        if clears:
            allowed, obstacles = rules.clearable()
            part = part._replace(obstacles=obstacles.beside(part.obstacles) if obstacles else part.obstacles)
        else:
            allowed = rules.why() == FREE
        open_, most = part.open_ & allowed, part.most
        if sum(size for _, size in parts) > 1:
            limit = rules.rules.host_limit
            open_ &= (neighbours.own == 0) & (rules.limits_alone and (len(parts) == 1 or not limit))
            part, most = part._replace(within=rules.within), min(most, limit or most)
        limited.append(part._replace(open_=open_, most=most, keeps=neighbours.wanted(rules.rules)))
    return limited


def by_group(parts: Sequence[Part], free: I64, leaves: Callable[[], I64]) -> Iterator[Sequence[Part]]:
    """Yields a unit that must be within one group of hosts once for each that could hold it if all left who may, the
    one with room for most tasks now first; another unit as it is. `free`, and what `leaves` then: [kinds + 1, hosts].
    """
    groups = parts[0].within
    if groups is None:
        yield parts
        return
    count, room = int(groups.max(initial=0)) + 1, free + leaves()
    enough, now = np.ones(count, dtype=np.bool_), np.zeros(count, dtype=np.int64)
    for part in parts:
        hosts, most = np.flatnonzero(part.open_), min(part.size, part.most)
        of = groups[hosts]
        enough &= np.bincount(of, fits(room, part.need, hosts, most), count) >= part.size
        now += np.bincount(of, fits(free, part.need, hosts, most), count).astype(np.int64)
    for group in sorted(np.flatnonzero(enough).tolist(), key=lambda group: (-now[group], group)):
        yield [part._replace(open_=part.open_ & (groups == group)) for part in parts]
