"""Routes of what-if questions: what would have happened with another number (decision 132).

A process of its own answers them from the log. Nothing is written: this module has no append.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Annotated

import orjson
from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError
from starlette.concurrency import run_in_threadpool

from events.bounds import INT_MAX
from projections.access.grants import now_ms
from projections.api.context import Context, Wait
from projections.api.problems import ANSWERED, Problem, not_found
from projections.api.what_if_questions import AskedWhatIf, Question, WhatIfs
from projections.queries.known_names import unknown_pool
from projections.record_json import at as time_text

CHANGES_MAX, CHANGE_MAX, FILE_MAX = 50, 1000, 256 * 1024
"""Changes in a question; characters of one, and of a change file."""
RUNS_MAX = 20
LOOK_S = 0.1
"""Seconds after which a request that waits looks again."""
ROUTE = "/v1/what-ifs/{what_if_id}"


def _time(value: object, read: ValidatorFunctionWrapHandler) -> datetime:
    try:
        time_: datetime = read(value)
    except ValidationError as error:
        text = "must be a time such as 2026-11-18T06:00:00Z; how long ago, as in -7d, only the command takes"
        raise PydanticCustomError("time", text) from error
    return time_


Time = Annotated[datetime, WrapValidator(_time)]


class WhatIfBody(BaseModel):
    """A question."""

    model_config = ConfigDict(extra="forbid")

    from_: Annotated[Time, Field(alias="from", description="Start of the stretch.")]
    to: Annotated[Time, Field(description="End of the stretch.")]
    changes: list[Annotated[str, Field(min_length=1, max_length=CHANGE_MAX)]] = Field(
        default=[], max_length=CHANGES_MAX, description="What is otherwise, each as `paceline what-if --set` takes it."
    )
    change_file: str = Field(default="", max_length=FILE_MAX, description="The text of a change file or of pools.")
    runs: int = Field(default=5, ge=1, le=RUNS_MAX, description="Pairs of runs.")
    seed: int = Field(default=1, ge=0, le=INT_MAX, description="Of the first pair.")
    conditions: list[Annotated[str, Field(min_length=1, max_length=CHANGE_MAX)]] = Field(
        default=[], max_length=CHANGES_MAX, description="Each as `paceline what-if --fail-if` takes it."
    )

    def question(self) -> Question:
        """The same with times in milliseconds since 1970."""
        times = _ms(self.from_), _ms(self.to)
        conditions = tuple(self.conditions)
        return Question(*times, tuple(self.changes), self.change_file, self.runs, self.seed, conditions)


def routes(context: Context) -> APIRouter:
    """The routes under /v1/what-ifs."""
    router = APIRouter(prefix="/v1/what-ifs", tags=["cell"])

    @router.post("", status_code=202, responses=ANSWERED)
    async def ask(body: WhatIfBody, wait: Wait) -> Response:
        """Asks what would have happened in a stretch of history with something changed. Nothing is written: a process
        of its own decides the stretch again. The same question has the same id.
        """
        what_if = await run_in_threadpool(begin, context, body.question())
        return _answer(await _until_over(what_ifs_of(context), what_if, wait))

    @router.get("/{what_if_id}")
    async def look(what_if_id: str, wait: Wait) -> Response:
        """Tells how far a question is, and its answer once it is there. What nobody asks for any more is ended."""
        what_ifs = what_ifs_of(context)
        what_if = what_ifs.look(what_if_id)
        if what_if is None:
            raise not_found("what-if", f"{what_if_id[:80]} here any more, if there was one: ask the question again")
        return _answer(await _until_over(what_ifs, what_if, wait), 200)

    return router


def what_ifs_of(context: Context) -> WhatIfs:
    """Finds who answers questions of a cell. Raises a problem where nobody does."""
    if context.what_ifs is None:
        raise Problem(404, "NO_WHAT_IFS", "this server answers no what-ifs; `paceline what-if` does")
    return context.what_ifs


def begin(context: Context, question: Question) -> AskedWhatIf:
    """Begins with a question. Raises a problem where it can't be one, or another one is at work."""
    what_ifs = what_ifs_of(context)
    if question.from_ms < 0:
        raise _wrong("from", "is before 1970")
    if question.from_ms >= question.to_ms:
        raise _wrong("from", "isn't before `to`")
    if question.to_ms > now_ms():
        raise _wrong("to", "is in the future: what-ifs are about history")
    if not question.changes and not question.change_file.strip():
        raise _wrong("changes", "say what is otherwise, such as /maps:share=2")
    if not question.change_file and (unknown := _unknown_pool(context, question)):
        raise _wrong("changes", unknown)
    return what_ifs.ask(question)


def _unknown_pool(context: Context, question: Question) -> str:
    """A sentence about the first pool of the changes that isn't there; empty: all are."""
    paths = [path for path in (each.partition(":")[0] for each in question.changes) if path.startswith("/")]
    with context.views.read() as connection:
        return next(filter(None, (unknown_pool([connection], path) for path in paths)), "")


async def _until_over(what_ifs: WhatIfs, what_if: AskedWhatIf, seconds: float) -> AskedWhatIf:
    deadline = time.monotonic() + seconds
    while not what_if.over and time.monotonic() < deadline:
        await asyncio.sleep(LOOK_S)
        what_if = what_ifs.look(what_if.question.id) or what_if
    return what_if


def _answer(what_if: AskedWhatIf, status: int = 0) -> Response:
    question = what_if.question
    state = "FAILED" if what_if.error else "DONE" if what_if.over else "RUNNING"
    body = {
        "id": question.id,
        "state": state,
        "done": what_if.done,
        "error": what_if.error,
        "from": time_text(question.from_ms),
        "to": time_text(question.to_ms),
        "changes": question.changes,
        "change_file": question.change_file,
        "runs": question.runs,
        "seed": question.seed,
        "conditions": question.conditions,
        "answer": orjson.Fragment(what_if.summary or b"null"),
    }
    headers = {"Location": f"/v1/what-ifs/{question.id}"} if not status else {}
    return Response(orjson.dumps(body), status or (200 if what_if.over else 202), headers, "application/json")


def _ms(time_: datetime) -> int:
    return round((time_ if time_.tzinfo else time_.replace(tzinfo=UTC)).timestamp() * 1000)


def _wrong(field: str, message: str) -> Problem:
    return Problem(422, "INVALID_REQUEST", f"{field} {message}", [(f"/{field}", message)])
