"""Routes of plans: what the cell would decide about a job, without submitting it."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from projections.api.context import Context, Plans
from projections.api.problems import Problem
from projections.api.submissions import planned_facts


def routes(context: Context) -> APIRouter:
    """The route /v1/job-plans."""
    router = APIRouter(prefix="/v1/job-plans", tags=["jobs"])

    @router.post("")
    async def plan(body: Annotated[Any, Body()]) -> Response:
        """Tells where a job would go now, what of it would wait and why, and what it would preempt. Nothing is written:
        the machines decide on a copy of their state. Of a job that is there and differs, its update is planned.
        """
        return JSONResponse(await plan_job(context, body), 200)

    return router


async def plan_job(context: Context, body: Any) -> Any:
    """The plan of a job as JSON. Raises a problem where the job is refused before, or there is no plan now."""
    planned = await planned_facts(context, body)
    plan = await run_in_threadpool(plans_of(context).plan, planned.facts, planned.job_id)
    return {**plan, **planned.warned}


def plans_of(context: Context) -> Plans:
    """The planner of a cell. Raises a problem where there is none."""
    if context.plans is None:
        raise Problem(503, "NO_PLANS", "this process has no machines to plan with; ask the API of the cell")
    return context.plans
