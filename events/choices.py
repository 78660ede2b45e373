"""The record of how tasks were placed: by which strategy, with which score, among how many hosts.

Tasks of one job and shape that were placed together are one choice; a record has 12 bytes a task for them at most.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from events.columns import I64
from events.records.placement import TasksPlaced
from events.strategies import PACK

SCORE_ONE = 1 << 25
"""The recorded score of as much of one kind as the largest host has."""


class Choice(NamedTuple):
    """`strategy` by its number; `score` of the first task's host, in `SCORE_ONE`; `feasible` hosts had room."""

    strategy: int
    score: int
    feasible: int


class ChoiceColumns(TypedDict):
    """The columns of a `TasksPlaced`."""

    choice_count: I64 | None
    strategy: I64 | None
    score: I64
    feasible: I64


def choice_columns(
    counts: Sequence[int], strategies: Sequence[int], scores: I64, feasible: Sequence[int]
) -> ChoiceColumns:
    """The columns of choices, of so many tasks each; where most are of one task, each task has its own."""
    columns = np.stack([np.array(strategies, dtype=np.int64), scores, np.array(feasible, dtype=np.int64)])
    with_counts = 4 * len(counts) <= 3 * sum(counts)
    if not with_counts:
        columns = np.repeat(columns, counts, axis=1)
    return {
        "choice_count": np.array(counts, dtype=np.int64) if with_counts else None,
        "strategy": columns[0] if any(strategies) else None,
        "score": columns[1],
        "feasible": columns[2],
    }


def passed_over(placed: TasksPlaced, item: int) -> list[str]:
    """Why the alternatives before that of an item weren't taken, one code for each."""
    number = int(placed.passed_over_array[item])
    return placed.passed_codes[number].split(",") if number >= 0 else []


def choice_of(placed: TasksPlaced, item: int) -> Choice | None:
    """The choice of an item; None: the record is older than these columns."""
    if not placed.score:
        return None
    counts, strategies = placed.choice_count_array, placed.strategy_array
    at = int(np.searchsorted(np.cumsum(counts), item, side="right")) if len(counts) else item
    strategy = int(strategies[at]) if len(strategies) else PACK
    return Choice(strategy, int(placed.score_array[at]), int(placed.feasible_array[at]))
