"""The hosts of a scenario: groups that join, fail, fall silent, return and leave.

Hosts that share everything that happens to them share a fleet; a fleet lives as long as it is stepped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hostagent.fleet import Fleet, SimHost
from hostagent.gateway.component import Gateway
from paceline.simulate.scenario.parts import HostGroup
from paceline.simulate.world.cell import Part, World

SESSIONS = 1_000_000
"""Sessions of a host that came back begin above those it had before."""


@dataclass
class Troop:
    """Hosts of a group with one fate. `fleet`: what stands still while they are silent."""

    hosts: SimHost
    names: tuple[str, ...]
    part: Part | None = None
    fleet: Fleet | None = None
    comings: int = 0


class Hosts:
    """All hosts of a cell. `apart`: hosts that something of their own happens to."""

    def __init__(self, cell: World, groups: Sequence[HostGroup], apart: set[str]) -> None:
        self._cell = cell
        self._by_name: dict[str, list[Troop]] = {}
        for group in groups:
            for first, count in _stretches(group, apart):
                spec = group.sim_host(first, count)
                troop = Troop(spec, names := spec.host_ids())
                self._by_name.setdefault(group.name, []).append(troop)
                if count == 1:
                    self._by_name.setdefault(names[0], []).append(troop)

    def join(self, name: str) -> None:
        """Hosts come for the first time."""
        for troop in self._by_name[name]:
            self._come(troop)

    def fail(self, name: str) -> None:
        """Hosts are gone with all that runs there."""
        for troop in self._by_name[name]:
            if troop.part is not None:
                troop.part.component = troop.fleet = None

    def silence(self, name: str) -> None:
        """Hosts aren't heard and hear nothing; what runs there goes on."""
        for troop in self._by_name[name]:
            if troop.part is not None and isinstance(troop.part.component, Fleet):
                troop.fleet, troop.part.component = troop.part.component, None

    def back(self, name: str) -> None:
        """Hosts that were silent are heard again, hosts that failed come anew."""
        for troop in self._by_name[name]:
            if troop.part is not None and troop.fleet is not None:
                troop.fleet.move(self._cell.gateway)
                troop.part.component, troop.part.stirred, troop.fleet = troop.fleet, True, None
            elif troop.part is not None and troop.part.component is None:
                self._come(troop)

    def named(self, name: str) -> list[str]:
        """The hosts that a name stands for: itself, or those of a group."""
        return [host for troop in self._by_name[name] for host in troop.names]

    def _come(self, troop: Troop) -> None:
        """Hosts connect with nothing on them."""
        troop.comings += 1
        session = troop.comings * SESSIONS

        def make(gateway: Gateway) -> Fleet:
            return Fleet(gateway, [troop.hosts], self._cell.clock, session, heartbeat_ms=None)

        if troop.part is None:
            troop.part = self._cell.add_fleet(f"hosts {troop.names[0]}", make)
        else:
            troop.part.component, troop.part.stirred = make(self._cell.gateway), True


def _stretches(group: HostGroup, apart: set[str]) -> list[tuple[int, int]]:
    """First number and count of the hosts that stay together."""
    out: list[tuple[int, int]] = []
    alone = True
    for number, name in enumerate(group.names(), 1):
        if not (alone or name in apart):
            out[-1] = (out[-1][0], out[-1][1] + 1)
        else:
            out.append((number, 1))
        alone = name in apart
    return out
