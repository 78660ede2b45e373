"""Routes of jobs: submit, list, look, explain, read output. Commands are in `job_commands.py`, versions in
`job_versions.py`.
"""

import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.abilities import NEEDED, needed
from events.bounds import INT_MAX, WORD_MAX
from events.codes import Code, JobState, TaskState, no_pool, not_a_leaf, other_specification
from events.records.jobs import JobSubmitted, OverridesUploaded
from events.topics import JOBS
from projections.api import job_commands, job_starts, job_versions
from projections.api.context import LONG_MAX, Context, Pages, Place, Reader, Reading, Wait, client_of, next_token
from projections.api.job_lookup import find_job, job_shown, read_views
from projections.api.job_specs import checked_spec
from projections.api.known_queries import KnownQueries, remember
from projections.api.problems import ANSWERED, Problem, not_found, wrong_cell
from projections.queries import entities, fits_nowhere, pool_tree
from projections.queries import tasks as task_queries
from projections.queries.job_filter import JobFilter
from projections.queries.job_list import page_text
from projections.queries.stored_chunks import with_uploads
from projections.queries.versions import submission
from projections.record_json import at, whole
from projections.views.jobs import REJECTED

JOB_STATES = ("SUBMITTED", *JobState, REJECTED)
LABELS_MAX = OWNERS_MAX = 32
"""Labels that a list may be asked for."""
LOG_BYTES_MAX = 256 * 1024
RETRY_S = "5"
_STATUS = {
    Code.ID_TAKEN: 409,
    Code.WRONG_CELL: 409,
    Code.OPEN_JOBS_MAX: 429,
    Code.OPEN_TASKS_MAX: 429,
    Code.NOT_FOUND: 404,
}


States = Annotated[str, Query(description="States, separated by commas.")]


class JobsRequest(NamedTuple):
    """Which jobs a list is of: the filter, and the words it was asked in, which its page tokens hold for."""

    filter: JobFilter
    words: tuple[Any, ...]


async def jobs_request(
    state: States = "",
    pool: Annotated[str, Query(max_length=WORD_MAX, description="Jobs of it and of the pools below it.")] = "",
    label: Annotated[list[str] | None, Query(max_length=LABELS_MAX, description="key:value; all must hold.")] = None,
    owner: Annotated[list[str] | None, Query(max_length=OWNERS_MAX, description="One of these owners.")] = None,
    text: Annotated[str, Query(max_length=WORD_MAX, description="Part of the id or of the command.")] = "",
    since: Annotated[datetime | None, Query(description="Submitted at this time or later.")] = None,
    order: Annotated[
        Literal["newest", "wait"],
        Query(description="wait: only jobs that wait, the longest first."),
    ] = "newest",
) -> JobsRequest:
    """The parameters of the list of jobs."""
    since_ms = int(since.replace(tzinfo=since.tzinfo or UTC).timestamp() * 1000) if since else 0
    owners = sorted(owner or ())
    wanted = JobFilter(
        job_states(state), pool, [label_pair(each) for each in label or ()], owners, text, since_ms, order == "wait"
    )
    return JobsRequest(wanted, (wanted.states, pool, label or [], owners, text, since_ms, order))


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
    return router


def _submission(router: APIRouter, context: Context) -> None:
    @router.post("", status_code=202, responses=ANSWERED)
    async def submit(
        body: Annotated[Any, Body()],
        wait: Wait,
        dry_run: Annotated[bool, Query(description="Check the job and answer what would be written.")] = False,
    ) -> Response:
        """Submits a job. The same id with the same content again is answered with the job."""
        return await submit_job(context, body, wait, dry_run)


class Taken(NamedTuple):
    """What became of a submission: what is `known` against it, what its submitter is warned of, and where it was
    written; None: nowhere.
    """

    known: dict[str, Any] | Code | None
    warned: dict[str, list[str]]
    offset: int | None


