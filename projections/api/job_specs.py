"""The specification in the body of a request, checked as far as the views can."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from events.answers import NO_SLACK, no_pool
from events.codes import Code
from events.resources import UnknownResource
from events.spec.job import JobSpec
from events.spec.parts import Amounts
from events.spec.problems import problems
from projections.api.context import Context
from projections.api.job_lookup import read_views
from projections.api.problems import Problem
from projections.queries.known_names import nearest_pool
from projections.queries.pool_room import room_of
from projections.queries.resources import kinds_of, settings_of

T = TypeVar("T")
NO_ID = ("/job_id", "is missing; the client makes it, so that a repeat is recognised")


UNSETTLED = (Code.UNKNOWN_RESOURCE, Code.SLACK_OFF, Code.NO_SUCH_POOL)
"""Problems that a fact about pools or the cell may solve that isn't answered yet."""


async def once_settled(context: Context, take: Callable[[], T]) -> T:
    """Calls `take` in a thread, and again with the facts of a moment ago where it was refused for want of them. Raises
    its problem.
    """
    try:
        return await run_in_threadpool(take)
    except Problem as problem:
        if problem.code not in UNSETTLED:
            raise
    await context.settle_pools()
    return await run_in_threadpool(take)


def checked_spec(context: Context, body: Any, at: str = "") -> JobSpec:
    """The specification in a body, or in its part `at`. Raises a problem with all that is wrong with it."""
    spec, faults = _spec(body, at)
    if spec is None:
        raise invalid_spec(faults + _pool_faults(context, body, faults, at))
    return spec


def _spec(body: Any, at: str) -> tuple[JobSpec | None, list[tuple[str, str]]]:
    """The spec in a body, or all that is wrong with it, by JSON pointer. Raises a problem where it is too large."""
    try:
        spec = JobSpec.model_validate(body)
    except ValidationError as error:
        faults = [(at + pointer, message) for pointer, message in problems(error)]
        if error.errors()[0]["type"] == "too_large":
            raise Problem(422, Code.TOO_LARGE, "the spec has 1 problem", faults) from error
        unnamed = [(at + NO_ID[0], NO_ID[1])] if isinstance(body, dict) and "job_id" not in body else []
        return None, faults + unnamed
    if spec.job_id is None:
        return None, [(at + NO_ID[0], NO_ID[1])]
    return spec, []


def must_know_resources(connection: Connection, spec: JobSpec, at: str = "") -> None:
    """Raises a problem where a job needs resources that its cell doesn't know, or that are written in another unit."""
    if spec.resources.are_standard and not spec.overrides and not spec.any_of and not spec.revocable:
        return
    kinds = kinds_of(connection)
    if spec.revocable and not settings_of(connection).slack:
        raise Problem(422, Code.SLACK_OFF, NO_SLACK, [(f"{at}/revocable", NO_SLACK)])
    misfits = (
        (f"{place}/{name.replace('/', '~1')}", text)
        for place, resources in _resources(spec, at)
        for name, text in resources.misfits(kinds.units)
    )
    if faults := list(misfits):
        raise invalid_spec(faults)
    amounts = (pair for _, resources in _resources(spec, at) for pair in resources.named().items())
    if names := kinds.unknown(name for name, amount in amounts if amount):
        place_of = {name: place for place, resources in _resources(spec, at) for name in resources.named()}
        text = str(UnknownResource(names, kinds.names))
        pointers = [(f"{place_of[name]}/{name.replace('/', '~1')}", text) for name in names]
        raise Problem(422, Code.UNKNOWN_RESOURCE, text, pointers)


def _resources(spec: JobSpec, at: str) -> Iterator[tuple[str, Amounts]]:
    """The resources that tasks of a job need, each with its JSON pointer."""
    yield f"{at}/resources", spec.resources
    for number, override in enumerate(spec.overrides):
        yield f"{at}/overrides/{number}/resources", override.resources
    for number, each in enumerate(spec.any_of):
        yield f"{at}/any_of/{number}/resources", each.resources


def _pool_faults(context: Context, body: Any, faults: list[tuple[str, str]], at: str) -> list[tuple[str, str]]:
    """That the pool of a wrong spec is unknown too, where nothing else is wrong with it."""
    path = body.get("pool") if isinstance(body, dict) else None
    if not isinstance(path, str) or f"{at}/pool" in dict(faults):
        return []

    def fault(connection: Connection) -> str:
        return "" if room_of(connection, path) else no_pool(path) + nearest_pool([connection], path)

    text = read_views(context, fault)
    return [(f"{at}/pool", text)] if text else []


def invalid_spec(faults: list[tuple[str, str]]) -> Problem:
    """The problem of a specification with these faults, by JSON pointer."""
    return Problem(422, Code.INVALID_SPEC, f"the spec has {len(faults)} problem{'s' * (len(faults) > 1)}", faults)
