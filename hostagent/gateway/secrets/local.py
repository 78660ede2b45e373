"""The store of secrets for an API in the process of its gateway."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from events.actors import PROVEN
from events.records.parts import Actor
from events.records.tasks import SecretDeleted, SecretPut
from events.words import plural
from hostagent.gateway.connections import TellSecret
from hostagent.gateway.http_answers import Denied, answered
from hostagent.gateway.secrets.store import NoSuchSecret, SecretStore, SecretVersion, StoreAway

ACTOR_HEADER = "Paceline-Acting"
"""The actor whom the API serves, as JSON of an `Actor`, percent-encoded."""


class LocalSecrets:
    """Versions as JSON has them. A change returns once the log says it. Methods raise `LookupError` where there is no
    such secret, `ConnectionError` where the store is away or the log can't be written, `ValueError` for what can't be
    stored; each with a sentence.
    """

    def __init__(self, store: SecretStore, tell: Callable[[TellSecret], None]) -> None:
        self._store = store
        self._tell = tell
        """Has the log say what became of a secret."""

    async def versions(self) -> list[dict[str, Any]]:
        """All versions there are."""
        return [_json(each) for each in await self._ask(self._store.versions)]

    async def find(self, name: str, version: int = 0) -> dict[str, Any]:
        """A version, 0: the newest."""
        return _json(await self._ask(self._store.find, name, version))

    async def put(self, name: str, value: bytes, actor: Actor | None = None, pool: str = "") -> dict[str, Any]:
        """Stores a value as the next version; the first says the pool."""
        owner = actor.subject if actor is not None and actor.how in PROVEN else ""
        version: SecretVersion = await self._ask(self._store.put, name, value, pool, owner)
        fact = SecretPut(
            name=version.name, version=version.version, digest=version.digest, pool=version.pool, actor=actor
        )
        await self._write(fact, f"version {version.version} of {name} is stored")
        return _json(version)

    async def delete(self, name: str, version: int = 0, actor: Actor | None = None) -> list[int]:
        """Deletes a version, 0: all; which those were."""
        deleted: list[int] = await self._ask(self._store.delete, name, version)
        change = f"of {name} {plural(len(deleted), 'version')} went, {', '.join(map(str, deleted))}"
        await self._write(SecretDeleted(name=name, versions=tuple(deleted), actor=actor), change)
        return deleted

    async def _write(self, fact: SecretPut | SecretDeleted, done: str) -> None:
        """Returns once a fact is durable. Raises `ConnectionError` which says what was `done` in the store before."""
        try:
            written: bool = await answered(lambda answer: self._tell(TellSecret(fact, answer)))
        except Denied as denied:
            raise ConnectionError(f"{done}, and the log doesn't say so: {denied}") from denied
        if not written:
            raise ConnectionError(f"{done}, and no record of the log can say so")

    @staticmethod
    async def _ask(method: Any, *args: Any) -> Any:
        try:
            return await asyncio.to_thread(method, *args)
        except NoSuchSecret:
            raise
        except StoreAway as away:
            raise ConnectionError(str(away)) from away


def _json(version: SecretVersion) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(version)
    return body
