"""The rows of time series: what a cell and its pools looked like, step by step of log time.

A row belongs to one topic and is a step of that topic's own time, so whatever the interleaving of topics the same rows
come out. Its columns are those that changed in the step; the first row of a stretch of time is whole, so that older
ones can go.
"""

from typing import NamedTuple

import msgspec


class Resolution(NamedTuple):
    """Steps of one length, in seconds: how long rows are kept (0: for ever), and after how long one is whole again."""

    step_s: int
    kept_s: int
    whole_s: int


MINUTE, HOUR, DAY = 60, 3_600, 86_400
RESOLUTIONS = (
    Resolution(10, DAY, HOUR),
    Resolution(5 * MINUTE, 30 * DAY, DAY),
    Resolution(HOUR, 0, 30 * DAY),
)
"""From fine to coarse."""
CELL_PART = 0
"""The part of a topic's rows that is about the cell as a whole."""


class SeriesRow(msgspec.Struct):
    """A step of one topic in one resolution; `step` is the second in which it begins, `data` its columns. `part` says
    which columns: those of the cell, or of a block of pools (`pool_series.py`).
    """

    topic: int
    step_s: int
    part: int
    step: int
    whole: int
    data: bytes


POOLS_IN_PART = 64
"""Pools of neighbouring numbers share the rows of a part, the first of which is part 1."""
SHARES = ("entitlement", "demand", "allocation", "placed")
"""Amounts of a pool by entitlement, for each resource."""
TASKS_OF_POOL = ("queued", "live")
"""Counts of a pool's tasks: those in the queue, and those with a host."""


class PoolNumberRow(msgspec.Struct):
    """The number of a pool in the series, owned by the topic of pools; it stays when the pool is removed. The root has
    0 and no row.
    """

    path: str
    number: int


class PoolTasksRow(msgspec.Struct):
    """Tasks of a pool and of those below it, owned by lifecycle."""

    path: str
    queued: int = 0
    live: int = 0


class PoolStep(msgspec.Struct, array_like=True):
    """The columns of some pools at the end of a step. `removed` are the numbers of those that were removed in it; of
    `numbers` the first `changed` had changes in it. `values` are those of one pool after another: of entitlement, each
    of `SHARES` for each of `names`; of lifecycle, one for each of `names`.
    """

    names: list[str]
    removed: list[int]
    changed: int
    numbers: list[int]
    values: list[int]


class CellStep(msgspec.Struct, array_like=True):
    """The columns of the cell in a step: what stood at its end, how often something happened in it, and the largest
    that something was.
    """

    levels: dict[str, int]
    counts: dict[str, int]
    peaks: dict[str, int]


class UnreadRow(msgspec.Struct):
    """The content of a record of another topic that a machine has not read yet: the series of a machine know it only
    when a round of it covers the record, see `unread.py`. `place` tells several of one record apart.
    """

    machine: str
    topic: int
    offset: int
    place: int
    item: bytes


class HeldTasksRow(msgspec.Struct):
    """Tasks of a job that entitlement holds back, as far as it knows: `ranges` are code, first instance and count."""

    job_id: str
    ranges: bytes


class UnplacedTasksRow(msgspec.Struct):
    """The number of tasks of a job for which placement last found no place, less those that it placed since or that
    have ended; `gang`: 1: of its gang.
    """

    job_id: str
    gang: int
    code: str
    tasks: int


class HostStateRow(msgspec.Struct):
    """A host as placement knows it."""

    host_id: str
    session: int = 0
    offered: int = 0
    silent: int = 0
    reconciled: int = 0
    lost_session: int = -1
    avoided: int = 0


class MarkRow(msgspec.Struct):
    """Events of one kind (`shape`) in a step, as far as one topic says: their number (`count`), time and place of the
    first, and details in `items`: JSON of the first of them. Rows of each resolution are kept as long as those of
    series.
    """

    step_s: int
    topic: int
    step: int
    shape: str
    at_ms: int
    offset: int
    count: int
    items: str
