"""Work of which each piece waits for the disk, done side by side: all of it takes about as long as one piece."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from typing import TypeVar

THREADS = 8

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def side_by_side(do: Callable[[Item], Outcome], items: Sequence[Item]) -> Iterator[Outcome]:
    """Calls `do`, which raises nothing, for each, in any thread; a lone one needs none. Yields what it returns, the
    first that is done first.
    """
    if len(items) < 2:
        yield from map(do, items)
        return
    share = -(-len(items) // THREADS)
    parts = [items[at : at + share] for at in range(0, len(items), share)]
    for done in as_completed([_threads().submit(lambda part: list(map(do, part)), part) for part in parts]):
        yield from done.result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, "disk")
