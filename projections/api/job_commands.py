"""Routes of commands about a job: each writes one fact, which lifecycle answers (decision 044).

All take the version that the job must have, a reason, and data that is kept with the command. The answer says which
version and which update follow, with how many instances the update is about.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.answers import cant_change
from events.bounds import INSTANCES_MAX, INT_MAX
from events.codec import encode
from events.codes import IN_EFFECT, Code
from events.instance_ranges import PATTERN, read_ranges
from events.records.base import Event
from events.records.jobs import (
    JobActionRequested,
    JobPriorityRequested,
    JobStopRequested,
    JobUpdateRequested,
)
from events.roles import Verb
from events.spec.job import JobSpec, from_event
from events.task_overrides import whole
from paceline.client.json_type import Json
from paceline.client.models import UpdateCheck
from projections.api.commands import FINE, MADE, Command, Reason, carry_out
from projections.api.context import Context, Wait
from projections.api.image_tags import digest_of, pinned
from projections.api.job_lookup import read_views
from projections.api.job_rows import find_job
from projections.api.job_specs import checked_spec, must_know_resources, once_settled
from projections.api.problems import ANSWERED, Problem
from projections.api.secrets import Pins
from projections.queries import fits_nowhere, versions
from projections.queries.resources import kinds_of
from projections.queries.stored_chunks import with_uploads
from projections.queries.update_counts import instance_counts
from projections.views.rows import AnswerRow

DATA_MAX = 4096
RANGES_MAX = 10_000
OF_UPDATES = {
    "pauses": ("pause", "Pauses the update of a job: what is being updated goes on, nothing more is begun."),
    "resumes": ("resume", "Lets a paused update go on."),
    "aborts": ("abort", "Ends the update of a job: what is updated stays so, the rest stays as it is."),
    "promotions": ("promote", "Lets an update go on from its canary to all instances."),
}
OF_JOBS = {
    "holds": ("hold", "Holds a job: what of it waits isn't queued until it is released; what runs goes on."),
    "releases": ("release", "Releases a job that is held."),
}
MAKING = ("restart", "roll_back")
"""Actions that make an update."""
Version = Annotated[int, Field(ge=0, le=INT_MAX, description="0: whatever it has.")]


class JobCommand(Command):
    """The parameters of each command about a job."""

    expected_version: Version = 0
    data: Annotated[str, Field(max_length=DATA_MAX, description="Kept with the command.")] = ""


class InstancesCommand(JobCommand):
    """About which instances it is."""

    instances: (
        Annotated[str, Field(pattern=PATTERN, max_length=12 * RANGES_MAX, description="0-9,12; empty: all.")] | None
    ) = None

    @field_validator("instances")
    @classmethod
    def _in_order(cls, text: str | None) -> str | None:
        try:
            ranges = read_ranges(text or "")
        except ValueError as error:
            raise PydanticCustomError("instances", "{what}", {"what": str(error)}) from error
        if any(first + count > INSTANCES_MAX for first, count in ranges):
            raise PydanticCustomError("instances", "names instances beyond {most}", {"most": INSTANCES_MAX - 1})
        return text

    def columns(self) -> Json:
        """The columns of the ranges in the fact."""
        ranges = read_ranges(self.instances or "")
        return {"first": [first for first, _ in ranges], "count": [count for _, count in ranges]}


class RestartCommand(InstancesCommand):
    """The number of instances that are restarted at a time."""

    batch: Annotated[int, Field(ge=0, le=INSTANCES_MAX, description="0: all.")] = 0


class RollBackCommand(JobCommand):
    """To which version."""

    version: Annotated[int, Field(ge=0, le=INT_MAX, description="0: the last before it that an update completed.")] = 0


class PriorityCommand(JobCommand):
    """The priority that a job is to have."""

    priority: Annotated[int, Field(ge=-INT_MAX, le=INT_MAX)]


class UpdateCommand(JobCommand):
    """The specification that a job is to have, whole."""

    spec: Json


def add_routes(router: APIRouter, context: Context) -> None:
    """Adds them to the routes of jobs."""
    _update(router, context)
    _instances(router, context)
    for path, (action, text) in {**OF_UPDATES, **OF_JOBS}.items():
        _plain(router, context, path, action, text)

    @router.post("/{job_id}/rollbacks", status_code=202, responses=ANSWERED)
    async def roll_back(job_id: str, command: RollBackCommand, wait: Wait) -> Response:
        """Goes back to an earlier version of the job, by an update to a new version that is equal to it."""
        return await act(context, job_id, command, "roll_back", wait, version=command.version)

    @router.post("/{job_id}/priorities", status_code=202, responses=ANSWERED)
    async def change_priority(job_id: str, command: PriorityCommand, wait: Wait) -> Response:
        """Gives a job another priority: what of it waits stands elsewhere in the queue of its pool."""
        return await set_priority(context, job_id, command, wait)

    @router.delete("/{job_id}", status_code=202, responses=ANSWERED)
    async def delete(
        job_id: str,
        command: Annotated[JobCommand, Depends(_in_query)],
        wait: Wait,
        force: Annotated[bool, Query(description="Stop the job first, if it has not ended.")] = False,
    ) -> Response:
        """Forgets a job."""
        return await act(context, job_id, command, "delete", wait, force=force)


def _in_query(
    command_id: Annotated[str | None, Query(min_length=1, max_length=128)] = None,
    reason: Reason = "",
    expected_version: Annotated[int, Query(ge=0, le=INT_MAX)] = 0,
    data: Annotated[str, Query(max_length=DATA_MAX)] = "",
) -> JobCommand:
    """A command of a request without a body."""
    return JobCommand(command_id=command_id, reason=reason, expected_version=expected_version, data=data)


def _update(router: APIRouter, context: Context) -> None:
    @router.post("/{job_id}/updates", status_code=202, responses=ANSWERED)
    async def update(
        job_id: str,
        command: UpdateCommand,
        wait: Wait,
        request: Request,
        dry_run: Annotated[bool, Query(description="Check the specification and answer what would change.")] = False,
    ) -> Response:
        """Gives a job another specification: an update takes its instances to it."""
        digest = await digest_of(command.spec, request, "/spec")
        pins = await Pins().look_up(context, command.spec, "/spec")
        spec = await once_settled(context, partial(_checked, context, {"job_id": job_id, **command.spec}))
        if spec.job_id != job_id:
            text = f"is {spec.job_id}, the job is {job_id}"
            raise Problem(422, Code.INVALID_SPEC, "the spec has 1 problem", [("/spec/job_id", text)])
        event = pins.pinned(pinned(spec.to_event(), digest))
        if not dry_run:
            await run_in_threadpool(context.append_uploads, spec.chunks, job_id)
            return await _carry_out(
                context,
                job_id,
                command,
                partial(JobUpdateRequested, job_id=job_id, spec=encode(event)),
                wait,
                makes_update=True,
            )

        def look(connection: Connection) -> UpdateCheck:
            context.prepare_plans()
            job = find_job(connection, job_id)
            context.permits.job(Verb.CHANGE, job_id)
            if event.pool != job.pool:
                raise Problem(409, Code.NOT_UPDATABLE, cant_change("pool", job.kind))
            chunk = with_uploads(connection, spec.chunks)
            accepted, units = job.base >= 0, kinds_of(connection).units
            before = versions.present_spec(connection, job, overrides=True)
            after = from_event(whole(event, chunk), units)
            return {
                "job_id": job_id,
                "version": job.version or None,
                "instances": instance_counts(connection, job, event, chunk) if accepted else None,
                "warnings": fits_nowhere.warnings(connection, event, chunk),
                **versions.changes_json(before, after),
            }

        return JSONResponse(await run_in_threadpool(read_views, context, look), 200)


def _checked(context: Context, body: Json) -> JobSpec:
    """The specification of an update."""
    spec = checked_spec(context, body, "/spec")
    read_views(context, partial(must_know_resources, spec=spec, at="/spec"))
    return spec


def _instances(router: APIRouter, context: Context) -> None:
    @router.post("/{job_id}/stops", status_code=202, responses=ANSWERED)
    async def stop(job_id: str, command: InstancesCommand, wait: Wait) -> Response:
        """Asks for the end of a job, or of some of its instances."""
        return await stop_job(context, job_id, command, wait)

    @router.post("/{job_id}/restarts", status_code=202, responses=ANSWERED)
    async def restart(job_id: str, command: RestartCommand, wait: Wait) -> Response:
        """Stops instances and runs them again, in batches: an update to a version that is equal."""
        return await act(context, job_id, command, "restart", wait, batch=command.batch, **command.columns())


def _plain(router: APIRouter, context: Context, path: str, action: str, text: str) -> None:
    """The route of an action that needs nothing beside what all take."""

    @router.post(f"/{{job_id}}/{path}", status_code=202, responses=ANSWERED, description=text, name=action)
    async def plain(job_id: str, command: JobCommand, wait: Wait) -> Response:
        return await act(context, job_id, command, action, wait)


async def stop_job(context: Context, job_id: str, command: InstancesCommand, wait: float) -> Response:
    """Asks for the end of a job, or of some of its instances."""
    fact = partial(JobStopRequested.pack, job_id=job_id, **command.columns())
    return await _carry_out(context, job_id, command, fact, wait, FINE)


async def set_priority(context: Context, job_id: str, command: PriorityCommand, wait: float) -> Response:
    """Gives a job another priority."""
    fact = partial(JobPriorityRequested, job_id=job_id, priority=command.priority)
    return await _carry_out(context, job_id, command, fact, wait)


async def act(context: Context, job_id: str, command: JobCommand, action: str, wait: float, **more: Any) -> Response:
    """Asks for an action of `JobActionRequested`."""
    fact = partial(JobActionRequested.pack, job_id=job_id, action=action, **more)
    return await _carry_out(context, job_id, command, fact, wait, makes_update=action in MAKING)


async def _carry_out(
    context: Context,
    job_id: str,
    command: JobCommand,
    fact: Callable[..., Event],
    wait: float,
    fine: tuple[Code, ...] = IN_EFFECT,
    makes_update: bool = False,
) -> Response:
    """Writes a command about a job and waits for its answer."""
    whole = partial(fact, expected_version=command.expected_version, reason=command.reason, data=command.data)
    return await carry_out(
        context,
        command,
        lambda command_id: whole(command_id=command_id),
        job_id,
        partial(find_job, job_id=job_id),
        wait,
        fine,
        partial(_update_made if makes_update else follows, job_id),
        path_of_job(job_id) + ("/updates" if makes_update else ""),
    )


def path_of_job(job_id: str) -> str:
    """The path of a job."""
    return f"/v1/jobs/{quote(job_id, safe='')}"


def _update_made(job_id: str, connection: Connection, answer: AnswerRow) -> Json:
    """The effects of a command that makes an update, unless it was given before or changes nothing."""
    effects = follows(job_id, connection, answer)
    if answer.code == Code.DONE and effects["update"] is not None:
        effects[MADE] = f"{path_of_job(job_id)}/updates/{effects['update']['number']}"
    return effects


def follows(job_id: str, connection: Connection, answer: AnswerRow) -> Json:
    """The effects of a command: the version of the job, and the update with its numbers of instances."""
    updates = versions.updates(connection, job_id, answer.update) if answer.update else []
    update = versions.update_json(updates[0]) if updates else None
    return {"version": answer.version or None, "update": update}
