"""Routes of volumes: which hosts keep, and the end of one."""

from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field
from sqlalchemy import Connection

from events.bounds import INSTANCES_MAX, WORD_MAX
from events.codes import IN_EFFECT, Code
from events.records.jobs import VolumeRemovalRequested
from paceline.client.page_models import VolumesPage
from projections.api.commands import Command, carry_out
from projections.api.context import Context, Pages, Place, Reading, Wait, next_token
from projections.api.list_requests import must_have_host, must_have_job
from projections.api.problems import ANSWERED, Problem
from projections.queries import entities
from projections.views.rows import VolumeRow

PLACE: Any = tuple[str, str, Place, str]
"""Where a page of volumes goes on."""


class VolumesRequest(NamedTuple):
    """The host and the job whose volumes are listed; empty: all."""

    host: str
    job: str


async def volumes_request(
    host: Annotated[str, Query(max_length=WORD_MAX, description="Volumes of this host only.")] = "",
    job: Annotated[str, Query(max_length=WORD_MAX, description="Volumes of this job only.")] = "",
) -> VolumesRequest:
    """The parameters of the list of volumes."""
    return VolumesRequest(host, job)


VolumesQuery = Annotated[VolumesRequest, Depends(volumes_request)]


class VolumeRemoval(Command):
    """The volume of a host that is to be removed, with all that is in it."""

    job_id: Annotated[str, Field(max_length=WORD_MAX)]
    instance: Annotated[int, Field(ge=0, lt=INSTANCES_MAX)]
    name: Annotated[str, Field(max_length=WORD_MAX)]


def place_of(row: VolumeRow) -> tuple[str, str, int, str]:
    """Where a volume stands in the list."""
    return row.host_id, row.job_id, row.instance, row.name


def routes(context: Context) -> APIRouter:
    """The routes of volumes."""
    router = APIRouter(tags=["volumes"])

    @router.get("/v1/volumes")
    async def volumes(wanted: VolumesQuery, read: Reading, page: Pages) -> Response:
        """Volumes by host and task, those of jobs that are deleted too."""
        after = page.after(PLACE, "volumes", *wanted)

        def look(connection: Connection) -> VolumesPage:
            must_have_host([connection], wanted.host)
            must_have_job([connection], wanted.job)
            rows = entities.volume_rows(connection, page.size, after, *wanted)
            last = place_of(rows.rows[-1]) if rows.more else None
            volumes_json = [entities.volume_json(row) for row in rows.rows]
            return {"volumes": volumes_json, "next_page_token": next_token(last, "volumes", *wanted)}

        return await read(look)

    @router.post("/v1/hosts/{host_id}/volume-removals", status_code=202, responses=ANSWERED)
    async def remove(host_id: str, command: VolumeRemoval, wait: Wait) -> Response:
        """Removes a volume with all that is in it, unless its task is to find it there."""
        rows: list[VolumeRow] = []

        def must_be(connection: Connection) -> None:
            row = entities.volume_row(connection, host_id, command.job_id, command.instance, command.name)
            if row is None:
                detail = f"host {host_id} has no volume {command.name} of task {command.job_id}/{command.instance}"
                raise Problem(404, Code.NOT_FOUND, detail)
            rows.append(row)

        def fact(command_id: str) -> VolumeRemovalRequested:
            return VolumeRemovalRequested(
                job_id=command.job_id,
                command_id=command_id,
                host_id=host_id,
                instance=command.instance,
                name=command.name,
                created_ms=rows[0].created_ms,
                reason=command.reason,
            )

        return await carry_out(context, command, fact, command.job_id, must_be, wait, IN_EFFECT, about="/v1/volumes")

    return router
