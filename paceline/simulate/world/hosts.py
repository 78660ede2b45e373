"""The hosts of a scenario: groups that join, fail, fall silent, return and leave.

Hosts that share everything that happens to them share a fleet; a fleet lives as long as it is stepped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from events.records.hosts import HostOffered
from hostagent.fleet import Fleet, SimHost
from hostagent.gateway.component import Gateway
from hostagent.gateway.facts import offered
from paceline.simulate.scenario.parts import HostGroup, OfferPart
from paceline.simulate.world.cell import SimulatedCell, SimulatedComponent

SESSIONS = 1_000_000
"""Sessions of a host that came back begin above those it had before."""


@dataclass
class HostSet:
    """Hosts of a group that fail and return together. `fleet`: what stands still while they are silent."""

    hosts: SimHost
    names: tuple[str, ...]
    part: SimulatedComponent | None = None
    fleet: Fleet | None = None
    connections: int = 0


class Hosts:
    """All hosts of a cell. `apart`: hosts that something of their own happens to. `say_boots`: a host that has failed
    and returns says that its machine was restarted.
    """

    def __init__(
        self, cell: SimulatedCell, groups: Sequence[HostGroup], individual: set[str], say_boots: bool = False
    ) -> None:
        self._cell = cell
        self._say_boots = say_boots
        self.groups = groups
        self._by_name: dict[str, list[HostSet]] = {}
        for group in groups:
            for first, count in _ranges(group, individual):
                spec = group.sim_host(first, count)
                host_set = HostSet(spec, names := spec.host_ids())
                self._by_name.setdefault(group.name, []).append(host_set)
                if count == 1:
                    self._by_name.setdefault(names[0], []).append(host_set)

    def join(self, name: str) -> None:
        """Hosts come for the first time."""
        for host_set in self._by_name[name]:
            self._connect(host_set)

    def fail(self, name: str) -> None:
        """Hosts are gone with all that runs there."""
        for host_set in self._by_name[name]:
            if host_set.part is not None:
                host_set.part.component = host_set.fleet = None

    def silence(self, name: str) -> None:
        """Hosts aren't heard and hear nothing; what runs there goes on."""
        for host_set in self._by_name[name]:
            if host_set.part is not None and isinstance(host_set.part.component, Fleet):
                host_set.fleet, host_set.part.component = host_set.part.component, None

    def return_(self, name: str) -> None:
        """Hosts that were silent are heard again, hosts that failed start again."""
        for host_set in self._by_name[name]:
            if host_set.part is not None and host_set.fleet is not None:
                host_set.fleet.move(self._cell.gateway)
                host_set.part.component, host_set.part.runnable, host_set.fleet = host_set.fleet, True, None
            elif host_set.part is not None and host_set.part.component is None:
                self._connect(host_set)

    def present(self, name: str) -> Iterator[tuple[str, int, tuple[int, int]]]:
        """The hosts of a name that are connected: id, session, CPU and memory."""
        for host_set in self._by_name[name]:
            fleet = host_set.part.component if host_set.part is not None else None
            capacity = host_set.hosts.capacity
            if not isinstance(fleet, Fleet):
                continue
            for host_id in host_set.names:
                yield host_id, fleet.session_of(host_id), (capacity.get("cpu", 0), capacity.get("memory", 0))

    def host_ids(self, name: str) -> list[str]:
        """The hosts that a name stands for: itself, or those of a group."""
        return [host for host_set in self._by_name[name] for host in host_set.names]

    def offered(self, name: str, offer: OfferPart) -> Iterator[HostOffered]:
        """The facts that the hosts of a name that are connected offer something else."""
        for host_set in self._by_name[name]:
            fleet = host_set.part.component if host_set.part is not None else None
            if not isinstance(fleet, Fleet):
                continue
            for host_id in host_set.names:
                hello = fleet.hello(host_id)
                if "devices" in offer.model_fields_set:
                    hello.devices = offer.host_devices()
                if "cores" in offer.model_fields_set:
                    hello.cores = [core.numa for core in offer.host_cores()]
                capacity, sizes = offer.offered(hello.devices)
                yield offered(host_id, replace(hello, capacity=capacity, sizes=[*sizes]))

    def _connect(self, host_set: HostSet) -> None:
        """Hosts connect with nothing on them."""
        host_set.connections += 1
        session = host_set.connections * SESSIONS
        boot = f"boot-{host_set.connections}" if self._say_boots else ""

        def make(gateway: Gateway) -> Fleet:
            return Fleet(gateway, [host_set.hosts], self._cell.clock, session, heartbeat_ms=None, boot=boot)

        if host_set.part is None:
            host_set.part = self._cell.add_fleet(f"hosts {host_set.names[0]}", make)
        else:
            host_set.part.component, host_set.part.runnable = make(self._cell.gateway), True


def _ranges(group: HostGroup, individual: set[str]) -> list[tuple[int, int]]:
    """First number and count of the hosts that stay together."""
    out: list[tuple[int, int]] = []
    alone = True
    for number, name in enumerate(group.names(), 1):
        if not (alone or name in individual):
            out[-1] = (out[-1][0], out[-1][1] + 1)
        else:
            out.append((number, 1))
        alone = name in individual
    return out
