"""Routes by which operators drain, cordon and take back hosts: one by its path, several by ids or an attribute.

Several are one fact, so that a command is carried out on all hosts or on none (decision 095).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from sqlalchemy import Connection, exists, func, select, true
from starlette.concurrency import run_in_threadpool

from events.bounds import INT_MAX
from events.codes import Code
from events.nearest import meant
from events.records.base import Event
from events.records.hosts import HostsCordonRequested, HostsResumeRequested
from events.spec.maintenance import DrainSpec, Hosts
from paceline.client.json_type import Json
from paceline.client.maintenance_models import DrainEffects
from projections.api.commands import REASON_MAX, Command, carry_out
from projections.api.context import Context, Wait
from projections.api.job_plans import plans_of
from projections.api.problems import ANSWERED, Problem
from projections.queries.drain_effects import effects_of, host_rows_of, last_hosts, plan_notes
from projections.queries.drain_refusals import of_drain
from projections.queries.known_names import unknown_host
from projections.views import tables
from projections.views.rows import AnswerRow

FAULTS_MAX = 20
DryRun = Annotated[bool, Query(description="Tell what would leave, and write nothing.")]
Planned = Annotated[bool, Query(description="Of a dry run: also tell which tasks would find no place elsewhere.")]
Make = Callable[[Sequence[str], str], Event]
"""Makes a fact of the ids of hosts and the id of the command."""


class Drain(DrainSpec):
    """A drain of a host."""

    command_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    reason: Annotated[str, Field(max_length=REASON_MAX)] = ""
    force: bool = Field(default=False, description="Whether all that runs there is ended at once.")

    def fact(self, host_ids: Sequence[str], command_id: str, most: int = 0) -> Event:
        """The fact about these hosts."""
        return self.to_event(host_ids, command_id, self.reason, most, self.force)


class DrainOfHosts(Drain):
    """A drain of several hosts."""

    hosts: Hosts
    max_hosts: Annotated[int, Field(ge=0, le=INT_MAX)] = Field(
        default=0, description="So many of them, the cheapest to drain; 0: all."
    )


class CommandToHosts(Command):
    """A command about several hosts."""

    hosts: Hosts


def routes(context: Context) -> APIRouter:
    """The routes of these commands."""
    router = APIRouter(prefix="/v1", tags=["hosts"])

    @router.post("/hosts/{host_id}/drains", status_code=202, responses=ANSWERED)
    async def drain(
        host_id: str, command: Drain, wait: Wait, dry_run: DryRun = False, plan: Planned = False
    ) -> Response:
        """Empties a host: nothing new is placed there, and what runs there leaves as the SLAs of jobs allow."""
        return await _drain(context, command, Hosts(ids=[host_id]), wait, dry_run, plan)

    @router.post("/hosts/{host_id}/cordons", status_code=202, responses=ANSWERED)
    async def cordon(host_id: str, command: Command, wait: Wait) -> Response:
        """Keeps new tasks away from a host, but for those that are bound to it; what runs there goes on."""
        return await _tell(context, command, Hosts(ids=[host_id]), partial(_cordon, command.reason), wait)

    @router.post("/hosts/{host_id}/uncordons", status_code=202, responses=ANSWERED)
    async def uncordon(host_id: str, command: Command, wait: Wait) -> Response:
        """Ends the cordon of a host; refused while it drains or is drained."""
        return await _tell(context, command, Hosts(ids=[host_id]), partial(_resume, command.reason, True), wait)

    @router.post("/hosts/{host_id}/resumptions", status_code=202, responses=ANSWERED)
    async def resume(host_id: str, command: Command, wait: Wait) -> Response:
        """Takes a host back: its drain and its cordon end. Of one that a campaign works on it says that the work is
        done.
        """
        return await _tell(context, command, Hosts(ids=[host_id]), partial(_resume, command.reason, False), wait)

    @router.post("/host-drains", status_code=202, responses=ANSWERED)
    async def drain_hosts(
        command: DrainOfHosts, wait: Wait, dry_run: DryRun = False, plan: Planned = False
    ) -> Response:
        """Empties several hosts, all or, where one is refused, none."""
        return await _drain(context, command, command.hosts, wait, dry_run, plan, command.max_hosts)

    @router.post("/host-cordons", status_code=202, responses=ANSWERED)
    async def cordon_hosts(command: CommandToHosts, wait: Wait) -> Response:
        """Keeps new tasks away from several hosts, all or none."""
        return await _tell(context, command, command.hosts, partial(_cordon, command.reason), wait)

    @router.post("/host-uncordons", status_code=202, responses=ANSWERED)
    async def uncordon_hosts(command: CommandToHosts, wait: Wait) -> Response:
        """Ends the cordons of several hosts, all or none."""
        return await _tell(context, command, command.hosts, partial(_resume, command.reason, True), wait)

    @router.post("/host-resumptions", status_code=202, responses=ANSWERED)
    async def resume_hosts(command: CommandToHosts, wait: Wait) -> Response:
        """Takes several hosts back, all or none."""
        return await _tell(context, command, command.hosts, partial(_resume, command.reason, False), wait)

    return router


def _cordon(reason: str, host_ids: Sequence[str], command_id: str) -> Event:
    return HostsCordonRequested(host_ids=tuple(host_ids), command_id=command_id, reason=reason)


def _resume(reason: str, cordon_only: bool, host_ids: Sequence[str], command_id: str) -> Event:
    ids = tuple(host_ids)
    return HostsResumeRequested(host_ids=ids, command_id=command_id, cordon_only=cordon_only, reason=reason)


async def _drain(
    context: Context, command: Drain, hosts: Hosts, wait: float, dry_run: bool, plan: bool, most: int = 0
) -> Response:
    def effects() -> tuple[list[str], DrainEffects]:
        with context.views.read() as connection:
            host_ids = resolved(connection, hosts)
            fact = command.to_event(host_ids, "", command.reason, most, command.force)
            if dry_run:
                context.permits.fact(fact)
                if refusal := of_drain(connection, fact):
                    raise refused(*refusal)
            body = effects_of(connection, host_ids, dry_run, command.to_part(), command.force)
            if not 0 < most < len(host_ids):
                body["notes"] += last_hosts(connection, body)
            return host_ids, body

    host_ids, preview = await run_in_threadpool(effects)
    if dry_run:
        if plan:
            await run_in_threadpool(_plan, context, command.fact(host_ids, "plan", most), preview)
        return JSONResponse(preview)

    def follows(connection: Connection, answer: AnswerRow) -> Json:
        return {**_taken(answer, host_ids), "notes": preview["notes"]}

    fact = partial(command.fact, host_ids, most=most)
    return await _write(context, Command(command_id=command.command_id), host_ids, fact, wait, follows)


def _plan(context: Context, fact: Event, effects: DrainEffects) -> None:
    """Adds what the machines would decide, or that it can't be told now: the rest is as true without it."""
    try:
        effects["plan"] = plan = plans_of(context).plan_drain(fact)
    except Problem as problem:
        effects["notes"].append(f"whether all finds a place elsewhere can't be told now: {problem.detail}")
    else:
        effects["notes"] += plan_notes(plan)


