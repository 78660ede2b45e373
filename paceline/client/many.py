"""The same request about many things, some at once."""

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from paceline.client.errors import InvalidValue, NotFound, Refused

T = TypeVar("T")
AT_ONCE = 8
"""Requests that are sent at once where there are more things than that."""


def each_of(
    ids: Collection[str], call: Callable[[str], T]
) -> Iterator[tuple[str, T | InvalidValue | NotFound | Refused]]:
    """Asks about each, and returns the answers in the order of the ids, refusals among them. Raises what else `call`
    raises.
    """

    def ask(each: str) -> T | InvalidValue | NotFound | Refused:
        try:
            return call(each)
        except (InvalidValue, NotFound, Refused) as error:
            return error

    if len(ids) <= AT_ONCE:
        yield from ((each, ask(each)) for each in ids)
        return
    from concurrent.futures import ThreadPoolExecutor

    threads = ThreadPoolExecutor(AT_ONCE)
    try:
        yield from zip(ids, threads.map(ask, ids), strict=True)
    finally:
        threads.shutdown(cancel_futures=True)
