"""The records of `schemas/tasks`. Written by `python -m tools.records`; do not edit."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from events.columns import I32, I64, INT32, INT64, Values, pack_ints, pack_longs, pack_unless
from events.records.base import Event, ItemsEvent
from events.records.parts import Actor


class ExecClosed(Event, frozen=True, kw_only=True):
    """A user is out of a run again: their command and all that it had started has ended."""

    topic: ClassVar[str] = "paceline.tasks"

    exec_id: str
    """The session, as its ExecOpened names it."""

    job_id: str
    """The job."""

    exit_code: int
    """Exit code of the command; 128 + n after signal n; 255 where it isn't known."""

    reason: str = ""
    """Why it ended, where it didn't end by itself."""

    bytes_in: int = 0
    """Bytes that went to the command."""

    bytes_out: int = 0
    """Bytes that came from it."""


class ExecOpened(Event, frozen=True, kw_only=True):
    """A user enters a run: a command of theirs starts inside it."""

    topic: ClassVar[str] = "paceline.tasks"

    exec_id: str
    """Names the session, 32 hexadecimal digits that nobody can guess."""

    host_id: str
    """The host of the run."""

    job_id: str
    """The job."""

    instance: int
    """Instance of the job, from 0."""

    run: int
    """Number of the run, from 1."""

    command: tuple[str, ...]
    """Program and arguments; port-forward and a number: a connection to that port of the run."""

    terminal: bool = False
    """Whether it has a terminal."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class HostInventory(ItemsEvent, frozen=True, kw_only=True):
    """All runs that an agent knows when it connects."""

    topic: ClassVar[str] = "paceline.tasks"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "job": INT32,
        "instance": INT32,
        "run": INT32,
        "state": INT32,
        "exit_code": INT32,
    }

    host_id: str
    """The host."""

    session: int
    """Number of the connection of the agent of that host, growing."""

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0. Column of int32."""

    run: bytes
    """Number of the run, from 1. Column of int32."""

    state: bytes
    """1 started, 2 exited by itself, 3 stopped by order, 4 could not start, 5 stopped because the cell was silent, 6
    healthy, 7 unhealthy, 8 how it ended is not known, 9 still there though it was killed by order, 10 could not
    start and cannot there. Column of int32.
    """

    exit_code: bytes
    """Exit code of the process; 128 + n after signal n; 0 while it runs. Column of int32."""

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
    def state_array(self) -> I32:
        return np.frombuffer(self.state, INT32, len(self.state) // 4)

    @property
    def exit_code_array(self) -> I32:
        return np.frombuffer(self.exit_code, INT32, len(self.exit_code) // 4)

    @classmethod
    def pack(
        cls,
        *,
        host_id: str,
        session: int,
        job_ids: tuple[str, ...],
        job: Values,
        instance: Values,
        run: Values,
        state: Values,
        exit_code: Values,
    ) -> Self:
        return cls(
            host_id=host_id,
            session=session,
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            run=pack_ints(run),
            state=pack_ints(state),
            exit_code=pack_ints(exit_code),
        )


class ImagePrefetched(Event, frozen=True, kw_only=True):
    """An agent has pulled an image that it was told to, or can't."""

    topic: ClassVar[str] = "paceline.tasks"

    host_id: str
    """The host."""

    session: int
    """Session in which it said so."""

    job_id: str
    """The job that it is for."""

    image_digest: str
    """The digest of the image: sha256:HEX."""

    fault: str = ""
    """Why it isn't there; empty: it is."""


class RunsReported(ItemsEvent, frozen=True, kw_only=True):
    """A batch of reports of runs from one gateway."""

    topic: ClassVar[str] = "paceline.tasks"

    columns: ClassVar[Mapping[str, np.dtype[Any]]] = {
        "host_session": INT64,
        "job": INT32,
        "instance": INT32,
        "run": INT32,
        "host": INT32,
        "state": INT32,
        "exit_code": INT32,
        "reason": INT32,
        "signal": INT32,
        "out_of_memory": INT32,
        "cpu_ms": INT64,
        "memory_kib": INT64,
        "throttled_ms": INT64,
        "read_kib": INT64,
        "written_kib": INT64,
    }

    gateway: str
    """The gateway."""

    host_ids: tuple[str, ...]
    """The hosts named by the column host."""

    host_session: bytes = b""
    """Session of each host of host_ids in which this was reported. Empty: not known, taken for the present one. Column
    of int64.
    """

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of int32."""

    instance: bytes
    """Instance of the job, from 0. Column of int32."""

    run: bytes
    """Number of the run, from 1. Column of int32."""

    host: bytes
    """Index into host_ids. Column of int32."""

    state: bytes
    """1 started, 2 exited by itself, 3 stopped by order, 4 could not start, 5 stopped because the cell was silent, 6
    healthy, 7 unhealthy, 8 how it ended is not known, 9 still there though it was killed by order, 10 could not
    start and cannot there. Column of int32.
    """

    exit_code: bytes
    """Exit code of the process; 128 + n after signal n; 0 while it runs. Column of int32."""

    reasons: tuple[str, ...] = ()
    """Texts named by the column reason."""

    reason: bytes = b""
    """Index into reasons plus 1, 0: none. Empty: none at all. Column of int32."""

    signal: bytes = b""
    """Signal that ended the process; 0: none. Empty: 0 for all. Column of int32."""

    out_of_memory: bytes = b""
    """1: the kernel killed the process for want of memory, as far as the agent can tell. Empty: 0 for all. Column of
    int32.
    """

    cpu_ms: bytes = b""
    """CPU time that the run has used: its control group where it has one, else its process and those that this waited
    for. Empty: not known. Column of int64.
    """

    memory_kib: bytes = b""
    """Most memory that its control group had at a time; without one that of its processes when they were measured, or
    of one of them. Empty: not known. Column of int64.
    """

    throttled_ms: bytes = b""
    """Time for which the run was held back by its cpu_limit. Empty: 0 for all, or not known. Column of int64."""

    read_kib: bytes = b""
    """KiB that it read from disks. Empty: 0 for all, or not known. Column of int64."""

    written_kib: bytes = b""
    """KiB that it wrote to disks. Empty: 0 for all, or not known. Column of int64."""

    @property
    def host_session_array(self) -> I64:
        return np.frombuffer(self.host_session, INT64, len(self.host_session) // 8)

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
    def state_array(self) -> I32:
        return np.frombuffer(self.state, INT32, len(self.state) // 4)

    @property
    def exit_code_array(self) -> I32:
        return np.frombuffer(self.exit_code, INT32, len(self.exit_code) // 4)

    @property
    def reason_array(self) -> I32:
        if self.reason:
            return np.frombuffer(self.reason, INT32, len(self.reason) // 4)
        return np.full(len(self.job) // 4, 0, INT32)

    @property
    def signal_array(self) -> I32:
        if self.signal:
            return np.frombuffer(self.signal, INT32, len(self.signal) // 4)
        return np.full(len(self.job) // 4, 0, INT32)

    @property
    def out_of_memory_array(self) -> I32:
        if self.out_of_memory:
            return np.frombuffer(self.out_of_memory, INT32, len(self.out_of_memory) // 4)
        return np.full(len(self.job) // 4, 0, INT32)

    @property
    def cpu_ms_array(self) -> I64:
        if self.cpu_ms:
            return np.frombuffer(self.cpu_ms, INT64, len(self.cpu_ms) // 8)
        return np.full(len(self.job) // 4, 0, INT64)

    @property
    def memory_kib_array(self) -> I64:
        if self.memory_kib:
            return np.frombuffer(self.memory_kib, INT64, len(self.memory_kib) // 8)
        return np.full(len(self.job) // 4, 0, INT64)

    @property
    def throttled_ms_array(self) -> I64:
        if self.throttled_ms:
            return np.frombuffer(self.throttled_ms, INT64, len(self.throttled_ms) // 8)
        return np.full(len(self.job) // 4, 0, INT64)

    @property
    def read_kib_array(self) -> I64:
        if self.read_kib:
            return np.frombuffer(self.read_kib, INT64, len(self.read_kib) // 8)
        return np.full(len(self.job) // 4, 0, INT64)

    @property
    def written_kib_array(self) -> I64:
        if self.written_kib:
            return np.frombuffer(self.written_kib, INT64, len(self.written_kib) // 8)
        return np.full(len(self.job) // 4, 0, INT64)

    @classmethod
    def pack(
        cls,
        *,
        gateway: str,
        host_ids: tuple[str, ...],
        host_session: Values | None = None,
        job_ids: tuple[str, ...],
        job: Values,
        instance: Values,
        run: Values,
        host: Values,
        state: Values,
        exit_code: Values,
        reasons: tuple[str, ...] = (),
        reason: Values | None = None,
        signal: Values | None = None,
        out_of_memory: Values | None = None,
        cpu_ms: Values | None = None,
        memory_kib: Values | None = None,
        throttled_ms: Values | None = None,
        read_kib: Values | None = None,
        written_kib: Values | None = None,
    ) -> Self:
        return cls(
            gateway=gateway,
            host_ids=host_ids,
            host_session=b"" if host_session is None else pack_longs(host_session),
            job_ids=job_ids,
            job=pack_ints(job),
            instance=pack_ints(instance),
            run=pack_ints(run),
            host=pack_ints(host),
            state=pack_ints(state),
            exit_code=pack_ints(exit_code),
            reasons=reasons,
            reason=b"" if reason is None else pack_ints(reason),
            signal=b"" if signal is None else pack_ints(signal),
            out_of_memory=b"" if out_of_memory is None else pack_ints(out_of_memory),
            cpu_ms=b"" if cpu_ms is None else pack_longs(cpu_ms),
            memory_kib=b"" if memory_kib is None else pack_longs(memory_kib),
            throttled_ms=b"" if throttled_ms is None else pack_unless(throttled_ms, 0, INT64),
            read_kib=b"" if read_kib is None else pack_unless(read_kib, 0, INT64),
            written_kib=b"" if written_kib is None else pack_unless(written_kib, 0, INT64),
        )


class SecretDeleted(Event, frozen=True, kw_only=True):
    """A user has deleted versions of a secret: no run gets them any more."""

    topic: ClassVar[str] = "paceline.tasks"

    name: str
    """The secret."""

    versions: tuple[int, ...]
    """The versions that were there and are deleted."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


class SecretPut(Event, frozen=True, kw_only=True):
    """A user has stored the next version of a secret. Its value is in no record."""

    topic: ClassVar[str] = "paceline.tasks"

    name: str
    """The secret."""

    version: int
    """Number of the version, from 1."""

    digest: str
    """Digest of what is stored, as jobs name it; it tells nothing of the value."""

    pool: str = "/"
    """The pool whose jobs, and those of pools below it, may name the secret; / for all."""

    actor: Actor | None = None
    """Who wrote it; null: not said."""


ALL: tuple[type[Event], ...] = (
    ExecClosed,
    ExecOpened,
    HostInventory,
    ImagePrefetched,
    RunsReported,
    SecretDeleted,
    SecretPut,
)
