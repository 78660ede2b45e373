"""The loops of the kernels as numpy: what scores hosts where nothing is compiled, with the same answers."""

import numpy as np

from events.columns import I64, distinct
from processors.placement.devices import kernels
from processors.placement.devices.columns import (
    ADAPTIVE,
    CARDS,
    CPU,
    EPOCH,
    HALF,
    KEY,
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

STEPS = np.concatenate([-kernels.LOGITS[:0:-1], kernels.LOGITS])
"""From where on the score of FGD is 1 to 99."""


def best_host(h: GpuHosts, w: Worths, row: I64, scores: I64, open_: Mask, clock: int) -> int:
    """As `kernels.best_host`."""
    seen = int(row[SEEN]) if row[EPOCH] == w.numbers[NOW] else -1
    changed = np.flatnonzero(h.version[: len(scores)] > seen)
    if len(changed):
        scores[changed] = scores_of(h, w, row, changed)
    row[SEEN], row[EPOCH] = clock, w.numbers[NOW]
    if not len(scores):
        return -1
    own = np.where(open_, scores, NONE)
    host = int(own.argmin())
    return host if own[host] < NONE else -1


def scores_of(h: GpuHosts, w: Worths, row: I64, hosts: I64) -> I64:
    """The score of each of some hosts, as `kernels.score_of`."""
    number, milli, rule = int(row[NUMBER]), int(row[MILLI]), int(row[RULE])
    fits = (h.cpu[hosts] >= row[CPU]) & (h.memory[hosts] >= row[MEMORY])
    if number:
        fits &= ((h.model[hosts] & row[MODELS]) != 0) & (h.levels[hosts, CARDS - number] >= milli)
    out = np.full(len(hosts), NONE)
    index = hosts[fits]
    if not len(index):
        return out
    free = h.levels[index].sum(axis=1)
    if rule == PACK:
        out[fits] = h.cpu[index] * h.weight[0] + h.memory[index] * h.weight[1] + free * h.weight[2]
        return out
    before = np.column_stack([h.cpu[index], h.memory[index], h.model[index], h.levels[index]])
    owners, after = _after(before, row)
    worths = worths_of(w, np.concatenate([before, after]))
    loss = worths[: len(before)][owners] - worths[len(before) :]
    if rule == ADAPTIVE:
        each = loss
    else:
        total = int(w.numbers[TOTAL])
        each = _steps(total * number * milli - loss, total)
    best = np.full(len(index), NONE)
    np.minimum.at(best, owners, each)
    if rule == ADAPTIVE:
        best += free * PER_CARD + h.cpu[index] * PER_CPU + h.place[index]
    out[fits] = best
    return out


def _after(before: I64, row: I64) -> tuple[I64, I64]:
    """The states with a task, for each distinct level of a card that it may have; and of which state each comes."""
    number, milli = int(row[NUMBER]), int(row[MILLI])
    levels = before[:, 3:]
    if number == 0 or milli == WHOLE:
        owners = np.arange(len(before))
        after = before.copy()
        if number:
            after[:, 3 + number :] = levels[:, :-number]
            after[:, 3 : 3 + number] = 0
    else:
        fresh = np.diff(levels, axis=1, prepend=-1) > 0
        owners, places = np.nonzero((levels >= milli) & fresh)
        after = before[owners]
        after[np.arange(len(owners)), 3 + places] -= milli
        after[:, 3:].sort(axis=1)
    after[:, 0] -= row[CPU]
    after[:, 1] -= row[MEMORY]
    return owners, after


def _steps(gain: I64, total: int) -> I64:
    """As `kernels.step_of`."""
    steps: I64 = 100 - np.searchsorted(STEPS * total, gain * 1000, side="right")
    return steps


def worths_of(w: Worths, states: I64) -> I64:
    """The worths of some states, as `kernels.worth`."""
    keys, first, index = np.unique(_keys(states), axis=0, return_index=True, return_inverse=True)
    values = np.zeros(len(keys), dtype=np.int64)
    todo, at = np.arange(len(keys)), _places(keys)
    unknown = []
    while len(todo):
        is_set = w.stamps[at] == w.numbers[NOW]
        same = is_set & (w.keys[at] == keys[todo]).all(axis=1)
        values[todo[same]] = w.values[at[same]]
        unknown.append((todo[~is_set], at[~is_set]))
        todo, at = todo[is_set & ~same], (at[is_set & ~same] + 1) & (STATES - 1)
    new = np.concatenate([numbers for numbers, _ in unknown])
    if len(new):
        values[new] = _worths_of_states(w, states[first[new]])
        for number in new.tolist():
            w.key[:] = keys[number]
            place = int(_places(keys[number : number + 1])[0])
            while w.stamps[place] == w.numbers[NOW]:
                place = (place + 1) & (STATES - 1)
            kernels.remember(w, place, int(values[number]))
    return values[index.ravel()]


def _keys(states: I64) -> I64:
    keys = np.zeros((len(states), KEY), dtype=np.int64)
    keys[:, :3] = states[:, :3]
    for at in range(CARDS):
        keys[:, 3 + at // 6] = (keys[:, 3 + at // 6] << 10) | states[:, 3 + at]
    return keys


def _places(keys: I64) -> I64:
    mask = (1 << HALF) - 1
    digest = np.zeros(len(keys), dtype=np.int64)
    for word in range(KEY):
        digest = (((digest ^ keys[:, word] ^ (keys[:, word] >> HALF)) & mask) * MULTIPLIER) >> 16
    places: I64 = digest & (STATES - 1)
    return places


def _worths_of_states(w: Worths, states: I64) -> I64:
    """As `kernels.worth_of_state`."""
    mix = w.mix[: int(w.numbers[MIX])]
    worths: I64 = _usable(mix, states) @ mix[:, WEIGHT] * w.numbers[PER_USABLE]
    if w.numbers[PER_FILLED]:
        worths += _filled(w.windows[: int(w.numbers[OFFERS])], states) * w.numbers[PER_FILLED]
    return worths


def _usable(mix: I64, states: I64) -> I64:
    """[states, mix]: the usable thousandths, as `kernels.usable`."""
    levels = states[:, 3:]
    full = (levels == WHOLE).sum(axis=1)
    out = np.zeros((len(states), len(mix)), dtype=np.int64)
    for m, task in enumerate(mix):
        fits = (task[CPU] <= states[:, 0]) & (task[MEMORY] <= states[:, 1]) & ((task[MODELS] & states[:, 2]) != 0)
        if task[MILLI] == WHOLE:
            amount = np.where(full >= task[NUMBER], full * WHOLE, 0)
        else:
            amount = np.where(levels >= task[MILLI], levels, 0).sum(axis=1)
        out[:, m] = np.where(fits, amount, 0)
    return out


def _filled(offers: I64, states: I64) -> I64:
    """The thousandths that all windows of offers take on each state together, as `kernels.filled`."""
    windows = len(offers) // WINDOW
    if not windows:
        return np.zeros(len(states), dtype=np.int64)
    offers = offers.reshape(windows, WINDOW, -1)
    cpu, memory = (np.repeat(states[:, at : at + 1], windows, axis=1) for at in (0, 1))
    model = states[:, 2:3]
    levels = np.repeat(states[:, None, 3:], windows, axis=1)
    used = np.zeros((len(states), windows), dtype=np.int64)
    rows, columns = np.indices(used.shape)
    for o in range(WINDOW):
        task = offers[:, o]
        milli, number = task[:, MILLI], task[:, NUMBER]
        fits = (task[:, CPU] <= cpu) & (task[:, MEMORY] <= memory) & ((task[:, MODELS] & model) != 0)
        may = np.where(levels >= milli[:, None], levels, NONE)
        tightest = may.argmin(axis=2)
        one = fits & (number == 1) & (may.min(axis=2) < NONE)
        levels[rows, columns, tightest] -= np.where(one, milli, 0)
        done = one
        if (number > 1).any():
            idle = levels == WHOLE
            many = fits & (number > 1) & (idle.sum(axis=2) >= number)
            full = idle & many[:, :, None] & (idle.cumsum(axis=2) <= number[:, None])
            levels[full] = 0
            done = one | many
        cpu -= np.where(done, task[:, CPU], 0)
        memory -= np.where(done, task[:, MEMORY], 0)
        used += np.where(done, milli * number, 0)
    sums: I64 = used.sum(axis=1)
    return sums


def card_of(h: GpuHosts, w: Worths, row: I64, i: int) -> int:
    """As `kernels.card_of`."""
    milli = int(row[MILLI])
    if row[NUMBER] == 0:
        return -1
    cards = h.cards[i]
    if milli == WHOLE:
        return int(np.argmax(cards == WHOLE))
    levels = distinct(cards[cards >= milli])
    if row[RULE] == PACK:
        best = levels[:1]
    else:
        before = np.concatenate([[h.cpu[i], h.memory[i], h.model[i]], h.levels[i]])[None]
        _, after = _after(before, row)
        worths = worths_of(w, np.concatenate([before, after]))
        loss = worths[0] - worths[1:]
        total = int(w.numbers[TOTAL])
        scores = loss if row[RULE] == ADAPTIVE else _steps(total * milli - loss, total)
        best = levels[scores == scores.min()]
    return int(np.flatnonzero(np.isin(cards, best))[0])


def usable_by_all(h: GpuHosts, w: Worths, sums: I64) -> None:
    """As `kernels.usable_by_all`."""
    mix = w.mix[: int(w.numbers[MIX])]
    states = np.column_stack([h.cpu, h.memory, h.model, h.levels])
    sums[: len(mix)] = _usable(mix, states).sum(axis=0)
