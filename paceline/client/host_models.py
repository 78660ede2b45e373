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


class DeviceRun(TypedDict):
    """A run that has a device: the share of it, 1 for all, and the memory."""

    job_id: str
    instance: int
    run: int
    share: float
    memory: str | None


class HostDevice(TypedDict):
    """A device of a host. `part_of`: the device of which it is a part; `excludes`: those that can't be used beside it.
    `state`: OK; UNHEALTHY by its agent; DISABLED by an operator, EMPTYING where its runs are to leave; GONE where its
    host names it no more and runs have it.
    """

    id: str
    kind: str
    model: str | None
    memory: str | None
    numa: int | None
    link_group: str | None
    part_of: str | None
    excludes: list[str]
    state: str
    used: float
    memory_used: str | None
    runs: list[DeviceRun]


class HostCores(TypedDict):
    """The whole cores of a NUMA node of a host, and the numbers of those that no run has for itself. Limited readers
    are told none.
    """

    numa: int
    cores: int
    free: list[int]


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
    host_pool: str
    maintenance: HostMaintenance | None
    """None: it takes tasks, as far as maintenance is concerned."""
    certificate: NotRequired[HostCertificate | None]
    """None: the cell gave it none. Lists leave it out."""
    devices: NotRequired[list[HostDevice]]
    """Lists leave them out, as the cores."""
    cores: NotRequired[list[HostCores]]
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


class HostPoolElastic(TypedDict):
    """The policy by which hosts move between a host pool and a `source`: so many `hosts` at a time, when the load of
    the host pool is `above` or `below` so many percent for `lasts_ms`; `keep` stay in either.
    """

    source: str
    above: int
    below: int
    lasts_ms: int
    hosts: int
    keep: int


class HostPool(TypedDict):
    """A host pool: `kinds` of jobs use it before shared where their pool names no host pools; `pools` name it. `hosts`
    are in it, `up` of them take tasks, and their `runs`.
    """

    name: str
    kinds: list[str]
    description: str
    elastic: list[HostPoolElastic]
    pools: list[str]
    hosts: int
    up: int
    runs: int
    defined_at: str | None
    """None: it is in every cell."""


class HostPoolList(TypedDict):
    """All host pools, and the last moves of hosts between them, the newest first."""

    host_pools: list[HostPool]
    moves: "list[HostPoolMove]"


class HostPoolMove(TypedDict):
    """Hosts that were emptied for another host pool. `code`: ASKED by an operator, LOAD_ABOVE or LOAD_BELOW; then
    `load`, of which so much was `waiting`, was beyond the `bound` of a policy, all in percent, since a time.
    """

    source: str
    target: str
    host_ids: list[str]
    code: str
    load: int | None
    waiting: int | None
    bound: int | None
    since: str | None
    at: str | None


class HostToMove(TypedDict):
    """A host that would be moved, and its score: the controllers and tasks there, the sum of their priorities, each as
    a part of the highest in its pool, and the seconds for which they run on average.
    """

    host_id: str
    controllers: int
    tasks: int
    priorities: int
    mean_s: int


class JobOfHostPools(TypedDict):
    """A job that may use fewer hosts once host pools have changed: those that it may use now and then, whether a task
    of it, or its gang, `fits` there if nothing else ran, and the runs outside of its host pools, which go on.
    """

    job_id: str
    pool: str
    hosts: int
    hosts_then: int
    fits: bool
    runs_outside: int


class HostPoolPlan(TypedDict):
    """The effects that a change of host pools would have now: the jobs that may use fewer hosts then, those that fit
    nowhere first; or why it would be refused.
    """

    code: str
    message: str
    refused: bool
    jobs: list[JobOfHostPools]


class HostPoolMovePlan(TypedDict):
    """The hosts that a move would take now, the first choice first, of so many `candidates` that are up, and the jobs
    that may use fewer hosts once they have arrived; or why it would be refused.
    """

    code: str
    message: str
    refused: bool
    candidates: int
    hosts: list[HostToMove]
    jobs: list[JobOfHostPools]
