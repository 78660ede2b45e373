"""Signs what proven actors write, by the key of the cell, which the log is told of first (decision 100)."""

from collections.abc import Sequence
from threading import Lock
from typing import TypeVar

from events.actors import PROVEN
from events.codec import encode
from events.log.port import NewRecord
from events.records.base import Event
from events.records.parts import Actor
from events.signatures import sign
from events.signing_keys import SigningKeys
from projections.api.log_loss import Appends

E = TypeVar("E", bound=Event)


class FactSigning:
    """Signs facts for a cell. `logs`: of this cell and of those that it tells of pools, which learn of the keys."""

    def __init__(self, keys: SigningKeys, cell: int, logs: Sequence[Appends]) -> None:
        self._keys = keys
        self._cell = cell
        self._logs = logs
        self._announced: set[str] = set()
        self._lock = Lock()

    def __call__(self, event: E) -> E:
        """The fact with its signature; as it is where its actor isn't proven, of whom there is nothing to vouch for.
        Raises `OSError`.
        """
        actor: Actor | None = getattr(event, "actor", None)
        if actor is None or actor.how not in PROVEN:
            return event
        key = self._keys.current()
        if key.name not in self._announced:
            self._announce()
        return sign(event, self._cell, key.signer)

    def _announce(self) -> None:
        """Tells the logs of the keys in their order, since each vouches for the next."""
        with self._lock:
            for key in self._keys.all():
                if key.name in self._announced:
                    continue
                fact = key.announcement
                for log in self._logs:
                    log.append([NewRecord(fact.topic, b"", encode(fact))])
                self._announced.add(key.name)
