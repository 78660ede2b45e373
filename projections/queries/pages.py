"""Pages of what queries find."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, Select

R = TypeVar("R")
PAGE_BYTES_MAX = 1024 * 1024
"""Bytes of text that users chose, in one page of a list: many readers may take their time over one each."""
FETCHED = 50


class Page(NamedTuple, Generic[R]):
    """Some of a list, and where to go on; None: that was all."""

    items: list[R]
    next: Any


class RowsPage(NamedTuple, Generic[R]):
    """The first rows that a query finds, and whether there are more."""

    rows: list[R]
    more: bool


def some(
    connection: Connection, row: Callable[..., R], query: Select[Any], size: int, weigh: Callable[[R], int]
) -> RowsPage[R]:
    """At most `size` rows, and not many more bytes than an answer may have: `weigh` tells those of a row that have no
    bound of their own.
    """
    rows = (row(*values) for part in connection.execute(query.limit(size + 1)).partitions(FETCHED) for values in part)
    return first_of(rows, size, weigh)


def first_of(candidates: Iterable[R], size: int, weigh: Callable[[R], int]) -> RowsPage[R]:
    """The same of rows that a query for one more finds."""
    rows: list[R] = []
    weight = 0
    for row in candidates:
        if len(rows) == size or weight > PAGE_BYTES_MAX:
            return RowsPage(rows, True)
        rows.append(row)
        weight += weigh(row)
    return RowsPage(rows, False)


def rows_of(connection: Connection, row: Any, query: Select[Any]) -> list[Any]:
    """The rows that a query of all columns of a table finds."""
    return [row(*values) for values in connection.execute(query)]
