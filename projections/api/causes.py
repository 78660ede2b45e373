"""The route of causes: why something was decided."""

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from paceline.client.cause_models import Causes
from projections.api.context import Context, Reading
from projections.api.job_rows import find_job
from projections.api.problems import Problem, not_found, wrong_cell
from projections.queries import why
from projections.queries.log_places import read_place

FORMS = "paceline.lifecycle:57, placement/round/812, either with /3 for one decision of a round, or the id of a job"


def routes(context: Context) -> APIRouter:
    """The route of causes."""
    router = APIRouter(tags=["log"])

    @router.get("/v1/causes/{subject:path}")
    async def causes(subject: str, read: Reading) -> Response:
        """The causes of the records at a position, or of a job's headline, followed back over all machines.

        A link tells how it is known: `cause`, the decision carries the position; `newest`, it carries that of
        the newest change that its machine knew, which need not be a cause; `run`, both name the same run; `entity`,
        both name the same job, gang or instance.
        """

        def look(connection: Connection) -> Causes:
            starts = starts_of(context, connection, subject)
            return {"of": subject, **why.chain_json(why.chain(connection, context.log, starts))}

        return await read(look)

    return router


def starts_of(context: Context, connection: Connection, subject: str) -> list[why.Start]:
    """The records that a position or the id of a job stands for. Raises a problem where there are none."""
    if not any(mark in subject for mark in ":/"):
        return why.starts_of(connection, find_job(connection, subject))
    place = read_place(subject)
    if place is None:
        raise Problem(400, "BAD_POSITION", f"{subject[:80]!r} is no position; one looks like {FORMS}")
    if place.cell not in (None, context.cell):
        raise wrong_cell(subject[:80], place.cell or 0, [context.cell])
    starts = why.starts_at(connection, context.log, place)
    if not starts:
        raise not_found("record", subject)
    return starts