def refused(code: Code, message: str) -> Problem:
    """The problem by which a command would be refused."""
    return Problem(404 if code == Code.NOT_FOUND else 409, code, message)


async def _tell(context: Context, command: Command, hosts: Hosts, make: Make, wait: float) -> Response:
    def ids() -> list[str]:
        with context.views.read() as connection:
            return resolved(connection, hosts)

    host_ids = await run_in_threadpool(ids)

    def follows(connection: Connection, answer: AnswerRow) -> Json:
        return _taken(answer, host_ids)

    return await _write(context, command, host_ids, partial(make, host_ids), wait, follows)


async def _write(
    context: Context,
    command: Command,
    host_ids: Sequence[str],
    fact: Callable[[str], Event],
    wait: float,
    follows: Callable[[Connection, AnswerRow], Json],
) -> Response:
    about = f"/v1/hosts/{quote(host_ids[0], safe='')}" if len(host_ids) == 1 else "/v1/hosts"
    return await carry_out(context, command, fact, host_ids[0], _nothing, wait, follows=follows, about=about)


def _nothing(connection: Connection) -> None:
    """The hosts have been looked up already."""


def _taken(answer: AnswerRow, host_ids: Sequence[str]) -> Json:
    """The hosts that a command was carried out on."""
    those: Any = msgspec.json.decode(answer.subject) if answer.subject.startswith("[") else []
    return {"host_ids": those or list(host_ids)}


def resolved(connection: Connection, hosts: Hosts) -> list[str]:
    """The ids of hosts that are named, each once. Raises a problem where one isn't known, or none has the attribute."""
    if hosts.ids is None:
        return _with_attribute(connection, hosts)
    host_ids = list(dict.fromkeys(hosts.ids))
    there = {row.host_id for row in host_rows_of(connection, host_ids)}
    unknown = [host_id for host_id in host_ids if host_id not in there]
    if not unknown:
        return host_ids
    detail = unknown_host([connection], unknown[0]) or f"there is no host {unknown[0][:140]} any more"
    if len(host_ids) == 1:
        raise Problem(404, Code.NOT_FOUND, detail)
    faults = [
        (f"/hosts/ids/{hosts.ids.index(each)}", f"there is no host {each[:140]}") for each in unknown[:FAULTS_MAX]
    ]
    raise Problem(404, Code.NOT_FOUND, f"{detail} (nothing was done with the other hosts)", faults)


def _with_attribute(connection: Connection, hosts: Hosts) -> list[str]:
    columns = tables.hosts.c
    pairs = func.json_each(columns.attributes).table_valued("key", "value", name="pairs")
    of_name = pairs.c.key == hosts.attribute
    of_it = select(1).select_from(pairs).where(of_name, pairs.c.value.in_(hosts.values))
    query = select(columns.host_id).where(exists(of_it)).order_by(columns.place, columns.host_id)
    host_ids = list(connection.execute(query).scalars())
    all_values = select(pairs.c.value).select_from(tables.hosts.join(pairs, true())).where(of_name).distinct()
    there = {*connection.execute(all_values).scalars()}
    unknown = [at for at, value in enumerate(hosts.values) if value not in there]
    if not unknown:
        return host_ids
    what = f"no host has the attribute {hosts.attribute} with the value"
    faults = [(f"/hosts/values/{at}", f"{what} {hosts.values[at][:140]}") for at in unknown[:FAULTS_MAX]]
    value = hosts.values[unknown[0]]
    rest = " (nothing was done with the other hosts)" if host_ids else ""
    raise Problem(404, Code.NOT_FOUND, f"{what} {value[:140]}{meant(value, map(str, there))}{rest}", faults)
