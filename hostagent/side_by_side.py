"""Work of which each piece waits for the disk, done side by side: all of it takes about as long as one piece."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

THREADS = 8

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def side_by_side(do: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
    """Calls `do`, which raises nothing, for each, in any thread; a lone one needs none. Returns what it returned."""
    if len(items) < 2:
        return list(map(do, items))
    share = -(-len(items) // THREADS)
    parts = [items[at : at + share] for at in range(0, len(items), share)]
    return [outcome for part in _threads().map(lambda part: list(map(do, part)), parts) for outcome in part]


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "disk")
