"""The records of `schemas/hosts`. Written by `python -m tools.records`; do not edit."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from events.columns import I32, I64, INT32, INT64, Values, pack_ints, pack_longs
from events.records.base import Event
from events.records.parts import Actor, HostDevice, HostPoolPolicy, MaintenancePlan, Volume, ZoneOffsets


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


class HostCertified(Event, frozen=True, kw_only=True):
    """A host has got a certificate from the cell's own CA. Written by the gateway that signed it."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    serial: str
    """The serial number of the certificate, hexadecimal."""

    fingerprint: str
    """SHA-256 of the certificate, hexadecimal."""

    from_ms: int
    """From when on it holds."""

    until_ms: int
    """Until when it holds."""

    invite_id: str = ""
    """The invitation that it was given for; empty: an earlier certificate was renewed."""

    renews: str = ""
    """The serial number of the certificate that it renews; empty: none."""

    key: str = ""
    """SHA-256 of its public key, hexadecimal: who holds that key may ask for the certificate again, as where the
    answer was lost.
    """

    actor: Actor | None = None
    """Who wrote it; null: not said."""


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


class HostDeviceRequested(Event, frozen=True, kw_only=True):
    """An operator sets a device of a host aside, so that it takes no new tasks, or gives it back. Answered by
    HostAnswered.
    """

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    command_id: str
    """Made by the client."""

    device: str
    """The id of the device on its host."""

    disabled: bool
    """Whether it is set aside; false: it takes tasks again."""

    ends: bool = False
    """Whether the runs on it are to leave, as those of hosts that offer less than before; false: they go on."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class HostHealthReported(Event, frozen=True, kw_only=True):
    """A check of a host has another result."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    session: int
    """Number of the connection of the agent of that host, growing."""

    condition: str
    """The name of the check: disk-full, memory-pressure, clock-skew, orders-failing, or that of a command in the
    settings of the agent.
    """

    bad: bool
    """Whether it holds: the host isn't well."""

    code: str = ""
    """Its exit code, or what was found, in one word."""

    text: str = ""
    """One line of evidence, 300 characters at most."""


