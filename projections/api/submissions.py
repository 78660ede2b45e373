"""A submission, from the body of a request to its answer. What is to be checked is, and the fact is written, in one
thread: each change of threads waits for the cell's.
"""

import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.abilities import field_of, needed
from events.answers import no_pool, not_a_leaf, other_specification, too_many_jobs, too_many_tasks
from events.codec import encode
from events.codes import IN_EFFECT, Code
from events.records.base import Event
from events.records.jobs import JobSubmitted, JobUpdateRequested, OverridesUploaded
from events.sla import has_sla
from events.topics import JOBS
from paceline.client.models import Job
from projections.access.limits import limits
from projections.api.context import Context
from projections.api.image_tags import digest_of, pinned
from projections.api.job_lookup import job_shown, read_views
from projections.api.job_specs import checked_spec, must_know_resources, once_settled
from projections.api.permits import taken
from projections.api.problems import Problem, wrong_cell
from projections.api.secrets import Pins
from projections.queries import entities, fits_nowhere
from projections.queries.known_names import nearest_pool
from projections.queries.pool_room import PoolRoom, room_of
from projections.queries.sla_warnings import sla_warnings
from projections.queries.stored_chunks import with_uploads
from projections.queries.versions import submission
from projections.record_json import whole
from projections.views.job_states import REJECTED, SUBMITTED
from projections.views.reader import rows_as_text
from projections.views.rows import AnswerRow

RETRY_S = "5"
_STATUS = {
    Code.ID_TAKEN: 409,
    Code.WRONG_CELL: 409,
    Code.OPEN_JOBS_MAX: 429,
    Code.OPEN_TASKS_MAX: 429,
    Code.NOT_FOUND: 404,
}
_IS_KNOWN = "SELECT 1 FROM jobs WHERE job_id = ?"


class Taken(NamedTuple):
    """The outcome of a submission: the job as it is `known` already, what its submitter is warned of, and where it was
    written; None: nowhere.
    """

    event: JobSubmitted
    known: Job | None
    warned: dict[str, list[str]]
    offset: int | None


class Planned(NamedTuple):
    """The facts of a job whose plan is asked for, in the order of their append, and what its submitter is warned of."""

    job_id: str
    facts: Sequence[Event]
    warned: dict[str, list[str]]


async def submit_job(
    context: Context, body: Any, wait: float, dry_run: bool = False, request: Request | None = None
) -> Response:
    """Submits a job, or only checks it. Raises a problem where it is refused. `request`: whose client may leave."""
    digest = await digest_of(body, request)
    pins = await Pins().look_up(context, body)
    event, known, warned, offset = await once_settled(context, partial(_take, context, body, digest, pins, dry_run))
    if known is not None:
        return JSONResponse({**known, "repeated": True}, 200)
    if offset is None:
        written = [{"event": "JobSubmitted", **whole(event)}]
        return JSONResponse({"job_id": event.job_id, "events": written, **warned}, 200)
    position = f"{JOBS.name}:{offset}"
    location = {"Location": f"/v1/jobs/{event.job_id}", "Log-Position": position}
    answer = await context.answer(JOBS.name, offset, wait)
    if answer is None:
        told = {"job_id": event.job_id, "position": position, "state": SUBMITTED, **warned}
        return JSONResponse(told, 202, location)
    if answer.code not in IN_EFFECT:
        raise await run_in_threadpool(refusal, context, answer, position, event.job_id)
    job = await run_in_threadpool(read_views, context, lambda connection: job_shown(connection, event.job_id))
    is_repeat = answer.code == Code.REPEATED
    return JSONResponse({**job, "repeated": is_repeat, **warned}, 200 if is_repeat else 201, location)


def refusal(context: Context, answer: AnswerRow, position: str, job_id: str) -> Problem:
    """The problem of a submission, written at a position, that lifecycle has refused."""
    is_taken = answer.code == Code.ID_TAKEN
    message = context.permits.taken(job_id, answer.message) if is_taken else answer.message
    status = _STATUS.get(Code(answer.code), 422)
    headers = {"Retry-After": RETRY_S} if status == 429 else {}
    return Problem(status, answer.code, message, position=position, headers=headers)


async def planned_facts(context: Context, body: Any, request: Request | None = None) -> Planned:
    """The facts that would submit a job, or update the one that has its id. Raises a problem where it is refused.
    `request`: whose client may leave.
    """
    digest = await digest_of(body, request)
    pins = await Pins().look_up(context, body)
    return await once_settled(context, partial(_plannable, context, body, digest, pins))


