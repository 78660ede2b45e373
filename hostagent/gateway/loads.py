"""The loads of hosts, as they say them to a gateway: gathered into one fact a second, since a host says it seldom."""

from itertools import islice

from events.log.port import NewRecord
from hostagent.gateway import facts
from hostagent.gateway.liveness import NEVER_MS
from hostagent.messages import HostLoad

EVERY_MS = 1_000
"""So often it is written at most."""
HOSTS_MAX = 5_000
"""So many hosts in a fact; the others are in the next."""


class Loads:
    """The loads that a gateway is to write. What is lost with it is said again in the next session of each host."""

    def __init__(self, gateway: str) -> None:
        self._gateway = gateway
        self._loads: dict[str, tuple[int, HostLoad]] = {}
        self._next_at = 0

    def say(self, host_id: str, session: int, load: HostLoad) -> None:
        """A host says what it uses, in its present session."""
        self._loads[host_id] = session, load

    def due_at(self) -> int:
        """When there is something to write."""
        return self._next_at if self._loads else NEVER_MS

    def take(self, now: int) -> list[NewRecord]:
        """The fact that is due."""
        part = dict(islice(self._loads.items(), HOSTS_MAX))
        for host_id in part:
            del self._loads[host_id]
        self._next_at = now + EVERY_MS
        return [facts.loaded(self._gateway, part)]
