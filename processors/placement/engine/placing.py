"""Requests, one after another, on the loops of `kernels.py`: jobs and gangs, groups of hosts, explanations."""

from events.columns import I64
from processors.placement.engine.columns import (
    ALONE,
    CONDITION,
    DOWN,
    EXCLUSIVE,
    FAR,
    HEAD,
    HOST_MASK,
    LAYOUT,
    LEAST,
    LIMIT,
    LIMITED,
    NEED,
    NEEDS,
    NEXT,
    NONE,
    OPEN,
    PLAIN,
    R_AT,
    R_COUNT,
    R_DESIRED,
    R_FROM,
    R_PLACED,
    R_SHAPE,
    R_TO,
    R_WHOLE,
    RESOURCE,
    RESOURCES,
    ROOM,
    ROOM_AT,
    SEATS,
    SEEN,
    SET,
    SPREAD,
    STATE,
    STRATEGY,
    TAKEN,
    UNDO,
    Columns,
)
from processors.placement.engine.kernels import (
    block_min_at,
    blocks_for,
    catch_up,
    copy,
    fit_of,
    insert,
    is_apart,
    keep,
    key_at,
    key_of,
    note,
    place_leveled,
    place_plain,
    set_bound,
    undo,
)

CHANGES_MAX = 4096
"""When so many hosts have changed since, a gang that found no room is tried again whatever they hold."""
PART = 1 << 20
"""Levels of groups with a target are their tasks by this, over the share of the target."""


def is_hopeless(c: Columns, s: int, count: int) -> bool:
    """Whether a whole gang must fail: fewer found room before, and hosts changed since don't hold the difference."""
    row = c.shapes[s]
    head, since, room = c.numbers[HEAD], row[ROOM_AT], row[ROOM]
    if room < 0 or not row[PLAIN] or head - since > min(CHANGES_MAX, len(c.log)):
        return False
    mask = len(c.log) - 1
    for position in range(since, head):
        if room >= count:
            return False
        h = c.log[position & mask]
        if h >= 0 and c.last[h] == position and key_of(c, s, h) != NONE:
            room += fit_of(c, s, h, count)
    return bool(room < count)


def place(c: Columns, requests: I64, job: I64, out: I64) -> None:
    """Places requests in their order. `job`: pairs of host and tasks that jobs have there already; `out`: a host for
    each task placed, from `R_AT` of its request on.
    """
    for at in range(len(requests)):
        request = requests[at]
        s, count, first = request[R_SHAPE], request[R_COUNT], request[R_AT]
        mark, row = c.numbers[UNDO], c.shapes[s]
        with_job = (
            request[R_FROM] < request[R_TO]
            or row[EXCLUSIVE] != 0
            or row[LIMIT] < FAR
            or (row[STRATEGY] == SPREAD and count > 1)
        )
        if request[R_WHOLE] and not with_job and is_hopeless(c, s, count):
            request[R_PLACED] = 0
            continue
        placed = 0
        if with_job:
            for i in range(request[R_FROM], request[R_TO]):
                c.level[job[i, 0]] += job[i, 1]
        desired = request[R_DESIRED]
        if desired >= 0 and key_at(c, s, desired, FAR, row[LIMIT]) != NONE:
            keep(c, s, desired, 1)
            out[first] = desired
            placed = 1
            if with_job:
                c.level[desired] += 1
        if placed < count:
            if with_job:
                placed += place_leveled(c, s, count - placed, out, first + placed)
            else:
                placed += place_plain(c, s, count - placed, out, first + placed)
        if with_job:
            for i in range(request[R_FROM], request[R_TO]):
                c.level[job[i, 0]] = 0
            for i in range(first, first + placed):
                c.level[out[i]] = 0
        if request[R_WHOLE] and placed < count:
            undo(c, mark)
            if not with_job and desired < 0:
                row[ROOM], row[ROOM_AT] = placed, c.numbers[HEAD]
            placed = 0
        request[R_PLACED] = placed


def place_grouped(c: Columns, s: int, count: int, skew: int, groups: I64, job: I64, out: I64) -> int:
    """Puts up to `count` tasks spread over the groups of the layout of a shape. `groups` is [5, groups]: tasks of the
    job in it, its share (0: last of all), the most tasks that it may have, and room for its level and whether it counts
    for the skew, which is 0 where there is none. Returns how many were put, their hosts in `out`.
    """
    layout, limit = c.shapes[s, LAYOUT], c.shapes[s, LIMIT]
    catch_up(c, s)
    blocks, bounds = blocks_for(c, s), c.bounds[s]
    for i in range(len(job)):
        c.level[job[i, 0]] += job[i, 1]
    open_groups(c, s, groups, skew)
    copy(bounds, c.scratch, blocks)
    placed = 0
    while placed < count:
        b = best_block(c, layout, blocks, groups, skew)
        if b < 0:
            break
        key = c.scratch[b]
        h = key & HOST_MASK
        if key_at(c, s, h, FAR, limit) != key:
            c.numbers[NEXT] = FAR
            c.scratch[b] = block_min_at(c, s, b, FAR, limit)
            set_bound(c, s, b, c.numbers[LEAST])
            continue
        keep(c, s, h, 1)
        c.level[h] += 1
        out[placed] = h
        placed += 1
        group = int(c.layouts[layout, 3, b])
        groups[0, group] += 1
        groups[3, group] = level_of(groups, group)
        insert(c, s, b, key_of(c, s, h))
        c.scratch[b] = min(c.scratch[b], key_at(c, s, h, FAR, limit))
        c.shapes[s, SEEN] = c.numbers[HEAD]
    for i in range(len(job)):
        c.level[job[i, 0]] = 0
    for i in range(placed):
        c.level[out[i]] = 0
    return placed