async def submit_job(context: Context, body: Any, wait: float, dry_run: bool = False) -> Response:
    """Submits a job, or only checks it. Raises a problem where it is refused."""
    spec = await checked_spec(context, body)
    event = spec.to_event()
    known, warned, offset = await run_in_threadpool(_take, context, event, spec.chunks, dry_run)
    if known == Code.NO_SUCH_POOL:
        await context.settle_pools()
        known, warned, offset = await run_in_threadpool(_take, context, event, spec.chunks, dry_run)
    if known == Code.NO_SUCH_POOL:
        message = no_pool(event.pool)
        raise Problem(422, Code.NO_SUCH_POOL, message, [("/pool", message)])
    if isinstance(known, dict):
        return JSONResponse({**known, "repeated": True}, 200)
    if offset is None:
        written = [{"event": "JobSubmitted", **whole(event)}]
        return JSONResponse({"job_id": event.job_id, "events": written, **warned}, 200)
    position = f"{JOBS.name}:{offset}"
    location = {"Location": f"/v1/jobs/{event.job_id}", "Log-Position": position}
    answer = await context.answer(JOBS.name, offset, wait)
    if answer is None:
        told = {"job_id": event.job_id, "position": position, "state": "SUBMITTED", **warned}
        return JSONResponse(told, 202, location)
    if answer.code not in (Code.DONE, Code.REPEATED):
        headers = {"Retry-After": RETRY_S} if _STATUS.get(Code(answer.code)) == 429 else {}
        status = _STATUS.get(Code(answer.code), 422)
        raise Problem(status, answer.code, answer.message, position=position, headers=headers)
    job = await run_in_threadpool(read_views, context, lambda connection: job_shown(connection, event.job_id))
    repeated = {"repeated": answer.code == Code.REPEATED}
    return JSONResponse({**job, **repeated, **warned}, 200, location)


def _take(context: Context, event: JobSubmitted, uploads: Sequence[OverridesUploaded], dry_run: bool) -> Taken:
    """Writes a submission that nothing is known against, in one thread: each change of threads waits for the cell's."""
    known = _look(context, event)
    if known is not None:
        return Taken(known, {}, None)
    warned = _warnings(context, event, uploads)
    return Taken(None, warned, None if dry_run else context.append(event, event.job_id, uploads))


def _look(context: Context, event: JobSubmitted) -> dict[str, Any] | Code | None:
    """What the views say before anything is written: the same job, that its pool is unknown, or nothing against it."""
    with context.views.read() as connection:
        row = entities.job_row(connection, event.job_id)
        if row is not None and row.state != REJECTED:
            if submission(connection, row.offset).spec_hash == event.spec_hash:
                return job_shown(connection, event.job_id)
            raise Problem(409, Code.ID_TAKEN, other_specification(event.job_id, bool(row.ended_ms)))
        pool = next(iter(pool_tree.pools_json(connection, event.pool)), None)
        inner = pool_tree.has_pools_below(connection, event.pool)
    if pool is None:
        return Code.NO_SUCH_POOL
    if pool["cell"] != context.cell:
        raise wrong_cell(f"pool {event.pool}", pool["cell"], [context.cell])
    if inner:
        message = not_a_leaf(event.pool)
        raise Problem(422, Code.POOL_NOT_A_LEAF, message, [("/pool", message)])
    if pool["open_jobs"] >= pool["open_jobs_max"]:
        detail = f"pool {event.pool} has its {pool['open_jobs_max']} open jobs; wait for one to end"
        raise Problem(429, Code.OPEN_JOBS_MAX, detail, headers={"Retry-After": RETRY_S})
    if pool["open_tasks"] + event.instances > pool["open_tasks_max"]:
        detail = (
            f"pool {event.pool} has {pool['open_tasks']} open tasks, {event.instances} more would exceed its "
            f"{pool['open_tasks_max']}"
        )
        raise Problem(429, Code.OPEN_TASKS_MAX, detail, headers={"Retry-After": RETRY_S})
    return None


def _warnings(context: Context, event: JobSubmitted, uploads: Sequence[OverridesUploaded]) -> dict[str, list[str]]:
    """What a job needs that no host has now: it is taken all the same, and waits for one that has."""
    with context.views.read() as connection:
        missing = [each for each in needed(event) if not entities.offered_by_any(connection, each)]
        chunk = with_uploads(connection, uploads)
        nowhere = [] if missing else fits_nowhere.warnings(connection, event, chunk)
    warnings = [
        f"no host offers {attribute}, which the {NEEDED[attribute]} of the job needs: it waits for one that does"
        for attribute in missing
    ]
    warnings += [f"{each['message']} ({each['code']})" for each in nowhere]
    return {"warnings": warnings} if warnings else {}


