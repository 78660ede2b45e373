"""Routes of plans: what the cell would decide about jobs, without submitting them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from events.records.jobs import JobSubmitted
from events.spec.job import JobSpec
from paceline.client.plan_models import JobPlan
from projections.access.identity import present
from projections.api.context import Context, Plans
from projections.api.problems import Problem
from projections.api.submissions import Planned, planned_facts

PLANNED_MAX = 1000
"""Jobs that are planned together."""
Find = Callable[[Any], Awaitable[Context]]
"""Finds the cell that a job is submitted to. Raises a problem where it isn't served."""


class JobsToPlan(BaseModel):
    """Jobs as they are submitted, one after the other."""

    model_config = ConfigDict(extra="forbid")

    jobs: Annotated[list[JobSpec], Field(min_length=1, max_length=PLANNED_MAX)]


def finds(context: Context) -> Callable[[Request], Find]:
    """Finds this cell for every job."""

    async def here(body: Any) -> Context:
        return context

    return lambda request: here


def routes(context: Context) -> APIRouter:
    """The route /v1/job-plans of a cell."""
    return routes_over(finds(context))


def routes_over(finder: Callable[[Request], Find]) -> APIRouter:
    """The route /v1/job-plans, whose jobs are those of the cells that are found for a request."""
    router = APIRouter(prefix="/v1/job-plans", tags=["jobs"])

    @router.post("")
    async def plan(request: Request, body: Annotated[Any, Body()]) -> Response:
        """Tells where a job would go now, what of it would wait and why, and what it would preempt. Nothing is written:
        the machines decide on a copy of their state. Of a job that is there and differs, its update is planned.

        `{"jobs": [...]}` plans several together, as if each was submitted after those before it: `{"plans": [...]}`.
        """
        find = finder(request)
        if isinstance(body, dict) and "jobs" in body:
            return JSONResponse({"plans": await plan_jobs(find, _jobs(body), request)}, 200)
        context = await find(body)
        return JSONResponse(await plan_job(context, body, request), 200, {"Log-Cell": str(context.cell)})

    return router


def _jobs(body: Mapping[str, Any]) -> list[Any]:
    """The jobs of a body. Raises a problem where it is none."""
    jobs = body["jobs"]
    if not isinstance(jobs, list) or not 1 <= len(jobs) <= PLANNED_MAX:
        message = f"must be a list of 1 to {PLANNED_MAX} jobs"
        raise Problem(422, "INVALID_REQUEST", f"jobs {message}", [("/jobs", message)])
    if more := body.keys() - {"jobs"}:
        raise Problem(422, "INVALID_REQUEST", "unknown field", [(f"/{name}", "no such field") for name in sorted(more)])
    return jobs


async def plan_job(context: Context, body: Any, request: Request | None = None) -> JobPlan:
    """The plan of a job. Raises a problem where the job is refused before, or there is no plan now. `request`: whose
    client may leave.
    """
    [plan] = await _of_cell(context, [await planned_facts(context, body, request)])
    return plan


async def plan_jobs(find: Find, bodies: Sequence[Any], request: Request | None = None) -> list[JobPlan]:
    """The plans of jobs that are submitted in this order. Raises a problem, with what is wrong with any of them, where
    one is refused before, or there is no plan now.
    """
    checked = await _checked(find, bodies, request)
    of_cells: dict[int, tuple[Context, list[Planned]]] = {}
    for context, planned in checked:
        of_cells.setdefault(context.cell, (context, []))[1].append(planned)
    plans = {plan["job_id"]: plan for each in of_cells.values() for plan in await _of_cell(*each)}
    return [plans[planned.job_id] for _, planned in checked]


async def _checked(find: Find, bodies: Sequence[Any], request: Request | None) -> list[tuple[Context, Planned]]:
    """The cell and the facts of each job. Raises a problem that points to all faults of all jobs."""
    checked: dict[str, tuple[Context, Planned]] = {}
    faults: list[tuple[str, str]] = []
    for number, body in enumerate(bodies):
        pointer = f"/jobs/{number}"
        try:
            context = await find(body)
            planned = await planned_facts(context, body, request)
        except Problem as problem:
            if problem.status >= 500 or problem.status == 403:
                raise
            own = problem.errors or [("", f"{problem.detail} ({problem.code})")]
            faults += [(pointer + below, message) for below, message in own]
            continue
        if planned.job_id in checked:
            faults.append((f"{pointer}/job_id", f"is the id of another job of the request: {planned.job_id}"))
        checked[planned.job_id] = context, planned
    if faults:
        where, message = faults[0]
        raise Problem(422, "INVALID_SPEC", f"{where}: {message}", faults)
    return list(checked.values())


async def _of_cell(context: Context, planned: Sequence[Planned]) -> list[JobPlan]:
    """The plans of the jobs of a cell. Raises a problem where there are none now."""
    facts = {each.job_id: each.facts for each in planned}
    plans: list[JobPlan] = await run_in_threadpool(plans_of(context).plan, facts)
    for plan, each in zip(plans, planned, strict=True):
        plan.update(each.warned)  # type: ignore[typeddict-item]
        if present().is_limited and isinstance(each.facts[-1], JobSubmitted):
            plan["pool"] = each.facts[-1].pool  # not that of a hidden job with this id
    return plans


def plans_of(context: Context) -> Plans:
    """The planner of a cell. Raises a problem where there is none."""
    if context.plans is None:
        raise Problem(503, "NO_PLANS", "this process has no machines to plan with; ask the API of the cell")
    return context.plans
