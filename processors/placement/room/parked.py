"""Parked units: entitled, but they hold nothing under limits while they have no place, so that this is lent.

Entitlement ranks a unit so; it is parked once placement has said so, which no placement crosses. From then on it asks
before it is placed: the hosts are held for it until what was lent has left, and it is ranked as before.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from events.columns import I64, Names, counted
from events.ranks import Rank
from events.records.placement import GangsParked, PreemptionAsked
from processors.placement.runs import Runs
from processors.state.causes import CauseRow, recorded

MayAsk = Callable[[int], bool]
"""Whether a unit may ask now, by the slot of its first task: it has no plan, and wasn't refused just now."""


class Found(NamedTuple):
    """A parked unit that has a place: its tasks, and for each of its shapes a host per task."""

    job_id: str
    slots: I64
    hosts: list[I64]
    alternative: int
    """The alternative by which they fit there; -1: they have only one request."""
    passed: tuple[str, ...]
    """Why they find no place by those before it."""


def parked(runs: Runs) -> GangsParked | None:
    """The units that are to be parked; None: there are none."""
    waits, names = runs.waits, Names()
    rows: list[tuple[int, int, int, int, int]] = []
    for rank, tasks in waits.in_order():
        if rank != Rank.PARKING:
            continue
        row, slots = runs.jobs[tasks.job_id], waits.slots(rank, tasks)
        gang = row.in_gang(tasks.first)
        run = runs.arena["waiting"][slots]
        breaks = np.ones(len(slots), dtype=np.bool_)
        breaks[1:] = (np.diff(slots) != 1) | (np.diff(run) != 0)
        first = np.flatnonzero(breaks)
        for at, count in zip(first.tolist(), np.diff(np.append(first, len(slots))).tolist(), strict=True):
            rows.append((names[tasks.job_id], int(slots[at]) - row.base, count, int(run[at]), int(gang)))
    if not rows:
        return None
    job, starts, count, runs_at, gangs = zip(*rows, strict=True)
    return GangsParked.pack(job_ids=names.all(), job=job, first=starts, count=count, run=runs_at, gang=gangs)


def asked(runs: Runs, host_ids: list[str], request: Found, last_by: CauseRow | None) -> PreemptionAsked:
    """The request of a parked unit that has a place: nobody has to leave these hosts."""
    places = [
        (host, part, tasks)
        for part, hosts in enumerate(request.hosts)
        for host, tasks in zip(*map(np.ndarray.tolist, counted(hosts)), strict=True)
    ]
    first = int(request.slots[0])
    return PreemptionAsked.pack(
        job_id=request.job_id,
        first=first - runs.jobs[request.job_id].base,
        count=len(request.slots),
        run=int(runs.arena["waiting"][first]),
        host_ids=tuple(host_ids[host] for host, _, _ in places),
        tasks=[tasks for _, _, tasks in places],
        shape=[part for _, part, _ in places],
        job_ids=(),
        job=(),
        instance=(),
        victim_run=(),
        way=(),
        alternative=request.alternative,
        passed_codes=request.passed,
        cause=recorded(last_by),
    )
