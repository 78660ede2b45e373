"""The loops that score hosts with GPUs. They run as they stand, with numpy in their place (`vectors.py`), or compiled.

A state of a host is its free CPU and memory, its model and the levels of its cards, whichever card has which. Many
hosts have the same state, and shapes lead to the same states: what a state is worth is kept by state.

`FRAGMENTATION` is FGD of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023; its score has 101 steps there too. `ADAPTIVE` is decision 106.
"""

import numpy as np

from events.columns import I64
from processors.placement.devices.columns import (
    ADAPTIVE,
    CARDS,
    CPU,
    EPOCH,
    HALF,
    KNOWN,
    MEMORY,
    MILLI,
    MIX,
    MODELS,
    MULTIPLIER,
    NONE,
    NOW,
    NUMBER,
    OFFERS,
    PACK,
    PER_CARD,
    PER_CPU,
    PER_FILLED,
    PER_USABLE,
    RULE,
    SEEN,
    STATES,
    TOTAL,
    WEIGHT,
    WHOLE,
    WINDOW,
    GpuHosts,
    Mask,
    Worths,
)

# fmt: off
LOGITS = np.array([
    0, 40005, 80043, 120144, 160343, 200671, 241162, 281851, 322773, 363965, 405465, 447312, 489548, 532217, 575364,
    619039, 663294, 708185, 753772, 800119, 847298, 895384, 944462, 994623, 1045969, 1098612, 1152680, 1208311, 1265666,
    1324925, 1386294, 1450010, 1516347, 1585627, 1658228, 1734601, 1815290, 1900959, 1992430, 2090741, 2197225, 2313635,
    2442347, 2586689, 2751535, 2944439, 3178054, 3476099, 3891820, 4595120,
], dtype=np.int64)
# fmt: on
"""ln(k / (100 - k)) in millionths, for k from 50 to 99: the score of FGD is at least k from there on."""


def can_take(h: GpuHosts, row: I64, i: int) -> bool:
    """Whether a host has room for a task of a shape."""
    if h.cpu[i] < row[CPU] or h.memory[i] < row[MEMORY]:
        return False
    if row[NUMBER] == 0:
        return True
    return bool((row[MODELS] & h.model[i]) != 0 and h.levels[i, CARDS - row[NUMBER]] >= row[MILLI])


def filled(w: Worths, cpu: int, memory: int, model: int, full: int, first: int, last: int) -> int:
    """The thousandths of cards that a window of tasks takes on a host, those that don't fit left out. `full` cards are
    free; those in use stand in `w.parts`, `first` to `last` of the offers are the window.
    """
    used, room = 0, 0
    for at in range(CARDS):
        level = w.state[3 + at]
        if 0 < level < WHOLE:
            w.parts[room] = level
            room += 1
    for o in range(first, last):
        if full == 0 and room == 0:
            break
        task = w.windows[o]
        if task[CPU] > cpu or task[MEMORY] > memory or (task[MODELS] & model) == 0:
            continue
        milli, number = task[MILLI], task[NUMBER]
        if milli == WHOLE:
            if number > full:
                continue
            full -= number
        else:
            least, where = WHOLE, -1
            for p in range(room):
                level = w.parts[p]
                if milli <= level < least:
                    least, where = level, p
            if where < 0:
                if full == 0:
                    continue
                full -= 1
                where = room
                room += 1
            rest = least - milli
            if rest:
                w.parts[where] = rest
            else:
                room -= 1
                w.parts[where] = w.parts[room]
        cpu -= task[CPU]
        memory -= task[MEMORY]
        used += milli * number
    return used


def usable(w: Worths, m: int, full: int) -> int:
    """The free thousandths on the cards of the state where a task of the mix could go; 0 where none could."""
    task = w.mix[m]
    if task[CPU] > w.state[0] or task[MEMORY] > w.state[1] or (task[MODELS] & w.state[2]) == 0:
        return 0
    if task[MILLI] == WHOLE:
        return full * WHOLE if full >= task[NUMBER] else 0
    free = 0
    at = CARDS + 2
    while at > 2 and w.state[at] >= task[MILLI]:
        free += w.state[at]
        at -= 1
    return int(free)


def worth_of_state(w: Worths) -> int:
    """The worth of the state, without a look at those that are known."""
    full, at = 0, CARDS + 2
    while at > 2 and w.state[at] == WHOLE:
        full += 1
        at -= 1
    worth = 0
    if w.numbers[PER_FILLED] and w.state[CARDS + 2] > 0:
        for first in range(0, w.numbers[OFFERS], WINDOW):
            worth += filled(w, w.state[0], w.state[1], w.state[2], full, first, first + WINDOW)
        worth *= w.numbers[PER_FILLED]
    of_mix = 0
    for m in range(w.numbers[MIX]):
        of_mix += w.mix[m, WEIGHT] * usable(w, m, full)
    return int(worth + of_mix * w.numbers[PER_USABLE])


def write_key(w: Worths) -> int:
    """Writes the state as a key; returns where it is looked for first."""
    key = w.key
    key[0], key[1], key[2] = w.state[0], w.state[1], w.state[2]
    for word in range(3):
        bits = 0
        for at in range(3 + 6 * word, min(9 + 6 * word, 3 + CARDS)):
            bits = (bits << 10) | w.state[at]
        key[3 + word] = bits
    mask = (1 << HALF) - 1
    digest = 0
    for word in range(len(key)):
        digest = (((digest ^ key[word] ^ (key[word] >> HALF)) & mask) * MULTIPLIER) >> 16
    return int(digest & (STATES - 1))


