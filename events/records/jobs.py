"""The records of `schemas/jobs`. Written by `python -m tools.records`; do not edit."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import msgspec
import numpy as np

from events.columns import I32, INT32, Values, pack_ints
from events.records.base import Event, InstancesEvent
from events.records.parts import (
    Actor,
    Constraint,
    HealthCheck,
    Isolation,
    OverrideChunk,
    PlacementRules,
    Secret,
    Simulated,
    SlaPolicy,
    TaskOverride,
    UpdatePolicy,
)


class ImagePrefetchRequested(Event, frozen=True, kw_only=True):
    """A user asks for an image to be on hosts before runs need it there. Answered by CommandAnswered."""

    topic: ClassVar[str] = "paceline.jobs"

    job_id: str
    """The job that it is for; it needn't be submitted yet."""

    command_id: str
    """Made by the client; a repeat has the same."""

    image: str
    """Name of the image, as the user wrote it."""

    image_digest: str
    """What the name stood for when this was appended: sha256:HEX."""

    reason: str = ""
    """Why, in the words of the user."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class JobActionRequested(InstancesEvent, frozen=True, kw_only=True):
    """A user asks for something to be done with a job or with its update. Answered by CommandAnswered."""

    topic: ClassVar[str] = "paceline.jobs"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"first": INT32, "count": INT32}

    job_id: str
    """The job."""

    command_id: str
    """Made by the client; a repeat has the same."""

    action: str
    """Of instances: start, restart. Of the update: pause, resume, abort, roll_back, promote. Of the job: hold,
    release, delete.
    """

    first: bytes = b""
    """First instance of each range that the command is about. Empty: all instances. Column of int32."""

    count: bytes = b""
    """Instances of each range. Column of int32."""

    batch: int = 0
    """For restart: most instances at a time; 0: all."""

    version: int = 0
    """For roll_back: the version to go back to; 0: the last before it that an update completed."""

    force: bool = False
    """For delete: whether a job that has not ended is stopped first."""

    expected_version: int = 0
    """The version that the job must have; another one is refused. 0: whatever it has."""

    reason: str = ""
    """Why, in the words of the user."""

    data: str = ""
    """Whatever the user wants kept with the command."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""

    @property
    def first_array(self) -> I32:
        return np.frombuffer(self.first, INT32, len(self.first) // 4)

    @property
    def count_array(self) -> I32:
        return np.frombuffer(self.count, INT32, len(self.count) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_id: str,
        command_id: str,
        action: str,
        first: Values | None = None,
        count: Values | None = None,
        batch: int = 0,
        version: int = 0,
        force: bool = False,
        expected_version: int = 0,
        reason: str = "",
        data: str = "",
        actor: Actor | None = None,
    ) -> Self:
        return cls(
            job_id=job_id,
            command_id=command_id,
            action=action,
            first=b"" if first is None else pack_ints(first),
            count=b"" if count is None else pack_ints(count),
            batch=batch,
            version=version,
            force=force,
            expected_version=expected_version,
            reason=reason,
            data=data,
            actor=actor,
        )


class JobPriorityRequested(Event, frozen=True, kw_only=True):
    """A user changes the priority of a job. Answered by CommandAnswered."""

    topic: ClassVar[str] = "paceline.jobs"

    job_id: str
    """The job."""

    command_id: str
    """Made by the client; a repeat has the same."""

    priority: int
    """The new priority; higher goes first within its pool."""

    expected_version: int = 0
    """The version that the job must have; another one is refused. 0: whatever it has."""

    reason: str = ""
    """Why, in the words of the user."""

    data: str = ""
    """Whatever the user wants kept with the command."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class JobReopenRequested(InstancesEvent, frozen=True, kw_only=True):
    """A user has tasks of a job run again that has ended. It carries what lifecycle keeps no more of such a job, as
    the views have it. Answered by JobAccepted, JobReopened and CommandAnswered, or by CommandAnswered alone.
    """

    topic: ClassVar[str] = "paceline.jobs"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "first": INT32,
        "count": INT32,
        "over_first": INT32,
        "over_count": INT32,
        "over_state": INT32,
    }

    job_id: str
    """The job."""

    command_id: str
    """Made by the client; a repeat has the same."""

    spec: bytes
    """The specification that it has ended with, whole: an encoded JobSubmitted of this job."""

    first: bytes
    """First instance of each range that is to run again. Column of int32."""

    count: bytes
    """Instances of each range. Column of int32."""

    over_first: bytes = b""
    """First instance of each range of the others. Column of int32."""

    over_count: bytes = b""
    """Instances of each of these ranges. Column of int32."""

    over_state: bytes = b""
    """How the tasks of each of these ranges have ended: 6 succeeded, 7 failed, 8 killed. Column of int32."""

    reason: str = ""
    """Why, in the words of the user."""

    data: str = ""
    """Whatever the user wants kept with the command."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""

    @property
    def first_array(self) -> I32:
        return np.frombuffer(self.first, INT32, len(self.first) // 4)

    @property
    def count_array(self) -> I32:
        return np.frombuffer(self.count, INT32, len(self.count) // 4)

    @property
    def over_first_array(self) -> I32:
        return np.frombuffer(self.over_first, INT32, len(self.over_first) // 4)

    @property
    def over_count_array(self) -> I32:
        return np.frombuffer(self.over_count, INT32, len(self.over_count) // 4)

    @property
    def over_state_array(self) -> I32:
        return np.frombuffer(self.over_state, INT32, len(self.over_state) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_id: str,
        command_id: str,
        spec: bytes,
        first: Values,
        count: Values,
        over_first: Values | None = None,
        over_count: Values | None = None,
        over_state: Values | None = None,
        reason: str = "",
        data: str = "",
        actor: Actor | None = None,
    ) -> Self:
        return cls(
            job_id=job_id,
            command_id=command_id,
            spec=spec,
            first=pack_ints(first),
            count=pack_ints(count),
            over_first=b"" if over_first is None else pack_ints(over_first),
            over_count=b"" if over_count is None else pack_ints(over_count),
            over_state=b"" if over_state is None else pack_ints(over_state),
            reason=reason,
            data=data,
            actor=actor,
        )


class JobStopRequested(InstancesEvent, frozen=True, kw_only=True):
    """A user asks for the end of a job, or of some of its instances. Answered by CommandAnswered."""

    topic: ClassVar[str] = "paceline.jobs"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"first": INT32, "count": INT32}

    job_id: str
    """The job."""

    command_id: str
    """Made by the client; a repeat has the same."""

    first: bytes = b""
    """First instance of each range that the command is about. Empty: all instances. Column of int32."""

    count: bytes = b""
    """Instances of each range. Column of int32."""

    expected_version: int = 0
    """The version that the job must have; another one is refused. 0: whatever it has."""

    reason: str = ""
    """Why, in the words of the user."""

    data: str = ""
    """Whatever the user wants kept with the command."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""

    @property
    def first_array(self) -> I32:
        return np.frombuffer(self.first, INT32, len(self.first) // 4)

    @property
    def count_array(self) -> I32:
        return np.frombuffer(self.count, INT32, len(self.count) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_id: str,
        command_id: str,
        first: Values | None = None,
        count: Values | None = None,
        expected_version: int = 0,
        reason: str = "",
        data: str = "",
        actor: Actor | None = None,
    ) -> Self:
        return cls(
            job_id=job_id,
            command_id=command_id,
            first=b"" if first is None else pack_ints(first),
            count=b"" if count is None else pack_ints(count),
            expected_version=expected_version,
            reason=reason,
            data=data,
            actor=actor,
        )


class JobSubmitted(Event, frozen=True, kw_only=True):
    """A user submits a job. The owner, lifecycle, answers with JobAccepted or JobRejected; the same id with the same
    content again is answered as a repeat.
    """

    topic: ClassVar[str] = "paceline.jobs"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "override_first": INT32,
        "override_count": INT32,
        "override": INT32,
    }

    job_id: str
    """Made by the client, for this job alone: 1 to 128 characters of a-z, 0-9, dot, dash, underscore. It may return
    once a job that ended is forgotten.
    """

    pool: str
    """Path of the pool, a leaf: /maps/tiles."""

    kind: str = "batch"
    """batch, stateless, stateful or daemon."""

    instances: int = 1
    """Number of tasks, 1 to 100,000; 0 of a daemon, which has one on every host that matches."""

    command: tuple[str, ...] = ()
    """Program and arguments, run without a shell."""

    env: dict[str, str] = {}
    """Environment of the process."""

    resources: dict[str, int] = msgspec.field(default_factory=lambda: {"cpu": 100, "memory": 64})
    """What one task needs. By name of the resource: thousandths of CPUs and devices, MiB of sizes; what is left out is
    0.
    """

    ports: tuple[str, ...] = ()
    """Names of the ports that one task needs; numbers are chosen at placement."""

    port_numbers: dict[str, int] = {}
    """Numbers of those of the ports that must have a certain one, by name."""

    volumes: tuple[str, ...] = ()
    """Names of the folders that the agent keeps for each task between its runs; for stateful jobs."""

    secrets: tuple[Secret, ...] = ()
    """The secrets that its runs get as files."""

    open_files: int = 0
    """How many files and connections a run may have open; 0: as many as the agent was started with."""

    isolation: Isolation | None = None
    """What keeps its runs apart; null: nothing but their folders."""

    priority: int = 0
    """Higher is admitted first within a pool."""

    preemptible: bool = True
    """Whether tasks may be asked to leave; if not, they are held within the reservation of the pool."""

    revocable: bool = False
    """Whether tasks run on CPU that others have reserved and don't use: they may be ended at any time, and are queued
    again.
    """

    controller: bool = False
    """Whether instance 0 is the controller of the job: a gang of one of its own."""

    on_controller_end: str = "end"
    """end: the job ends with its controller; wait: when all its tasks have ended. Either way with the outcome of the
    controller.
    """

    on_preempt: str = "requeue"
    """What becomes of a task that is preempted: requeue or fail."""

    gang_min: int = 0
    """Instances 0 to gang_min - 1 are one gang; 0 and 1: no gang."""

    retries_max: int = 0
    """How often a failed task of a batch job is run again."""

    retries_system: int = 10
    """How often a task of a batch job is run again that its host could not start or keep."""

    max_runtime_ms: int = 0
    """A run of a batch job that has been available for so long is stopped, and its task is not run again; 0: it may
    run for ever.
    """

    max_running: int = 0
    """So many tasks of a batch job are queued or run at a time; 0: all."""

    start_deadline_ms: int = 600000
    """A run that is not ready so long after its order is stopped, and has failed. Of a simulated job it begins when
    ready_ms has passed.
    """

    constraints: tuple[Constraint, ...] = ()
    """Conditions on the attributes of a host."""

    strategy: str = "pack"
    """pack: fill hosts; spread: one after another over hosts."""

    max_unavailable: int | None = None
    """SLA of a service: how many instances may be unavailable on purpose; null: no SLA."""

    update: UpdatePolicy | None = None
    """How updates go through its instances; null: all at once."""

    health: HealthCheck | None = None
    """The health check of a run; null: a run is available once it has started."""

    stop_signal: str = "TERM"
    """The signal that asks a run to end: TERM, INT, QUIT, HUP, USR1, USR2, WINCH or KILL."""

    stop_grace_ms: int = 10000
    """Time between the stop signal and the kill."""

    on_silence: str = "keep"
    """What the agent does when it has lost the cell: keep, or stop_after stop_after_ms."""

    stop_after_ms: int = 0
    """For on_silence stop_after: how long the agent waits."""

    description: str = ""
    """What the job is for, in the words of the user."""

    labels: dict[str, str] = {}
    """Free labels."""

    owner: str = ""
    """Who submits."""

    simulated: Simulated | None = None
    """How simulated agents play the tasks."""

    overrides: tuple[TaskOverride, ...] = ()
    """What some instances have instead, each content once."""

    override_first: bytes = b""
    """First instance of each range that has an override; no instance is in two. Column of int32."""

    override_count: bytes = b""
    """Instances of each range. Column of int32."""

    override: bytes = b""
    """Index into overrides of each range. Column of int32."""

    chunks: tuple[OverrideChunk, ...] = ()
    """Further overrides, which were uploaded before; no instance has two."""

    spec_hash: bytes = b""
    """Hash of the spec as the client sent it; equal means a repeat. Empty: the owner hashes the record."""

    rules: PlacementRules | None = None
    """What its tasks ask of hosts beside conditions; null: nothing."""

    sla: SlaPolicy | None = None
    """The rest of its SLA; null: `max_unavailable` alone says it."""

    run_token: bool = False
    """Whether each run gets a token of its own, with which it may read and grow its own job."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""

    @property
    def override_first_array(self) -> I32:
        return np.frombuffer(self.override_first, INT32, len(self.override_first) // 4)

    @property
    def override_count_array(self) -> I32:
        return np.frombuffer(self.override_count, INT32, len(self.override_count) // 4)

    @property
    def override_array(self) -> I32:
        return np.frombuffer(self.override, INT32, len(self.override) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_id: str,
        pool: str,
        kind: str = "batch",
        instances: int = 1,
        command: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        resources: dict[str, int] | None = None,
        ports: tuple[str, ...] = (),
        port_numbers: dict[str, int] | None = None,
        volumes: tuple[str, ...] = (),
        secrets: tuple[Secret, ...] = (),
        open_files: int = 0,
        isolation: Isolation | None = None,
        priority: int = 0,
        preemptible: bool = True,
        revocable: bool = False,
        controller: bool = False,
        on_controller_end: str = "end",
        on_preempt: str = "requeue",
        gang_min: int = 0,
        retries_max: int = 0,
        retries_system: int = 10,
        max_runtime_ms: int = 0,
        max_running: int = 0,
        start_deadline_ms: int = 600000,
        constraints: tuple[Constraint, ...] = (),
        strategy: str = "pack",
        max_unavailable: int | None = None,
        update: UpdatePolicy | None = None,
        health: HealthCheck | None = None,
        stop_signal: str = "TERM",
        stop_grace_ms: int = 10000,
        on_silence: str = "keep",
        stop_after_ms: int = 0,
        description: str = "",
        labels: dict[str, str] | None = None,
        owner: str = "",
        simulated: Simulated | None = None,
        overrides: tuple[TaskOverride, ...] = (),
        override_first: Values | None = None,
        override_count: Values | None = None,
        override: Values | None = None,
        chunks: tuple[OverrideChunk, ...] = (),
        spec_hash: bytes = b"",
        rules: PlacementRules | None = None,
        sla: SlaPolicy | None = None,
        run_token: bool = False,
        actor: Actor | None = None,
    ) -> Self:
        return cls(
            job_id=job_id,
            pool=pool,
            kind=kind,
            instances=instances,
            command=command,
            env={} if env is None else env,
            resources={"cpu": 100, "memory": 64} if resources is None else resources,
            ports=ports,
            port_numbers={} if port_numbers is None else port_numbers,
            volumes=volumes,
            secrets=secrets,
            open_files=open_files,
            isolation=isolation,
            priority=priority,
            preemptible=preemptible,
            revocable=revocable,
            controller=controller,
            on_controller_end=on_controller_end,
            on_preempt=on_preempt,
            gang_min=gang_min,
            retries_max=retries_max,
            retries_system=retries_system,
            max_runtime_ms=max_runtime_ms,
            max_running=max_running,
            start_deadline_ms=start_deadline_ms,
            constraints=constraints,
            strategy=strategy,
            max_unavailable=max_unavailable,
            update=update,
            health=health,
            stop_signal=stop_signal,
            stop_grace_ms=stop_grace_ms,
            on_silence=on_silence,
            stop_after_ms=stop_after_ms,
            description=description,
            labels={} if labels is None else labels,
            owner=owner,
            simulated=simulated,
            overrides=overrides,
            override_first=b"" if override_first is None else pack_ints(override_first),
            override_count=b"" if override_count is None else pack_ints(override_count),
            override=b"" if override is None else pack_ints(override),
            chunks=chunks,
            spec_hash=spec_hash,
            rules=rules,
            sla=sla,
            run_token=run_token,
            actor=actor,
        )


class JobUpdateRequested(Event, frozen=True, kw_only=True):
    """A user gives a job another specification. Answered by CommandAnswered; what is done then is an update, from
    UpdateStarted to UpdateEnded.
    """

    topic: ClassVar[str] = "paceline.jobs"

    job_id: str
    """The job."""

    command_id: str
    """Made by the client; a repeat has the same."""

    spec: bytes
    """The new specification, whole: an encoded JobSubmitted of this job."""

    expected_version: int = 0
    """The version that the job must have; another one is refused. 0: whatever it has."""

    reason: str = ""
    """Why, in the words of the user."""

    data: str = ""
    """Whatever the user wants kept with the command."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class OverridesUploaded(Event, frozen=True, kw_only=True):
    """Overrides of a job that are too many for its JobSubmitted, which stands later in the log and names this record.
    It can be named for an hour.
    """

    topic: ClassVar[str] = "paceline.jobs"

    content: bytes
    """The overrides, compressed with zlib: an encoded JobSubmitted of which nothing but its overrides counts. Its name
    is the BLAKE2b-256 of these bytes.
    """

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class SlaGroupDefined(Event, frozen=True, kw_only=True):
    """A budget that several jobs share, or its end. Answered by CommandAnswered, with sla-group: and its name in place
    of a job.
    """

    topic: ClassVar[str] = "paceline.jobs"

    group: str
    """Its name."""

    command_id: str
    """Made by the client."""

    max_unavailable: int | None = None
    """How many of the wanted instances may be unavailable on purpose; null: no such bound."""

    max_unavailable_percent: int | None = None
    """The same in percent of them, rounded down, at least 1 where it isn't 0."""

    min_available: int | None = None
    """How many must stay available; null: no such bound."""

    min_available_percent: int | None = None
    """The same in percent of them, rounded up."""

    remove: bool = False
    """Whether there is no such budget any more."""

    reason: str = ""
    """Why, in the words of the operator."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class VolumeRemovalRequested(Event, frozen=True, kw_only=True):
    """A user asks for the end of a volume, with all that is in it. Answered by CommandAnswered."""

    topic: ClassVar[str] = "paceline.jobs"

    job_id: str
    """The job."""

    command_id: str
    """Made by the client; a repeat has the same."""

    host_id: str
    """The host that has it."""

    instance: int
    """The instance of the job that has it."""

    name: str
    """Its name in the job."""

    created_ms: int
    """When the agent created it, by the clock of the host; tells it from an earlier one of that name."""

    reason: str = ""
    """Why, in the words of the user."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


ALL: tuple[type[Event], ...] = (
    ImagePrefetchRequested,
    JobActionRequested,
    JobPriorityRequested,
    JobReopenRequested,
    JobStopRequested,
    JobSubmitted,
    JobUpdateRequested,
    OverridesUploaded,
    SlaGroupDefined,
    VolumeRemovalRequested,
)
