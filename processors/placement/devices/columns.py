"""The data by which hosts with GPUs are compared: columns over hosts, and what the states of hosts are worth.

All is int64. CPU is in thousandths, memory in MiB, what is free of a card in thousandths of it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from events.columns import I64

Mask = NDArray[np.bool_]

CARDS = 16
"""The cards of a host at most."""
WHOLE = 1000
"""Thousandths of a card."""
NONE = 1 << 62
"""The score of a host that can't take a task."""

PACK, FRAGMENTATION, ADAPTIVE = range(3)
"""The rules by which hosts are scored; the least score is the best."""

# A row of a task: of a shape that is placed, of those in windows and in the mix.
CPU, MEMORY, NUMBER, MILLI, MODELS = range(5)
"""Cards, thousandths of each, and a bit for each model that they may be of."""
WEIGHT = 5
"""In the mix: what a usable thousandth is worth."""
RULE, SEEN, EPOCH = 5, 6, 7
"""In a shape: the rule, and the clock of hosts and the epoch of worths up to which its scores are right."""
TASK = 8

# Numbers of the worths.
NOW, KNOWN, OFFERS, MIX, PER_FILLED, PER_USABLE, TOTAL = range(7)
"""The epoch, how many states are known, how many tasks are offered and in the mix; what a thousandth is worth that the
offers fill, or that the mix can use; the tasks of all typical shapes together.
"""

WINDOWS, WINDOW = 24, 32
"""The windows of offers, and the tasks in each."""
MIX_MAX = 320
SCALE = WINDOWS << 20
"""The unit of `ADAPTIVE`: a thousandth of a card is so many."""
PER_CARD, PER_CPU = 6 * SCALE // 1000, 3 * SCALE // 12000
"""The cost of a free thousandth of a card and of a CPU in that unit: fuller hosts come first."""
PER_PLACE = 300 * SCALE
"""And of the last place among the hosts of a model, the others in proportion: the first ones fill up (decision 111)."""

KEY = 6
"""A state in a few numbers: CPU, memory, model, and ten bits for each card."""
STATES = 1 << 16
"""Room for states that are known, a power of 2."""
HALF = 31
MULTIPLIER = 2654435761
"""Knuth's, for hashes of numbers below 2^31: the product stays below 2^63."""


class GpuHosts(NamedTuple):
    """Columns over hosts."""

    cpu: I64
    memory: I64
    cards: I64
    """[hosts, CARDS]"""
    levels: I64
    """The same of each host, ascending."""
    model: I64
    """The bit of the model of its cards."""
    version: I64
    """The clock at its last change."""
    place: I64
    """The cost of its place among the hosts of its model."""
    weight: I64
    """The weights of a free unit of CPU, memory and cards when hosts are packed."""


class Worths(NamedTuple):
    """The worth of states of hosts, by the tasks that are expected."""

    windows: I64
    """[WINDOWS * WINDOW, TASK]: tasks that are offered to a host, those of a window after each other."""
    mix: I64
    """[MIX_MAX, TASK]"""
    keys: I64
    """[STATES, KEY]: the states that are known."""
    values: I64
    stamps: I64
    """The epoch in which a state was written; another than the present one: there is none."""
    numbers: I64
    state: I64
    """The state that is looked at: CPU, memory, model, levels."""
    parts: I64
    """The cards that are in use while it is filled."""
    key: I64


def new_hosts(hosts: int) -> GpuHosts:
    """Columns of hosts that have nothing."""

    def zeros(*shape: int) -> I64:
        return np.zeros(shape, dtype=np.int64)

    return GpuHosts(
        cpu=zeros(hosts),
        memory=zeros(hosts),
        cards=zeros(hosts, CARDS),
        levels=zeros(hosts, CARDS),
        model=zeros(hosts),
        version=zeros(hosts),
        place=zeros(hosts),
        weight=zeros(3),
    )


def new_worths() -> Worths:
    """Worths by which all states are worth nothing."""

    def zeros(*shape: int) -> I64:
        return np.zeros(shape, dtype=np.int64)

    worths = Worths(
        windows=zeros(WINDOWS * WINDOW, TASK),
        mix=zeros(MIX_MAX, TASK),
        keys=zeros(STATES, KEY),
        values=zeros(STATES),
        stamps=zeros(STATES),
        numbers=zeros(7),
        state=zeros(3 + CARDS),
        parts=zeros(CARDS),
        key=zeros(KEY),
    )
    worths.numbers[NOW] = 1
    return worths
