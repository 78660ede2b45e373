"""Routes of usage: what live runs use, asked of their hosts, and what ended ones used, from the views."""

import asyncio
import re
from functools import partial
from typing import Annotated, Literal, NamedTuple

import msgspec
from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse, Response
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.bounds import WORD_MAX
from paceline.client.usage_models import (
    HostUsage,
    JobUsage,
    MeasuredUsage,
    PlacedRunUsage,
    RunUsage,
    SilentHost,
    UsageSums,
)
from projections.access.identity import present
from projections.api.context import PAGE_MAX, Context, Reading
from projections.api.job_lookup import read_views
from projections.api.job_rows import find_job
from projections.api.problems import Problem, not_found
from projections.queries import entities
from projections.queries.tasks import live_hosts
from projections.queries.usage import is_pool, usage_sums

HOSTS_MAX = 64
"""So many hosts are asked for one job."""
ASKED_AT_ONCE = 16
MONTH = r"\d{4}-(0[1-9]|1[0-2])"


class UsageRequest(NamedTuple):
    """The runs that are summed, and by what."""

    by: str
    since: str
    pool: str
    owner: str
    page_size: int


async def usage_request(
    by: Annotated[Literal["job", "pool", "owner", "month"], Query(description="Sums by this.")] = "pool",
    since: Annotated[str, Query(max_length=7, description="From this month on: 2026-11.")] = "",
    pool: Annotated[str, Query(max_length=WORD_MAX, description="Of this pool and those below it.")] = "",
    owner: Annotated[str, Query(max_length=WORD_MAX, description="Of this owner only.")] = "",
    page_size: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> UsageRequest:
    """The parameters of the sums. Raises a problem where `since` is no month."""
    if since and not re.fullmatch(MONTH, since):
        detail = f"{since!r} is no month; one looks like 2026-11, and months go from 01 to 12"
        raise Problem(422, "INVALID_REQUEST", detail, [("/query/since", "no month")])
    return UsageRequest(by, since, pool, owner, page_size)


Sought = Annotated[UsageRequest, Depends(usage_request)]
_decode = msgspec.json.Decoder(MeasuredUsage).decode


def routes(context: Context) -> APIRouter:
    """The routes of live usage."""
    router = APIRouter(prefix="/v1", tags=["usage"])

    @router.get("/jobs/{job_id}/usage", response_class=Response)
    async def of_job(job_id: str) -> Response:
        """The use of the live runs of a job, asked of their hosts, of 64 at most. There is none of the past."""
        return JSONResponse(await job_usage(context, job_id))

    @router.get("/hosts/{host_id}/usage", response_class=Response)
    async def of_host(host_id: str) -> Response:
        """The use of a host by its runs, asked of its agent. There is none of the past."""
        return JSONResponse(await host_usage(context, host_id))

    @router.get("/usage")
    async def sums(read: Reading, sought: Sought) -> Response:
        """Amounts that runs asked for and used, by job, pool, owner or month. Runs count when they have ended, in the
        month of their end, jobs until they are forgotten. What they asked for, and `run_s`, counts from their order
        on, when it is held for them. `page_size` rows at most: those that asked for most CPU.
        """

        def look(connection: Connection) -> UsageSums:
            if sought.pool not in ("", "/") and not is_pool(connection, sought.pool):
                raise not_found("pool", sought.pool)
            month = int(sought.since.replace("-", "") or 0)
            usage, more = usage_sums(connection, sought.by, month, sought.pool, sought.owner, sought.page_size)
            return {"usage": usage, "more": more}

        return await read(look)

    return router


async def host_usage(context: Context, host_id: str) -> HostUsage:
    """The use of a host now. Raises a problem where it isn't known or doesn't answer."""
    if await run_in_threadpool(read_views, context, lambda connection: entities.host_row(connection, host_id)) is None:
        raise not_found("host", host_id)
    _must_be_live(context)
    try:
        measured = await _measured(context, host_id, "")
    except LookupError as error:
        raise Problem(503, "NOT_REACHED", str(error)) from error
    if present().is_limited:
        measured["runs"] = await run_in_threadpool(read_views, context, partial(_seen, runs=measured["runs"]))
    return {"host_id": host_id, **measured}


def _seen(connection: Connection, runs: list[RunUsage]) -> list[RunUsage]:
    """The runs of the jobs that may be seen."""
    seen = {job_id for job_id in {run["job_id"] for run in runs} if entities.job_row(connection, job_id) is not None}
    return [run for run in runs if run["job_id"] in seen]


async def job_usage(context: Context, job_id: str) -> JobUsage:
    """The use of the live runs of a job now. Raises a problem where there is no such job, or no way to hosts."""

    def find(connection: Connection) -> list[str]:
        return live_hosts(connection, find_job(connection, job_id))

    host_ids = await run_in_threadpool(read_views, context, find)
    _must_be_live(context)
    silent: list[SilentHost] = []
    runs: list[PlacedRunUsage] = []
    at_once = asyncio.Semaphore(ASKED_AT_ONCE)

    async def ask(host_id: str) -> None:
        async with at_once:
            try:
                measured = await _measured(context, host_id, job_id)
            except LookupError as error:
                silent.append({"host_id": host_id, "reason": str(error)})
                return
        runs.extend({**run, "host_id": host_id} for run in measured["runs"])

    await asyncio.gather(*(ask(host_id) for host_id in host_ids[:HOSTS_MAX]))
    runs.sort(key=lambda run: (run["instance"], run["run"]))
    silent.sort(key=lambda host: host["host_id"])
    return {"job_id": job_id, "runs": runs, "silent": silent, "hosts_left_out": max(0, len(host_ids) - HOSTS_MAX)}


def _must_be_live(context: Context) -> None:
    if context.is_past:
        detail = "hosts tell what live runs use now; leave out the parameter at. The sums of /v1/usage are of then"
        raise Problem(422, "INVALID_REQUEST", detail, [("/query/at", "no past is kept of it")])
    if context.host_usage is None:
        raise Problem(503, "NO_GATEWAY", "this process has no gateway to reach hosts by")


async def _measured(context: Context, host_id: str, job_id: str) -> MeasuredUsage:
    """The answer of an agent. Raises `LookupError` with a sentence."""
    assert context.host_usage is not None
    try:
        return _decode(await context.host_usage(host_id, job_id))
    except msgspec.MsgspecError as error:
        raise LookupError(f"the answer of the host can't be read: {error}") from error
