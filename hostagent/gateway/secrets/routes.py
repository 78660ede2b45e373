"""The gateway's routes about secrets: sealed values for agents; for API servers the store, whose values go in only."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import unquote

import msgspec
from fastapi import APIRouter, Request, Response

from events.bounds import SECRET_BYTES_MAX
from events.records.parts import Actor
from events.signing_keys import SigningKeys
from hostagent.gateway.agents import Agents
from hostagent.gateway.component import Gateway
from hostagent.gateway.connections import AskSecrets
from hostagent.gateway.http_answers import (
    Denied,
    answered,
    body_of,
    check_serving,
    check_token,
    decoded,
    guarded,
)
from hostagent.gateway.secrets.local import ACTOR_HEADER, LocalSecrets
from hostagent.gateway.secrets.sealer import Grant, sealed_for
from hostagent.gateway.secrets.store import SecretStore
from hostagent.secret_messages import SecretsAnswer, SecretsAsk


def agent_routes(agents: Agents, store: SecretStore, keys: SigningKeys | None = None) -> APIRouter:
    """`/v1/agents/HOST/secrets`: the secrets of runs that this host is to start in its present session."""
    router = APIRouter(include_in_schema=False)
    gateway = agents.gateway

    @router.post("/v1/agents/{host_id}/secrets")
    async def secrets(host_id: str, request: Request) -> Response:
        async def answer() -> Response:
            agents.check(request, host_id)
            check_serving(gateway)
            ask = decoded(await body_of(request), SecretsAsk)
            runs = tuple(each.key for each in ask.runs)
            grant: Grant | None = await answered(
                lambda done: gateway.post(AskSecrets(host_id, ask.session, runs, done))
            )
            if grant is None:
                raise Denied(409, "not the current session of this host, or it has no key")
            return _json(SecretsAnswer(await asyncio.to_thread(sealed_for, grant, store, keys)))

        return await guarded(answer())

    return router


def store_routes(gateway: Gateway, store: SecretStore, token: str) -> APIRouter:
    """`/v1/secrets` of a cell for API servers. 404: there is no such secret; 421: the cell is another; 422: it can't be
    stored; 503: the store is away.
    """
    router = APIRouter(prefix="/v1/secrets", include_in_schema=False)
    secrets = LocalSecrets(store, gateway.post)

    async def told(request: Request, look: Callable[[], Awaitable[Any]]) -> Response:
        async def answer() -> Response:
            check_token(request, token)
            if request.query_params.get("cell", str(gateway.cell)) != str(gateway.cell):
                raise Denied(421, f"this gateway serves cell {gateway.cell}")
            try:
                return _json(await look())
            except LookupError as error:
                raise Denied(404, str(error)) from error
            except ValueError as error:
                raise Denied(422, str(error)) from error
            except ConnectionError as error:
                raise Denied(503, str(error)) from error

        return await guarded(answer())

    @router.get("")
    async def versions(request: Request) -> Response:
        return await told(request, secrets.versions)

    @router.get("/{name}")
    async def find(name: str, request: Request, version: int = 0) -> Response:
        return await told(request, partial(secrets.find, name, version))

    @router.put("/{name}")
    async def put(name: str, request: Request, pool: str = "") -> Response:
        async def stored() -> dict[str, Any]:
            return await secrets.put(name, await read_value(request), _actor(request), pool)

        return await told(request, stored)

    @router.delete("/{name}")
    async def delete(name: str, request: Request, version: int = 0) -> Response:
        return await told(request, partial(secrets.delete, name, version, _actor(request)))

    return router


def _actor(request: Request) -> Actor | None:
    """The actor for whom an API asks; None: it doesn't say, or not so that it can be read."""
    try:
        return msgspec.json.decode(unquote(request.headers.get(ACTOR_HEADER, "null")), type=Actor | None)
    except msgspec.MsgspecError:
        return None


async def read_value(request: Request) -> bytes:
    """The body of a request, and no more of it than a value may have and a byte."""
    value = bytearray()
    async for chunk in request.stream():
        value += chunk
        if len(value) > SECRET_BYTES_MAX:
            break
    return bytes(value[: SECRET_BYTES_MAX + 1])


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
