"""Liveness of hosts: beats of this gateway and of the others, and silence of hosts.

A gateway watches the hosts that are connected to it by its own clock. It watches the other gateways by the log: one
whose beats stopped, while its own went on, is gone, and its hosts that connected nowhere since are silent. Several may
find that at once; a repeat is void. The clocks of machines are never compared.
"""

from collections.abc import Mapping
from typing import Any

from events.log.port import NewRecord
from events.records.hosts import GatewayBeat, HostBack, HostSilent
from hostagent.gateway import facts
from hostagent.gateway.hosts import HostConnection, Hosts

BEAT_MS = 10_000
SILENT_MS = 10_000
"""A host that was not heard for so long is silent."""
WATCH_MS = 1_000
"""So often silence is looked for. A longer pause between two looks was the gateway's own and isn't counted."""
NEVER_MS = 1 << 60
LOST_MS = 3 * BEAT_MS
"""A gateway is gone when it was not heard for so long by the clock of the log, counting only while own beats arrive."""


class Peers:
    """The other gateways: for each the time of the log in which own beats came and none of its own did."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._silent_ms: dict[str, int] = {}
        self._own_beat_ms = 0

    def alive(self, gateway: str) -> None:
        """The log says that a gateway lives."""
        if gateway != self._name:
            self._silent_ms[gateway] = 0

    def beat(self, gateway: str, at_ms: int) -> None:
        """A beat in the log. Own beats further apart than usual were held up, as those of the others may have been, so
        they count as one; repeats are no time apart.
        """
        if gateway != self._name:
            self.alive(gateway)
            return
        passed = min(at_ms - self._own_beat_ms, BEAT_MS) if self._own_beat_ms else 0
        self._own_beat_ms = at_ms
        for peer in self._silent_ms:
            self._silent_ms[peer] += passed

    def pop_lost(self) -> list[str]:
        """The gateways that are gone, each once; one that is heard again may go again."""
        lost = [peer for peer, silent_ms in self._silent_ms.items() if silent_ms >= LOST_MS]
        for peer in lost:
            del self._silent_ms[peer]
        return lost

    def dump(self) -> dict[str, Any]:
        """All there is, as plain values."""
        return {"silent_ms": self._silent_ms, "own_beat_ms": self._own_beat_ms}

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes what `dump` gave."""
        self._silent_ms, self._own_beat_ms = dict(state["silent_ms"]), state["own_beat_ms"]


class LivenessWatch:
    """Says which facts are due: beats, hosts that fell silent, hosts that are back.

    `now`: its clock, in ms, or NEVER_MS for one that never has anything to do.
    """

    def __init__(self, name: str, now: int) -> None:
        self.peers = Peers(name)
        self._name = name
        self._beat_at = self._look_at = now
        self._counted_from = now
        """Silence counts from here at the earliest."""

    def due_at(self) -> int:
        """When `look` has something to do."""
        return min(self._beat_at, self._look_at)

    def look(self, now: int, hosts: Hosts) -> list[NewRecord]:
        """The facts that are due; to be asked only when caught up and able to write."""
        out = []
        if now >= self._beat_at:
            self._beat_at = now + BEAT_MS
            out.append(facts.fact(GatewayBeat(gateway=self._name), self._name))
        if now < self._look_at:
            return out
        if now - self._look_at > WATCH_MS:
            self._counted_from = now
        self._look_at = now + WATCH_MS
        lost, silent_since = self.peers.pop_lost(), now - SILENT_MS
        counts = self._counted_from > silent_since
        for host_id, host in hosts.items():
            if host.gateway == self._name:
                link = host.link
                if not host.silent and (counts or (link is not None and link.heard_ms > silent_since)):
                    continue  # nearly all: a call for each costs more than the look
                edge = self._connectivity_change(host_id, host, now)
            else:
                edge = _mark_silent(host_id, host) if host.gateway in lost and not host.silent else None
            if edge is not None:
                out.append(facts.fact(edge, host_id))
        return out

    def _connectivity_change(self, host_id: str, host: HostConnection, now: int) -> HostSilent | HostBack | None:
        """Whether an own host went silent or is back."""
        last_heard_ms = max(host.heard_ms, host.link.heard_ms if host.link is not None else 0)
        if not host.silent:
            return _mark_silent(host_id, host) if now - max(last_heard_ms, self._counted_from) >= SILENT_MS else None
        if host.must_reconnect or not last_heard_ms or now - last_heard_ms >= SILENT_MS:
            return None
        # A new session is needed: the host may have been given up meanwhile.
        host.silent, host.must_reconnect = False, True
        host.cut(host_id)
        return HostBack(host_id=host_id, session=host.session)


def _mark_silent(host_id: str, host: HostConnection) -> HostSilent:
    host.silent = True
    return HostSilent(host_id=host_id, session=host.session)