def worth(w: Worths) -> int:
    """The worth of the state."""
    at = write_key(w)
    now = w.numbers[NOW]
    while w.stamps[at] == now:
        same = True
        for word in range(len(w.key)):
            if w.keys[at, word] != w.key[word]:
                same = False
                break
        if same:
            return int(w.values[at])
        at = (at + 1) & (STATES - 1)
    value = worth_of_state(w)
    remember(w, at, value)
    return value


def remember(w: Worths, at: int, value: int) -> None:
    """Keeps the worth of the state whose key was written, at a free place."""
    if w.numbers[KNOWN] > STATES // 2:
        for each in range(STATES):
            w.stamps[each] = 0
        w.numbers[KNOWN] = 0
    w.numbers[KNOWN] += 1
    w.stamps[at], w.values[at] = w.numbers[NOW], value
    for word in range(len(w.key)):
        w.keys[at, word] = w.key[word]


def load(h: GpuHosts, w: Worths, row: I64, i: int, tasks: int) -> None:
    """Makes the state of a host the one that is looked at, with so many tasks of a shape fewer as to CPU and memory."""
    w.state[0], w.state[1] = h.cpu[i] - tasks * row[CPU], h.memory[i] - tasks * row[MEMORY]
    w.state[2] = h.model[i]
    for at in range(CARDS):
        w.state[3 + at] = h.levels[i, at]


def load_after(h: GpuHosts, w: Worths, row: I64, i: int, at: int) -> None:
    """And with a task on it: a share on the card at a place of the levels, or whole cards."""
    load(h, w, row, i, 1)
    number = row[NUMBER]
    if number == 0:
        return
    if row[MILLI] == WHOLE:
        for place in range(CARDS - 1, -1, -1):
            w.state[3 + place] = w.state[3 + place - number] if place >= number else 0
        return
    rest = w.state[3 + at] - row[MILLI]
    while at > 0 and w.state[2 + at] > rest:
        w.state[3 + at] = w.state[2 + at]
        at -= 1
    w.state[3 + at] = rest


def step_of(gain: int, total: int) -> int:
    """100 less the score of FGD for what is less fragmented, in thousandths times the tasks of the mix."""
    amount = gain * 1000 if gain >= 0 else -gain * 1000
    low, high = 0, len(LOGITS)
    while low < high:
        middle = (low + high) // 2
        if LOGITS[middle] * total <= amount:
            low = middle + 1
        else:
            high = middle
    if gain >= 0:
        return 51 - low
    return 49 + low if LOGITS[low - 1] * total == amount else 50 + low


def score_at(h: GpuHosts, w: Worths, row: I64, i: int, at: int, before: int) -> int:
    """The score of a host that can take a task, with its card at a place of the levels; `before`: what it is worth."""
    load_after(h, w, row, i, at)
    loss = before - worth(w)
    if row[RULE] == ADAPTIVE:
        return loss
    total = int(w.numbers[TOTAL])
    return step_of(total * int(row[NUMBER] * row[MILLI]) - loss, total)


def score_of(h: GpuHosts, w: Worths, row: I64, i: int) -> int:
    """The score of a host for a shape, by the best of its cards; `NONE` where a task doesn't fit."""
    if not can_take(h, row, i):
        return NONE
    free = 0
    for at in range(CARDS):
        free += h.levels[i, at]
    if row[RULE] == PACK:
        return int(h.cpu[i] * h.weight[0] + h.memory[i] * h.weight[1] + free * h.weight[2])
    load(h, w, row, i, 0)
    before = worth(w)
    best, last = NONE, -1
    if row[NUMBER] == 0 or row[MILLI] == WHOLE:
        best = score_at(h, w, row, i, 0, before)
    else:
        for at in range(CARDS):
            level = h.levels[i, at]
            if level >= row[MILLI] and level != last:
                best = min(best, score_at(h, w, row, i, at, before))
            last = level
    if row[RULE] == ADAPTIVE:
        best += int(free * PER_CARD + h.cpu[i] * PER_CPU + h.place[i])
    return best


def card_of(h: GpuHosts, w: Worths, row: I64, i: int) -> int:
    """The card of a host that can take a task: the best of them, or the first of those that are free; -1: it needs
    none.
    """
    if row[NUMBER] == 0:
        return -1
    load(h, w, row, i, 0)
    before = worth(w) if row[RULE] != PACK else 0
    best, card = NONE, -1
    for c in range(CARDS):
        level = h.cards[i, c]
        if level < row[MILLI]:
            continue
        if row[MILLI] == WHOLE:
            return c
        score = level
        if row[RULE] != PACK:
            at = 0
            while h.levels[i, at] != level:
                at += 1
            score = score_at(h, w, row, i, at, before)
        if score < best:
            best, card = score, c
    return card


def best_host(h: GpuHosts, w: Worths, row: I64, scores: I64, open_: Mask, clock: int) -> int:
    """The host with the least score of those that are open, the first of equals; -1: there is none. Brings scores up
    to the clock.
    """
    seen = row[SEEN] if row[EPOCH] == w.numbers[NOW] else -1
    best, host = NONE, -1
    for i in range(len(scores)):
        if h.version[i] > seen:
            scores[i] = score_of(h, w, row, i)
        if scores[i] < best and open_[i]:
            best, host = scores[i], i
    row[SEEN], row[EPOCH] = clock, w.numbers[NOW]
    return host


def usable_by_all(h: GpuHosts, w: Worths, sums: I64) -> None:
    """For each task of the mix the usable thousandths of all hosts."""
    for m in range(w.numbers[MIX]):
        sums[m] = 0
    for i in range(len(h.cpu)):
        if h.levels[i, CARDS - 1] == 0:
            continue
        load(h, w, w.mix[0], i, 0)
        full = 0
        for at in range(CARDS):
            if h.levels[i, at] == WHOLE:
                full += 1
        for m in range(w.numbers[MIX]):
            sums[m] += usable(w, m, full)
