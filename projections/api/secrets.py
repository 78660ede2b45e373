"""Secrets: values go in, names, versions and digests come out. Jobs get the versions that they name without one.

A value is in no answer and in no message about a fault.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from events.access import covers
from events.bounds import INT_MAX
from events.codes import Code
from events.pool_paths import ROOT
from events.records.jobs import JobSubmitted
from events.records.parts import Actor, Secret
from events.roles import Verb
from projections.access.identity import present
from projections.api import acting
from projections.api.context import Context, Secrets
from projections.api.job_lookup import read_views
from projections.api.job_specs import once_settled
from projections.api.list_requests import must_have_pool
from projections.api.problems import Problem, not_found
from projections.record_json import at as time_text

T = TypeVar("T")
Wish = tuple[str, int]
"""Name and version of a secret, 0: the newest."""
Version = Annotated[int, Query(ge=0, le=INT_MAX, description="The version; 0: all.")]
_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": {
    "type": "object", "required": ["value"], "additionalProperties": False,
    "properties": {"value": {"type": "string", "format": "byte", "description": "The value, in base64."}},
}}}}}  # fmt: skip


class SecretValue(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request that puts a value."""

    value: str


def routes(context: Context) -> APIRouter:
    """The routes of secrets."""
    router = APIRouter(prefix="/v1/secrets", tags=["secrets"])

    @router.get("")
    async def versions() -> Response:
        """The names and versions of all secrets."""
        stored = await told(_store(context).versions())
        return JSONResponse({"secrets": [_shown(each) for each in stored if _is_seen(each)]})

    @router.put("/{name}", openapi_extra=_BODY)
    async def put(
        name: str,
        request: Request,
        pool: Annotated[str, Query(max_length=1024, description="Of a first version: whose jobs may name it.")] = "",
    ) -> Response:
        """Stores a value as the next version of a secret. What runs goes on with the version that it has. Jobs of its
        pool, and of those below it, may name it; without `pool` all jobs may.
        """
        try:
            value = base64.b64decode(msgspec.json.decode(await request.body(), type=SecretValue).value, validate=True)
        except (msgspec.DecodeError, UnicodeDecodeError, binascii.Error, ValueError):
            text = "the body must be an object with `value`, a text in base64"
            raise Problem(422, "INVALID_REQUEST", text, [("/value", "is missing, or no base64")]) from None
        path = f"/{pool.strip('/')}" if pool else ""
        try:
            actor = await _permitted(context, name, partial(_pool_of_first, context, path))
        except LookupError as error:
            raise Problem(422, "INVALID_REQUEST", str(error), [("/name", str(error))]) from error
        except ConnectionError as error:
            raise _away(error) from error
        return JSONResponse(_shown(await told(_store(context).put(name, value, actor, path))))

    @router.delete("/{name}")
    async def delete(name: str, version: Version = 0) -> Response:
        """Deletes a version of a secret, or all. Runs that have started keep it; none gets it any more."""
        try:
            actor = await _permitted(context, name)
            deleted = await _store(context).delete(name, version, actor)
        except LookupError as error:
            raise not_found("secret", f"{name} version {version}" if version else name) from error
        except ConnectionError as error:
            raise _away(error) from error
        return JSONResponse({"name": name, "versions": deleted})

    return router


class Pins:
    """The versions that stand for the secrets of a job, as they were looked up; or why they couldn't be."""

    def __init__(self) -> None:
        self._found: dict[Wish, Secret] = {}
        self._problem: Problem | None = None

    async def look_up(self, context: Context, spec: Any, at: str = "") -> "Pins":
        """Finds those that the JSON of a job names; `at`: where the job stands in the request."""
        try:
            pool = str(spec.get("pool", "")) if isinstance(spec, dict) else ""
            for number, wish in enumerate(_wishes(spec)):
                stored = await told(_found(context, wish, pool), f"{at}/secrets/{number}")
                self._found[wish] = Secret(name=wish[0], version=stored["version"], digest=stored["digest"])
        except Problem as problem:
            self._problem = problem
        return self

    def pinned(self, event: JobSubmitted) -> JobSubmitted:
        """The fact with versions and digests. Raises the problem that there was."""
        if self._problem is not None:
            raise self._problem
        if not event.secrets:
            return event
        secrets = tuple(self._found[each.name, each.version] for each in event.secrets)
        return msgspec.structs.replace(event, secrets=secrets)


