"""The records of `schemas/lifecycle`. Written by `python -m tools.records`; do not edit."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from events.columns import I32, I64, INT32, INT64, Values, pack_ints, pack_longs, pack_unless
from events.records.base import Event, InstancesEvent, ItemsEvent, RangesEvent
from events.records.parts import Cause, SlaPolicy, TaskShape, UpdatePolicy


class CommandAnswered(Event, frozen=True, kw_only=True):
    """The answer to a command about a job, or to a repeat."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"jobs_offset": "paceline.jobs"}

    job_id: str
    """The job."""

    jobs_offset: int
    """Where the command stands in the topic of jobs."""

    command_id: str
    """The id that the client made."""

    code: str
    """DONE, REPEATED, NOT_FOUND, ALREADY_ENDED or another reason code."""

    message: str = ""
    """One sentence."""

    version: int = 0
    """The version that the job has after it; 0: the command makes none."""

    update: int = 0
    """The update that the command began or was about; 0: none."""


class DisruptionAsked(ItemsEvent, frozen=True, kw_only=True):
    """Instances that lifecycle wants to disturb, for the verdict of sla."""

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "instance": INT32,
        "run": INT32,
        "since": INT64,
        "why": INT32,
        "unit": INT32,
        "led_by": INT32,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"causes": "led_by"}

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0. Column of int32."""

    run: bytes
    """Number of the run, from 1. Column of int32."""

    since: bytes = b""
    """Second of the first planned cause of the run: asks that are older go first. Empty: that of the round. Column of
    int64.
    """

    why: bytes = b""
    """The strongest cause (RunCause). Empty: 0, not said. Column of int32."""

    unit: bytes = b""
    """What leaves with it, whole or not at all. 0: it alone; -1: its gang; N above 0: what is bound to the host N-1 of
    host_ids. Column of int32.
    """

    host_ids: tuple[str, ...] = ()
    """The hosts that the column unit names."""

    causes: tuple[Cause, ...] = ()
    """What the column led_by names."""

    led_by: bytes = b""
    """Index into causes: the HostMaintenanceChanged by which a run is to leave its host; -1: a record that names the
    run. Empty: -1 for all. Column of int32.
    """

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def instance_array(self) -> I32:
        return np.frombuffer(self.instance, INT32, len(self.instance) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @property
    def since_array(self) -> I64:
        return np.frombuffer(self.since, INT64, len(self.since) // 8)

    @property
    def why_array(self) -> I32:
        return np.frombuffer(self.why, INT32, len(self.why) // 4)

    @property
    def unit_array(self) -> I32:
        return np.frombuffer(self.unit, INT32, len(self.unit) // 4)

    @property
    def led_by_array(self) -> I32:
        if self.led_by:
            return np.frombuffer(self.led_by, INT32, len(self.led_by) // 4)
        return np.full(len(self.job) // 4, -1, INT32)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        job: Values,
        instance: Values,
        run: Values,
        since: Values | None = None,
        why: Values | None = None,
        unit: Values | None = None,
        host_ids: tuple[str, ...] = (),
        causes: tuple[Cause, ...] = (),
        led_by: Values | None = None,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            run=pack_ints(run),
            since=b"" if since is None else pack_longs(since),
            why=b"" if why is None else pack_ints(why),
            unit=b"" if unit is None else pack_ints(unit),
            host_ids=host_ids,
            causes=causes,
            led_by=b"" if led_by is None else pack_unless(led_by, -1, INT32),
        )


class DisruptionWithdrawn(ItemsEvent, frozen=True, kw_only=True):
    """Disruptions that are no longer wanted."""

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"job": INT32, "instance": INT32, "run": INT32}

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0. Column of int32."""

    run: bytes
    """Number of the run, from 1. Column of int32."""

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def instance_array(self) -> I32:
        return np.frombuffer(self.instance, INT32, len(self.instance) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        job: Values,
        instance: Values,
        run: Values,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            run=pack_ints(run),
        )


