"""Records inside records. Written by `python -m tools.records`; do not edit."""

from events.records.base import NestedRecord


class Actor(NestedRecord, frozen=True):
    """Who wrote a fact, as far as that is known. No machine looks at it."""

    subject: str
    """The name of the user; empty: not said."""

    how: str
    """How the name is known: token, oidc, certificate and run by proof of the server; environment and system-user by
    the client's own word, header by that of another client, session: somebody signed in to the pages with the token
    of the cell, api: an HTTP call that names nobody.
    """

    address: str = ""
    """The address of the client, as the server saw it; empty: not known."""

    binding: int | None = None
    """Offset in paceline.pools of the role that allowed it; null: none was needed."""

    read_to: int | None = None
    """How far in paceline.pools the server had read when it allowed it; null: nothing was asked."""

    credential: str = ""
    """What proved the name: the id of a token, the issuer of OIDC, the serial number of a certificate, the run; empty:
    nothing did.
    """

    reason: str = ""
    """Why, in the words of the user, where the fact has no field for it."""

    signature: bytes = b""
    """Proof of the fact by a key that the cell knows (decision 100); empty: there is none."""


class Secret(NestedRecord, frozen=True):
    """A secret by name and version; its value is never in the log."""

    name: str
    """The name, by which a run finds it."""

    version: int
    """Counts what was put under the name, from 1; all runs get this one."""

    digest: str = ""
    """Names the version as it stood in the store when this was appended, and tells nothing of the value. Empty: any.
    """


class Isolation(NestedRecord, frozen=True):
    """What keeps the runs of a job apart from others, how much they may use beside what they ask for, and how much of
    their output is kept.
    """

    level: str = "none"
    """The least that keeps a run apart from others: none, cgroup (its limits hold) or container (its own root too).
    """

    image: str = ""
    """Name of the image of its container, as the user wrote it; empty: a run uses the files of its host."""

    image_digest: str = ""
    """The digest that the name stood for when this was appended: sha256:HEX. All runs use these bytes."""

    network: str = "host"
    """Of a container: host, or none but its own loopback."""

    writable_root: bool = False
    """Whether a run may write to the root of its container: each to a copy of its own, gone with it."""

    cpu_limit: int = 0
    """Thousandths of a core that a run never goes beyond; 0: what the host has."""

    processes: int = 0
    """How many processes and threads a run may have at once; 0: as many as the agent allows."""

    output_head: int = 0
    """How many KiB of the beginning of each stream of its output are kept; 0: 5 MiB."""

    output_tail: int = 0
    """How many KiB of the rest of each stream are kept at most, the newest; 0: 5 MiB."""

    user: str = ""
    """As whom the program of a container runs: USER[:GROUP], names of the image or numbers; empty: as the image says.
    """

    devices: tuple[str, ...] = ()
    """Paths of devices of the host that its container has too."""


class Constraint(NestedRecord, frozen=True):
    """One condition on the attributes of a host, or how those behind it are combined; all that are no part of another
    must hold.
    """

    attribute: str
    """Name of the attribute; empty for any and all."""

    operator: str = "in"
    """in, not_in, exists, absent, greater, less, version or glob; any or all: of its parts."""

    values: tuple[str, ...] = ()
    """Values for in and not_in, the number for greater and less, comparisons for version, patterns for glob."""

    parts: int = 0
    """Of any and all: how many of the conditions behind it are its parts, these with their own parts."""

    weight: int = 0
    """1 or more: a preference; hosts that don't meet it come after those that do, by the sum of these weights. 0: it
    must be met.
    """


class UpdatePolicy(NestedRecord, frozen=True):
    """How an update goes through the instances of a job."""

    batch: int = 0
    """Most instances that are being updated at a time; 0: all."""

    max_failures: int = 0
    """The update fails when so many instances have failed; 0: never for that."""

    max_attempts: int = 3
    """An instance has failed when so many of its runs on the new version have."""

    roll_back: bool = False
    """Whether an update that fails goes back to the version before it."""

    healthy_ms: int = 10000
    """How long an instance must be available on the new version to count as done."""

    canary: int = 0
    """So many instances first, then it waits to be promoted; 0: none."""

    promote_after_ms: int = 0
    """Promotes itself when the canary was healthy for so long; 0: by hand."""

    start_paused: bool = False
    """Whether it waits for resume before it takes the first instance."""

    blocked_after_ms: int = 0
    """The update fails when sla lets nothing go on for so long; 0: never for that."""

    creation: bool = False
    """Whether the job is created by it too: its first instances are added by an update."""

    progress_deadline_ms: int = 600000
    """An instance has failed when it found no place for so long; 0: never for that."""

    prefetch: bool = False
    """Whether it begins once the hosts of the instances that it changes have pulled the image."""


