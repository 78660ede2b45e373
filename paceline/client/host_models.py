"""Hosts and their volumes in the API's answers."""

from typing import NotRequired, TypedDict

from paceline.client.maintenance_models import HostMaintenance
from paceline.client.models import ActorName, Amounts


class HostLoss(TypedDict):
    """The loss of a host in one of its sessions."""

    code: str
    session: int
    at: str | None


class Suspicion(TypedDict):
    """The reason why a host takes no new tasks for a time."""

    code: str
    message: str
    until: str | None


class IgnoredResource(TypedDict):
    """A resource that a host offers and the cell ignores."""

    name: str
    code: str
    message: str


class PortRange(TypedDict):
    """The ports that a host offers, from `first` to `last`."""

    first: int
    last: int


class HostOffer(TypedDict):
    """The amounts that a host lends to tasks, and those that are ignored."""

    capacity: Amounts
    ignored_resources: list[IgnoredResource]


class HostLoad(TypedDict):
    """The use of a host by its runs, in sixteenths of what it offers, and when it was said."""

    cpu: int
    memory: int
    at: str | None


class HostTaint(TypedDict):
    """A taint of a host: new tasks are kept away that don't tolerate it; `by` is agent or operator, `effect`
    no_place, or evict where those leave too that run there.
    """

    key: str
    value: str
    by: str
    effect: str


class HostCondition(TypedDict):
    """A condition of a host: what a check of it found, or that it is suspected (`name` is suspected). `action`, in
    words `done`: AVOIDED, DRAINED, HELD where no more hosts are avoided, CLEARED by an operator, OFF by its policy;
    `passed_at`: since when its check passes, null: it is bad; `drain_at`: when the host is drained for it, null: never;
    `ends`: what ends it, in words.
    """

    name: str
    code: str
    evidence: str
    since: str | None
    passed_at: str | None
    flaps: int
    """So often it came back before it was over."""
    action: str
    done: str
    drain_at: str | None
    ends: str


class Shrinkage(TypedDict):
    """A host offers less than its runs hold, by so much: nothing is placed there."""

    code: str
    message: str
    surplus: Amounts


class HostCertificate(TypedDict):
    """The newest certificate of a host that the CA of its cell gave; `renews`: the serial number of the one before,
    null: it joined by this one. `state`: VALID, EXPIRED, or REVOKED, where the host was removed since.
    """

    serial: str
    fingerprint: str
    state: str
    from_at: str | None
    until_at: str | None
    renews: str | None
    at: str | None


class Host(HostOffer):
    """A host; `state` is CONNECTING, RETURNING, UP, SUSPECTED, SILENT or LOST. `cell` stands in lists over several
    cells.
    """

    host_id: str
    state: str
    session: int
    gateway: str
    connected_at: str | None
    silent_since: str | None
    offer_refused: str | None
    lost: HostLoss | None
    suspected: Suspicion | None
    conditions: list[HostCondition]
    shrunk: Shrinkage | None
    allocated: Amounts
    slack: float
    """CPU in cores that its runs have reserved and don't use, which it can lend to revocable ones."""
    used: HostLoad | None
    """None: not said yet, or not measured."""
    runs: int
    ports: PortRange
    attributes: dict[str, str]
    taints: list[HostTaint]
    maintenance: HostMaintenance | None
    """None: it takes tasks, as far as maintenance is concerned."""
    certificate: NotRequired[HostCertificate | None]
    """None: the cell gave it none. Lists leave it out."""
    cell: NotRequired[int]


class Volume(TypedDict):
    """A folder that a host keeps for a task between its runs."""

    host_id: str
    job_id: str
    instance: int
    name: str
    created_at: str | None
    cell: NotRequired[int]


class OpenInvitation(TypedDict):
    """An invitation by which no agent has joined yet, and one still may; `actor`: who invited the host."""

    host_id: str
    invite_id: str
    until: str | None
    reason: str
    actor: ActorName | None
    at: str | None
    position: str


class OpenInvitationsPage(TypedDict):
    """A page of open invitations, the oldest first."""

    host_invitations: list[OpenInvitation]
    next_page_token: str


class HostInvitation(TypedDict):
    """An invitation of a host, with the `token` by which its agent joins once, until then. Nobody is shown it again."""

    host_id: str
    invite_id: str
    token: str
    until: str
    position: str
