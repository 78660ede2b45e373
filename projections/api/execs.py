"""Commands that users run inside the runs of a job: asked for here, carried by the gateway of the host.

The token is asked for by all of these routes, for reading too: who reads a terminal sees what is typed there.
"""

import hmac
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.bounds import INT_MAX, PORT_MAX
from events.codes import Code, TaskState
from events.roles import Verb
from events.spec.parts import Command
from paceline.client.exec_frames import ExecsFull
from projections.access.identity import present
from projections.api import acting
from projections.api.context import Context, Execs
from projections.api.job_lookup import read_views
from projections.api.job_rows import find_job
from projections.api.problems import Problem, not_found
from projections.api.standing import standing, while_standing
from projections.queries import tasks as task_queries
from projections.queries.resources import settings_of

LIVE = (TaskState.RUNNING.name, TaskState.STOPPING.name)
"""States of a task whose run has a process."""


class ExecCommand(BaseModel):
    """A command to run inside a run."""

    model_config = ConfigDict(extra="forbid")
    command: Command = Field(default=[], description="Program and arguments.")
    port: int = Field(default=0, ge=0, le=PORT_MAX, description="In its place a connection to this port of the run.")
    run: int | None = Field(default=None, ge=1, le=INT_MAX, description="Number of the run; none: the last.")
    terminal: bool = Field(default=False, description="Whether it gets a terminal.")
    rows: int = Field(default=0, ge=0, le=65_535)
    columns: int = Field(default=0, ge=0, le=65_535)


def routes(context: Context) -> APIRouter:
    """The routes of /v1/jobs/{id}/tasks/{n}/execs."""
    router = APIRouter(prefix="/v1/jobs/{job_id}/tasks/{instance}/execs", tags=["jobs"])

    @router.post("", status_code=201)
    async def enter(
        job_id: str, instance: Annotated[int, Path(ge=0, le=INT_MAX)], wish: ExecCommand, request: Request
    ) -> Response:
        """Starts a command inside a run. What is typed goes to `execs/{exec}/in`, what it writes comes from
        `execs/{exec}/out`, both within 10 s, as frames (`paceline.client.exec_frames`).
        """
        if bool(wish.command) == bool(wish.port):
            raise Problem(422, "INVALID_REQUEST", "say a command or a port", [("/command", "or port is missing")])

        def find(connection: Connection) -> tuple[int, str]:
            if not settings_of(connection).exec:
                raise Problem(
                    403, Code.EXEC_OFF, "runs of this cell can't be entered: `paceline cell set exec=on` permits it"
                )
            task = task_queries.task(connection, find_job(connection, job_id), instance)
            if task is None or not task["run"]:
                raise not_found("run of task", f"{instance} of job {job_id}")
            if wish.run not in (None, task["run"]) or task["state"] not in LIVE:
                state = f"run {task['run']} of task {instance} is {task['state']}"
                detail = f"{state}: only a run that has started and goes on can be entered"
                raise Problem(409, Code.RUN_ENDED, detail)
            return task["run"], str(task["host_id"])

        verb = Verb.FORWARD if wish.port else Verb.EXEC
        permit = await run_in_threadpool(context.permits.job, verb, job_id)
        run, host_id = await run_in_threadpool(read_views, context, find)
        if context.execs is None:
            raise Problem(503, "NO_GATEWAY", "this process has no gateway to reach hosts by")
        place = {"job_id": job_id, "instance": instance, "run": run, "host_id": host_id}
        size = {"terminal": wish.terminal, "rows": wish.rows, "columns": wish.columns, "port": wish.port}
        try:
            exec_id = await context.execs.open(
                {**place, **size, "command": tuple(wish.command), "actor": acting.permitted(*permit)}
            )
        except ExecsFull as error:
            raise Problem(429, Code.TOO_MANY_SESSIONS, str(error)) from error
        except LookupError as error:
            raise Problem(503, "NOT_REACHED", str(error)) from error
        handle = _handle(request, exec_id, job_id, instance)
        return JSONResponse({"exec": handle, "run": run, "host_id": host_id}, 201)

    _sides(router, context)
    return router


def _sides(router: APIRouter, context: Context) -> None:
    @router.post("/{exec_id}/in", status_code=204)
    async def typed(job_id: str, instance: int, exec_id: str, request: Request) -> Response:
        """Hands on the frames that the user types, for as long as the command goes on, and they may."""
        may = partial(run_in_threadpool, context.permits.job, Verb.EXEC, job_id)
        await may()
        own = _own_id(request, exec_id, job_id, instance)
        try:
            await _carrier(context, own).typed(own, while_standing(request.stream(), standing(request, may)))
        except LookupError as error:
            raise not_found("command", exec_id) from error
        return Response(status_code=204)

    @router.get("/{exec_id}/out", response_class=Response)
    async def written(job_id: str, instance: int, exec_id: str, request: Request) -> Response:
        """Answers with the frames that the command writes, to its end, or that of the right to read them."""
        may = partial(run_in_threadpool, context.permits.job, Verb.EXEC, job_id)
        await may()
        own = _own_id(request, exec_id, job_id, instance)
        try:
            chunks = await _carrier(context, own).written(own)
        except LookupError as error:
            raise not_found("command", exec_id) from error
        content = while_standing(chunks, standing(request, may))
        return StreamingResponse(content, media_type="application/octet-stream")


def _handle(request: Request, exec_id: str, job_id: str, instance: int) -> str:
    """The name of a command for who opened it: another job, instance or actor has nothing of it. Any server with the
    token of the cell knows it again.
    """
    who, token = present(), request.app.state.guards.token
    of = f"{exec_id} {job_id} {instance} {who.how} {who.subject}".encode("utf-8", "replace")
    return f"{exec_id}.{hmac.digest(token.encode(), of, 'sha256').hex()[:32]}"


def _own_id(request: Request, handle: str, job_id: str, instance: int) -> str:
    """The id of a command by its handle. Raises a problem where it is none of this actor's here."""
    exec_id = handle.partition(".")[0]
    if not hmac.compare_digest(_handle(request, exec_id, job_id, instance).encode(), handle.encode("utf-8", "replace")):
        raise not_found("command", handle)
    return exec_id


def _carrier(context: Context, exec_id: str) -> Execs:
    if context.execs is None:
        raise LookupError(exec_id)
    return context.execs
