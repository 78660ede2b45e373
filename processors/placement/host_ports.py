"""The port numbers that are taken on each host, by runs or for runs to come."""

from collections.abc import Iterable, Sequence

import numpy as np

from processors.placement.packing import Mask


class HostPorts:
    """Port numbers by the number of their host, and hosts by port number."""

    def __init__(self) -> None:
        self.taken: list[dict[int, None]] = []
        self._by_port: dict[int, set[int]] = {}

    def take(self, number: int, ports: Sequence[int]) -> None:
        """Port numbers of a host are taken."""
        self.taken[number].update(dict.fromkeys(ports))
        for port in ports:
            self._by_port.setdefault(port, set()).add(number)

    def give_back(self, number: int, ports: Sequence[int]) -> None:
        """They are free again."""
        for port in ports:
            self.taken[number].pop(port, None)
            hosts = self._by_port.get(port, set())
            hosts.discard(number)
            if not hosts:
                self._by_port.pop(port, None)

    def without(self, ports: Iterable[int]) -> Mask:
        """The hosts on which none of these ports is taken."""
        free: Mask = np.ones(len(self.taken), dtype=np.bool_)
        for port in ports:
            free[list(self._by_port.get(port, ()))] = False
        return free

    def grow(self, hosts: int) -> None:
        """There are numbers for so many hosts."""
        self.taken += [{} for _ in range(len(self.taken), hosts)]

    def cut(self, hosts: int) -> None:
        """There are numbers for so many hosts alone; nothing is taken on the others."""
        del self.taken[hosts:]
