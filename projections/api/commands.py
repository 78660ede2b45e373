"""Commands about something that is there: written as facts, answered by the machine that they are for."""

import uuid
from collections.abc import Callable, Collection
from typing import Annotated, Any

from fastapi import Query, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.codes import IN_EFFECT, Code
from events.records.base import Event
from paceline.client.json_type import Json
from projections.api.context import Context
from projections.api.problems import Problem
from projections.views.rows import AnswerRow

FINE = (*IN_EFFECT, Code.ALREADY_ENDED)
"""The answers that are good for a command that ends something: it is over already."""
MADE = "made"
"""The path of what a command made, as `Follows` tells it: it is in no body."""
REASON_MAX = 1000
Reason = Annotated[str, Query(max_length=REASON_MAX, description="Why; it is recorded in the log.")]
"""The reason for a write whose body has no place for one."""
Follows = Callable[[Connection, AnswerRow], Json]
"""Adds to the answer to a command that was carried out, from the views."""


class Command(BaseModel):
    """The id of a command, by which a repeat is known, and why it is given."""

    model_config = ConfigDict(extra="forbid", strict=True)

    command_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    reason: Annotated[str, Field(max_length=REASON_MAX)] = ""


async def carry_out(
    context: Context,
    command: Command,
    fact: Callable[[str], Event],
    key: str,
    must_be: Callable[[Connection], object],
    wait: float,
    fine: Collection[Code] = FINE,
    follows: Follows | None = None,
    about: str = "",
) -> Response:
    """Writes `fact(command id)`, once `must_be` has found what it is about in the views, and waits for the answer.

    Raises a problem where `must_be` does, and where the answer is none of those that are `fine`.
    """
    command_id = command.command_id or uuid.uuid4().hex

    def append() -> tuple[Event, int]:
        with context.views.read() as connection:
            must_be(connection)
        event = fact(command_id)
        return event, context.append(event, key)

    event, offset = await run_in_threadpool(append)
    return await answered(context, event, offset, wait, 409, fine, follows, about)


async def answered(
    context: Context,
    event: Any,
    offset: int,
    wait: float,
    refused: int,
    fine: Collection[Code] = FINE,
    follows: Follows | None = None,
    about: str = "",
) -> Response:
    """The answer to a fact with a `command_id` that was written at an offset; `refused` is the status of a no. Raises
    a problem where it is one. `follows` tells more of a yes, such as where that is what was `made`; `about` is the path
    of what the fact is about, where its effect shows.
    """
    told: Json = {"command_id": event.command_id, "position": f"{event.topic}:{offset}"}
    answer = await context.answer(event.topic, offset, wait)
    headers = {"Log-Position": told["position"]}
    if answer is None:
        return JSONResponse(told, 202, headers | ({"Location": about} if about else {}))
    if answer.code not in fine:
        status = 404 if answer.code == Code.NOT_FOUND else refused
        raise Problem(status, answer.code, answer.message, position=told["position"])
    told |= {"code": answer.code, "message": answer.message}
    if follows is not None:
        told |= await run_in_threadpool(_look, context, follows, answer)
    location = told.pop(MADE, "")
    return JSONResponse(told, 201 if location else 200, headers | ({"Location": location} if location else {}))


def _look(context: Context, follows: Follows, answer: AnswerRow) -> Json:
    with context.views.read() as connection:
        return follows(connection, answer)