class GangsQueued(RangesEvent, frozen=True, kw_only=True):
    """Gangs that wait for admission, or, where admission is kept, for a place."""

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "first": INT32,
        "count": INT32,
        "run": INT32,
        "gang": INT32,
        "admitted": INT32,
        "shape": INT32,
        "pin": INT32,
        "avoid": INT32,
    }

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    first: bytes
    """First instance of the range. Column of int32."""

    count: bytes
    """Instances in the range. Column of int32."""

    run: bytes
    """The run that each instance of the range is at. Column of int32."""

    gang: bytes
    """1: the range is one gang, whole or not at all; 0: each instance is a gang of one. Column of int32."""

    admitted: bytes
    """1: the admission of the last run is kept. Column of int32."""

    shapes: tuple[TaskShape, ...] = ()
    """What tasks ask that ask something else than before, each shape once."""

    shape: bytes = b""
    """Index into shapes of what each task of the range asks from now on; -1: what it asked before. Empty: -1 for all.
    Column of int32.
    """

    host_ids: tuple[str, ...] = ()
    """The hosts named by the columns pin and avoid."""

    pin: bytes = b""
    """Index into host_ids of the only host that the instances of the range may run on; -1: any that matches. Empty:
    none is bound to a host. Column of int32.
    """

    avoid: bytes = b""
    """Index into host_ids of a host that couldn't start the instances of the range: another one that has room goes
    first; -1: none. Empty: none for all. Column of int32.
    """

    timed: bool = False
    """Whether it is counted for how long the tasks of services among them wait for a place. No release before 0.4.0
    counts it.
    """

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def first_array(self) -> I32:
        return np.frombuffer(self.first, INT32, len(self.first) // 4)

    @property
    def count_array(self) -> I32:
        return np.frombuffer(self.count, INT32, len(self.count) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @property
    def gang_array(self) -> I32:
        return np.frombuffer(self.gang, INT32, len(self.gang) // 4)

    @property
    def admitted_array(self) -> I32:
        return np.frombuffer(self.admitted, INT32, len(self.admitted) // 4)

    @property
    def shape_array(self) -> I32:
        if self.shape:
            return np.frombuffer(self.shape, INT32, len(self.shape) // 4)
        return np.full(len(self.job) // 4, -1, INT32)

    @property
    def pin_array(self) -> I32:
        if self.pin:
            return np.frombuffer(self.pin, INT32, len(self.pin) // 4)
        return np.full(len(self.job) // 4, -1, INT32)

    @property
    def avoid_array(self) -> I32:
        if self.avoid:
            return np.frombuffer(self.avoid, INT32, len(self.avoid) // 4)
        return np.full(len(self.job) // 4, -1, INT32)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        job: Values,
        first: Values,
        count: Values,
        run: Values,
        gang: Values,
        admitted: Values,
        shapes: tuple[TaskShape, ...] = (),
        shape: Values | None = None,
        host_ids: tuple[str, ...] = (),
        pin: Values | None = None,
        avoid: Values | None = None,
        timed: bool = False,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            first=pack_ints(first),
            count=pack_ints(count),
            run=pack_ints(run),
            gang=pack_ints(gang),
            admitted=pack_ints(admitted),
            shapes=shapes,
            shape=b"" if shape is None else pack_unless(shape, -1, INT32),
            host_ids=host_ids,
            pin=b"" if pin is None else pack_unless(pin, -1, INT32),
            avoid=b"" if avoid is None else pack_unless(avoid, -1, INT32),
            timed=timed,
        )


class HostReconciled(Event, frozen=True, kw_only=True):
    """What runs on a host that connected is settled."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    host_id: str
    """The host."""

    session: int
    """Number of the connection of the agent of that host, growing."""

    kept: int
    """Runs that go on."""

    ended: int
    """Runs that were found ended."""

    stopped: int
    """Runs that nobody wants, asked to stop."""

    cause: Cause | None = None
    """The HostInventory that is settled."""


class HostSuspected(Event, frozen=True, kw_only=True):
    """Runs on a host ended in a way that points to the host. Placement answers with HostAvoided or HostTrusted."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    host_id: str
    """The host."""

    code: str
    """FAILS_AT_ONCE: runs of several jobs failed there at once, and none went well; STOP_NOT_OBEYED: a run is still
    there after its stop deadline and a kill, as the host itself says.
    """

    runs: int
    """How many runs that is."""

    jobs: int
    """Of how many jobs."""

    job_id: str = ""
    """The job of the last of them; empty in records of 0.3.0."""

    instance: int = 0
    """Its task: the instance of the job, from 0."""

    run: int = 0
    """The number of the run, from 1."""

    within_ms: int
    """Within which time; 0: it was one moment."""

    cause: Cause | None = None
    """The RunsEnded or RunsReported of the last of them."""


class ImagePrefetchOrdered(Event, frozen=True, kw_only=True):
    """Agents pull an image, at once or when they connect, for runs that may come."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job that it is for."""

    image: str
    """Name of the image, as the user wrote it."""

    image_digest: str
    """What the name stood for when this was appended: sha256:HEX."""

    host_ids: tuple[str, ...]
    """The hosts; empty: all that run containers."""

    cause: Cause | None = None
    """The command of a user, or the update, that led to it."""


class InstancesChanged(InstancesEvent, frozen=True, kw_only=True):
    """Instances of a job were added or removed. Those that are removed have no run: it was ended before. Members of a
    gang stay.
    """

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"first": INT32, "count": INT32, "wanted": INT32, "shape": INT32}

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    first: bytes
    """First instance of the range; no instance is in two. Column of int32."""

    count: bytes
    """Instances in the range. Column of int32."""

    wanted: bytes
    """1: the instances of the range are added, none was there; 0: they are removed. Column of int32."""

    shape: bytes
    """Index into shapes of what the instances of the range ask, where they are added. Column of int32."""

    shapes: tuple[TaskShape, ...] = ()
    """What instances that are added ask, each shape once."""

    instances: int
    """The highest instance that the job has now, plus 1; 0: it has none."""

    first_run: int = 1
    """The number of the first run of the instances that are added: above all runs of those that were removed."""

    host_ids: tuple[str, ...] = ()
    """Of a daemon: the hosts of the instances that are added, in their order."""

    waits: bool = False
    """Whether the instances that are added wait for their first run until the job has room for them (max_running).
    """

    cause: Cause | None = None
    """What the update went on for; of a daemon the MatchingHostsChanged; of instances that leave, what they leave for.
    """

    surplus: int = 0
    """The serial of the surplus that the instances belong to that are added; 0: they are wanted."""

    adopted: int = 0
    """So many of the surplus instances with the lowest numbers are wanted from now on."""

    @property
    def first_array(self) -> I32:
        return np.frombuffer(self.first, INT32, len(self.first) // 4)

    @property
    def count_array(self) -> I32:
        return np.frombuffer(self.count, INT32, len(self.count) // 4)

    @property
    def wanted_array(self) -> I32:
        return np.frombuffer(self.wanted, INT32, len(self.wanted) // 4)

    @property
    def shape_array(self) -> I32:
        return np.frombuffer(self.shape, INT32, len(self.shape) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_id: str,
        first: Values,
        count: Values,
        wanted: Values,
        shape: Values,
        shapes: tuple[TaskShape, ...] = (),
        instances: int,
        first_run: int = 1,
        host_ids: tuple[str, ...] = (),
        waits: bool = False,
        cause: Cause | None = None,
        surplus: int = 0,
        adopted: int = 0,
    ) -> Self:
        return cls(
            job_id=job_id,
            first=pack_ints(first),
            count=pack_ints(count),
            wanted=pack_ints(wanted),
            shape=pack_ints(shape),
            shapes=shapes,
            instances=instances,
            first_run=first_run,
            host_ids=host_ids,
            waits=waits,
            cause=cause,
            surplus=surplus,
            adopted=adopted,
        )


class InstancesReturned(InstancesEvent, frozen=True, kw_only=True):
    """Instances that an update had taken and gives back: they go on as they are until it takes them again."""

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"first": INT32, "count": INT32}

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    number: int
    """Number of the update, from 1 for each job."""

    first: bytes
    """First instance of each range. Column of int32."""

    count: bytes
    """Instances of each range. Column of int32."""

    cause: Cause | None = None
    """What changed last in the update, or of its instances."""

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
        number: int,
        first: Values,
        count: Values,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            job_id=job_id,
            number=number,
            first=pack_ints(first),
            count=pack_ints(count),
            cause=cause,
        )


class InstancesTaken(InstancesEvent, frozen=True, kw_only=True):
    """Instances that an update takes: their next run is of its version."""

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"first": INT32, "count": INT32}

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    number: int
    """Number of the update, from 1 for each job."""

    first: bytes
    """First instance of each range. Column of int32."""

    count: bytes
    """Instances of each range. Column of int32."""

    cause: Cause | None = None
    """What changed last in the update, or of its instances."""

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
        number: int,
        first: Values,
        count: Values,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            job_id=job_id,
            number=number,
            first=pack_ints(first),
            count=pack_ints(count),
            cause=cause,
        )


class InstancesWanted(InstancesEvent, frozen=True, kw_only=True):
    """Instances of a job that shall run from now on, or shall not. Until one is named, it shall run. Those that shall
    and have ended, of which a new run begins, wait for it.
    """

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"first": INT32, "count": INT32}

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    wanted: bool
    """Whether they shall run."""

    first: bytes = b""
    """First instance of each range. Empty: all instances. Column of int32."""

    count: bytes = b""
    """Instances of each range. Column of int32."""

    cause: Cause | None = None
    """The command of a user, or the update, that changed it."""

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
        wanted: bool,
        first: Values | None = None,
        count: Values | None = None,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            job_id=job_id,
            wanted=wanted,
            first=b"" if first is None else pack_ints(first),
            count=b"" if count is None else pack_ints(count),
            cause=cause,
        )


class JobAccepted(InstancesEvent, frozen=True, kw_only=True):
    """A job was accepted; what the other machines need of it."""

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"first": INT32, "count": INT32, "shape": INT32}

    cause_fields: ClassVar[Mapping[str, str]] = {"jobs_offset": "paceline.jobs"}

    job_id: str
    """The job."""

    jobs_offset: int
    """Where JobSubmitted stands in the topic of jobs."""

    pool: str
    """Its pool."""

    kind: str
    """batch, stateless, stateful or daemon."""

    instances: int
    """Number of tasks that it has at once; 0: they are added later, by hosts or by the update that creates the job.
    """

    shapes: tuple[TaskShape, ...]
    """What its tasks ask, each shape once; the first is that of all tasks that no range names."""

    priority: int = 0
    """Higher is admitted first."""

    preemptible: bool = True
    """Whether tasks may be asked to leave."""

    controller: bool = False
    """Whether instance 0 is the controller of the job: a gang of one of its own."""

    gang_min: int = 0
    """Size of the gang of the first instances; 0: none."""

    max_running: int = 0
    """So many tasks are queued or run at a time, the others wait before their first run; 0: all."""

    max_unavailable: int | None = None
    """SLA; null: none."""

    first_run: int = 1
    """The number of the first run of its tasks: 1, or above all runs of an earlier job of this id that was forgotten.
    """

    first: bytes = b""
    """First instance of each range of tasks that have another shape than the first. Column of int32."""

    count: bytes = b""
    """Tasks of each range. Column of int32."""

    shape: bytes = b""
    """Index of the shape of each range in shapes. Empty: all tasks have the first shape. Column of int32."""

    labels: dict[str, str] = {}
    """Labels of the job."""

    sla: SlaPolicy | None = None
    """The rest of its SLA; null: `max_unavailable` alone says it."""

    longest_ms: int = 0
    """How long a run of batch work that isn't to be disturbed may last, its start and stop included; -1: nobody knows;
    0: it may be disturbed.
    """

    @property
    def first_array(self) -> I32:
        return np.frombuffer(self.first, INT32, len(self.first) // 4)

    @property
    def count_array(self) -> I32:
        return np.frombuffer(self.count, INT32, len(self.count) // 4)

    @property
    def shape_array(self) -> I32:
        return np.frombuffer(self.shape, INT32, len(self.shape) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_id: str,
        jobs_offset: int,
        pool: str,
        kind: str,
        instances: int,
        shapes: tuple[TaskShape, ...],
        priority: int = 0,
        preemptible: bool = True,
        controller: bool = False,
        gang_min: int = 0,
        max_running: int = 0,
        max_unavailable: int | None = None,
        first_run: int = 1,
        first: Values | None = None,
        count: Values | None = None,
        shape: Values | None = None,
        labels: dict[str, str] | None = None,
        sla: SlaPolicy | None = None,
        longest_ms: int = 0,
    ) -> Self:
        return cls(
            job_id=job_id,
            jobs_offset=jobs_offset,
            pool=pool,
            kind=kind,
            instances=instances,
            shapes=shapes,
            priority=priority,
            preemptible=preemptible,
            controller=controller,
            gang_min=gang_min,
            max_running=max_running,
            max_unavailable=max_unavailable,
            first_run=first_run,
            first=b"" if first is None else pack_ints(first),
            count=b"" if count is None else pack_ints(count),
            shape=b"" if shape is None else pack_ints(shape),
            labels={} if labels is None else labels,
            sla=sla,
            longest_ms=longest_ms,
        )


class JobChanged(Event, frozen=True, kw_only=True):
    """The state of a job changed."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    state: str
    """INITIALIZED, PENDING, RUNNING, SUCCEEDED, FAILED, KILLING or KILLED."""

    succeeded: int = 0
    """Tasks that succeeded."""

    failed: int = 0
    """Tasks that failed for good."""

    killed: int = 0
    """Tasks that were stopped."""

    kept: bool = False
    """Whether a job that has ended can be started again: a service that was stopped, until it is deleted. Other jobs
    that have ended are over.
    """

    cause: Cause | None = None
    """The last decision about its tasks before it, or the answer to the command to stop it."""


class JobHeld(Event, frozen=True, kw_only=True):
    """A job is held, or released: while it is held, what waits is not queued, and what is queued waits."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    held: bool
    """Whether it is held from now on."""

    cause: Cause | None = None
    """The command."""


class JobPriorityChanged(Event, frozen=True, kw_only=True):
    """A job has another priority: what of it waits stands elsewhere in its queue."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    priority: int
    """The new priority."""

    cause: Cause | None = None
    """The JobPriorityRequested."""


class JobRejected(Event, frozen=True, kw_only=True):
    """A job was not accepted."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"jobs_offset": "paceline.jobs"}

    job_id: str
    """The job."""

    jobs_offset: int
    """Where JobSubmitted stands."""

    code: str
    """Reason code."""

    message: str
    """The reason with its numbers, and what would change it."""

    cell: int | None = None
    """The cell to submit it to, where the code is WRONG_CELL."""


class JobReopened(InstancesEvent, frozen=True, kw_only=True):
    """A job that had ended is there again, by the JobAccepted before it: some of its tasks stay over, the others run
    again.
    """

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"first": INT32, "count": INT32, "state": INT32}

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    first: bytes
    """First instance of each range that stays over. Column of int32."""

    count: bytes
    """Instances of each range. Column of int32."""

    state: bytes
    """How these tasks have ended: 6 succeeded, 7 failed, 8 killed. Column of int32."""

    cause: Cause | None = None
    """The command."""

    @property
    def first_array(self) -> I32:
        return np.frombuffer(self.first, INT32, len(self.first) // 4)

    @property
    def count_array(self) -> I32:
        return np.frombuffer(self.count, INT32, len(self.count) // 4)

    @property
    def state_array(self) -> I32:
        return np.frombuffer(self.state, INT32, len(self.state) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_id: str,
        first: Values,
        count: Values,
        state: Values,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            job_id=job_id,
            first=pack_ints(first),
            count=pack_ints(count),
            state=pack_ints(state),
            cause=cause,
        )


class JobSlaChanged(InstancesEvent, frozen=True, kw_only=True):
    """A job has another SLA. Where it had none, sla knows nothing of its instances: the columns say all that there
    are.
    """

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "first": INT32,
        "count": INT32,
        "run": INT32,
        "wanted": INT32,
        "host_session": INT64,
        "host": INT32,
        "since": INT64,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    max_unavailable: int | None = None
    """How many instances may be unavailable on purpose; null, as `sla`: it has no SLA any more."""

    instances: int = 0
    """The highest instance that the job has, plus 1; 0 where it had an SLA."""

    first: bytes = b""
    """First instance of each range of instances that there are; empty where it had an SLA. Column of int32."""

    count: bytes = b""
    """Instances of each range. Column of int32."""

    run: bytes = b""
    """The run by which each of them is available; 0: it isn't. Column of int32."""

    wanted: bytes = b""
    """1: they shall run; 0: they shall not; 2: they are of a daemon and have left with their hosts, so nobody misses
    them. Column of int32.
    """

    cause: Cause | None = None
    """The command of a user, or the update, that changed it."""

    sla: SlaPolicy | None = None
    """The rest of its SLA; null: `max_unavailable` alone says it."""

    kind: str = ""
    """That of the job, where it had none; empty: it isn't known."""

    priority: int = 0
    """That of the job, where it had none."""

    host_ids: tuple[str, ...] = ()
    """The hosts named by the column host."""

    host_session: bytes = b""
    """Session of each host of host_ids. Column of int64."""

    host: bytes = b""
    """Where the run of each of them is: index into host_ids; -1: it has no host. Column of int32."""

    since: bytes = b""
    """The second since 1970 since when each of them is available, 0: it isn't; empty: the SLA asks for no time to be
    healthy. Column of int64.
    """

    @property
    def first_array(self) -> I32:
        return np.frombuffer(self.first, INT32, len(self.first) // 4)

    @property
    def count_array(self) -> I32:
        return np.frombuffer(self.count, INT32, len(self.count) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @property
    def wanted_array(self) -> I32:
        return np.frombuffer(self.wanted, INT32, len(self.wanted) // 4)

    @property
    def host_session_array(self) -> I64:
        return np.frombuffer(self.host_session, INT64, len(self.host_session) // 8)

    @property
    def host_array(self) -> I32:
        return np.frombuffer(self.host, INT32, len(self.host) // 4)

    @property
    def since_array(self) -> I64:
        return np.frombuffer(self.since, INT64, len(self.since) // 8)

    @classmethod
    def pack(
        cls,
        *,
        job_id: str,
        max_unavailable: int | None = None,
        instances: int = 0,
        first: Values | None = None,
        count: Values | None = None,
        run: Values | None = None,
        wanted: Values | None = None,
        cause: Cause | None = None,
        sla: SlaPolicy | None = None,
        kind: str = "",
        priority: int = 0,
        host_ids: tuple[str, ...] = (),
        host_session: Values | None = None,
        host: Values | None = None,
        since: Values | None = None,
    ) -> Self:
        return cls(
            job_id=job_id,
            max_unavailable=max_unavailable,
            instances=instances,
            first=b"" if first is None else pack_ints(first),
            count=b"" if count is None else pack_ints(count),
            run=b"" if run is None else pack_ints(run),
            wanted=b"" if wanted is None else pack_ints(wanted),
            cause=cause,
            sla=sla,
            kind=kind,
            priority=priority,
            host_ids=host_ids,
            host_session=b"" if host_session is None else pack_longs(host_session),
            host=b"" if host is None else pack_ints(host),
            since=b"" if since is None else pack_longs(since),
        )


class JobsForgotten(Event, frozen=True, kw_only=True):
    """Ended jobs of which nothing is kept any more: their ids may be submitted again, and the views drop them."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_ids: tuple[str, ...] = ()
    """The jobs, as the first releases named them."""

    digests: bytes = b""
    """The jobs: of each id the first 16 bytes of its BLAKE2b-256, one after another."""

    cause: Cause | None = None
    """The deadline that passed, or, where more ended jobs are kept than the cell keeps, the last JobChanged that ended
    one.
    """


class OverridesDropped(Event, frozen=True, kw_only=True):
    """Uploaded overrides can be named no more by what comes; jobs that have them keep them."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    digests: tuple[bytes, ...]
    """Of each OverridesUploaded the BLAKE2b-256 of its content."""

    cause: Cause | None = None
    """The deadline that passed."""


class PreemptionAnswered(ItemsEvent, frozen=True, kw_only=True):
    """The only answer to a PreemptionsOrdered. Sla is heard on all its runs before any is stopped."""

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"job": INT32, "instance": INT32, "run": INT32}

    cause_fields: ClassVar[Mapping[str, str]] = {"order": ""}

    number: int
    """The number of the order."""

    order: Cause
    """The position of the order."""

    code: str
    """Reason code: LEFT all runs of the order are over; DEFERRED sla refused the runs named, and no run of the order
    leaves; VOID none of its runs could be preempted: each was over, or in an earlier order.
    """

    victims: int
    """How many runs of the order could be preempted when it came."""

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0. Column of int32."""

    run: bytes
    """Number of the run, from 1. Column of int32."""

    sla_code: str = ""
    """Of DEFERRED what sla said: SLA_NEVER_ALLOWS where the order names more available runs of a job than its SLA ever
    lets go at once, else SLA_BUDGET_SPENT. Empty: not said.
    """

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def instance_array(self) -> I32:
        return np.frombuffer(self.instance, INT32, len(self.instance) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @classmethod
    def pack(
        cls,
        *,
        number: int,
        order: Cause,
        code: str,
        victims: int,
        job_ids: tuple[str, ...],
        job: Values,
        instance: Values,
        run: Values,
        sla_code: str = "",
    ) -> Self:
        return cls(
            number=number,
            order=order,
            code=code,
            victims=victims,
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            run=pack_ints(run),
            sla_code=sla_code,
        )


class RunsAvailable(ItemsEvent, frozen=True, kw_only=True):
    """Runs that were reported to be running."""

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"job": INT32, "instance": INT32, "run": INT32}

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0. Column of int32."""

    run: bytes
    """Number of the run, from 1. Column of int32."""

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def instance_array(self) -> I32:
        return np.frombuffer(self.instance, INT32, len(self.instance) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        job: Values,
        instance: Values,
        run: Values,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            run=pack_ints(run),
        )


class RunsEnded(ItemsEvent, frozen=True, kw_only=True):
    """Runs that are over: hosts and pools get back what they held."""

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "instance": INT32,
        "run": INT32,
        "outcome": INT32,
        "exit_code": INT32,
        "kept": INT32,
        "cause": INT32,
        "why": INT32,
        "next": INT32,
        "counts_as": INT32,
        "failures": INT32,
        "wait_ms": INT32,
        "hold": INT32,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"causes": "cause"}

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0. Column of int32."""

    run: bytes
    """Number of the run, from 1. Column of int32."""

    outcome: bytes
    """1 succeeded, 2 failed, 3 stopped, 4 preempted, 5 lost, 6 ended with its gang, 7 replaced by an update or a
    restart. Column of int32.
    """

    exit_code: bytes
    """Exit code; -1: none. Column of int32."""

    kept: bytes
    """1: the admission passes to the next run. Column of int32."""

    causes: tuple[Cause, ...] = ()
    """What the column cause names."""

    cause: bytes = b""
    """Index into causes: the HostLost or the HostInventory by which a run is lost, or what an instance leaves its job
    for that had nothing to stop; -1: a record that names the run. Empty: -1 for all. Column of int32.
    """

    why: bytes = b""
    """Why the run was to end, the strongest cause: 0 nothing, 1 removed, 2 stopped by the user, 3 its job ends, 4
    max_runtime, 5 unhealthy, 6 not ready in time, 7 preempted, 8 its gang, 9 drain, 10 update or restart, 11 its
    job is held, 12 its host can't start it, 13 what its host lent, 14 a forced drain, 15 better off elsewhere.
    Empty: 0 for all. Column of int32.
    """

    next: bytes = b""
    """State of the task after it: 5 waits for its next run, 6 succeeded, 7 failed, 8 killed. Empty: 5 for all. Column
    of int32.
    """

    counts_as: bytes = b""
    """0: nothing; 1: a failure of the task; 2: a failure of the host to run it. Empty: 0 for all. Column of int32.
    """

    failures: bytes = b""
    """How many failures of that kind the task has now; 0 where it doesn't count. Empty: 0 for all. Column of int32.
    """

    wait_ms: bytes = b""
    """How long it waits at least before its next run. Empty: 0 for all. Column of int32."""

    hold: bytes = b""
    """1: the room on its host is kept for its next run for two minutes. Empty: 0 for all. Column of int32."""

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def instance_array(self) -> I32:
        return np.frombuffer(self.instance, INT32, len(self.instance) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @property
    def outcome_array(self) -> I32:
        return np.frombuffer(self.outcome, INT32, len(self.outcome) // 4)

    @property
    def exit_code_array(self) -> I32:
        return np.frombuffer(self.exit_code, INT32, len(self.exit_code) // 4)

    @property
    def kept_array(self) -> I32:
        return np.frombuffer(self.kept, INT32, len(self.kept) // 4)

    @property
    def cause_array(self) -> I32:
        if self.cause:
            return np.frombuffer(self.cause, INT32, len(self.cause) // 4)
        return np.full(len(self.job) // 4, -1, INT32)

    @property
    def why_array(self) -> I32:
        if self.why:
            return np.frombuffer(self.why, INT32, len(self.why) // 4)
        return np.full(len(self.job) // 4, 0, INT32)

    @property
    def next_array(self) -> I32:
        if self.next:
            return np.frombuffer(self.next, INT32, len(self.next) // 4)
        return np.full(len(self.job) // 4, 5, INT32)

    @property
    def counts_as_array(self) -> I32:
        if self.counts_as:
            return np.frombuffer(self.counts_as, INT32, len(self.counts_as) // 4)
        return np.full(len(self.job) // 4, 0, INT32)

    @property
    def failures_array(self) -> I32:
        if self.failures:
            return np.frombuffer(self.failures, INT32, len(self.failures) // 4)
        return np.full(len(self.job) // 4, 0, INT32)

    @property
    def wait_ms_array(self) -> I32:
        if self.wait_ms:
            return np.frombuffer(self.wait_ms, INT32, len(self.wait_ms) // 4)
        return np.full(len(self.job) // 4, 0, INT32)

    @property
    def hold_array(self) -> I32:
        if self.hold:
            return np.frombuffer(self.hold, INT32, len(self.hold) // 4)
        return np.full(len(self.job) // 4, 0, INT32)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        job: Values,
        instance: Values,
        run: Values,
        outcome: Values,
        exit_code: Values,
        kept: Values,
        causes: tuple[Cause, ...] = (),
        cause: Values | None = None,
        why: Values | None = None,
        next: Values | None = None,
        counts_as: Values | None = None,
        failures: Values | None = None,
        wait_ms: Values | None = None,
        hold: Values | None = None,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            run=pack_ints(run),
            outcome=pack_ints(outcome),
            exit_code=pack_ints(exit_code),
            kept=pack_ints(kept),
            causes=causes,
            cause=b"" if cause is None else pack_unless(cause, -1, INT32),
            why=b"" if why is None else pack_unless(why, 0, INT32),
            next=b"" if next is None else pack_ints(next),
            counts_as=b"" if counts_as is None else pack_unless(counts_as, 0, INT32),
            failures=b"" if failures is None else pack_unless(failures, 0, INT32),
            wait_ms=b"" if wait_ms is None else pack_unless(wait_ms, 0, INT32),
            hold=b"" if hold is None else pack_unless(hold, 0, INT32),
        )


class RunsOrdered(ItemsEvent, frozen=True, kw_only=True):
    """Runs that agents shall start."""

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "instance": INT32,
        "run": INT32,
        "host_session": INT64,
        "host": INT32,
        "ports": INT32,
        "port_count": INT32,
        "device": INT32,
        "device_share": INT32,
        "device_mib": INT32,
        "device_count": INT32,
        "alternative": INT32,
        "version": INT32,
    }

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0. Column of int32."""

    run: bytes
    """Number of the run, from 1. Column of int32."""

    host_ids: tuple[str, ...]
    """The hosts named by the column host."""

    host_session: bytes
    """Session of each host of host_ids. Column of int64."""

    host: bytes
    """Index into host_ids. Column of int32."""

    ports: bytes = b""
    """Port numbers, for each item as many as port_count says. Column of int32."""

    port_count: bytes = b""
    """Ports of each item. Empty: nobody has ports. Column of int32."""

    device_ids: tuple[str, ...] = ()
    """The devices named by the column device, by their ids on their hosts; whole cores by core/ and their numbers.
    """

    device: bytes = b""
    """Index into device_ids, for each item as many as device_count says. Column of int32."""

    device_share: bytes = b""
    """Thousandths of each of these devices that the run has. Column of int32."""

    device_mib: bytes = b""
    """Memory of each of these devices that the run has, in MiB. Column of int32."""

    device_count: bytes = b""
    """Devices of each item. Empty: nobody has devices. Column of int32."""

    alternative: bytes = b""
    """The alternative of its rules that each item took, from 0; -1: it has none. Empty: none has any. Column of int32.
    """

    version: bytes = b""
    """Version of the job that each run is of. Empty: 1 for all. Column of int32."""

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def instance_array(self) -> I32:
        return np.frombuffer(self.instance, INT32, len(self.instance) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @property
    def host_session_array(self) -> I64:
        return np.frombuffer(self.host_session, INT64, len(self.host_session) // 8)

    @property
    def host_array(self) -> I32:
        return np.frombuffer(self.host, INT32, len(self.host) // 4)

    @property
    def ports_array(self) -> I32:
        return np.frombuffer(self.ports, INT32, len(self.ports) // 4)

    @property
    def port_count_array(self) -> I32:
        if self.port_count:
            return np.frombuffer(self.port_count, INT32, len(self.port_count) // 4)
        return np.full(len(self.job) // 4, 0, INT32)

    @property
    def device_array(self) -> I32:
        return np.frombuffer(self.device, INT32, len(self.device) // 4)

    @property
    def device_share_array(self) -> I32:
        return np.frombuffer(self.device_share, INT32, len(self.device_share) // 4)

    @property
    def device_mib_array(self) -> I32:
        return np.frombuffer(self.device_mib, INT32, len(self.device_mib) // 4)

    @property
    def device_count_array(self) -> I32:
        if self.device_count:
            return np.frombuffer(self.device_count, INT32, len(self.device_count) // 4)
        return np.full(len(self.job) // 4, 0, INT32)

    @property
    def alternative_array(self) -> I32:
        if self.alternative:
            return np.frombuffer(self.alternative, INT32, len(self.alternative) // 4)
        return np.full(len(self.job) // 4, -1, INT32)

    @property
    def version_array(self) -> I32:
        if self.version:
            return np.frombuffer(self.version, INT32, len(self.version) // 4)
        return np.full(len(self.job) // 4, 1, INT32)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        job: Values,
        instance: Values,
        run: Values,
        host_ids: tuple[str, ...],
        host_session: Values,
        host: Values,
        ports: Values | None = None,
        port_count: Values | None = None,
        device_ids: tuple[str, ...] = (),
        device: Values | None = None,
        device_share: Values | None = None,
        device_mib: Values | None = None,
        device_count: Values | None = None,
        alternative: Values | None = None,
        version: Values | None = None,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            run=pack_ints(run),
            host_ids=host_ids,
            host_session=pack_longs(host_session),
            host=pack_ints(host),
            ports=b"" if ports is None else pack_ints(ports),
            port_count=b"" if port_count is None else pack_unless(port_count, 0, INT32),
            device_ids=device_ids,
            device=b"" if device is None else pack_ints(device),
            device_share=b"" if device_share is None else pack_ints(device_share),
            device_mib=b"" if device_mib is None else pack_ints(device_mib),
            device_count=b"" if device_count is None else pack_unless(device_count, 0, INT32),
            alternative=b"" if alternative is None else pack_unless(alternative, -1, INT32),
            version=b"" if version is None else pack_unless(version, 1, INT32),
        )


class RunsOverdue(ItemsEvent, frozen=True, kw_only=True):
    """Runs that have taken longer than they may; what becomes of them is said by RunsStopping and RunsEnded."""

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"job": INT32, "instance": INT32, "run": INT32, "what": INT32}

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0. Column of int32."""

    run: bytes
    """Number of the run, from 1. Column of int32."""

    what: bytes
    """1: it has run for max_runtime; 2: it is not ready after start_deadline; 3: it has not obeyed its stop. Column of
    int32.
    """

    cause: Cause | None = None
    """The first of the deadlines that have passed."""

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def instance_array(self) -> I32:
        return np.frombuffer(self.instance, INT32, len(self.instance) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @property
    def what_array(self) -> I32:
        return np.frombuffer(self.what, INT32, len(self.what) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        job: Values,
        instance: Values,
        run: Values,
        what: Values,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            run=pack_ints(run),
            what=pack_ints(what),
            cause=cause,
        )


class RunsStopping(ItemsEvent, frozen=True, kw_only=True):
    """Runs that agents shall stop."""

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "instance": INT32,
        "run": INT32,
        "host": INT32,
        "cause": INT32,
        "why": INT32,
        "kill": INT32,
        "led_by": INT32,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"causes": "led_by"}

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0. Column of int32."""

    run: bytes
    """Number of the run, from 1. Column of int32."""

    host_ids: tuple[str, ...]
    """The hosts named by the column host."""

    host: bytes
    """Index into host_ids. Column of int32."""

    cause: bytes
    """Outcome of a run that ends by this: 3 stopped, 4 preempted, 5 lost, 6 gang, 7 replaced, 8 revoked, 9 relocated;
    2 failed. Column of int32.
    """

    why: bytes = b""
    """Why, as in RunsEnded; 0: nobody wants the run. Empty: 0 for all. Column of int32."""

    kill: bytes = b""
    """1: it hasn't obeyed, and shall be killed at once. Empty: 0 for all. Column of int32."""

    causes: tuple[Cause, ...] = ()
    """What the column led_by names."""

    led_by: bytes = b""
    """Index into causes: the HostMaintenanceChanged by which a run is to leave its host; -1: a record that names the
    run. Empty: -1 for all. Column of int32.
    """

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def instance_array(self) -> I32:
        return np.frombuffer(self.instance, INT32, len(self.instance) // 4)

    @property
    def run_array(self) -> I32:
        return np.frombuffer(self.run, INT32, len(self.run) // 4)

    @property
    def host_array(self) -> I32:
        return np.frombuffer(self.host, INT32, len(self.host) // 4)

    @property
    def cause_array(self) -> I32:
        return np.frombuffer(self.cause, INT32, len(self.cause) // 4)

    @property
    def why_array(self) -> I32:
        if self.why:
            return np.frombuffer(self.why, INT32, len(self.why) // 4)
        return np.full(len(self.job) // 4, 0, INT32)

    @property
    def kill_array(self) -> I32:
        if self.kill:
            return np.frombuffer(self.kill, INT32, len(self.kill) // 4)
        return np.full(len(self.job) // 4, 0, INT32)

    @property
    def led_by_array(self) -> I32:
        if self.led_by:
            return np.frombuffer(self.led_by, INT32, len(self.led_by) // 4)
        return np.full(len(self.job) // 4, -1, INT32)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        job: Values,
        instance: Values,
        run: Values,
        host_ids: tuple[str, ...],
        host: Values,
        cause: Values,
        why: Values | None = None,
        kill: Values | None = None,
        causes: tuple[Cause, ...] = (),
        led_by: Values | None = None,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            run=pack_ints(run),
            host_ids=host_ids,
            host=pack_ints(host),
            cause=pack_ints(cause),
            why=b"" if why is None else pack_unless(why, 0, INT32),
            kill=b"" if kill is None else pack_unless(kill, 0, INT32),
            causes=causes,
            led_by=b"" if led_by is None else pack_unless(led_by, -1, INT32),
        )


class SlaGroupSet(Event, frozen=True, kw_only=True):
    """A budget that jobs share was set or removed."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    group: str
    """Its name."""

    max_unavailable: int | None = None
    """How many of the wanted instances may be unavailable on purpose; null: no such bound."""

    max_unavailable_percent: int | None = None
    """The same in percent of them, rounded down, at least 1 where it isn't 0."""

    min_available: int | None = None
    """How many must stay available; null: no such bound."""

    min_available_percent: int | None = None
    """The same in percent of them, rounded up."""

    removed: bool = False
    """Whether it is no more."""

    cause: Cause | None = None
    """The SlaGroupDefined."""


class UpdateEnded(Event, frozen=True, kw_only=True):
    """An update is over."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    number: int
    """Number of the update, from 1 for each job."""

    state: str
    """SUCCEEDED, ROLLED_BACK, FAILED or ABORTED."""

    code: str = ""
    """Reason code: why it failed or was aborted; empty: it succeeded."""

    message: str = ""
    """One sentence."""

    cause: Cause | None = None
    """What changed last in the update; the command or the deadline that ends it."""


class UpdateImagePulled(Event, frozen=True, kw_only=True):
    """Hosts that an update waits for have pulled its image, can't, or are lost."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    number: int
    """Number of the update, from 1 for each job."""

    hosts: int
    """The hosts that it has asked, without those that are lost."""

    have: int
    """Those that have the image."""

    faults: int
    """Those that can't pull it."""

    fault: str = ""
    """What the last of these said."""

    waits: bool
    """Whether the update still waits: hosts haven't answered, and the deadline hasn't passed."""

    cause: Cause | None = None
    """The last fact of a host that counts, or the deadline that passed."""


class UpdatePaused(Event, frozen=True, kw_only=True):
    """An update was paused, or goes on."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    number: int
    """Number of the update, from 1 for each job."""

    paused: bool
    """Whether it is paused now."""

    cause: Cause | None = None
    """The command."""


class UpdateProgressed(InstancesEvent, frozen=True, kw_only=True):
    """Instances of an update that went a step further."""

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"first": INT32, "count": INT32, "step": INT32}

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    number: int
    """Number of the update, from 1 for each job."""

    first: bytes
    """First instance of each range. Column of int32."""

    count: bytes
    """Instances of each range. Column of int32."""

    step: bytes
    """Of each range: 2 being updated, 3 done, 4 failed, 5 failed since it found no place within the progress deadline,
    6 left out since the only host that it may run on is lost; 0, or 1 for one that is still to be taken: it is up
    again that an earlier update had brought down. Column of int32.
    """

    pending: int
    """Instances that are still to be taken."""

    flight: int
    """Instances that are being updated."""

    done: int
    """Instances that are done."""

    bad: int
    """Instances that have failed."""

    waits: bool = False
    """Whether the canary is done and waits to be promoted."""

    failures_kept: bool = False
    """Whether failures of instances that are done count on: they are a canary, which isn't promoted yet."""

    cause: Cause | None = None
    """What changed last in the update, or of its instances; where these were available for long enough, the deadline.
    """

    @property
    def first_array(self) -> I32:
        return np.frombuffer(self.first, INT32, len(self.first) // 4)

    @property
    def count_array(self) -> I32:
        return np.frombuffer(self.count, INT32, len(self.count) // 4)

    @property
    def step_array(self) -> I32:
        return np.frombuffer(self.step, INT32, len(self.step) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_id: str,
        number: int,
        first: Values,
        count: Values,
        step: Values,
        pending: int,
        flight: int,
        done: int,
        bad: int,
        waits: bool = False,
        failures_kept: bool = False,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            job_id=job_id,
            number=number,
            first=pack_ints(first),
            count=pack_ints(count),
            step=pack_ints(step),
            pending=pending,
            flight=flight,
            done=done,
            bad=bad,
            waits=waits,
            failures_kept=failures_kept,
            cause=cause,
        )


class UpdatePromoted(Event, frozen=True, kw_only=True):
    """The canary of an update was promoted: the other instances follow."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    number: int
    """Number of the update, from 1 for each job."""

    cause: Cause | None = None
    """The command, or the deadline that passed."""


class UpdateStarted(InstancesEvent, frozen=True, kw_only=True):
    """A job has a new version, and an update takes its instances to it."""

    topic: ClassVar[str] = "paceline.lifecycle"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"first": INT32, "count": INT32, "forgotten": INT32}

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_id: str
    """The job."""

    number: int
    """Number of the update, from 1 for each job."""

    kind: str
    """create, update, restart or roll_back."""

    from_version: int
    """The version before; 0 of create: there is none."""

    version: int
    """The new version."""

    like: int = 0
    """The earlier version that the new one is equal to: that of a restart or a roll-back; 0: none."""

    jobs_offset: int = -1
    """Where the JobUpdateRequested with the specification of the new version stands, or the JobSubmitted of create;
    -1: like names it.
    """

    spec_hash: bytes = b""
    """Hash of the new specification."""

    policy: UpdatePolicy
    """How it goes."""

    first: bytes = b""
    """For a restart: first instance of each range that is restarted. Empty: all instances. Column of int32."""

    count: bytes = b""
    """For a restart: instances of each range. Column of int32."""

    forgotten: bytes = b""
    """Versions that no run is of, and that nobody can go back to any more. Column of int32."""

    paused: bool = False
    """Whether it waits for resume."""

    added: int = 0
    """Instances to be added."""

    updated: int = 0
    """Instances to be changed."""

    removed: int = 0
    """Instances to be removed."""

    unchanged: int = 0
    """Instances that only get the number."""

    cause: Cause | None = None
    """The command, or the JobSubmitted of create; of a policy's roll-back what made the update before it fail."""

    @property
    def first_array(self) -> I32:
        return np.frombuffer(self.first, INT32, len(self.first) // 4)

    @property
    def count_array(self) -> I32:
        return np.frombuffer(self.count, INT32, len(self.count) // 4)

    @property
    def forgotten_array(self) -> I32:
        return np.frombuffer(self.forgotten, INT32, len(self.forgotten) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_id: str,
        number: int,
        kind: str,
        from_version: int,
        version: int,
        like: int = 0,
        jobs_offset: int = -1,
        spec_hash: bytes = b"",
        policy: UpdatePolicy,
        first: Values | None = None,
        count: Values | None = None,
        forgotten: Values | None = None,
        paused: bool = False,
        added: int = 0,
        updated: int = 0,
        removed: int = 0,
        unchanged: int = 0,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            job_id=job_id,
            number=number,
            kind=kind,
            from_version=from_version,
            version=version,
            like=like,
            jobs_offset=jobs_offset,
            spec_hash=spec_hash,
            policy=policy,
            first=b"" if first is None else pack_ints(first),
            count=b"" if count is None else pack_ints(count),
            forgotten=b"" if forgotten is None else pack_ints(forgotten),
            paused=paused,
            added=added,
            updated=updated,
            removed=removed,
            unchanged=unchanged,
            cause=cause,
        )


class VolumeRemovalOrdered(Event, frozen=True, kw_only=True):
    """The agent of a host removes a volume, at once or when it connects."""

    topic: ClassVar[str] = "paceline.lifecycle"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    host_id: str
    """The host."""

    job_id: str
    """The job."""

    instance: int
    """The instance of the job that has it."""

    name: str
    """Its name in the job."""

    created_ms: int
    """When the agent created it, by the clock of the host; tells it from an earlier one of that name."""

    cause: Cause | None = None
    """The command of a user, or the update, that changed it."""


ALL: tuple[type[Event], ...] = (
    CommandAnswered,
    DisruptionAsked,
    DisruptionWithdrawn,
    GangsQueued,
    HostReconciled,
    HostSuspected,
    ImagePrefetchOrdered,
    InstancesChanged,
    InstancesReturned,
    InstancesTaken,
    InstancesWanted,
    JobAccepted,
    JobChanged,
    JobHeld,
    JobPriorityChanged,
    JobRejected,
    JobReopened,
    JobSlaChanged,
    JobsForgotten,
    OverridesDropped,
    PreemptionAnswered,
    RunsAvailable,
    RunsEnded,
    RunsOrdered,
    RunsOverdue,
    RunsStopping,
    SlaGroupSet,
    UpdateEnded,
    UpdateImagePulled,
    UpdatePaused,
    UpdateProgressed,
    UpdatePromoted,
    UpdateStarted,
    VolumeRemovalOrdered,
)
