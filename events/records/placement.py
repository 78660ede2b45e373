"""The records of `schemas/placement`. Written by `python -m tools.records`; do not edit."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from events.columns import I32, I64, INT32, INT64, Values, pack_ints, pack_longs, pack_unless
from events.records.base import Event, ItemsEvent, RangesEvent
from events.records.parts import Cause, GroupRoom, HostPoolCapacity, HostPoolPolicy, NearMiss


class CapacityChanged(Event, frozen=True, kw_only=True):
    """What the cell has: its hosts together, and its licences."""

    topic: ClassVar[str] = "paceline.placement"

    cause_fields: ClassVar[Mapping[str, str]] = {"causes": ""}

    capacity: dict[str, int]
    """The sum over hosts that count, and the amounts of licences. By name of the resource: thousandths of CPUs and
    devices, MiB of sizes; what is left out is 0.
    """

    hosts: int
    """Number of those hosts."""

    version: int
    """Grows with every change of hosts."""

    largest: dict[str, int] = {}
    """The most that one of these hosts has, by name of the resource."""

    host_pools: tuple[HostPoolCapacity, ...] = ()
    """The same of each host pool, by name; empty: the cell has no host pools."""

    causes: tuple[Cause, ...] = ()
    """The changes of hosts since the last one, at most 8, the newest last."""


class GangsParked(RangesEvent, frozen=True, kw_only=True):
    """Entitled gangs without a place that hold nothing under limits from now on: an AdmissionsRanked asked for that.
    They keep their places in the order, and ask (PreemptionAsked) before they are placed.
    """

    topic: ClassVar[str] = "paceline.placement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "first": INT32,
        "count": INT32,
        "run": INT32,
        "gang": INT32,
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
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            first=pack_ints(first),
            count=pack_ints(count),
            run=pack_ints(run),
            gang=pack_ints(gang),
        )


class GangsReturned(RangesEvent, frozen=True, kw_only=True):
    """Gangs given back to their pools."""

    topic: ClassVar[str] = "paceline.placement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "first": INT32,
        "count": INT32,
        "run": INT32,
        "gang": INT32,
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

    code: str
    """NO_HOST_FITS, GANG_INCOMPLETE or HELD_FOR_OTHERS, of borrowed work only; NO_HOSTS, CONSTRAINT_MISMATCH,
    NEVER_FITS or BOUND_HOST_LOST.
    """

    bound: bool = False
    """Whether each of these tasks may run on one host alone: what keeps it from there says nothing of others of its
    shape. No release before 0.4.0 says it.
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
        code: str,
        bound: bool = False,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            first=pack_ints(first),
            count=pack_ints(count),
            run=pack_ints(run),
            gang=pack_ints(gang),
            code=code,
            bound=bound,
        )


class GangsUnplaced(Event, frozen=True, kw_only=True):
    """Why gangs of a job find no place now."""

    topic: ClassVar[str] = "paceline.placement"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    newest_unless: ClassVar[tuple[str, ...] | None] = ()

    job_id: str
    """The job."""

    code: str
    """Reason code."""

    tasks: int
    """Tasks without a place."""

    size: int = 1
    """Tasks that belong together; 1: each is placed alone."""

    fit: int = 0
    """How many of them would find a place now; of NEVER_FITS, on hosts that are empty."""

    missing: str = ""
    """The instances of the gang that would find none, such as 3-5,9."""

    instance: int = 0
    """The first task without a place: its instance."""

    run: int = 0
    """The first task without a place: its run; 0: none is named."""

    need: dict[str, int]
    """What one task needs, by name of the resource."""

    ports: int = 0
    """Ports that one task needs."""

    hosts_considered: int
    """Hosts looked at."""

    hosts_by_reason: dict[str, int]
    """Count of hosts per reason; they sum to the hosts considered."""

    nearest: tuple[NearMiss, ...] = ()
    """The hosts that lacked least."""

    level: str = ""
    """The attribute, or host, in whose groups of hosts the gang, or each of its segments, must be; empty: none."""

    segment: int = 0
    """Members of a segment, each of which must be in one group; 0: the whole gang must."""

    groups: tuple[GroupRoom, ...] = ()
    """The groups with most room, the one with most first."""

    groups_considered: int = 0
    """Groups looked at."""

    host_id: str = ""
    """Of WAITING_FOR_HOST: the host of the first task."""

    until_ms: int = 0
    """Of WAITING_FOR_HOST: until when that host is kept for it; logical time."""

    cause: Cause | None = None
    """The last change of hosts or runs before it, where the reason is another one than before; null: the first reason
    since the task was admitted.
    """