def _wishes(spec: Any) -> Iterator[Wish]:
    """The secrets that a job names, as far as that can be read; the specification is checked elsewhere."""
    secrets = spec.get("secrets") if isinstance(spec, dict) else None
    for each in secrets if isinstance(secrets, list) else ():
        name, version = (each.get("name"), each.get("version", 0)) if isinstance(each, dict) else (each, 0)
        if isinstance(name, str) and isinstance(version, int) and 0 <= version <= INT_MAX:
            yield name, int(version)


async def told(question: Awaitable[T], pointer: str = "/name") -> T:
    """The answer of the store. Raises a problem; `pointer`: what it is about."""
    try:
        return await question
    except LookupError as error:
        raise Problem(422, Code.SECRET_MISSING, str(error), [(pointer, str(error))]) from error
    except ValueError as error:
        raise Problem(422, "INVALID_REQUEST", str(error), [(pointer, str(error))]) from error
    except ConnectionError as error:
        raise _away(error) from error


async def _found(context: Context, wish: Wish, pool: str) -> dict[str, Any]:
    """A version that a job of a pool may name. Raises `LookupError`."""
    stored = await _store(context).find(*wish)
    if covers(stored.get("pool", ROOT), f"/{pool.strip('/')}"):
        return stored
    if _is_seen(stored):
        raise LookupError(f"secret {wish[0]} is of pool {stored['pool']}: a job of {pool} may not name it")
    raise LookupError(f"there is no secret {wish[0]}: `paceline secret put {wish[0]}` makes one")


def _is_seen(secret: dict[str, Any]) -> bool:
    """Whether the present reader may see that there is a secret."""
    reads = present().reads
    return reads is None or any(covers(top, secret.get("pool", ROOT)) for top in reads)


def _pool_of_first(context: Context, pool: str) -> str:
    """The pool of a secret that isn't there yet. Raises a problem where it isn't there itself."""
    read_views(context, lambda connection: must_have_pool([connection], pool))
    return pool or ROOT


async def _permitted(context: Context, name: str, first: Callable[[], str] | None = None) -> Actor | None:
    """The actor who may put or delete a secret; `first` looks for the pool of one which isn't there yet, and is their
    own. Raises a problem, and `LookupError` where a secret may not be seen, or isn't there to be deleted.
    """
    who = present()
    try:
        stored = await _store(context).find(name)
    except LookupError:
        if first is None:
            raise
        pool = await once_settled(context, first)
        return acting.permitted(*await run_in_threadpool(context.permits.pool, Verb.SECRETS, pool, True))
    if not _is_seen(stored):
        raise LookupError(f"the name {name} is taken: choose another one")
    owner = stored.get("owner", "")
    is_own = who.subject != "" and owner in (who.subject, context.names.of(who.subject))
    permit = await run_in_threadpool(context.permits.pool, Verb.SECRETS, stored.get("pool", ROOT), is_own)
    return acting.permitted(*permit)


def _away(error: Exception) -> Problem:
    return Problem(503, Code.SECRETS_AWAY, str(error))


def _store(context: Context) -> Secrets:
    if context.secrets is None:
        raise Problem(503, Code.SECRETS_AWAY, "this process has no gateway that keeps secrets")
    return context.secrets


def _shown(version: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: version[name] for name in ("name", "version", "digest")},
        "pool": version.get("pool", ROOT),
        "put_at": time_text(version["put_ms"]),
    }
