"""Routes of jobs: submit, list, look, explain, read output. What a submission is checked for is in `submissions.py`,
commands are in `job_commands.py`, versions in `job_versions.py`.
"""

import time
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.bounds import INT_MAX, WORD_MAX
from events.codes import TaskState
from paceline.client.output_ask import WAIT_MAX_MS, OutputAsk
from paceline.client.page_models import HistoryPage, TasksPage
from projections.api import job_commands, job_prefetches, job_starts, job_versions, placements
from projections.api.context import (
    HISTORY_KEY,
    LONG_MAX,
    Context,
    Pages,
    Place,
    Reader,
    Reading,
    Wait,
    client_of,
    next_token,
)
from projections.api.job_lookup import job_shown, read_views
from projections.api.job_rows import find_job
from projections.api.known_queries import KnownQueries, remember
from projections.api.list_requests import (
    PAIRS_MAX,
    Actors,
    States,
    TasksQuery,
    must_have_host,
    must_have_pool,
    pair_of,
    states_of,
)
from projections.api.problems import ANSWERED, Problem, not_found
from projections.api.submissions import submit_job
from projections.asked_values import since_ms
from projections.queries import entities
from projections.queries import tasks as task_queries
from projections.queries.job_filter import JobFilter
from projections.queries.job_list import page_text
from projections.record_json import at
from projections.views.job_states import JOB_STATES
from projections.views.rows import JobRow

OWNERS_MAX = 32
LOG_BYTES_MAX = 256 * 1024
NO_OUTPUT = "NO_OUTPUT"


class JobsRequest(NamedTuple):
    """The request for a list of jobs: the filter, and the words it came in, which its page tokens hold for."""

    filter: JobFilter
    words: tuple[Any, ...]


async def jobs_request(
    actors: Actors,
    state: States = "",
    pool: Annotated[str, Query(max_length=WORD_MAX, description="Jobs of it and of the pools below it.")] = "",
    label: Annotated[list[str] | None, Query(max_length=PAIRS_MAX, description="key:value; all must hold.")] = None,
    owner: Annotated[list[str] | None, Query(max_length=OWNERS_MAX, description="One of these owners.")] = None,
    text: Annotated[str, Query(max_length=WORD_MAX, description="Part of the id or of the command.")] = "",
    since: Annotated[datetime | None, Query(description="Submitted at this time or later.")] = None,
    order: Annotated[
        Literal["newest", "wait"],
        Query(description="wait: only jobs that wait, the longest first."),
    ] = "newest",
) -> JobsRequest:
    """The parameters of the list of jobs."""
    owners, submitted_ms = sorted(owner or ()), since_ms(since)
    labels = [pair_of("label", each) for each in label or ()]
    job_filter = JobFilter(job_states(state), pool, labels, owners, text, submitted_ms, order == "wait", actors)
    return JobsRequest(job_filter, (job_filter.states, pool, label or [], owners, text, submitted_ms, order, *actors))


JobsQuery = Annotated[JobsRequest, Depends(jobs_request)]


def routes(context: Context) -> APIRouter:
    """The routes under /v1/jobs."""
    router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
    _submission(router, context)
    _reads(router)
    _tasks(router, context)
    job_versions.add_routes(router)
    job_commands.add_routes(router, context)
    job_starts.add_routes(router, context)
    placements.add_routes(router, context)
    job_prefetches.add_routes(router, context)
    return router


def _submission(router: APIRouter, context: Context) -> None:
    @router.post("", status_code=202, responses=ANSWERED)
    async def submit(
        body: Annotated[Any, Body()],
        wait: Wait,
        request: Request,
        dry_run: Annotated[bool, Query(description="Check the job and answer what would be written.")] = False,
    ) -> Response:
        """Submits a job. The same id with the same content again is answered with the job."""
        return await submit_job(context, body, wait, dry_run, request)


def _reads(router: APIRouter) -> None:
    async def jobs(request: Request, read: Reading, page: Pages, asked_for: JobsQuery) -> Response:
        """Jobs, without their specs."""
        after = page.after(tuple[Place, Place], *asked_for.words)

        async def answer(read: Reader) -> Response:
            def look(connection: Connection) -> bytes:
                must_have_pool([connection], asked_for.filter.pool)
                rows = read.context.texts.page(connection, asked_for.filter, page.size, after)
                last = rows.rows[-1].place(asked_for.filter) if rows.more else None
                return page_text([each.text for each in rows.rows], next_token(last, *asked_for.words))

            return await read(look)

        return await remember(request, answer)(read)

    router.add_api_route("", jobs, methods=["GET"], route_class_override=KnownQueries)

    @router.get("/{job_id}")
    async def job(
        job_id: str,
        read: Reading,
        overrides: Annotated[bool, Query(description="With overrides that came in chunks, not only whose.")] = False,
    ) -> Response:
        """One job."""
        return await read(lambda connection: job_shown(connection, job_id, overrides))

    @router.get("/{job_id}/explanation")
    async def explanation(job_id: str, read: Reading) -> Response:
        """Why the job stands where it stands: the reason that counts most, and all that hold."""
        return await read(lambda connection: entities.explanation(connection, find_job(connection, job_id)))

    @router.get("/{job_id}/history")
    async def history(job_id: str, read: Reading, page: Pages, actors: Actors) -> Response:
        """The history of the job: facts and decisions, the oldest first."""
        words = "history", job_id, *actors
        after = page.after(HISTORY_KEY, *words)

        def look(connection: Connection) -> HistoryPage:
            find_job(connection, job_id)
            rows = entities.history_page(connection, job_id, page.size, after, actors=actors)
            return {"events": rows.items, "next_page_token": next_token(rows.next, *words)}

        return await read(look)


