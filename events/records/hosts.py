"""The records of `schemas/hosts`. Written by `python -m tools.records`; do not edit."""

from typing import ClassVar

from events.records.base import Event
from events.records.parts import Volume


class GatewayBeat(Event, frozen=True, kw_only=True):
    """A gateway lives; silence of hosts counts only while beats arrive."""

    topic: ClassVar[str] = "paceline.hosts"

    gateway: str
    """The gateway."""


class HostBack(Event, frozen=True, kw_only=True):
    """The agent of a host is heard again within its session."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    session: int
    """Number of the connection of the agent of that host, growing."""


class HostClearRequested(Event, frozen=True, kw_only=True):
    """An operator says that a host which is avoided takes new tasks again. Answered by HostAnswered."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    command_id: str
    """Made by the client."""

    reason: str = ""
    """Why, in the words of the operator."""


class HostConnected(Event, frozen=True, kw_only=True):
    """The agent of a host has connected to a gateway."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    session: int
    """Number of the connection of the agent of that host, growing."""

    gateway: str
    """The gateway."""

    machine: str = ""
    """Id of the machine of the agent, kept in its folder; empty: it has none."""

    boot: str = ""
    """Names the time since that machine was started."""

    machine_name: str = ""
    """What that machine calls itself."""


class HostLossConfirmed(Event, frozen=True, kw_only=True):
    """An operator says that a silent host is lost. Answered by HostAnswered."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    command_id: str
    """Made by the client."""

    reason: str = ""
    """Why, in the words of the operator."""


class HostOffered(Event, frozen=True, kw_only=True):
    """What a host says it has."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    session: int
    """Number of the connection of the agent of that host, growing."""

    capacity: dict[str, int]
    """All it lends to tasks. By name of the resource: thousandths of CPUs and devices, MiB of sizes; what is left out
    is 0. A kind that the cell doesn't know, or counts otherwise, is ignored.
    """

    sizes: tuple[str, ...] = ()
    """Which of them are sizes in MiB, beside memory and disk; the others are counted in thousandths. A kind that the
    cell counts otherwise is ignored.
    """

    port_first: int = 31000
    """First port that tasks may use."""

    port_last: int = 31999
    """Last port that tasks may use."""

    attributes: dict[str, str] = {}
    """Attributes for constraints."""


class HostRemovalRequested(Event, frozen=True, kw_only=True):
    """An operator says that a host has left for good and shall be forgotten. Answered by HostAnswered."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    command_id: str
    """Made by the client."""

    reason: str = ""
    """Why, in the words of the operator."""


class HostSilent(Event, frozen=True, kw_only=True):
    """The agent of a host is no longer heard."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    session: int
    """Number of the connection of the agent of that host, growing."""


class HostVolumes(Event, frozen=True, kw_only=True):
    """All volumes of a host: said when its agent connects, and when one is created or removed."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    session: int
    """Number of the connection of the agent of that host, growing."""

    volumes: tuple[Volume, ...]
    """The volumes."""


ALL: tuple[type[Event], ...] = (
    GatewayBeat,
    HostBack,
    HostClearRequested,
    HostConnected,
    HostLossConfirmed,
    HostOffered,
    HostRemovalRequested,
    HostSilent,
    HostVolumes,
)
