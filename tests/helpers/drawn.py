"""What is drawn by seed: the suite draws a part, `make soak` all of it (`PACELINE_TEST_ALL=1`)."""

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")

ALL = bool(os.environ.get("PACELINE_TEST_ALL"))
"""Whether every seed is drawn, and every example."""
FEWER = 4
"""One in so many examples is drawn in the suite."""

drawn = pytest.mark.drawn
"""A test that draws less in the suite than in the soak."""


def some(every: Iterable[T], suite: int) -> list[T]:
    """What a test draws: the first so many in the suite. The test is marked `drawn`."""
    return [*every] if ALL else [*every][:suite]


def seeds(every: int | Iterable[int], suite: int, name: str = "seed") -> Callable[[Any], Any]:
    """A test for each seed; so many of them in the suite."""
    numbers = range(every) if isinstance(every, int) else every
    return lambda test: drawn(pytest.mark.parametrize(name, some(numbers, suite))(test))


def examples(every: int, suite: int | None = None, **more: Any) -> Callable[[Any], Any]:
    """So many examples of hypothesis; in the suite a quarter, or as many as is said."""
    few = every // FEWER if suite is None else suite
    return lambda test: drawn(settings(max_examples=every if ALL else few, **more)(test))
