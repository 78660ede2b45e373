"""Messages between gateway and agents: columns within the process, JSON lines over HTTP."""

from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from events.bounds import (
    CONDITION,
    DIGEST,
    EXIT_CODE_MAX,
    HOST_CORES_MAX,
    HOST_DEVICES_MAX,
    HOST_RUNS_MAX,
    IMAGES_MAX,
    INT_MAX,
    LOAD_STEPS,
    NAME,
    PORT_MAX,
    SESSION_MAX,
    USE_MAX,
    VOLUME,
)
from events.codes import Number, RunReport
from events.columns import I32, I64, indexed
from events.device_columns import RunDevice
from events.host_devices import CORE, NUMA_MAX
from events.records.jobs import JobSubmitted
from events.records.parts import HealthCheck, HostDevice, Isolation, Secret
from events.resources import Amounts

HEARTBEAT_MS = 3_000
"""So often an agent that has nothing to report says that it lives."""
PING_S = 5.0
"""So often the gateway says the same on the stream of orders."""
LOG_BYTES_MAX = 1024 * 1024
"""Most bytes of a task's output in one answer."""


class OrderKind(Number):
    """The kind of an order."""

    START = 0
    STOP = 1
    FORGET = 2
    """The run is over for the cell: end it if it still runs, then drop its record."""
    KILL = 3
    """A stop was not obeyed in time: end the run by force."""


RunDevices = tuple[RunDevice, ...]


class Orders(NamedTuple):
    """Orders of the rounds up to `position` to hosts: an agent ignores what is at or below its last position.

    `whole`: the items are all runs that the cell wants on `host_ids`, and every other run there ends. The columns are
    int32 of equal length; `job` indexes `jobs`, `host` indexes `host_ids`. `jobs` holds what there is of each job:
    None where nothing of it starts. A job stands there several times where runs that start have different overrides.
    `ports`: for each item a row of port numbers, 0 where there are fewer.
    """

    position: int
    whole: bool
    host_ids: tuple[str, ...]
    job_ids: tuple[str, ...]
    jobs: tuple[JobSubmitted | None, ...]
    host: I32
    kind: I32
    job: I32
    instance: I32
    run: I32
    ports: I32
    gangs: tuple[str, ...] = ()
    """The members of the gang of each of `jobs`, as `gang_members.packed` writes them; empty without a gang."""
    devices: tuple[RunDevices, ...] = ()
    """The devices and cores of each item; empty: nobody has any."""


DETAILS = ("signal", "out_of_memory", "cpu_ms", "memory_kib", "throttled_ms", "read_kib", "written_kib")
"""The end of a run beside its state, as columns of `RunsReported`."""
NO_DETAILS: I64 = np.zeros((0, len(DETAILS)), dtype=np.int64)


class Reports(NamedTuple):
    """States of runs, from one agent or one fleet: int32 columns of equal length. `reason` indexes `reasons` plus 1.
    `details`: a row of `DETAILS` for each run; no row at all where nothing of it is known of any.
    """

    host_ids: tuple[str, ...]
    job_ids: tuple[str, ...]
    host: I32
    job: I32
    instance: I32
    run: I32
    state: I32
    exit_code: I32
    reasons: tuple[str, ...]
    reason: I32
    details: I64 = NO_DETAILS


Count = Annotated[int, msgspec.Meta(ge=0, le=INT_MAX)]
Long = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Used = Annotated[int, msgspec.Meta(ge=0, le=USE_MAX)]
Session = Annotated[int, msgspec.Meta(ge=1, le=SESSION_MAX)]
REASON_CHARS_MAX = 1000
Port = Annotated[int, msgspec.Meta(ge=0, le=PORT_MAX)]
Cells = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)]
"""Rows or columns of a terminal."""
EXECS_MAX = 64
"""Commands and connections inside the runs of a host at once: they are outside of the limits of its runs."""
EXEC_ENDS_MAX = 64
"""Ends of commands inside runs in one report; the others come with the next."""
JobId = Annotated[str, msgspec.Meta(pattern=rf"^{NAME.pattern}\Z")]
Name = Annotated[str, msgspec.Meta(max_length=128)]
Text = Annotated[str, msgspec.Meta(max_length=REASON_CHARS_MAX)]


