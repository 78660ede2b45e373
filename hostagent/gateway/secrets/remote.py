"""The store of secrets for an API server in another process than the gateways: it asks one of them."""

import ssl
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec

from events.records.parts import Actor
from hostagent.gateway.secrets.local import ACTOR_HEADER
from paceline.client.proven_transport import AsyncProvenTransport

CONNECT_S = 2.0
ANSWER_S = 12.0


class RemoteSecrets:
    """As `LocalSecrets`, by the first gateway of the cell that answers: all have one store. For one event loop."""

    def __init__(self, addresses: Sequence[str], token: str, cell: int, tls: ssl.SSLContext | None = None) -> None:
        self._cell = cell
        self._addresses = [each if "://" in each else f"http://{each}" for each in addresses]
        self._token, self._tls = token, tls
        self._client: httpx2.AsyncClient | None = None

    async def versions(self) -> list[dict[str, Any]]:
        """All versions there are."""
        bodies: list[dict[str, Any]] = await self._ask("GET", "")
        return bodies

    async def find(self, name: str, version: int = 0) -> dict[str, Any]:
        """A version, 0: the newest."""
        version_body: dict[str, Any] = await self._ask("GET", name, version)
        return version_body

    async def put(self, name: str, value: bytes, actor: Actor | None = None, pool: str = "") -> dict[str, Any]:
        """Stores a value as the next version; the first says the pool."""
        version_body: dict[str, Any] = await self._ask("PUT", name, content=value, actor=actor, pool=pool)
        return version_body

    async def delete(self, name: str, version: int = 0, actor: Actor | None = None) -> list[int]:
        """Deletes a version, 0: all; which those were."""
        deleted: list[int] = await self._ask("DELETE", name, version, actor=actor)
        return deleted

    async def _ask(
        self,
        method: str,
        name: str,
        version: int = 0,
        content: bytes = b"",
        actor: Actor | None = None,
        pool: str = "",
    ) -> Any:
        if not self._addresses:
            raise ConnectionError("no gateway is named to keep secrets: start the API with --gateway")
        path = f"/v1/secrets/{quote(name, safe='')}" if name else "/v1/secrets"
        headers = {ACTOR_HEADER: quote(msgspec.json.encode(actor))} if actor else {}
        why = ""
        for address in self._addresses:
            try:
                params: dict[str, int | str] = {"cell": self._cell, "version": version, "pool": pool}
                response = await self._http().request(
                    method, f"{address}{path}", params=params, content=content, headers=headers
                )
                answer = msgspec.json.decode(response.content)
            except (httpx2.HTTPError, msgspec.DecodeError) as error:
                why = why or f"no gateway answers: {str(error) or type(error).__name__}"
                continue
            if response.status_code == httpx2.codes.OK:
                return answer
            title = str(answer.get("title", "")) or f"the gateway answered {response.status_code}"
            if response.status_code == httpx2.codes.NOT_FOUND:
                raise LookupError(title)
            if response.status_code == httpx2.codes.UNPROCESSABLE_ENTITY:
                raise ValueError(title)
            why = why or title
        raise ConnectionError(why)

    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                headers={"Authorization": f"Bearer {self._token}"},
                timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
                transport=AsyncProvenTransport(self._token, tls=self._tls),
                trust_env=False,
            )
        return self._client
