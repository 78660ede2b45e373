"""The loops of the engine. They run as they stand, with numpy in place of the innermost (`vectors.py`), or compiled.

A key is `rank << 56 | score << 20 | host`; the least wins. The bound of a block is never above the least key in it:
what makes a host worse needs no work, what may make it better lowers the bound at the next use of a shape, by the log.
"""

from events.columns import I64
from processors.placement.engine.columns import (
    BALANCED,
    BASE,
    BEHIND,
    BESIDE,
    BLOCK,
    BLOCK_BITS,
    BLOCKS,
    END,
    FAR,
    FAST,
    HEAD,
    HOST_BITS,
    HOST_MASK,
    LAYOUT,
    LEAST,
    LIMIT,
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
    UNDO,
    UNEVEN_AT,
    UNEVEN_MAX,
    Columns,
)


def score_of(c: Columns, s: int, h: int) -> int:
    """The score of a host for a shape, below 2^36."""
    row = c.shapes[s]
    strategy = row[STRATEGY]
    k = int(c.k[h])
    if strategy == PACK:
        return k
    if strategy == SPREAD:
        return SCORE_MAX - k
    if strategy == LOAD_AWARE:
        return (int(c.load[h]) << LOAD_AT) | ((SCORE_MAX - k) >> (SCORE_BITS - LOAD_AT))
    least, most = FAR, 0
    for i in range(1, row[NEEDS]):
        r, need = row[NEED + 2 * i], row[NEED + 2 * i + 1]
        one = int(share(c.capacity[r, h], c.free[r, h], need, c.shift[r], c.inverse[r, h]))
        least, most = min(least, one), max(most, one)
    return (min(max(most - least, 0), UNEVEN_MAX) << UNEVEN_AT) | (k >> (SCORE_BITS - UNEVEN_AT))


def key_of(c: Columns, s: int, h: int) -> int:
    """The key of a host for a shape, whichever job it is of."""
    row = c.shapes[s]
    rank = int(c.ranks[row[SET], h])
    if rank < 0:
        return NONE
    for i in range(row[NEEDS]):
        if c.free[row[NEED + 2 * i], h] < row[NEED + 2 * i + 1]:
            return NONE
    return (rank << RANK_AT) | (score_of(c, s, h) << HOST_BITS) | h


def key_at(c: Columns, s: int, h: int, level: int, limit: int) -> int:
    """The key of a host for a job that has `c.level` tasks there; a host above the level isn't open."""
    have = c.level[h]
    if have > level or have >= limit:
        return NONE
    return key_of(c, s, h)


