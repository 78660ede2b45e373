"""The route of audits: who wrote which fact, allowed by what."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.actors import binding_of
from events.records import BY_NAME as KINDS
from paceline.client import cell_models
from projections.actor_names import actor_json
from projections.api.context import Context, Pages, Place, Reading, next_token
from projections.api.list_requests import Actors
from projections.api.problems import Problem
from projections.asked_values import since_ms
from projections.queries import audit
from projections.queries.audit import AuditFilter, Deed
from projections.queries.story_parts import text_of
from projections.record_json import at

Name = Annotated[str, Query(max_length=1024)]


def routes(context: Context) -> APIRouter:
    """The route of audits."""
    router = APIRouter(tags=["access"])

    @router.get("/v1/audit")
    async def list_audit(
        read: Reading,
        page: Pages,
        actors: Actors,
        kind: Annotated[Name, Query(description="Name of a fact, such as JobStopRequested.")] = "",
        pool: Annotated[Name, Query(description="A pool, those below it, and the jobs of all these.")] = "",
        job: Name = "",
        host: Name = "",
        since: Annotated[datetime | None, Query(description="From this time on.")] = None,
        until: Annotated[datetime | None, Query(description="Before this time.")] = None,
    ) -> Response:
        """Facts of users and operators, the newest first: who, when, and the binding that allowed it. A page looks at a
        bounded part of the log; `looked_back_to` says how far, and `next_page_token` leads on, also where nothing was
        found there.
        """
        if kind and kind not in KINDS:
            raise Problem(422, "INVALID_REQUEST", f"{kind[:80]!r} is no kind of record", [("/query/kind", "no kind")])
        path = f"/{pool.strip('/')}" if pool else ""
        tops = await run_in_threadpool(context.permits.audited)
        criteria = AuditFilter(actors, kind, path, job, host, since_ms(since), since_ms(until), tops)
        ends = page.after(list[Place], "audit", *criteria)

        def look(connection: Connection) -> cell_models.AuditPage:
            where = dict(zip(audit.TOPICS, ends, strict=False)) if ends else None
            the_page = audit.page(connection, context.log, criteria, page.size, where)
            last = [the_page.ends.get(name, 0) for name in audit.TOPICS] if the_page.ends else None
            return {
                "facts": [_json(each) for each in the_page.deeds],
                "looked_back_to": at(the_page.back_to_ms or 0),
                "next_page_token": next_token(last, "audit", *criteria),
            }

        return await read(look)

    return router


def _json(deed: Deed) -> cell_models.AuditedFact:
    actor, role = actor_json(deed.actor), deed.role
    return {
        "position": f"{deed.topic}:{deed.offset}",
        "at": at(deed.at_ms),
        "event": deed.kind,
        "text": text_of(deed.line),
        "pools": list(deed.pools),
        "actor": actor,
        "role": role.role if role else None,
        "role_pool": role.pool if role else None,
        "role_position": binding_of(deed.actor) or None,
    }
