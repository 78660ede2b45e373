"""Requests, one after another, on the loops of `kernels.py`: jobs and gangs."""

from events.columns import I64
from processors.placement.engine.columns import (
    FAR,
    HEAD,
    LIMIT,
    NONE,
    R_AT,
    R_COUNT,
    R_FROM,
    R_PLACED,
    R_SHAPE,
    R_TO,
    R_WHOLE,
    RESOURCES,
    ROOM,
    ROOM_AT,
    SPREAD,
    STRATEGY,
    UNDO,
    Columns,
)
from processors.placement.engine.kernels import (
    fit_of,
    key_of,
    note,
    place_leveled,
    place_plain,
    undo,
)

CHANGES_MAX = 4096
"""When so many hosts have changed since, a gang that found no room is tried again whatever they hold."""


def is_hopeless(c: Columns, s: int, count: int) -> bool:
    """Whether a whole gang must fail: fewer found room before, and hosts changed since don't hold the difference."""
    row = c.shapes[s]
    head, since, room = c.numbers[HEAD], row[ROOM_AT], row[ROOM]
    if room < 0 or head - since > min(CHANGES_MAX, len(c.log)):
        return False
    mask = len(c.log) - 1
    for position in range(since, head):
        if room >= count:
            return False
        h = c.log[position & mask]
        if c.last[h] == position and key_of(c, s, h) != NONE:
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
        with_job = request[R_FROM] < request[R_TO] or row[LIMIT] < FAR or (row[STRATEGY] == SPREAD and count > 1)
        if request[R_WHOLE] and not with_job and is_hopeless(c, s, count):
            request[R_PLACED] = 0
            continue
        if with_job:
            for i in range(request[R_FROM], request[R_TO]):
                c.level[job[i, 0]] += job[i, 1]
            placed = place_leveled(c, s, count, out, first)
            for i in range(request[R_FROM], request[R_TO]):
                c.level[job[i, 0]] = 0
            for i in range(first, first + placed):
                c.level[out[i]] = 0
        else:
            placed = place_plain(c, s, count, out, first)
        if request[R_WHOLE] and placed < count:
            undo(c, mark)
            if not with_job:
                row[ROOM], row[ROOM_AT] = placed, c.numbers[HEAD]
            placed = 0
        request[R_PLACED] = placed


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