class RunState(msgspec.Struct):
    """One run as an agent knows it; `state` is a `RunReport`."""

    job_id: JobId
    instance: Count
    run: Count
    state: Annotated[int, msgspec.Meta(ge=1, le=int(max(RunReport)))]
    exit_code: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] = 0
    reason: Text = ""
    signal: Annotated[int, msgspec.Meta(ge=0, le=127)] = 0
    """The signal that ended the process; 0: none."""
    out_of_memory: bool = False
    cpu_ms: Used = 0
    memory_kib: Used = 0
    """The most memory that the process has used, in KiB."""
    throttled_ms: Used = 0
    read_kib: Used = 0
    written_kib: Used = 0

    def details(self) -> tuple[int, ...]:
        """A row of `Reports.details`."""
        used = self.cpu_ms, self.memory_kib, self.throttled_ms, self.read_kib, self.written_kib
        return self.signal, int(self.out_of_memory), *used


class VolumeState(msgspec.Struct, frozen=True):
    """A volume of a host; `created_ms` tells it from one by the same name that was there before."""

    job_id: JobId
    instance: Count
    name: Annotated[str, msgspec.Meta(pattern=rf"^{VOLUME.pattern}\Z")]
    created_ms: Long


class MachineIdentity(msgspec.Struct, frozen=True):
    """The machine of an agent: `id` stays with its folder, `boot` names the time since it was started, `name` is for
    people. Without an id nothing is known of it.
    """

    id: Name = ""
    boot: Name = ""
    name: Name = ""
    key: Name = ""
    """The public half of its key in base64, to which secrets are sealed; empty: it takes none."""

    def public_key(self) -> bytes:
        """The key; empty: it has none."""
        with suppress(ValueError):
            return b64decode(self.key, validate=True)
        return b""

    def __str__(self) -> str:
        return f"{self.name or 'a machine'} ({self.id or 'of unknown identity'}, boot {self.boot or 'unknown'})"


Steps = Annotated[int, msgspec.Meta(ge=0, le=LOAD_STEPS)]


class HostLoad(msgspec.Struct, frozen=True):
    """The use of a host by its runs, in `LOAD_STEPS` parts of what it offers. `slack`: CPU that they have asked for and
    won't need soon.
    """

    cpu: Steps
    memory: Steps
    slack: Steps = 0


CONDITION_CODE_MAX = 64
CONDITION_TEXT_MAX = 300


class ConditionState(msgspec.Struct, frozen=True):
    """The result of a check of a host. `bad`: it isn't well; `code`: then the exit code, or what was found, in one
    word; `text`: one line of evidence.
    """

    name: Annotated[str, msgspec.Meta(pattern=rf"^{CONDITION.pattern}\Z")]
    bad: bool
    code: Annotated[str, msgspec.Meta(max_length=CONDITION_CODE_MAX)] = ""
    text: Annotated[str, msgspec.Meta(max_length=CONDITION_TEXT_MAX)] = ""


class Hello(msgspec.Struct):
    """An agent connects: what its host has, which runs it knows, and up to which position it has followed orders of
    which cell and of which log, None and empty: of none yet.
    """

    session: Session
    capacity: Amounts
    sizes: list[str] = []
    """The resources in MiB, beside memory and disk."""
    port_first: Annotated[int, msgspec.Meta(ge=1, le=PORT_MAX)] = 31000
    port_last: Annotated[int, msgspec.Meta(ge=1, le=PORT_MAX)] = 31999
    attributes: dict[str, str] = {}
    runs: Annotated[list[RunState], msgspec.Meta(max_length=HOST_RUNS_MAX)] = []
    position: Long = 0
    cell: int | None = None
    log: Text = ""
    machine: MachineIdentity = MachineIdentity()
    taints: dict[str, str] = {}
    devices: Annotated[list[HostDevice], msgspec.Meta(max_length=HOST_DEVICES_MAX)] = []
    cores: Annotated[
        list[Annotated[int, msgspec.Meta(ge=0, le=NUMA_MAX)]], msgspec.Meta(max_length=HOST_CORES_MAX)
    ] = []
    """The NUMA node of each whole core that tasks may have for themselves; empty: it doesn't say."""