class HealthCheck(NestedRecord, frozen=True):
    """How an agent checks whether a run is healthy."""

    kind: str
    """command: a program that exits with 0; http: a request that is answered with 200 to 399; tcp: a connection."""

    command: tuple[str, ...] = ()
    """Of the kind command: program and arguments."""

    port: str = ""
    """Of the kinds http and tcp: name of a port of the job."""

    path: str = ""
    """Of the kind http: path of the request."""

    delay_ms: int = 0
    """Time between the start of a run and its first check."""

    interval_ms: int = 10000
    """Time between two checks."""

    timeout_ms: int = 5000
    """A check that takes longer has failed."""

    failures: int = 3
    """So many failed checks in a row end the run."""

    successes: int = 1
    """So many passed checks in a row make a run healthy."""


class Simulated(NestedRecord, frozen=True):
    """How simulated agents play a task; real agents ignore it."""

    duration_ms: int = 1000
    """How long a run takes."""

    exit_code: int = 0
    """The exit code of runs that do not fail on purpose."""

    fail_runs: int = 0
    """The first so many runs exit with 1."""

    durations_ms: tuple[int, ...] = ()
    """How long the runs of each instance take, over and over where there are fewer; empty: duration_ms."""

    ready_ms: int = 0
    """How long after its order a run is reported as started."""

    ignores_stop: bool = False
    """Whether a run goes on after the stop signal, until it is killed."""

    fail_run: int = 0
    """The run of this number exits with 1 too; 0: none does."""

    unhealthy_ms: int | None = None
    """How long after its start the health check of a run fails for good; null: it passes."""

    unhealthy_runs: int = 0
    """Only the first so many runs become unhealthy; 0: all."""


class TaskAffinity(NestedRecord, frozen=True):
    """Tasks by label beside which a task must run, or must not, or rather would."""

    label: str
    """Name of the label of their job."""

    value: str
    """Its value."""

    over: str = "host"
    """host, or the attribute whose value the hosts must have in common."""

    apart: bool = False
    """Whether it must not run beside them; they don't run beside it then either."""

    weight: int = 0
    """1 or more: a preference; hosts that don't meet it come after those that do, by the sum of these weights. 0: it
    must be met.
    """


class SpreadTarget(NestedRecord, frozen=True):
    """The part of the tasks of a job that a value of an attribute is to have."""

    value: str
    """The value."""

    percent: int
    """0 to 100 of the tasks."""


class TimedToleration(NestedRecord, frozen=True):
    """A taint by which runs leave after a time only."""

    taint: str
    """KEY, whatever its value, or KEY=VALUE."""

    for_ms: int
    """So long after the taint was set they stay."""


class DeviceModels(NestedRecord, frozen=True):
    """The models of devices that will do."""

    kind: str
    """The kind of resource."""

    models: tuple[str, ...]
    """Any of these."""


class AlternativeAmount(NestedRecord, frozen=True):
    """An amount of a resource."""

    name: str
    """The resource."""

    amount: int
    """Thousandths or MiB."""


class Alternative(NestedRecord, frozen=True):
    """One of several requests of a task."""

    resources: tuple[AlternativeAmount, ...]
    """All that a task asks then, in one order."""

    devices: tuple[DeviceModels, ...] = ()
    """As that of the rules."""

    devices_within: str = ""
    """As that of the rules."""

    cores: int = 0
    """As that of the rules."""


