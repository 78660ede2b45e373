"""Commands inside runs for an API in the process of its gateway."""

from collections.abc import AsyncIterator
from typing import Any

from hostagent.gateway.exec_relay import ExecAsk, ExecRefused, ExecRelay
from paceline.client.exec_frames import ExecsFull


class LocalExecs:
    """The commands of one gateway, for the routes of the API."""

    def __init__(self, relay: ExecRelay) -> None:
        self._relay = relay

    async def open(self, ask: dict[str, Any]) -> str:
        """Has a command started; its id. Raises `ExecsFull`, `LookupError`."""
        try:
            return await self._relay.open(ExecAsk(**ask))
        except ExecRefused as refused:
            raise (ExecsFull if refused.full else LookupError)(str(refused)) from refused

    async def typed(self, exec_id: str, chunks: AsyncIterator[bytes]) -> None:
        """Hands on what its user types. Raises `LookupError`."""
        if (session := self._relay.join(exec_id, "in")) is None:
            raise LookupError(exec_id)
        await self._relay.typed(session, chunks)

    async def written(self, exec_id: str) -> AsyncIterator[bytes]:
        """The frames that it writes. Raises `LookupError`."""
        if (session := self._relay.join(exec_id, "out")) is None:
            raise LookupError(exec_id)
        return self._relay.read(session, "out")
