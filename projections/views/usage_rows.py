"""The rows of what jobs asked for and used. See `usage.py`."""

import msgspec


class JobUsageRow(msgspec.Struct):
    """The runs of a job that ended in a month (202611: November 2026), until the job is forgotten.

    `measured`: of so many of the `runs` hosts said what they used. `seconds`: for which they held their hosts. Amounts
    asked for and used are sums over runs of CPU time in ms, and of memory, in MiB, times seconds, where what a run used
    is the most that it had at a time; `peak_kib` is the largest of these.
    """

    job_id: str
    month: int
    runs: int = 0
    measured: int = 0
    seconds: int = 0
    asked_cpu_ms: int = 0
    asked_mib_s: int = 0
    used_cpu_ms: int = 0
    peak_mib_s: int = 0
    peak_kib: int = 0
    throttled_ms: int = 0
    read_kib: int = 0
    written_kib: int = 0


class MonthUsageRow(msgspec.Struct):
    """The same of all jobs of a pool that an owner has, for ever."""

    month: int
    pool: str
    owner: str
    runs: int = 0
    measured: int = 0
    seconds: int = 0
    asked_cpu_ms: int = 0
    asked_mib_s: int = 0
    used_cpu_ms: int = 0
    peak_mib_s: int = 0
    peak_kib: int = 0
    throttled_ms: int = 0
    read_kib: int = 0
    written_kib: int = 0
