"""The data of the engine: columns over hosts, rows of shapes, and where each number stands in them.

All is int64 but for what is looked at most. Hosts are in blocks of `BLOCK`; the last block is filled up with hosts that
are never open. Resource 0 is the seat: a host has `SEATS`, a task takes one, and a host that isn't up has `DOWN` fewer.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.columns import I64

I32 = NDArray[np.int32]
I8 = NDArray[np.int8]

BLOCK_BITS = 7
BLOCK = 1 << BLOCK_BITS
HOST_BITS, SCORE_BITS = 20, 36
HOST_MASK = (1 << HOST_BITS) - 1
RANK_AT = HOST_BITS + SCORE_BITS
SCORE_MAX = (1 << SCORE_BITS) - 1
NONE = (1 << 63) - 1
"""The key of a host that isn't open."""
LOAD_AT, UNEVEN_AT, UNEVEN_MAX = 30, 26, 1023
"""Where the load and the unevenness stand in a score, and the most of the latter."""
FAR = 1 << 40
"""More tasks than there are: no limit, no level."""
CLOSED = -1
"""In place of a rank: the conditions aren't met."""
SEATS, DOWN = 1 << 20, 1 << 50

PACK, SPREAD, BALANCED, LOAD_AWARE = range(4)
"""As in `events.strategies`."""

# A row of a shape.
SET, STRATEGY, LIMIT, NEEDS, LAYOUT, SEEN, ROOM, ROOM_AT, BASE = range(9)
"""`BASE`: the slot of a shape that asks nothing, whose bounds are never above those of this one; -1: it has none."""
NEED, NEEDS_MAX = 16, 34
"""Pairs of resource and amount, the seat first."""
ROW = NEED + 2 * NEEDS_MAX
BESIDE, END = 3, -1
"""So many keys are kept of a block beside its bound, ascending; `END`: there are no more. No other host has less than
the last of them.
"""
FAST = 6
"""A shape of so many needs is looked at without a branch."""

# Numbers of the board.
HEAD, BLOCKS, RESOURCES, UNDO, NEXT, LEAST, BEHIND = range(7)
NUMBERS = 8

# A request.
R_SHAPE, R_COUNT, R_WHOLE, R_FROM, R_TO, R_AT, R_PLACED = range(7)
REQUEST = 7


class Columns(NamedTuple):
    """The arrays that kernels read and change."""

    free: I64
    """[resources, hosts]"""
    capacity: I64
    inverse: I64
    """2^30 over the capacity, by which shares are found without a division."""
    k: I64
    """The sum of what is free, weighed."""
    load: I64
    last: I64
    """The position of the last change of a host in the log."""
    numbers: I64
    weight: I64
    shift: I64
    log: I64
    """A ring: hosts that have changed."""
    ranks: I8
    """[sets of conditions, hosts]"""
    shapes: I64
    """[slots, ROW]"""
    bounds: I64
    """[slots, blocks]: never above the least key of a block."""
    beside: I64
    """[slots, blocks, BESIDE]"""
    keys: I64
    """The keys of one block."""
    groups: I32
    """[attributes, hosts]: the number of the value that each host has; attribute 0 is the host itself."""
    layouts: I32
    """[layouts, 4, hosts]: hosts by group, the block of each host, the first position of each block, its group."""
    layout_blocks: I64
    level: I64
    """Tasks of the job on each host, while it is placed; 0 otherwise."""
    scratch: I64
    undo: I64
    """[puts, 3]: shape, host, tasks."""


class Ruled(NamedTuple):
    """The rules of a job as its tasks are put, which are counted here."""

    closed: I8
    """Not 0: the host is forbidden, whatever is put."""
    own: I64
    """The tasks of the job on each host."""
    limit: I64
    """The most tasks of the job that a host has; how many more than the least group another has, 0: any number."""
    apart: I64
    """For each rule about tasks like these: 1 where a group has one at most, 0 where they are beside others."""
    groups: I64
    """[rules, hosts]"""
    counts: I64
    """[rules, groups]"""
    totals: I64
    over: I64
    """[4, groups] where tasks are spread: those of the job, the share of the group (0: it comes last), how many it may
    have, and whether it counts for the least.
    """


def blocks_of(hosts: int) -> int:
    """The number of blocks of so many hosts, at least one."""
    return max(1, (hosts + BLOCK - 1) >> BLOCK_BITS)


def new_columns(hosts: int, resources: int, log: int, slots: int) -> Columns:
    """Columns of hosts that are down and have nothing; `log` is a power of 2."""
    blocks = blocks_of(hosts)
    wide = blocks * BLOCK

    def zeros(*shape: int) -> I64:
        return np.zeros(shape, dtype=np.int64)

    columns = Columns(
        free=zeros(resources, wide),
        capacity=zeros(resources, wide),
        inverse=zeros(resources, wide),
        k=zeros(wide),
        load=zeros(wide),
        last=zeros(wide) - 1,
        numbers=zeros(NUMBERS),
        weight=zeros(resources),
        shift=zeros(resources),
        log=zeros(log),
        ranks=np.zeros((1, wide), dtype=np.int8),
        shapes=zeros(slots, ROW),
        bounds=zeros(slots, blocks),
        beside=zeros(slots, blocks, BESIDE),
        keys=zeros(BLOCK),
        groups=np.arange(wide, dtype=np.int32)[None, :].copy(),
        layouts=np.zeros((1, 4, wide + 1), dtype=np.int32),
        layout_blocks=zeros(1),
        level=zeros(wide),
        scratch=zeros(blocks),
        undo=zeros(16, 3),
    )
    columns.free[0] = SEATS - DOWN
    columns.capacity[0] = SEATS
    columns.numbers[BLOCKS], columns.numbers[RESOURCES] = blocks, resources
    columns.numbers[BEHIND] = 8 * blocks
    return columns
