"""The use of hosts by runs in the API's answers: CPU in thousandths of a core, memory in KiB."""

from typing import TypedDict


class RunUsage(TypedDict):
    """The use of a live run, as its host measured it within the last five seconds. `idle_s`: for so long it has used
    less than a fiftieth of the CPU that it asked for, as far as the agent has seen; `forks_refused`: so often its limit
    of processes has kept it from starting one.
    """

    job_id: str
    instance: int
    run: int
    cpu_milli: int
    asked_cpu_milli: int
    memory_kib: int
    asked_memory_kib: int
    peak_kib: int
    cpu_ms: int
    throttled_ms: int
    read_kib: int
    written_kib: int
    idle_s: int
    forks_refused: int


class PlacedRunUsage(RunUsage):
    """The same, and its host."""

    host_id: str


class SilentHost(TypedDict):
    """A host that didn't say what its runs use."""

    host_id: str
    reason: str


class JobUsage(TypedDict):
    """The use of the live runs of a job. `hosts_left_out`: so many more hosts have runs, and weren't asked."""

    job_id: str
    runs: list[PlacedRunUsage]
    silent: list[SilentHost]
    hosts_left_out: int


class MeasuredUsage(TypedDict):
    """The use of a host by its runs, by its agent, and how long ago it was measured."""

    age_ms: int
    cpu_milli: int
    memory_kib: int
    runs: list[RunUsage]


class HostUsage(MeasuredUsage):
    """The same, and which host that is."""

    host_id: str


class UsageSum(TypedDict):
    """The runs of a job, a pool, an owner or a month that have ended: what they asked for and used.

    What isn't summed by is None; a job has its pool and owner. `measured_runs`: of so many hosts said what they used;
    `run_s`: seconds for which runs held their hosts. Memory is summed as MiB times seconds, where what a run used is
    the most that it had at a time; `peak_memory_kib` is the largest of these.
    """

    job_id: str | None
    pool: str | None
    owner: str | None
    month: str | None
    runs: int
    measured_runs: int
    run_s: int
    asked_cpu_ms: int
    used_cpu_ms: int
    asked_memory_mib_s: int
    peak_memory_mib_s: int
    peak_memory_kib: int
    throttled_ms: int
    read_kib: int
    written_kib: int


class UsageSums(TypedDict):
    """Sums by job, pool, owner or month; `more`: there are more than were asked for."""

    usage: list[UsageSum]
    more: bool
