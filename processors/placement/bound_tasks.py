"""Tasks that may run on one host alone: whether they find room there, and why not."""

import numpy as np

from events.codes import Code
from events.columns import I64, distinct
from events.reasons import LASTING
from events.records.placement import GangsUnplaced
from processors.placement.cluster_view import ClusterView, ShapeView
from processors.placement.explain import hosts_reasons, nearest, unplaced
from processors.placement.hosts import Phase
from processors.placement.packing import Mask, fits


def placed(view: ClusterView, shape: ShapeView, hosts: I64) -> Mask:
    """True for tasks that find room on their hosts (one for each, -1: removed), those before others first; nothing is
    put there.
    """
    numbers = np.where(hosts >= 0, hosts, 0)
    order = np.argsort(hosts, kind="stable")
    starts = np.flatnonzero(np.diff(hosts[order], prepend=-2))
    turn = np.empty(len(hosts), dtype=np.int64)
    turn[order] = np.arange(len(hosts)) - np.repeat(starts, np.diff(np.append(starts, len(hosts))))
    fit: Mask = (hosts >= 0) & shape.takes_bound(view.hosts)[numbers]
    fit &= fits(view.free, shape.need, numbers, shape.most) > turn
    return fit


def codes(view: ClusterView, shape: ShapeView, hosts: I64) -> I64:
    """Why tasks of a shape find no room on their hosts: indexes of `BOUND_CODES`."""
    numbers = np.where(hosts >= 0, hosts, 0)
    lost = (hosts < 0) | (view.hosts.phase[numbers] == Phase.LOST)
    never = fits(view.hosts.capacity, shape.need, numbers, 1) == 0
    reasons = [lost, (shape.unmet[numbers] >= 0) & view.hosts.counts[numbers], never & view.hosts.counts[numbers]]
    return np.select(reasons, range(len(reasons)), len(reasons)).astype(np.int64)


def explanation(view: ClusterView, shape: ShapeView, hosts: I64, code: Code) -> GangsUnplaced:
    """Why tasks of a shape find no room on their hosts; of which job they are, whoever asks for it says."""
    among = distinct(hosts[hosts >= 0])
    room = view.hosts.capacity if code in LASTING else view.free
    reasons = hosts_reasons(view, shape, code, room, view.kept)
    return unplaced(view, shape, code, reasons[among], nearest(view, shape, room, among))
