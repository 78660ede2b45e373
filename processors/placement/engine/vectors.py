"""The innermost loops of the engine as numpy: what decides where nothing is compiled, with the same answers."""

import numpy as np

from events.columns import I64
from processors.placement.engine import kernels
from processors.placement.engine.columns import (
    BEHIND,
    BESIDE,
    BLOCK,
    BLOCK_BITS,
    END,
    HEAD,
    HOST_BITS,
    LAYOUT,
    LEAST,
    LOAD_AT,
    LOAD_AWARE,
    NEED,
    NEEDS,
    NEXT,
    NONE,
    PACK,
    RANK_AT,
    SCORE_BITS,
    SCORE_MAX,
    SEEN,
    SET,
    SPREAD,
    STRATEGY,
    UNEVEN_AT,
    UNEVEN_MAX,
    Columns,
)


def keys_of(c: Columns, s: int, hosts: I64 | slice) -> I64:
    """The key of each of some hosts, as `kernels.key_of`."""
    row: list[int] = c.shapes[s].tolist()
    rank = c.ranks[row[SET], hosts].astype(np.int64)
    is_open = rank >= 0
    for at in range(NEED, NEED + 2 * row[NEEDS], 2):
        is_open &= c.free[row[at], hosts] >= row[at + 1]
    numbers = np.arange(hosts.start, hosts.stop) if isinstance(hosts, slice) else hosts
    keys: I64 = np.where(is_open, (rank << RANK_AT) | (_scores(c, row, hosts) << HOST_BITS) | numbers, NONE)
    return keys


def _scores(c: Columns, row: list[int], hosts: I64 | slice) -> I64:
    k = c.k[hosts]
    if row[STRATEGY] == PACK:
        return k
    if row[STRATEGY] == SPREAD:
        return SCORE_MAX - k
    if row[STRATEGY] == LOAD_AWARE:
        return (c.load[hosts] << LOAD_AT) | ((SCORE_MAX - k) >> (SCORE_BITS - LOAD_AT))
    needs = [(row[at], row[at + 1]) for at in range(NEED + 2, NEED + 2 * row[NEEDS], 2)]
    shares = [
        (((c.capacity[r, hosts] - c.free[r, hosts] + need) >> c.shift[r]) * c.inverse[r, hosts]) >> 20
        for r, need in needs
    ]
    spread = np.max(shares, axis=0) - np.min(shares, axis=0) if shares else np.zeros_like(k)
    return (np.minimum(spread, UNEVEN_MAX) << UNEVEN_AT) | (k >> (SCORE_BITS - UNEVEN_AT))


def _members(c: Columns, s: int, b: int) -> I64 | slice:
    layout = int(c.shapes[s, LAYOUT])
    if layout < 0:
        return slice(b << BLOCK_BITS, (b + 1) << BLOCK_BITS)
    first, end = c.layouts[layout, 2, b : b + 2].tolist()
    return c.layouts[layout, 0, first:end].astype(np.int64)


def block_top(c: Columns, s: int, b: int) -> None:
    """As `kernels.block_top`."""
    keys = np.sort(keys_of(c, s, _members(c, s, b)))[: BESIDE + 1]
    top = np.full(BESIDE + 1, NONE)
    top[: len(keys)] = keys
    c.bounds[s, b], c.beside[s, b] = top[0], top[1:]


def block_min_at(c: Columns, s: int, b: int, level: int, limit: int) -> int:
    """As `kernels.block_min_at`."""
    hosts = _members(c, s, b)
    keys, have = keys_of(c, s, hosts), c.level[hosts]
    c.numbers[LEAST] = keys.min(initial=NONE)
    may = (keys != NONE) & (have < limit)
    above = may & (have > level)
    c.numbers[NEXT] = have[above].min(initial=c.numbers[NEXT])
    return int(keys[may & ~above].min(initial=NONE))


def least_bound(bounds: I64, blocks: int) -> int:
    """As `kernels.least_bound`."""
    return int(bounds[:blocks].min())


def least_above(bounds: I64, base: I64, blocks: int) -> int:
    """As `kernels.least_above`."""
    return int(np.maximum(bounds[:blocks], base[:blocks]).min())


def copy(bounds: I64, to: I64, blocks: int) -> None:
    """As `kernels.copy`."""
    to[:blocks] = bounds[:blocks]


def catch_up(c: Columns, s: int) -> None:
    """As `kernels.catch_up`."""
    head, seen = int(c.numbers[HEAD]), int(c.shapes[s, SEEN])
    if seen == head:
        return
    if seen < 0 or head - seen > min(int(c.numbers[BEHIND]), len(c.log)):
        rebuild(c, s)
        return
    positions = np.arange(seen, head)
    hosts = c.log[positions & (len(c.log) - 1)]
    hosts = hosts[c.last[hosts] == positions]
    layout = int(c.shapes[s, LAYOUT])
    blocks = c.layouts[layout, 1, hosts] if layout >= 0 else hosts >> BLOCK_BITS
    keys = keys_of(c, s, hosts)
    np.minimum.at(c.bounds[s], blocks, keys)
    c.beside[s, blocks[keys != NONE], 0] = END
    c.shapes[s, SEEN] = head


def rebuild(c: Columns, s: int) -> None:
    """As `kernels.rebuild`."""
    if c.shapes[s, LAYOUT] < 0:
        wide = len(c.k)
        c.bounds[s, : wide // BLOCK] = keys_of(c, s, slice(0, wide)).reshape(-1, BLOCK).min(axis=1)
        c.beside[s, :, 0] = END
    else:
        for b in range(kernels.blocks_for(c, s)):
            block_top(c, s, b)
    c.shapes[s, SEEN] = c.numbers[HEAD]


def changed_hosts(rows: list[tuple[I64, I64]]) -> I64:
    """The hosts that have something else in one of some rows, each beside what it is to be."""
    differs = np.zeros(len(rows[0][0]), dtype=np.bool_)
    for is_, was in rows:  # one after another: columns of many hosts don't stay in the cache together
        differs |= is_ != was[: len(is_)]
    return np.flatnonzero(differs)


def set_hosts(c: Columns, hosts: I64, seat: I64, free: I64, capacity: I64) -> None:
    """Gives some hosts other amounts."""
    c.free[0, hosts], c.free[1:, hosts], c.capacity[1:, hosts] = seat, free, capacity
    shift = c.shift[1:, None]
    c.inverse[1:, hosts] = (1 << 30) // np.maximum(capacity >> shift, 1)
    c.k[hosts] = ((np.maximum(free, 0) >> shift) * c.weight[1:, None]).sum(axis=0)
    note_all(c, hosts)


def note_all(c: Columns, hosts: I64) -> None:
    """Hosts have changed, as `kernels.note` of each."""
    positions = c.numbers[HEAD] + np.arange(len(hosts))
    c.log[positions & (len(c.log) - 1)] = hosts
    c.last[hosts] = positions
    c.numbers[HEAD] += len(hosts)
