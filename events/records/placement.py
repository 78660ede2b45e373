"""The records of `schemas/placement`. Written by `python -m tools.records`; do not edit."""

from typing import ClassVar

from events.records.base import Event
from events.records.parts import Cause, NearMiss


class CapacityChanged(Event, frozen=True, kw_only=True):
    """What the cell has: its hosts together, and its licences."""

    topic: ClassVar[str] = "paceline.placement"

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

    causes: tuple[Cause, ...] = ()
    """The changes of hosts since the last one, at most 8, the newest last."""


class GangsParked(Event, frozen=True, kw_only=True):
    """Entitled gangs without a place that hold nothing under limits from now on: an AdmissionsRanked asked for that.
    They keep their places in the order, and ask (PreemptionAsked) before they are placed.
    """

    topic: ClassVar[str] = "paceline.placement"

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of little-endian int32."""

    first: bytes
    """First instance of the range. Column of little-endian int32."""

    count: bytes
    """Instances in the range. Column of little-endian int32."""

    run: bytes
    """The run that each instance of the range is at. Column of little-endian int32."""

    gang: bytes
    """1: the range is one gang, whole or not at all; 0: each instance is a gang of one. Column of little-endian int32.
    """


class GangsReturned(Event, frozen=True, kw_only=True):
    """Gangs given back to their pools."""

    topic: ClassVar[str] = "paceline.placement"

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of little-endian int32."""

    first: bytes
    """First instance of the range. Column of little-endian int32."""

    count: bytes
    """Instances in the range. Column of little-endian int32."""

    run: bytes
    """The run that each instance of the range is at. Column of little-endian int32."""

    gang: bytes
    """1: the range is one gang, whole or not at all; 0: each instance is a gang of one. Column of little-endian int32.
    """

    code: str
    """NO_HOST_FITS, GANG_INCOMPLETE or HELD_FOR_OTHERS, of borrowed work only; NO_HOSTS, CONSTRAINT_MISMATCH,
    NEVER_FITS or BOUND_HOST_LOST.
    """

    bound: bool = False
    """Whether each of these tasks may run on one host alone: what keeps it from there says nothing of others of its
    shape. No release before 0.4.0 says it.
    """


class GangsUnplaced(Event, frozen=True, kw_only=True):
    """Why gangs of a job find no place now."""

    topic: ClassVar[str] = "paceline.placement"

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

    host_id: str
    """The host."""

    code: str
    """Why it is suspected: as in HostSuspected."""

    until_ms: int
    """Logical time until when."""

    cause: Cause | None = None
    """The HostSuspected."""


class HostHearingChanged(Event, frozen=True, kw_only=True):
    """Hosts are heard from now on, are silent, or are lost: what others than placement make allowances for. No release
    before 0.4.0 says it.
    """

    topic: ClassVar[str] = "paceline.placement"

    host_ids: tuple[str, ...]
    """The hosts."""

    host_session: bytes
    """The session of each host, parallel to host_ids. Column of little-endian int64."""

    hearing: bytes
    """Of each host: 1 heard, 2 silent, 3 lost. Column of little-endian int32."""

    cause: Cause | None = None
    """The last change of a host before it."""


class HostLost(Event, frozen=True, kw_only=True):
    """A host is given up; its runs are over."""

    topic: ClassVar[str] = "paceline.placement"

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


class HostRemoved(Event, frozen=True, kw_only=True):
    """A host that has left is forgotten, with all that was said of it up to a session. It may connect anew."""

    topic: ClassVar[str] = "paceline.placement"

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


class HostTrusted(Event, frozen=True, kw_only=True):
    """A host that was suspected takes new tasks, again or still."""

    topic: ClassVar[str] = "paceline.placement"

    host_id: str
    """The host."""

    code: str
    """TIME_PASSED: it was avoided long enough; ASKED: an operator said so; TOO_MANY_SUSPECTED: the cell avoids no more
    hosts at a time; SILENT: it isn't heard, so what went on there isn't known.
    """

    avoided: int
    """How many other hosts are avoided."""

    most: int
    """How many the cell avoids at most."""

    cause: Cause | None = None
    """The HostAvoided, the HostClearRequested of an operator, or the HostSuspected."""