class PlacementRules(NestedRecord, frozen=True):
    """What a job asks of the hosts of its tasks beside conditions on attributes."""

    tolerations: tuple[str, ...] = ()
    """Taints of hosts that don't keep its tasks away: KEY, whatever its value, or KEY=VALUE."""

    host_limit: int = 0
    """At most so many tasks of the job on a host; 0: any number."""

    exclusive: bool = False
    """Whether its hosts take no task of another job."""

    affinity: tuple[TaskAffinity, ...] = ()
    """Tasks beside which they run, or don't."""

    spread_over: str = ""
    """Attribute over whose values the tasks of the job are spread; empty: none."""

    skew: int = 0
    """A value has at most so many tasks more than the one with least; 0: any number."""

    targets: tuple[SpreadTarget, ...] = ()
    """Parts of the tasks by value; other values share the rest evenly."""

    hard: bool = False
    """Whether tasks wait rather than exceed a target."""

    within: str = ""
    """Attribute of which the hosts of a gang have one value; empty: any."""

    stays: tuple[TimedToleration, ...] = ()
    """Taints by which its runs leave, so long after these were set. New tasks are kept away."""

    devices: tuple[DeviceModels, ...] = ()
    """Of kinds that it doesn't name any model will do."""

    devices_within: str = ""
    """link_group or numa: all devices and cores of a task are in one; empty: they need not be."""

    cores: int = 0
    """So many whole cores a task has for itself; 0: it shares those that are left."""

    near: str = ""
    """Attribute, or host, of whose values the hosts of a gang have as few as possible; empty: any number."""

    segments: int = 0
    """So many members of a gang, one after another, are on hosts with one value of `near`, or of `within` where that
    is empty; 0: no such rule.
    """

    most: int = 0
    """A value of the attribute of the spread has at most so many tasks; 0: any number."""

    alternatives: tuple[Alternative, ...] = ()
    """Requests of which the first that finds a place is taken, itself the first of them; empty: there is only this
    one.
    """


class TaskOverride(NestedRecord, frozen=True):
    """What some instances of a job have instead of what the job says. Maps are merged by key; all else replaces; null:
    as the job.
    """

    command: tuple[str, ...] | None = None
    """Program and arguments."""

    env: dict[str, str] = {}
    """Merged into the environment by name."""

    resources: dict[str, int] = {}
    """Merged into the resources by name."""

    ports: tuple[str, ...] | None = None
    """Names of the ports."""

    constraints: tuple[Constraint, ...] | None = None
    """Conditions on hosts."""

    strategy: str | None = None
    """pack or spread."""

    stop_grace_ms: int | None = None
    """Time between the stop signal and the kill."""

    on_silence: str | None = None
    """keep or stop_after."""

    stop_after_ms: int = 0
    """For on_silence stop_after: how long the agent waits."""

    labels: dict[str, str] = {}
    """Merged into the labels by name."""

    simulated: Simulated | None = None
    """How simulated agents play the tasks."""

    rules: PlacementRules | None = None
    """What it asks of hosts beside conditions, all of it; spread and within are those of the job."""


class OverrideChunk(NestedRecord, frozen=True):
    """Overrides of neighbouring instances that stand in a record of their own."""

    digest: bytes
    """Names an OverridesUploaded: the BLAKE2b-256 of its content."""

    first: int
    """The first instance that may have an override there."""

    count: int
    """How many instances from there on may."""


class ZoneOffsets(NestedRecord, frozen=True):
    """The offsets of a time zone: machines have none of their own."""

    name: str = ""
    """The time zone: Europe/Berlin; empty: UTC."""

    from_s: tuple[int, ...] = ()
    """Second since 1970, UTC, from which each offset holds; ascending. Before the first, the first holds."""

    offset_s: tuple[int, ...] = ()
    """Seconds east of UTC, for each."""

    until_s: int = 0
    """Second until which they are known."""


class SlaWindow(NestedRecord, frozen=True):
    """A time at which instances may be disrupted."""

    schedule: str
    """When it opens, as five fields of cron in local time: minute, hour, day of month, month, day of week."""

    duration_ms: int
    """How long it stays open."""

    zone: ZoneOffsets
    """The offsets of its time zone."""


