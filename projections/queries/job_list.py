"""The list of jobs as JSON text. That of a job that has ended is kept: it changes only with a round about the job, and
the row says which was the last. So is a page of such jobs alone.
"""

import threading
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection

from events.codes import ENDED_JOBS
from projections.access.limits import limits
from projections.queries.entities import job_rows, jobs_json
from projections.queries.job_filter import INDEXED, JobFilter
from projections.queries.pages import RowsPage, first_of
from projections.views.limited_tables import jobs_seen
from projections.views.reader import rows_as_text

KEPT_MAX = 20_000
"""Texts that are kept, each of at most TEXT_MAX bytes."""
OF_LIMITED_MAX = 20_000
"""The same for all readers with the same limits."""
TEXT_MAX = 4096
LOOKED_AT = 10
"""For each job of a page of a limited reader so many of the newest jobs are looked at, before its own are all read."""
PAGE_MAX = 100
"""Jobs of a page that is kept; all such pages together have KEPT_MAX."""
_ENDED = frozenset(ENDED_JOBS)


Key = tuple[str, int, int, int, str, int, int, int]
"""The columns that change with a job: id, number, offset, position, state; and what a list needs of it
besides: when it was submitted, since when it waits, and how many bytes of it have no bound.
"""
NUMBER, STATE, SUBMITTED, WAITS, WEIGHT = 1, 4, 5, 6, 7
_KEY = 'job_id, number, "offset", position, state, submitted_ms, waits_ms, length(labels) + length(message)'
_STATE = """group_concat(printf('%Q%d %d %d %s', job_id, number, "offset", position, state))"""
"""The states of all jobs of a page as one text, made in one step of SQLite: each row would wait for Python's lock."""
Place = tuple[int, int]
"""Where a list goes on: since when the last job waits, 0 in a list of the newest, and its number."""


class ListedJob(NamedTuple):
    """A job of a list."""

    number: int
    submitted_ms: int
    waits_ms: int
    text: bytes

    def place(self, wanted: JobFilter) -> Place:
        """Where a list goes on behind it."""
        return (self.waits_ms if wanted.waiting else 0), self.number

    def order(self, wanted: JobFilter) -> int:
        """The key by which lists of several cells are merged."""
        return self.waits_ms if wanted.waiting else -self.submitted_ms


class JobTexts:
    """The texts of the jobs of a cell, at most so many. Any thread may ask."""

    def __init__(self, most: int = KEPT_MAX) -> None:
        self._most = most
        self._kept: dict[Key, bytes] = {}
        self._pages: dict[tuple[int, bool, str], RowsPage[ListedJob]] = {}
        self._lock = threading.Lock()

    def page(self, connection: Connection, wanted: JobFilter, size: int, after: Place | None) -> RowsPage[ListedJob]:
        """Jobs in the order of the filter, those behind a place; None: from the first on."""
        query, values = _keys(wanted, after, size + 1)
        state = ""
        if size <= PAGE_MAX:
            near = _near(wanted, after, size + 1)
            if near is not None:
                ((state, rows),) = rows_as_text(connection, f"SELECT {_STATE}, count(*) FROM ({near[0]})", near[1])
                if rows > size:
                    query, values = near
                else:
                    state = ""
            if not state:
                ((state,),) = rows_as_text(connection, f"SELECT {_STATE} FROM ({query})", values)
        key = size, wanted.waiting, state
        page = self._pages.get(key) if state else None
        if page is None:
            found: RowsPage[Any] = first_of(rows_as_text(connection, query, values), size, itemgetter(WEIGHT))
            page = RowsPage(self._listed(connection, found.rows), found.more)
            if state and all(map(self._kept.__contains__, found.rows)):
                self._keep(self._pages, {key: page}, self._most // PAGE_MAX)
        return page

    def _listed(self, connection: Connection, keys: Sequence[Any]) -> list[ListedJob]:
        texts = list(map(self._kept.get, keys))
        missing = [at for at, text in enumerate(texts) if text is None]
        if missing:
            for at, text in zip(missing, self._rendered(connection, [keys[at] for at in missing]), strict=True):
                texts[at] = text
        columns = [map(itemgetter(at), keys) for at in (NUMBER, SUBMITTED, WAITS)]
        return list(map(ListedJob, *columns, texts))

    def _rendered(self, connection: Connection, keys: Sequence[Key]) -> list[bytes]:
        numbers = [number for _, number, *_ in keys]
        texts = list(map(orjson.dumps, jobs_json(connection, job_rows(connection, numbers))))
        pairs = zip(keys, texts, strict=True)
        to_keep = {key: text for key, text in pairs if key[STATE] in _ENDED and len(text) <= TEXT_MAX}
        self._keep(self._kept, to_keep, self._most)
        return texts

    def _keep(self, texts: dict[Any, Any], new: dict[Any, Any], most: int) -> None:
        with self._lock:
            texts.update(new)
            while len(texts) > most:
                del texts[next(iter(texts))]


def _keys(wanted: JobFilter, after: Place | None, most: int) -> tuple[str, list[Any]]:
    """The query of the keys of a page, as text: making a statement of it would take as long as all the rest. What
    narrows a list is looked for in the index that has it, so that a rare job is found without reading all others.
    """
    conditions, values = wanted.conditions()
    if not conditions and not wanted.waiting:  # most often
        behind = "WHERE number < ? " if after is not None else ""
        return f"SELECT {_KEY} FROM jobs {behind}ORDER BY number DESC LIMIT ?", [*(after or ())[1:], most]
    order, source = "number DESC", "jobs"
    if wanted.waiting:
        order = "waits_ms, number"
    elif wanted.narrows():
        source = INDEXED
    if after is not None:
        conditions.append("(waits_ms, number) > (?, ?)" if wanted.waiting else "number < ?")
        values += after if wanted.waiting else after[1:]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    numbers = f"SELECT number FROM {source}{where} ORDER BY {order} LIMIT ?"
    return f"SELECT {_KEY} FROM jobs WHERE number IN ({numbers}) ORDER BY {order}", [*values, most]


def _near(jobs: JobFilter, after: Place | None, most: int) -> tuple[str, list[Any]] | None:
    """The query of the keys of a page of all that a limited reader sees, as far as it is among the newest of all: who
    sees many of them needn't read all of its own and sort them. None: something else is asked for.
    """
    of = limits()
    if of is None or of.job_id or jobs.waiting or len(jobs.conditions()[0]) > 1:
        return None
    end = "(SELECT max(number) + 1 FROM main.jobs)" if after is None else "?"
    # With the sign SQLite doesn't look for an index by pools.
    seen = f"number >= {end} - {LOOKED_AT * most} AND number < {end} AND {jobs_seen(of, '+pool')}"
    values = [] if after is None else [after[1], after[1]]
    return f"SELECT {_KEY} FROM main.jobs WHERE {seen} ORDER BY number DESC LIMIT ?", [*values, most]


def page_text(texts: Sequence[bytes], token: str) -> bytes:
    """The body of a page."""
    return b'{"jobs":[' + b",".join(texts) + b'],"next_page_token":' + orjson.dumps(token) + b"}"