def level_of(groups: I64, group: int) -> int:
    """The level of a group: its tasks, over its share of the target."""
    share = groups[1, group]
    if share <= 0:
        return NONE
    return int(groups[0, group] * PART // share)


def open_groups(c: Columns, s: int, groups: I64, skew: int) -> None:
    """Finds levels, and with a skew which groups have a host that is up and meets the conditions."""
    layout = c.shapes[s, LAYOUT]
    for group in range(groups.shape[1]):
        groups[3, group] = level_of(groups, group)
        groups[4, group] = 0
    if skew:
        for b in range(c.layout_blocks[layout]):
            group = int(c.layouts[layout, 3, b])
            if groups[4, group]:
                continue
            for at in range(c.layouts[layout, 2, b], c.layouts[layout, 2, b + 1]):
                h = int(c.layouts[layout, 0, at])
                if c.free[0, h] > -DOWN // 2 and c.ranks[c.shapes[s, SET], h] >= 0:
                    groups[4, group] = 1
                    break


def best_block(c: Columns, layout: int, blocks: int, groups: I64, skew: int) -> int:
    """The block with the least bound of a group of the least level that may have one more; -1: none."""
    most = FAR
    if skew:
        for group in range(groups.shape[1]):
            if groups[4, group]:
                most = min(most, groups[0, group] + skew)
    best, level, at = NONE, NONE, -1
    for b in range(blocks):
        key = c.scratch[b]
        if key == NONE:
            continue
        group = int(c.layouts[layout, 3, b])
        if groups[0, group] >= groups[2, group] or groups[0, group] >= most:
            continue
        if at < 0 or groups[3, group] < level or (groups[3, group] == level and key < best):
            best, level, at = key, groups[3, group], b
    return at


def group_room(c: Columns, s: int, most: int, groups: I64) -> None:
    """Finds for each group of the layout of a shape the least key, in row 0, and how many tasks its hosts hold, at most
    `most`, in row 1. `c.level` counts those of the job.
    """
    layout, limit = c.shapes[s, LAYOUT], c.shapes[s, LIMIT]
    for group in range(groups.shape[1]):
        groups[0, group], groups[1, group] = NONE, 0
    for b in range(c.layout_blocks[layout]):
        group = int(c.layouts[layout, 3, b])
        for at in range(c.layouts[layout, 2, b], c.layouts[layout, 2, b + 1]):
            h = int(c.layouts[layout, 0, at])
            key = key_at(c, s, h, FAR, limit)
            if key != NONE:
                groups[0, group] = min(groups[0, group], key)
                groups[1, group] = min(most, groups[1, group] + fit_of(c, s, h, min(most, limit - c.level[h])))


def reasons(c: Columns, s: int, hosts: int, out: I64) -> None:
    """Writes the first reason why each host isn't open to a shape; `c.level` counts the tasks of its job."""
    row = c.shapes[s]
    for h in range(hosts):
        seat, have = c.free[0, h], c.level[h]
        reason = OPEN
        if seat < -DOWN // 2:
            reason = STATE
        elif c.ranks[row[SET], h] < 0:
            reason = CONDITION
        elif (row[EXCLUSIVE] and seat != SEATS - have * ALONE) or (not row[EXCLUSIVE] and seat < row[NEED + 1]):
            reason = TAKEN
        else:
            for i in range(1, row[NEEDS]):
                if c.free[row[NEED + 2 * i], h] < row[NEED + 2 * i + 1]:
                    reason = RESOURCE + row[NEED + 2 * i]
                    break
            if reason == OPEN and have >= row[LIMIT]:
                reason = LIMITED
            if reason == OPEN:
                reason = is_apart(c, s, h)
        out[h] = reason


def synchronise(c: Columns, hosts: int, free: I64, capacity: I64) -> int:
    """Brings hosts up to what is free and offered; those that are as they were aren't touched. Returns how many
    weren't.
    """
    changed = 0
    resources = c.numbers[RESOURCES]
    for h in range(hosts):
        differs = False
        for r in range(resources):
            if free[r, h] != c.free[r, h] or capacity[r, h] != c.capacity[r, h]:
                differs = True
        if differs:
            set_host(c, h, free[:, h], capacity[:, h])
            changed += 1
    return changed


def set_host(c: Columns, h: int, free: I64, capacity: I64) -> None:
    """Gives a host other amounts."""
    k = 0
    for r in range(c.numbers[RESOURCES]):
        c.free[r, h] = free[r]
        c.capacity[r, h] = capacity[r]
        c.inverse[r, h] = (1 << 30) // max(capacity[r] >> c.shift[r], 1)
        k += min(max(free[r], 0) >> c.shift[r], 1 << 21) * c.weight[r]  # more: it is about to be weighed
    c.k[h] = k
    note(c, h)
