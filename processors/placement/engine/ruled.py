"""Tasks whose places depend on others: of their job, with some label, in the same group of hosts.

Rules only forbid hosts, and a task that is put forbids more, so bounds of the shape alone stay bounds. They are copied,
and what a rule forbids is found when a block comes up.
"""

from events.columns import I64
from processors.placement.engine.columns import (
    BLOCK_BITS,
    FAR,
    HEAD,
    HOST_MASK,
    LAYOUT,
    LEAST,
    NEXT,
    NONE,
    SEEN,
    SPREAD,
    STRATEGY,
    Columns,
    Ruled,
)
from processors.placement.engine.kernels import (
    block_at,
    blocks_for,
    catch_up,
    copy,
    insert,
    keep,
    key_of,
    least_bound,
    set_bound,
)

PART = 1_000_000
"""Levels of groups are their tasks by this, over the share of the target."""


def is_forbidden(rules: Ruled, h: int) -> bool:
    """Whether a rule keeps tasks from a host, levels aside."""
    if rules.closed[h] or rules.own[h] >= rules.limit[0]:
        return True
    for t in range(len(rules.apart)):
        there = rules.counts[t, rules.groups[t, h]] > 0
        if rules.apart[t]:
            if there:
                return True
        elif not there and rules.totals[t] > 0:  # the first goes anywhere
            return True
    return False


def ruled_key(c: Columns, s: int, h: int, rules: Ruled, level: int) -> int:
    """The key of a host that the rules allow and that has no more tasks of the job than the level; else NONE."""
    if rules.own[h] > level or is_forbidden(rules, h):
        return NONE
    return key_of(c, s, h)


def ruled_min(c: Columns, s: int, b: int, rules: Ruled, level: int) -> int:
    """The least such key of a block; lowers the next level (`NEXT`) to what was met, and leaves in `LEAST` the least
    key without rules.
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
        if is_forbidden(rules, h):
            continue
        if rules.own[h] > level:
            above = min(above, rules.own[h])
        else:
            best = min(best, key)
    c.numbers[NEXT], c.numbers[LEAST] = above, least
    return best


def place_ruled(c: Columns, s: int, count: int, rules: Ruled, out: I64) -> int:
    """Puts up to `count` tasks of a job, one by one; returns how many, their hosts in `out`. Counts them in the rules.

    A shape that is spread goes to the hosts with fewest tasks of the job first. Where it has a layout, groups with the
    least level come first, and which may have one more.
    """
    catch_up(c, s)
    blocks, bounds, scratch, layout = blocks_for(c, s), c.bounds[s], c.scratch, c.shapes[s, LAYOUT]
    spreads = c.shapes[s, STRATEGY] == SPREAD and layout < 0
    level = 0 if spreads else FAR
    c.numbers[NEXT] = FAR
    copy(bounds, scratch, blocks)
    placed = 0
    while placed < count:
        key = best_of_groups(c, layout, blocks, rules) if layout >= 0 else least_bound(scratch, blocks)
        if key == NONE:
            if c.numbers[NEXT] == FAR:
                break
            level = c.numbers[NEXT]
            c.numbers[NEXT] = FAR
            copy(bounds, scratch, blocks)
            continue
        h = key & HOST_MASK
        b = block_at(c, s, h)
        if ruled_key(c, s, h, rules, level) != key:
            scratch[b] = ruled_min(c, s, b, rules, level)
            set_bound(c, s, b, c.numbers[LEAST])
            continue
        keep(c, s, h, 1)
        out[placed] = h
        placed += 1
        count_in(c, layout, h, rules)
        insert(c, s, b, key_of(c, s, h))
        if spreads and not is_forbidden(rules, h) and key_of(c, s, h) != NONE:
            c.numbers[NEXT] = min(c.numbers[NEXT], rules.own[h])
        scratch[b] = min(scratch[b], ruled_key(c, s, h, rules, level))
        c.shapes[s, SEEN] = c.numbers[HEAD]
    return placed


def count_in(c: Columns, layout: int, h: int, rules: Ruled) -> None:
    """A task of the job is on a host."""
    rules.own[h] += 1
    for t in range(len(rules.apart)):
        rules.counts[t, rules.groups[t, h]] += 1
        rules.totals[t] += 1
    if layout >= 0:
        rules.over[0, c.layouts[layout, 3, c.layouts[layout, 1, h]]] += 1


def best_of_groups(c: Columns, layout: int, blocks: int, rules: Ruled) -> int:
    """The least bound of a group of the least level that may have one more; NONE: there is none."""
    most, skew, over = FAR, rules.limit[1], rules.over
    if skew:
        for group in range(over.shape[1]):
            if over[3, group]:
                most = min(most, over[0, group] + skew)
    best, least = NONE, NONE
    for b in range(blocks):
        key = c.scratch[b]
        group = c.layouts[layout, 3, b]
        have, share = over[0, group], over[1, group]
        if key == NONE or have >= over[2, group] or have >= most:
            continue
        level = have * PART // share if share > 0 else NONE
        if best == NONE or level < least or (level == least and key < best):
            best, least = key, level
    return best
