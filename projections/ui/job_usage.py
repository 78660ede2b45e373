"""The use of CPU and memory by the ended runs of a job, beside what they asked for, in words."""

from sqlalchemy import Connection

from projections.queries.usage import job_usage
from projections.ui.format import counted, grouped, short


def used_by(connection: Connection, job_id: str) -> str:
    """`1.5 s of 10 s CPU, memory at most 50 of 512 MiB, in 1 run`; empty: no host has measured one."""
    sums = job_usage(connection, job_id)
    if sums is None or not sums["measured_runs"]:
        return ""
    text = f"{short(sums['used_cpu_ms'] / 1000)} s of {short(sums['asked_cpu_ms'] / 1000)} s CPU"
    asked_mib = round(sums["asked_memory_mib_s"] / max(1, sums["run_s"]))
    text += f", memory at most {grouped(round(sums['peak_memory_kib'] / 1024))} of {grouped(asked_mib)} MiB"
    text += f", in {counted(sums['runs'], 'run')}"
    unmeasured = sums["runs"] - sums["measured_runs"]
    return f"{text}, {grouped(unmeasured)} of them not measured" if unmeasured else text
