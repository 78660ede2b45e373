"""Output and use of runs for an API server in another process: asked of the gateways, which pass it on to the host."""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec

from hostagent.gateway.http import LOG_S
from hostagent.messages import LogPage, page_of
from paceline.client.output_ask import WAIT_MAX_MS, OutputAsk
from paceline.client.proven_transport import AsyncProvenTransport

CONNECT_S = 2.0
UNREACHABLE = 0
Parse = Callable[[httpx2.Response], LogPage | bytes | None]
SAYING_MUCH = (404, 504, 503, UNREACHABLE, 421)
"""Why a gateway has no answer, in the order of how much that says: see `output_routes`."""


class RemoteHosts:
    """Asks all gateways at once and takes the first answer: only the one that the host is connected to has one.

    `cell`: the cell whose runs are asked for, where gateways of several cells are named. For use on one event loop.
    """

    def __init__(
        self, addresses: Sequence[str], token: str, cell: int | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._addresses = [each if "://" in each else f"http://{each}" for each in addresses]
        self._token, self._tls = token, tls
        self._cell = cell
        self._client: httpx2.AsyncClient | None = None

    async def output(self, ask: OutputAsk, host_id: str | None = None) -> LogPage:
        """A piece of a run's output. Raises `LookupError` with a sentence where no gateway has it."""
        question = {**ask._asdict(), "host": host_id}
        path = f"/v1/output/{quote(question.pop('job_id'), safe='')}/{question.pop('instance')}"
        page = await self._first(path, question, lambda response: page_of(response.headers, response.content))
        assert isinstance(page, LogPage)
        return page

    async def usage(self, host_id: str, job_id: str) -> bytes:
        """The use of a host by its runs, those of a job or all, JSON of a `HostUsage`. Raises as `output` does."""
        path = f"/v1/host-usage/{quote(host_id, safe='')}"
        answer = await self._first(path, {"job": job_id}, lambda response: response.content)
        assert isinstance(answer, bytes)
        return answer

    async def _first(self, path: str, question: dict[str, Any], parse: Parse) -> LogPage | bytes:
        """The first answer of a gateway. Raises `LookupError`."""
        if not self._addresses:
            raise LookupError("no gateway is named to ask for it: start the API with --gateway")
        parameters = {name: value for name, value in (question | {"cell": self._cell}).items() if value is not None}
        tasks = [asyncio.create_task(self._ask(address + path, parameters, parse)) for address in self._addresses]
        refusals: dict[int, str] = {}
        try:
            for answer in asyncio.as_completed(tasks):
                result = await answer
                if not isinstance(result, tuple) or isinstance(result, LogPage):
                    return result
                refusals.setdefault(*result)
        finally:
            for task in tasks:
                task.cancel()
        telling = [refusals[status] for status in SAYING_MUCH if status in refusals]
        raise LookupError((telling or list(refusals.values()))[0])

    async def _ask(self, url: str, question: dict[str, Any], parse: Parse) -> "LogPage | bytes | tuple[int, str]":
        """An answer, or the status and the sentence of a refusal."""
        if self._client is None:
            headers = {"Authorization": f"Bearer {self._token}"}
            transport = AsyncProvenTransport(self._token, connections_max=None, tls=self._tls)
            timeout = httpx2.Timeout(LOG_S + WAIT_MAX_MS / 1000 + CONNECT_S, connect=CONNECT_S)
            self._client = httpx2.AsyncClient(headers=headers, timeout=timeout, transport=transport, trust_env=False)
        try:
            response = await self._client.get(url, params=question)
            answer = parse(response) if response.status_code == httpx2.codes.OK else None
            if answer is not None:
                return answer
            problem = msgspec.json.decode(response.content, type=dict[str, Any])
            detail = problem.get("detail") or problem.get("title", "")
        except (httpx2.HTTPError, KeyError, ValueError) as error:
            return UNREACHABLE, f"no gateway that answers has the host of the run: {error or type(error).__name__}"
        return response.status_code, str(detail)
