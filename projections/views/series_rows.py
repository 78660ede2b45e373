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
    which columns: those of the cell, or of a block of pools (`series_pools.py`).
    """

    topic: int
    step_s: int
    part: int
    step: int
    whole: int
    data: bytes


class CellStep(msgspec.Struct, array_like=True):
    """The columns of the cell in a step: what stood at its end, how often something happened in it, and the largest
    that something was.
    """

    levels: dict[str, int]
    counts: dict[str, int]
    peaks: dict[str, int]