class HostAnswered(Event, frozen=True, kw_only=True):
    """The answer to a fact of an operator about a host."""

    topic: ClassVar[str] = "paceline.placement"

    cause_fields: ClassVar[Mapping[str, str]] = {"hosts_offset": "paceline.hosts"}

    host_id: str
    """The host."""

    hosts_offset: int
    """Where the fact stands in the topic of hosts."""

    command_id: str
    """The id that the client made."""

    code: str
    """DONE, REPEATED or a reason code."""

    message: str = ""
    """One sentence."""


class HostAvoided(Event, frozen=True, kw_only=True):
    """A host takes no new tasks for a time, but for those that may run on no other host."""

    topic: ClassVar[str] = "paceline.placement"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    host_id: str
    """The host."""

    code: str
    """Why: as in HostSuspected; CONDITION: a check says that it isn't well."""

    until_ms: int
    """Logical time until when; 0: until no condition of it lasts."""

    cause: Cause | None = None
    """The HostSuspected, or the HostHealthReported."""


class HostDeviceChanged(Event, frozen=True, kw_only=True):
    """A device of a host is set aside from now on, or takes tasks again."""

    topic: ClassVar[str] = "paceline.placement"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    host_id: str
    """The host."""

    device: str
    """The id of the device on its host."""

    disabled: bool
    """Whether it takes no new tasks."""

    ends: bool
    """Whether the runs on it are to leave."""

    cause: Cause | None = None
    """The HostDeviceRequested."""


