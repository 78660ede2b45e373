"""The route of blame: who moved a share, limit, wait, count or state last."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection

from events.log.port import Log
from events.nearest import meant
from events.pool_paths import ROOT
from events.resources import is_gpu
from events.spec.settings import settings_json
from paceline.client.cause_models import Blame
from projections.api.context import Context, Reading
from projections.api.job_rows import find_job
from projections.api.problems import Problem, not_found, wrong_cell
from projections.queries import blame, entities, host_maintenance, pool_tree, tasks
from projections.queries.blame_fields import FIELDS, BadTarget, Target, read_target
from projections.queries.host_certificates import newest_certificate
from projections.queries.known_names import nearest_pool
from projections.queries.resources import kinds_of, settings_of
from projections.views.rows import JobRow

TARGET_MAX = 500


def routes(context: Context) -> APIRouter:
    """The route of blame."""
    router = APIRouter(tags=["log"])

    @router.get("/v1/blame")
    async def blame_of(of: Annotated[str, Query(max_length=TARGET_MAX)], read: Reading) -> Response:
        """Tells who moved a value last: the fact or the decision, who wrote what led to it and why, and what followed.

        `of` is /POOL:FIELD[:PART], JOB:FIELD[:PART], JOB/TASK:FIELD, host/NAME:FIELD[:PART] or cell:NAME[:PART], with
        the fields that the thing has in the answers of this API; a part is a resource, or another name in the value.
        """
        return await read(lambda connection: blamed(connection, context.log, of, context.time_of(connection)))

    return router


def blamed(connection: Connection, log: Log, text: str, now_ms: int) -> Blame:
    """The answer of one cell, at a time. Raises a problem for a target that can't be read, or that isn't there."""
    try:
        target = read_target(text)
    except BadTarget as error:
        raise Problem(400, "BAD_TARGET", str(error)) from error
    job = find_job(connection, target.name) if target.kind in ("job", "task") else None
    body = _body(connection, log.cell, target, job, now_ms)
    value = body.get(target.field)
    if target.part and not isinstance(value, dict | list):
        raise Problem(400, "BAD_TARGET", f"{target.field} of {text[:100]!r} has no parts: leave out :{target.part}")
    of_resources = FIELDS[target.kind][target.field].of_resources
    if of_resources and isinstance(value, dict) and target.part and not is_gpu(target.part):
        names = {*kinds_of(connection).names, *value, "others"}
        if target.part not in names:
            end = meant(target.part, names) or f": there are {', '.join(sorted(names))}"
            raise Problem(400, "BAD_TARGET", f"{target.part[:60]!r} in {text[:100]!r} is no resource of this cell{end}")
    part = blame.part_of(value, target.part)
    return blame.blame_json(connection, log, target, text, part, job)


def _body(connection: Connection, cell: int, target: Target, job: JobRow | None, now_ms: int) -> dict[str, Any]:
    """The thing as `get` shows it."""
    name = target.name
    if job is not None and target.kind == "task":
        task_filter = tasks.TaskFilter(ranges=[(target.instance, 1)])
        items = tasks.tasks_page(connection, job, task_filter, 1, 0).items
        if not items:
            raise not_found("task", f"{name}/{target.instance}")
        return {**items[0]}
    if job is not None:
        return {**entities.job_json(connection, job)}
    if target.kind == "host":
        row = entities.host_row(connection, name)
        if row is None:
            raise not_found("host", name)
        certificate = newest_certificate(connection, name, now_ms)
        return {**host_maintenance.whole_host(connection, row), "certificate": certificate}
    if target.kind == "pool":
        pools = pool_tree.pools_in_full(connection, name) if name != ROOT else []
        if not pools:
            raise not_found("pool", name, nearest_pool([connection], name))
        if pools[0]["cell"] != cell:
            raise wrong_cell(f"pool {name}", pools[0]["cell"], [cell])
        return {**pools[0]}
    return {**pool_tree.cell_json(connection, cell), **settings_json(settings_of(connection))}
