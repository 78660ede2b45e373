"""The records of `schemas/tasks`. Written by `python -m tools.records`; do not edit."""

from typing import ClassVar

from events.records.base import Event


class HostInventory(Event, frozen=True, kw_only=True):
    """All runs that an agent knows when it connects."""

    topic: ClassVar[str] = "paceline.tasks"

    host_id: str
    """The host."""

    session: int
    """Number of the connection of the agent of that host, growing."""

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of little-endian int32."""

    instance: bytes
    """Instance of the job, from 0. Column of little-endian int32."""

    run: bytes
    """Number of the run, from 1. Column of little-endian int32."""

    state: bytes
    """1 started, 2 exited by itself, 3 stopped by order, 4 could not start, 5 stopped because the cell was silent, 6
    healthy, 7 unhealthy, 8 how it ended is not known, 9 still there though it was killed by order, 10 could not
    start and cannot there. Column of little-endian int32.
    """

    exit_code: bytes
    """Exit code of the process; 128 + n after signal n; 0 while it runs. Column of little-endian int32."""


class RunsReported(Event, frozen=True, kw_only=True):
    """A batch of reports of runs from one gateway."""

    topic: ClassVar[str] = "paceline.tasks"

    gateway: str
    """The gateway."""

    host_ids: tuple[str, ...]
    """The hosts named by the column host."""

    host_session: bytes = b""
    """Session of each host of host_ids in which this was reported. Column of little-endian int64; empty: not known,
    taken for the present one.
    """

    job_ids: tuple[str, ...]
    """The jobs named by the column job."""

    job: bytes
    """Index into job_ids. Column of little-endian int32."""

    instance: bytes
    """Instance of the job, from 0. Column of little-endian int32."""

    run: bytes
    """Number of the run, from 1. Column of little-endian int32."""

    host: bytes
    """Index into host_ids. Column of little-endian int32."""

    state: bytes
    """1 started, 2 exited by itself, 3 stopped by order, 4 could not start, 5 stopped because the cell was silent, 6
    healthy, 7 unhealthy, 8 how it ended is not known, 9 still there though it was killed by order, 10 could not
    start and cannot there. Column of little-endian int32.
    """

    exit_code: bytes
    """Exit code of the process; 128 + n after signal n; 0 while it runs. Column of little-endian int32."""

    reasons: tuple[str, ...] = ()
    """Texts named by the column reason."""

    reason: bytes = b""
    """Index into reasons plus 1, 0: none. Column of little-endian int32; empty: none at all."""

    signal: bytes = b""
    """Signal that ended the process; 0: none. Column of little-endian int32; empty: 0 for all."""

    out_of_memory: bytes = b""
    """1: the kernel killed the process for want of memory, as far as the agent can tell. Column of little-endian
    int32; empty: 0 for all.
    """

    cpu_ms: bytes = b""
    """CPU time that the process and those that it waited for have used. Column of little-endian int64; empty: not
    known.
    """

    memory_kib: bytes = b""
    """Most memory that one of these processes had at a time. Column of little-endian int64; empty: not known."""


ALL: tuple[type[Event], ...] = (
    HostInventory,
    RunsReported,
)
