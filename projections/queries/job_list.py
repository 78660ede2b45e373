"""The list of jobs as JSON text. That of a job that has ended is kept: it changes only with a round about the job, and
the row says which was the last.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, select

from events.codes import ENDED_JOBS
from projections.queries.entities import jobs_json
from projections.queries.pages import RowsPage, first_of, rows_of
from projections.views import tables
from projections.views.reader import rows_as_text
from projections.views.rows import JobRow

KEPT_MAX = 20_000
"""Texts that are kept, each of at most TEXT_MAX bytes."""
TEXT_MAX = 4096
_ENDED = frozenset(ENDED_JOBS)
_jobs = tables.jobs.c


class JobFilter(NamedTuple):
    """Which jobs are meant; what is empty lets all through."""

    states: Sequence[str]
    pool: str
    labels: Sequence[tuple[str, str]]


Key = tuple[str, int, int, int, str, int, int]
"""What tells a state of a job from all others: id, number, offset, position, state; and what a list needs of it
besides: when it was submitted, and how many bytes of it have no bound.
"""
NUMBER, STATE, SUBMITTED, WEIGHT = 1, 4, 5, 6


class ListedJob(NamedTuple):
    """A job of a list."""

    number: int
    submitted_ms: int
    text: bytes


class JobTexts:
    """The texts of the jobs of a cell. Any thread may ask."""

    def __init__(self) -> None:
        self._kept: dict[Key, bytes] = {}

    def page(self, connection: Connection, wanted: JobFilter, size: int, before: int) -> RowsPage[ListedJob]:
        """Jobs, the newest first, from before a job's number on, -1: from the newest."""
        values: list[Any] = [*wanted.states, *filter(None, [wanted.pool]), *chain(*wanted.labels)]
        values += [before] if before >= 0 else []
        query = _keys(len(wanted.states), bool(wanted.pool), len(wanted.labels), before >= 0)
        found: RowsPage[Any] = first_of(rows_as_text(connection, query, (*values, size + 1)), size, itemgetter(WEIGHT))
        texts = {key: text for key in found.rows if (text := self._kept.get(key))}
        missing = [key for key in found.rows if key not in texts]
        if missing:
            texts.update(zip(missing, self._rendered(connection, missing), strict=True))
        return RowsPage([ListedJob(key[NUMBER], key[SUBMITTED], texts[key]) for key in found.rows], found.more)

    def _rendered(self, connection: Connection, keys: Sequence[Key]) -> list[bytes]:
        numbers = [key[NUMBER] for key in keys]
        rows: list[JobRow] = rows_of(connection, JobRow, select(tables.jobs).where(_jobs.number.in_(numbers)))
        shown = map(orjson.dumps, jobs_json(connection, rows))
        of: dict[Any, bytes] = {row.number: text for row, text in zip(rows, shown, strict=True)}
        texts = [of[number] for number in numbers]
        for key, text in zip(keys, texts, strict=True):
            if key[STATE] in _ENDED and len(text) <= TEXT_MAX:
                self._kept[key] = text
        while len(self._kept) > KEPT_MAX:
            self._kept.pop(next(iter(self._kept), None), None)  # type: ignore[arg-type]
        return texts


@lru_cache
def _keys(states: int, pool: bool, labels: int, before: bool) -> str:
    """The query of the keys of a page, as text: making a statement of it would take as long as all the rest."""
    conditions = [f"state IN ({', '.join('?' * states)})"] * bool(states) + ["pool = ?"] * pool
    conditions += ["EXISTS (SELECT 1 FROM json_each(jobs.labels) AS l WHERE l.key = ? AND l.value = ?)"] * labels
    conditions += ["number < ?"] * before
    return (
        'SELECT job_id, number, "offset", position, state, submitted_ms, length(labels) + length(message) FROM jobs '
        f"{'WHERE ' if conditions else ''}{' AND '.join(conditions)} ORDER BY number DESC LIMIT ?"
    )


def page_text(texts: Sequence[bytes], token: str) -> bytes:
    """The body of a page."""
    return b'{"jobs":[' + b",".join(texts) + b'],"next_page_token":' + orjson.dumps(token) + b"}"