class SlaPolicy(NestedRecord, frozen=True):
    """What a job asks of those who disrupt it, beyond a number of instances."""

    max_unavailable_percent: int | None = None
    """How many of the wanted instances may be unavailable on purpose, in percent, rounded down, at least 1 where it
    isn't 0.
    """

    min_available: int | None = None
    """How many must stay available."""

    min_available_percent: int | None = None
    """The same in percent of the wanted instances, rounded up."""

    min_healthy_ms: int = 0
    """How long a run must be available to count."""

    per_hour: int | None = None
    """How many may be disrupted in an hour for others: for drains, rebalancing and preemption, not for updates."""

    per_hour_percent: int | None = None
    """The same in percent of the wanted instances, at least 1."""

    replace: str = ""
    """before: the next instance is up before the one before it stops; empty: after."""

    surge: int = 1
    """So many more instances there may be for that."""

    replace_wait_ms: int = 120000
    """How long it is waited for, before the plain budget is used."""

    group: str = ""
    """The budget that it shares with other jobs; empty: none."""

    windows: tuple[SlaWindow, ...] = ()
    """When it may be disrupted for others; none: at any time."""


class ResourceKind(NestedRecord, frozen=True):
    """A kind of resource that the cell knows beside cpu, memory, disk and gpu."""

    name: str
    """Its name, as hosts offer it and jobs ask for it: gpu/a100."""

    unit: str = "milli"
    """milli: counted in thousandths; MiB: a size."""

    amount: int | None = None
    """What the whole cell has of it, as of a licence; null: what hosts offer."""


class ConditionPolicy(NestedRecord, frozen=True):
    """What is done with hosts that have a condition."""

    name: str
    """The condition: disk-full, memory-pressure, clock-skew, orders-failing, or that of a health command."""

    policy: str
    """avoid: such hosts take no new tasks; drain: and are drained where it lasts; off: nothing; default: as of
    conditions that aren't named.
    """

    drain_after_ms: int | None = None
    """How long it lasts until they are drained; null: that of the cell."""


class HostDevice(NestedRecord, frozen=True):
    """A device of a host: a card, a part of one, anything that is taken as a whole or by shares."""

    id: str
    """Index or UUID; no other device of the host has it."""

    kind: str
    """The resource that it is of, such as gpu."""

    model: str = ""
    """Its model; empty: unknown."""

    memory: int = 0
    """Its memory in MiB; 0: none is counted."""

    numa: int = -1
    """The NUMA node that it is at; -1: unknown."""

    link_group: str = ""
    """Devices of one group are linked directly, as by NVLink; empty: with none."""

    of: str = ""
    """The device of which it is a part; empty: it is none. A part and its device exclude each other."""

    excludes: tuple[str, ...] = ()
    """Devices that can't be used while it is, both ways."""

    healthy: bool = True
    """Whether it takes new tasks."""


class HostPoolPolicy(NestedRecord, frozen=True):
    """When hosts move between two host pools by themselves. Load is the allocated share of what the host pool has, of
    the resource of which that is most.
    """

    source: str
    """The host pool that hosts come from, and go back to."""

    above: int
    """They come when its load is above so many percent."""

    below: int
    """They go back when its load is below so many percent."""

    lasts_ms: int
    """For how long that must have lasted."""

    hosts: int = 1
    """So many move at a time."""

    keep: int = 0
    """So many hosts stay in either."""


class Volume(NestedRecord, frozen=True):
    """A folder that an agent keeps for a task between its runs."""

    job_id: str
    """The job."""

    instance: int
    """The instance of the job that has it."""

    name: str
    """Its name in the job."""

    created_ms: int
    """When the agent created it, by the clock of the host; tells it from an earlier one of that name."""


class DrainPlan(NestedRecord, frozen=True):
    """How hosts are emptied."""

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


class MaintenancePlan(NestedRecord, frozen=True):
    """A campaign: in which order hosts are emptied, worked on and taken back."""

    drain: DrainPlan
    """How each host is emptied."""

    at_a_time: int = 1
    """The most hosts that are emptied, worked on or checked at a time."""

    per_rack: int = 0
    """The most of them with one value of `rack`; 0: no bound."""

    rack: str = "rack"
    """The attribute of hosts that names their rack."""

    order: str = "paced"
    """paced, cheapest or name."""

    work: str = "manual"
    """reboot: until the host is back with another boot; time: for `work_ms`; manual: until an operator resumes the
    host.
    """

    work_ms: int = 0
    """How long the work takes, where that is its measure."""

    within_ms: int = 0
    """The work has failed when it takes longer; 0: it may take any time."""

    check_ms: int = 600000
    """The host has failed when it isn't up and well so long after the work."""

    max_failed: int = 0
    """So many hosts may have failed since it was started or resumed; one more pauses it."""

    max_down: int = 0
    """No host is started while more hosts than this are silent, lost or returning; 0: no bound."""

    stuck_ms: int = 0
    """A host that is emptied for so long is taken back and skipped; 0: never."""

    window_id: str = ""
    """Hosts are started only while this window is open; empty: at any time."""


