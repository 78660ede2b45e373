"""The runs that lifecycle tells hosts of, and what hosts say of them, for hosts that are a part of a branch."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from events.codes import TaskState
from events.records.lifecycle import RunsOrdered, RunsStopping
from events.records.tasks import RunsReported
from processors.lifecycle.machine import Lifecycle

STOPPED_CODE = 143
"""The exit code of what is told to stop."""


RunId = tuple[str, int, int]
"""Job, instance, run."""


class HostRun(NamedTuple):
    """A run on a host."""

    id: RunId
    host_id: str


class Report(NamedTuple):
    """A report of a host about a run: `RunReport`, and the exit code."""

    of: HostRun
    report: int
    code: int = 0


def runs_of(event: RunsOrdered | RunsStopping) -> list[HostRun]:
    """The runs that a decision names."""
    columns = (column.tolist() for column in (*event.items(), event.host_array))
    return [
        HostRun((event.job_ids[job], instance, run), event.host_ids[host])
        for job, instance, run, host in zip(*columns, strict=True)
    ]


def runs_on_hosts(lifecycle: Lifecycle, states: Collection[TaskState]) -> Iterator[tuple[HostRun, int]]:
    """The runs whose tasks have one of some states now, with that."""
    arena = lifecycle.tasks.arena
    slots = np.flatnonzero(np.isin(arena["state"], [*states]))
    if not len(slots):
        return
    names = {row.base: job_id for job_id, row in lifecycle.jobs.items()}
    rows = arena.rows(slots, "owner", "run", "host", "state")
    for slot, (owner, run, host, state) in zip(slots.tolist(), rows, strict=True):
        yield HostRun((names[owner - 1], slot - owner + 1, run), lifecycle.hosts.named(host)[0]), state


def reported(gateway: str, reports: Sequence[Report]) -> RunsReported:
    """The fact that hosts say so."""
    jobs = {job_id: at for at, job_id in enumerate(dict.fromkeys(each.of.id[0] for each in reports))}
    hosts = {host_id: at for at, host_id in enumerate(dict.fromkeys(each.of.host_id for each in reports))}
    return RunsReported.pack(
        gateway=gateway,
        host_ids=tuple(hosts),
        host_session=[],
        job_ids=tuple(jobs),
        job=[jobs[each.of.id[0]] for each in reports],
        instance=[each.of.id[1] for each in reports],
        run=[each.of.id[2] for each in reports],
        host=[hosts[each.of.host_id] for each in reports],
        state=[each.report for each in reports],
        exit_code=[each.code for each in reports],
    )
