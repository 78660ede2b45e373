"""Routes of SLAs: what is left of budgets, and the budgets that jobs share."""

import uuid
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from pydantic import ValidationError
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.bounds import WORD_MAX
from events.codes import Code
from events.records.jobs import SlaGroupDefined
from events.sla import SLA_GROUP
from events.spec.problems import problems
from events.spec.sla import GroupBounds
from paceline.client.json_type import Json
from paceline.client.sla_models import SlaGroup, SlaGroupList, SlasPage, SlaState
from projections.api.commands import Reason, answered
from projections.api.context import Context, Pages, Reading, Wait, next_token
from projections.api.job_rows import find_job
from projections.api.list_requests import must_have_pool
from projections.api.problems import ANSWERED, Problem
from projections.queries import slas as queries
from projections.queries.job_filter import subtree
from projections.queries.log_time import newest_ms
from projections.views import tables

LOOKED_AT = 500
"""So many SLAs are read at once for a page."""


def routes(context: Context) -> APIRouter:
    """The routes of SLAs."""
    router = APIRouter(tags=["slas"])
    _reads(router)
    _groups(router, context)
    return router


def _reads(router: APIRouter) -> None:
    @router.get("/v1/jobs/{job_id}/sla")
    async def sla(job_id: str, read: Reading) -> Response:
        """The budget of a job: what it allows, what is used of it and by what, and what waits for it."""
        return await read(lambda connection: _of_job(connection, job_id))

    @router.get("/v1/slas")
    async def slas(
        read: Reading,
        page: Pages,
        pool: Annotated[str, Query(max_length=WORD_MAX, description="Of jobs of this pool and those below it.")] = "",
        at_risk: Annotated[
            bool,
            Query(description="Only of jobs whose next planned disruption would be refused, or below a bound."),
        ] = False,
    ) -> Response:
        """The budgets of open jobs that have an SLA, by job."""
        after = page.after(str, "slas", pool, at_risk) or ""

        def look(connection: Connection) -> SlasPage:
            must_have_pool([connection], pool)
            states = _page(connection, pool, at_risk, after, page.size + 1)
            last = states[page.size - 1]["job_id"] if len(states) > page.size else None
            return {"slas": states[: page.size], "next_page_token": next_token(last, "slas", pool, at_risk)}

        return await read(look)


def _of_job(connection: Connection, job_id: str) -> SlaState:
    return queries.sla_of(connection, find_job(connection, job_id), newest_ms(connection))


def _page(connection: Connection, pool: str, at_risk: bool, after: str, size: int) -> list[SlaState]:
    """The first SLAs after a job that are looked for."""
    own, first, end = subtree(pool)
    budgets, states = queries.Budgets(connection, newest_ms(connection)), list[SlaState]()
    most = LOOKED_AT if pool or at_risk else size
    while len(states) < size:
        rows = queries.sla_rows(connection, tables.slas.c.job_id > after, most=most)
        jobs = queries.jobs_of(connection, [row.job_id for row in rows])
        there = [(jobs[row.job_id], row) for row in rows if row.job_id in jobs]
        mine = [(job, row) for job, row in there if not pool or job.pool == own or first < job.pool < end]
        states += budgets.states(mine, at_risk)
        if len(rows) < most:
            break
        after = rows[-1].job_id
    return states[:size]


def _groups(router: APIRouter, context: Context) -> None:
    @router.get("/v1/sla-groups")
    async def groups(read: Reading) -> Response:
        """The budgets that jobs share."""

        def look(connection: Connection) -> SlaGroupList:
            now_ms, rows = newest_ms(connection), queries.group_rows(connection)
            return {"groups": [queries.group_json(connection, row, now_ms, whole=False) for row in rows]}

        return await read(look)

    @router.get("/v1/sla-groups/{name}")
    async def group(name: str, read: Reading) -> Response:
        """A budget that jobs share, with each of them."""

        def look(connection: Connection) -> SlaGroup:
            row = queries.group_row(connection, name)
            if row is None:
                raise Problem(404, Code.NOT_FOUND, queries.unknown_group(connection, name))
            return queries.group_json(connection, row, newest_ms(connection), whole=True)

        return await read(look)

    @router.put("/v1/sla-groups/{name}", status_code=202, responses=ANSWERED)
    async def define(name: str, body: Json, wait: Wait, reason: Reason = "") -> Response:
        """Sets the bounds of a group; what is left out is no bound."""
        try:
            bounds = GroupBounds.model_validate(body)
        except ValidationError as error:
            faults = problems(error, GroupBounds)
            raise Problem(422, Code.INVALID_SPEC, "the SLA group has problems", faults) from error
        fact = bounds.to_event(name, uuid.uuid4().hex, reason)
        return await _write(context, fact, wait)

    @router.delete("/v1/sla-groups/{name}", status_code=202, responses=ANSWERED)
    async def remove(name: str, wait: Wait, reason: Reason = "") -> Response:
        """Removes a group: its jobs keep their own budgets alone."""
        fact = SlaGroupDefined(group=name, command_id=uuid.uuid4().hex, remove=True, reason=reason)
        return await _write(context, fact, wait)


async def _write(context: Context, fact: SlaGroupDefined, wait: float) -> Response:
    offset = await run_in_threadpool(context.append, fact, SLA_GROUP + fact.group)
    return await answered(context, fact, offset, wait, 422, about=f"/v1/sla-groups/{quote(fact.group, safe='')}")