class HostHearingChanged(Event, frozen=True, kw_only=True):
    """Hosts are heard from now on, are silent, or are lost: what others than placement make allowances for. No release
    before 0.4.0 says it.
    """

    topic: ClassVar[str] = "paceline.placement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"host_session": INT64, "hearing": INT32}

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    newest_unless: ClassVar[tuple[str, ...] | None] = ()

    host_ids: tuple[str, ...]
    """The hosts."""

    host_session: bytes
    """The session of each host, parallel to host_ids. Column of int64."""

    hearing: bytes
    """Of each host: 1 heard, 2 silent, 3 lost. Column of int32."""

    cause: Cause | None = None
    """The last change of a host before it."""

    @property
    def host_session_array(self) -> I64:
        return np.frombuffer(self.host_session, INT64, len(self.host_session) // 8)

    @property
    def hearing_array(self) -> I32:
        return np.frombuffer(self.hearing, INT32, len(self.hearing) // 4)

    @classmethod
    def pack(
        cls,
        *,
        host_ids: tuple[str, ...],
        host_session: Values,
        hearing: Values,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            host_ids=host_ids,
            host_session=pack_longs(host_session),
            hearing=pack_ints(hearing),
            cause=cause,
        )


class HostLost(Event, frozen=True, kw_only=True):
    """A host is given up; its runs are over."""

    topic: ClassVar[str] = "paceline.placement"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    host_id: str
    """The host."""

    session: int
    """Number of the connection of the agent of that host, growing."""

    code: str
    """SILENT, CONFIRMED or GRACE_PASSED."""

    silent_ms: int
    """How long it was silent."""

    cause: Cause | None = None
    """The HostSilent since which it isn't heard, or the HostLossConfirmed of an operator."""


class HostMaintenanceChanged(Event, frozen=True, kw_only=True):
    """What is wanted of hosts has changed: the stages of their maintenance."""

    topic: ClassVar[str] = "paceline.placement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "stage": INT32,
        "cordon": INT32,
        "batch": INT32,
        "step": INT32,
        "preempt_at": INT64,
        "force_at": INT64,
        "check_until": INT64,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    host_ids: tuple[str, ...]
    """The hosts, in the order of the columns."""

    stage: bytes
    """Stage of each (Stage). Column of int32."""

    cordon: bytes
    """1: it is cordoned, and stays so when its drain or window ends. Column of int32."""

    batch: bytes
    """1: preemptible batch tasks leave at once; 0: at the deadline, or by themselves. Column of int32."""

    step: bytes
    """Where it is in its campaign (Step); 0: in none. Column of int32."""

    preempt_at: bytes
    """Second of its deadline, at which preemptible batch tasks leave; 0: none. Column of int64."""

    force_at: bytes
    """Second from which all that is left is ended; 0: never. Column of int64."""

    check_until: bytes
    """Second until which it must be well again; 0: it isn't checked. Column of int64."""

    code: str
    """Why: ASKED, DEADLINE, FORCED, EMPTY, WINDOW, CAMPAIGN, CONDITION, TAINTED, STUCK, RESUMED, CHECKED, WORK_DONE,
    FAILED or another reason code.
    """

    by: str = ""
    """Whose drain it is: operator, campaign, window, health or taint; empty: nobody's."""

    source: str = ""
    """The campaign, window, condition or taint."""

    message: str = ""
    """One sentence, where the code doesn't say all."""

    cause: Cause | None = None
    """The fact or the deadline that led to it."""

    @property
    def stage_array(self) -> I32:
        return np.frombuffer(self.stage, INT32, len(self.stage) // 4)

    @property
    def cordon_array(self) -> I32:
        return np.frombuffer(self.cordon, INT32, len(self.cordon) // 4)

    @property
    def batch_array(self) -> I32:
        return np.frombuffer(self.batch, INT32, len(self.batch) // 4)

    @property
    def step_array(self) -> I32:
        return np.frombuffer(self.step, INT32, len(self.step) // 4)

    @property
    def preempt_at_array(self) -> I64:
        return np.frombuffer(self.preempt_at, INT64, len(self.preempt_at) // 8)

    @property
    def force_at_array(self) -> I64:
        return np.frombuffer(self.force_at, INT64, len(self.force_at) // 8)

    @property
    def check_until_array(self) -> I64:
        return np.frombuffer(self.check_until, INT64, len(self.check_until) // 8)

    @classmethod
    def pack(
        cls,
        *,
        host_ids: tuple[str, ...],
        stage: Values,
        cordon: Values,
        batch: Values,
        step: Values,
        preempt_at: Values,
        force_at: Values,
        check_until: Values,
        code: str,
        by: str = "",
        source: str = "",
        message: str = "",
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            host_ids=host_ids,
            stage=pack_ints(stage),
            cordon=pack_ints(cordon),
            batch=pack_ints(batch),
            step=pack_ints(step),
            preempt_at=pack_longs(preempt_at),
            force_at=pack_longs(force_at),
            check_until=pack_longs(check_until),
            code=code,
            by=by,
            source=source,
            message=message,
            cause=cause,
        )


class HostPoolChanged(Event, frozen=True, kw_only=True):
    """A host pool is so from now on."""

    topic: ClassVar[str] = "paceline.placement"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    name: str
    """The host pool."""

    removed: bool = False
    """Whether it is removed."""

    kinds: tuple[str, ...] = ()
    """The kinds of jobs that use its hosts before those of shared, where their resource pool names no host pools.
    """

    description: str = ""
    """What it is for."""

    elastic: tuple[HostPoolPolicy, ...] = ()
    """How hosts move to it and back by themselves, by the other host pool."""

    cause: Cause | None = None
    """The HostPoolDefined."""


class HostPoolMoveStarted(Event, frozen=True, kw_only=True):
    """Hosts are emptied, and are put into another host pool once they are (HostsPooled)."""

    topic: ClassVar[str] = "paceline.placement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "controllers": INT32,
        "tasks": INT32,
        "priorities": INT64,
        "mean_s": INT32,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    source: str
    """The host pool that they are in."""

    target: str
    """The host pool that they go to."""

    host_ids: tuple[str, ...]
    """The hosts, the cheapest first."""

    code: str
    """Why: ASKED, LOAD_ABOVE or LOAD_BELOW."""

    load: int = -1
    """The load of the host pool whose policy it follows, in percent: the amount of a resource that is allocated there
    or waits for it, as a part of what it has, of the resource of which that is most; -1: it was asked for.
    """

    waiting: int = 0
    """The part of the load that waits, in percent."""

    bound: int = -1
    """The bound that the load has passed; -1: it was asked for."""

    since_ms: int = 0
    """Logical time since when; 0: it was asked for."""

    candidates: int = 0
    """So many hosts might have moved."""

    controllers: bytes
    """Controllers on each host. Column of int32."""

    tasks: bytes
    """Tasks on each host; those of daemons stay there. Column of int32."""

    priorities: bytes
    """The sum of their priorities, each as a part of the highest in its pool. Column of int64."""

    mean_s: bytes
    """The mean time for which they run, in seconds. Column of int32."""

    cause: Cause | None = None
    """The HostPoolMoveRequested, or the HostPoolChanged whose policy it follows."""

    @property
    def controllers_array(self) -> I32:
        return np.frombuffer(self.controllers, INT32, len(self.controllers) // 4)

    @property
    def tasks_array(self) -> I32:
        return np.frombuffer(self.tasks, INT32, len(self.tasks) // 4)

    @property
    def priorities_array(self) -> I64:
        return np.frombuffer(self.priorities, INT64, len(self.priorities) // 8)

    @property
    def mean_s_array(self) -> I32:
        return np.frombuffer(self.mean_s, INT32, len(self.mean_s) // 4)

    @classmethod
    def pack(
        cls,
        *,
        source: str,
        target: str,
        host_ids: tuple[str, ...],
        code: str,
        load: int = -1,
        waiting: int = 0,
        bound: int = -1,
        since_ms: int = 0,
        candidates: int = 0,
        controllers: Values,
        tasks: Values,
        priorities: Values,
        mean_s: Values,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            source=source,
            target=target,
            host_ids=host_ids,
            code=code,
            load=load,
            waiting=waiting,
            bound=bound,
            since_ms=since_ms,
            candidates=candidates,
            controllers=pack_ints(controllers),
            tasks=pack_ints(tasks),
            priorities=pack_longs(priorities),
            mean_s=pack_ints(mean_s),
            cause=cause,
        )


class HostRemoved(Event, frozen=True, kw_only=True):
    """A host that has left is forgotten, with all that was said of it up to a session. It may connect anew."""

    topic: ClassVar[str] = "paceline.placement"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    host_id: str
    """The host."""

    session: int
    """The last session that is forgotten."""

    code: str
    """ASKED or STAYED_AWAY."""

    left_ms: int
    """How long it had been given up; 0: it wasn't."""

    cause: Cause | None = None
    """The HostRemovalRequested of an operator, or the HostLost or HostReconciled since which nothing is expected of
    it.
    """


class HostTainted(Event, frozen=True, kw_only=True):
    """A host has these taints by operators from now on, beside those of its agent: new tasks are kept away that don't
    tolerate all of them.
    """

    topic: ClassVar[str] = "paceline.placement"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    host_id: str
    """The host."""

    taints: dict[str, str]
    """Values by key, all that operators gave it."""

    cause: Cause | None = None
    """The HostTaintRequested."""

    evicts: tuple[str, ...] = ()
    """The keys of taints whose effect is evict: what runs there and doesn't tolerate them leaves."""


class HostTrusted(Event, frozen=True, kw_only=True):
    """A host that was suspected takes new tasks, again or still."""

    topic: ClassVar[str] = "paceline.placement"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    host_id: str
    """The host."""

    code: str
    """TIME_PASSED: it was avoided long enough; ASKED: an operator said so; TOO_MANY_SUSPECTED: the cell avoids no more
    hosts at a time; SILENT: it isn't heard, so what went on there isn't known; CONDITION: its conditions have
    passed, or its policy is off; TOO_MANY_UNHEALTHY: it isn't well, and the cell avoids no more hosts at a time.
    """

    avoided: int
    """How many other hosts are avoided."""

    most: int
    """How many the cell avoids at most."""

    cause: Cause | None = None
    """The HostAvoided, the HostClearRequested of an operator, the HostSuspected, or the HostHealthReported."""


class HostsAnswered(Event, frozen=True, kw_only=True):
    """The answer to a fact of an operator about several hosts, a campaign or a window."""

    topic: ClassVar[str] = "paceline.placement"

    cause_fields: ClassVar[Mapping[str, str]] = {"hosts_offset": "paceline.hosts"}

    hosts_offset: int
    """Where the fact stands in the topic of hosts."""

    command_id: str
    """The id that the client made."""

    code: str
    """DONE, REPEATED or a reason code."""

    message: str = ""
    """One sentence."""

    host_ids: tuple[str, ...] = ()
    """The hosts that are taken; or, where it is refused, those that it is refused for."""

    codes: tuple[str, ...] = ()
    """A reason code for each of them, where it is refused."""


class HostsPooled(Event, frozen=True, kw_only=True):
    """Hosts are in a host pool from now on. What runs there goes on."""

    topic: ClassVar[str] = "paceline.placement"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    host_ids: tuple[str, ...]
    """The hosts."""

    host_pool: str
    """The host pool."""

    code: str
    """Why: ASKED."""

    cause: Cause | None = None
    """The HostPoolAssigned."""


class HostsReserved(Event, frozen=True, kw_only=True):
    """Hosts are reserved for a gang that is entitled and found no place; said again when what is kept there changes."""

    topic: ClassVar[str] = "paceline.placement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {"tasks": INT32, "shape": INT32}

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    newest_unless: ClassVar[tuple[str, ...] | None] = ()

    job_id: str
    """The gang or task: its job."""

    first: int
    """The gang or task: its first instance."""

    count: int
    """The gang or task: its instances."""

    run: int
    """The gang or task: the run that they are at."""

    host_ids: tuple[str, ...]
    """The hosts."""

    tasks: bytes
    """How many of its tasks each host of host_ids is to hold. Column of int32."""

    shape: bytes = b""
    """Which of its tasks: the index of their shape among those of the gang, in the order of their first instances; a
    host stands once for each. Empty: all tasks have one shape. Column of int32.
    """

    kept: dict[str, int]
    """What is free on these hosts and kept for it now, by name of the resource."""

    state: str
    """RESERVED; or why it is no more: PLACED, IN_VAIN the time is over or a host has gone, WITHDRAWN it waits no more,
    or others were asked to leave for it.
    """

    until_ms: int
    """Logical time at which they are given up."""

    alternative: int = -1
    """The alternative of the job that the places are for, from 0; -1: its tasks have no choice."""

    passed_codes: tuple[str, ...] = ()
    """Why the tasks find no place by the alternatives before it, for which no plan was found either: a reason code
    each.
    """

    cause: Cause | None = None
    """The admission, or the last change of hosts or runs before it."""

    @property
    def tasks_array(self) -> I32:
        return np.frombuffer(self.tasks, INT32, len(self.tasks) // 4)

    @property
    def shape_array(self) -> I32:
        if self.shape:
            return np.frombuffer(self.shape, INT32, len(self.shape) // 4)
        return np.full(len(self.tasks) // 4, 0, INT32)

    @classmethod
    def pack(
        cls,
        *,
        job_id: str,
        first: int,
        count: int,
        run: int,
        host_ids: tuple[str, ...],
        tasks: Values,
        shape: Values | None = None,
        kept: dict[str, int],
        state: str,
        until_ms: int,
        alternative: int = -1,
        passed_codes: tuple[str, ...] = (),
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            job_id=job_id,
            first=first,
            count=count,
            run=run,
            host_ids=host_ids,
            tasks=pack_ints(tasks),
            shape=b"" if shape is None else pack_unless(shape, 0, INT32),
            kept=kept,
            state=state,
            until_ms=until_ms,
            alternative=alternative,
            passed_codes=passed_codes,
            cause=cause,
        )


class MaintenanceChanged(Event, frozen=True, kw_only=True):
    """A campaign has another state."""

    topic: ClassVar[str] = "paceline.placement"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    maintenance_id: str
    """The campaign."""

    state: str
    """RUNNING, PAUSED, ABORTING, ABORTED or DONE."""

    code: str
    """Why: ASKED, FAILURES, OVER or another reason code."""

    message: str = ""
    """One sentence."""

    host_ids: tuple[str, ...] = ()
    """All its hosts, where it begins."""

    failed: int = 0
    """So many of its hosts have failed."""

    skipped: int = 0
    """So many were skipped."""

    done: int = 0
    """So many are done."""

    cause: Cause | None = None
    """The fact or the decision that led to it."""


class MaintenanceWindowChanged(Event, frozen=True, kw_only=True):
    """A window of maintenance opens, closes, or is another one."""

    topic: ClassVar[str] = "paceline.placement"

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    window_id: str
    """The window."""

    state: str
    """SET, LEADING, OPEN, CLOSED, MISSED or REMOVED."""

    opens_ms: int = 0
    """When it opens next, or has opened; 0: never."""

    closes_ms: int = 0
    """When it closes then."""

    cause: Cause | None = None
    """The fact or the deadline that led to it."""


class MatchingHostsChanged(Event, frozen=True, kw_only=True):
    """Hosts match the constraints of daemons from now on, or no longer. A host that is lost goes on matching until it
    offers something else or is removed.
    """

    topic: ClassVar[str] = "paceline.placement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "host_session": INT64,
        "job": INT32,
        "host": INT32,
        "matches": INT32,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    newest_unless: ClassVar[tuple[str, ...] | None] = ()

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    host_ids: tuple[str, ...]
    """The hosts named by the column host."""

    host_session: bytes
    """The session of each host, parallel to host_ids. Column of int64."""

    job: bytes
    """Index into job_ids. Column of int32."""

    host: bytes
    """Index into host_ids. Column of int32."""

    matches: bytes
    """1: the host matches from now on; 0: it no longer does. Column of int32."""

    cause: Cause | None = None
    """The last change of hosts or jobs."""

    @property
    def host_session_array(self) -> I64:
        return np.frombuffer(self.host_session, INT64, len(self.host_session) // 8)

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def host_array(self) -> I32:
        return np.frombuffer(self.host, INT32, len(self.host) // 4)

    @property
    def matches_array(self) -> I32:
        return np.frombuffer(self.matches, INT32, len(self.matches) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_ids: tuple[str, ...],
        host_ids: tuple[str, ...],
        host_session: Values,
        job: Values,
        host: Values,
        matches: Values,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            host_ids=host_ids,
            host_session=pack_longs(host_session),
            job=pack_ints(job),
            host=pack_ints(host),
            matches=pack_ints(matches),
            cause=cause,
        )


class PreemptionAsked(Event, frozen=True, kw_only=True):
    """Placement found the hosts for a gang that has a right, and asks for the runs that must leave these hosts.
    Answered by PreemptionsOrdered or PreemptionRefused. For a parked gang it may name no victims: it has a place,
    and what limits leave is for entitlement to find.
    """

    topic: ClassVar[str] = "paceline.placement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "tasks": INT32,
        "shape": INT32,
        "job": INT32,
        "instance": INT32,
        "victim_run": INT32,
        "way": INT32,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    newest_unless: ClassVar[tuple[str, ...] | None] = ("RightsSet",)

    job_id: str
    """The gang or task: its job."""

    first: int
    """The gang or task: its first instance."""

    count: int
    """The gang or task: its instances."""

    run: int
    """The gang or task: the run that they are at."""

    host_ids: tuple[str, ...]
    """The hosts on which it would run."""

    tasks: bytes
    """How many of its tasks would run on each host of host_ids. Column of int32."""

    shape: bytes = b""
    """Which of its tasks: the index of their shape among those of the gang, in the order of their first instances; a
    host stands once for each. Empty: all tasks have one shape. Column of int32.
    """

    job_ids: tuple[str, ...]
    """The victims, in the order chosen: the jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0; the members of a gang stand one after another. Column of int32."""

    victim_run: bytes
    """Number of the run, from 1. Column of int32."""

    way: bytes
    """1 OWN: own pool's lower priority or borrowed work; 2 GIVE: a pool above its entitlement; 3 MOVE: it has a place
    elsewhere at once; 4 CLEAR: it has run for its slice; 6 SHRUNK: its host offers less than its runs hold, and the
    job of the gang is empty. Column of int32.
    """

    spared: dict[str, int] = {}
    """Runs on these hosts that were looked at and stay: how many by which code."""

    alternative: int = -1
    """The alternative of the job that the places are for, from 0; -1: its tasks have no choice."""

    passed_codes: tuple[str, ...] = ()
    """Why the tasks find no place by the alternatives before it, for which no plan was found either: a reason code
    each.
    """

    cause: Cause | None = None
    """The RightsSet that gave the right."""

    @property
    def tasks_array(self) -> I32:
        return np.frombuffer(self.tasks, INT32, len(self.tasks) // 4)

    @property
    def shape_array(self) -> I32:
        if self.shape:
            return np.frombuffer(self.shape, INT32, len(self.shape) // 4)
        return np.full(len(self.tasks) // 4, 0, INT32)

    @property
    def job_array(self) -> I32:
        return np.frombuffer(self.job, INT32, len(self.job) // 4)

    @property
    def instance_array(self) -> I32:
        return np.frombuffer(self.instance, INT32, len(self.instance) // 4)

    @property
    def victim_run_array(self) -> I32:
        return np.frombuffer(self.victim_run, INT32, len(self.victim_run) // 4)

    @property
    def way_array(self) -> I32:
        return np.frombuffer(self.way, INT32, len(self.way) // 4)

    @classmethod
    def pack(
        cls,
        *,
        job_id: str,
        first: int,
        count: int,
        run: int,
        host_ids: tuple[str, ...],
        tasks: Values,
        shape: Values | None = None,
        job_ids: tuple[str, ...],
        job: Values,
        instance: Values,
        victim_run: Values,
        way: Values,
        spared: dict[str, int] | None = None,
        alternative: int = -1,
        passed_codes: tuple[str, ...] = (),
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            job_id=job_id,
            first=first,
            count=count,
            run=run,
            host_ids=host_ids,
            tasks=pack_ints(tasks),
            shape=b"" if shape is None else pack_unless(shape, 0, INT32),
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            victim_run=pack_ints(victim_run),
            way=pack_ints(way),
            spared={} if spared is None else spared,
            alternative=alternative,
            passed_codes=passed_codes,
            cause=cause,
        )


class RevocationAsked(ItemsEvent, frozen=True, kw_only=True):
    """Revocable runs hold more CPU on hosts than these have lent for a minute, and some of them are to end: the
    newest, until the rest fits.
    """

    topic: ClassVar[str] = "paceline.placement"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "instance": INT32,
        "run": INT32,
        "host": INT32,
        "lent": INT64,
        "used": INT64,
    }

    cause_fields: ClassVar[Mapping[str, str]] = {"cause": ""}

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0; the members of a gang stand one after another. Column of int32."""

    run: bytes
    """Number of the run, from 1. Column of int32."""

    host_ids: tuple[str, ...]
    """The hosts named by the column host."""

    host: bytes
    """Index into host_ids: where the run is. Column of int32."""

    lent: bytes
    """Thousandths of a CPU that each host of host_ids lends. Column of int64."""

    used: bytes
    """Thousandths of a CPU that revocable runs held of that there. Column of int64."""

    cause: Cause | None = None
    """The last HostsLoaded, or change of the cell's settings, by which they hold more than is lent."""

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
    def lent_array(self) -> I64:
        return np.frombuffer(self.lent, INT64, len(self.lent) // 8)

    @property
    def used_array(self) -> I64:
        return np.frombuffer(self.used, INT64, len(self.used) // 8)

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
        lent: Values,
        used: Values,
        cause: Cause | None = None,
    ) -> Self:
        return cls(
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            run=pack_ints(run),
            host_ids=host_ids,
            host=pack_ints(host),
            lent=pack_longs(lent),
            used=pack_longs(used),
            cause=cause,
        )


class TasksPlaced(ItemsEvent, frozen=True, kw_only=True):
    """Runs assigned to hosts."""

    topic: ClassVar[str] = "paceline.placement"

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
        "passed_over": INT32,
        "choice_count": INT32,
        "strategy": INT32,
        "score": INT32,
        "feasible": INT32,
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

    passed_codes: tuple[str, ...] = ()
    """The reason codes named by the column passed_over, one for each alternative, with commas."""

    passed_over: bytes = b""
    """Why the alternatives before that of each item weren't taken: index into passed_codes, -1: there were none.
    Empty: none had any before it. Column of int32.
    """

    choice_count: bytes = b""
    """Items of each choice, which are of one shape and job, in their order. Empty: each item is a choice. Column of
    int32.
    """

    strategy: bytes = b""
    """The strategy of each choice: 0 pack, 1 spread, 2 balanced, 3 load-aware, 4 fragmentation, 5 adaptive. Empty: all
    pack. Column of int32.
    """

    score: bytes = b""
    """The score that the host of the first item of each choice had for it, in 1/2^25 of what the largest host has of
    one kind, as scored by its strategy, or by pack for spread, fragmentation and adaptive; empty: written before
    scores were. Column of int32.
    """

    feasible: bytes = b""
    """Hosts that had room for a task of each choice, when the first of its shape was placed in this decision. Column
    of int32.
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
    def passed_over_array(self) -> I32:
        if self.passed_over:
            return np.frombuffer(self.passed_over, INT32, len(self.passed_over) // 4)
        return np.full(len(self.job) // 4, -1, INT32)

    @property
    def choice_count_array(self) -> I32:
        return np.frombuffer(self.choice_count, INT32, len(self.choice_count) // 4)

    @property
    def strategy_array(self) -> I32:
        return np.frombuffer(self.strategy, INT32, len(self.strategy) // 4)

    @property
    def score_array(self) -> I32:
        return np.frombuffer(self.score, INT32, len(self.score) // 4)

    @property
    def feasible_array(self) -> I32:
        return np.frombuffer(self.feasible, INT32, len(self.feasible) // 4)

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
        passed_codes: tuple[str, ...] = (),
        passed_over: Values | None = None,
        choice_count: Values | None = None,
        strategy: Values | None = None,
        score: Values | None = None,
        feasible: Values | None = None,
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
            passed_codes=passed_codes,
            passed_over=b"" if passed_over is None else pack_unless(passed_over, -1, INT32),
            choice_count=b"" if choice_count is None else pack_ints(choice_count),
            strategy=b"" if strategy is None else pack_ints(strategy),
            score=b"" if score is None else pack_ints(score),
            feasible=b"" if feasible is None else pack_ints(feasible),
        )


ALL: tuple[type[Event], ...] = (
    CapacityChanged,
    GangsParked,
    GangsReturned,
    GangsUnplaced,
    HostAnswered,
    HostAvoided,
    HostDeviceChanged,
    HostHearingChanged,
    HostLost,
    HostMaintenanceChanged,
    HostPoolChanged,
    HostPoolMoveStarted,
    HostRemoved,
    HostTainted,
    HostTrusted,
    HostsAnswered,
    HostsPooled,
    HostsReserved,
    MaintenanceChanged,
    MaintenanceWindowChanged,
    MatchingHostsChanged,
    PreemptionAsked,
    RevocationAsked,
    TasksPlaced,
)
