"""Routes of the settings of the cell: look at them, change some."""

import uuid
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Body, Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from events.codes import Code
from events.records.pools import CellConfigured
from events.spec.problems import problems
from events.spec.settings import CellSpec, settings_json
from projections.api.commands import Reason, answered
from projections.api.context import Context, Reading, Wait
from projections.api.problems import ANSWERED, Problem
from projections.queries.resources import settings_of


def routes(context: Context) -> APIRouter:
    """The routes under /v1/cell/settings."""
    router = APIRouter(prefix="/v1/cell/settings", tags=["cell"])

    @router.get("")
    async def settings(read: Reading) -> Response:
        """The settings of the cell, and the resources that were added to it."""
        return await read(lambda connection: settings_json(settings_of(connection)))

    @router.patch("", status_code=202, responses=ANSWERED)
    async def change(body: Annotated[Any, Body()], wait: Wait, reason: Reason = "") -> Response:
        """Changes the settings that the body names; all others, and resources that it doesn't name, stay."""
        fact = msgspec.structs.replace(await run_in_threadpool(_fact, body), reason=reason)
        offset = await run_in_threadpool(context.append, fact, "/")
        return await answered(context, fact, offset, wait, 422, about="/v1/cell/settings")

    return router


def _fact(body: Any) -> CellConfigured:
    """The fact to append. Raises a problem."""
    try:
        spec = CellSpec.model_validate(body)
    except ValidationError as error:
        raise Problem(422, Code.INVALID_SETTINGS, "the settings have problems", problems(error, CellSpec)) from error
    if not spec.model_fields_set:
        raise Problem(422, Code.INVALID_SETTINGS, "the body names no setting to change")
    return spec.to_event(uuid.uuid4().hex)