def _plannable(context: Context, body: Any, digest: str, pins: Pins) -> Planned:
    spec = checked_spec(context, body)
    event = pins.pinned(pinned(spec.to_event(), digest))
    with context.views.read() as connection:
        must_know_resources(connection, spec)
        warned = warnings_of(connection, event, spec.chunks)
        try:
            if _known(context, connection, event) is None:
                must_have_room(connection, event, room_of(connection, event.pool), context.cell)
        except Problem as problem:
            if problem.code != Code.ID_TAKEN or entities.job_row(connection, event.job_id) is None:
                raise
            update = JobUpdateRequested(job_id=event.job_id, command_id=uuid.uuid4().hex, spec=encode(event))
            context.permits.fact(update)
            return Planned(event.job_id, [*spec.chunks, update], warned)
        context.permits.fact(event)
    return Planned(event.job_id, [*spec.chunks, event], warned)


def _take(context: Context, body: Any, digest: str, pins: Pins, dry_run: bool) -> Taken:
    """Writes a submission that nothing is known against; `digest`: that of its image where it names a tag, `pins`: the
    versions of its secrets. Raises a problem where something is.
    """
    spec = checked_spec(context, body)
    event = pinned(spec.to_event(), digest)
    if dry_run:
        context.prepare_plans()
    with context.views.read() as connection:
        must_know_resources(connection, spec)
        known = _known(context, connection, event)
        if known is not None:
            return Taken(event, known, {}, None)
        event = pins.pinned(event)
        must_have_room(connection, event, room_of(connection, event.pool), context.cell)
        warned = warnings_of(connection, event, spec.chunks)
    if dry_run:
        context.permits.fact(event)
    return Taken(event, None, warned, None if dry_run else context.append(event, event.job_id, spec.chunks))


def _known(context: Context, connection: Connection, event: JobSubmitted) -> Job | None:
    """The job that was submitted like this before. Raises a problem where another one has its id."""
    if not any(rows_as_text(connection, _IS_KNOWN, (event.job_id,))):
        if limits() is not None:
            must_be_free(context, event.job_id)
        return None
    row = entities.job_row(connection, event.job_id)
    if row is None or row.state == REJECTED:
        return None
    if submission(connection, row.offset).spec_hash == event.spec_hash:
        return job_shown(connection, event.job_id)
    way_out = other_specification(event.job_id, bool(row.ended_ms))
    raise Problem(409, Code.ID_TAKEN, context.permits.taken(event.job_id, way_out))


def must_be_free(context: Context, job_id: str) -> None:
    """Raises a problem where a job that a limited reader doesn't see has an id. That can't be hidden; what is refused
    here isn't written, and so stands in no history of that job.
    """
    with context.views.read_all() as connection:
        row = entities.job_row(connection, job_id)
    if row is not None and row.state != REJECTED:
        raise Problem(409, Code.ID_TAKEN, taken(job_id))


def must_have_room(connection: Connection, event: JobSubmitted, room: PoolRoom | None, cell: int) -> None:
    """Raises a problem where the pool of a job can't take it."""
    if room is None:
        message = no_pool(event.pool) + nearest_pool([connection], event.pool)
        raise Problem(422, Code.NO_SUCH_POOL, message, [("/pool", message)])
    pool = room.pool
    if pool.cell != cell:
        raise wrong_cell(f"pool {event.pool}", pool.cell, [cell])
    if room.has_pools_below:
        message = not_a_leaf(event.pool)
        raise Problem(422, Code.POOL_NOT_A_LEAF, message, [("/pool", message)])
    if detail := too_many_jobs(event.pool, room.open_jobs, pool.open_jobs_max):
        raise Problem(429, Code.OPEN_JOBS_MAX, detail, headers={"Retry-After": RETRY_S})
    if detail := too_many_tasks(f"pool {event.pool}", room.open_tasks, event.instances, pool.open_tasks_max):
        raise Problem(429, Code.OPEN_TASKS_MAX, detail, headers={"Retry-After": RETRY_S})


def warnings_of(
    connection: Connection, event: JobSubmitted, uploads: Sequence[OverridesUploaded]
) -> dict[str, list[str]]:
    """Warns of what a job needs that no host has now: it is taken all the same, and waits for one that has. And of an
    SLA that never lets it go.
    """
    missing = [each for each in needed(event) if not entities.offered_by_any(connection, each)]
    chunk = with_uploads(connection, uploads)
    nowhere = [] if missing else fits_nowhere.warnings(connection, event, chunk)
    warnings = [
        f"no host offers {attribute}, which the {field_of(attribute)} of the job needs: it waits for one that does"
        for attribute in missing
    ]
    warnings += [f"{each['message']} ({each['code']})" for each in nowhere]
    warnings += sla_warnings(connection, event) if has_sla(event.max_unavailable, event.sla) else ()
    return {"warnings": warnings} if warnings else {}
