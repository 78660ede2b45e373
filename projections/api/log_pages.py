"""The route of the log: facts and decisions in words, the newest first."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection

from events.records import BY_NAME as KINDS
from events.topics import BY_NAME
from paceline.client import cell_models
from projections.api.context import Context, Pages, Place, Reading, next_token
from projections.api.list_requests import Actors
from projections.api.problems import Problem
from projections.queries import log_records
from projections.queries.log_records import LogEntry, LogFilter
from projections.queries.story_parts import text_of
from projections.record_json import at

Name = Annotated[str, Query(max_length=1024)]


def routes(context: Context) -> APIRouter:
    """The route of the log."""
    router = APIRouter(tags=["log"])

    @router.get("/v1/log")
    async def log(
        read: Reading,
        page: Pages,
        actors: Actors,
        topic: Annotated[Name, Query(description="Such as jobs or lifecycle; all without.")] = "",
        kind: Annotated[Name, Query(description="Name of a fact or a decision, such as RunsEnded.")] = "",
        job: Name = "",
        pool: Name = "",
        host: Name = "",
    ) -> Response:
        """Facts and decisions in words, the newest first. A page looks at a bounded part of the log; `looked_back_to`
        says how far, and `next_page_token` leads on, also where nothing was found there.
        """
        asked = filter_of(topic, kind, job, pool, host, actors)
        names = list(BY_NAME)
        ends = page.after(list[Place], "log", *asked)

        def look(connection: Connection) -> cell_models.LogPage:
            where = dict(zip(names, ends, strict=False)) if ends else None
            found = log_records.page(connection, context.log, asked, page.size, where)
            last = [found.ends.get(name, 0) for name in names] if found.ends else None
            return {
                "records": [_json(each) for each in found.entries],
                "looked_back_to": at(found.back_to_ms or 0),
                "next_page_token": next_token(last, "log", *asked),
            }

        return await read(look)

    return router


def filter_of(topic: str, kind: str, job: str, pool: str, host: str, actors: Sequence[str] = ()) -> LogFilter:
    """The filter that these parameters make. Raises a problem where there is no such topic or kind."""
    name = f"paceline.{topic.removeprefix('paceline.')}"
    if topic and name not in BY_NAME:
        raise Problem(422, "INVALID_REQUEST", f"{topic[:80]!r} is no topic", [("/query/topic", "no topic")])
    if kind and kind not in KINDS:
        raise Problem(422, "INVALID_REQUEST", f"{kind[:80]!r} is no kind of record", [("/query/kind", "no kind")])
    return LogFilter((name,) if topic else log_records.TOPICS, kind, job, pool, host, actors)


def _json(entry: LogEntry) -> cell_models.LogEntry:
    return {
        "position": f"{entry.topic}:{entry.offset}",
        "at": at(entry.at_ms),
        "machine": entry.machine or None,
        "round": entry.round if entry.machine else None,
        "records": [
            {"index": each.place if each.place >= 0 else None, "event": each.kind, "text": text_of(each.line)}
            for each in entry.told
        ],
        "more": entry.more,
    }