class Welcome(msgspec.Struct):
    """The gateway has taken a session; `position` is how far it has followed its cell, `log` the identity of the log
    that positions are of.
    """

    position: int
    cell: int = 0
    log: str = ""


class SessionRefused(msgspec.Struct):
    """The gateway doesn't take a session; `session` is the newest that it knows, `title` says why and what helps."""

    session: int
    title: str = "a later session of this host is known"


class ExecEnd(msgspec.Struct):
    """The end of a command inside a run whose gateway was lost before it could be told."""

    exec_id: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    job_id: JobId
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=EXIT_CODE_MAX)]
    reason: Text
    instance: Count = 0
    run: Count = 1


class ImageState(msgspec.Struct, frozen=True):
    """Whether an image that a host was to pull is there; `fault`: why not, empty: it is."""

    job_id: JobId
    digest: Annotated[str, msgspec.Meta(pattern=rf"^{DIGEST.pattern}\Z")]
    fault: Text = ""


ImageDigits = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16}\Z")]
"""The first digits of the digest of an image."""


class ReportBatch(msgspec.Struct):
    """Reports of one agent; `number` grows within the session. Without runs it only says that the agent lives."""

    session: Session
    number: Long
    runs: Annotated[list[RunState], msgspec.Meta(max_length=HOST_RUNS_MAX)] = []
    volumes: list[VolumeState] | None = None
    """All that the host has; None: they are as was reported in this session, or there never were any."""
    execs: Annotated[list[ExecEnd], msgspec.Meta(max_length=EXEC_ENDS_MAX)] = []
    images: Annotated[list[ImageState], msgspec.Meta(max_length=IMAGES_MAX)] = []
    held_images: (
        Annotated[list[Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16}\Z")]], msgspec.Meta(max_length=IMAGES_MAX)]
        | None
    ) = None
    """The images that the host has, by their first digits; None: as volumes."""
    load: HostLoad | None = None
    """Where it has changed so much that the cell is to be told."""
    conditions: Annotated[list[ConditionState], msgspec.Meta(max_length=64)] = []
    """Results of checks that have changed. An agent that makes none, as those of 0.3, leaves this out."""
    offer: Hello | None = None
    """The new offer of the host, where that has changed in the session."""


class Acknowledged(msgspec.Struct):
    """Reports up to this number are durable in the log."""

    acknowledged: int


class JobOrder(msgspec.Struct):
    """The part of a job that an agent needs to run its tasks."""

    job_id: str
    pool: str = ""
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    ports: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    alone: bool = False
    """A run starts when no earlier one of its task goes on."""
    stop_signal: str = "TERM"
    open_files: int = 0
    """So many the run may have open; 0: as many as the agent was started with."""
    cpu: int = 0
    """Thousandths of a core that a task asked for, and"""
    memory: int = 0
    """bytes; and of"""
    disk: int = 0
    """bytes."""
    revocable: bool = False
    """Its runs have what others leave of the CPU, and"""
    preemptible: bool = False
    """end first where memory is short: those of the lowest"""
    priority: int = 0
    batch: bool = False
    """They end by themselves: what such a run uses at first says what it needs."""
    isolation: Isolation | None = None
    stop_grace_ms: int = 10_000
    stop_after_ms: int = 0
    """Stop the run after so long without contact to the cell; 0: never."""
    health: HealthCheck | None = None
    secrets: tuple[Secret, ...] = ()
    gang: str = ""
    """Where the members of its gang are, see `gang_members.packed`."""
    run_token: bool = False
    """Each run gets a token of its own, beside its secrets."""


class DeviceOrder(msgspec.Struct):
    """A device of a run, of which it has so many thousandths and MiB."""

    id: str
    milli: Count = 1000
    memory: Count = 0


class RunOrder(msgspec.Struct, array_like=True):
    """One item of orders; `job` indexes the jobs of its line."""

    kind: OrderKind
    job: Count
    instance: Count
    run: Count
    ports: tuple[int, ...] = ()
    devices: tuple[DeviceOrder, ...] = ()
    cores: tuple[Count, ...] = ()
    """The numbers of the whole cores that it has for itself."""


class OrdersLine(msgspec.Struct, tag="orders", tag_field="kind"):
    """`Orders` for one host, as a line of the stream."""

    position: int
    whole: bool
    jobs: list[JobOrder]
    items: list[RunOrder]


class LogLine(msgspec.Struct, tag="log", tag_field="kind"):
    """Asks for a piece of a run's output, answered under `request`; the rest is an `OutputAsk`."""

    request: str
    job_id: str
    instance: int
    run: int
    stream: str
    offset: int
    limit: int
    wait_ms: int = 0
    other_offset: int = -1


class ExecLine(msgspec.Struct, tag="exec", tag_field="kind"):
    """Asks for a command inside a run. The agent gets what its user types by `execs/REQUEST/down`, and sends what it
    writes by `execs/REQUEST/up`, both in frames (`paceline.client.exec_frames`).
    """

    request: str
    job_id: str
    instance: int
    run: int
    command: tuple[str, ...]
    terminal: bool = False
    rows: Cells = 0
    columns: Cells = 0
    port: Port = 0
    """In place of a command: a connection to this port of the run, by the address that only its host has."""


class UsageLine(msgspec.Struct, tag="usage", tag_field="kind"):
    """Asks for what runs use now, answered under `request` by a `HostUsage`."""

    request: str
    job_id: str = ""
    """Empty: the runs of all jobs."""


class RunUsage(msgspec.Struct):
    """The use of a live run. `cpu_milli`: thousandths of a core in the last five seconds; `idle_s`: for so long it has
    used less than a fiftieth of the CPU that it asked for, 0: it asked for none, or uses it; `forks_refused`: so often
    its limit of processes has kept it from starting one.
    """

    job_id: str
    instance: int
    run: int
    cpu_milli: int
    cpu_ms: int
    memory_kib: int
    peak_kib: int
    asked_cpu_milli: int
    asked_memory_kib: int
    throttled_ms: int = 0
    read_kib: int = 0
    written_kib: int = 0
    idle_s: int = 0
    forks_refused: int = 0


class HostUsage(msgspec.Struct):
    """The use of a host by its runs, and how long ago it was measured."""

    age_ms: int
    cpu_milli: int
    memory_kib: int
    runs: list[RunUsage]


class RemoveVolumesLine(msgspec.Struct, tag="remove_volumes", tag_field="kind"):
    """Asks for the end of volumes. The agent then says which it has."""

    volumes: list[VolumeState]


class WantedImage(msgspec.Struct, frozen=True):
    """An image that is to be on a host, and the job that it is for."""

    job_id: str
    name: str
    digest: str


class ImagesLine(msgspec.Struct, tag="images", tag_field="kind"):
    """Asks for images to be pulled. The agent says of each what has come of it (`ImageState`)."""

    images: list[WantedImage]


class PingLine(msgspec.Struct, tag="ping", tag_field="kind"):
    """The gateway lives."""


Line = OrdersLine | LogLine | ExecLine | UsageLine | RemoveVolumesLine | ImagesLine | PingLine
Asked = LogLine | ExecLine | UsageLine | RemoveVolumesLine | ImagesLine
"""The lines that ask a host for something, beside orders."""


class LogPage(NamedTuple):
    """A piece of a run's output. `offset` is where it begins in all that was written, later than asked for where the
    piece asked for was dropped; `next_offset` is where to go on; `ended`: nothing more will come. `end`: how much the
    stream has by now, `other_end`: the other one; negative: an older agent doesn't say. `lost`: the bytes of both that
    the disk of the host didn't take, known once the run has ended.
    """

    offset: int
    data: bytes
    next_offset: int
    ended: bool
    end: int = -1
    other_end: int = -1
    lost: int = 0


def page_headers(page: LogPage | None) -> dict[str, str]:
    """The headers beside the bytes of a page; None: there is none."""
    if page is None:
        return {"Log-Found": "0"}
    return {
        "Log-Found": "1",
        "Log-Offset": str(page.offset),
        "Log-Next-Offset": str(page.next_offset),
        "Log-Ended": str(int(page.ended)),
        "Log-End": str(page.end),
        "Log-Other-End": str(page.other_end),
        "Log-Lost": str(page.lost),
    }


def page_of(headers: Mapping[str, str], data: bytes) -> LogPage | None:
    """The page that headers and bytes make; None: there is none. Raises `KeyError`, `ValueError`."""
    if headers.get("log-found") != "1":
        return None
    first, following = int(headers["log-offset"]), int(headers["log-next-offset"])
    if not 0 <= first <= following < 2**63:
        raise ValueError("no offsets")
    ends = int(headers.get("log-end", -1)), int(headers.get("log-other-end", -1)), int(headers.get("log-lost", 0))
    return LogPage(first, data, following, headers.get("log-ended") == "1", *ends)


def line(orders: Orders) -> OrdersLine:
    """The line for orders to a single host."""
    used, index = indexed(orders.job)
    gangs = orders.gangs or ("",) * len(orders.jobs)
    specs = [(orders.job_ids[at], orders.jobs[at], gangs[at]) for at in used.tolist()]
    jobs = [JobOrder(job_id) if spec is None else _job_order(spec, gang) for job_id, spec, gang in specs]
    columns = (orders.kind.tolist(), index.tolist(), orders.instance.tolist(), orders.run.tolist())
    ports = orders.ports.tolist() if orders.ports.size else [()] * len(index)
    devices = orders.devices or [()] * len(index)
    items = [
        RunOrder(OrderKind(kind), job, instance, run, tuple(row[: len(jobs[job].ports)]), *_devices_and_cores(mine))
        for kind, job, instance, run, row, mine in zip(*columns, ports, devices, strict=True)
    ]
    return OrdersLine(orders.position, orders.whole, jobs, items)


def _devices_and_cores(devices: RunDevices) -> tuple[tuple[DeviceOrder, ...], tuple[int, ...]]:
    if not devices:
        return (), ()
    cores = tuple(int(each.id.removeprefix(CORE)) for each in devices if each.id.startswith(CORE))
    return tuple(DeviceOrder(*each) for each in devices if not each.id.startswith(CORE)), cores


def _job_order(spec: JobSubmitted, gang: str) -> JobOrder:
    return JobOrder(
        job_id=spec.job_id,
        pool=spec.pool,
        command=spec.command,
        env=spec.env,
        ports=spec.ports,
        volumes=spec.volumes,
        alone=spec.kind == "stateful",
        stop_signal=spec.stop_signal,
        open_files=spec.open_files,
        cpu=spec.resources.get("cpu", 0),
        memory=spec.resources.get("memory", 0) << 20,
        disk=spec.resources.get("disk", 0) << 20,
        revocable=spec.revocable,
        preemptible=spec.preemptible,
        priority=spec.priority,
        batch=spec.kind == "batch",
        isolation=spec.isolation,
        stop_grace_ms=spec.stop_grace_ms,
        stop_after_ms=max(1, spec.stop_after_ms) if spec.on_silence == "stop_after" else 0,
        health=spec.health,
        secrets=spec.secrets,
        gang=gang,
        run_token=spec.run_token,
    )