def _reads(router: APIRouter) -> None:
    async def jobs(request: Request, read: Reading, page: Pages, wanted: JobsQuery) -> Response:
        """Jobs, without their specs."""
        after = page.after(tuple[Place, Place], *wanted.words)

        async def answer(read: Reader) -> Response:
            def look(connection: Connection) -> bytes:
                found = read.context.texts.page(connection, wanted.filter, page.size, after)
                last = found.rows[-1].place(wanted.filter) if found.more else None
                return page_text([each.text for each in found.rows], next_token(last, *wanted.words))

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
    async def history(job_id: str, read: Reading, page: Pages) -> Response:
        """What happened to the job: facts and decisions, the oldest first."""
        after = page.after(tuple[Place, Place, Place, Place, Place], "history", job_id)

        def look(connection: Connection) -> dict[str, Any]:
            find_job(connection, job_id)
            found = entities.history_page(connection, job_id, page.size, after)
            return {"events": found.items, "next_page_token": next_token(found.next, "history", job_id)}

        return await read(look)


def _tasks(router: APIRouter, context: Context) -> None:
    @router.get("/{job_id}/tasks")
    async def tasks(job_id: str, read: Reading, page: Pages, state: States = "") -> Response:
        """Tasks of the job."""
        names = _states(state, TaskState.__members__)
        first = page.after(Place, "tasks", job_id, names) or 0

        def look(connection: Connection) -> dict[str, Any]:
            states = [TaskState[name] for name in names]
            found = task_queries.tasks_page(connection, find_job(connection, job_id), states, page.size, first)
            return {"tasks": found.items, "next_page_token": next_token(found.next, "tasks", job_id, names)}

        return await read(look)

    @router.get("/{job_id}/tasks/{instance}/log", response_class=Response)
    async def log(
        request: Request,
        job_id: str,
        instance: Annotated[int, Path(ge=0, le=INT_MAX)],
        stream: Annotated[str, Query(pattern="^(stdout|stderr)$")] = "stdout",
        run: Annotated[int | None, Query(ge=1, le=INT_MAX)] = None,
        offset: Annotated[int, Query(ge=0, le=LONG_MAX)] = 0,
        limit: Annotated[int, Query(ge=1, le=LOG_BYTES_MAX)] = 64 * 1024,
    ) -> Response:
        """A piece of a run's output as its host has it now, at the time in the header Output-As-Of. The headers
        Log-Offset, Log-Next-Offset and Log-Ended say where to go on.
        """

        def find(connection: Connection) -> tuple[int, str | None]:
            row = find_job(connection, job_id)
            task = task_queries.task(connection, row, instance)
            if task is None or not (run or task["run"]):
                raise not_found("run of task", f"{instance} of job {job_id}")
            if run in (None, task["run"]):
                return task["run"], task["host_id"]
            return run, task_queries.past_host(connection, row, instance, run)

        number, host_id = await run_in_threadpool(read_views, context, find)
        if context.task_log is None:
            raise Problem(503, "NO_GATEWAY", "this process has no gateway to ask for output")
        try:
            with context.waiting.one(client_of(request)):
                piece = await context.task_log(job_id, instance, number, stream, offset, limit, host_id)
        except LookupError as error:
            raise Problem(404, "NO_OUTPUT", str(error.args[0] if error.args else error)) from error
        headers = {
            "Log-Offset": str(piece.offset),
            "Log-Next-Offset": str(piece.next_offset),
            "Log-Ended": str(int(piece.ended)),
            "Output-As-Of": str(at(time.time_ns() // 1_000_000)),
            "X-Content-Type-Options": "nosniff",
        }
        return Response(piece.data, 200, headers, media_type="application/octet-stream")


def job_states(text: str) -> list[str]:
    """The states of jobs that a list is asked for. Raises a problem for what is none."""
    return _states(text, JOB_STATES)


def _states(text: str, known: Collection[str]) -> list[str]:
    """The states that a list is asked for, each once."""
    names = sorted({each for each in text.upper().split(",") if each})
    if unknown := [name for name in names if name not in known]:
        detail = f"{unknown[0][:40]!r} is no state; there are {', '.join(known)}"
        raise Problem(422, "INVALID_REQUEST", detail, [("/query/state", "no state")])
    return names


def label_pair(text: str) -> tuple[str, str]:
    """A label as lists are asked for it. Raises a problem where it is none."""
    key, colon, value = text.partition(":")
    if not colon:
        raise Problem(422, "INVALID_REQUEST", "a label is asked for as key:value", [("/query/label", "no key:value")])
    return key, value
