"""The route of room for a waiting job: others are moved for it at once, or a dry run tells which."""

import uuid
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from events.bounds import INSTANCES_MAX
from events.records.pools import RebalanceRequested
from projections.api.commands import Command, answered
from projections.api.context import Context, Wait
from projections.api.job_plans import plans_of
from projections.api.problems import ANSWERED


class Room(Command):
    """A command that asks for room."""

    max_moves: Annotated[int, Field(ge=0, le=INSTANCES_MAX)] = Field(
        default=0, description="So many tasks are moved at most; 0: as many as it takes."
    )
    by_setting: bool = Field(
        default=False, description="Nobody asks: what `rebalance_moves_per_hour` leaves bounds the moves too."
    )


DryRun = Annotated[bool, Query(description="Tell which tasks would be moved, and write nothing.")]


def routes(context: Context) -> APIRouter:
    """The route /v1/jobs/ID/rebalances."""
    router = APIRouter(prefix="/v1/jobs", tags=["hosts"])

    @router.post("/{job_id}/rebalances", status_code=202, responses=ANSWERED)
    async def rebalance(job_id: str, room: Room, wait: Wait, dry_run: DryRun = False) -> Response:
        """Makes room for the tasks of a job that wait: preemptible tasks are moved at once that have a place elsewhere,
        as few as do. Nobody leaves in another way. A dry run tells which, and where they go.
        """
        fact = RebalanceRequested(
            job_id=job_id,
            command_id=room.command_id or uuid.uuid4().hex,
            reason=room.reason,
            max_moves=room.max_moves,
            by_setting=room.by_setting,
        )
        if dry_run:
            await run_in_threadpool(context.permits.fact, fact)
            return JSONResponse(await run_in_threadpool(plans_of(context).plan_drain, fact))
        offset = await run_in_threadpool(context.append, fact, "/")
        return await answered(context, fact, offset, wait, 409, about=f"/v1/jobs/{quote(job_id, safe='')}")

    return router
