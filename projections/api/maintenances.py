"""Routes of campaigns: starting one, what becomes of it, and an operator's word about it."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.codes import Step
from events.records.base import Event
from events.records.hosts import MaintenanceActionRequested
from events.spec.maintenance import MaintenanceSpec
from paceline.client.json_type import Json
from paceline.client.maintenance_models import (
    DrainEffects,
    Maintenance,
    MaintenanceHostsPage,
    MaintenancesPage,
)
from projections.api.commands import MADE, Command, carry_out
from projections.api.context import Context, Pages, Place, Reading, Wait, next_token
from projections.api.drains import DryRun, refused, resolved
from projections.api.list_requests import states_of
from projections.api.problems import ANSWERED, Problem, not_found
from projections.queries import maintenances as queries
from projections.queries.drain_effects import effects_of, host_rows_of, last_hosts
from projections.queries.drain_refusals import of_campaign
from projections.views.maintenance_rows import MaintenanceRow
from projections.views.rows import AnswerRow


class Start(MaintenanceSpec):
    """A campaign that is to start."""

    command_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None


def routes(context: Context) -> APIRouter:
    """The routes under /v1/maintenances."""
    router = APIRouter(prefix="/v1/maintenances", tags=["maintenances"])
    _reads(router)

    @router.post("", status_code=202, responses=ANSWERED)
    async def start(plan: Start, wait: Wait, dry_run: DryRun = False) -> Response:
        """Starts a campaign: its hosts are emptied, worked on, checked and taken back, some at a time."""

        def effects() -> tuple[list[str], DrainEffects]:
            with context.views.read() as connection:
                host_ids = resolved(connection, plan.hosts)
                _must_have_racks(connection, plan, host_ids)
                fact = plan.to_event(host_ids, "")
                if dry_run:
                    context.permits.fact(fact)
                    if refusal := of_campaign(connection, fact):
                        raise refused(*refusal)
                body = effects_of(connection, host_ids, dry_run, plan.drain.to_part())
                if plan.at_a_time >= len(host_ids):
                    body["notes"] += last_hosts(connection, body)
                return host_ids, body

        host_ids, preview = await run_in_threadpool(effects)
        if dry_run:
            return JSONResponse(preview)
        about = f"/v1/maintenances/{quote(plan.maintenance_id, safe='')}"

        def follows(_: Connection, answer: AnswerRow) -> Json:
            location = {MADE: about} if answer.code == "DONE" else {}
            return {"host_ids": host_ids, "notes": preview["notes"], **location}

        command = Command(command_id=plan.command_id)
        fact = partial(plan.to_event, host_ids)
        return await carry_out(
            context, command, fact, plan.maintenance_id, _anything, wait, follows=follows, about=about
        )

    @router.post("/{maintenance_id}/pauses", status_code=202, responses=ANSWERED)
    async def pause(maintenance_id: str, command: Command, wait: Wait) -> Response:
        """Starts no more hosts; those that have begun go on."""
        return await _act(context, maintenance_id, "pause", command, wait)

    @router.post("/{maintenance_id}/resumptions", status_code=202, responses=ANSWERED)
    async def resume(maintenance_id: str, command: Command, wait: Wait) -> Response:
        """Lets a paused campaign go on, and forgives the failures until now."""
        return await _act(context, maintenance_id, "resume", command, wait)

    @router.post("/{maintenance_id}/aborts", status_code=202, responses=ANSWERED)
    async def abort(maintenance_id: str, command: Command, wait: Wait) -> Response:
        """Takes hosts back that drain, and skips the others; work and checks in progress are finished first."""
        return await _act(context, maintenance_id, "abort", command, wait)

    return router


def _reads(router: APIRouter) -> None:
    @router.get("")
    async def campaigns(read: Reading, page: Pages) -> Response:
        """Campaigns, the newest first."""
        before = page.after(Place, "maintenances")

        def look(connection: Connection) -> MaintenancesPage:
            page_rows = queries.maintenance_rows(connection, page.size, before)
            last = page_rows.rows[-1].number if page_rows.more else None
            campaigns = [queries.maintenance_json(connection, row) for row in page_rows.rows]
            return {"maintenances": campaigns, "next_page_token": next_token(last, "maintenances")}

        return await read(look)

    @router.get("/{maintenance_id}")
    async def campaign(maintenance_id: str, read: Reading) -> Response:
        """One campaign, with the hosts that it is at work on."""

        def look(connection: Connection) -> Maintenance:
            return queries.whole_maintenance(connection, _row(connection, maintenance_id))

        return await read(look)

    @router.get("/{maintenance_id}/hosts")
    async def hosts(
        maintenance_id: str,
        read: Reading,
        page: Pages,
        step: Annotated[str, Query(description="Steps, separated by commas.")] = "",
    ) -> Response:
        """The hosts of a campaign by id, numbers within ids by their value."""
        steps = states_of(step, [each.name for each in Step if each], "step")
        words = ("maintenance hosts", maintenance_id, steps)
        after = page.after(str, *words) or ""

        def look(connection: Connection) -> MaintenanceHostsPage:
            _row(connection, maintenance_id)
            page_rows = queries.host_rows(connection, maintenance_id, page.size, after, steps)
            last = page_rows.rows[-1].host_id if page_rows.more else None
            return {
                "hosts": queries.hosts_json(connection, page_rows.rows),
                "next_page_token": next_token(last, *words),
            }

        return await read(look)


def _must_have_racks(connection: Connection, plan: Start, host_ids: Sequence[str]) -> None:
    """Raises a problem where racks are counted and none of the hosts has the attribute that names its rack."""
    if not plan.per_rack:
        return
    if not any(plan.rack in msgspec.json.decode(row.attributes) for row in host_rows_of(connection, host_ids)):
        none = f"none of the {len(host_ids)} hosts has" if len(host_ids) > 1 else f"host {host_ids[0]} hasn't"
        message = f"{none} the attribute {plan.rack}: per_rack bounds nothing"
        raise Problem(422, "INVALID_REQUEST", message, [("/rack", message)])


async def _act(context: Context, maintenance_id: str, action: str, command: Command, wait: float) -> Response:
    def fact(command_id: str) -> Event:
        return MaintenanceActionRequested(
            maintenance_id=maintenance_id, command_id=command_id, action=action, reason=command.reason
        )

    about = f"/v1/maintenances/{quote(maintenance_id, safe='')}"
    must_be = partial(_row, maintenance_id=maintenance_id)
    return await carry_out(context, command, fact, maintenance_id, must_be, wait, about=about)


def _anything(connection: Connection) -> None:
    """Its hosts have been looked up already."""


def _row(connection: Connection, maintenance_id: str) -> MaintenanceRow:
    row = queries.maintenance_row(connection, maintenance_id)
    if row is None:
        raise not_found("maintenance", maintenance_id)
    return row