class HostsReserved(Event, frozen=True, kw_only=True):
    """Hosts are drained for a gang that is entitled and found no place; said again when what is kept there changes."""

    topic: ClassVar[str] = "paceline.placement"

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
    """How many of its tasks each host of host_ids is to hold. Column of little-endian int32."""

    shape: bytes = b""
    """Which of its tasks: the index of their shape among those of the gang, in the order of their first instances; a
    host stands once for each. Column of little-endian int32; empty: all tasks have one shape.
    """

    kept: dict[str, int]
    """What is free on these hosts and kept for it now, by name of the resource."""

    state: str
    """RESERVED; or why it is no more: PLACED, IN_VAIN the time is over or a host has gone, WITHDRAWN it waits no more,
    or others were asked to leave for it.
    """

    until_ms: int
    """Logical time at which they are given up."""

    cause: Cause | None = None
    """The admission, or the last change of hosts or runs before it."""


class MatchingHostsChanged(Event, frozen=True, kw_only=True):
    """Hosts match the constraints of daemons from now on, or no longer. A host that is lost goes on matching until it
    offers something else or is removed.
    """

    topic: ClassVar[str] = "paceline.placement"

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    host_ids: tuple[str, ...]
    """The hosts named by the column host."""

    host_session: bytes
    """The session of each host, parallel to host_ids. Column of little-endian int64."""

    job: bytes
    """Index into job_ids. Column of little-endian int32."""

    host: bytes
    """Index into host_ids. Column of little-endian int32."""

    matches: bytes
    """1: the host matches from now on; 0: it no longer does. Column of little-endian int32."""

    cause: Cause | None = None
    """The last change of hosts or jobs."""


class PreemptionAsked(Event, frozen=True, kw_only=True):
    """Placement found the hosts for a gang that has a right, and asks for the runs that must leave these hosts.
    Answered by PreemptionsOrdered or PreemptionRefused. For a parked gang it may name no victims: it has a place,
    and what limits leave is for entitlement to find.
    """

    topic: ClassVar[str] = "paceline.placement"

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
    """How many of its tasks would run on each host of host_ids. Column of little-endian int32."""

    shape: bytes = b""
    """Which of its tasks: the index of their shape among those of the gang, in the order of their first instances; a
    host stands once for each. Column of little-endian int32; empty: all tasks have one shape.
    """

    job_ids: tuple[str, ...]
    """The victims, in the order chosen: the jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of little-endian int32."""

    instance: bytes
    """Instance of the job, from 0; the members of a gang stand one after another. Column of little-endian int32."""

    victim_run: bytes
    """Number of the run, from 1. Column of little-endian int32."""

    way: bytes
    """1 OWN: own pool's lower priority or borrowed work; 2 GIVE: a pool above its entitlement; 3 MOVE: it has a place
    elsewhere at once; 4 CLEAR: it has run for its slice. Column of little-endian int32.
    """

    spared: dict[str, int] = {}
    """Runs on these hosts that were looked at and stay: how many by which code."""

    cause: Cause | None = None
    """The RightsSet that gave the right."""


class TasksPlaced(Event, frozen=True, kw_only=True):
    """Runs assigned to hosts."""

    topic: ClassVar[str] = "paceline.placement"

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of little-endian int32."""

    instance: bytes
    """Instance of the job, from 0. Column of little-endian int32."""

    run: bytes
    """Number of the run, from 1. Column of little-endian int32."""

    host_ids: tuple[str, ...]
    """The hosts named by the column host."""

    host_session: bytes
    """Session of each host of host_ids. Column of little-endian int64."""

    host: bytes
    """Index into host_ids. Column of little-endian int32."""

    ports: bytes = b""
    """Port numbers, for each item as many as port_count says. Column of little-endian int32."""

    port_count: bytes = b""
    """Ports of each item. Column of little-endian int32; empty: nobody has ports."""


ALL: tuple[type[Event], ...] = (
    CapacityChanged,
    GangsParked,
    GangsReturned,
    GangsUnplaced,
    HostAnswered,
    HostAvoided,
    HostHearingChanged,
    HostLost,
    HostRemoved,
    HostTrusted,
    HostsReserved,
    MatchingHostsChanged,
    PreemptionAsked,
    TasksPlaced,
)
