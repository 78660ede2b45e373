"""Tasks that may run on one host alone: whether they find room there, and why not."""

import numpy as np

from events.codes import Code
from events.columns import I64, distinct
from events.reasons import LASTING
from events.records.placement import GangsUnplaced
from processors.placement.cluster_view import ClusterView
from processors.placement.explain import hosts_reasons, nearest, unplaced
from processors.placement.packing import Mask, fits, turns
from processors.placement.rows import BOUND_CODES
from processors.placement.shape_view import ShapeView
from processors.placement.states import ABSENT

REASONS = (Code.BOUND_HOST_LOST, Code.CONSTRAINT_MISMATCH, Code.NEVER_FITS, Code.BOUND_HOST_IN_MAINTENANCE)
"""Why a host doesn't take what is bound to it; the first that holds, else BOUND_HOST_BUSY."""


def placed(view: ClusterView, shape: ShapeView, hosts: I64) -> Mask:
    """True for tasks that find room on their hosts (one for each, -1: removed), those before others first; nothing is
    put there.
    """
    there = np.flatnonzero(hosts >= 0)
    numbers = hosts[there]
    fit: Mask = np.zeros(len(hosts), dtype=np.bool_)
    fit[there] = shape.takes_bound(view.hosts)[numbers]
    fit[there] &= fits(view.free, shape.need, numbers, shape.most) > turns(numbers)
    return fit


def codes(view: ClusterView, shape: ShapeView, hosts: I64) -> I64:
    """Why tasks of a shape find no room on their hosts: indexes of `BOUND_CODES`."""
    there = np.flatnonzero(hosts >= 0)
    numbers = hosts[there]
    lost = view.hosts.are(ABSENT)[numbers]
    never = fits(view.hosts.capacity, shape.need, numbers, 1) == 0
    reasons = [lost, shape.mismatch[numbers] & view.hosts.counts[numbers], never & view.hosts.counts[numbers]]
    reasons.append(view.hosts.barred[numbers] == 2)
    why = np.zeros(len(hosts), dtype=np.int64)  # a host that was removed is lost
    why[there] = np.select(reasons, [*map(BOUND_CODES.index, REASONS)], BOUND_CODES.index(Code.BOUND_HOST_BUSY))
    return why


def explanation(view: ClusterView, shape: ShapeView, hosts: I64, code: Code) -> GangsUnplaced:
    """Why tasks of a shape find no room on their hosts; of which job they are, whoever asks for it says."""
    among = distinct(hosts[hosts >= 0])
    room = view.hosts.capacity if code in LASTING else view.free
    reasons = hosts_reasons(view, shape, code, room, view.kept)
    return unplaced(view, shape, code, reasons[among], nearest(view, shape, room, among))