class HostImages(Event, frozen=True, kw_only=True):
    """All images of a host: said when its agent connects with some, and when one has come or gone."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    session: int
    """Number of the connection of the agent of that host, growing."""

    images: tuple[str, ...]
    """The first 16 hexadecimal digits of the digest of each, ascending; 64 at most."""


class HostInvited(Event, frozen=True, kw_only=True):
    """A host may join once with a token, and gets a certificate for it. The log has a hash of the token alone."""

    topic: ClassVar[str] = "paceline.hosts"

    host_id: str
    """The host."""

    invite_id: str
    """Names the invitation: the first 32 hexadecimal digits of the SHA-256 of its token."""

    until_ms: int
    """Until when the host may join."""

    reason: str = ""
    """Why, in the words of who did it."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


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

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"cores": INT32}

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

    devices: tuple[HostDevice, ...] = ()
    """Its devices. Their kinds and memory are in capacity too; of a kind that only capacity names, it has as many
    devices of unknown model.
    """

    cores: bytes = b""
    """The NUMA node of each whole core that tasks may have for themselves. Empty: it doesn't say. Column of int32.
    """

    @property
    def cores_array(self) -> I32:
        return np.frombuffer(self.cores, INT32, len(self.cores) // 4)

    @classmethod
    def pack(
        cls,
        *,
        host_id: str,
        session: int,
        capacity: dict[str, int],
        sizes: tuple[str, ...] = (),
        port_first: int = 31000,
        port_last: int = 31999,
        attributes: dict[str, str] | None = None,
        taints: dict[str, str] | None = None,
        devices: tuple[HostDevice, ...] = (),
        cores: Values | None = None,
    ) -> Self:
        return cls(
            host_id=host_id,
            session=session,
            capacity=capacity,
            sizes=sizes,
            port_first=port_first,
            port_last=port_last,
            attributes={} if attributes is None else attributes,
            taints={} if taints is None else taints,
            devices=devices,
            cores=b"" if cores is None else pack_ints(cores),
        )


class HostPoolAssigned(Event, frozen=True, kw_only=True):
    """An operator puts hosts into a host pool at once, whatever runs there. Answered by HostsAnswered."""

    topic: ClassVar[str] = "paceline.hosts"

    host_ids: tuple[str, ...]
    """The hosts; each once."""

    host_pool: str
    """The host pool that they are in from now on."""

    command_id: str
    """Made by the client."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class HostPoolDefined(Event, frozen=True, kw_only=True):
    """An operator defines a pool of hosts, changes it, or removes it. Answered by HostsAnswered."""

    topic: ClassVar[str] = "paceline.hosts"

    name: str
    """The host pool."""

    command_id: str
    """Made by the client."""

    removed: bool = False
    """Whether it is removed; it must have no hosts then."""

    kinds: tuple[str, ...] = ()
    """The kinds of jobs that use its hosts before those of shared, where their resource pool names no host pools:
    service, batch, batch-non-preemptible.
    """

    description: str = ""
    """What it is for."""

    elastic: tuple[HostPoolPolicy, ...] = ()
    """How hosts move to it and back by themselves, by the other host pool."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class HostPoolMoveRequested(Event, frozen=True, kw_only=True):
    """An operator wants hosts to be emptied and put into another host pool. Answered by HostsAnswered."""

    topic: ClassVar[str] = "paceline.hosts"

    source: str
    """The host pool that they are in."""

    target: str
    """The host pool that they are put into."""

    command_id: str
    """Made by the client."""

    hosts: int = 0
    """So many hosts, those that cost least to move; 0: those that are named."""

    host_ids: tuple[str, ...] = ()
    """The hosts; none: placement chooses."""

    batch: str = "wait"
    """wait: batch tasks end by themselves; move: preemptible ones leave at once."""

    deadline_ms: int = 0
    """How long after the request the deadline is; 0: none."""

    escalate: str = "wait"
    """What happens at the deadline. wait: nothing; preempt: preemptible batch tasks leave; force: that, and all others
    `force_after_ms` later.
    """

    force_after_ms: int = 0
    """How long after the deadline all that is left is ended, whatever budgets say, where `escalate` is force."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


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

    effect: str = "no_place"
    """no_place: new tasks are kept away; evict: also those leave that run there, as budgets allow."""

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


class HostsCordonRequested(Event, frozen=True, kw_only=True):
    """An operator keeps new tasks away from hosts, except those that are bound there; what runs goes on. Answered by
    HostsAnswered.
    """

    topic: ClassVar[str] = "paceline.hosts"

    host_ids: tuple[str, ...]
    """The hosts; each once."""

    command_id: str
    """Made by the client."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class HostsDrainRequested(Event, frozen=True, kw_only=True):
    """An operator wants hosts empty: nothing new is placed there, and what runs there leaves as budgets allow.
    Answered by HostsAnswered.
    """

    topic: ClassVar[str] = "paceline.hosts"

    host_ids: tuple[str, ...]
    """The hosts; each once."""

    command_id: str
    """Made by the client."""

    most: int = 0
    """So many of them are taken, the cheapest to drain; 0: all."""

    batch: str = "wait"
    """wait: batch tasks end by themselves; move: preemptible ones leave at once."""

    deadline_ms: int = 0
    """How long after the request the deadline is; 0: none."""

    escalate: str = "wait"
    """What happens at the deadline. wait: nothing; preempt: preemptible batch tasks leave; force: that, and all others
    `force_after_ms` later.
    """

    force_after_ms: int = 0
    """How long after the deadline all that is left is ended, whatever budgets say, where `escalate` is force."""

    force: bool = False
    """Whether all that runs there is ended at once, whatever budgets say."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


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


class HostsResumeRequested(Event, frozen=True, kw_only=True):
    """An operator ends drains and cordons of hosts; the host that a campaign is at work on has its work done. Answered
    by HostsAnswered.
    """

    topic: ClassVar[str] = "paceline.hosts"

    host_ids: tuple[str, ...]
    """The hosts; each once."""

    command_id: str
    """Made by the client."""

    cordon_only: bool = False
    """Only the cordon is ended: refused where a host drains or is drained."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class MaintenanceActionRequested(Event, frozen=True, kw_only=True):
    """An operator acts on a campaign. Answered by HostsAnswered."""

    topic: ClassVar[str] = "paceline.hosts"

    maintenance_id: str
    """The campaign."""

    command_id: str
    """Made by the client."""

    action: str
    """pause, resume or abort."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class MaintenanceRequested(Event, frozen=True, kw_only=True):
    """An operator starts a campaign. Answered by HostsAnswered."""

    topic: ClassVar[str] = "paceline.hosts"

    maintenance_id: str
    """The campaign."""

    command_id: str
    """Made by the client."""

    host_ids: tuple[str, ...]
    """The hosts; each once."""

    plan: MaintenancePlan
    """What is done with them."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class MaintenanceWindowRemoved(Event, frozen=True, kw_only=True):
    """An operator removes a window. Answered by HostsAnswered."""

    topic: ClassVar[str] = "paceline.hosts"

    window_id: str
    """The window."""

    command_id: str
    """Made by the client."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class MaintenanceWindowSet(Event, frozen=True, kw_only=True):
    """An operator sets the times at which hosts are maintained. Answered by HostsAnswered."""

    topic: ClassVar[str] = "paceline.hosts"

    window_id: str
    """The window."""

    command_id: str
    """Made by the client."""

    host_ids: tuple[str, ...]
    """The hosts; each once."""

    schedule: str
    """When it opens, as five fields of cron in local time: minute, hour, day of month, month, day of week."""

    duration_ms: int
    """How long it stays open."""

    zone: ZoneOffsets
    """The offsets of its time zone."""

    lead_ms: int = 0
    """How long before it opens its hosts begin to drain."""

    escalate: str = "preempt"
    """What happens with what is left when it opens: preempt or force. cordon is none of both: the hosts are only for
    campaigns that name the window.
    """

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


ALL: tuple[type[Event], ...] = (
    GatewayBeat,
    HostBack,
    HostCertified,
    HostClearRequested,
    HostConnected,
    HostDeviceRequested,
    HostHealthReported,
    HostImages,
    HostInvited,
    HostLossConfirmed,
    HostOffered,
    HostPoolAssigned,
    HostPoolDefined,
    HostPoolMoveRequested,
    HostRemovalRequested,
    HostSilent,
    HostTaintRequested,
    HostVolumes,
    HostsCordonRequested,
    HostsDrainRequested,
    HostsLoaded,
    HostsResumeRequested,
    MaintenanceActionRequested,
    MaintenanceRequested,
    MaintenanceWindowRemoved,
    MaintenanceWindowSet,
)