class Cause(NestedRecord, frozen=True):
    """What led to a decision: a fact by topic and offset, a decision by machine, round and index, or a deadline."""

    topic: str = ""
    """The topic of the fact; empty: it wasn't a fact."""

    offset: int = 0
    """The offset of the fact in its topic."""

    machine: str = ""
    """The machine that decided, this one or another; empty: it wasn't a decision."""

    round: int = 0
    """The round of the decision; it may be the round that names it."""

    index: int = 0
    """The index of the decision in its round, from 0."""

    due_ms: int = 0
    """Logical time of the deadline that passed, where time alone led to it."""


class TaskShape(NestedRecord, frozen=True):
    """What one task asks of its pool and of the host that it runs on."""

    resources: dict[str, int]
    """Amounts by name of the resource: thousandths of CPUs and devices, MiB of sizes; what is left out is 0."""

    ports: int = 0
    """How many ports."""

    constraints: tuple[Constraint, ...] = ()
    """Conditions on hosts."""

    strategy: str = "pack"
    """pack or spread."""

    port_numbers: tuple[int, ...] = ()
    """Number of each of its ports in their order, 0: any that is free; empty: any for all."""

    rules: PlacementRules | None = None
    """What it asks of its host beside conditions; null: nothing."""


class HostPoolWaits(NestedRecord, frozen=True):
    """The work that waits for a host pool."""

    name: str
    """The host pool: of those that jobs may use the first one."""

    waiting: dict[str, int]
    """The amount that the jobs want, within limits and reservations, beyond all that they may use, by name of the
    resource.
    """


class HostPoolCapacity(NestedRecord, frozen=True):
    """What the hosts of a host pool have."""

    name: str
    """The host pool."""

    kinds: tuple[str, ...] = ()
    """The kinds of jobs that use it before shared, where their resource pool names no host pools."""

    capacity: dict[str, int] = {}
    """The sum over its hosts that count, by name of the resource."""

    hosts: int = 0
    """Number of those hosts."""

    daemons: dict[str, int] = {}
    """The part of the capacity that daemons hold, by name of the resource; others have the rest."""


class NearMiss(NestedRecord, frozen=True):
    """A host that almost fitted and what it lacked."""

    host_id: str
    """The host."""

    lacks: dict[str, int]
    """What it lacked for one task, by name of the resource; empty: it lacked ports, or devices."""

    devices: str = ""
    """What its devices and cores lacked, where amounts alone don't say it."""


class GroupRoom(NestedRecord, frozen=True):
    """The room of hosts with one value of an attribute, or of one link group of a host."""

    value: str
    """The value; empty: of hosts without the attribute. Of a link group the host and, behind a space, its name."""

    fit: int
    """Tasks of the gang that would fit there by themselves; of NEVER_FITS, if nothing ran there."""


class Segment(NestedRecord, frozen=True):
    """A stretch of one topic applied in one piece."""

    topic: str
    """The topic."""

    start: int
    """First offset of the stretch."""

    end: int
    """The offset after its last record."""


class Skipped(NestedRecord, frozen=True):
    """An input record that could not be decoded."""

    topic: str
    """The topic."""

    offset: int
    """Its offset."""

    reason: str
    """A stable code: why it could not be decoded."""

    digest: bytes
    """BLAKE2b-256 of its bytes."""


class Seen(NestedRecord, frozen=True):
    """A position known to the writer of a round."""

    topic: str
    """The topic."""

    position: int
    """The offset after the last record known."""


class PlacedDevice(NestedRecord, frozen=True):
    """A device of a run, or a whole core."""

    id: str
    """Its id on the host; of a core core/ and its number."""

    milli: int
    """Thousandths of it that the run has."""

    memory: int
    """Its memory that the run has, in MiB."""
