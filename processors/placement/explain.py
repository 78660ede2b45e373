"""Why tasks find no place: one code per shape and size of gang, hosts counted by reason, the nearest misses.

All of it is judged on what is left at the end of a decision, so that asking again without a change says the same.
Codes of `LASTING` don't depend on what runs now: only a change of hosts can help.
"""

import numpy as np
from numpy.typing import NDArray

from events.bounds import KINDS_MAX
from events.codes import Code
from events.columns import I64, counted
from events.records.parts import NearMiss
from events.records.placement import GangsUnplaced
from processors.placement.cluster_view import ClusterView, ShapeView
from processors.placement.hosts import Phase
from processors.placement.packing import fits

LASTING = (Code.NO_HOSTS, Code.CONSTRAINT_MISMATCH, Code.NEVER_FITS)
PHASE_NAMES = {Phase.RETURNING: "returning", Phase.SILENT: "silent", Phase.LOST: "lost"}
NEAREST = 3
LACK_MAX = 1 << 57
"""Bounds what a lack adds to the distance of a miss, so that the sum over `KINDS_MAX` stays within 64 bits."""

OPEN = KINDS_MAX + 1
"""Reasons in the column: below it the index of a kind, or of ports behind them, from it on phases, from CONSTRAINT on
conditions.
"""
CONSTRAINT = OPEN + len(Phase)


def code(view: ClusterView, shape: ShapeView, size: int) -> Code:
    """The code for `size` tasks that belong together (1: a task alone) and found no place."""
    hosts = view.hosts
    counting = np.flatnonzero(hosts.counts)
    if not len(counting):
        return Code.NO_HOSTS
    fit = fits(hosts.capacity, shape.need, counting, size)
    matching = shape.unmet[counting] < 0
    if not matching.any():
        return Code.CONSTRAINT_MISMATCH if int(fit.sum()) >= size else Code.NEVER_FITS
    if int(fit[matching].sum()) < size:
        return Code.NEVER_FITS
    return Code.GANG_INCOMPLETE if view.room(shape, size) else Code.NO_HOST_FITS


def explanation(view: ClusterView, shape: ShapeView, size: int, code: Code) -> GangsUnplaced:
    """Why tasks of a shape find no place; of which job they are, whoever asks for it says."""
    hosts = view.hosts
    free = hosts.capacity if code in LASTING else view.free
    left = free - shape.column * fits(free, shape.need, np.arange(len(hosts.ids)), size)
    reason = _reasons(view, shape, code, left)
    values, counts = counted(reason[hosts.present > 0])
    by_reason = zip((_name(view, shape, value) for value in values.tolist()), counts.tolist(), strict=True)
    total: dict[str, int] = {}
    for name, count in by_reason:
        total[name] = total.get(name, 0) + count
    return GangsUnplaced(
        job_id="",
        code=code,
        tasks=0,
        instance=0,
        run=0,
        need=hosts.kinds.amounts(shape.need[:-1]),
        ports=shape.need[-1],
        hosts_considered=int(hosts.present.sum()),
        hosts_by_reason=total,
        nearest=_nearest(view, shape, left, np.flatnonzero(reason < OPEN)),
    )


def _reasons(view: ClusterView, shape: ShapeView, code: Code, left: I64) -> NDArray[np.int64]:
    """The first reason of each host; `left` is what is left when as many tasks as possible were put there."""
    hosts = view.hosts
    phase = hosts.phase
    if code in LASTING:  # silence passes: what a silent host offers is judged like any other
        gone = np.where(phase == Phase.LOST, Phase.LOST, Phase.RETURNING)
        phase = np.where(hosts.counts, Phase.UP, gone)
    short = np.full(len(hosts.ids), OPEN, dtype=np.int64)
    for at in reversed(range(len(shape.need))):
        if shape.need[at]:
            short[left[at] < shape.need[at]] = at
    unmet = shape.unmet >= 0
    if code == Code.NEVER_FITS:
        unmet &= short == OPEN
    reason = np.where(unmet, CONSTRAINT + shape.unmet.astype(np.int64), short)
    return np.where(phase == Phase.UP, reason, OPEN + phase)


def _name(view: ClusterView, shape: ShapeView, reason: int) -> str:
    if reason < OPEN:
        return (*view.hosts.kinds.names, "ports")[reason]
    if reason < CONSTRAINT:
        return PHASE_NAMES[Phase(reason - OPEN)]
    return f"constraint:{shape.constraints[reason - CONSTRAINT].attribute}"


def _nearest(view: ClusterView, shape: ShapeView, left: I64, among: I64) -> tuple[NearMiss, ...]:
    """The hosts that lack least for one task, each kind by its share of the largest host."""
    lacks = np.maximum(shape.column[:-1] - left[:-1, among], 0)
    distance = np.zeros(len(among), dtype=np.int64)
    for row, weight in zip(lacks, view.weight, strict=True):
        distance += np.minimum(row, LACK_MAX // weight) * weight
    first = np.argsort(distance, kind="stable")[:NEAREST]
    return tuple(
        NearMiss(host_id=view.hosts.ids[host], lacks=view.hosts.kinds.amounts(lack))
        for host, lack in zip(among[first].tolist(), lacks[:, first].T.tolist(), strict=True)
    )
