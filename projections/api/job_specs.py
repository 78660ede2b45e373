"""The specification in the body of a request, checked as far as the views can."""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from events.codes import Code, no_pool
from events.resources import UnknownResource
from events.spec import JobSpec
from events.spec_parts import Amounts
from events.spec_problems import problems
from projections.api.context import Context
from projections.api.job_lookup import read_views
from projections.api.problems import Problem
from projections.queries import pool_tree
from projections.queries.resources import kinds_of

NO_ID = ("/job_id", "is missing; the client makes it, so that a repeat is recognised")


async def checked_spec(context: Context, body: Any, at: str = "") -> JobSpec:
    """The specification in a body, or in its part `at`. Raises a problem with all that is wrong with it."""
    spec, found, unknown = await run_in_threadpool(_checked, context, body, at)
    if spec is None:
        raise invalid_spec(found + await run_in_threadpool(_pool_faults, context, body, found, at))
    if unknown:
        await context.settle_pools()
        unknown = await run_in_threadpool(_unknown_resources, context, spec, at)
    if unknown is not None:
        of = {name: place for place, resources in _resources(spec, at) for name in resources.named()}
        pointers = [(f"{of[name]}/{name.replace('/', '~1')}", str(unknown)) for name in unknown.names]
        raise Problem(422, Code.UNKNOWN_RESOURCE, str(unknown), pointers)
    return spec


def _checked(
    context: Context, body: Any, at: str
) -> tuple[JobSpec | None, list[tuple[str, str]], UnknownResource | None]:
    """Both in one thread: each change of threads waits for the cell's own."""
    spec, found = _spec(body, at)
    return spec, found, None if spec is None else _unknown_resources(context, spec, at)


def _spec(body: Any, at: str) -> tuple[JobSpec | None, list[tuple[str, str]]]:
    """The spec in a body, or all that is wrong with it, by JSON pointer. Raises a problem where it is too large."""
    try:
        spec = JobSpec.model_validate(body)
    except ValidationError as error:
        found = [(at + pointer, message) for pointer, message in problems(error)]
        if error.errors()[0]["type"] == "too_large":
            raise Problem(422, Code.TOO_LARGE, "the spec has 1 problem", found) from error
        unnamed = [(at + NO_ID[0], NO_ID[1])] if isinstance(body, dict) and "job_id" not in body else []
        return None, found + unnamed
    if spec.job_id is None:
        return None, [(at + NO_ID[0], NO_ID[1])]
    return spec, []


def _unknown_resources(context: Context, spec: JobSpec, at: str) -> UnknownResource | None:
    """The resources of a job that its cell doesn't know. Raises a problem where one is written in another unit."""
    kinds = read_views(context, kinds_of)
    misfits = (
        (f"{place}/{name.replace('/', '~1')}", text)
        for place, resources in _resources(spec, at)
        for name, text in resources.misfits(kinds.units)
    )
    if found := list(misfits):
        raise invalid_spec(found)
    amounts = (pair for _, resources in _resources(spec, at) for pair in resources.named().items())
    names = kinds.unknown(name for name, amount in amounts if amount)
    return UnknownResource(names, kinds.names) if names else None


def _resources(spec: JobSpec, at: str) -> Iterator[tuple[str, Amounts]]:
    """The resources that tasks of a job need, each with its JSON pointer."""
    yield f"{at}/resources", spec.resources
    for number, override in enumerate(spec.overrides):
        yield f"{at}/overrides/{number}/resources", override.resources


def _pool_faults(context: Context, body: Any, found: list[tuple[str, str]], at: str) -> list[tuple[str, str]]:
    """That the pool of a wrong spec is unknown too, where nothing else is wrong with it."""
    path = body.get("pool") if isinstance(body, dict) else None
    if not isinstance(path, str) or f"{at}/pool" in dict(found):
        return []
    known = read_views(context, lambda connection: pool_tree.pools_json(connection, path))
    return [] if known else [(f"{at}/pool", no_pool(path))]


def invalid_spec(found: list[tuple[str, str]]) -> Problem:
    """The problem of a specification with these faults, by JSON pointer."""
    return Problem(422, Code.INVALID_SPEC, f"the spec has {len(found)} problem{'s' * (len(found) > 1)}", found)
