"""The records of `schemas/hosts`. Written by `python -m tools.records`; do not edit."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from events.columns import I32, I64, INT32, INT64, Values, pack_ints, pack_longs
from events.records.base import Event
from events.records.parts import Actor, Volume


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

    actor: Actor | None = None
    """Who wrote it; null: not said."""


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

    key: str | None = None
    """The public half of its key in base64 (X25519), to which gateways seal secrets; null: it takes none."""


class HostImages(Event, frozen=True, kw_only=True):
    """All images of a host: said when its agent connects with some, and when one has come or gone."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    session: int
    """Number of the connection of the agent of that host, growing."""

    images: tuple[str, ...]
    """The first 16 hexadecimal digits of the digest of each, ascending; 64 at most."""


class HostLossConfirmed(Event, frozen=True, kw_only=True):
    """An operator says that a silent host is lost. Answered by HostAnswered."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    command_id: str
    """Made by the client."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


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

    taints: dict[str, str] = {}
    """Taints by key: new tasks are kept away that don't tolerate all of them."""


class HostRemovalRequested(Event, frozen=True, kw_only=True):
    """An operator says that a host has left for good and shall be forgotten. Answered by HostAnswered."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    command_id: str
    """Made by the client."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class HostSilent(Event, frozen=True, kw_only=True):
    """The agent of a host is no longer heard."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    session: int
    """Number of the connection of the agent of that host, growing."""


class HostTaintRequested(Event, frozen=True, kw_only=True):
    """An operator gives a host a taint, or takes one off. Answered by HostAnswered."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    command_id: str
    """Made by the client."""

    key: str
    """Key of the taint."""

    value: str = ""
    """Its value."""

    remove: bool = False
    """Whether it is taken off, whatever its value."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class HostVolumes(Event, frozen=True, kw_only=True):
    """All volumes of a host: said when its agent connects, and when one is created or removed."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    session: int
    """Number of the connection of the agent of that host, growing."""

    volumes: tuple[Volume, ...]
    """The volumes."""


class HostsLoaded(Event, frozen=True, kw_only=True):
    """What the runs of some hosts use, in sixteenths of what each host offers: said when it has changed by two steps,
    a host at most once a minute and every ten minutes at least, except that less slack is said at once.
    """

    topic: ClassVar[str] = "paceline.hosts"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "host_session": INT64,
        "cpu_used": INT32,
        "memory_used": INT32,
        "slack": INT32,
    }

    gateway: str
    """The gateway."""

    host_ids: tuple[str, ...]
    """The hosts, in the order of the columns."""

    host_session: bytes
    """Session of each host in which this was said. Column of int64."""

    cpu_used: bytes
    """Sixteenths of the CPU of each host that its runs use, rounded. Column of int32."""

    memory_used: bytes
    """Sixteenths of the memory of each host that its runs use, without what the kernel would drop first, rounded.
    Column of int32.
    """

    slack: bytes
    """Sixteenths of the CPU of each host that its runs have asked for and won't need soon, rounded down; 0 where the
    agent measures none. Column of int32.
    """

    @property
    def host_session_array(self) -> I64:
        return np.frombuffer(self.host_session, INT64, len(self.host_session) // 8)

    @property
    def cpu_used_array(self) -> I32:
        return np.frombuffer(self.cpu_used, INT32, len(self.cpu_used) // 4)

    @property
    def memory_used_array(self) -> I32:
        return np.frombuffer(self.memory_used, INT32, len(self.memory_used) // 4)

    @property
    def slack_array(self) -> I32:
        return np.frombuffer(self.slack, INT32, len(self.slack) // 4)

    @classmethod
    def pack(
        cls,
        *,
        gateway: str,
        host_ids: tuple[str, ...],
        host_session: Values,
        cpu_used: Values,
        memory_used: Values,
        slack: Values,
    ) -> Self:
        return cls(
            gateway=gateway,
            host_ids=host_ids,
            host_session=pack_longs(host_session),
            cpu_used=pack_ints(cpu_used),
            memory_used=pack_ints(memory_used),
            slack=pack_ints(slack),
        )


ALL: tuple[type[Event], ...] = (
    GatewayBeat,
    HostBack,
    HostClearRequested,
    HostConnected,
    HostImages,
    HostLossConfirmed,
    HostOffered,
    HostRemovalRequested,
    HostSilent,
    HostTaintRequested,
    HostVolumes,
    HostsLoaded,
)
