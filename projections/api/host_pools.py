"""Routes of host pools: which there are, their definitions, and the assignment of hosts to them."""

import uuid
from typing import Annotated
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.records.hosts import HostPoolAssigned, HostPoolDefined, HostPoolMoveRequested
from events.spec.host_pool_name import HostPoolName
from events.spec.host_pools import HostPoolSpec, MoveSpec
from events.spec.maintenance import Hosts
from paceline.client.host_models import HostPool, HostPoolList
from paceline.client.json_type import Json
from projections.api.commands import REASON_MAX, Command, Reason, answered
from projections.api.context import Context, Reading, Wait
from projections.api.drains import resolved
from projections.api.job_plans import plans_of
from projections.api.problems import ANSWERED, not_found
from projections.queries import host_pools as queries
from projections.views.rows import AnswerRow

DryRun = Annotated[bool, Query(description="Tell what would follow, and write nothing.")]


class HostPoolBody(HostPoolSpec):
    """A host pool that is to be defined."""

    command_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    reason: Annotated[str, Field(max_length=REASON_MAX)] = ""


class Assignment(Command):
    """Hosts that are to be in a host pool."""

    hosts: Hosts


class Move(MoveSpec):
    """Hosts that are to be moved into a host pool."""

    command_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    reason: Annotated[str, Field(max_length=REASON_MAX)] = ""
    hosts: Hosts | None = Field(default=None, description="The hosts, in place of a count.")


def routes(context: Context) -> APIRouter:
    """The routes under /v1/host-pools."""
    router = APIRouter(prefix="/v1/host-pools", tags=["hosts"])

    @router.get("")
    async def host_pools(read: Reading) -> Response:
        """All host pools, by name, and the last moves of hosts between them."""

        def look(connection: Connection) -> HostPoolList:
            return {"host_pools": queries.host_pools(connection), "moves": queries.moves(connection)}

        return await read(look)

    @router.get("/{name}")
    async def host_pool(name: str, read: Reading) -> Response:
        """One host pool."""
        return await read(lambda connection: _host_pool(connection, name))

    @router.put("/{name}", status_code=202, responses=ANSWERED)
    async def define(name: HostPoolName, body: HostPoolBody, wait: Wait, dry_run: DryRun = False) -> Response:
        """Defines a host pool, or changes it. A dry run tells which jobs may use fewer hosts then."""
        fact = body.to_event(name, body.command_id or uuid.uuid4().hex, body.reason)
        return await _plan(context, fact) if dry_run else await _write(context, fact, wait)

    @router.delete("/{name}", status_code=202, responses=ANSWERED)
    async def remove(name: str, wait: Wait, reason: Reason = "", dry_run: DryRun = False) -> Response:
        """Removes a host pool, in which no host is. A dry run tells which jobs may use fewer hosts then."""
        await run_in_threadpool(_must_be, context, name)
        fact = HostPoolDefined(name=name, command_id=uuid.uuid4().hex, removed=True, reason=reason)
        return await _plan(context, fact) if dry_run else await _write(context, fact, wait)

    @router.post("/{name}/assignments", status_code=202, responses=ANSWERED)
    async def assign(name: str, command: Assignment, wait: Wait, dry_run: DryRun = False) -> Response:
        """Puts hosts into a host pool at once, all or none; what runs there goes on. A dry run tells which jobs may use
        fewer hosts then.
        """

        def hosts() -> list[str]:
            with context.views.read() as connection:
                _host_pool(connection, name)
                return resolved(connection, command.hosts)

        host_ids = await run_in_threadpool(hosts)
        fact = HostPoolAssigned(
            host_ids=tuple(host_ids),
            host_pool=name,
            command_id=command.command_id or uuid.uuid4().hex,
            reason=command.reason,
        )
        return await _plan(context, fact) if dry_run else await _write(context, fact, wait, host_ids)

    @router.post("/{name}/moves", status_code=202, responses=ANSWERED)
    async def move(name: str, command: Move, wait: Wait, dry_run: DryRun = False) -> Response:
        """Empties hosts of another host pool by the rules of drains, and puts them into this one: all or none. A dry
        run tells which.
        """

        def hosts() -> list[str]:
            with context.views.read() as connection:
                _host_pool(connection, name)
                return resolved(connection, command.hosts) if command.hosts is not None else []

        host_ids = await run_in_threadpool(hosts)
        fact = command.to_move(name, host_ids, command.command_id or uuid.uuid4().hex, command.reason)
        if dry_run:
            return await _plan(context, fact)
        return await _move(context, fact, wait)

    return router


async def _plan(context: Context, fact: HostPoolDefined | HostPoolAssigned | HostPoolMoveRequested) -> Response:
    await run_in_threadpool(context.permits.fact, fact)
    return JSONResponse(await run_in_threadpool(plans_of(context).plan_drain, fact))


async def _move(context: Context, fact: HostPoolMoveRequested, wait: float) -> Response:
    def follows(connection: Connection, answer: AnswerRow) -> Json:
        return {"host_ids": msgspec.json.decode(answer.subject)}

    offset = await run_in_threadpool(context.append, fact, fact.target)
    about = f"/v1/host-pools/{quote(fact.target, safe='')}"
    return await answered(context, fact, offset, wait, 409, follows=follows, about=about)


async def _write(
    context: Context, fact: HostPoolDefined | HostPoolAssigned, wait: float, host_ids: list[str] | None = None
) -> Response:
    name = fact.name if isinstance(fact, HostPoolDefined) else fact.host_pool

    def follows(connection: Connection, answer: AnswerRow) -> Json:
        return {} if host_ids is None else {"host_ids": host_ids}

    offset = await run_in_threadpool(context.append, fact, name)
    about = f"/v1/host-pools/{quote(name, safe='')}"
    return await answered(context, fact, offset, wait, 409, follows=follows, about=about)


def _must_be(context: Context, name: str) -> None:
    with context.views.read() as connection:
        _host_pool(connection, name)


def _host_pool(connection: Connection, name: str) -> HostPool:
    for each in queries.host_pools(connection):
        if each["name"] == name:
            return each
    raise not_found("host pool", name)