def fit_of(c: Columns, s: int, h: int, most: int) -> int:
    """Counts the tasks that a host holds which is open."""
    row = c.shapes[s]
    fit = most
    for i in range(row[NEEDS]):
        need = row[NEED + 2 * i + 1]
        if need > 0:
            fit = min(fit, c.free[row[NEED + 2 * i], h] // need)
    return int(max(fit, 0))


def block_top(c: Columns, s: int, b: int) -> None:
    """Finds the bound of a block and the keys beside it."""
    row = c.shapes[s]
    layout = row[LAYOUT]
    low, count = b << BLOCK_BITS, BLOCK
    balanced = row[STRATEGY] == BALANCED
    if layout >= 0:
        low, count = c.layouts[layout, 2, b], c.layouts[layout, 2, b + 1] - c.layouts[layout, 2, b]
        for i in range(count):
            c.keys[i] = key_of(c, s, int(c.layouts[layout, 0, low + i]))
    elif row[NEEDS] > FAST or (balanced and row[NEEDS] == 1):
        for i in range(BLOCK):
            c.keys[i] = key_of(c, s, low + i)
    elif balanced:
        balanced_keys(c, s, low)
    else:
        set_bound(c, s, b, plain_min(c, s, low))  # as quick as a look at a few
        return
    c.bounds[s, b] = NONE
    for i in range(BESIDE):
        c.beside[s, b, i] = NONE
    for i in range(count):
        if c.keys[i] < c.beside[s, b, BESIDE - 1]:
            insert(c, s, b, c.keys[i])


def insert(c: Columns, s: int, b: int, key: int) -> None:
    """Puts a key in its place among those of a block; the last one goes where there are too many."""
    moved = False
    if key < c.bounds[s, b]:
        moved = True
        key, c.bounds[s, b] = c.bounds[s, b], key
    for i in range(BESIDE):
        have = c.beside[s, b, i]
        if have == END:
            if moved:  # it was the last: others have as much at least
                c.beside[s, b, i] = key
                if i + 1 < BESIDE:  # what stands there is older than the bound
                    c.beside[s, b, i + 1] = END
            return
        if key < have:
            moved = True
            c.beside[s, b, i] = key
            key = have


def renew(c: Columns, s: int, b: int, key: int) -> None:
    """The host of a bound has another key now."""
    if c.beside[s, b, 0] == END:
        block_top(c, s, b)
        return
    if key <= c.beside[s, b, 0]:
        c.bounds[s, b] = key
        return
    c.bounds[s, b] = c.beside[s, b, 0]
    for i in range(1, BESIDE):
        c.beside[s, b, i - 1] = c.beside[s, b, i]
    c.beside[s, b, BESIDE - 1] = END
    insert(c, s, b, key)


def set_bound(c: Columns, s: int, b: int, key: int) -> None:
    """Sets a bound of which it isn't known what comes after it."""
    c.bounds[s, b] = key
    c.beside[s, b, 0] = END


def plain_min(c: Columns, s: int, low: int) -> int:
    """The least key of a block for a shape of few needs, without a branch."""
    row = c.shapes[s]
    n, high = row[NEEDS], low + BLOCK
    i1, i2, i3, i4, i5 = min(1, n - 1), min(2, n - 1), min(3, n - 1), min(4, n - 1), min(5, n - 1)
    f0, q0 = c.free[row[NEED], low:high], row[NEED + 1]
    f1, q1 = c.free[row[NEED + 2 * i1], low:high], row[NEED + 2 * i1 + 1]
    f2, q2 = c.free[row[NEED + 2 * i2], low:high], row[NEED + 2 * i2 + 1]
    f3, q3 = c.free[row[NEED + 2 * i3], low:high], row[NEED + 2 * i3 + 1]
    f4, q4 = c.free[row[NEED + 2 * i4], low:high], row[NEED + 2 * i4 + 1]
    f5, q5 = c.free[row[NEED + 2 * i5], low:high], row[NEED + 2 * i5 + 1]
    rank, k, load = c.ranks[row[SET], low:high], c.k[low:high], c.load[low:high]
    # Score = (load & loaded) << LOAD_AT | ((k ^ flip) >> less): the same for three strategies.
    strategy = row[STRATEGY]
    flip = 0 if strategy == PACK else SCORE_MAX
    loaded, less = (-1, SCORE_BITS - LOAD_AT) if strategy == LOAD_AWARE else (0, 0)
    best = NONE
    for i in range(BLOCK):
        fits = (f0[i] >= q0) & (f1[i] >= q1) & (f2[i] >= q2) & (f3[i] >= q3) & (f4[i] >= q4) & (f5[i] >= q5)
        score = ((load[i] & loaded) << LOAD_AT) | ((k[i] ^ flip) >> less)
        key = (int(rank[i]) << RANK_AT) | (score << HOST_BITS) | (low + i)
        best = min(best, key if fits & (rank[i] >= 0) else NONE)
    return best


def share(capacity: int, free: int, need: int, shift: int, inverse: int) -> int:
    """The share of a kind that is used with one task more, in 1/1024."""
    return (((capacity - free + need) >> shift) * inverse) >> 20


def balanced_keys(c: Columns, s: int, low: int) -> None:
    """The keys of a block for such a shape where even use of kinds is wanted."""
    row = c.shapes[s]
    n, high = row[NEEDS], low + BLOCK
    p1, p2 = NEED + 2, NEED + 2 * min(2, n - 1)
    p3, p4, p5 = NEED + 2 * min(3, n - 1), NEED + 2 * min(4, n - 1), NEED + 2 * min(5, n - 1)
    r1, r2, r3, r4, r5 = row[p1], row[p2], row[p3], row[p4], row[p5]
    q1, q2, q3, q4, q5 = row[p1 + 1], row[p2 + 1], row[p3 + 1], row[p4 + 1], row[p5 + 1]
    x1, x2, x3, x4, x5 = c.shift[r1], c.shift[r2], c.shift[r3], c.shift[r4], c.shift[r5]
    seat, seats = c.free[0, low:high], row[NEED + 1]
    f1, a1, i1 = c.free[r1, low:high], c.capacity[r1, low:high], c.inverse[r1, low:high]
    f2, a2, i2 = c.free[r2, low:high], c.capacity[r2, low:high], c.inverse[r2, low:high]
    f3, a3, i3 = c.free[r3, low:high], c.capacity[r3, low:high], c.inverse[r3, low:high]
    f4, a4, i4 = c.free[r4, low:high], c.capacity[r4, low:high], c.inverse[r4, low:high]
    f5, a5, i5 = c.free[r5, low:high], c.capacity[r5, low:high], c.inverse[r5, low:high]
    rank, k = c.ranks[row[SET], low:high], c.k[low:high]
    keys = c.keys
    for i in range(BLOCK):
        fits = (seat[i] >= seats) & (f1[i] >= q1) & (f2[i] >= q2) & (f3[i] >= q3) & (f4[i] >= q4) & (f5[i] >= q5)
        s1, s2 = share(a1[i], f1[i], q1, x1, i1[i]), share(a2[i], f2[i], q2, x2, i2[i])
        s3, s4 = share(a3[i], f3[i], q3, x3, i3[i]), share(a4[i], f4[i], q4, x4, i4[i])
        s5 = share(a5[i], f5[i], q5, x5, i5[i])
        uneven = max(max(max(s1, s2), max(s3, s4)), s5) - min(min(min(s1, s2), min(s3, s4)), s5)
        score = (min(uneven, UNEVEN_MAX) << UNEVEN_AT) | (k[i] >> (SCORE_BITS - UNEVEN_AT))
        key = (int(rank[i]) << RANK_AT) | (score << HOST_BITS) | (low + i)
        keys[i] = key if fits & (rank[i] >= 0) else NONE


def block_min_at(c: Columns, s: int, b: int, level: int, limit: int) -> int:
    """The least key of a block for a job; lowers the next level (`NEXT`) to what was met, and leaves in `LEAST` the
    least key for any job.
    """
    layout = c.shapes[s, LAYOUT]
    low, high = b << BLOCK_BITS, (b + 1) << BLOCK_BITS
    if layout >= 0:
        low, high = c.layouts[layout, 2, b], c.layouts[layout, 2, b + 1]
    best, least, above = NONE, NONE, c.numbers[NEXT]
    for at in range(low, high):
        h = at
        if layout >= 0:
            h = int(c.layouts[layout, 0, at])
        key = key_of(c, s, h)
        if key == NONE:
            continue
        least = min(least, key)
        have = c.level[h]
        if have >= limit:
            continue
        if have > level:
            above = min(above, have)
        else:
            best = min(best, key)
    c.numbers[NEXT], c.numbers[LEAST] = above, least
    return best


def least_bound(bounds: I64, blocks: int) -> int:
    """The least bound."""
    best = NONE
    for b in range(blocks):  # a look for where it is would keep this from going several at once
        best = min(best, bounds[b])
    return best


def least_above(bounds: I64, base: I64, blocks: int) -> int:
    """The least of bounds, where none is less than that of a shape which asks nothing."""
    best = NONE
    for b in range(blocks):
        best = min(best, max(bounds[b], base[b]))
    return best


def copy(bounds: I64, to: I64, blocks: int) -> None:
    """Copies the first bounds."""
    for b in range(blocks):
        to[b] = bounds[b]


def blocks_for(c: Columns, s: int) -> int:
    """The number of blocks of a shape."""
    layout = c.shapes[s, LAYOUT]
    return int(c.layout_blocks[layout] if layout >= 0 else c.numbers[BLOCKS])


def block_at(c: Columns, s: int, h: int) -> int:
    """The block of a host, as a shape sees it."""
    layout = c.shapes[s, LAYOUT]
    if layout >= 0:
        return int(c.layouts[layout, 1, h])
    return h >> BLOCK_BITS


def rebuild(c: Columns, s: int) -> None:
    """Finds all bounds of a shape."""
    for b in range(blocks_for(c, s)):
        block_top(c, s, b)
    c.shapes[s, SEEN] = c.numbers[HEAD]


def catch_up(c: Columns, s: int) -> None:
    """Lowers the bounds of a shape by what has changed since its last use."""
    head, seen = c.numbers[HEAD], c.shapes[s, SEEN]
    if seen == head:
        return
    if seen < 0 or head - seen > min(c.numbers[BEHIND], len(c.log)):
        rebuild(c, s)
        return
    mask = len(c.log) - 1
    for position in range(seen, head):
        h = c.log[position & mask]
        if c.last[h] == position:
            key = key_of(c, s, h)
            if key != NONE:
                insert(c, s, block_at(c, s, h), key)
    c.shapes[s, SEEN] = head


def note(c: Columns, h: int) -> None:
    """Writes to the log that a host has changed."""
    head = c.numbers[HEAD]
    c.log[head & (len(c.log) - 1)] = h
    c.last[h] = head
    c.numbers[HEAD] = head + 1


def put(c: Columns, s: int, h: int, count: int) -> None:
    """Puts tasks on a host, or takes them off (below 0)."""
    row = c.shapes[s]
    for i in range(row[NEEDS]):
        r = row[NEED + 2 * i]
        before = c.free[r, h]
        after = before - row[NEED + 2 * i + 1] * count
        c.free[r, h] = after
        c.k[h] += ((max(after, 0) >> c.shift[r]) - (max(before, 0) >> c.shift[r])) * c.weight[r]
    note(c, h)


def keep(c: Columns, s: int, h: int, count: int) -> None:
    """Puts tasks on a host, to be undone."""
    put(c, s, h, count)
    at = c.numbers[UNDO]
    c.undo[at, 0], c.undo[at, 1], c.undo[at, 2] = s, h, count
    c.numbers[UNDO] = at + 1


def undo(c: Columns, mark: int) -> None:
    """Takes off what was put since a mark, the last first."""
    for at in range(c.numbers[UNDO] - 1, mark - 1, -1):
        put(c, c.undo[at, 0], c.undo[at, 1], -c.undo[at, 2])
    c.numbers[UNDO] = mark


def place_plain(c: Columns, s: int, count: int, out: I64, at: int) -> int:
    """Puts up to `count` tasks, whichever job they are of; returns how many, their hosts in `out` from `at` on."""
    catch_up(c, s)
    blocks, bounds = blocks_for(c, s), c.bounds[s]
    packs = c.shapes[s, STRATEGY] == PACK
    base = c.shapes[s, BASE] if c.shapes[s, LAYOUT] < 0 else -1
    if base >= 0:
        catch_up(c, base)
    placed = 0
    while placed < count:
        key = least_above(bounds, c.bounds[base], blocks) if base >= 0 else least_bound(bounds, blocks)
        if key == NONE:
            break
        h = key & HOST_MASK
        b = block_at(c, s, h)
        real = key_of(c, s, h)
        if real != key:
            if base < 0:
                renew(c, s, b, real)
            elif is_exact(c, base, b):
                block_top(c, s, b)
            else:
                block_top(c, base, b)
            continue
        tasks = fit_of(c, s, h, count - placed) if packs else 1
        keep(c, s, h, tasks)
        for i in range(at + placed, at + placed + tasks):
            out[i] = h
        placed += tasks
        if bounds[b] == key:
            renew(c, s, b, key_of(c, s, h))
        c.shapes[s, SEEN] = c.numbers[HEAD]
    return placed


def is_exact(c: Columns, s: int, b: int) -> bool:
    """Whether the host of a bound has its key."""
    key = c.bounds[s, b]
    return bool(key == NONE or key_of(c, s, key & HOST_MASK) == key)


def place_leveled(c: Columns, s: int, count: int, out: I64, at: int) -> int:
    """The same for a job whose other tasks matter; `c.level` counts them."""
    catch_up(c, s)
    blocks, bounds, scratch = blocks_for(c, s), c.bounds[s], c.scratch
    spreads, packs = c.shapes[s, STRATEGY] == SPREAD, c.shapes[s, STRATEGY] == PACK
    limit = c.shapes[s, LIMIT]
    level = 0 if spreads else FAR
    c.numbers[NEXT] = FAR
    copy(bounds, scratch, blocks)
    placed = 0
    while placed < count:
        key = least_bound(scratch, blocks)
        if key == NONE:
            if c.numbers[NEXT] == FAR:
                break
            level = c.numbers[NEXT]
            c.numbers[NEXT] = FAR
            copy(bounds, scratch, blocks)
            continue
        h = key & HOST_MASK
        b = block_at(c, s, h)
        if key_at(c, s, h, level, limit) != key:
            scratch[b] = block_min_at(c, s, b, level, limit)
            set_bound(c, s, b, c.numbers[LEAST])
            continue
        tasks = fit_of(c, s, h, min(count - placed, limit - c.level[h])) if packs else 1
        keep(c, s, h, tasks)
        c.level[h] += tasks
        for i in range(at + placed, at + placed + tasks):
            out[i] = h
        placed += tasks
        key = key_of(c, s, h)
        insert(c, s, b, key)
        if key != NONE and spreads and c.level[h] < limit:
            c.numbers[NEXT] = min(c.numbers[NEXT], c.level[h])
        key = key_at(c, s, h, level, limit)
        if key < scratch[b]:
            scratch[b] = key
        c.shapes[s, SEEN] = c.numbers[HEAD]
    return placed
