"""Starting instances again: of a job that is there by an action, of one that has ended by a request that carries what
lifecycle keeps no more of it.
"""

from functools import partial
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from fastapi import APIRouter, Response
from pydantic import Field, model_validator
from sqlalchemy import Connection, select
from starlette.concurrency import run_in_threadpool

from events.codes import ENDED_TASKS, IN_EFFECT, Code, RunCause, TaskState
from events.columns import I64, distinct, ranges_in
from events.instance_ranges import read_ranges
from events.records.base import Event
from events.records.jobs import JobActionRequested, JobReopenRequested, JobSubmitted, OverridesUploaded
from paceline.client.json_type import Json
from projections.api.commands import carry_out
from projections.api.context import Context, Wait
from projections.api.job_commands import InstancesCommand, follows, path_of_job
from projections.api.job_lookup import read_views
from projections.api.job_rows import find_job
from projections.api.problems import ANSWERED, Problem
from projections.queries.tasks import TASK_PLACES, columns_of
from projections.queries.versions import submission
from projections.views import tables
from projections.views.rows import JobRow

NOTHING = "there is nothing to start: no instance of these is stopped or has failed"


class StartCommand(InstancesCommand):
    """The instances to start: those named, those that failed, or all that are stopped or have failed."""

    failed: Annotated[bool, Field(description="Those that failed or ran for as long as they may.")] = False

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.failed and self.instances:
            raise ValueError("name instances, or say failed: not both")
        return self


def add_routes(router: APIRouter, context: Context) -> None:
    """Adds them to the routes of jobs."""

    @router.post("/{job_id}/starts", status_code=202, responses=ANSWERED)
    async def start(job_id: str, command: StartCommand, wait: Wait) -> Response:
        """Runs instances again that were stopped or have ended; a batch job that has ended is open again by that."""
        return await start_job(context, job_id, command, wait)


async def start_job(context: Context, job_id: str, command: StartCommand, wait: float) -> Response:
    """Runs instances of a job again. Raises a problem where there is nothing to start."""
    fact, uploads = await run_in_threadpool(read_views, context, partial(_wish, job_id=job_id, command=command))
    await run_in_threadpool(context.append_uploads, uploads, job_id)
    said = partial(fact, reason=command.reason, data=command.data)
    return await carry_out(
        context,
        command,
        lambda command_id: said(command_id=command_id),
        job_id,
        partial(find_job, job_id=job_id),
        wait,
        IN_EFFECT,
        partial(follows, job_id),
        path_of_job(job_id),
    )


class _Wish(NamedTuple):
    fact: Any
    uploads: list[Event]


def _wish(connection: Connection, job_id: str, command: StartCommand) -> _Wish:
    """The fact that asks for it, without who asks, and what it names that must be written before it."""
    job = find_job(connection, job_id)
    if not job.ended_ms or job.base < 0:
        ranges = _ranges(_failed(connection, job)) if command.failed else command.columns()
        if command.failed and not len(ranges["first"]):
            raise Problem(409, Code.REPEATED, _nothing_failed(job))
        expected = command.expected_version
        action = partial(JobActionRequested.pack, job_id=job_id, action="start", expected_version=expected, **ranges)
        return _Wish(action, [])
    if job.removed:
        raise Problem(
            409, Code.NOT_UPDATABLE, f"instances of job {job_id} were removed before it ended; submit another"
        )
    state = columns_of(connection, job, np.arange(job.instances))[0].astype(np.int64)
    again = _again(connection, job, state, command)
    if not len(again):
        raise Problem(409, Code.REPEATED, _nothing_failed(job) if command.failed else NOTHING)
    others = np.setdiff1d(np.arange(job.instances), again)
    breaks = np.flatnonzero((np.diff(others) != 1) | (np.diff(state[others]) != 0)) + 1
    parts = np.split(others, breaks) if len(others) else []
    fields: Json = {
        "over_first": [int(part[0]) for part in parts],
        "over_count": [len(part) for part in parts],
        "over_state": [int(state[part[0]]) for part in parts],
    }
    submissions = tables.submissions.c
    spec: bytes = connection.execute(select(submissions.value).where(submissions.offset == job.offset)).scalar_one()
    fact = partial(JobReopenRequested.pack, job_id=job_id, spec=spec, **fields | _ranges(again))
    return _Wish(fact, _uploads(connection, submission(connection, job.offset)))


def _again(connection: Connection, job: JobRow, state: I64, command: StartCommand) -> I64:
    """The instances of a job that has ended which run again: with one member of a gang all."""
    if command.failed:
        instances = _failed(connection, job)
    elif command.instances:
        parts = [np.arange(first, first + count) for first, count in read_ranges(command.instances)]
        instances = distinct(np.concatenate(parts))
        if instances[-1] >= job.instances:
            there = f"the job has {job.instances} instances, 0 to {job.instances - 1}"
            raise Problem(409, Code.INVALID_SPEC, f"{there}: name some of these")
    else:
        instances = np.flatnonzero(np.isin(state, (TaskState.FAILED, TaskState.KILLED)))
    instances = instances[np.isin(state[instances], ENDED_TASKS)]
    if job.gang_min and (instances < job.gang_min).any():
        instances = distinct(np.concatenate([np.arange(job.gang_min), instances]))
    return instances


def _failed(connection: Connection, job: JobRow) -> I64:
    """The instances that failed, or ran for as long as they may."""
    columns = columns_of(connection, job, np.arange(job.instances if job.base >= 0 else 0))
    state, why = columns[0], columns[TASK_PLACES["why"]]
    overran = (state == TaskState.KILLED) & (why == RunCause.RUN_LIMIT)
    return np.flatnonzero((state == TaskState.FAILED) | overran).astype(np.int64)


def _nothing_failed(job: JobRow) -> str:
    """Why nothing that failed can be started, and what can."""
    text = "no task failed or ran for as long as it may"
    if not job.stopped:
        return text
    was, them = ("was", "it") if job.stopped == 1 else ("were", "them")
    return f"{text}; {job.stopped} {was} stopped: `paceline job start {job.job_id}` starts {them}"


def _ranges(instances: I64) -> dict[str, I64]:
    first, count = ranges_in(instances)
    return {"first": first, "count": count}


def _uploads(connection: Connection, job: JobSubmitted) -> list[Event]:
    """The overrides that a specification names: they can be named for an hour, and that may be over."""
    chunks = tables.override_chunks.c
    names = [chunk.digest.hex() for chunk in job.chunks]
    rows = connection.execute(select(chunks.content).where(chunks.name.in_(names))) if names else ()
    return [OverridesUploaded(content=content) for (content,) in rows]
