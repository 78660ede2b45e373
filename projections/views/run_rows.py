"""The rows of what is kept of runs and their ends beside the columns of tasks. See `rows.py`."""

import msgspec


class RunDevicesRow(msgspec.Struct):
    """The devices of the last run of a task that had some, as lifecycle has ordered it; others have no row."""

    job_id: str
    instance: int
    run: int
    host_id: str
    live: int
    """1: the run isn't over."""
    devices: str
    """Ids, thousandths and MiB, in JSON."""


class RunNeedsRow(msgspec.Struct):
    """The amounts that the present run of a task holds, where these aren't what its job asks in that version."""

    job_id: str
    instance: int
    need: str
    """In JSON."""


class RunReportRow(msgspec.Struct):
    """The report of a host about a run beside its state, owned by the topic of tasks: why, and how the process ended
    and what it used, as in RunsReported. `offset` is where that stands; several reports of a run may say something.
    """

    job_id: str
    instance: int
    run: int
    offset: int
    host_id: str
    """The host that says so. What isn't said by the host of the run goes as soon as lifecycle has read it."""
    state: int
    reason: str
    signal: int
    out_of_memory: int
    cpu_ms: int
    memory_kib: int
    throttled_ms: int
    read_kib: int
    written_kib: int
    exit_code: int = -1
    """That of a run that was told to end; -1: decisions say it."""


class PastRunRow(msgspec.Struct):
    """A run that another one of its task came after: the number of the host that it was ordered on, its version, how
    it ended and by what, and when it was ordered, available, 0 for never, and over.
    """

    job_id: str
    instance: int
    run: int
    host: int
    version: int
    outcome: int
    exit_code: int
    ordered_s: int
    started_s: int
    ended_s: int
    why: int
    """The cause of its end, a `RunCause`."""


class StopRow(msgspec.Struct):
    """That a user stopped a job, or instances of it: `first` and `count` are int32 columns of ranges, empty: all. The
    newest of a job are kept; `place` is the number of the stop modulo how many.
    """

    job_id: str
    place: int
    at_ms: int
    reason: str
    first: bytes
    count: bytes
