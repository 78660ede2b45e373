"""Commands inside runs for an API server in another process than the gateways: passed on to the one of the host."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx2
import msgspec

from paceline.client.exec_frames import ExecsFull
from paceline.client.proven_transport import AsyncProvenTransport

CONNECT_S = 2.0
ANSWER_S = 12.0
"""A gateway waits for its log for less."""


class RemoteExecs:
    """Asks all gateways at once: only the one that the host is connected to takes it. `cell`: the cell of the runs, for
    gateways of several cells. For use on one event loop.
    """

    def __init__(self, addresses: Sequence[str], token: str, tls: ssl.SSLContext | None = None) -> None:
        self._addresses = [each if "://" in each else f"http://{each}" for each in addresses]
        self._token, self._tls = token, tls
        self._client: httpx2.AsyncClient | None = None
        self._at: dict[str, str] = {}
        """The gateway of each command."""

    async def open(self, ask: dict[str, Any]) -> str:
        """Has a command started; its id. Raises `ExecsFull`, `LookupError`."""
        if not self._addresses:
            raise LookupError("no gateway is named to reach hosts by: start the API with --gateway")
        answers = await asyncio.gather(*(self._ask(address, ask) for address in self._addresses))
        for address, (exec_id, _, _) in zip(self._addresses, answers, strict=True):
            if exec_id:
                self._at[exec_id] = address
                return exec_id
        full = next((why for _, why, full in answers if full), "")
        raise ExecsFull(full) if full else LookupError(answers[0][1])

    async def typed(self, exec_id: str, chunks: AsyncIterator[bytes]) -> None:
        """Hands on what its user types. Raises `LookupError`."""
        try:
            await self._http().post(f"{self._url(exec_id)}/in", content=chunks)
        except httpx2.HTTPError as error:
            raise LookupError(str(error)) from error

    async def written(self, exec_id: str) -> AsyncIterator[bytes]:
        """The frames that it writes. Raises `LookupError`."""
        client = self._http()
        request = client.build_request("GET", f"{self._url(exec_id)}/out")
        try:
            response = await client.send(request, stream=True)
        except httpx2.HTTPError as error:
            raise LookupError(str(error)) from error
        if response.status_code != httpx2.codes.OK:
            await response.aclose()
            raise LookupError(exec_id)
        return self._chunks(exec_id, response)

    async def _chunks(self, exec_id: str, response: httpx2.Response) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.aiter_bytes():
                yield chunk
        finally:
            self._at.pop(exec_id, None)
            await response.aclose()

    async def _ask(self, address: str, ask: dict[str, Any]) -> tuple[str, str, bool]:
        """The id, or why there is none, and whether that is because too many go on."""
        try:
            timeout = httpx2.Timeout(ANSWER_S, connect=CONNECT_S)
            response = await self._http().post(f"{address}/v1/execs", content=msgspec.json.encode(ask), timeout=timeout)
            answer = msgspec.json.decode(response.content, type=dict[str, Any])
        except (httpx2.HTTPError, msgspec.DecodeError) as error:
            return "", f"no gateway that answers has the host of the run: {str(error) or type(error).__name__}", False
        full = response.status_code == httpx2.codes.TOO_MANY_REQUESTS
        return str(answer.get("exec", "")), str(answer.get("title", "")), full

    def _url(self, exec_id: str) -> str:
        if exec_id not in self._at:
            raise LookupError(exec_id)
        return f"{self._at[exec_id]}/v1/execs/{exec_id}"

    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                headers={"Authorization": f"Bearer {self._token}"},
                timeout=httpx2.Timeout(None, connect=CONNECT_S),
                transport=AsyncProvenTransport(self._token, tls=self._tls),
                trust_env=False,
            )
        return self._client
