"""The rows of time series: what a cell and its pools looked like, step by step of log time.

A row belongs to one topic and is a step of that topic's own time, so whatever the interleaving of topics the same rows
come out. Its columns are those that changed in the step; the first row of a stretch of time is whole, so that older
ones can go.
"""

import msgspec

CELL = -1
"""The key of the cell; the keys of pools are their numbers, from 0 on."""
KEYS_IN_PART = 64
"""Neighbouring keys share the rows of a part, so that the plot of one pool reads few others. Part 0 is the cell's."""


def part_of(key: int) -> int:
    """The part of a topic's rows in which a key stands."""
    return 1 + key // KEYS_IN_PART


class SeriesRow(msgspec.Struct):
    """A step of one part of a topic in one resolution: the second in which it begins, and `data`, a `Step`. `whole`: it
    has all keys of the part.
    """

    topic: int
    step_s: int
    part: int
    step: int
    whole: int
    data: bytes


class Step(msgspec.Struct, array_like=True):
    """The values of some keys in a step. `removed` are keys that were removed in it; of `keys` the first `changed` had
    changes. `values` are those of one key after another: of the cell one for each of `names`; of a pool, for each
    series of pools that the topic says, one for each of `names`, which follow the name of the series after a slash.
    """

    names: list[str]
    removed: list[int]
    changed: int
    keys: list[int]
    values: list[int]


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


class UnreadRow(msgspec.Struct):
    """The content of a record of another topic that a machine has not read yet: the series of a machine know it only
    when a round of it covers the record, see `unread.py`. `place` tells several of one record apart.
    """

    machine: str
    topic: int
    offset: int
    place: int
    item: bytes


class TallyRow(msgspec.Struct):
    """The state of a thing that counts in a series as its machine knows it, see `Tally`."""

    series: str
    name: str
    state: bytes


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
