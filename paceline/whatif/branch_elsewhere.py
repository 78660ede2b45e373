"""The parts of a branch that a comparison asks for, of one that another build has decided."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.whatif.decided import Answer, FactAt
from paceline.whatif.run_table import RunTable


class CountsOfLengths(NamedTuple):
    """The part of `Lengths`."""

    flags: Counter[str]
    core_ms: Counter[str]


class Series(NamedTuple):
    """The part of `PoolSeries`."""

    values: dict[tuple[str, str], NDArray[np.float64]]


class Told(NamedTuple):
    """The part of `Decided`."""

    preemptions: Counter[tuple[str, str]]
    answers: dict[FactAt, Answer]
    series: Series


class BranchElsewhere(NamedTuple):
    """The part of `Branch`."""

    table: RunTable
    lengths: CountsOfLengths
    rules: Counter[str]
    decided: Told
    origins: dict[FactAt, FactAt]
    added: dict[FactAt, tuple[str, str]]


Elsewhere = Callable[[Callable[[int], None]], BranchElsewhere]
"""Runs the changed side of the next pair, and tells of each moment in milliseconds since 1970."""