def _tasks(router: APIRouter, context: Context) -> None:
    @router.get("/{job_id}/tasks")
    async def tasks(job_id: str, read: Reading, page: Pages, asked_for: TasksQuery) -> Response:
        """Tasks of the job, by instance."""
        words = ("tasks", job_id, *asked_for.words)
        first = page.after(Place, *words) or 0

        def look(connection: Connection) -> TasksPage:
            job = find_job(connection, job_id)
            must_have_host([connection], asked_for.filter.host_id)
            rows = task_queries.tasks_page(connection, job, asked_for.filter, page.size, first)
            return {"tasks": rows.items, "next_page_token": next_token(rows.next, *words)}

        return await read(look)

    @router.get("/{job_id}/tasks/{instance}/log", response_class=Response)
    async def log(
        request: Request,
        job_id: str,
        instance: Annotated[int, Path(ge=0, le=INT_MAX)],
        stream: Annotated[str, Query(pattern="^(stdout|stderr)$")] = "stdout",
        run: Annotated[int | None, Query(ge=1, le=INT_MAX)] = None,
        offset: Annotated[int, Query(ge=-LONG_MAX, le=LONG_MAX, description="Below 0: from its end.")] = 0,
        limit: Annotated[int, Query(ge=1, le=LOG_BYTES_MAX)] = 64 * 1024,
        wait: Wait = 0.0,
        other_offset: Annotated[int, Query(ge=-1, le=LONG_MAX, description="With wait: see there.")] = -1,
    ) -> Response:
        """A piece of a run's output as its host has it now, at the time in the header Output-As-Of. The headers
        Log-Offset, Log-Next-Offset and Log-Ended say where to go on, Log-End and Log-Other-End how much this stream has
        and the other, Log-Lost how many bytes of both the disk of the host didn't take, Log-Run which run it is of.
        Where there is nothing yet from `offset` on, the answer waits for up to `wait`, at most 20 s, until there is,
        until the other stream has more than `other_offset` bytes, or until the run ends.
        """

        def find(connection: Connection) -> AskedRun:
            return run_asked_for(connection, find_job(connection, job_id), instance, run)

        number, host_id, unknown = await run_in_threadpool(read_views, context, find)
        if context.task_log is None:
            raise Problem(503, "NO_GATEWAY", "this process has no gateway to ask for output")
        try:
            wait_ms = min(WAIT_MAX_MS, round(1000 * wait))
            ask = OutputAsk(job_id, instance, number, stream, offset, limit, wait_ms, other_offset)
            with (context.following if wait_ms else context.waiting).one(client_of(request)):
                piece = await context.task_log(ask, host_id)
        except LookupError as error:
            why = unknown if host_id is None else ""
            raise Problem(404, NO_OUTPUT, why or str(error.args[0] if error.args else error)) from error
        headers = {
            "Log-Offset": str(piece.offset),
            "Log-Next-Offset": str(piece.next_offset),
            "Log-Ended": str(int(piece.ended)),
            "Log-End": str(piece.end),
            "Log-Other-End": str(piece.other_end),
            "Log-Lost": str(piece.lost),
            "Log-Run": str(number),
            "Output-As-Of": str(at(time.time_ns() // 1_000_000)),
            "X-Content-Type-Options": "nosniff",
        }
        return Response(piece.data, 200, headers, media_type="application/octet-stream")


class AskedRun(NamedTuple):
    """A run whose output is asked for, and its host as far as the views know it; None: `unknown` says why not, where
    the gateway doesn't know it either.
    """

    number: int
    host_id: str | None
    unknown: str = ""


def run_asked_for(connection: Connection, job: JobRow, instance: int, run: int | None) -> AskedRun:
    """The run of a task whose output is asked for, None: the last. Raises a problem where there is none."""
    task = task_queries.task(connection, job, instance)
    number = run or (task["run"] if task else 0)
    if task is None or not number:
        raise not_found("run of task", f"{instance} of job {job.job_id}")
    of, is_queued = f"task {instance} of job {job.job_id}", task["state"] == TaskState.QUEUED.name
    last = task["run"] - is_queued
    host_id = task["host_id"] if number == task["run"] else task_queries.past_host(connection, job, instance, number)
    if number <= last:
        return AskedRun(number, host_id, f"run {number} of {of} came to no host, or isn't kept any more")
    if number == task["run"]:
        return AskedRun(number, host_id, f"run {number} of {of} has no host yet")
    what = f"its last is run {last}" if last else "it has had none yet"
    return AskedRun(number, host_id, f"{of} has no run {number}; {what}")


def job_states(text: str) -> list[str]:
    """The states of jobs that a list is asked for. Raises a problem for what is none."""
    return states_of(text, JOB_STATES)
